package goagnes_test

// Lives of stores and loaders: what outlives what, and what is left.

import (
	"bytes"
	"context"
	"errors"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/goagnes/goagnes/goagnes"
	"github.com/goagnes/goagnes/goagnes/memory"
	"github.com/goagnes/goagnes/goagnes/storage"
	"github.com/goagnes/goagnes/layout"
	"github.com/goagnes/goagnes/tests/fixture/graph"
	"github.com/goagnes/goagnes/tests/fixture/life"
	"github.com/goagnes/goagnes/tests/fixture/tree"
)

// TestBatchesOutlive keeps minibatches beyond their loader and their store.
func TestBatchesOutlive(t *testing.T) {
	g := graph.Ring(600)
	path := filepath.Join(t.TempDir(), "store")
	g.Build(t, path, goagnes.BuildOptions{BlockSize: 4096, Order: "degree"})
	before := life.TakeCensus(t)
	seed := uint64(5)
	o := goagnes.LoaderOptions{NumNeighbors: []int{3, 2}, BatchSize: 100, Seed: &seed}
	want := g.Plain(graph.Plan{Fanouts: o.NumNeighbors, Batch: 100}, seed).Epoch(0)
	s := life.Open(t, path, goagnes.OpenOptions{Memory: 32 << 20})
	l := life.Load(t, s, o)
	if err := l.Start(context.Background()); err != nil {
		t.Fatal(err)
	}
	var kept []*goagnes.Batch
	for range 3 {
		b, err := l.Next(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		kept = append(kept, b)
	}
	slab := kept[1].Slab()
	slab.Retain()
	x, _ := kept[1].Array("x")
	kept[1].Release()
	if err := s.Close(); err != nil { // closes the loader, too
		t.Fatal(err)
	}
	if _, err := l.Next(context.Background()); !errors.Is(err, goagnes.ErrClosed) || goagnes.Class(err) != goagnes.ClassClosed {
		t.Errorf("Next after Close: %v", err)
	}
	if err := l.Start(context.Background()); !errors.Is(err, goagnes.ErrClosed) {
		t.Errorf("Start after Close: %v", err)
	}
	if _, err := goagnes.NewLoader(s, o); !errors.Is(err, goagnes.ErrClosed) {
		t.Errorf("NewLoader after Close: %v", err)
	}
	if err := errors.Join(l.Close(), s.Close()); err != nil {
		t.Errorf("Close again: %v", err)
	}
	for _, m := range []int{0, 2} {
		for name, bytesWanted := range g.Arrays(want[m], o) {
			if a, ok := kept[m].Array(name); !ok || !bytes.Equal(a.Bytes(), bytesWanted) {
				t.Errorf("minibatch %d: %s changed after Close", m, name)
			}
		}
		kept[m].Release()
	}
	if !bytes.Equal(x.Bytes(), g.Arrays(want[1], o)["x"]) {
		t.Error("x of a retained slab changed after Close")
	}
	slab.Release()
	before.Hold(t)
}

// TestManyEpochs holds memory, goroutines, files and scratch flat over epochs
// that spill.
func TestManyEpochs(t *testing.T) {
	g := graph.Ring(1500)
	dir, scratch := t.TempDir(), t.TempDir()
	path := filepath.Join(dir, "store")
	g.Build(t, path, goagnes.BuildOptions{BlockSize: 4096, Order: "degree"})
	before := life.TakeCensus(t)
	s := life.Open(t, path, goagnes.OpenOptions{Memory: 5 << 19, Scratch: scratch, NumThreads: 2})
	l := life.Load(t, s, goagnes.LoaderOptions{NumNeighbors: []int{5, 5}, InputNodes: goagnes.InputNodes{Split: "train"}, BatchSize: 20, Shuffle: true, HyperbatchSize: 10})
	type state struct {
		live, uses map[string]int64
		goroutines int
		files      int
		heap       int64
	}
	measure := func() state {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		c := life.TakeCensus(t)
		return state{c.Live, s.Info().MemoryByUse, c.Goroutines, c.Files, int64(m.HeapAlloc)}
	}
	var early state
	epochs := 50
	if testing.Short() {
		epochs = 12
	}
	for epoch := range epochs {
		if err := l.Start(context.Background()); err != nil {
			t.Fatal(err)
		}
		for {
			b, err := l.Next(context.Background())
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatalf("epoch %d: %v", epoch, err)
			}
			b.Release()
		}
		if epoch == 5 {
			early = measure()
		}
	}
	late := measure()
	if !maps.Equal(early.live, late.live) || late.goroutines > early.goroutines || late.files > early.files || late.heap > early.heap+256<<10 {
		t.Errorf("after epoch 5: %+v\nafter epoch %d: %+v", early, epochs, late)
	}
	total := int64(0)
	for _, n := range late.uses {
		total += n
	}
	st := l.Stats()
	if total > 5<<19 || st.PeakMemory > 5<<19 {
		t.Errorf("%d bytes are in use, %d were at most, of %d", total, st.PeakMemory, 5<<19)
	}
	if st.SpilledRowBytes == 0 || st.Epochs != uint32(epochs) || st.Minibatches != int64(epochs*l.Len()) {
		t.Errorf("%d bytes of rows spilled, %d epochs, %d minibatches of %d", st.SpilledRowBytes, st.Epochs, st.Minibatches, epochs*l.Len())
	}
	if folders, err := os.ReadDir(scratch); err != nil || len(folders) != 1 {
		t.Errorf("scratch folders while the loader lives: %v, %v", folders, err)
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	tree.Empty(t, scratch)
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	before.Hold(t)
}

// TestTwoLoaders shares a store among loaders, one after the other and
// interleaved under shares of its budget.
func TestTwoLoaders(t *testing.T) {
	g := graph.Ring(1200)
	scratch := t.TempDir()
	path := filepath.Join(t.TempDir(), "store")
	g.Build(t, path, goagnes.BuildOptions{BlockSize: 4096})
	before := life.TakeCensus(t)
	s := life.Open(t, path, goagnes.OpenOptions{Memory: 16 << 20, Scratch: scratch})
	base := s.Info().MemoryByUse
	seed := uint64(11)
	plans := []graph.Plan{{Fanouts: []int{4, 3}, Batch: 60, Shuffle: true}, {Fanouts: []int{2}, Batch: 100, Input: goagnes.InputNodes{Split: "train"}}}
	options := func(i int, bytes int64) goagnes.LoaderOptions {
		return goagnes.LoaderOptions{NumNeighbors: plans[i].Fanouts, BatchSize: plans[i].Batch, Shuffle: plans[i].Shuffle, InputNodes: plans[i].Input, Seed: &seed, Memory: bytes, HyperbatchSize: 7}
	}
	for i, p := range plans {
		l := life.Load(t, s, options(i, 0))
		g.HoldEqual(t, l, options(i, 0), g.Plain(p, seed).Epoch(0))
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		if uses := s.Info().MemoryByUse; !maps.Equal(uses, base) {
			t.Fatalf("after the loader's Close: %v, before: %v", uses, base)
		}
	}
	loaders := []*goagnes.Loader{life.Load(t, s, options(0, 4<<20)), life.Load(t, s, options(1, 5<<20))}
	var budget *memory.BudgetError
	if _, err := goagnes.NewLoader(s, options(0, 12<<20)); !errors.As(err, &budget) || goagnes.Class(err) != goagnes.ClassBudget {
		t.Errorf("a share beyond the budget: %v", err)
	}
	var both sync.WaitGroup
	for i, l := range loaders {
		both.Go(func() {
			for epoch := range uint32(3) {
				want := g.Plain(plans[i], seed).Epoch(epoch)
				if err := l.Start(context.Background()); err != nil {
					t.Error(err)
					return
				}
				for m := range want {
					b, err := l.Next(context.Background())
					if err != nil {
						t.Errorf("loader %d, epoch %d, minibatch %d: %v", i, epoch, m, err)
						return
					}
					for name, wanted := range g.Arrays(want[m], options(i, 0)) {
						if a, ok := b.Array(name); !ok || !bytes.Equal(a.Bytes(), wanted) {
							t.Errorf("loader %d, epoch %d, minibatch %d: %s differs", i, epoch, m, name)
						}
					}
					b.Release()
				}
			}
		})
	}
	both.Wait()
	for i, limit := range []int64{4 << 20, 5 << 20} {
		if peak := loaders[i].Stats().PeakMemory; peak > limit {
			t.Errorf("loader %d used %d bytes of its %d", i, peak, limit)
		}
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	tree.Empty(t, scratch)
	before.Hold(t)
}

// TestCloseRaces closes a store and a loader from several goroutines while
// others start epochs, take minibatches and ask for counts.
func TestCloseRaces(t *testing.T) {
	g := graph.Ring(1500)
	scratch := t.TempDir()
	path := filepath.Join(t.TempDir(), "store")
	g.Build(t, path, goagnes.BuildOptions{BlockSize: 4096, Order: "degree"})
	r := rand.New(rand.NewPCG(2, 4))
	before := life.TakeCensus(t)
	tries := 30
	if testing.Short() {
		tries = 10
	}
	for range tries {
		s := life.Open(t, path, goagnes.OpenOptions{Memory: 3 << 20, Scratch: scratch})
		l := life.Load(t, s, goagnes.LoaderOptions{NumNeighbors: []int{5, 5}, BatchSize: 30, HyperbatchSize: 20})
		expected := func(err error) bool {
			return err == nil || errors.Is(err, io.EOF) || errors.Is(err, goagnes.ErrClosed)
		}
		if err := l.Start(context.Background()); err != nil {
			t.Fatal(err)
		}
		var all sync.WaitGroup
		all.Go(func() {
			for {
				b, err := l.Next(context.Background())
				if !expected(err) {
					t.Errorf("Next: %v", err)
				}
				if errors.Is(err, io.EOF) {
					err = l.Start(context.Background())
				}
				if err != nil {
					return
				}
				if b != nil {
					b.Release()
				}
			}
		})
		// The store is closed while the loader is being closed.
		first := time.Duration(r.Int64N(int64(40 * time.Millisecond)))
		delays := []time.Duration{first, first + time.Duration(r.Int64N(int64(time.Millisecond))), first + time.Duration(r.Int64N(int64(time.Millisecond)))}
		all.Go(func() {
			time.Sleep(delays[0])
			if err := l.Close(); err != nil {
				t.Errorf("Loader.Close: %v", err)
			}
			if l.Stats().Minibatches < 0 || l.Len() != 50 {
				t.Error("counts of a closed loader are wrong")
			}
		})
		for _, d := range delays[1:] {
			all.Go(func() {
				time.Sleep(d)
				if err := s.Close(); err != nil {
					t.Errorf("Store.Close: %v", err)
				}
				if s.Info().NumNodes != 1500 {
					t.Error("Info of a closed store is wrong")
				}
			})
		}
		ended := make(chan struct{})
		go func() { all.Wait(); close(ended) }()
		select {
		case <-ended:
		case <-time.After(30 * time.Second):
			stacks := make([]byte, 1<<20)
			t.Fatalf("closing hangs:\n%s", stacks[:runtime.Stack(stacks, true)])
		}
	}
	tree.Empty(t, scratch)
	before.Hold(t)
}

// TestMisuse is what callers get wrong.
func TestMisuse(t *testing.T) {
	g := graph.Ring(100)
	path := filepath.Join(t.TempDir(), "store")
	g.Build(t, path, goagnes.BuildOptions{BlockSize: 4096})
	s := life.Open(t, path, goagnes.OpenOptions{Memory: 8 << 20})
	defer s.Close()
	for _, c := range []struct {
		name  string
		o     goagnes.LoaderOptions
		class string
	}{
		{"id out of range", goagnes.LoaderOptions{InputNodes: goagnes.InputNodes{IDs: []int64{0, 100}}}, goagnes.ClassUsage},
		{"negative id", goagnes.LoaderOptions{InputNodes: goagnes.InputNodes{IDs: []int64{-1}}}, goagnes.ClassUsage},
		{"short mask", goagnes.LoaderOptions{InputNodes: goagnes.InputNodes{Mask: make([]bool, 99)}}, goagnes.ClassUsage},
		{"unknown split", goagnes.LoaderOptions{InputNodes: goagnes.InputNodes{Split: "dev"}}, goagnes.ClassUsage},
		{"split and ids", goagnes.LoaderOptions{InputNodes: goagnes.InputNodes{Split: "train", IDs: []int64{1}}}, goagnes.ClassUsage},
		{"fanout -2", goagnes.LoaderOptions{NumNeighbors: []int{3, -2}}, goagnes.ClassUsage},
		{"33 hops", goagnes.LoaderOptions{NumNeighbors: make([]int, 33)}, goagnes.ClassUsage},
		{"batch size", goagnes.LoaderOptions{BatchSize: -1}, goagnes.ClassUsage},
		{"hyperbatch", goagnes.LoaderOptions{HyperbatchSize: -1}, goagnes.ClassUsage},
		{"memory", goagnes.LoaderOptions{Memory: -1}, goagnes.ClassUsage},
		{"share", goagnes.LoaderOptions{Memory: 1 << 40}, goagnes.ClassBudget},
		{"mode", goagnes.LoaderOptions{Mode: "fast"}, goagnes.ClassUnsupported},
		{"io", goagnes.LoaderOptions{IO: "mmap"}, goagnes.ClassUnsupported},
	} {
		if _, err := goagnes.NewLoader(s, c.o); goagnes.Class(err) != c.class {
			t.Errorf("%s: %v, class %q, want %q", c.name, err, goagnes.Class(err), c.class)
		}
	}
	fanouts := []int{2}
	seed := uint64(1)
	o := goagnes.LoaderOptions{NumNeighbors: fanouts, BatchSize: 10, Seed: &seed}
	l := life.Load(t, s, o)
	if _, err := l.Next(context.Background()); goagnes.Class(err) != goagnes.ClassUsage {
		t.Errorf("Next before Start: %v, class %q", err, goagnes.Class(err))
	}
	want := g.Plain(graph.Plan{Fanouts: []int{2}, Batch: 10}, seed).Epoch(0)
	fanouts[0], seed = -1, 2 // the caller's again
	o.NumNeighbors = []int{2}
	g.HoldEqual(t, l, o, want)
}

// Opening a store removes the scratch of killed processes, whether or not it needs
// scratch itself, and leaves that of those which live.
func TestOpenRemovesAbandonedScratch(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "store")
	graph.Ring(50).Build(t, path, goagnes.BuildOptions{BlockSize: 4096})
	killed := filepath.Join(dir, "goagnes-scratch-1-0123456789abcdef")
	if err := os.MkdirAll(filepath.Join(killed, "rows"), 0o700); err != nil {
		t.Fatal(err)
	}
	lives, err := storage.OpenScratch(nil, []string{dir}, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer lives.Close()
	if err := os.MkdirAll(killed, 0o700); err != nil { // OpenScratch removes it as well
		t.Fatal(err)
	}
	life.Open(t, path, goagnes.OpenOptions{Memory: 8 << 20})
	if _, err := os.Lstat(killed); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("what a killed process left is there: %v", err)
	}
	if _, err := os.Lstat(lives.Dir()); err != nil {
		t.Errorf("what is in use is gone: %v", err)
	}
}

// Reads of nodes beside an epoch in the least memory that is enough for it: no
// minibatch fails for what they take, and they do not for what it has taken.
func TestReadsBesideAnEpoch(t *testing.T) {
	g := graph.Ring(4000)
	path := filepath.Join(t.TempDir(), "store")
	g.Build(t, path, goagnes.BuildOptions{BlockSize: 4096, Order: "degree"})
	seed := uint64(8)
	o := goagnes.LoaderOptions{NumNeighbors: []int{4, 4}, BatchSize: 100, HyperbatchSize: 4, Shuffle: true, Seed: &seed}
	least := int64(1)
	for range 3 {
		s, err := goagnes.Open(path, goagnes.OpenOptions{Memory: least})
		if err == nil {
			_, err = goagnes.NewLoader(s, o)
			s.Close()
		}
		var refused *memory.BudgetError
		if errors.As(err, &refused) {
			least = refused.Enough
		}
	}
	for _, budget := range []int64{least, least * 11 / 10, least * 3 / 2, 2 * least} {
		readBesideEpochs(t, path, budget, o)
	}
}

// readBesideEpochs reads rows on three threads while a loader goes through epochs.
func readBesideEpochs(t *testing.T, path string, budget int64, o goagnes.LoaderOptions) {
	ctx := context.Background()
	s := life.Open(t, path, goagnes.OpenOptions{Memory: budget})
	l := life.Load(t, s, o)
	stop := make(chan struct{})
	var reading sync.WaitGroup
	reads := make([]int, 3)
	for i := range reads {
		reading.Go(func() {
			ids := make([]int64, 3000)
			for k := range ids {
				ids[k] = int64(k*7+i) % 4000
			}
			info := s.NodeArrays()["x"]
			width, _ := layout.ParseDType(info.DType)
			row := int64(width.Size())
			for _, n := range info.RowShape {
				row *= n
			}
			out := make([]byte, row*int64(len(ids)))
			for ; ; reads[i]++ {
				select {
				case <-stop:
					return
				default:
				}
				if err := s.ReadNodes(ctx, "x", goagnes.Nodes{IDs: ids}, out); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	for range 3 {
		if err := l.Start(ctx); err != nil {
			t.Fatal(err)
		}
		for {
			b, err := l.Next(ctx)
			if err == io.EOF {
				break
			}
			if err != nil {
				t.Errorf("within %d bytes: %v", budget, err)
				break
			}
			b.Release()
		}
	}
	close(stop)
	reading.Wait()
	t.Logf("%v reads within %d KiB", reads, budget>>10)
	for i, n := range reads {
		if n == 0 {
			t.Errorf("thread %d has read nothing", i)
		}
	}
	if peak := s.Usage().PeakMemory; peak > budget {
		t.Errorf("%d bytes are used of %d", peak, budget)
	}
}
