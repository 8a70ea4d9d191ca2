package train

// The training loop.

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/goagnes/goagnes/goagnes/nn"
	"github.com/goagnes/goagnes/kernels"
)

// dropoutTag is the last counter word of the stream that keys the masks of a
// step: Philox(seed, {minibatch, minibatch>>32, epoch, 4}).
const dropoutTag = 4

// adam has torch.optim.Adam's constants.
var adam = kernels.Adam{Beta1: 0.9, Beta2: 0.999, Epsilon: 1e-8}

// A DivergedError tells that the loss of a minibatch is not a finite number.
type DivergedError struct {
	Epoch     uint32
	Minibatch int
}

func (e *DivergedError) Error() string {
	return fmt.Sprintf("train: the loss of minibatch %d of epoch %d is not finite; look for NaN or huge values in the features, or lower lr", e.Minibatch, e.Epoch)
}

// Class returns "input".
func (e *DivergedError) Class() string { return "input" }

// An EmptyError tells that the train split has no labelled node.
type EmptyError struct{}

func (*EmptyError) Error() string {
	return `train: split "train" has no labelled node; build the store with labels y and a train split`
}

// Class returns "input".
func (*EmptyError) Class() string { return "input" }

// trainer is one run.
type trainer struct {
	runner
	settings Settings
	report   *Report
	progress func(stage string, done, total int64)

	gradient, first, second []float32 // of the loss; Adam's moments
	best                    []float32 // weights of the best epoch
	steps                   int64     // of the optimiser
	batches, total          int64     // minibatches trained on, and in all
}

// Train fits a model to the splits "train" and "val" of src and measures it on
// "test". The model's weights are on the Go heap.
func Train(ctx context.Context, src Source, shape Shape, o Options) (*Report, *Model, error) {
	settings, err := o.Resolve()
	if err != nil {
		return nil, nil, err
	}
	config := settings.config(shape)
	if err := config.Validate(); err != nil {
		return nil, nil, err
	}
	engine, err := kernels.New(kernels.Options{Backend: o.Backend, Threads: o.Threads})
	if err != nil {
		return nil, nil, err
	}
	settings.Backend, settings.Threads = engine.Backend(), engine.Threads()
	defer context.AfterFunc(ctx, engine.Stop)()

	t := &trainer{settings: settings, progress: o.Progress}
	if t.progress == nil {
		t.progress = func(string, int64, int64) {}
	}
	t.report = &Report{Model: settings.Model, Options: settings, Features: shape.Features, Classes: shape.Classes,
		Epochs: []Epoch{}, Parameters: config.NumParameters()}
	t.memory = newMemory(o.Allocator)
	defer t.memory.release()
	defer t.free()
	if err := t.prepare(src, engine, config); err != nil {
		return nil, nil, err
	}
	if err := t.run(ctx); err != nil {
		return nil, nil, err
	}
	kept, err := nn.NewModel(config, make([]float32, len(t.model.Values)))
	if err != nil {
		return nil, nil, err
	}
	copy(kept.Values, t.model.Values)
	t.report.WeightsSHA256 = weightsSHA256(kept)
	t.report.PeakActivationBytes = t.peak
	return t.report, &Model{Network: kept, NormalizeFeatures: settings.NormalizeFeatures}, nil
}

// prepare takes the memory of model and optimiser.
func (t *trainer) prepare(src Source, engine *kernels.Engine, config nn.Config) error {
	var values []float32
	for _, to := range [modelArrays]*[]float32{&values, &t.gradient, &t.first, &t.second, &t.best} {
		f, err := t.memory.take(config.NumParameters())
		if err != nil {
			return err
		}
		*to = f
		t.report.ModelBytes += int64(len(f)) * 4
	}
	model, err := nn.NewModel(config, values)
	if err != nil {
		return err
	}
	model.Initialize(t.settings.Seed)
	t.runner.source, t.runner.engine, t.runner.model = src, engine, model
	t.runner.network = nn.NewNetwork(model, engine)
	t.runner.normalize = t.settings.NormalizeFeatures
	return nil
}

// run trains, keeps the best epoch's weights and tests them.
func (t *trainer) run(ctx context.Context) error {
	start := time.Now()
	r := t.report
	for epoch := range uint32(t.settings.Epochs) {
		at := time.Now()
		e := Epoch{Epoch: epoch}
		trained, err := t.epoch(ctx, epoch)
		if err != nil {
			return stopped(err, epoch)
		}
		if trained.Labelled == 0 {
			return &EmptyError{}
		}
		if epoch == 0 {
			t.total = t.batches * int64(t.settings.Epochs)
		}
		r.Counts.Train = trained.Labelled
		loss, accuracy := means(trained)
		e.TrainLoss, e.TrainAccuracy = *loss, *accuracy

		evaluation := time.Now()
		val, err := t.evaluate(ctx, SplitVal, t.settings.Pass(SplitVal, epoch))
		if err != nil {
			return stopped(err, epoch)
		}
		lap(&evaluation, &r.Seconds.Evaluation)
		r.Counts.Val = val.Labelled
		e.ValLoss, e.ValAccuracy = means(val)
		lap(&at, &e.Seconds)
		r.Epochs = append(r.Epochs, e)

		if t.better(e, r.Epochs[r.BestEpoch]) {
			r.BestEpoch, r.ValAccuracy = epoch, e.ValAccuracy
			copy(t.best, t.model.Values)
		}
		if t.settings.Patience > 0 && int(epoch-r.BestEpoch) >= t.settings.Patience {
			break
		}
	}
	copy(t.model.Values, t.best)
	evaluation := time.Now()
	test, err := t.evaluate(ctx, SplitTest, t.settings.Pass(SplitTest, r.BestEpoch))
	if err != nil {
		return stopped(err, r.BestEpoch)
	}
	lap(&evaluation, &r.Seconds.Evaluation)
	r.Counts.Test = test.Labelled
	_, r.TestAccuracy = means(test)
	lap(&start, &r.Seconds.Total)
	return nil
}

// better reports whether epoch e replaces the best one so far, which in the first
// epoch is itself. Without validation nodes the last is the best.
func (t *trainer) better(e, best Epoch) bool {
	switch {
	case e.Epoch == best.Epoch || e.ValLoss == nil:
		return true
	case t.settings.Monitor == MonitorLoss:
		return *e.ValLoss < *best.ValLoss
	default:
		return *e.ValAccuracy > *best.ValAccuracy || *e.ValAccuracy == *best.ValAccuracy && *e.ValLoss < *best.ValLoss
	}
}

// stopped says in which epoch a run ended.
func stopped(err error, epoch uint32) error {
	return fmt.Errorf("train: epoch %d: %w", epoch, err)
}

// Pass returns the pass over a split of an epoch.
func (s Settings) Pass(split string, epoch uint32) Pass {
	if split == SplitTrain {
		return Pass{Epoch: epoch, Fanouts: slices.Clone(s.NumNeighbors), BatchSize: s.BatchSize, Shuffle: true, Train: true}
	}
	return Pass{Epoch: epoch, Fanouts: slices.Clone(s.EvalNeighbors), BatchSize: s.EvalBatchSize}
}

// epoch takes one step for each minibatch of the train split.
func (t *trainer) epoch(ctx context.Context, epoch uint32) (total kernels.Loss, err error) {
	pass := t.settings.Pass(SplitTrain, epoch)
	seed := [2]uint32{uint32(t.settings.Seed), uint32(t.settings.Seed >> 32)}
	index := 0
	err = t.each(ctx, SplitTrain, pass, &t.report.Seconds.Wait, func(b *Batch) error {
		w := kernels.Philox(seed, [4]uint32{uint32(index), uint32(uint64(index) >> 32), epoch, dropoutTag})
		loss, err := t.step(ctx, b, [2]uint32{w[0], w[1]})
		if err != nil {
			return err
		}
		if math.IsNaN(loss.Sum) || math.IsInf(loss.Sum, 0) {
			return &DivergedError{epoch, index}
		}
		add(&total, loss)
		index++
		t.batches++
		t.progress("train", t.batches, t.total)
		return nil
	})
	return total, err
}

// step does forward, backward and update for one minibatch. A minibatch without
// labels changes nothing.
func (t *trainer) step(ctx context.Context, b *Batch, key [2]uint32) (loss kernels.Loss, err error) {
	labelled, err := b.check(t.model.Config.Classes)
	if err != nil || labelled == 0 {
		return loss, err
	}
	seconds, at := &t.report.Seconds, time.Now()
	z, err := t.forward(b, nn.Mode{Train: true, Key: key})
	if err != nil || ctx.Err() != nil {
		return loss, err
	}
	loss = t.engine.CrossEntropy(z, b.Labels, z, 1/float32(labelled))
	lap(&at, &seconds.Forward)
	if math.IsNaN(loss.Sum) || math.IsInf(loss.Sum, 0) {
		return loss, nil
	}
	t.network.Backward(z, t.gradient)
	lap(&at, &seconds.Backward)
	if ctx.Err() != nil { // the gradient may be incomplete
		return kernels.Loss{}, nil
	}
	t.update()
	lap(&at, &seconds.Optimizer)
	return loss, nil
}

// update takes one Adam step.
func (t *trainer) update() {
	t.steps++
	a := adam
	a.Rate, a.Decay = t.settings.LearningRate, t.settings.WeightDecay
	decayed := len(t.model.Values)
	if t.settings.DecayFirstLayer {
		decayed = t.model.FirstLayer()
	}
	v := t.model.Values
	t.engine.Step(a, t.steps, v[:decayed], t.gradient[:decayed], t.first[:decayed], t.second[:decayed])
	a.Decay = 0
	t.engine.Step(a, t.steps, v[decayed:], t.gradient[decayed:], t.first[decayed:], t.second[decayed:])
}
