package budget

// The memory budget: never exceeded, refused by a number that works, and more
// of it never makes worse what less of it could do.

import (
	"path/filepath"
	"testing"

	"github.com/goagnes/goagnes/goagnes"
	"github.com/goagnes/goagnes/tests/fixture/graph"
	"github.com/goagnes/goagnes/tests/fixture/life"
	"github.com/goagnes/goagnes/tests/fixture/refusal"
	"github.com/goagnes/goagnes/tests/fixture/tree"
)

// tryBudget prepares an epoch under a budget; every refusal must be typed, and
// nothing may be used beyond the budget. It returns the memory that a refusal
// asks for.
func tryBudget(t *testing.T, path, scratch string, o goagnes.LoaderOptions, bytes int64) (asks int64, err error) {
	t.Helper()
	s, err := goagnes.Open(path, goagnes.OpenOptions{Memory: bytes, NumThreads: 2, Scratch: scratch})
	if err == nil {
		defer s.Close()
		var l *goagnes.Loader
		if l, err = goagnes.NewLoader(s, o); err == nil {
			err = life.Epoch(t, l)
			if peak := l.Stats().PeakMemory; peak > bytes {
				t.Errorf("%d bytes are used of a budget of %d", peak, bytes)
			}
			if e := l.Close(); e != nil {
				t.Error(e)
			}
		}
	}
	if err == nil {
		return 0, nil
	}
	asks, other := refusal.Asks(err, bytes)
	if other != nil {
		t.Fatal(other)
	}
	return asks, err
}

// TestBudget finds the least budget for plans of several shapes by bisection.
func TestBudget(t *testing.T) {
	dir, scratch := t.TempDir(), t.TempDir()
	rings := graph.Ring(2000)
	small, large := filepath.Join(dir, "4KiB"), filepath.Join(dir, "64KiB")
	rings.Build(t, small, goagnes.BuildOptions{BlockSize: 4096, Order: "degree"})
	rings.Build(t, large, goagnes.BuildOptions{BlockSize: 64 << 10, Order: "original"})
	before := life.TakeCensus(t)
	seed := uint64(1)
	train := goagnes.InputNodes{Split: "train"}
	for _, c := range []struct {
		name string
		path string
		o    goagnes.LoaderOptions
	}{
		{"seeds only", small, goagnes.LoaderOptions{InputNodes: train, BatchSize: 40}},
		{"two hops", small, goagnes.LoaderOptions{NumNeighbors: []int{5, 3}, InputNodes: train, BatchSize: 40, HyperbatchSize: 6}},
		{"two hops, larger blocks", large, goagnes.LoaderOptions{NumNeighbors: []int{5, 3}, InputNodes: train, BatchSize: 40}},
		{"one minibatch at a time", large, goagnes.LoaderOptions{NumNeighbors: []int{4, 4}, InputNodes: train, BatchSize: 100, Mode: "agnes-no"}},
		{"as published", large, goagnes.LoaderOptions{NumNeighbors: []int{5, 3}, InputNodes: train, BatchSize: 40, HyperbatchSize: 6, Mode: "agnes-paper"}},
		{"as published, buffers given", small, goagnes.LoaderOptions{NumNeighbors: []int{5, 3}, InputNodes: train, BatchSize: 40, HyperbatchSize: 6, Mode: "agnes-paper", GraphBuffer: 64 << 10, FeatureBuffer: 64 << 10}},
		{"all neighbours, no rows", small, goagnes.LoaderOptions{NumNeighbors: []int{-1, -1}, InputNodes: train, BatchSize: 20, NoFeatures: true, Compact: true, NoEdgeIDs: true}},
	} {
		if testing.Short() && c.path == large {
			continue
		}
		c.o.Seed = &seed
		lo, hi := int64(16<<10), int64(16<<20) // refused, granted
		if _, err := tryBudget(t, c.path, scratch, c.o, hi); err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		tolerance := int64(4 << 10)
		if testing.Short() {
			tolerance = 64 << 10
		}
		advised := int64(0)
		for hi-lo > tolerance {
			at := (lo + hi) / 2
			if asks, err := tryBudget(t, c.path, scratch, c.o, at); err != nil {
				lo, advised = at, asks
			} else {
				hi = at
			}
		}
		t.Logf("%s: least budget %d KiB; a budget of %d KiB is told to be %d KiB", c.name, hi>>10, lo>>10, advised>>10)
		// From just below the least, and from far below it, following the
		// advice leads to a budget that works, and not to a wasteful one.
		far := []int64{lo, lo / 2, lo / 8}
		more := []int64{101, 103, 107, 115, 130, 150, 180, 220, 300, 450}
		if testing.Short() {
			far, more = far[:2], []int64{103, 150, 300}
		}
		for _, from := range far {
			at, tries := from, 0
			for {
				asks, err := tryBudget(t, c.path, scratch, c.o, at)
				if err == nil {
					break
				}
				at = asks
				if tries++; tries > 40 {
					t.Fatalf("%s: %d bytes after %d tries from %d, the least is %d", c.name, at, tries, from, hi)
				}
			}
			if from == lo && tries > 3 {
				t.Errorf("%s: from one step below the least budget %d advices are needed", c.name, tries)
			}
			if at > 2*hi {
				t.Errorf("%s: from %d bytes the advice leads to %d, the least is %d", c.name, from, at, hi)
			}
			t.Logf("%s: from %d KiB %d tries lead to %d KiB", c.name, from>>10, tries, at>>10)
		}
		// More memory never fails where less did not.
		for _, percent := range more {
			at := hi * percent / 100
			if _, err := tryBudget(t, c.path, scratch, c.o, at); err != nil {
				t.Errorf("%s: %d bytes are refused, %d are enough: %v", c.name, at, hi, err)
			}
		}
	}
	for _, bytes := range []int64{1, 4096, 100 << 10} {
		if _, err := tryBudget(t, small, scratch, goagnes.LoaderOptions{Seed: &seed}, bytes); err == nil {
			t.Errorf("a budget of %d bytes is enough", bytes)
		}
	}
	tree.Empty(t, scratch)
	before.Hold(t)
}
