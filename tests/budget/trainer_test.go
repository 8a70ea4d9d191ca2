package budget

// Training within the budget: what the trainer needs for a minibatch is set aside
// before the loader divides the rest, whatever is prepared at the same time.

import (
	"context"
	"errors"
	"math/rand/v2"
	"path/filepath"
	"testing"

	"github.com/goagnes/goagnes/goagnes"
	"github.com/goagnes/goagnes/goagnes/memory"
	"github.com/goagnes/goagnes/goagnes/nn"
	"github.com/goagnes/goagnes/goagnes/train"
	"github.com/goagnes/goagnes/tests/fixture/graph"
	"github.com/goagnes/goagnes/tests/fixture/life"
)

// The trainer works on the last minibatch of a hyperbatch while the next one is
// sampled, in whatever memory is free: where every minibatch is a hyperbatch of its
// own, that is always. Under each budget a run completes or is refused for what
// preparing or training takes at least; it never loses to the loader what the
// loader left it before.
func TestTrainerKeepsItsMemory(t *testing.T) {
	g := graph.Labelled(rand.New(rand.NewPCG(5, 7)), 3000, 40000, 32)
	path := filepath.Join(t.TempDir(), "store")
	g.Build(t, path, goagnes.BuildOptions{BlockSize: 16 << 10, Order: "degree"})
	for _, c := range []struct {
		name       string
		mode       string
		hyperbatch int
		o          train.Options
	}{
		{"gat alone", "", 1, train.Options{Model: nn.GAT, Layers: 2, Hidden: 64, NumNeighbors: []int{-1, -1}, BatchSize: 32}},
		{"gat, agnes-no", "agnes-no", 0, train.Options{Model: nn.GAT, Layers: 2, Hidden: 64, NumNeighbors: []int{-1, -1}, BatchSize: 32}},
		{"sage in threes", "", 3, train.Options{Layers: 3, Hidden: 128, NumNeighbors: []int{5, 5, 5}, EvalNeighbors: []int{5, 5, 5}, BatchSize: 64}},
	} {
		completed := false
		for _, bytes := range []int64{14 << 20, 16 << 20, 18 << 20, 20 << 20, 24 << 20} {
			s := life.Open(t, path, goagnes.OpenOptions{Memory: bytes, NumThreads: 2, Scratch: t.TempDir()})
			c.o.Epochs, c.o.Seed = 1, 3
			r, err := goagnes.Train(context.Background(), s, goagnes.TrainOptions{Options: c.o, HyperbatchSize: c.hyperbatch, Mode: c.mode})
			var budget *memory.BudgetError
			switch {
			case err == nil:
				completed = true
				if r.PeakMemory > bytes {
					t.Errorf("%s: %d bytes are used of a budget of %d", c.name, r.PeakMemory, bytes)
				}
			case completed:
				t.Errorf("%s: %d bytes: %v; less was enough", c.name, bytes, err)
			case !errors.As(err, &budget):
				t.Errorf("%s: %d bytes: %v", c.name, bytes, err)
			}
			if e := s.Close(); e != nil {
				t.Error(e)
			}
		}
		if !completed {
			t.Errorf("%s: no budget was enough", c.name)
		}
	}
}
