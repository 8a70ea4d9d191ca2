package build

// Changes of the edge list that a build is asked for: reverse edges, self-loops,
// duplicates. Reverses are added and loops dropped as edges stream by; duplicates
// are found, and loops added, where all in-edges of a node lie together.

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"
)

// Values of Options.SelfLoops and Options.Duplicates.
const (
	EdgesKeep = "keep"
	EdgesDrop = "drop"
	EdgesAdd  = "add" // of self-loops only
)

// edits are the changes asked for, and what they came to.
type edits struct {
	undirected     bool
	dropLoops      bool
	addLoops       bool
	dropDuplicates bool

	listed     int64 // edges of the imported list
	loops      int64 // self-loops among them; counted where loops matter
	duplicates int64 // dropped
	added      int64 // self-loops
}

func newEdits(o *Options) (edits, error) {
	e := edits{undirected: o.Undirected}
	switch o.SelfLoops {
	case "", EdgesKeep:
	case EdgesDrop:
		e.dropLoops = true
	case EdgesAdd:
		e.addLoops = true
	default:
		return e, usage("self_loops=%q: it is one of %q, %q, %q", o.SelfLoops, EdgesKeep, EdgesDrop, EdgesAdd)
	}
	switch o.Duplicates {
	case "", EdgesKeep:
	case EdgesDrop:
		e.dropDuplicates = true
	default:
		return e, usage("duplicates=%q: it is one of %q, %q", o.Duplicates, EdgesKeep, EdgesDrop)
	}
	return e, nil
}

// streams reports whether edges change as they stream by.
func (e *edits) streams() bool { return e.undirected || e.dropLoops }

// settles reports whether lists of in-edges change once they are sorted.
func (e *edits) settles() bool { return e.addLoops || e.dropDuplicates }

// streamed is the number of edges that are distributed by target.
func (e *edits) streamed() int64 {
	n := e.listed
	if e.dropLoops {
		n -= e.loops
	}
	if e.undirected {
		n += e.listed - e.loops
	}
	return n
}

// loopIDs is the edge id of the self-loop that is added to node 0.
func (e *edits) loopIDs() int64 {
	if e.undirected {
		return 2 * e.listed
	}
	return e.listed
}

// idRange is the number above all edge ids.
func (e *edits) idRange(numNodes int64) int64 {
	if e.addLoops {
		return e.loopIDs() + numNodes
	}
	return e.loopIDs()
}

// tell puts what was changed in the report.
func (e *edits) tell(r *Report) {
	r.EdgesListed = e.listed
	note := func(format string, a ...any) { r.Notes = append(r.Notes, fmt.Sprintf(format, a...)) }
	if e.undirected {
		r.ReversesAdded = e.listed - e.loops
		note("undirected: %d reverse edges were added; the reverse of edge i has the edge id %d + i", r.ReversesAdded, e.listed)
		if e.loops > 0 && !e.dropLoops {
			note("undirected: %d self-loops are their own reverse and got none", e.loops)
		}
	}
	if e.dropLoops {
		r.SelfLoopsDropped = e.loops
		note("self_loops=drop: %d self-loops were dropped; their edge ids stay unused", e.loops)
	}
	if e.dropDuplicates {
		r.DuplicatesDropped = e.duplicates
		note("duplicates=drop: %d edges with the source and target of an earlier one were dropped; their edge ids stay unused", e.duplicates)
	}
	if e.addLoops {
		r.SelfLoopsAdded = e.added
		note("self_loops=add: %d nodes without a self-loop got one; that of node v has the edge id %d + v", e.added, e.loopIDs())
	}
}

// countLoops counts the self-loops of a chunk, and takes them out where they are
// dropped. Edge ids are lost by it.
func (e *edits) countLoops(k *edgeChunk) {
	n := 0
	for i, s := range k.src {
		d := k.dst[i]
		if s == d {
			e.loops++
			if e.dropLoops {
				continue
			}
		}
		k.src[n], k.dst[n] = s, d
		n++
	}
	k.src, k.dst = k.src[:n], k.dst[:n]
}

// eachReverse calls f with the target, the source of the reverse, of every edge
// that is no loop.
func eachReverse(k *edgeChunk, f func(target, source uint32)) {
	for i, s := range k.src {
		if d := k.dst[i]; s != d {
			f(s, d)
		}
	}
}

// putEdited appends the edges of a chunk that come of the edits to their partitions.
func (a *adjacency) putEdited(k *edgeChunk, put func(target, source uint32, id uint64) error) error {
	e := a.edits
	for i, s := range k.src {
		d := k.dst[i]
		id := uint64(k.first) + uint64(i)
		if s != d || !e.dropLoops {
			if err := put(d, s, id); err != nil {
				return err
			}
		}
		if s != d && e.undirected {
			if err := put(s, d, uint64(e.listed)+id); err != nil {
				return err
			}
		}
	}
	return nil
}

// recordID is the edge id of a record.
func (a *adjacency) recordID(r []byte) uint64 {
	if a.wide {
		return binary.LittleEndian.Uint64(r[8:])
	}
	return uint64(binary.LittleEndian.Uint32(r[8:]))
}

// idSpan says which edge ids a pass over records takes: reverse edges lie
// between the others in a partition, and come after them in a list of in-edges.
type idSpan struct{ from, below uint64 }

func (a *adjacency) idSpans() []idSpan {
	if !a.edits.undirected {
		return []idSpan{{0, math.MaxUint64}}
	}
	n := uint64(a.edits.listed)
	return []idSpan{{0, n}, {n, math.MaxUint64}}
}

// emptySource is no internal id.
const emptySource = math.MaxUint32

// sourceSet holds the sources of one list of in-edges.
type sourceSet struct{ table []uint32 }

// reset empties the set and makes room for n sources.
func (s *sourceSet) reset(mem []uint32, n uint32) {
	s.table = mem[:2*int64(n)]
	for i := range s.table {
		s.table[i] = emptySource
	}
}

// add puts u into the set and reports whether it was there.
func (s *sourceSet) add(u uint32) bool {
	h := u // the finaliser of MurmurHash3
	h ^= h >> 16
	h *= 0x85ebca6b
	h ^= h >> 13
	h *= 0xc2b2ae35
	h ^= h >> 16
	for i := int(uint64(h) * uint64(len(s.table)) >> 32); ; {
		switch s.table[i] {
		case emptySource:
			s.table[i] = u
			return false
		case u:
			return true
		}
		if i++; i == len(s.table) {
			i = 0
		}
	}
}

// shortList is the length up to which a list is searched for a source.
const shortList = 16

// settle drops duplicates from the sorted lists of k and adds loops. The list of each
// node ends at k.ends and is followed by room for one edge where loops are added.
func (a *adjacency) settle(k *slot) {
	e := a.edits
	gap := uint32(0)
	if e.addLoops {
		gap = 1
	}
	begin, to := uint32(0), uint32(0)
	var set sourceSet
	for i, end := range k.ends {
		node := uint32(k.first) + uint32(i)
		loop, start := false, to
		short := end-begin <= shortList
		if e.dropDuplicates && !short {
			set.reset(view[uint32](a.setMem), end-begin)
		}
		for j := begin; j < end; j++ {
			u := k.src[j]
			loop = loop || u == node
			if e.dropDuplicates && (short && slices.Contains(k.src[start:to], u) || !short && set.add(u)) {
				e.duplicates++
				continue
			}
			k.src[to] = u
			if a.wide {
				k.ids64[to] = k.ids64[j]
			} else {
				k.ids32[to] = k.ids32[j]
			}
			to++
		}
		if e.addLoops && !loop {
			a.putEdge(k, to, node, a.loopID(node))
			e.added++
			to++
		}
		k.ends[i] = to
		begin = end + gap
	}
	k.cut(a.wide, int64(to))
}

// loopID is the edge id of the loop that is added to a node.
func (a *adjacency) loopID(node uint32) uint64 {
	if a.order.original != nil {
		node = a.order.original[node]
	}
	return uint64(a.edits.loopIDs()) + uint64(node)
}

// putEdge makes edge number i of a slot.
func (a *adjacency) putEdge(k *slot, i, source uint32, id uint64) {
	k.src[i] = source
	if a.wide {
		k.ids64[i] = id
	} else {
		k.ids32[i] = uint32(id)
	}
}

// open gives a slot room for n edges; cut says how many there are.
func (k *slot) open(wide bool, n int64) {
	k.src = view[uint32](k.srcMem)[:n]
	if wide {
		k.ids64 = view[uint64](k.idMem)[:n]
	} else {
		k.ids32 = view[uint32](k.idMem)[:n]
	}
}

func (k *slot) cut(wide bool, n int64) {
	k.src = k.src[:n]
	if wide {
		k.ids64 = k.ids64[:n]
	} else {
		k.ids32 = k.ids32[:n]
	}
}

// sendEdited sends the edges of one target in pieces, edited: a bit for every node
// tells which sources have come. The degree has to be known first, which takes a pass
// of its own.
func (a *adjacency) sendEdited(s *spill, p int, sp span, stop chan struct{}) error {
	e := a.edits
	if e.dropDuplicates && a.seen == nil {
		panic("build: a node with more in-edges than were foreseen")
	}
	node := uint32(sp.first)
	loop := false
	step := int(a.record)
	seen := func(u uint32) bool {
		if a.seen == nil {
			return false
		}
		w, bit := u>>6, uint64(1)<<(u&63)
		was := a.seen[w]&bit != 0
		a.seen[w] |= bit
		return was
	}
	degree := sp.edges
	if e.settles() {
		degree = 0
		clear(a.seen)
		err := s.stream(p, a.streamMem(), func(rec []byte) error {
			for at := 0; at < len(rec); at += step {
				u := binary.LittleEndian.Uint32(rec[at+4:])
				loop = loop || u == node
				if !seen(u) {
					degree++
				}
			}
			return a.b.ctx.Err()
		})
		if err != nil {
			return err
		}
		e.duplicates += sp.edges - degree
		clear(a.seen)
	}
	add := e.addLoops && !loop
	if add {
		degree++
		e.added++
	}
	most := min(a.maxEdges, 1<<18)
	begin := true
	var k *slot
	n := uint32(0)
	send := func() {
		k.cut(a.wide, int64(n))
		k.first, k.nodes, k.piece, k.begin, k.degree = sp.first, 1, true, begin, degree
		a.out <- k
		k, n, begin = nil, 0, false
	}
	put := func(u uint32, id uint64) error {
		if k == nil {
			if k = a.take(stop); k == nil {
				return errStopped
			}
			k.open(a.wide, most)
		}
		a.putEdge(k, n, u, id)
		if n++; int64(n) == most {
			send()
		}
		return nil
	}
	for _, ids := range a.idSpans() {
		err := s.stream(p, a.streamMem(), func(rec []byte) error {
			for at := 0; at < len(rec); at += step {
				r := rec[at : at+step]
				id := a.recordID(r)
				u := binary.LittleEndian.Uint32(r[4:])
				if id < ids.from || id >= ids.below || seen(u) {
					continue
				}
				if err := put(u, id); err != nil {
					return err
				}
			}
			return a.b.ctx.Err()
		})
		if err != nil {
			return err
		}
	}
	if add {
		if err := put(node, a.loopID(node)); err != nil {
			return err
		}
	}
	if k != nil {
		send()
	}
	return nil
}
