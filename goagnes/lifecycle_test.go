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
	"github.com/goagnes/goagnes/layout"
)

// ringGraph is a graph of one in-degree, whose minibatches are about equally
// large, with rows of 800 bytes.
func ringGraph(nodes int) *rawGraph {
	r := rand.New(rand.NewPCG(4, uint64(nodes)))
	g := &rawGraph{nodes: nodes, xType: layout.Float32, xShape: []int64{200}, yType: layout.Int64}
	for v := range int64(nodes) {
		for range 12 {
			g.src, g.dst = append(g.src, r.Int64N(int64(nodes))), append(g.dst, v)
		}
	}
	g.x, g.y = noise(r, g.xType, nodes*200), noise(r, g.yType, nodes)
	g.splits = map[string][]int64{"train": {}}
	for v := int64(0); v < int64(nodes); v += 5 {
		g.splits["train"] = append(g.splits["train"], v)
	}
	return g
}

// census is what must be as before when everything is closed.
type census struct {
	live       map[string]int64
	goroutines int
	files      int
}

func takeCensus(t testing.TB) census {
	t.Helper()
	fds, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return census{memory.Live(), runtime.NumGoroutine(), len(fds)}
}

// hold waits a moment for goroutines to end and reports what is left over.
func (c census) hold(t testing.TB) {
	t.Helper()
	var now census
	for range 300 {
		now = takeCensus(t)
		if maps.Equal(now.live, c.live) && now.goroutines <= c.goroutines && now.files <= c.files {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	stacks := make([]byte, 1<<20)
	t.Errorf("left over: memory %v, %d goroutines, %d files; before: %v, %d, %d\n%s", now.live, now.goroutines, now.files, c.live, c.goroutines, c.files,
		stacks[:runtime.Stack(stacks, true)])
}

// empty reports what is left in a scratch directory.
func empty(t testing.TB, dir string) {
	t.Helper()
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("left in the scratch directory: %v, %v", left, err)
	}
}

func open(t testing.TB, path string, o goagnes.OpenOptions) *goagnes.Store {
	t.Helper()
	s, err := goagnes.Open(path, o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func load(t testing.TB, s *goagnes.Store, o goagnes.LoaderOptions) *goagnes.Loader {
	t.Helper()
	l, err := goagnes.NewLoader(s, o)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// TestBatchesOutlive keeps minibatches beyond their loader and their store.
func TestBatchesOutlive(t *testing.T) {
	g := ringGraph(600)
	path := filepath.Join(t.TempDir(), "store")
	g.build(t, path, goagnes.BuildOptions{BlockSize: 4096, Order: "degree"})
	before := takeCensus(t)
	seed := uint64(5)
	o := goagnes.LoaderOptions{NumNeighbors: []int{3, 2}, BatchSize: 100, Seed: &seed}
	want := g.plain(plan{fanouts: o.NumNeighbors, batch: 100}, seed).epoch(0)
	s := open(t, path, goagnes.OpenOptions{Memory: 32 << 20})
	l := load(t, s, o)
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
		for name, bytesWanted := range g.arrays(want[m], o) {
			if a, ok := kept[m].Array(name); !ok || !bytes.Equal(a.Bytes(), bytesWanted) {
				t.Errorf("minibatch %d: %s changed after Close", m, name)
			}
		}
		kept[m].Release()
	}
	if !bytes.Equal(x.Bytes(), g.arrays(want[1], o)["x"]) {
		t.Error("x of a retained slab changed after Close")
	}
	slab.Release()
	before.hold(t)
}

// TestManyEpochs holds memory, goroutines, files and scratch flat over epochs
// that spill.
func TestManyEpochs(t *testing.T) {
	g := ringGraph(1500)
	dir, scratch := t.TempDir(), t.TempDir()
	path := filepath.Join(dir, "store")
	g.build(t, path, goagnes.BuildOptions{BlockSize: 4096, Order: "degree"})
	before := takeCensus(t)
	s := open(t, path, goagnes.OpenOptions{Memory: 5 << 19, Scratch: scratch, NumThreads: 2})
	l := load(t, s, goagnes.LoaderOptions{NumNeighbors: []int{5, 5}, InputNodes: goagnes.InputNodes{Split: "train"}, BatchSize: 20, Shuffle: true, HyperbatchSize: 10})
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
		c := takeCensus(t)
		return state{c.live, s.Info().MemoryByUse, c.goroutines, c.files, int64(m.HeapAlloc)}
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
	empty(t, scratch)
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	before.hold(t)
}

// TestTwoLoaders shares a store among loaders, one after the other and
// interleaved under shares of its budget.
func TestTwoLoaders(t *testing.T) {
	g := ringGraph(1200)
	scratch := t.TempDir()
	path := filepath.Join(t.TempDir(), "store")
	g.build(t, path, goagnes.BuildOptions{BlockSize: 4096})
	before := takeCensus(t)
	s := open(t, path, goagnes.OpenOptions{Memory: 16 << 20, Scratch: scratch})
	base := s.Info().MemoryByUse
	seed := uint64(11)
	plans := []plan{{fanouts: []int{4, 3}, batch: 60, shuffle: true}, {fanouts: []int{2}, batch: 100, input: goagnes.InputNodes{Split: "train"}}}
	options := func(i int, bytes int64) goagnes.LoaderOptions {
		return goagnes.LoaderOptions{NumNeighbors: plans[i].fanouts, BatchSize: plans[i].batch, Shuffle: plans[i].shuffle, InputNodes: plans[i].input, Seed: &seed, Memory: bytes, HyperbatchSize: 7}
	}
	for i, p := range plans {
		l := load(t, s, options(i, 0))
		g.holdEqual(t, l, options(i, 0), g.plain(p, seed).epoch(0))
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		if uses := s.Info().MemoryByUse; !maps.Equal(uses, base) {
			t.Fatalf("after the loader's Close: %v, before: %v", uses, base)
		}
	}
	loaders := []*goagnes.Loader{load(t, s, options(0, 4<<20)), load(t, s, options(1, 5<<20))}
	var budget *memory.BudgetError
	if _, err := goagnes.NewLoader(s, options(0, 12<<20)); !errors.As(err, &budget) || goagnes.Class(err) != goagnes.ClassBudget {
		t.Errorf("a share beyond the budget: %v", err)
	}
	var both sync.WaitGroup
	for i, l := range loaders {
		both.Go(func() {
			for epoch := range uint32(3) {
				want := g.plain(plans[i], seed).epoch(epoch)
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
					for name, wanted := range g.arrays(want[m], options(i, 0)) {
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
	empty(t, scratch)
	before.hold(t)
}

// TestCloseRaces closes a store and a loader from several goroutines while
// others start epochs, take minibatches and ask for counts.
func TestCloseRaces(t *testing.T) {
	g := ringGraph(1500)
	scratch := t.TempDir()
	path := filepath.Join(t.TempDir(), "store")
	g.build(t, path, goagnes.BuildOptions{BlockSize: 4096, Order: "degree"})
	r := rand.New(rand.NewPCG(2, 4))
	before := takeCensus(t)
	tries := 30
	if testing.Short() {
		tries = 10
	}
	for range tries {
		s := open(t, path, goagnes.OpenOptions{Memory: 3 << 20, Scratch: scratch})
		l := load(t, s, goagnes.LoaderOptions{NumNeighbors: []int{5, 5}, BatchSize: 30, HyperbatchSize: 20})
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
	empty(t, scratch)
	before.hold(t)
}

// TestMisuse is what callers get wrong.
func TestMisuse(t *testing.T) {
	g := ringGraph(100)
	path := filepath.Join(t.TempDir(), "store")
	g.build(t, path, goagnes.BuildOptions{BlockSize: 4096})
	s := open(t, path, goagnes.OpenOptions{Memory: 8 << 20})
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
	l := load(t, s, o)
	if _, err := l.Next(context.Background()); goagnes.Class(err) != goagnes.ClassUsage {
		t.Errorf("Next before Start: %v, class %q", err, goagnes.Class(err))
	}
	want := g.plain(plan{fanouts: []int{2}, batch: 10}, seed).epoch(0)
	fanouts[0], seed = -1, 2 // the caller's again
	o.NumNeighbors = []int{2}
	g.holdEqual(t, l, o, want)
}
