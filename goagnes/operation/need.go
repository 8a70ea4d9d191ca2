package operation

// What an engine needs at least, before anything is drawn: the largest minibatch
// that the fan-outs and the graph allow, and what each step takes for one.

import (
	"errors"
	"math"

	"github.com/goagnes/goagnes/goagnes/memory"
	"github.com/goagnes/goagnes/layout"
)

// sureBytes bounds what is asked for up front for a minibatch's arrays, and for the
// window that samples it. A largest possible minibatch within it is provided for, so
// that no draw ends an epoch for want of memory. Where the largest possible one is
// larger, which real ones rarely come near, one of this size is asked for; what is
// drawn beyond takes what memory there is, or is refused by its own size.
const sureBytes = 16 << 20

// largest bounds the size of a minibatch.
type largest struct {
	seeds    int64
	repeats  bool    // a seed may be listed again
	frontier []int64 // nodes that are expanded, by hop
	edges    []int64 // by hop
	nodes    []int64 // local nodes after so many hops, hops+1
}

// largest returns the bound of every minibatch that can be drawn. Seeds that are
// listed again count as often where their neighbours are drawn, but not where all
// are taken.
func (e *Engine) largest() largest {
	n, all := max(e.manifest.NumNodes, 1), e.manifest.NumEdges
	l := largest{seeds: min(int64(e.BatchSize), max(e.Seeds.Len(), 1)), repeats: true}
	switch e.Seeds.(type) {
	case AllSeeds, *MaskSeeds:
		l.repeats = false
		l.seeds = min(l.seeds, n)
	}
	most := n // local nodes
	if l.repeats {
		most += l.seeds - 1
	}
	frontier, local := l.seeds, l.seeds
	l.nodes = append(l.nodes, local)
	for hop, k := range e.Fanouts {
		drawn := all
		if k >= 0 {
			drawn = min(frontier*int64(k), layout.MaxEdges)
			if hop > 0 || !l.repeats {
				drawn = min(drawn, e.mostDrawn(int64(k)))
			}
		}
		l.frontier, l.edges = append(l.frontier, frontier), append(l.edges, drawn)
		local = min(local+drawn, most)
		frontier = min(drawn, n)
		l.nodes = append(l.nodes, local)
	}
	return l
}

// mostDrawn bounds the edges that are drawn where every node is expanded once, k at
// most of each: of the nodes of a graph block, or of a hub, no more than they have.
func (e *Engine) mostDrawn(k int64) int64 {
	sum := int64(0)
	at := e.Index.Entry(0)
	for b := range e.Index.Blocks() {
		next := e.Index.Entry(b + 1)
		if next.FirstNode == at.FirstNode {
			continue // a piece of a hub, and others follow
		}
		sum += min(int64(next.FirstEdge-at.FirstEdge), int64(next.FirstNode-at.FirstNode)*k)
		at = next
	}
	return sum
}

// drawnLargest bounds minibatches by those that were sampled.
func (h *hyperbatch) drawnLargest() largest {
	l := largest{repeats: true}
	hops := len(h.e.Fanouts)
	l.frontier, l.edges, l.nodes = make([]int64, hops), make([]int64, hops), make([]int64, hops+1)
	for i := range h.records {
		r := &h.records[i]
		l.seeds = max(l.seeds, int64(r.seeds))
		sum := int64(0)
		for k, n := range r.hopNodes {
			sum += n
			l.nodes[k] = max(l.nodes[k], sum)
			if k < hops {
				l.frontier[k] = max(l.frontier[k], n)
				l.edges[k] = max(l.edges[k], r.hopEdges[k])
			}
		}
	}
	return l
}

// scaled returns a minibatch of the same seeds and a part of the rest.
func (l largest) scaled(part float64) largest {
	s := largest{seeds: l.seeds, repeats: l.repeats}
	scale := func(n int64) int64 { return int64(math.Ceil(float64(n) * part)) }
	for i, n := range l.frontier {
		if i > 0 {
			n = scale(n)
		}
		s.frontier, s.edges = append(s.frontier, n), append(s.edges, scale(l.edges[i]))
	}
	for _, n := range l.nodes {
		s.nodes = append(s.nodes, l.seeds+scale(n-l.seeds))
	}
	return s
}

// record is the record that a minibatch of that size has.
func (l largest) record() record {
	hops := len(l.edges)
	r := record{seeds: int(l.seeds), nodes: int(l.nodes[hops])}
	for i := range l.nodes {
		n := l.nodes[i]
		if i > 0 {
			n -= l.nodes[i-1]
		}
		r.hopNodes = append(r.hopNodes, n)
	}
	for _, n := range l.edges {
		r.edges += int(n)
		r.hopEdges = append(r.hopEdges, n)
	}
	if hops > 0 {
		r.targets = int(l.nodes[hops-1])
	}
	return r
}

// provided returns the largest minibatch that is provided for up front, and whether
// that is every one that can be drawn.
func (e *Engine) provided() (l largest, every bool) {
	l = e.largest()
	size := func(l largest) int64 {
		r := l.record()
		n := max(memory.SlabBytes(e.slabBytes(&r)), e.windowLeast(l))
		if e.Consumer != nil {
			n = max(n, e.Consumer.Needs(r.hopNodes, r.hopEdges))
		}
		return n
	}
	if size(l) <= sureBytes {
		return l, true
	}
	// The largest part that is within it; the seeds alone where none is.
	low, high := 0.0, 1.0
	for range 24 {
		if part := (low + high) / 2; size(l.scaled(part)) <= sureBytes {
			low = part
		} else {
			high = part
		}
	}
	return l.scaled(low), false
}

// windowLeast returns the memory of a window that samples one minibatch of that
// size: the most that a hop takes beside what the hops before it left. It follows
// readSeeds, sampleHop and collect step by step.
func (e *Engine) windowLeast(l largest) int64 {
	const page = layout.PageSize // every part of the high end is aligned to one
	wide := int64(e.edgeWide)
	part := func(n int64) int64 { return roundUp(n, page) + page }
	low := 2*roundUp(4*l.seeds, 8) + 64
	lookUp := 2 * part(8*l.seeds)
	table := part(tableBytes(int(l.seeds)))
	if e.internal != nil {
		lookUp += 4 * part(4*l.seeds)
		table = (table + 4*page) * 4 / 3 // a quarter of the room goes to pages first
	}
	most := low + lookUp + table + 4*page
	collect := func(nodes, edges, allEdges int64, last bool) int64 {
		n := part(tableBytes(int(nodes+edges))) + part(4*edges)
		if !last {
			return n + part(4*edges)
		}
		r := record{nodes: int(nodes + edges), targets: int(nodes), edges: int(allEdges)}
		_, _, _, length := r.offsets(e.edgeWide)
		return n + 2*part(length)
	}
	if len(l.edges) == 0 {
		return max(most, low+collect(l.seeds, 0, 0, true)+2*page)
	}
	all := int64(0)
	for hop, edges := range l.edges {
		last := hop == len(l.edges)-1
		all += edges
		frontier := l.frontier[hop]
		out := edges*(4+wide) + 4*page
		after := collect(l.nodes[hop], edges, all, last)
		lasting := int64(0)
		room := out + after
		if !last {
			lasting = roundUp(4*(l.nodes[hop+1]-l.nodes[hop]), 8) + roundUp(4*frontier, 8) + roundUp(4*edges, 8) + roundUp(wide*edges, 8) + 64
			room += lasting
		}
		workers := int64(e.Threads) * 3 * page
		high := 2*part(4*frontier) + part(4*int64(e.Index.Blocks()+1)) + part(12*frontier)
		most = max(most, low+high+(room+workers+2*page)*workersShare/(workersShare-1)+2*page)
		low += lasting
	}
	return roundUp(most, page)
}

// needs returns what steps take at least under a plan, for minibatches of that
// size, while others prepared before are in the consumer's hands.
type needs struct {
	epoch                        int64 // from beginning to end
	sampling, gathering, deliver int64
}

// total returns the memory in which all steps find room.
func (n needs) total() int64 { return n.epoch + max(n.sampling, n.gathering, n.deliver) }

// needsOf returns what minibatches up to that size need; window is the memory for
// sampling one.
func (e *Engine) needsOf(p *plan, l largest, window int64) needs {
	r := l.record()
	slab := memory.SlabBytes(e.slabBytes(&r))
	n := needs{epoch: roundUp(e.boundBytes(), layout.PageSize)}
	if e.Consumer != nil {
		n.epoch += e.Consumer.Needs(r.hopNodes, r.hopEdges)
	}
	before := slab // of the hyperbatch before
	if e.Held == 0 && e.Minibatches() <= int64(e.Hyperbatch) {
		before = 0
	}
	graph, feature := p.leastFrames()
	if p.published { // both buffers all the time
		n.epoch += graph * p.graphFrame
		if p.rows {
			n.epoch += feature * p.featureFrame
		}
		graph, feature = 0, 0
	}
	n.sampling = before + p.counts + graph*p.graphFrame + p.columns + window
	_, _, _, length := r.offsets(e.edgeWide)
	d := drawn{count: int(min(int64(e.Hyperbatch), max(e.Minibatches(), 1))), longest: int64(r.nodes), body: roundUp(length, layout.PageSize)}
	n.deliver = int64(e.Held+1)*slab + leastRecords*d.body + 3*layout.PageSize
	if p.rows {
		n.gathering = before + p.counts + p.index + feature*p.featureFrame + leastWriteBuffers*p.writeBytes + p.listBytes(d) + d.sortBytes() + layout.PageSize
		n.deliver = int64(e.Held+1)*slab + p.index + p.deliveryBytes(d, leastRecords) + layout.PageSize
	}
	return n
}

// Need returns the memory that the engine needs at least under a budget of that
// many bytes. It is what the least plan needs, whatever the budget: see Fit.
func (e *Engine) Need(int64) (int64, error) {
	p, err := e.planFor(0)
	if err != nil {
		return 0, err
	}
	return e.needsOf(&p, e.least, e.windowLeast(e.least)).total(), nil
}

// Fit gives the engine the plan for its budget; or, where that needs more than room,
// since buffers grow with the budget, and by whole frames, the plan for the largest
// part of it that does not. It returns what the engine needs under that plan, more
// than room where even Need is. It must not be called within an epoch.
func (e *Engine) Fit(room int64) (need int64) {
	window := e.windowLeast(e.least)
	try := func(total int64) bool {
		p, err := e.planFor(total)
		if err != nil {
			return false // not under the whole budget either: New has refused it
		}
		n := e.needsOf(&p, e.least, window).total()
		if n > room && total > 0 {
			return false
		}
		e.plan, need = p, n
		return n <= room
	}
	low, high := int64(0), e.Budget.Total()
	if try(high) || !try(0) {
		return need
	}
	for high-low > high/64 {
		if mid := (low + high) / 2; try(mid) {
			low = mid
		} else {
			high = mid
		}
	}
	return need
}

// NeedAside returns what of Need is set aside for the consumer.
func (e *Engine) NeedAside() int64 {
	if e.Consumer == nil {
		return 0
	}
	r := e.least.record()
	return e.Consumer.Needs(r.hopNodes, r.hopEdges)
}

// refuse returns the refusal of a budget in which need, which tells what the engine
// needs under one of so many bytes, does not find room.
func (e *Engine) refuse(consumer string, need func(total int64) (int64, error)) error {
	total := e.Budget.Total()
	return memory.Refusal(consumer, total, e.others(total), func(total int64) int64 {
		n, err := need(total)
		if err != nil {
			return math.MaxInt64
		}
		return e.others(total) + n
	})
}

// refuseDrawn refuses a budget in which minibatches of that size, sampled in that much
// memory, do not find room: the plan under a larger one does not know of them.
func (e *Engine) refuseDrawn(consumer string, l largest, window int64) error {
	return e.refuse(consumer, func(total int64) (int64, error) {
		p, err := e.planFor(total)
		if err != nil {
			return 0, err
		}
		return e.needsOf(&p, l, window).total(), nil
	})
}

// others returns what others hold of a budget of that many bytes.
func (e *Engine) others(total int64) int64 {
	if e.Others != nil {
		return e.Others(total)
	}
	return e.Budget.Total() - e.freeAtStart
}

// explain turns a want of memory in the midst of a hyperbatch into a refusal that
// names what minibatches like those that were drawn need.
func (h *hyperbatch) explain(err error) error {
	var budget *memory.BudgetError
	var pool *memory.PoolError
	if len(h.records) == 0 || !errors.As(err, &budget) && !(errors.As(err, &pool) && pool.Waited == 0) {
		return err
	}
	l := h.drawnLargest()
	if refusal := h.e.refuseDrawn("preparing and using a minibatch", l, h.e.windowLeast(l)); refusal != nil {
		return refusal
	}
	return err // others took what there was
}
