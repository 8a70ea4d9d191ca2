package train

// Prediction: a trained model over the nodes of a split.

import (
	"context"
	"fmt"
	"slices"

	"github.com/goagnes/goagnes/goagnes/nn"
	"github.com/goagnes/goagnes/kernels"
)

// PredictOptions of a prediction. The zero value is the default.
type PredictOptions struct {
	Split        string    // default "test"
	BatchSize    int       // default 1000
	NumNeighbors []int     // by hop, one entry a layer; -1: all. Default all
	Threads      int       // default GOMAXPROCS
	Backend      string    // of package kernels; default the fastest
	Allocator    Allocator // default the Go heap
	// Progress, unless nil, is called after each minibatch with the nodes done.
	Progress func(stage string, done, total int64)
}

// A Prediction is that of one minibatch's seeds, in their order. It is valid
// during the call it is given to.
type Prediction struct {
	NID     []int64        // original ids; nil where the Source gives none
	Labels  []int64        // known labels, -1: none; nil where the data have no labels
	Classes []int64        // index of the largest logit, the first among equals
	Logits  kernels.Matrix // seeds x classes
}

// Pass returns the pass that a prediction of the model takes.
func (o PredictOptions) Pass(m *Model) (Pass, error) {
	if o.BatchSize == 0 {
		o.BatchSize = 1000
	}
	if o.BatchSize < 0 || o.BatchSize > maxBatchSize {
		return Pass{}, &OptionError{"batch_size", "is outside 1 to 1048576 (0: the default)"}
	}
	neighbors, err := fanouts("num_neighbors", o.NumNeighbors, m.Network.Config.Hops(), -1)
	return Pass{Fanouts: neighbors, BatchSize: o.BatchSize}, err
}

// Predict calls f for each minibatch of a split, in order. An error of f ends it.
func Predict(ctx context.Context, src Source, m *Model, o PredictOptions, f func(Prediction) error) error {
	config := m.Network.Config
	if o.Split == "" {
		o.Split = SplitTest
	}
	pass, err := o.Pass(m)
	if err != nil {
		return err
	}
	engine, err := kernels.New(kernels.Options{Backend: o.Backend, Threads: o.Threads})
	if err != nil {
		return err
	}
	defer context.AfterFunc(ctx, engine.Stop)()
	r := &runner{source: src, engine: engine, model: m.Network, network: nn.NewNetwork(m.Network, engine),
		memory: newMemory(o.Allocator), normalize: m.NormalizeFeatures}
	defer r.free()

	var classes []int64
	var done int64
	var wait float64
	return r.each(ctx, o.Split, pass, &wait, func(b *Batch) error {
		if b.Dim != config.Inputs {
			return &OptionError{"model", fmt.Sprintf("reads %d features, the data have %d", config.Inputs, b.Dim)}
		}
		z, err := r.forward(b, nn.Mode{})
		if err != nil || ctx.Err() != nil {
			return err
		}
		classes = slices.Grow(classes[:0], z.Rows)[:z.Rows]
		for i := range classes {
			classes[i] = int64(kernels.Argmax(z.Data[i*z.Stride : i*z.Stride+z.Cols]))
		}
		p := Prediction{Labels: b.Labels, Classes: classes, Logits: z}
		if len(b.NID) >= b.NumSeeds {
			p.NID = b.NID[:b.NumSeeds]
		}
		if err := f(p); err != nil {
			return err
		}
		done += int64(z.Rows)
		if o.Progress != nil {
			o.Progress("predict", done, 0)
		}
		return nil
	})
}
