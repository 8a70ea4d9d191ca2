package operation

import (
	"context"
	"errors"
	"math"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/goagnes/goagnes/goagnes/memory"
	"github.com/goagnes/goagnes/layout"
)

// windowBatch is a minibatch while its window is sampled.
type windowBatch struct {
	key  Key
	hops []hopPart // 0: the seeds, without edges
	base uint32    // slot of its first frontier node
	rec  record
}

// hopPart is what one hop added to a minibatch.
type hopPart struct {
	nodes  []uint32 // new nodes, internal ids
	counts []uint32 // edges by frontier node
	src    []uint32 // local ids
	eids   []byte
}

// window is the group of minibatches of a hyperbatch that is sampled at a
// time: all of it where memory allows. The graph blocks are swept once per hop
// and window.
type window struct {
	h        *hyperbatch
	mem      *twoEnded
	buffer   *memory.Buffer
	batches  []windowBatch
	repeated []uint32 // by slot of the seeds: position of a repeated one, else 0; nil where none is

	// of the hop being sampled
	hop     int
	fanout  int
	bucket  *bucket
	offsets []uint32 // by slot: first entry in out
	counts  []uint32 // by slot: entries
	out     []uint32 // neighbours, internal ids
	outIDs  []byte   // their edge ids
	taken   atomic.Int64
	workers []sampler
	restore []decompressor // by worker
	down    bool           // the next sweep descends
}

// sampler is a worker's scratch.
type sampler struct {
	positions []uint32 // see chosen
	seen      positionSet
	pages     []byte
	hub       []hubPick
	restore   *decompressor
}

// chosen returns room for n positions, valid until the next call. It grows with
// what is drawn, whose neighbours have room in out already: a fanout may be far
// above every degree.
func (s *sampler) chosen(n int) []uint32 {
	if cap(s.positions) < n {
		s.positions = make([]uint32, max(n, min(2*cap(s.positions), 1<<16)))
	}
	return s.positions[:n]
}

// hubPick is one chosen neighbour of a hub.
type hubPick struct {
	position uint64
	entry    uint32 // where it goes in out
}

// sample samples the minibatches first..first+n-1 of the hyperbatch, whose
// records are then in w.batches.
func (w *window) sample(ctx context.Context, first, n int) error {
	e := w.h.e
	w.mem.reset()
	w.mem.peak, w.mem.peakFixed = 0, 0
	w.batches = make([]windowBatch, n)
	if err := w.readSeeds(ctx, first); err != nil {
		return err
	}
	for hop, fanout := range e.Fanouts {
		w.mem.resetHigh()
		w.hop, w.fanout = hop, fanout
		if err := w.sampleHop(ctx); err != nil {
			return err
		}
		if err := w.collect(ctx, hop == len(e.Fanouts)-1); err != nil {
			return err
		}
	}
	if len(e.Fanouts) == 0 {
		w.mem.resetHigh()
		return w.collect(ctx, true)
	}
	return nil
}

// seedsOf returns the number of seeds of a minibatch of the epoch.
func (e *Engine) seedsOf(minibatch int64) int {
	return int(min(int64(e.BatchSize), e.Seeds.Len()-minibatch*int64(e.BatchSize)))
}

// lookUpSeeds writes the seeds of minibatches from number first of the epoch on,
// one after another, as internal ids.
func (w *window) lookUpSeeds(ctx context.Context, first int64, out []uint32) error {
	e := w.h.e
	placesRaw, err := w.mem.takeHigh(int64(len(out)) * 8)
	if err != nil {
		return err
	}
	idsRaw, err := w.mem.takeHigh(int64(len(out)) * 8)
	if err != nil || len(out) == 0 {
		return err
	}
	places := unsafe.Slice((*int64)(unsafe.Pointer(unsafe.SliceData(placesRaw))), len(out))
	ids := unsafe.Slice((*uint64)(unsafe.Pointer(unsafe.SliceData(idsRaw))), len(out))
	for at := 0; at < len(out); first++ {
		n := e.seedsOf(first)
		e.places(w.h.epoch, first, places[at:at+n])
		at += n
	}
	if err := e.Seeds.Lookup(ctx, places, ids); err != nil {
		return err
	}
	return w.toInternal(ctx, ids, out)
}

// readAllSeeds looks up the seeds of the whole hyperbatch at once, where there is
// memory for them, or gives it back where the window has no room to.
func (w *window) readAllSeeds(ctx context.Context) error {
	h := w.h
	if h.seeds == nil {
		return nil
	}
	err := w.lookUpSeeds(ctx, h.first, words(h.seeds.mem))
	w.mem.reset()
	w.mem.peak = 0
	if isSplit(err) {
		h.dropSeeds()
		return nil
	}
	return err
}

// dropSeeds gives back the memory of the seeds and reports whether there was any.
func (h *hyperbatch) dropSeeds() bool {
	had := h.seeds != nil
	h.seeds.release()
	h.seeds = nil
	return had
}

// readSeeds sets every minibatch's seeds, as internal ids.
func (w *window) readSeeds(ctx context.Context, first int) error {
	e := w.h.e
	total, most := 0, 0
	for j := range w.batches {
		b := &w.batches[j]
		index := w.h.first + int64(first+j)
		b.rec = record{index: index, seeds: e.seedsOf(index)}
		b.key = stream.key(e.Seed, w.h.epoch, uint64(index))
		total, most = total+b.rec.seeds, max(most, b.rec.seeds)
	}
	if total == 0 {
		return nil
	}
	internal, err := w.mem.lowWords(total)
	if err != nil {
		return err
	}
	if w.h.seeds != nil {
		copy(internal, words(w.h.seeds.mem)[int64(first)*int64(e.BatchSize):])
	} else if err := w.lookUpSeeds(ctx, w.h.first+int64(first), internal); err != nil {
		return err
	}
	raw, err := w.mem.takeHigh(tableBytes(most))
	if err != nil {
		return err
	}
	slots := unsafe.Slice((*uint64)(unsafe.Pointer(unsafe.SliceData(raw))), len(raw)/8)
	var seen table
	w.repeated = nil
	at := 0
	for j := range w.batches {
		b := &w.batches[j]
		b.hops = append(b.hops, hopPart{nodes: internal[at : at+b.rec.seeds]})
		seen.reset(slots[:tableBytes(b.rec.seeds)/8])
		for i, v := range b.hops[0].nodes {
			if _, added := seen.add(v, 0); added {
				continue
			}
			if w.repeated == nil {
				if w.repeated, err = w.mem.lowWords(total); err != nil {
					return err
				}
				clear(w.repeated)
			}
			w.repeated[at+i] = uint32(i)
		}
		at += b.rec.seeds
	}
	return nil
}

// places writes the places among the input nodes of a minibatch's seeds.
func (e *Engine) places(epoch uint32, minibatch int64, places []int64) {
	from := minibatch * int64(e.BatchSize)
	if !e.Shuffle {
		for i := range places {
			places[i] = from + int64(i)
		}
		return
	}
	p := stream.order(e.Seed, epoch, uint64(e.Seeds.Len()))
	for i := range places {
		places[i] = int64(p.at(uint64(from) + uint64(i)))
	}
}

// toInternal translates original ids.
func (w *window) toInternal(ctx context.Context, ids []uint64, out []uint32) error {
	e := w.h.e
	for _, v := range ids {
		if v >= uint64(e.manifest.NumNodes) {
			return layout.Errorf(layout.Corrupt, "", "a seed node has the id %d, the store has %d nodes", v, e.manifest.NumNodes)
		}
	}
	if e.internal == nil {
		for i, v := range ids {
			out[i] = uint32(v)
		}
		return nil
	}
	var parts [4][]uint32
	for i := range parts {
		var err error
		if parts[i], err = w.mem.highWords(len(ids)); err != nil {
			return err
		}
	}
	keys, slots := parts[0], parts[1]
	for i, v := range ids {
		keys[i], slots[i] = uint32(v), uint32(i)
	}
	sortPairs(keys, slots, parts[2], parts[3])
	pages, err := w.mem.takeHigh(min(4<<20, roundUp(w.mem.room()/4, layout.PageSize)+2*layout.PageSize))
	if err != nil {
		return err
	}
	width := e.internal.Stride()
	pages = pages[:len(pages)/layout.PageSize*layout.PageSize]
	return fetch(ctx, e.internal, len(keys), func(i int) int64 { return int64(keys[i]) * width }, width, pages,
		func(i int, b []byte) error {
			v := getID(b, width)
			if v >= uint64(e.manifest.NumNodes) {
				return layout.Errorf(layout.Corrupt, e.internal.File, "node %d has the internal id %d of %d nodes", keys[i], v, e.manifest.NumNodes)
			}
			out[slots[i]] = uint32(v)
			return nil
		})
}

// frontier returns the nodes to expand in the present hop.
func (b *windowBatch) frontier() []uint32 { return b.hops[len(b.hops)-1].nodes }

// workersShare is the part of the room of a hop, one in so many, that the workers
// get together for pages of hubs.
const workersShare = 16

// sampleHop draws the neighbours of all frontiers (S-1 and S-2): bucket them,
// then visit each block with a non-empty row once, in order.
func (w *window) sampleHop(ctx context.Context) error {
	e := w.h.e
	frontiers := make([][]uint32, len(w.batches))
	total := 0
	for j := range w.batches {
		b := &w.batches[j]
		b.base = uint32(total)
		frontiers[j] = b.frontier()
		total += len(frontiers[j])
	}
	if total > math.MaxUint32 {
		return errSplit // slots are 32 bits
	}
	var err error
	if w.offsets, err = w.mem.highWords(total); err != nil {
		return err
	}
	if w.counts, err = w.mem.highWords(total); err != nil {
		return err
	}
	clear(w.counts)
	clear(w.offsets) // read also for nodes without edges
	w.out, w.outIDs = nil, nil
	w.taken.Store(0)
	if w.fanout == 0 || total == 0 || e.manifest.NumEdges == 0 {
		return nil
	}
	start := time.Now()
	if w.bucket, err = fillBucket(w.mem, e.Index, frontiers); err != nil {
		return err
	}
	e.meter.bucketRequests.Add(int64(total))
	e.meter.addSeconds(&e.meter.bucketSeconds, start)

	w.workers = make([]sampler, e.Threads)
	pages := min(1<<20, max(2*layout.PageSize, w.mem.room()/workersShare/int64(e.Threads)/layout.PageSize*layout.PageSize))
	for i := range w.workers {
		w.workers[i].restore = &w.restore[i]
		if w.workers[i].pages, err = w.mem.takeFixed(pages); err != nil {
			return err
		}
	}
	most := int64(math.MaxUint32)
	if w.fanout > 0 {
		most = min(most, int64(total)*int64(w.fanout))
	}
	if w.hop > 0 || w.repeated == nil { // no node is expanded twice
		most = min(most, int64(len(w.batches))*e.manifest.NumEdges)
	}
	var lent *draws
	if lent, w.out, w.outIDs, err = w.mem.lend(most, int64(e.edgeWide)); err != nil {
		return err
	}
	if err := w.visitBlocks(ctx); err != nil {
		return err
	}
	w.out, w.outIDs = lent.giveBack(w.taken.Load(), w.out, w.outIDs)
	return nil
}

// take reserves n entries of out.
func (w *window) take(n int) (uint32, error) {
	end := w.taken.Add(int64(n))
	if end > int64(len(w.out)) {
		return 0, errSplit
	}
	return uint32(end) - uint32(n), nil
}

// drawn returns how many of that many neighbours the hop takes.
func (w *window) drawn(degree uint64) int {
	if w.fanout < 0 || degree <= uint64(w.fanout) {
		return int(degree) // what out has no room for, take refuses
	}
	return w.fanout
}

// position returns the word that tells a repeated seed's draws apart.
func (w *window) position(slot uint32) uint32 {
	if w.hop == 0 && w.repeated != nil {
		return w.repeated[slot]
	}
	return 0
}

// sampleBlock samples for every request in the row of a block of whole objects.
func (w *window) sampleBlock(s *sampler, u unit) error {
	e := w.h.e
	size := e.manifest.Settings.BlockSize
	mem := u.frame.Bytes()
	g, err := e.parse(u.block, mem, s.restore)
	if err != nil {
		return err
	}
	if g.Hub {
		return e.blockError(u.block, "a piece of a hub where whole objects are due")
	}
	row := w.bucket.row(u.block)
	total := 0
	for _, r := range row {
		start, end := g.Object(int(uint64(r.node) - g.FirstNode))
		n := w.drawn(uint64(end - start))
		w.counts[r.slot] = uint32(n)
		total += n
	}
	at, err := w.take(total)
	if err != nil {
		return err
	}
	wide := int64(e.edgeWide)
	var ids []byte
	if wide > 0 && g.Edges > 0 {
		ids = e.blockEdgeIDs(u.block, mem)
	}
	place, stored := e.Index.Place(u.block, size)
	pageBase := place / layout.PageSize
	whole := stored < size // a compressed block is needed as a whole
	if whole && total > 0 {
		for p := range stored / layout.PageSize {
			w.h.bound.graph.mark(pageBase + p)
		}
	}
	for _, r := range row {
		i := int(uint64(r.node) - g.FirstNode)
		start, end := g.Object(i)
		n := int(w.counts[r.slot])
		w.offsets[r.slot] = at
		if n == 0 {
			continue
		}
		dst := w.out[at : at+uint32(n)]
		if n == end-start {
			for k := range dst {
				dst[k] = uint32(g.Neighbor(start + k))
			}
			if wide > 0 {
				copy(w.outIDs[int64(at)*wide:], ids[int64(start)*wide:int64(end)*wide])
			}
			h := w.h.bound
			for p := g.Offset(start) / layout.PageSize; !whole && p <= g.Offset(end-1)/layout.PageSize; p++ {
				h.graph.mark(pageBase + int64(p))
			}
		} else {
			chosen := s.chosen(n)
			stream.draw(chosen, w.batches[r.batch].key, g.Original(i), w.position(r.slot), w.hop, uint64(end-start), &s.seen)
			for k, p := range chosen {
				q := start + int(p)
				dst[k] = uint32(g.Neighbor(q))
				if !whole {
					w.h.bound.graph.mark(pageBase + int64(g.Offset(q)/layout.PageSize))
				}
			}
			switch wide {
			case 4:
				to := words(w.outIDs)[at:]
				for k, p := range chosen {
					to[k] = uint32(getID(ids[int64(start+int(p))*4:], 4))
				}
			case 8:
				for k, p := range chosen {
					copy(w.outIDs[(int64(at)+int64(k))*8:], ids[int64(start+int(p))*8:][:8])
				}
			}
		}
		for _, v := range dst {
			if uint64(v) >= uint64(e.manifest.NumNodes) {
				return e.blockError(u.block, "node %d has the neighbour %d, the store has %d nodes", r.node, v, e.manifest.NumNodes)
			}
		}
		at += uint32(n)
	}
	return nil
}

// isSplit reports whether a window failed for want of memory only.
func isSplit(err error) bool { return errors.Is(err, errSplit) }
