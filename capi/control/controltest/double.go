// Package controltest is a synthetic engine for tests of the control plane and
// of the Python binding: it fills slabs with known values, and waits, fails and
// panics where it is told to.
//
// It is linked into the shared library only with the build tag goagnes_testing.
package controltest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/goagnes/goagnes/capi/control"
	"github.com/goagnes/goagnes/goagnes/memory"
	"github.com/goagnes/goagnes/layout"
)

// Fault is an error with a class of the test's choosing.
type Fault struct{ Kind, Message string }

func (f *Fault) Error() string { return f.Message }

// Class returns the class.
func (f *Fault) Class() string { return f.Kind }

// patience is how long a minibatch waits for memory.
const patience = 2 * time.Second

// Orphaned counts the slabs that were still held when their loader was closed.
var Orphaned atomic.Int64

// Engine is the double. The zero value is ready.
type Engine struct{}

// Open opens any path; a path "missing" fails with class "store".
func (Engine) Open(path string, _ json.RawMessage) (control.Store, error) {
	switch path {
	case "missing":
		return nil, &Fault{"store", "missing: no such store"}
	case "slow":
		time.Sleep(time.Second)
	}
	return &Store{path: path}, nil
}

// Run knows the kinds "sleep" (until cancelled, or for {"millis": n}), "panic",
// "fail" ({"class": …, "message": …}), "echo" (returns the request) and "ignore"
// (sleeps for {"millis": n} whatever happens).
func (Engine) Run(ctx context.Context, kind string, _ control.Store, request json.RawMessage, report control.Progress) (any, error) {
	var r struct {
		Millis  int64  `json:"millis"`
		Class   string `json:"class"`
		Message string `json:"message"`
	}
	if err := json.Unmarshal(request, &r); err != nil {
		return nil, &Fault{"usage", err.Error()}
	}
	switch kind {
	case "sleep":
		if r.Millis == 0 {
			r.Millis = math.MaxInt32
		}
		for i := int64(0); i < r.Millis; i += 10 {
			report("sleep", i, r.Millis)
			select {
			case <-ctx.Done():
				return nil, ctx.Err()
			case <-time.After(10 * time.Millisecond):
			}
		}
		return map[string]any{"slept": r.Millis}, nil
	case "ignore":
		time.Sleep(time.Duration(r.Millis) * time.Millisecond)
		return nil, nil
	case "panic":
		panic("controltest: asked to")
	case "fail":
		return nil, &Fault{r.Class, r.Message}
	case "echo":
		return request, nil
	case "unmarshalable":
		return math.NaN(), nil
	}
	return nil, &Fault{"usage", fmt.Sprintf("no work is named %q", kind)}
}

// Store is the double's store; it counts its closings.
type Store struct {
	path   string
	Closed atomic.Int64
}

// Info returns the path.
func (s *Store) Info() any { return map[string]any{"path": s.path, "closed": s.Closed.Load()} }

// Close fails when the store was closed before.
func (s *Store) Close() error {
	if s.Closed.Add(1) > 1 {
		return errors.New("controltest: a store was closed twice")
	}
	return nil
}

// settings are what a loader's request may say. Minibatch numbers count from 0;
// -1 means never.
type settings struct {
	Batches  int64  `json:"batches"`
	Nodes    int64  `json:"nodes"`
	Features int64  `json:"features"`
	DType    string `json:"dtype"` // of x
	Delay    int64  `json:"delay"` // milliseconds before each minibatch
	BlockAt  int64  `json:"block_at"`
	FailAt   int64  `json:"fail_at"`
	PanicAt  int64  `json:"panic_at"`
	Slabs    int64  `json:"slabs"` // that the pool may map, 0: as many as are held
}

// NewLoader returns a loader of synthetic minibatches.
func (s *Store) NewLoader(request json.RawMessage) (control.Loader, error) {
	set := settings{Batches: 4, Nodes: 5, Features: 3, DType: "float32", BlockAt: -1, FailAt: -1, PanicAt: -1}
	if err := json.Unmarshal(request, &set); err != nil {
		return nil, &Fault{"usage", err.Error()}
	}
	dtype, err := layout.ParseDType(set.DType)
	if err != nil {
		return nil, &Fault{"usage", err.Error()}
	}
	l := &Loader{settings: set, dtype: dtype, epoch: -1}
	l.pool = memory.NewSlabPool(nil, set.Slabs*memory.SlabBytes(l.bytes()))
	return l, nil
}

// Loader is the double's loader.
type Loader struct {
	settings
	dtype layout.DType
	epoch int64
	next  int64
	// Of the next minibatch, over all calls that gave up waiting for it: when it
	// is due, where it is delayed, and since when it waits for memory.
	due, starved time.Time

	closed atomic.Bool
	pool   *memory.SlabPool
}

// SetEpoch sets the number of the next epoch.
func (l *Loader) SetEpoch(epoch uint32) { l.epoch = int64(epoch) - 1 }

// Start begins an epoch.
func (l *Loader) Start(context.Context) error {
	l.epoch++
	l.next, l.due, l.starved = 0, time.Time{}, time.Time{}
	return nil
}

// Describe returns the settings, or the counters of the pool as stats.
func (l *Loader) Describe(kind string) (any, error) {
	switch kind {
	case "settings", "explain":
		return map[string]any{"kind": kind, "batches": l.Batches}, nil
	case "stats":
		return map[string]any{"kind": kind, "pool": l.Pool()}, nil
	}
	return nil, &Fault{"usage", fmt.Sprintf("a loader has no %q", kind)}
}

// Close drops the pool's references.
func (l *Loader) Close() error {
	if l.closed.Swap(true) {
		return errors.New("controltest: a loader was closed twice")
	}
	err := l.pool.Close()
	Orphaned.Add(l.pool.Counters().Orphaned)
	return err
}

// arrays describes a minibatch's arrays, without memory.
func (l *Loader) arrays() []control.Array {
	n, edges := l.Nodes, max(l.Nodes-1, 0)
	return []control.Array{
		{Name: "x", DType: l.dtype, Shape: []int64{n, l.Features}},
		{Name: "y", DType: layout.Int64, Shape: []int64{n}},
		{Name: "n_id", DType: layout.Int64, Shape: []int64{n}},
		{Name: "edge_index", DType: layout.Int64, Shape: []int64{2, edges}},
	}
}

// bytes returns what the arrays need in a slab, each aligned to 64 bytes.
func (l *Loader) bytes() int64 {
	total := int64(0)
	for _, a := range l.arrays() {
		total += arrayBytes(a)
	}
	return total
}

func arrayBytes(a control.Array) int64 {
	bytes := int64(a.DType.Size())
	for _, n := range a.Shape {
		bytes *= n
	}
	return (bytes + 63) &^ 63
}

// place sets the arrays' pointers inside a slab.
func place(arrays []control.Array, slab *memory.Slab) {
	at := unsafe.Add(slab.Base(), memory.SlabHeader)
	for i := range arrays {
		arrays[i].Pointer = at
		at = unsafe.Add(at, arrayBytes(arrays[i]))
	}
}

// Pool returns what the loader's pool did and holds.
func (l *Loader) Pool() memory.SlabCounters { return l.pool.Counters() }

// Next fills a slab: x is full of the minibatch's number (y of the epoch's),
// n_id counts up, edge_index is the path 1→0, 2→1, …
func (l *Loader) Next(ctx context.Context) (*control.Batch, error) {
	i := l.next
	if i >= l.Batches {
		return nil, io.EOF
	}
	wait := time.Duration(l.Delay) * time.Millisecond
	if i == l.BlockAt {
		wait = time.Hour
	}
	if wait > 0 {
		if l.due.IsZero() {
			l.due = time.Now().Add(wait) // also for the calls after one that gave up
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(time.Until(l.due)):
		}
	}
	switch i {
	case l.FailAt:
		return nil, &Fault{"io", "controltest: minibatch failed"}
	case l.PanicAt:
		panic("controltest: minibatch panicked")
	}
	if l.starved.IsZero() {
		l.starved = time.Now()
	}
	l.pool.Wait = max(patience-time.Since(l.starved), time.Millisecond)
	slab, err := l.pool.Get(ctx, l.bytes())
	if err != nil {
		return nil, err
	}
	l.next++
	l.due, l.starved = time.Time{}, time.Time{}
	n, edges := l.Nodes, max(l.Nodes-1, 0)
	shapes := l.arrays()
	place(shapes, slab)
	b := &control.Batch{Index: i, BatchSize: min(n, 1), NumNodes: n, NumEdges: edges,
		SampledNodes: []int64{min(n, 1), max(n-1, 0)}, SampledEdges: []int64{edges},
		Arrays: shapes, Slab: slab.Base(), Release: slab.Release}
	x := unsafe.Slice((*byte)(shapes[0].Pointer), n*l.Features*int64(l.dtype.Size()))
	switch l.dtype {
	case layout.Float32:
		for j := range n * l.Features {
			*(*float32)(unsafe.Pointer(&x[4*j])) = float32(i)
		}
	default:
		for j := range x {
			x[j] = byte(i)
		}
	}
	y, ids := unsafe.Slice((*int64)(shapes[1].Pointer), n), unsafe.Slice((*int64)(shapes[2].Pointer), n)
	edge := unsafe.Slice((*int64)(shapes[3].Pointer), 2*edges)
	for j := range n {
		y[j], ids[j] = l.epoch, j
		if j < edges {
			edge[j], edge[edges+j] = j+1, j
		}
	}
	return b, nil
}
