package train

// Passes over a split: the part that training, evaluation and prediction share.

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/goagnes/goagnes/goagnes/nn"
	"github.com/goagnes/goagnes/kernels"
)

// A runner feeds minibatches to a network, in an arena that grows as needed.
type runner struct {
	source    Source
	engine    *kernels.Engine
	network   *nn.Network
	model     *nn.Model
	memory    *memory
	normalize string

	arena []float32
	peak  int64 // bytes of the largest arena needed
}

// each opens a split and calls f for each minibatch, released afterwards. wait
// collects the seconds spent waiting for data.
func (r *runner) each(ctx context.Context, split string, pass Pass, wait *float64, f func(*Batch) error) (err error) {
	at := time.Now()
	stream, err := r.source.Open(ctx, split, pass)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stream.Close()) }()
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		b, err := stream.Next(ctx)
		lap(&at, wait)
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		err = f(b)
		b.release()
		if err == nil {
			err = ctx.Err() // a stopped engine leaves nothing to rely on
		}
		if err != nil {
			return err
		}
		at = time.Now()
	}
}

// forward computes the logits of b's seeds.
func (r *runner) forward(b *Batch, mode nn.Mode) (kernels.Matrix, error) {
	in := nn.Batch{NodesPerHop: b.NodesPerHop, Ptr: b.Ptr, Src: b.Src, Degree: b.Degree}
	rows, wide := b.numNodes(), 0
	if direct(b.XDType) {
		in.X = b.features()
	} else {
		wide = rows * b.Dim
		in.X = kernels.Input{Rows: rows, Cols: b.Dim, Stride: b.Dim} // its elements follow
	}
	bytes, err := r.network.ArenaBytes(in, mode.Train)
	if err != nil {
		return kernels.Matrix{}, err
	}
	scales, pass := 0, int(bytes/4)
	if divides(r.normalize) {
		scales = rows
	}
	if err := r.reserve(pass + wide + scales); err != nil {
		return kernels.Matrix{}, err
	}
	rest := r.arena[pass:]
	if wide > 0 {
		in.X.F32, rest = rest[:wide], rest[wide:]
		if err := widen(in.X.F32, b); err != nil {
			return kernels.Matrix{}, err
		}
	}
	if divides(r.normalize) {
		in.X.Scale = rest[:scales]
		r.scale(in.X)
	}
	r.network.SetArena(r.arena[:pass])
	return r.network.Forward(in, mode)
}

// divides reports whether rows are divided by something.
func divides(normalize string) bool { return normalize == NormalizeRow || normalize == NormalizeL2 }

// scale sets the rows' factors. A row of zeros stays.
func (r *runner) scale(x kernels.Input) {
	if r.normalize == NormalizeL2 {
		r.engine.RowNorms(x.Scale, x)
		for i, norm := range x.Scale {
			if norm > 0 {
				x.Scale[i] = 1 / norm
			}
		}
		return
	}
	r.engine.RowSums(x.Scale, x)
	for i, sum := range x.Scale {
		x.Scale[i] = 1 / max(sum, 1)
	}
}

// reserve makes the arena hold n floats. A new one is an eighth larger than
// asked, where memory allows, so that growing ends soon.
func (r *runner) reserve(n int) error {
	r.peak = max(r.peak, int64(n)*4)
	if n <= len(r.arena) {
		return nil
	}
	r.free()
	for _, size := range []int{n + n/8, n} {
		arena, err := r.memory.Allocate(size)
		if err == nil {
			r.arena = arena
			return nil
		}
		if size == n {
			return err
		}
	}
	return nil
}

// free gives the arena back.
func (r *runner) free() {
	if r.arena != nil {
		r.network.SetArena(nil)
		r.memory.Free(r.arena)
		r.arena = nil
	}
}

// means returns mean loss and accuracy, nil where nothing is labelled.
func means(l kernels.Loss) (loss, accuracy *float64) {
	if l.Labelled == 0 {
		return nil, nil
	}
	n := float64(l.Labelled)
	mean, right := l.Sum/n, float64(l.Correct)/n
	return &mean, &right
}

// add adds the loss of one minibatch to that of a pass.
func add(total *kernels.Loss, l kernels.Loss) {
	total.Sum += l.Sum
	total.Labelled += l.Labelled
	total.Correct += l.Correct
}

// evaluate scores a split with the weights as they are.
func (r *runner) evaluate(ctx context.Context, split string, pass Pass) (total kernels.Loss, err error) {
	var wait float64
	err = r.each(ctx, split, pass, &wait, func(b *Batch) error {
		if _, err := b.check(r.model.Config.Classes); err != nil {
			return err
		}
		z, err := r.forward(b, nn.Mode{})
		if err != nil || ctx.Err() != nil {
			return err
		}
		add(&total, r.engine.CrossEntropy(z, b.Labels, kernels.Matrix{}, 1))
		return nil
	})
	return total, err
}
