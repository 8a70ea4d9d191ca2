package operation

// One store for all tests of the engine, and what a test must leave behind.

import (
	"context"
	"errors"
	"fmt"
	"hash/crc64"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"
	"unsafe"

	"github.com/goagnes/goagnes/goagnes/memory"
	"github.com/goagnes/goagnes/goagnes/storage"
	"github.com/goagnes/goagnes/layout"
	"github.com/goagnes/goagnes/layout/build"
	"github.com/goagnes/goagnes/layout/build/source"
	"github.com/goagnes/goagnes/layout/build/source/array"
)

// The store: a graph of blocks of 4 KiB with a hub of three, in order degree,
// so that every id is translated, with rows of 520 bytes.
const (
	fixtureNodes    = 4000
	fixtureEdges    = 40000
	fixtureFeatures = 130
	fixtureBatches  = 20 // of an epoch, in hyperbatches of 8
)

var fixtureDir string

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "operation-test-")
	if err == nil {
		fixtureDir = filepath.Join(dir, "store")
		err = buildFixture()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := m.Run()
	os.RemoveAll(dir)
	os.Exit(code)
}

func rawBytes[T any](s []T) []byte {
	var zero T
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(s))), len(s)*int(unsafe.Sizeof(zero)))
}

func buildFixture() error {
	r := rand.New(rand.NewPCG(3, 3))
	edges := make([]int64, 2*fixtureEdges)
	for e := range fixtureEdges {
		edges[e] = r.Int64N(fixtureNodes)
		edges[fixtureEdges+e] = r.Int64N(r.Int64N(fixtureNodes) + 1)
		if e%5 == 0 {
			edges[fixtureEdges+e] = 77
		}
	}
	x := make([]float32, fixtureNodes*fixtureFeatures)
	for i := range x {
		x[i] = float32(i)
	}
	e, err := array.EdgesFromMemory(array.Array{Name: "edge_index", Data: rawBytes(edges), DType: layout.Int64, Shape: []int64{2, fixtureEdges}})
	if err != nil {
		return err
	}
	rows, err := array.RowsFromMemory(array.Array{Name: "x", Data: rawBytes(x), DType: layout.Float32, Shape: []int64{fixtureNodes, fixtureFeatures}})
	if err != nil {
		return err
	}
	_, err = build.Build(context.Background(), fixtureDir, build.Options{Edges: e, Arrays: map[string]source.Rows{"x": rows}, Order: "degree", BlockSize: 4096})
	return err
}

// fixture is an engine and all that it stands on.
type fixture struct {
	*Engine
	t       testing.TB
	scratch string
	files   *storage.Store
	pool    *storage.Pool
	mapped  [][]byte
	before  census
}

// census is what must be as before when a test ends.
type census struct {
	live       map[string]int64
	goroutines int
	files      int
}

func takeCensus(t testing.TB) census {
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
	for range 200 {
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

func newFixture(t testing.TB, bytes int64, set func(*Options)) *fixture {
	t.Helper()
	return newFixtureOf(t, fixtureDir, bytes, set)
}

// newFixtureOf is newFixture on another store.
func newFixtureOf(t testing.TB, dir string, bytes int64, set func(*Options)) *fixture {
	t.Helper()
	return newFixtureOn(t, dir, storage.PoolOptions{}, bytes, set)
}

// newFixtureOn is newFixtureOf with a way to the device.
func newFixtureOn(t testing.TB, dir string, on storage.PoolOptions, bytes int64, set func(*Options)) *fixture {
	t.Helper()
	f := &fixture{t: t, scratch: t.TempDir(), before: takeCensus(t)}
	f.pool = storage.NewPool(on)
	var err error
	if f.files, err = storage.OpenStore(dir, storage.StoreOptions{Pool: f.pool}); err != nil {
		t.Fatal(err)
	}
	table := f.files.Section(layout.SectionIndex)
	entries, err := memory.Map(table.FileBytes())
	if err != nil {
		t.Fatal(err)
	}
	f.mapped = append(f.mapped, entries)
	if err := table.Read(0, entries); err != nil {
		t.Fatal(err)
	}
	index, err := memory.NewObjectIndex(entries[:table.Bytes], nil, f.files.Manifest().NumNodes, f.files.Manifest().NumEdges)
	if err != nil {
		t.Fatal(err)
	}
	o := Options{
		Store: f.files, Index: index, Budget: memory.NewBudget(bytes), Threads: 3,
		Scratch: func() (*storage.Scratch, error) { return storage.OpenScratch(on.FS, []string{f.scratch}, 0) },
		Seeds:   AllSeeds(1000), BatchSize: 50, Fanouts: []int{10, 8}, Seed: 9, Hyperbatch: 8, Held: 1,
		Outputs: Outputs{X: true, Y: true, NodeIDs: true, EdgeIndex: true, EdgeIDs: true, InputIDs: true},
	}
	if set != nil {
		set(&o)
	}
	if f.Engine, err = New(o); err != nil {
		t.Fatal(err)
	}
	return f
}

// idle holds the engine to what it may keep between epochs.
func (f *fixture) idle() {
	f.t.Helper()
	kept := int64(0)
	if f.keptGraph != nil {
		kept = f.keptGraph.lease.Bytes()
		if n := f.keptBuffer.Pinned(); n != 0 {
			f.t.Errorf("%d frames of the graph buffer are still pinned", n)
		}
	}
	if f.keptRows != nil {
		kept += f.keptRows.lease.Bytes()
	}
	if used := f.Budget.Used() - f.slabs.Counters().MappedBytes; used != kept {
		f.t.Errorf("%d bytes of the budget are in use, %d are kept: %v", used, kept, f.Budget.Consumers())
	}
	if n := f.slabs.Counters().InUse; n != 0 {
		f.t.Errorf("%d minibatches are still held", n)
	}
}

func (f *fixture) close() {
	f.t.Helper()
	if err := f.Engine.Close(); err != nil {
		f.t.Error(err)
	}
	if used := f.Budget.Used(); used != 0 {
		f.t.Errorf("%d bytes of the budget are in use after Close: %v", used, f.Budget.Consumers())
	}
	if n := f.slabs.Counters().Orphaned; n != 0 {
		f.t.Errorf("%d minibatches were held at Close", n)
	}
	if left, err := os.ReadDir(f.scratch); err != nil || len(left) > 0 {
		f.t.Errorf("scratch folders are left: %v %v", left, err)
	}
	if err := errors.Join(f.files.Close(), f.pool.Close()); err != nil {
		f.t.Error(err)
	}
	for _, b := range f.mapped {
		if err := memory.Unmap(b); err != nil {
			f.t.Error(err)
		}
	}
	f.before.hold(f.t)
}

var digests = crc64.MakeTable(crc64.ECMA)

// digest adds the bytes of a minibatch to a digest.
func (b *Batch) digest(sum uint64) uint64 {
	for _, a := range b.Arrays() {
		sum = crc64.Update(sum, digests, a.Bytes())
	}
	return sum
}

// drain takes and releases minibatches until an error, and returns how many
// there were and a digest of their bytes.
func drain(r *Run) (n int, sum uint64, err error) {
	for {
		b, err := r.Next(context.Background())
		if errors.Is(err, io.EOF) {
			return n, sum, nil
		}
		if err != nil {
			return n, sum, err
		}
		n++
		sum = b.digest(sum)
		b.Release()
	}
}
