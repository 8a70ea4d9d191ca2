package operation

// What stays in memory from hyperbatch to hyperbatch and from epoch to epoch: the
// graph buffer where it holds all blocks, the feature cache where it holds all
// rows. Small ones stay always; others where that takes nothing from the steps of
// a hyperbatch, which is known when its minibatches are sampled. Whoever lacks
// memory that is kept between epochs gets it, and an epoch that lacks what it
// keeps itself goes on without.

import (
	"errors"
	"sync"

	"github.com/goagnes/goagnes/goagnes/memory"
)

// keeper says who may give up what an engine keeps: the goroutine of an epoch while
// one runs, else anybody.
type keeper struct {
	mu      sync.Mutex
	running bool
	little  bool // what is not small is not kept any more, as memory was short
	end     func()
}

// begin takes what the engine keeps for an epoch.
func (k *keeper) begin() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.running = true
}

// finish lets others ask for it again.
func (k *keeper) finish() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.running = false
}

// giveBack releases what the engine keeps between epochs, for others who lack memory.
func (e *Engine) giveBack() {
	e.keeper.mu.Lock()
	defer e.keeper.mu.Unlock()
	if !e.keeper.running && !e.plan.published {
		e.dropKept()
	}
}

// dropKept releases what is kept, and reports whether there was any.
func (e *Engine) dropKept() bool {
	had := e.keptGraph != nil || e.keptRows != nil
	e.keptGraph.release()
	e.keptRows.release()
	e.keptGraph, e.keptBuffer, e.keptRows, e.keptCache = nil, nil, nil, nil
	return had
}

// withoutKept reports whether a hyperbatch that lacked memory should be prepared
// anew: what was kept is released, and no more is kept from now on than is small.
func (e *Engine) withoutKept(h *hyperbatch, err error) bool {
	var short *memory.BudgetError
	if !errors.As(err, &short) || e.plan.published || !e.dropKept() && h.graph == nil && e.keeper.little {
		return false // nothing was kept, nor given up by the step that failed
	}
	h.release()
	e.keeper.little = true
	return true
}

// graphBuffer returns the graph buffer, kept from before or made anew of that many
// bytes, and what must be released after use, nil where it stays; keep tells whether
// a new one does.
func (e *Engine) graphBuffer(size int64, keep bool) (*memory.Buffer, *claim, error) {
	if b, c := e.keptBuffer, e.keptGraph; c != nil {
		if e.keptAlways {
			return b, nil, nil
		}
		e.keptGraph, e.keptBuffer = nil, nil // the hyperbatch decides anew
		return b, c, nil
	}
	c, err := e.frames("graph buffer", size)
	if err != nil {
		return nil, nil, err
	}
	b := memory.NewBuffer(c.mem, e.plan.graphFrame)
	if e.keptAlways = keep; keep {
		e.keptGraph, e.keptBuffer = c, b
		return b, nil, nil
	}
	return b, c, nil
}

// divide divides what is free for gathering and delivery.
func (h *hyperbatch) divide() (free int64, d drawn, g gathering) {
	e := h.e
	free, d = e.Budget.Free(), h.drawn()
	if !e.plan.rows {
		g.records = h.recordsFor(free, d)
		return free, d, g
	}
	spare := e.spare() - h.residentBytes()
	if h.graph != nil {
		spare -= h.graph.lease.Bytes()
	}
	return free, d, e.plan.gathering(free, spare, d)
}

// recordsFor returns how many records delivery reads ahead where nothing but delivery
// takes memory.
func (h *hyperbatch) recordsFor(free int64, d drawn) int64 {
	if n := h.e.plan.records(free, d); free >= d.held+h.e.plan.deliveryBytes(d, n) {
		return n
	}
	return leastRecords
}

// settleGraph decides whether the graph buffer stays, for a hyperbatch that is
// sampled and has touched so many rows, and divides what is free.
func (h *hyperbatch) settleGraph(rows int64) gathering {
	e := h.e
	free, d, g := h.divide()
	if h.graph == nil {
		return g
	}
	fits := !e.keeper.little && free >= d.next && h.graph.lease.Bytes() <= e.spare()-h.residentBytes()
	if e.keptRows != nil || !e.plan.rows {
		fits = fits && free >= d.held+e.plan.deliveryBytes(d, g.records)
	} else {
		fits = fits && g.room/e.stride >= rows
	}
	if fits {
		e.keptGraph, e.keptBuffer = h.graph, h.graphBuffer
	} else {
		h.graph.release()
	}
	h.graph, h.graphBuffer = nil, nil
	if !fits {
		_, _, g = h.divide()
	}
	return g
}

// windowOf bounds the minibatches whose sampling window has to have room beside what
// is kept: more windows cost nothing where the graph is in memory.
const windowOf = 8

// next returns the memory that sampling another hyperbatch takes beside what is
// claimed after this one is sampled.
func (h *hyperbatch) next() int64 {
	e := h.e
	x := e.estimate()
	n := x.fixed + int64(min(h.count, windowOf))*x.window
	if e.keptGraph == nil && h.graph == nil {
		n += e.plan.graphBlocks * e.plan.graphFrame * 4 / 3
	}
	return n
}

// wantsRows reports whether it pays to read all rows to keep them: where at least half
// of the feature blocks have to be read in the epoch anyway, or all are few.
func (h *hyperbatch) wantsRows() bool {
	e := h.e
	if e.plan.keepsRows() {
		return true
	}
	if e.keeper.little {
		return false
	}
	p, size := e.primary(), e.manifest.Settings.BlockSize
	needed := int64(0)
	for b := range e.plan.featureBlocks {
		first, end := p.section.BlockRows(size, b)
		for v := first; v < end; v++ {
			if h.counter.Count(uint64(v)) > 0 {
				needed++
				break
			}
		}
	}
	blocks, draws := float64(e.plan.featureBlocks), float64(h.nodes())*float64(e.Minibatches())/float64(len(h.records))
	return 2*max(float64(needed), touched(blocks, draws)) >= blocks
}
