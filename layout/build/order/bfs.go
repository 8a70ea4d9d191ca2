package order

// The order "bfs", the paper's: breadth-first, out of core.
//
// The order is that of a queue. It begins with the node of the highest out-degree,
// among equals with the smallest original id; where the queue is empty, with the
// smallest id not visited. A node that leaves the queue appends its neighbours not
// visited by ascending original id. Neighbours are both ends of edges: sampling
// follows in-edges, but along these alone a node nobody points from would be found
// by no one, and half of a power-law graph would be starts of their own; and nodes
// with a common in-neighbour are sampled together as much as those of a common
// target.
//
// Components, connected either way, are found by one pass over the edges with a
// union-find. Their searches then go on side by side, a level a pass: an edge from
// the last level to a node not visited leaves there the least place of its finders.
// By that place, then by id, the found nodes are numbered; a number of any level but
// the first says nothing across components, so that taking the components apart at
// the end gives the order of one queue after the other. After bfsPasses levels a long
// path would take a pass an edge: what is not visited by then follows the visited
// nodes of its component by ascending original id.

import (
	"fmt"
	"math"

	"github.com/goagnes/goagnes/layout/build/edgelist"
	"github.com/goagnes/goagnes/layout/build/ledger"
	"github.com/goagnes/goagnes/layout/build/source"
	"github.com/goagnes/goagnes/layout/build/spill"
)

// bfsPasses bounds the levels that are found by passes over the edges.
const bfsPasses = 64

// unseen is the place of a node that no edge has led to.
const unseen = math.MaxUint32

// orderPass passes over the edges on one goroutine beside the reader's.
func (b *finder) orderPass(e source.Edges, stage string, f func(src, dst []uint32)) error {
	progress := b.EdgeProgress(stage, e)
	_, _, err := edgelist.Scan(b.Ctx, e, b.numNodes, true, b.Threads, progress, func(k *edgelist.Chunk) error {
		f(k.Src, k.Dst)
		return nil
	})
	return err
}

// tables maps tables of n words.
func (b *finder) tables(n int64, consumer string, to ...**ledger.Region) error {
	for _, t := range to {
		var err error
		if *t, err = b.Mem.Map(consumer, 4*n); err != nil {
			return err
		}
	}
	return nil
}

// bfsOrder finds the order; the degrees of c are used up.
func (b *finder) bfsOrder(e source.Edges, c *edgelist.Census) (*Order, error) {
	n := int(b.numNodes)
	start := 0
	for v, d := range ledger.View[uint32](c.Out.Bytes)[:n] {
		if d > ledger.View[uint32](c.Out.Bytes)[start] {
			start = v
		}
	}
	c.Out.Close()
	indegree, err := spill.Park(b.Space, "in-degrees", c.In)
	if err != nil {
		return nil, err
	}
	defer indegree.Close()
	var r0, r1, r2 *ledger.Region
	defer func() { r0.Close(); r1.Close(); r2.Close() }()
	if err := b.tables(b.numNodes, "tables of the order bfs", &r0, &r1, &r2); err != nil {
		return nil, err
	}
	bits, err := b.Mem.Map("visited nodes", int64(n)/64*8+8)
	if err != nil {
		return nil, err
	}
	defer bits.Close()
	s := &search{b: b, root: ledger.View[uint32](r0.Bytes)[:n], place: ledger.View[uint32](r1.Bytes)[:n], count: ledger.View[uint32](r2.Bytes)[:n], visited: ledger.View[uint64](bits.Bytes)}
	if err := s.components(e); err != nil {
		return nil, err
	}
	if err := s.levels(e, uint32(start)); err != nil {
		return nil, err
	}
	if err := s.apart(s.root[start]); err != nil {
		return nil, err
	}
	bits.Close()
	internal := s.root
	if err := indegree.Load(r2); err != nil {
		return nil, err
	}
	if err := recount(b.Ctx, c, internal, s.count); err != nil {
		return nil, err
	}
	if err := invert(b.Ctx, internal, s.place); err != nil {
		return nil, err
	}
	r := &Order{Internal: internal, Original: s.place, internalRegion: r0, originalRegion: r1}
	r0, r1 = nil, nil
	return r, nil
}

// search is a breadth-first search of all components.
type search struct {
	b       *finder
	root    []uint32 // smallest id of the node's component
	place   []uint32 // number of a visited node; the least number of its finders, or unseen
	count   []uint32
	visited []uint64 // a bit a node
}

func (s *search) seen(v uint32) bool { return s.visited[v>>6]>>(v&63)&1 != 0 }
func (s *search) mark(v uint32)      { s.visited[v>>6] |= 1 << (v & 63) }

// components fills root.
func (s *search) components(e source.Edges) error {
	root := s.root
	for v := range root {
		root[v] = uint32(v)
	}
	find := func(v uint32) uint32 {
		for root[v] != v {
			root[v] = root[root[v]]
			v = root[v]
		}
		return v
	}
	err := s.b.orderPass(e, "order nodes (bfs): components", func(src, dst []uint32) {
		for i, a := range src {
			u, v := find(a), find(dst[i])
			if u < v {
				root[v] = u
			} else {
				root[u] = v
			}
		}
	})
	if err != nil {
		return err
	}
	return inSteps(s.b.Ctx, len(root), func(low, high int) {
		for v := low; v < high; v++ {
			root[v] = root[root[v]] // a node's root is smaller and final already
		}
	})
}

// levels numbers all nodes, level by level over all components.
func (s *search) levels(e source.Edges, start uint32) error {
	for v := range s.place {
		s.place[v] = unseen
	}
	next := uint32(0)
	number := func(v uint32) {
		s.place[v] = next
		s.mark(v)
		next++
	}
	number(start)
	first := s.root[start]
	for v, r := range s.root {
		if uint32(v) == r && r != first {
			number(r)
		}
	}
	n := uint32(len(s.place))
	for low, pass := uint32(0), 1; next < n && pass <= bfsPasses; pass++ {
		err := s.b.orderPass(e, fmt.Sprintf("order nodes (bfs): level %d", pass), func(src, dst []uint32) {
			for i, u := range src {
				v := dst[i]
				switch a, b := s.seen(u), s.seen(v); {
				case a && !b:
					if p := s.place[u]; p >= low && p < s.place[v] {
						s.place[v] = p
					}
				case b && !a:
					if p := s.place[v]; p >= low && p < s.place[u] {
						s.place[u] = p
					}
				}
			}
		})
		if err != nil {
			return err
		}
		found := next
		if err := s.numberFound(low, &next); err != nil {
			return err
		}
		if next == found {
			panic("order: a component without an edge to what is left of it")
		}
		low = found
	}
	for v := range s.place {
		if !s.seen(uint32(v)) {
			number(uint32(v))
		}
	}
	return nil
}

// numberFound numbers the nodes found from the level that begins at low and ends at
// *next: by their finder's number, then by id.
func (s *search) numberFound(low uint32, next *uint32) error {
	count := s.count[:*next-low]
	clear(count)
	err := inSteps(s.b.Ctx, len(s.place), func(from, to int) {
		for v := from; v < to; v++ {
			if p := s.place[v]; p != unseen && !s.seen(uint32(v)) {
				count[p-low]++
			}
		}
	})
	if err != nil {
		return err
	}
	for i, c := range count {
		count[i] = *next
		*next += c
	}
	return inSteps(s.b.Ctx, len(s.place), func(from, to int) {
		for v := from; v < to; v++ {
			if p := s.place[v]; p != unseen && !s.seen(uint32(v)) {
				s.place[v] = count[p-low]
				count[p-low]++
				s.mark(uint32(v))
			}
		}
	})
}

// apart lets the components follow one another, the one of root first at the front,
// the others by their smallest id; root becomes the internal ids.
func (s *search) apart(first uint32) error {
	sequence := s.count
	if err := invert(s.b.Ctx, s.place, sequence); err != nil {
		return err
	}
	base := s.place
	clear(base)
	for _, r := range s.root {
		base[r]++
	}
	next := base[first]
	base[first] = 0
	for v, r := range s.root {
		if uint32(v) == r && r != first {
			size := base[r]
			base[r] = next
			next += size
		}
	}
	return inSteps(s.b.Ctx, len(sequence), func(low, high int) {
		for _, v := range sequence[low:high] {
			r := s.root[v]
			s.root[v] = base[r]
			base[r]++
		}
	})
}
