package accuracy

// Test accuracy on Amazon Computers and Coauthor CS with the preset "shchur", from
// the published files over a store, splits drawn by class: mean of split seeds from
// 0 on. The figures of docs/training.md are those of -accuracy.seeds 5; one seed,
// about two minutes of a processor for both graphs, shows a fault.

import (
	"context"
	"flag"
	"math"
	"path/filepath"
	"testing"

	"github.com/goagnes/goagnes/goagnes"
	"github.com/goagnes/goagnes/goagnes/nn"
	"github.com/goagnes/goagnes/goagnes/train"
	"github.com/goagnes/goagnes/tests/fixture/life"
	"github.com/goagnes/goagnes/tests/fixture/place"
)

var accuracySeeds = flag.Uint64("accuracy.seeds", 1, "split seeds of TestPublishedAccuracy")

func TestPublishedAccuracy(t *testing.T) {
	if testing.Short() {
		t.Skip("trains for minutes; left out with -short")
	}
	for _, c := range []struct {
		file   string
		counts train.Counts
		least  float64 // percent, of the mean over split seeds 0 to 4
	}{
		{"amazon_cs.npz", train.Counts{Train: 200, Val: 300, Test: 13252}, 78.2},
		{"coauthor_cs.npz", train.Counts{Train: 300, Val: 450, Test: 17583}, 90.9},
	} {
		t.Run(c.file, func(t *testing.T) {
			raw := place.Corpus(t, "npz/"+c.file)
			var sum, squares float64
			for seed := range *accuracySeeds {
				path := filepath.Join(t.TempDir(), "store")
				if _, err := goagnes.Import(context.Background(), path, raw, goagnes.BuildOptions{Split: "per-class:20,30", SplitSeed: seed}); err != nil {
					t.Fatal(err)
				}
				s := life.Open(t, path, goagnes.OpenOptions{Memory: 8 << 30, NumThreads: 2})
				r, err := goagnes.Train(context.Background(), s, goagnes.TrainOptions{Options: train.Options{Model: nn.GCN, Preset: train.PresetShchur, Seed: seed, Threads: 2}})
				if err == nil {
					err = s.Close()
				}
				if err != nil {
					t.Fatal(err)
				}
				if r.Counts != c.counts {
					t.Errorf("seed %d: %+v labelled nodes, want %+v", seed, r.Counts, c.counts)
				}
				a := 100 * *r.TestAccuracy
				t.Logf("seed %d: %.2f %%, %.2f %% in validation, epoch %d of %d", seed, a, 100**r.ValAccuracy, r.BestEpoch, len(r.Epochs))
				sum, squares = sum+a, squares+a*a
			}
			n := float64(*accuracySeeds)
			mean := sum / n
			t.Logf("%.2f ± %.2f %% over %v seeds", mean, math.Sqrt(max(0, squares/n-mean*mean)), n)
			slack := 0.0
			if n < 5 {
				slack = 1.5 / math.Sqrt(n) // one seed strays by a point
			}
			if mean < c.least-slack {
				t.Errorf("test accuracy %.2f %%, want at least %.1f", mean, c.least-slack)
			}
		})
	}
}
