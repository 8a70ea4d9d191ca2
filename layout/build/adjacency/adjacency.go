package adjacency

// The adjacency: edges are distributed over ranges of internal targets, each range
// is sorted by target (edges of a target stay in import order), and encoded.

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"sync"

	"github.com/goagnes/goagnes/layout"
	"github.com/goagnes/goagnes/layout/build/edgelist"
	"github.com/goagnes/goagnes/layout/build/ledger"
	"github.com/goagnes/goagnes/layout/build/order"
	"github.com/goagnes/goagnes/layout/build/source"
	"github.com/goagnes/goagnes/layout/build/spill"
	"github.com/goagnes/goagnes/layout/build/staging"
)

// maxParts bounds the partitions of one distribution, so that the places that are
// written to at one time stay in the processor's caches.
const maxParts = 1024

// An edge record is the target counted from the first node of its partition, the
// internal source, and the edge id: 4 + 4 + 4 bytes, or 4 + 4 + 8 where edge ids
// need more than 32 bits.
const (
	narrowRecord = 12
	wideRecord   = 16
)

// span is a range of internal ids whose in-edges make one partition.
type span struct {
	first, nodes int64
	edges        int64
}

// adjacency builds the graph sections.
type adjacency struct {
	*staging.Store
	blockSize int64
	level     int // of compression, 0 for none
	order     *order.Order
	numNodes  int64
	numEdges  int64 // distributed
	edits     *edgelist.Edits
	idType    layout.DType // of edge ids
	wide      bool         // edge ids of 8 bytes
	record    int64
	stages    [2]string // of progress: distributing, sorting

	// Limits of what is sorted at one time; a slot holds that much.
	maxEdges, maxNodes int64

	readMem   []byte   // a partition as it was read
	setMem    []byte   // the sources of a list, where duplicates are dropped
	seen      []uint64 // a bit a node, where duplicates of one target alone may exceed the limits
	levels    int      // scratch files of partitions that were cut again
	free, out chan *slot
}

// slot is a sorted range of targets on its way to the encoder, or a piece of a
// target's edges where one target alone exceeds the limits.
type slot struct {
	first int64
	nodes int64
	ends  []uint32 // where each node's edges end in src
	src   []uint32
	ids32 []uint32 // edge ids
	ids64 []uint64

	piece  bool
	begin  bool
	degree int64

	err error

	endsMem, srcMem, idMem []byte
}

// idBytes is the size of an edge id.
func (a *adjacency) idBytes() int64 { return a.record - 8 }

// setLimits derives the limits from the memory for sorting: two slots, one
// partition as it was read, and what edits need.
func (a *adjacency) setLimits(bytes int64) {
	perEdge, perNode := 2*(4+a.idBytes())+a.record, int64(8)
	if a.edits.DropDuplicates {
		perEdge += setBytes
	}
	if a.edits.AddLoops {
		perNode += 2 * (4 + a.idBytes())
	}
	a.maxNodes = min(max(bytes/4/perNode, 2), a.numNodes, 1<<30)
	a.maxEdges = min(max((bytes-perNode*a.maxNodes)/perEdge, 2), 1<<31-1)
}

// setBytes is what a sourceSet takes for each source.
const setBytes = 8

// planSpans cuts a histogram into spans within the limits, but for single ranges of
// the histogram that exceed them.
func planSpans(h *edgelist.Coarse, numNodes, maxEdges, maxNodes int64) []span {
	var spans []span
	width := int64(1) << h.Shift
	open := span{}
	for k := int64(0); k*width < numNodes; k++ {
		nodes := min(width, numNodes-k*width)
		edges := int64(h.Count[k])
		if open.nodes > 0 && (open.edges+edges > maxEdges || open.nodes+nodes > maxNodes) {
			spans = append(spans, open)
			open = span{first: k * width}
		}
		open.nodes += nodes
		open.edges += edges
	}
	if open.nodes > 0 {
		spans = append(spans, open)
	}
	return spans
}

// smallSort is the number of edges from which on partitions are not made larger
// than there have to be: small ones are sorted in the processor's caches, and more of
// the sorting goes on beside the encoding.
const smallSort = 1 << 19

// plan cuts a histogram into at most most spans: of about smallSort edges where so
// many are allowed, else larger, and past the limits if need be. Those past the limits
// are cut again when they are read back. most is 4 or more, so that a range which
// exceeds the limits always falls into several.
func (a *adjacency) plan(h *edgelist.Coarse, numNodes, most int64) []span {
	edges, nodes := min(a.maxEdges, smallSort), a.maxNodes
	for {
		spans := planSpans(h, numNodes, edges, nodes)
		switch {
		case int64(len(spans)) <= most:
			return spans
		case edges < a.maxEdges:
			edges = min(edges+edges/2+1, a.maxEdges)
		default:
			edges, nodes = edges+edges/2+1, nodes+nodes/2+1
		}
	}
}

// partOf maps the ranges of a histogram to the spans they lie in.
func partOf(h *edgelist.Coarse, spans []span) []uint32 {
	part := make([]uint32, len(h.Count))
	for p, sp := range spans {
		for k := sp.first >> h.Shift; k<<h.Shift < sp.first+sp.nodes; k++ {
			part[k] = uint32(p)
		}
	}
	return part
}

func sizes(spans []span, record int64) []int64 {
	s := make([]int64, len(spans))
	for i := range spans {
		s[i] = spans[i].edges * record
	}
	return s
}

// Write distributes, sorts and encodes all edges, and returns how many
// there are in the end. targets is the histogram of their internal targets.
func Write(b *staging.Store, e source.Edges, edits *edgelist.Edits, r *order.Order, numNodes int64, targets *edgelist.Coarse, blockSize int64, level int) (edges int64, err error) {
	a := newAdjacency(b, edits, r, numNodes)
	a.blockSize, a.level = blockSize, level
	a.stages = [2]string{"distribute edges", "write graph"}
	w, err := a.writers()
	if err != nil {
		return 0, err
	}
	defer w.abort()
	if err := a.run(e, targets, w.put); err != nil {
		return 0, err
	}
	if err := w.finish(); err != nil {
		return 0, err
	}
	if err := w.close(); err != nil {
		return 0, err
	}
	return w.edges, nil
}

// OutDegrees counts in out, by original id, the edges that leave each node once
// duplicates are dropped; a count ends at 2^32-1. Self-loops that are to be added count
// for none. It distributes and sorts the edges as Write does. targets is the histogram
// of their original targets.
func OutDegrees(b *staging.Store, e source.Edges, edits *edgelist.Edits, numNodes int64, targets *edgelist.Coarse, out []uint32) error {
	counted := *edits // what is dropped here is dropped again by Write, and told once
	counted.AddLoops = false
	a := newAdjacency(b, &counted, &order.Order{Name: layout.OrderOriginal}, numNodes)
	a.stages = [2]string{"distribute edges to count them", "count distinct edges"}
	clear(out)
	return a.run(e, targets, func(k *slot) error {
		for _, u := range k.src {
			if out[u] != math.MaxUint32 {
				out[u]++
			}
		}
		return nil
	})
}

func newAdjacency(b *staging.Store, edits *edgelist.Edits, r *order.Order, numNodes int64) *adjacency {
	a := &adjacency{Store: b, order: r, numNodes: numNodes, numEdges: edits.Streamed(), edits: edits, record: narrowRecord}
	if a.idType = layout.IDType(edits.IDRange(numNodes)); b.Tune.Wide {
		a.idType = layout.Uint64
	}
	if a.idType == layout.Uint64 {
		a.wide, a.record = true, wideRecord
	}
	return a
}

// run distributes and sorts all edges and passes them to put, by target.
func (a *adjacency) run(e source.Edges, targets *edgelist.Coarse, put func(k *slot) error) error {
	b, numNodes := a.Store, a.numNodes
	// While edges are distributed the partitions' buffers are live, afterwards what
	// sorting needs; edges kept in memory are live in both.
	free := b.Mem.Free() - b.Mem.Free()/16
	if a.edits.DropDuplicates && a.hubs(targets, free) {
		bits, err := b.Mem.Map("sources of a node with many duplicates", (numNodes+63)/64*8)
		if err != nil {
			return err
		}
		defer bits.Close()
		a.seen = ledger.View[uint64](bits.Bytes)
		free = b.Mem.Free() - b.Mem.Free()/16
	}
	var s *spill.Partitions
	var buffers *ledger.Region
	var err error
	inMemory := a.inMemory()
	a.setLimits(b.Tune.SortLimit(free - inMemory))
	most := b.Tune.PartsLimit(maxParts)
	spans := a.plan(targets, numNodes, most)
	if kept := spill.Bytes(sizes(spans, a.record)); inMemory <= free/2 && kept <= inMemory && !b.Tune.OnScratch {
		mem, err := b.Mem.Map("edges", kept)
		if err != nil {
			return err
		}
		defer mem.Close()
		s = spill.InMemory(e.Name(), sizes(spans, a.record), mem)
	} else {
		a.setLimits(b.Tune.SortLimit(free))
		spans = a.plan(targets, numNodes, min(most, b.Tune.PartsLimit(free/2/(32*spill.Unit))))
		if !a.allFit(spans) { // small writes cost less than another pass over the edges
			spans = a.plan(targets, numNodes, b.Tune.PartsLimit(free/(3*spill.Unit)))
		}
		n := int64(spill.Buffers(len(spans)))
		each := max(min(free/2/n, 64*spill.Unit)/spill.Unit, 1) * spill.Unit
		if buffers, err = b.Mem.Map("buffers of edge partitions", n*each); err != nil {
			return err
		}
		defer buffers.Close()
		if s, err = spill.InScratch(e.Name(), sizes(spans, a.record), b.Pool, b.Scratch, "edges", buffers.Bytes); err != nil {
			return err
		}
	}
	defer s.Close()
	if err := a.distribute(e, s, spans, targets); err != nil {
		return err
	}
	buffers.Close()
	return a.sortAll(s, spans, put)
}

// PartitionBytes is the scratch that so many edges may take.
func PartitionBytes(edges int64) int64 { return spill.MostStored(edges*wideRecord, maxParts) }

// hubs reports whether one target alone may exceed the limits, which free memory
// gives at least.
func (a *adjacency) hubs(targets *edgelist.Coarse, free int64) bool {
	bytes := free - a.numNodes/8
	if n := a.inMemory(); n <= free/2 {
		bytes -= n
	}
	a.setLimits(a.Tune.SortLimit(bytes))
	return slices.ContainsFunc(targets.Count, func(n uint64) bool { return n > uint64(a.maxEdges) })
}

// inMemory is the memory in which all edges are kept in partitions.
func (a *adjacency) inMemory() int64 { return a.numEdges*a.record + maxParts*layout.PageSize }

// distribute appends every edge to the partition of its target.
func (a *adjacency) distribute(e source.Edges, s *spill.Partitions, spans []span, targets *edgelist.Coarse) error {
	shift, part := targets.Shift, partOf(targets, spans)
	firsts := make([]uint32, len(spans))
	for p, sp := range spans {
		firsts[p] = uint32(sp.first)
	}
	internal := a.order.Internal
	wide, record := a.wide, int(a.record)
	put := func(target, source uint32, id uint64) error {
		p := part[target>>shift]
		at := &s.Parts[p]
		if at.Pos == len(at.Buf) {
			if err := s.Next(int(p)); err != nil {
				return err
			}
		}
		r := at.Buf[at.Pos : at.Pos+record]
		binary.LittleEndian.PutUint32(r, target-firsts[p])
		binary.LittleEndian.PutUint32(r[4:], source)
		if wide {
			binary.LittleEndian.PutUint64(r[8:], id)
		} else {
			binary.LittleEndian.PutUint32(r[8:], uint32(id))
		}
		at.Pos += record
		return nil
	}
	_, _, err := edgelist.Scan(a.Ctx, e, a.numNodes, true, a.Threads, a.EdgeProgress(a.stages[0], e),
		func(k *edgelist.Chunk) error {
			if internal != nil {
				for i, v := range k.Src {
					k.Src[i] = internal[v]
				}
				for i, v := range k.Dst {
					k.Dst[i] = internal[v]
				}
			}
			return nil
		},
		func(k *edgelist.Chunk) error {
			if k.First+int64(len(k.Src)) > a.edits.Listed {
				return s.Changed()
			}
			if a.edits.Streams() {
				return a.putEdited(k, put)
			}
			for i, t := range k.Dst { // put, written out: no call for every edge
				p := part[t>>shift]
				at := &s.Parts[p]
				if at.Pos == len(at.Buf) {
					if err := s.Next(int(p)); err != nil {
						return err
					}
				}
				r := at.Buf[at.Pos : at.Pos+record]
				binary.LittleEndian.PutUint32(r, t-firsts[p])
				binary.LittleEndian.PutUint32(r[4:], k.Src[i])
				if wide {
					binary.LittleEndian.PutUint64(r[8:], uint64(k.First)+uint64(i))
				} else {
					binary.LittleEndian.PutUint32(r[8:], uint32(k.First)+uint32(i))
				}
				at.Pos += record
			}
			return nil
		})
	if ferr := s.Finish(); err == nil {
		err = ferr
	}
	return err
}

// sortAll sorts the partitions on one goroutine and passes them to put on this one.
func (a *adjacency) sortAll(s *spill.Partitions, spans []span, put func(k *slot) error) error {
	var edges, nodes int64 // what a slot must hold
	fits := a.allFit(spans)
	for _, sp := range spans {
		edges, nodes = max(edges, sp.edges), max(nodes, sp.nodes)
	}
	edges, nodes = min(edges, a.maxEdges), min(nodes, a.maxNodes)
	readBytes := int64(0)
	if !s.InMemory() || !fits {
		readBytes = max(64*spill.Unit, spill.Stored(edges*a.record))
	}
	read, err := a.Mem.Map("edges to sort", readBytes)
	if err != nil {
		return err
	}
	defer read.Close()
	a.readMem = read.Bytes
	room := edges
	if a.edits.AddLoops {
		room += nodes
	}
	n1, n2, n3 := ledger.RoundUp(4*nodes, 64), ledger.RoundUp(4*room, 64), ledger.RoundUp(a.idBytes()*room, 64)
	sets := int64(0)
	if a.edits.DropDuplicates {
		sets = ledger.RoundUp(setBytes*edges, 64)
	}
	sorted, err := a.Mem.Map("sorted edges", sets+2*(n1+n2+n3))
	if err != nil {
		return err
	}
	defer sorted.Close()
	a.free, a.out = make(chan *slot, 2), make(chan *slot, 2)
	a.setMem = sorted.Bytes[:sets]
	for m := sorted.Bytes[sets:]; len(a.free) < 2; m = m[n1+n2+n3:] {
		a.free <- &slot{endsMem: m[:n1], srcMem: m[n1 : n1+n2], idMem: m[n1+n2 : n1+n2+n3]}
	}
	var stopped sync.WaitGroup
	stop := make(chan struct{})
	stopped.Go(func() {
		defer close(a.out)
		for p, sp := range spans {
			if err := a.sortSpan(s, p, sp, stop); err != nil {
				a.out <- &slot{err: err} // there is room: both slots are elsewhere
				return
			}
		}
	})
	defer stopped.Wait()
	defer close(stop)
	done := int64(0)
	for k := range a.out {
		if k.err != nil {
			return k.err
		}
		if err := a.Ctx.Err(); err != nil {
			return err
		}
		if err := put(k); err != nil {
			return err
		}
		done += int64(len(k.src))
		a.Progress(a.stages[1], min(done, a.numEdges), a.numEdges)
		a.free <- k
	}
	return nil
}

// fits reports whether a span is sorted in memory as it is.
func (a *adjacency) fits(sp span) bool { return sp.edges <= a.maxEdges && sp.nodes <= a.maxNodes }

func (a *adjacency) allFit(spans []span) bool {
	return !slices.ContainsFunc(spans, func(sp span) bool { return !a.fits(sp) })
}

// take gets a free slot, nil once the encoder has stopped.
func (a *adjacency) take(stop chan struct{}) *slot {
	select {
	case k := <-a.free:
		return k
	case <-stop:
		return nil
	}
}

// errStopped ends the sorting goroutine after the encoder; nobody sees it.
var errStopped = fmt.Errorf("adjacency: the encoder stopped")

// sortSpan sorts one partition and sends it on, in pieces where it is too large.
func (a *adjacency) sortSpan(s *spill.Partitions, p int, sp span, stop chan struct{}) error {
	if err := a.Ctx.Err(); err != nil {
		return err
	}
	switch {
	case a.fits(sp):
		records, err := s.Load(p, a.readMem)
		if err != nil {
			return err
		}
		k := a.take(stop)
		if k == nil {
			return errStopped
		}
		if err := a.sort(k, records, sp); err != nil {
			return err
		}
		a.out <- k
		return nil
	case sp.nodes == 1:
		return a.sendPieces(s, p, sp, stop)
	default:
		return a.cut(s, p, sp, stop)
	}
}

// sort fills k with the edges of the records by target, stably.
func (a *adjacency) sort(k *slot, records spill.Records, sp span) error {
	k.first, k.nodes, k.piece = sp.first, sp.nodes, false
	k.ends = ledger.View[uint32](k.endsMem)[:sp.nodes]
	gap := uint32(0)
	if a.edits.AddLoops {
		gap = 1
	}
	k.open(a.wide, sp.edges+int64(gap)*sp.nodes)
	clear(k.ends)
	step := int(a.record)
	nodes := uint32(sp.nodes)
	for rec := range records {
		for at := 0; at < len(rec); at += step {
			t := binary.LittleEndian.Uint32(rec[at:])
			if t >= nodes {
				panic("adjacency: an edge lies in the wrong partition")
			}
			k.ends[t]++
		}
	}
	sum := uint32(0)
	for i, n := range k.ends {
		k.ends[i] = sum
		sum += n + gap
	}
	if err := a.Ctx.Err(); err != nil {
		return err
	}
	// Each end grows from where its node begins to where its edges end.
	switch {
	case a.edits.Undirected:
		for _, ids := range a.idSpans() {
			for rec := range records {
				for at := 0; at < len(rec); at += step {
					r := rec[at : at+step]
					if id := a.recordID(r); id >= ids.from && id < ids.below {
						t := binary.LittleEndian.Uint32(r)
						a.putEdge(k, k.ends[t], binary.LittleEndian.Uint32(r[4:]), id)
						k.ends[t]++
					}
				}
			}
		}
	case a.wide:
		for rec := range records {
			for at := 0; at < len(rec); at += wideRecord {
				r := rec[at : at+wideRecord]
				t := binary.LittleEndian.Uint32(r)
				i := k.ends[t]
				k.ends[t] = i + 1
				k.src[i] = binary.LittleEndian.Uint32(r[4:])
				k.ids64[i] = binary.LittleEndian.Uint64(r[8:])
			}
		}
	default:
		for rec := range records {
			for at := 0; at < len(rec); at += narrowRecord {
				r := rec[at : at+narrowRecord]
				t := binary.LittleEndian.Uint32(r)
				i := k.ends[t]
				k.ends[t] = i + 1
				k.src[i] = binary.LittleEndian.Uint32(r[4:])
				k.ids32[i] = binary.LittleEndian.Uint32(r[8:])
			}
		}
	}
	if a.edits.Settles() {
		a.settle(k)
	}
	return nil
}

// sendPieces sends the edges of one target in pieces: they are in order already.
func (a *adjacency) sendPieces(s *spill.Partitions, p int, sp span, stop chan struct{}) error {
	if a.edits.Undirected || a.edits.Settles() {
		return a.sendEdited(s, p, sp, stop)
	}
	begin := true
	return s.Stream(p, a.streamMem(), func(rec []byte) error {
		for len(rec) > 0 {
			if err := a.Ctx.Err(); err != nil {
				return err
			}
			n := min(a.maxEdges, int64(len(rec))/a.record, 1<<18)
			k := a.take(stop)
			if k == nil {
				return errStopped
			}
			one := span{first: sp.first, nodes: 1, edges: n}
			if err := a.sort(k, spill.Whole(rec[:n*a.record]), one); err != nil {
				return err
			}
			k.piece, k.begin, k.degree = true, begin, sp.edges
			a.out <- k
			begin = false
			rec = rec[n*a.record:]
		}
		return nil
	})
}

func (a *adjacency) streamMem() []byte { return a.readMem[:4*spill.Unit] }

// cut distributes a partition that exceeds the limits over smaller ones.
func (a *adjacency) cut(s *spill.Partitions, p int, sp span, stop chan struct{}) error {
	h := edgelist.NewCoarse()
	h.Cover(uint32(sp.nodes - 1))
	step := int(a.record)
	err := s.Stream(p, a.streamMem(), func(rec []byte) error {
		for at := 0; at < len(rec); at += step {
			h.Count[binary.LittleEndian.Uint32(rec[at:])>>h.Shift]++
		}
		return a.Ctx.Err()
	})
	if err != nil {
		return err
	}
	// readMem serves as the buffers: it is not needed until children are read back.
	buffers := a.readMem[4*spill.Unit:]
	most := max(4, int64(len(buffers))/spill.Unit*2/3-16)
	spans := a.plan(h, sp.nodes, a.Tune.PartsLimit(most))
	a.levels++
	child, err := spill.InScratch(s.Input, sizes(spans, a.record), a.Pool, a.Scratch, fmt.Sprintf("edges-%d", a.levels), buffers)
	if err != nil {
		return err
	}
	defer child.Close()
	part := partOf(h, spans)
	err = s.Stream(p, a.streamMem(), func(rec []byte) error {
		for at := 0; at < len(rec); at += step {
			r := rec[at : at+step]
			t := binary.LittleEndian.Uint32(r)
			q := part[t>>h.Shift]
			to := &child.Parts[q]
			if to.Pos == len(to.Buf) {
				if err := child.Next(int(q)); err != nil {
					return err
				}
			}
			o := to.Buf[to.Pos : to.Pos+step]
			copy(o, r)
			binary.LittleEndian.PutUint32(o, t-uint32(spans[q].first))
			to.Pos += step
		}
		return a.Ctx.Err()
	})
	if ferr := child.Finish(); err == nil {
		err = ferr
	}
	if err != nil {
		return err
	}
	for q, c := range spans {
		c.first += sp.first
		if err := a.sortSpan(child, q, c, stop); err != nil {
			return err
		}
	}
	return child.Close()
}
