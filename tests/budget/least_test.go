package budget

// The least memory: what a refusal names is enough, and a byte less is refused.

import (
	"context"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"testing"

	"github.com/goagnes/goagnes/goagnes"
	"github.com/goagnes/goagnes/goagnes/nn"
	"github.com/goagnes/goagnes/goagnes/train"
	"github.com/goagnes/goagnes/tests/fixture/graph"
	"github.com/goagnes/goagnes/tests/fixture/refusal"
	"github.com/goagnes/goagnes/tests/fixture/tree"
)

// A refusal names at once all that opening a store takes, or all that preparing,
// training, predicting or exporting take beside it: the number is enough, whatever
// is drawn, and one byte less is refused with the same number.
func TestLeastMemory(t *testing.T) {
	dir := t.TempDir()
	r := rand.New(rand.NewPCG(21, 4))
	graphs := map[string]*graph.Graph{
		"attended": graph.Labelled(rand.New(rand.NewPCG(5, 7)), 900, 9000, 24),
		"skewed":   graph.Skewed(r, 2000, 20000, 16),
		"hubs":     graph.Hub(r),
		"rings":    graph.Ring(1500),
	}
	for name, g := range graphs {
		if g.Splits[train.SplitTrain] == nil {
			g.Draw(r, train.SplitTrain, 5)
		}
		for i, o := range []goagnes.BuildOptions{
			{BlockSize: 4096, Order: "degree"},
			{BlockSize: 64 << 10, Order: "original", Compression: "zstd"},
		} {
			g.Build(t, filepath.Join(dir, fmt.Sprint(name, i)), o)
		}
	}
	scratch := t.TempDir()
	model := filepath.Join(dir, "model.npz")
	seed := uint64(6)
	in := goagnes.InputNodes{Split: train.SplitTrain}
	open := func(path string, memory int64, use func(*goagnes.Store) error) error {
		s, err := goagnes.Open(filepath.Join(dir, path), goagnes.OpenOptions{Memory: memory, NumThreads: 2, Scratch: scratch})
		if err != nil {
			return err
		}
		defer s.Close()
		if err := use(s); err != nil {
			return err
		}
		if u := s.Usage(); u.PeakMemory > memory {
			return fmt.Errorf("%d bytes are used of a budget of %d", u.PeakMemory, memory)
		}
		return nil
	}
	prepare := func(o goagnes.LoaderOptions, held int) func(*goagnes.Store) error {
		o.Seed = &seed
		return func(s *goagnes.Store) error {
			l, err := goagnes.NewLoader(s, o)
			if err != nil {
				return err
			}
			defer l.Close()
			for range 2 {
				if err := holdEpoch(l, held); err != nil {
					return err
				}
			}
			return nil
		}
	}
	fit := func(o goagnes.TrainOptions) func(*goagnes.Store) error {
		return func(s *goagnes.Store) error {
			o.Epochs, o.Seed = 2, 3
			_, err := goagnes.Train(context.Background(), s, o)
			return err
		}
	}
	gat := train.Options{Model: nn.GAT, Layers: 2, Hidden: 24, NumNeighbors: []int{-1, -1}, BatchSize: 32}
	if err := open("attended0", 64<<20, fit(goagnes.TrainOptions{Options: gat, Save: model})); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, path string
		use        func(*goagnes.Store) error
	}{
		{"open", "skewed0", func(*goagnes.Store) error { return nil }},
		{"open, compressed", "skewed1", func(*goagnes.Store) error { return nil }},
		{"prepare", "skewed0", prepare(goagnes.LoaderOptions{NumNeighbors: []int{5, 3}, InputNodes: in, BatchSize: 40, Shuffle: true}, 1)},
		{"prepare, three hops in sixes, compressed", "skewed1", prepare(goagnes.LoaderOptions{NumNeighbors: []int{4, 4, 4}, BatchSize: 64, HyperbatchSize: 6}, 1)},
		{"prepare, hubs", "hubs0", prepare(goagnes.LoaderOptions{NumNeighbors: []int{8, -1}, BatchSize: 30, HyperbatchSize: 4, ReleasesFirst: true}, 0)},
		{"prepare alone, hubs", "hubs1", prepare(goagnes.LoaderOptions{NumNeighbors: []int{-1, -1}, InputNodes: in, BatchSize: 30, Mode: "agnes-no"}, 1)},
		{"prepare as published", "hubs0", prepare(goagnes.LoaderOptions{NumNeighbors: []int{5, 3}, BatchSize: 40, HyperbatchSize: 6, Mode: "agnes-paper"}, 1)},
		{"prepare, buffers given", "rings0", prepare(goagnes.LoaderOptions{NumNeighbors: []int{5, 3}, InputNodes: in, BatchSize: 40, GraphBuffer: 300 << 10, FeatureBuffer: 200 << 10}, 1)},
		{"prepare seeds", "rings1", prepare(goagnes.LoaderOptions{InputNodes: in, BatchSize: 40, HyperbatchSize: 3}, 1)},
		{"prepare no rows", "skewed0", prepare(goagnes.LoaderOptions{NumNeighbors: []int{-1, 2}, BatchSize: 20, NoFeatures: true, Compact: true, NoEdgeIDs: true}, 1)},
		{"train gat alone", "attended0", fit(goagnes.TrainOptions{Options: gat, HyperbatchSize: 1})},
		{"train gat, agnes-no, compressed", "attended1", fit(goagnes.TrainOptions{Options: gat, Mode: "agnes-no"})},
		{"train sage", "attended1", fit(goagnes.TrainOptions{HyperbatchSize: 3, Options: train.Options{Layers: 3, Hidden: 32, NumNeighbors: []int{5, 5, 5}, EvalNeighbors: []int{5, 5, 5}, BatchSize: 20}})},
		{"predict", "attended0", func(s *goagnes.Store) error {
			return goagnes.Predict(context.Background(), s, model, goagnes.PredictOptions{HyperbatchSize: 2, PredictOptions: train.PredictOptions{Split: train.SplitTrain, BatchSize: 16}},
				func(goagnes.Prediction) error { return nil })
		}},
		{"export", "skewed0", func(s *goagnes.Store) error {
			_, err := goagnes.Export(context.Background(), s, t.TempDir(), goagnes.ExportOptions{Overwrite: true, LoaderOptions: goagnes.LoaderOptions{
				NumNeighbors: []int{5, 3}, InputNodes: in, BatchSize: 40, HyperbatchSize: 3, Seed: &seed}})
			return err
		}},
	} {
		stated := int64(1)
		for tries := 0; ; tries++ { // a refusal to open, then one to use
			err := open(c.path, stated, c.use)
			if err == nil {
				break
			}
			if tries == 2 {
				t.Errorf("%s: %d bytes, as was advised: %v", c.name, stated, err)
				break
			}
			asks, other := refusal.Asks(err, stated)
			if other != nil {
				t.Fatalf("%s: %v", c.name, other)
			}
			stated = asks
		}
		err := open(c.path, stated-1, c.use)
		if err == nil {
			t.Errorf("%s: %d bytes are enough, %d were named", c.name, stated-1, stated)
			continue
		}
		if asks, other := refusal.Asks(err, stated-1); other != nil || asks != stated {
			t.Errorf("%s: %d bytes: %v; %d were named", c.name, stated-1, err, stated)
		}
		t.Logf("%s: least memory %d KiB", c.name, stated>>10)
		for _, percent := range []int64{101, 130, 250} {
			if err := open(c.path, stated*percent/100, c.use); err != nil {
				t.Errorf("%s: %d bytes: %v; %d are enough", c.name, stated*percent/100, err, stated)
			}
		}
	}
	tree.Empty(t, scratch)
}

// holdEpoch goes through an epoch and holds so many minibatches while it asks for
// the next.
func holdEpoch(l *goagnes.Loader, hold int) error {
	ctx := context.Background()
	if err := l.Start(ctx); err != nil {
		return err
	}
	var held []*goagnes.Batch
	defer func() {
		for _, b := range held {
			b.Release()
		}
	}()
	for range l.Len() {
		b, err := l.Next(ctx)
		if err != nil {
			return err
		}
		held = append(held, b)
		if len(held) > hold {
			held[0].Release()
			held = held[1:]
		}
	}
	return nil
}
