package adjacency

// Edits where all in-edges of a node lie together: duplicates are found and loops added
// after sorting, reverses come after the others.

import (
	"encoding/binary"
	"math"
	"slices"

	"github.com/goagnes/goagnes/layout/build/edgelist"
	"github.com/goagnes/goagnes/layout/build/ledger"
	"github.com/goagnes/goagnes/layout/build/spill"
)

// putEdited appends the edges of a chunk that come of the edits to their partitions.
func (a *adjacency) putEdited(k *edgelist.Chunk, put func(target, source uint32, id uint64) error) error {
	e := a.edits
	for i, s := range k.Src {
		d := k.Dst[i]
		id := uint64(k.First) + uint64(i)
		if s != d || !e.DropLoops {
			if err := put(d, s, id); err != nil {
				return err
			}
		}
		if s != d && e.Undirected {
			if err := put(s, d, uint64(e.Listed)+id); err != nil {
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
	if !a.edits.Undirected {
		return []idSpan{{0, math.MaxUint64}}
	}
	n := uint64(a.edits.Listed)
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
	if e.AddLoops {
		gap = 1
	}
	begin, to := uint32(0), uint32(0)
	var set sourceSet
	for i, end := range k.ends {
		node := uint32(k.first) + uint32(i)
		loop, start := false, to
		short := end-begin <= shortList
		if e.DropDuplicates && !short {
			set.reset(ledger.View[uint32](a.setMem), end-begin)
		}
		for j := begin; j < end; j++ {
			u := k.src[j]
			loop = loop || u == node
			if e.DropDuplicates && (short && slices.Contains(k.src[start:to], u) || !short && set.add(u)) {
				e.Duplicates++
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
		if e.AddLoops && !loop {
			a.putEdge(k, to, node, a.loopID(node))
			e.Added++
			to++
		}
		k.ends[i] = to
		begin = end + gap
	}
	k.cut(a.wide, int64(to))
}

// loopID is the edge id of the loop that is added to a node.
func (a *adjacency) loopID(node uint32) uint64 {
	if a.order.Original != nil {
		node = a.order.Original[node]
	}
	return uint64(a.edits.LoopIDs()) + uint64(node)
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
	k.src = ledger.View[uint32](k.srcMem)[:n]
	if wide {
		k.ids64 = ledger.View[uint64](k.idMem)[:n]
	} else {
		k.ids32 = ledger.View[uint32](k.idMem)[:n]
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
func (a *adjacency) sendEdited(s *spill.Partitions, p int, sp span, stop chan struct{}) error {
	e := a.edits
	if e.DropDuplicates && a.seen == nil {
		panic("adjacency: a node with more in-edges than were foreseen")
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
	if e.Settles() {
		degree = 0
		clear(a.seen)
		err := s.Stream(p, a.streamMem(), func(rec []byte) error {
			for at := 0; at < len(rec); at += step {
				u := binary.LittleEndian.Uint32(rec[at+4:])
				loop = loop || u == node
				if !seen(u) {
					degree++
				}
			}
			return a.Ctx.Err()
		})
		if err != nil {
			return err
		}
		e.Duplicates += sp.edges - degree
		clear(a.seen)
	}
	add := e.AddLoops && !loop
	if add {
		degree++
		e.Added++
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
		err := s.Stream(p, a.streamMem(), func(rec []byte) error {
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
			return a.Ctx.Err()
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
