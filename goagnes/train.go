package goagnes

import (
	"context"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"unsafe"

	"github.com/goagnes/goagnes/goagnes/memory"
	"github.com/goagnes/goagnes/goagnes/storage"
	"github.com/goagnes/goagnes/goagnes/train"
	"github.com/goagnes/goagnes/layout"
)

// TrainOptions configure [Train]. The zero value of each field is its default;
// see [train.Options] for the model's. Threads and Allocator come from the
// store: leave them.
type TrainOptions struct {
	train.Options
	Save           string // file for the model, .npz; default none
	HyperbatchSize int    // default 1024
	Mode           string // of the loaders, "agnes", "agnes-no" or "agnes-paper"
	Calibrate      bool   // measure the device's own reads after the run, to compare with; about a second
}

// TrainReport is the account of a run: the trainer's own, and what its
// minibatches cost.
type TrainReport struct {
	Kind string `json:"kind"` // KindTrain
	train.Report
	Store   Info             `json:"store"`
	Loaders map[string]Stats `json:"loaders"` // by split
	IO      storage.Counters `json:"io"`
	Usage
	Device *Calibration `json:"device,omitempty"` // the device's own reads, where they were measured
}

// KindTrain is the kind of a TrainReport.
const KindTrain = "train"

// PredictOptions configure [Predict]; see [train.PredictOptions].
type PredictOptions struct {
	train.PredictOptions
	Seed           uint64 // of draws where NumNeighbors samples
	HyperbatchSize int
}

// Prediction is what a model says of one minibatch's seeds.
type Prediction = train.Prediction

// Train fits a model to the splits "train" and "val" of a store and measures it
// on "test", within the store's budget: minibatches, activations, gradients
// and optimiser state together. Equal options and seed give equal weights,
// whatever the budget and the threads.
func Train(ctx context.Context, s *Store, o TrainOptions) (*TrainReport, error) {
	shape, err := s.shape(true)
	if err != nil {
		return nil, err
	}
	if shape.Classes == 0 {
		return nil, argumentf("store", "%s has no labelled node: every label (y) is negative", s.path)
	}
	if s.split(train.SplitTrain) == nil {
		return nil, argumentf("store", "no split %q to train on: %s", train.SplitTrain, s.splitNames())
	}
	settings, err := o.Options.Resolve()
	if err != nil {
		return nil, err
	}
	if o.Save != "" {
		if err := train.CheckSave(o.Save); err != nil {
			return nil, err
		}
	}
	before := s.pool.Counters()
	src := s.newSource(o.Seed, o.HyperbatchSize, o.Mode)
	defer src.close()
	src.footprint = func(nodes, edges []int, training bool) int64 {
		return settings.ArenaBytes(shape, nodes, edges, training)
	}
	o.Allocator = src.allocator
	passes := map[string]train.Pass{}
	for _, split := range []string{train.SplitTrain, train.SplitVal, train.SplitTest} {
		passes[split] = settings.Pass(split, 0)
	}
	if err := src.check("training", max(settings.ModelBytes(shape), leastModel), passes); err != nil {
		return nil, err
	}
	if o.Threads == 0 {
		o.Threads = s.options.NumThreads
	}
	if tell, nodes := o.Progress, s.Splits()[train.SplitTrain]; tell != nil {
		size := int64(settings.BatchSize)
		all := (nodes + size - 1) / size * int64(settings.Epochs)
		o.Progress = func(stage string, done, _ int64) { tell(stage, done, all) }
	}
	report, model, err := train.Train(ctx, src, shape, o.Options)
	if err != nil {
		return nil, err
	}
	if o.Save != "" {
		if err := model.Save(o.Save); err != nil {
			return nil, err
		}
	}
	r := &TrainReport{Kind: KindTrain, Report: *report, Store: s.Info(), Loaders: src.stats(), IO: s.pool.Counters().Sub(before), Usage: s.Usage()}
	if o.Calibrate {
		device, err := s.Calibrate(ctx)
		if err != nil {
			return nil, err
		}
		r.Device = &device
	}
	return r, nil
}

// Predict applies the model saved in a file to the nodes of a split and calls
// f for each minibatch, in the split's order.
func Predict(ctx context.Context, s *Store, model string, o PredictOptions, f func(Prediction) error) error {
	m, err := train.Load(model)
	if err != nil {
		return err
	}
	shape, err := s.shape(false)
	if err != nil {
		return err
	}
	if c := m.Network.Config; c.Inputs != shape.Features {
		return argumentf("model", "%s takes rows of %d features, the store has %d", model, c.Inputs, shape.Features)
	}
	if c := m.Network.Config; shape.Classes != 0 && c.Classes != shape.Classes {
		return argumentf("model", "%s tells %d classes apart, the store has %d", model, c.Classes, shape.Classes)
	}
	if o.Split == "" {
		o.Split = train.SplitTest
	}
	if s.split(o.Split) == nil {
		return argumentf("split", "no split %q: %s", o.Split, s.splitNames())
	}
	src := s.newSource(o.Seed, o.HyperbatchSize, "")
	defer src.close()
	src.footprint = func(nodes, edges []int, _ bool) int64 {
		return m.ArenaBytes(shape, nodes, edges)
	}
	o.Allocator = src.allocator
	pass, err := o.PredictOptions.Pass(m)
	if err != nil {
		return err
	}
	if err := src.check("prediction", 0, map[string]train.Pass{o.Split: pass}); err != nil {
		return err
	}
	if o.Threads == 0 {
		o.Threads = s.options.NumThreads
	}
	if tell, nodes := o.Progress, s.Splits()[o.Split]; tell != nil {
		o.Progress = func(stage string, done, _ int64) { tell(stage, done, nodes) }
	}
	return train.Predict(ctx, src, m, o.PredictOptions, f)
}

// shape returns the widths of the store's data.
func (s *Store) shape(labels bool) (train.Shape, error) {
	m := s.files.Manifest()
	x := m.Section(layout.SectionX)
	switch {
	case x == nil:
		return train.Shape{}, argumentf("store", "%s has no features (x)", s.path)
	case labels && m.Section(layout.SectionY) == nil:
		return train.Shape{}, argumentf("store", "%s has no labels (y)", s.path)
	}
	return train.Shape{Features: int(x.RowElements()), DType: x.Type(), Classes: int(m.NumClasses)}, nil
}

// storeSource serves the trainer from loaders, one for each split and purpose.
type storeSource struct {
	store      *Store
	seed       uint64
	hyperbatch int
	mode       string
	allocator  *budgetAllocator
	footprint  func(nodes, edges []int, training bool) int64
	model      int64 // bytes of the model and its optimiser

	loaders map[string]*Loader
	splits  map[string]string // loader's key -> split
}

func (s *Store) newSource(seed uint64, hyperbatch int, mode string) *storeSource {
	return &storeSource{store: s, seed: seed, hyperbatch: hyperbatch, mode: mode, allocator: newAllocator(s.budget),
		loaders: map[string]*Loader{}, splits: map[string]string{}}
}

func (c *storeSource) close() {
	for _, l := range c.loaders {
		_ = l.Close() // only scratch is removed; the run's own error comes first
	}
	c.allocator.close()
}

func (c *storeSource) stats() map[string]Stats {
	all := map[string]Stats{}
	for key, l := range c.loaders {
		all[c.splits[key]] = l.Stats()
	}
	return all
}

// loader returns the loader of a pass over a split.
func (c *storeSource) loader(split string, pass train.Pass) (*Loader, error) {
	key := fmt.Sprint(split, pass.Train, pass.Fanouts, pass.BatchSize, pass.Shuffle)
	if l := c.loaders[key]; l != nil {
		return l, nil
	}
	all := len(pass.Fanouts) > 0
	for _, k := range pass.Fanouts {
		all = all && k == -1
	}
	l, err := NewLoader(c.store, LoaderOptions{
		NumNeighbors: slices.Clone(pass.Fanouts), InputNodes: InputNodes{Split: split}, BatchSize: pass.BatchSize,
		Shuffle: pass.Shuffle, Seed: &c.seed, HyperbatchSize: c.hyperbatch, Mode: c.mode,
		NoEdgeIDs: true, Compact: true, Degree: all, ReleasesFirst: true,
		Consumer: consumer{c.allocator, func(nodes, edges []int64) int64 {
			return c.footprint(ints(nodes), ints(edges), pass.Train)
		}},
		unchecked: true, beside: c.model,
	})
	if err != nil {
		return nil, err
	}
	c.loaders[key], c.splits[key] = l, split
	return l, nil
}

// check makes the loaders of all passes and refuses a budget in which one of them
// does not find room beside the model. What none of them needs they share.
func (c *storeSource) check(what string, model int64, passes map[string]train.Pass) error {
	c.model = model
	others := c.store.others(model)
	var loaders []*Loader
	for _, split := range slices.Sorted(maps.Keys(passes)) {
		if c.store.split(split) == nil {
			continue
		}
		l, err := c.loader(split, passes[split])
		if err != nil {
			return err
		}
		loaders = append(loaders, l)
	}
	need := func(total int64) int64 {
		steps, aside := int64(0), int64(0)
		for _, l := range loaders {
			n, err := l.engine.Need(total)
			if err != nil {
				return math.MaxInt64 // refused when the loader was made
			}
			steps, aside = max(steps, n-l.engine.NeedAside()), max(aside, l.engine.NeedAside())
		}
		return others(total) + steps + aside
	}
	total := c.store.budget.Total()
	if err := memory.Refusal(what, total, others(total)-model, need); err != nil {
		return err
	}
	aside, most := int64(0), int64(0)
	for _, l := range loaders {
		aside = max(aside, l.engine.NeedAside())
	}
	for _, l := range loaders { // each beside what is set aside for the largest
		other := others(total) + aside - l.engine.NeedAside()
		most = max(most, other+l.engine.Fit(total-other))
	}
	for _, l := range loaders {
		l.engine.Keep((total - most) / int64(len(loaders)))
	}
	return nil
}

// Open starts a pass over a split.
func (c *storeSource) Open(ctx context.Context, split string, pass train.Pass) (train.Stream, error) {
	if c.store.split(split) == nil {
		return emptyStream{}, nil
	}
	l, err := c.loader(split, pass)
	if err != nil {
		return nil, err
	}
	l.SetEpoch(pass.Epoch)
	if err := l.Start(ctx); err != nil {
		return nil, err
	}
	return &loaderStream{loader: l}, nil
}

func ints(a []int64) []int {
	b := make([]int, len(a))
	for i, x := range a {
		b[i] = int(x)
	}
	return b
}

type emptyStream struct{}

func (emptyStream) Next(context.Context) (*train.Batch, error) { return nil, io.EOF }
func (emptyStream) Close() error                               { return nil }

// loaderStream is one pass over a loader.
type loaderStream struct {
	loader *Loader
	labels []int64
	batch  train.Batch
}

// Next returns the next minibatch in the trainer's form; arrays stay in the
// batch's slab.
func (l *loaderStream) Next(ctx context.Context) (*train.Batch, error) {
	b, err := l.loader.Next(ctx)
	if err != nil {
		return nil, err
	}
	l.batch = train.Batch{NumSeeds: b.BatchSize, NodesPerHop: ints(b.NumSampledNodes), EdgesPerHop: ints(b.NumSampledEdges), Release: b.Release}
	for _, a := range b.Arrays() {
		switch a.Name {
		case "x":
			row := 1
			for _, d := range a.Shape[1:] {
				row *= int(d)
			}
			l.batch.X, l.batch.XDType, l.batch.Dim, l.batch.RowBytes = a.Bytes(), a.DType, row, row*a.DType.Size()
		case "y":
			l.labels = labels(l.labels[:0], a.Bytes(), a.DType, b.BatchSize)
			l.batch.Labels = l.labels
		case "ptr":
			l.batch.Ptr = viewAs[uint32](a.Bytes())
		case "src":
			l.batch.Src = viewAs[uint32](a.Bytes())
		case "degree":
			l.batch.Degree = viewAs[uint32](a.Bytes())
		case "n_id":
			l.batch.NID = viewAs[int64](a.Bytes())[:b.BatchSize]
		}
	}
	return &l.batch, nil
}

// Close gives up what is left of the pass, and its scratch: passes over other
// splits take turns with this one.
func (l *loaderStream) Close() error {
	l.loader.Stop()
	return l.loader.engine.DropScratch()
}

func viewAs[T any](b []byte) []T {
	var zero T
	if len(b) == 0 {
		return nil
	}
	return unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(b))), len(b)/int(unsafe.Sizeof(zero)))
}

// labels appends the first n labels as int64, negative ones as -1.
func labels(dst []int64, b []byte, d layout.DType, n int) []int64 {
	for i := range n {
		var v int64
		switch d {
		case layout.Int8:
			v = int64(int8(b[i]))
		case layout.Uint8, layout.Bool:
			v = int64(b[i])
		case layout.Int16:
			v = int64(viewAs[int16](b)[i])
		case layout.Uint16:
			v = int64(viewAs[uint16](b)[i])
		case layout.Int32:
			v = int64(viewAs[int32](b)[i])
		case layout.Uint32:
			v = int64(viewAs[uint32](b)[i])
		default:
			v = viewAs[int64](b)[i]
		}
		dst = append(dst, max(v, -1))
	}
	return dst
}

var _ train.Source = (*storeSource)(nil)
