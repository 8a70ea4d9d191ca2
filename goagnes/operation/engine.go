package operation

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"

	"github.com/goagnes/goagnes/goagnes/memory"
	"github.com/goagnes/goagnes/goagnes/storage"
	"github.com/goagnes/goagnes/layout"
)

// Seeds are the input nodes of a loader, in the order in which they were given.
type Seeds interface {
	// Len returns the number of input nodes.
	Len() int64
	// Lookup writes the original ids of the input nodes at the given places,
	// which need not be sorted, to ids, of the same length. It ends early where
	// the context does.
	Lookup(ctx context.Context, places []int64, ids []uint64) error
}

// Consumer takes memory of the engine's budget for each minibatch that it is
// handed. The engine sets that memory aside before it hands out a hyperbatch, and
// divides only the rest among its own steps, also while the consumer works on the
// last minibatch of one hyperbatch and the next is sampled.
type Consumer interface {
	// Needs returns the bytes that a minibatch of these new nodes and edges by hop
	// takes. Those of one minibatch are given back before those of the next are taken.
	Needs(nodes, edges []int64) int64
	// Aside returns the bytes that are set aside.
	Aside() int64
	// SetAside makes them at least n.
	SetAside(n int64) error
}

// Outputs selects the arrays of a batch.
type Outputs struct {
	X, Y      bool // rows and labels of all local nodes
	NodeIDs   bool // "n_id" int64: original ids of all local nodes
	EdgeIndex bool // "edge_index" int64 (2, edges): local sources and targets
	EdgeIDs   bool // "e_id" int64: edges' places in the imported list
	InputIDs  bool // "input_id" int64: what the seeds were named by
	CSC       bool // "ptr" and "src" uint32: the same edges by local target
	Degree    bool // "degree" uint32: in-degree in the whole graph, loops left out, of all local nodes
}

// Options configure an Engine. All fields are needed unless a default is named.
type Options struct {
	Store                      *storage.Store
	Index                      *memory.ObjectIndex // T_obj^g
	Budget                     *memory.Budget
	Scratch                    func() (*storage.Scratch, error) // called when something must be spilled
	Threads                    int                              // workers, default: the processors that may be used
	Seeds                      Seeds
	InputIsID                  bool // "input_id" holds node ids, not places
	BatchSize                  int
	DropLast                   bool
	Shuffle                    bool
	Fanouts                    []int // neighbours drawn per node and hop, from the seeds outwards; -1 takes all
	Seed                       uint64
	Hyperbatch                 int      // minibatches prepared together, at most
	Grow                       bool     // the first hyperbatches of an epoch are smaller where that costs little
	Published                  bool     // read as Algorithm 1 of the paper does, see the package comment
	GraphBuffer, FeatureBuffer int64    // bytes of frames, default divided out of what is free
	Held                       int      // minibatches that the consumer still holds when it asks for the next: 0 or 1
	Consumer                   Consumer // takes memory of the budget for minibatches; nil: none does
	Outputs                    Outputs
	// Others returns what others than the engine hold of a budget of that many bytes,
	// for the number that a refusal names; default what is in use now.
	Others func(total int64) int64
	// Unchecked leaves it to the caller to compare Need with the budget.
	Unchecked bool
}

// Engine prepares minibatches of one configuration, epoch after epoch. One
// epoch runs at a time.
type Engine struct {
	Options
	graphBlocks
	internal    *storage.Section // original -> internal id, nil for the identity
	columns     []column         // what a row record holds
	stride      int64            // bytes of a row record
	plan        plan
	freeAtStart int64   // of the budget, when the engine was made
	least       largest // minibatch that is provided for
	every       bool    // which is any that can be drawn
	keeps       int64   // bytes that may be kept between hyperbatches
	slabs       *memory.SlabPool
	asking      atomic.Pointer[atomic.Int32] // calls of Next of the running epoch
	meter       meter

	ahead  aheads // what is sampled ahead
	inTurn bool   // for tests: nothing is sampled ahead

	keeper     keeper
	keptGraph  *claim // the graph buffer, where it holds all blocks and stays
	keptBuffer *memory.Buffer
	keptAlways bool   // the graph buffer, being small
	keptRows   *claim // the feature cache, likewise where it holds all rows
	keptCache  *memory.FeatureCache
	keptIndex  int64 // bytes of keptRows before the rows

	keptFeature       *claim // the feature buffer, where the policy is the published one
	keptFeatureBuffer *memory.Buffer

	mu      sync.Mutex
	learned estimate // what minibatches took so far
	scratch *storage.Scratch
	samples [2]*storage.File // records that memory has no room for
	idle    int              // the one of them that nobody reads, from 1 on; 0: both may be in use
	runs    *storage.File    // rows that the feature cache has no room for
	grown   map[string]int64
	spilt   uint64 // hyperbatches whose rows were gathered
	running *Run

	scratchFits int // minibatches of a hyperbatch at most: fewer than asked for once scratch had no room
}

// column is one array of nodes that a row record holds.
type column struct {
	section *storage.Section
	stride  int64
	at      int64 // byte offset in the row record
}

// ErrClosed is returned by Next after Close.
var ErrClosed = errors.New("the loader is closed")

// New checks the options and returns an engine. Nothing is read yet.
func New(o Options) (*Engine, error) {
	m := o.Store.Manifest()
	if m.NumNodes >= math.MaxUint32 {
		return nil, tooManyNodes(m.NumNodes)
	}
	if o.Threads <= 0 {
		o.Threads = runtime.GOMAXPROCS(0)
	}
	blocks, err := newGraphBlocks(o.Store, o.Index, o.Outputs.EdgeIDs)
	if err != nil {
		return nil, err
	}
	e := &Engine{Options: o, graphBlocks: blocks, grown: map[string]int64{}, scratchFits: o.Hyperbatch}
	e.internal = o.Store.Section(layout.SectionInternal)
	add := func(name string, wanted bool) {
		s := o.Store.Section(name)
		if !wanted || s == nil {
			return
		}
		e.columns = append(e.columns, column{s, s.Stride(), e.stride})
		e.stride += s.Stride()
	}
	add(layout.SectionX, o.Outputs.X)
	add(layout.SectionY, o.Outputs.Y)
	add(layout.SectionOriginal, o.Outputs.NodeIDs)
	add(layout.SectionDegree, o.Outputs.Degree)
	e.freeAtStart = o.Budget.Free()
	total := o.Budget.Total()
	if e.plan, err = e.planFor(total); err != nil {
		return nil, err
	}
	e.least, e.every = e.provided()
	need := e.Fit(total - e.others(total))
	if !o.Unchecked {
		purpose := "preparing minibatches"
		switch {
		case o.GraphBuffer > 0 && o.FeatureBuffer > 0:
			purpose += " with these graph_buffer and feature_buffer"
		case o.GraphBuffer > 0:
			purpose += " with this graph_buffer"
		case o.FeatureBuffer > 0:
			purpose += " with this feature_buffer"
		}
		err := e.refuse(purpose, e.Need)
		if err != nil { // perhaps for want of what others keep without need
			o.Budget.Reclaim()
			e.freeAtStart = o.Budget.Free()
			need, err = e.Fit(total-e.others(total)), e.refuse(purpose, e.Need)
		}
		if err != nil {
			return nil, err
		}
	}
	for _, b := range []struct {
		argument string
		bytes    int64
	}{{"graph_buffer", o.GraphBuffer}, {"feature_buffer", o.FeatureBuffer}} {
		if b.bytes > total {
			return nil, &memory.BudgetError{Consumer: b.argument, Need: b.bytes, Free: total, Total: total}
		}
	}
	e.keeps = max(0, e.freeAtStart-need)
	e.slabs = memory.NewSlabPool(o.Budget, o.Budget.Total())
	e.slabs.Asking = func() bool {
		asking := e.asking.Load()
		return asking != nil && asking.Load() > 0
	}
	e.keeper.end = o.Budget.OnShortage(e.giveBack)
	e.ahead.end = o.Budget.OnShortage(e.ahead.giveUp)
	return e, nil
}

// Keep bounds the bytes that the engine keeps between hyperbatches beyond its
// need, where other engines share its budget. It must not be called within an epoch.
func (e *Engine) Keep(bytes int64) { e.keeps = max(0, bytes) }

// idleShare is the part of what may be kept, one in so many, that is for idle
// minibatches.
const idleShare = 4

// spare returns what may be kept beside what is kept already, and beside idle
// minibatches.
func (e *Engine) spare() int64 {
	n := e.keeps - e.keeps/idleShare
	for _, c := range []*claim{e.keptGraph, e.keptRows} {
		if c != nil && !e.plan.published {
			n -= c.lease.Bytes()
		}
	}
	return max(0, n)
}

// Minibatches returns the number of minibatches of an epoch.
func (e *Engine) Minibatches() int64 {
	n, b := e.Seeds.Len(), int64(e.BatchSize)
	if e.DropLast {
		return n / b
	}
	return (n + b - 1) / b
}

// Close ends a running epoch and returns all memory but that of batches which
// their holders have not released.
func (e *Engine) Close() error {
	e.mu.Lock()
	r := e.running
	e.mu.Unlock()
	if r != nil {
		r.Close()
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	err := e.slabs.Close()
	if e.keeper.end != nil {
		e.keeper.end()
		e.ahead.end()
		e.keeper.end, e.ahead.end = nil, nil
	}
	e.keeper.mu.Lock()
	e.dropKept()
	e.keeper.mu.Unlock()
	e.keptFeature.release()
	if e.scratch != nil {
		err = errors.Join(err, e.scratch.Close())
		e.scratch = nil
	}
	return err
}

// DropScratch removes the scratch files of an engine between epochs: the next that
// spills makes them anew.
func (e *Engine) DropScratch() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.scratch == nil {
		return nil
	}
	err := e.scratch.Close()
	e.scratch, e.samples, e.runs, e.idle = nil, [2]*storage.File{}, nil, 0
	clear(e.grown)
	return err
}

// claim reserves and maps n bytes for a purpose.
func (e *Engine) claim(purpose string, n int64) (*claim, error) {
	lease, err := e.Budget.Reserve(purpose, n)
	if err != nil {
		return nil, err
	}
	mem, err := memory.MapFor(purpose, n)
	if err != nil {
		lease.Release()
		return nil, err
	}
	return &claim{mem: mem, lease: lease}, nil
}

// frames is claim for memory into which blocks are read again and again, which
// the pool registers where it can.
func (e *Engine) frames(purpose string, n int64) (*claim, error) {
	c, err := e.claim(purpose, n)
	if err == nil {
		c.unregister, _ = e.Store.Pool().Register(c.mem)
	}
	return c, err
}

// claim is memory taken from the budget.
type claim struct {
	mem        []byte
	lease      *memory.Lease
	unregister func() // nil: the memory was not offered to the pool
}

func (c *claim) release() {
	if c == nil || c.mem == nil {
		return
	}
	if c.unregister != nil {
		c.unregister()
	}
	if err := memory.Unmap(c.mem); err != nil {
		panic("operation: " + err.Error())
	}
	c.mem = nil
	c.lease.Release()
}

// BugError is a failure of our own: a panic, caught where its goroutine began so
// that it ends the epoch and not the process.
type BugError struct {
	Value any
	Stack []byte
}

func (e *BugError) Error() string {
	return fmt.Sprintf("internal error, please report it: %v\n%s", e.Value, e.Stack)
}

// Class returns "internal".
func (e *BugError) Class() string { return "internal" }

// caught turns a panic into a BugError; it must be deferred.
func caught(err *error) {
	if p := recover(); p != nil {
		*err = &BugError{p, debug.Stack()}
	}
}

// parallel runs f(worker) on every worker and returns the first error.
func parallel(workers int, f func(worker int) error) error {
	errs := make([]error, workers)
	one := func(w int) {
		defer caught(&errs[w])
		errs[w] = f(w)
	}
	var wg sync.WaitGroup
	for w := 1; w < workers; w++ {
		wg.Go(func() { one(w) })
	}
	one(0)
	wg.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

func roundUp(n, to int64) int64 { return (n + to - 1) / to * to }
