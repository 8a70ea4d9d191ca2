package train_test

// The training loop on a small graph: determinism, what chooses the epoch, what
// is released, how it ends.

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"
	"time"
	"unsafe"

	"github.com/goagnes/goagnes/goagnes/nn"
	"github.com/goagnes/goagnes/goagnes/train"
	"github.com/goagnes/goagnes/layout"
)

var shape = train.Shape{Features: 8, Classes: 3}

func small() train.Options {
	return train.Options{Layers: 2, Hidden: 16, Epochs: 6, BatchSize: 64, NumNeighbors: []int{4, 3}, LearningRate: 0.02, Threads: 1}
}

func must(t *testing.T, src train.Source, o train.Options) (*train.Report, *train.Model) {
	t.Helper()
	r, m, err := train.Train(context.Background(), src, shape, o)
	if err != nil {
		t.Fatal(err)
	}
	return r, m
}

func TestEqualRunsAreEqual(t *testing.T) {
	g := community(600, 3, 8, 0.8)
	rate := 0.3
	for _, model := range []string{nn.GCN, nn.SAGE, nn.GAT, nn.MLP} {
		o := small()
		o.Model, o.Dropout, o.Seed = model, &rate, 5
		if model == nn.MLP {
			o.NumNeighbors = nil
		}
		first, _ := must(t, &memorySource{graph: g}, o)
		for _, threads := range []int{2, 3} {
			o.Threads = threads
			if again, _ := must(t, &memorySource{graph: g}, o); again.WeightsSHA256 != first.WeightsSHA256 {
				t.Errorf("%s: other weights with %d threads", model, threads)
			}
		}
		o.Seed = 6
		if other, _ := must(t, &memorySource{graph: g}, o); other.WeightsSHA256 == first.WeightsSHA256 {
			t.Errorf("%s: seeds 5 and 6 give the same weights", model)
		}
	}
}

// Neighbours carry what features hide: SAGE and GCN must find it, an MLP cannot.
func TestLearnsFromNeighbours(t *testing.T) {
	g := community(3000, 3, 8, 1.5)
	accuracy := map[string]float64{}
	for _, model := range []string{nn.GCN, nn.SAGE, nn.GAT, nn.MLP} {
		o := small()
		o.Model, o.Epochs = model, 15
		if model == nn.MLP {
			o.NumNeighbors = nil
		}
		r, _ := must(t, &memorySource{graph: g}, o)
		accuracy[model] = *r.TestAccuracy
	}
	if accuracy[nn.GCN] < 0.85 || accuracy[nn.SAGE] < 0.85 || accuracy[nn.GAT] < 0.85 || accuracy[nn.MLP] > 0.7 || accuracy[nn.MLP] < 0.4 {
		t.Errorf("test accuracies %v; want gcn, sage and gat at least 0.85, mlp 0.4 to 0.7", accuracy)
	}
}

// The test split is opened once, last, and its labels change nothing but the
// accuracy reported.
func TestTestLabelsAreNotSeen(t *testing.T) {
	g := community(600, 3, 8, 0.8)
	src := &memorySource{graph: g}
	first, _ := must(t, src, small())
	if n := slices.Index(src.opened, "test"); n != len(src.opened)-1 {
		t.Errorf("opened %v: test is not opened once and last", src.opened)
	}
	changed := *g
	changed.y = slices.Clone(g.y)
	for _, v := range g.splits["test"] {
		changed.y[v] = (g.y[v] + 1) % 3
	}
	second, _ := must(t, &memorySource{graph: &changed}, small())
	if first.WeightsSHA256 != second.WeightsSHA256 || first.BestEpoch != second.BestEpoch {
		t.Error("test labels changed the weights")
	}
	if *first.TestAccuracy < 0.5 || *second.TestAccuracy > 0.4 {
		t.Errorf("accuracy %v, with shifted labels %v", *first.TestAccuracy, *second.TestAccuracy)
	}
}

// The report: the best epoch by validation, counts, and what is released.
func TestReport(t *testing.T) {
	g := community(600, 3, 8, 0.8)
	src := &memorySource{graph: g}
	o := small()
	var seen []int64
	o.Progress = func(stage string, done, total int64) {
		seen = append(seen, done)
		if first := done <= 3; stage != "train" || first && total != 0 || !first && total != int64(3*o.Epochs) {
			t.Errorf("progress %s %d of %d", stage, done, total)
		}
	}
	r, m := must(t, src, o)
	if src.given != src.released || src.given == 0 {
		t.Errorf("%d minibatches given, %d released", src.given, src.released)
	}
	if len(r.Epochs) != o.Epochs || len(seen) != 3*o.Epochs {
		t.Fatalf("%d epochs reported, %d minibatches announced", len(r.Epochs), len(seen))
	}
	best := r.Epochs[r.BestEpoch]
	for _, e := range r.Epochs {
		if *e.ValAccuracy > *best.ValAccuracy || *e.ValAccuracy == *best.ValAccuracy && *e.ValLoss < *best.ValLoss {
			t.Errorf("epoch %d beats the best, %d", e.Epoch, r.BestEpoch)
		}
	}
	if want := (train.Counts{Train: 150, Val: 150, Test: 300}); r.Counts != want {
		t.Errorf("counts %+v, want %+v", r.Counts, want)
	}
	if *r.ValAccuracy != *best.ValAccuracy || r.Parameters != len(m.Network.Values) || len(r.WeightsSHA256) != 64 {
		t.Errorf("report %+v", r)
	}
	if r.Epochs[0].TrainLoss <= r.Epochs[o.Epochs-1].TrainLoss {
		t.Errorf("the loss did not fall: %v to %v", r.Epochs[0].TrainLoss, r.Epochs[o.Epochs-1].TrainLoss)
	}
	text, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	for _, field := range []string{"model", "options", "lr", "epochs", "val_loss", "best_epoch", "val_accuracy", "test_accuracy",
		"counts", "parameters", "wait_for_data", "optimizer", "peak_activation_bytes", "weights_sha256"} {
		if !strings.Contains(string(text), `"`+field+`":`) {
			t.Errorf("the document lacks %q", field)
		}
	}
}

// Watched by loss, a run keeps the epoch of the lowest, whatever the accuracy, and
// patience counts from there.
func TestMonitor(t *testing.T) {
	g := community(600, 3, 8, 2)
	o := small()
	o.Epochs, o.LearningRate = 60, 0.1
	accuracy, _ := must(t, &memorySource{graph: g}, o)
	o.Monitor = train.MonitorLoss
	loss, _ := must(t, &memorySource{graph: g}, o)
	if loss.BestEpoch == accuracy.BestEpoch || loss.WeightsSHA256 == accuracy.WeightsSHA256 {
		t.Fatalf("both keep epoch %d: this graph shows nothing", loss.BestEpoch)
	}
	best := loss.Epochs[loss.BestEpoch]
	for _, e := range loss.Epochs {
		if *e.ValLoss < *best.ValLoss {
			t.Errorf("epoch %d has a lower loss than the one kept, %d", e.Epoch, best.Epoch)
		}
	}
	if *loss.ValAccuracy != *best.ValAccuracy || loss.Options.Monitor != train.MonitorLoss || accuracy.Options.Monitor != train.MonitorAccuracy {
		t.Errorf("report %+v", loss)
	}
	o.Patience = 5
	short, _ := must(t, &memorySource{graph: g}, o)
	low := 0
	for i, e := range loss.Epochs {
		if *e.ValLoss < *loss.Epochs[low].ValLoss {
			low = i
		}
		if i == low+5 {
			break
		}
	}
	if int(short.BestEpoch) != low || len(short.Epochs) != low+6 {
		t.Errorf("with patience 5: epoch %d of %d kept, want %d of %d", short.BestEpoch, len(short.Epochs), low, low+6)
	}
}

func TestPatience(t *testing.T) {
	g := community(300, 3, 8, 0.8)
	for _, v := range g.splits["val"] {
		g.y[v] = -1 // until here
	}
	g.y[g.splits["val"][0]] = 0
	o := small()
	o.Epochs, o.Patience = 100, 3
	r, _ := must(t, &memorySource{graph: g}, o)
	if len(r.Epochs) == 100 {
		t.Fatal("never stopped")
	}
	if last := r.Epochs[len(r.Epochs)-1].Epoch; last != r.BestEpoch+3 {
		t.Errorf("best epoch %d, last %d, patience 3", r.BestEpoch, last)
	}
}

func TestNoValidation(t *testing.T) {
	g := community(300, 3, 8, 0.8)
	delete(g.splits, "val")
	delete(g.splits, "test")
	r, _ := must(t, &memorySource{graph: g}, small())
	if r.BestEpoch != 5 || r.ValAccuracy != nil || r.TestAccuracy != nil || r.Epochs[0].ValLoss != nil {
		t.Errorf("best epoch %d, accuracies %v, %v", r.BestEpoch, r.ValAccuracy, r.TestAccuracy)
	}
}

// budget fails above a limit and counts what is out.
type budget struct{ limit, out, peak int }

var errBudget = errors.New("budget spent")

func (b *budget) Allocate(n int) ([]float32, error) {
	if b.out+n > b.limit {
		return nil, errBudget
	}
	b.out += n
	b.peak = max(b.peak, b.out)
	f := make([]float32, n)
	for i := range f {
		f[i] = float32(math.NaN())
	}
	return f, nil
}

func (b *budget) Free(f []float32) { b.out -= len(f) }

func TestAllocator(t *testing.T) {
	g := community(600, 3, 8, 0.8)
	roomy := &budget{limit: 1 << 30}
	o := small()
	plain, _ := must(t, &memorySource{graph: g}, o)
	o.Allocator = roomy
	r, _ := must(t, &memorySource{graph: g}, o)
	if r.WeightsSHA256 != plain.WeightsSHA256 {
		t.Error("what an arena held before shows in the weights")
	}
	used := int(r.ModelBytes+r.PeakActivationBytes) / 4
	if roomy.out != 0 || roomy.peak < used || roomy.peak > used+used/8+16 {
		t.Errorf("%d floats still out, at most %d, %d reported", roomy.out, roomy.peak, used)
	}
	// The reported sum is enough, and one float less is refused.
	tight := &budget{limit: used}
	o.Allocator = tight
	if r, _ := must(t, &memorySource{graph: g}, o); r.WeightsSHA256 != plain.WeightsSHA256 {
		t.Error("other weights in a tight budget")
	}
	tight = &budget{limit: used - 1}
	o.Allocator = tight
	src := &memorySource{graph: g}
	if _, _, err := train.Train(context.Background(), src, shape, o); !errors.Is(err, errBudget) {
		t.Errorf("%v, want the allocator's error", err)
	}
	if tight.out != 0 || src.given != src.released {
		t.Errorf("after a failure %d floats out, %d of %d minibatches released", tight.out, src.released, src.given)
	}
}

// What is told before a run is what it takes: one minibatch, one pass.
func TestFootprint(t *testing.T) {
	g := community(200, 3, 8, 0.8)
	delete(g.splits, "val")
	delete(g.splits, "test")
	for _, d := range []layout.DType{layout.Float32, layout.BFloat16} {
		for _, normalize := range []string{"", train.NormalizeRow, train.NormalizeL2} {
			o := small()
			o.Epochs, o.BatchSize, o.NumNeighbors, o.NormalizeFeatures = 1, 1000, []int{-1, -1}, normalize
			src := &memorySource{graph: g}
			var given train.Source = src
			if d != layout.Float32 {
				given = converted{src, d}
			}
			r, m := must(t, given, o)
			b := g.minibatch(g.splits["train"], o.NumNeighbors, nil)
			shape := train.Shape{Features: 8, DType: d, Classes: 3}
			// The order of seeds, and so the split by hop, is the same for any shuffle
			// as far as counts go.
			if told := r.Options.ArenaBytes(shape, b.NodesPerHop, b.EdgesPerHop, true); told != r.PeakActivationBytes {
				t.Errorf("%v, normalised by %q: told %d bytes, took %d", d, normalize, told, r.PeakActivationBytes)
			}
			if told := r.Options.ModelBytes(shape); told != r.ModelBytes {
				t.Errorf("told %d bytes of model, took %d", told, r.ModelBytes)
			}
			err := train.Predict(context.Background(), given, m, train.PredictOptions{Split: "train",
				Allocator: &budget{limit: int(m.ArenaBytes(shape, b.NodesPerHop, b.EdgesPerHop) / 4)}}, func(train.Prediction) error { return nil })
			if err != nil {
				t.Errorf("%v, normalised by %q: %v", d, normalize, err)
			}
		}
	}
}

type failing struct{}

var errSource = errors.New("source failed")

func (f *failing) Open(context.Context, string, train.Pass) (train.Stream, error) { return f, nil }
func (f *failing) Close() error                                                   { return nil }
func (f *failing) Next(context.Context) (*train.Batch, error) {
	return nil, errSource
}

func TestFailures(t *testing.T) {
	change := func(f func(*graph)) *memorySource {
		g := community(300, 3, 8, 0.8)
		f(g)
		return &memorySource{graph: g}
	}
	seed := func(g *graph) int64 { return g.splits["train"][3] }
	var label *train.LabelError
	var diverged *train.DivergedError
	var empty *train.EmptyError
	for _, c := range []struct {
		name   string
		src    train.Source
		target any
		class  string
	}{
		{"label", change(func(g *graph) { g.y[seed(g)] = 3 }), &label, "input"},
		{"NaN", change(func(g *graph) { g.x[seed(g)*8] = float32(math.NaN()) }), &diverged, "input"},
		{"no labels", change(func(g *graph) {
			for _, v := range g.splits["train"] {
				g.y[v] = -1
			}
		}), &empty, "input"},
		{"no split", change(func(g *graph) { delete(g.splits, "train") }), &empty, "input"},
	} {
		_, m, err := train.Train(context.Background(), c.src, shape, small())
		if err == nil || m != nil || !errors.As(err, c.target) {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		var classed interface{ Class() string }
		if !errors.As(err, &classed) || classed.Class() != c.class {
			t.Errorf("%s: class of %v", c.name, err)
		}
	}
	if label == nil || label.Label != 3 {
		t.Errorf("label error %+v", label)
	}
	if _, _, err := train.Train(context.Background(), &failing{}, shape, small()); !errors.Is(err, errSource) {
		t.Errorf("%v, want the source's error", err)
	}
}

// heavy gives one large minibatch for ever.
type heavy struct{ b *train.Batch }

func (h heavy) Open(context.Context, string, train.Pass) (train.Stream, error) { return h, nil }
func (h heavy) Close() error                                                   { return nil }
func (h heavy) Next(ctx context.Context) (*train.Batch, error)                 { return h.b, ctx.Err() }

// Cancelling ends a run in the middle of a kernel.
func TestCancel(t *testing.T) {
	const rows, dim = 40000, 256
	x := make([]float32, rows*dim)
	b := &train.Batch{NumSeeds: rows, NodesPerHop: []int{rows}, X: unsafe.Slice((*byte)(unsafe.Pointer(&x[0])), len(x)*4),
		XDType: layout.Float32, Dim: dim, RowBytes: 4 * dim, Labels: make([]int64, rows)}
	// A step takes several seconds, so that a second tells a kernel that was
	// stopped from one that was not, on a shared machine too.
	o := train.Options{Model: nn.MLP, Layers: 4, Hidden: 1024, Threads: 1}
	for _, after := range []time.Duration{0, 50 * time.Millisecond, 400 * time.Millisecond} {
		ctx, cancel := context.WithCancel(context.Background())
		var at time.Time
		time.AfterFunc(after, func() {
			at = time.Now()
			cancel()
		})
		_, _, err := train.Train(ctx, heavy{b}, train.Shape{Features: dim, Classes: 4}, o)
		if !errors.Is(err, context.Canceled) {
			t.Fatalf("%v, want context.Canceled", err)
		}
		if d := time.Since(at); d > 5*time.Second { // what a machine under load may add to 200 ms
			t.Errorf("cancelled after %v, it took %v to end", after, d)
		}
	}
}

func TestOptionsRefused(t *testing.T) {
	one, nan := 1.0, math.NaN()
	for _, c := range []struct {
		name string
		o    train.Options
	}{
		{"kind", train.Options{Model: "gin"}},
		{"model", train.Options{Model: "gin", Preset: "citation"}},
		{"heads", train.Options{Model: "gat", Heads: -1}},
		{"hidden", train.Options{Model: "gat", Heads: 7}},
		{"heads", train.Options{Model: "gcn", Heads: 2}},
		{"output_heads", train.Options{Model: "gat", OutputHeads: 1 << 20}},
		{"attention_dropout", train.Options{Model: "gat", AttentionDropout: &one}},
		{"attention_dropout", train.Options{Model: "sage", AttentionDropout: &nan}},
		{"residual", train.Options{Model: "sage", Residual: true}},
		{"preset", train.Options{Preset: "cora"}},
		{"layers", train.Options{Layers: 6}},
		{"hidden", train.Options{Hidden: -1}},
		{"epochs", train.Options{Epochs: -1}},
		{"patience", train.Options{Patience: -1}},
		{"batch_size", train.Options{BatchSize: 1 << 21}},
		{"eval_batch_size", train.Options{EvalBatchSize: -2}},
		{"lr", train.Options{LearningRate: -0.1}},
		{"lr", train.Options{LearningRate: nan}},
		{"normalize_features", train.Options{NormalizeFeatures: "rows"}},
		{"monitor", train.Options{Monitor: "test_accuracy"}},
		{"dropout", train.Options{Dropout: &one}},
		{"weight_decay", train.Options{WeightDecay: &nan}},
		{"num_neighbors", train.Options{NumNeighbors: []int{5}}},
		{"num_neighbors", train.Options{NumNeighbors: []int{5, -2, 5}}},
		{"eval_neighbors", train.Options{EvalNeighbors: []int{1, 1, 1, 1}}},
		{"Threads", train.Options{Threads: -1}},
		{"Backend", train.Options{Backend: "cuda"}},
	} {
		_, _, err := train.Train(context.Background(), &failing{}, shape, c.o)
		var classed interface{ Class() string }
		if err == nil || !errors.As(err, &classed) || classed.Class() != "usage" || !strings.Contains(err.Error(), c.name) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

// A preset changes defaults and nothing that is set.
func TestPreset(t *testing.T) {
	zero := 0.0
	s, err := train.Options{Model: nn.GCN, Preset: train.PresetCitation, Hidden: 7, Dropout: &zero, NumNeighbors: []int{3, 2}}.Resolve()
	if err != nil {
		t.Fatal(err)
	}
	if s.Hidden != 7 || s.Dropout != 0 || !slices.Equal(s.NumNeighbors, []int{3, 2}) || s.Layers != 2 || s.Epochs != 200 ||
		s.LearningRate != 0.01 || s.WeightDecay != 5e-4 || s.NormalizeFeatures != train.NormalizeRow || !slices.Equal(s.EvalNeighbors, []int{-1, -1}) {
		t.Errorf("%+v", s)
	}
	s, err = train.Options{Model: nn.GCN, Preset: train.PresetShchur, NormalizeFeatures: train.NormalizeNone, Monitor: train.MonitorLoss}.Resolve()
	if err != nil || s.NormalizeFeatures != train.NormalizeNone || s.Monitor != train.MonitorLoss {
		t.Errorf("%+v, %v", s, err)
	}
	s, err = train.Options{Model: nn.GCN, Preset: train.PresetCitation, NormalizeFeatures: train.NormalizeNone}.Resolve()
	if err != nil || s.NormalizeFeatures != train.NormalizeNone || s.Monitor != train.MonitorAccuracy {
		t.Errorf("%+v, %v", s, err)
	}
	for _, c := range []struct {
		model, preset string
		want          train.Settings
	}{
		{nn.GAT, train.PresetCitation, train.Settings{Hidden: 64, Heads: 8, OutputHeads: 1, AttentionDropout: 0.6, Dropout: 0.6, LearningRate: 0.005, WeightDecay: 5e-4, NormalizeFeatures: train.NormalizeRow, Epochs: 200}},
		{nn.GAT, train.PresetShchur, train.Settings{Hidden: 64, Heads: 8, OutputHeads: 1, AttentionDropout: 0.6, Dropout: 0.6, LearningRate: 0.005, WeightDecay: 5e-4, NormalizeFeatures: train.NormalizeL2, Epochs: 400, Patience: 50}},
		{nn.GCN, train.PresetShchur, train.Settings{Hidden: 64, Dropout: 0.5, LearningRate: 0.01, WeightDecay: 5e-4, DecayFirstLayer: true, NormalizeFeatures: train.NormalizeL2, Epochs: 400, Patience: 50}},
		{nn.SAGE, train.PresetShchur, train.Settings{Hidden: 64, Dropout: 0.5, LearningRate: 0.01, WeightDecay: 5e-3, DecayFirstLayer: true, NormalizeFeatures: train.NormalizeL2, Epochs: 400, Patience: 50}},
	} {
		s, err := train.Options{Model: c.model, Preset: c.preset}.Resolve()
		if err != nil {
			t.Fatal(err)
		}
		w := c.want
		if s.Hidden != w.Hidden || s.Heads != w.Heads || s.OutputHeads != w.OutputHeads || s.AttentionDropout != w.AttentionDropout || s.Dropout != w.Dropout ||
			s.LearningRate != w.LearningRate || s.WeightDecay != w.WeightDecay || s.DecayFirstLayer != w.DecayFirstLayer || s.Epochs != w.Epochs || s.Patience != w.Patience || s.NormalizeFeatures != w.NormalizeFeatures {
			t.Errorf("%s %s: %+v, want %+v", c.model, c.preset, s, w)
		}
	}
	d, err := train.Options{}.Resolve()
	if err != nil {
		t.Fatal(err)
	}
	if d.Model != nn.SAGE || d.Layers != 3 || d.Hidden != 256 || !slices.Equal(d.NumNeighbors, []int{10, 10, 10}) || d.Dropout != 0 || d.EvalBatchSize != 1000 {
		t.Errorf("%+v", d)
	}
}
