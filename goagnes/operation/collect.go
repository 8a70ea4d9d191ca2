package operation

import (
	"context"
	"sync/atomic"
	"unsafe"

	"github.com/goagnes/goagnes/goagnes/storage"
	"github.com/goagnes/goagnes/layout"
)

// collector is a worker's scratch for S-3.
type collector struct {
	table table
	slots []uint64 // memory of the table
	nodes []uint32 // new nodes of the hop
	src   []uint32 // local sources of the hop, but for the last hop
	body  [][]byte // record bodies, written to scratch in turn
	busy  []chan error
	turn  int
}

// collectors returns how many workers number nodes, and how many bodies each of them
// has, of those wanted: fewer where they would take more than a quarter of the
// window, which is better filled with minibatches. Each worker takes so many bytes
// beside its bodies.
func collectors(workers, bodies int, mem *twoEnded, each, body int64) (int, int) {
	most := min(int64(len(mem.mem))/4, mem.room())
	for workers > 1 && int64(workers)*(each+int64(bodies)*body) > most {
		if bodies > 1 && body > 0 {
			bodies--
		} else {
			workers--
		}
	}
	if each+int64(bodies)*body > most {
		bodies = 1
	}
	return workers, bodies
}

// collect turns the hop's draws into local ids, minibatch by minibatch (S-3):
// sources in the order of their targets, a node new to its minibatch gets the
// next local id. After the last hop the minibatch's record is kept, and every
// row that it needs counted.
func (w *window) collect(ctx context.Context, last bool) error {
	e := w.h.e
	most, mostEdges, mostBody := 0, 0, int64(0)
	for j := range w.batches {
		b := &w.batches[j]
		edges := 0
		if len(e.Fanouts) > 0 {
			for _, n := range w.counts[b.base : int(b.base)+len(b.frontier())] {
				edges += int(n)
			}
		}
		b.rec.edges += edges
		nodes := b.nodes() + edges
		most, mostEdges = max(most, nodes), max(mostEdges, edges)
		r := record{nodes: nodes, targets: b.nodes(), edges: b.rec.edges}
		_, _, _, n := r.offsets(e.edgeWide)
		mostBody = max(mostBody, roundUp(n, layout.PageSize))
	}
	each := tableBytes(most) + 4*int64(mostEdges) + 2*layout.PageSize
	if !last {
		each, mostBody = each+4*int64(mostEdges)+layout.PageSize, 0
	}
	bodies := 2
	if w.h.resident != nil {
		bodies = 1 // copied, not written
	}
	n, bodies := collectors(min(e.Threads, len(w.batches)), bodies, w.mem, each, mostBody)
	workers := make([]collector, n)
	for i := range workers {
		c := &workers[i]
		raw, err := w.mem.takeFixed(tableBytes(most))
		if err != nil {
			return err
		}
		c.slots = unsafe.Slice((*uint64)(unsafe.Pointer(unsafe.SliceData(raw))), len(raw)/8)
		if raw, err = w.mem.takeFixed(4 * int64(mostEdges)); err != nil {
			return err
		}
		c.nodes = words(raw)
		if !last {
			if raw, err = w.mem.takeFixed(4 * int64(mostEdges)); err != nil {
				return err
			}
			c.src = words(raw)
			continue
		}
		c.body, c.busy = make([][]byte, bodies), make([]chan error, bodies)
		for k := range c.body {
			if c.body[k], err = w.mem.takeFixed(mostBody); err != nil {
				return err
			}
		}
	}
	// From here on the last hop cannot run out of memory, so that a window is
	// never split after it has counted rows or kept records.
	var next atomic.Int64
	err := parallel(len(workers), func(worker int) error {
		c := &workers[worker]
		var failed error
		for failed == nil {
			j := int(next.Add(1)) - 1
			if j >= len(w.batches) {
				break
			}
			if failed = ctx.Err(); failed != nil {
				break
			}
			if last {
				failed = w.finish(c, &w.batches[j])
			} else {
				failed = w.extend(c, &w.batches[j])
			}
		}
		for k := range c.busy { // bodies being written must not be reused
			if c.busy[k] != nil {
				if err := <-c.busy[k]; failed == nil {
					failed = err
				}
			}
		}
		return failed
	})
	return err
}

// nodes returns the nodes found so far.
func (b *windowBatch) nodes() int {
	n := 0
	for _, p := range b.hops {
		n += len(p.nodes)
	}
	return n
}

// number gives local ids to the hop's sources: it writes them to src and the
// new nodes to c.nodes, and returns how many are new.
func (w *window) number(c *collector, b *windowBatch, src []uint32) int {
	room := b.nodes() + len(src)
	c.table.reset(c.slots[:tableBytes(room)/8])
	known := uint32(0)
	for _, p := range b.hops {
		for _, v := range p.nodes {
			c.table.add(v, known) // of a repeated seed the first place stays
			known++
		}
	}
	found, at := known, 0
	for slot := int(b.base); slot < int(b.base)+len(b.frontier()); slot++ {
		from := w.offsets[slot]
		for _, v := range w.out[from : from+w.counts[slot]] {
			local, added := c.table.add(v, found)
			if added {
				c.nodes[found-known] = v
				found++
			}
			src[at] = local
			at++
		}
	}
	return int(found - known)
}

// edgeIDs copies the hop's edge ids to dst, in the order of the frontier.
func (w *window) edgeIDs(b *windowBatch, dst []byte) {
	wide := int64(w.h.e.edgeWide)
	if wide == 0 {
		return
	}
	for slot := int(b.base); slot < int(b.base)+len(b.frontier()); slot++ {
		n := copy(dst, w.outIDs[int64(w.offsets[slot])*wide:][:int64(w.counts[slot])*wide])
		dst = dst[n:]
	}
}

// hopCounts returns the edge counts of the hop's frontier nodes.
func (w *window) hopCounts(b *windowBatch) (counts []uint32, edges int) {
	counts = w.counts[b.base : int(b.base)+len(b.frontier())]
	for _, n := range counts {
		edges += int(n)
	}
	return counts, edges
}

// extend keeps a hop that is not the last.
func (w *window) extend(c *collector, b *windowBatch) error {
	counts, edges := w.hopCounts(b)
	fresh := w.number(c, b, c.src[:edges])
	var p hopPart
	var err error
	if p.nodes, err = w.mem.lowWords(fresh); err != nil {
		return err
	}
	if p.counts, err = w.mem.lowWords(len(counts)); err != nil {
		return err
	}
	if p.src, err = w.mem.lowWords(edges); err != nil {
		return err
	}
	if p.eids, err = w.mem.takeLow(int64(edges) * int64(w.h.e.edgeWide)); err != nil {
		return err
	}
	copy(p.nodes, c.nodes[:fresh])
	copy(p.counts, counts)
	copy(p.src, c.src[:edges])
	w.edgeIDs(b, p.eids)
	b.hops = append(b.hops, p)
	return nil
}

// finish writes a minibatch's record after its last hop.
func (w *window) finish(c *collector, b *windowBatch) error {
	e := w.h.e
	r := &b.rec
	r.targets = b.nodes()
	k := c.turn
	c.turn = (k + 1) % len(c.body)
	if c.busy[k] != nil {
		if err := <-c.busy[k]; err != nil {
			c.busy[k] = nil
			return err
		}
		c.busy[k] = nil
	}
	body := c.body[k]

	// The parts' places depend on the number of new nodes: number first.
	var counts []uint32
	edges, fresh := 0, 0
	var src []uint32
	if len(e.Fanouts) > 0 {
		counts, edges = w.hopCounts(b)
		// At the end of the body nothing lies in the way yet: the final place
		// of src ends at or before it, so the copy below moves downwards.
		all := words(body[:len(body)/4*4])
		src = all[len(all)-edges:]
		fresh = w.number(c, b, src)
	} else {
		r.targets = 0
	}
	r.nodes = b.nodes() + fresh
	ends, srcAt, eidsAt, length := r.offsets(e.edgeWide)

	// src may overlap the bytes before it that are written next, so it moves
	// to its place first, then the other parts are filled in.
	place := words(body[srcAt : srcAt+4*int64(r.edges)])
	earlier := r.edges - edges
	copy(place[earlier:], src)
	at := 0
	for _, p := range b.hops {
		at += copy(place[at:], p.src)
	}
	at = 0
	nodes := words(body[:ends])
	for _, p := range b.hops {
		at += copy(nodes[at:], p.nodes)
		r.hopNodes = append(r.hopNodes, int64(len(p.nodes)))
	}
	copy(nodes[at:], c.nodes[:fresh])
	at = 0
	end := uint32(0)
	targets := words(body[ends:srcAt])
	sum := func(counts []uint32) {
		from := end
		for _, n := range counts {
			end += n
			targets[at] = end
			at++
		}
		r.hopEdges = append(r.hopEdges, int64(end-from))
	}
	for _, p := range b.hops[1:] {
		sum(p.counts)
	}
	if len(e.Fanouts) > 0 {
		sum(counts)
		r.hopNodes = append(r.hopNodes, int64(fresh))
	}
	if e.edgeWide > 0 {
		dst := body[eidsAt:length]
		for _, p := range b.hops {
			dst = dst[copy(dst, p.eids):]
		}
		w.edgeIDs(b, dst)
	}
	if w.h.counter != nil {
		for _, v := range nodes {
			w.h.counter.AddShared(uint64(v))
		}
	}
	return w.h.keep(r, body[:roundUp(length, layout.PageSize)], length, func(done chan error) { c.busy[k] = done })
}

// keep stores a record's body in memory while there is room, else in scratch;
// a write under way is announced through busy.
func (h *hyperbatch) keep(r *record, body []byte, length int64, busy func(chan error)) error {
	r.bytes = length
	h.mu.Lock()
	if h.resident != nil && h.residentUsed+roundUp(length, 64) <= int64(len(h.resident.mem)) {
		r.body = h.resident.mem[h.residentUsed : h.residentUsed+length : h.residentUsed+length]
		h.residentUsed += roundUp(length, 64)
		h.mu.Unlock()
		copy(r.body, body)
		return nil
	}
	r.at = h.samplesEnd
	h.samplesEnd += int64(len(body))
	f, err := h.samplesFile(h.samplesEnd)
	h.mu.Unlock()
	if err != nil {
		return err
	}
	clear(body[length:])
	done := make(chan error, 1)
	busy(done)
	h.e.meter.spilledSamples.Add(int64(len(body)))
	seal := r.seal()
	r.sums = make([]uint32, seal.Units(int64(len(body))))
	seal.Sums = r.sums
	h.e.Store.Pool().Submit(&storage.Request{File: f, Offset: r.at, Buf: body, Write: true, Seal: seal, Done: func(q *storage.Request) { done <- q.Err }})
	return nil
}
