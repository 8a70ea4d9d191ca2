package operation

import (
	"cmp"
	"context"
	"slices"

	"github.com/goagnes/goagnes/layout"
)

// hubPicks bounds the picks of a hub that are sorted and read together, unless
// one request alone makes more: 2 MiB of the Go heap a worker. A variable for tests.
var hubPicks = 1 << 17

// sampleHub samples for every request of one hub. The hub's degree is known
// from the object index table and its neighbours are addressable by position,
// so only the pages that hold chosen ones are read, whatever the hub's size.
func (w *window) sampleHub(ctx context.Context, s *sampler, u unit) error {
	e := w.h.e
	first, end := e.Index.Entry(u.block), e.Index.Entry(u.block+u.pieces)
	degree := end.FirstEdge - first.FirstEdge
	row := w.bucket.row(u.block)
	n := w.drawn(degree)
	at, err := w.take(n * len(row))
	if err != nil {
		return err
	}
	original, err := w.hubOriginal(ctx, s, u, degree)
	if err != nil {
		return err
	}
	if uint64(n) == degree {
		for _, r := range row {
			w.offsets[r.slot], w.counts[r.slot] = at, uint32(n)
			if err := w.readHub(ctx, s, u, n, func(i int) (uint64, uint32) { return uint64(i), at + uint32(i) }); err != nil {
				return err
			}
			at += uint32(n)
		}
		return nil
	}
	for len(row) > 0 {
		group := row[:min(len(row), max(1, hubPicks/n))]
		row = row[len(group):]
		s.hub = s.hub[:0]
		for _, r := range group {
			w.offsets[r.slot], w.counts[r.slot] = at, uint32(n)
			chosen := s.chosen(n)
			stream.draw(chosen, w.batches[r.batch].key, original, w.position(r.slot), w.hop, degree, &s.seen)
			for k, p := range chosen {
				s.hub = append(s.hub, hubPick{uint64(p), at + uint32(k)})
			}
			at += uint32(n)
		}
		slices.SortFunc(s.hub, func(a, b hubPick) int { return cmp.Compare(a.position, b.position) })
		e.meter.hubPicks.Add(int64(len(s.hub)))
		if err := w.readHub(ctx, s, u, len(s.hub), func(i int) (uint64, uint32) { return s.hub[i].position, s.hub[i].entry }); err != nil {
			return err
		}
	}
	return nil
}

// hubOriginal reads the head of a hub's first piece and returns the hub's
// original id.
func (w *window) hubOriginal(ctx context.Context, s *sampler, u unit, degree uint64) (uint64, error) {
	e := w.h.e
	size := e.manifest.Settings.BlockSize
	base, _ := e.Index.Place(u.block, size) // pieces are stored whole, one after another
	var original uint64
	err := fetch(ctx, e.graph, 1, func(int) int64 { return base }, layout.PageSize, s.pages, func(_ int, b []byte) error {
		h, err := layout.ParseHubHead(b, size, e.nodeBits, e.Index.Entry(u.block), e.Index.Entry(u.block+1))
		if err != nil {
			return e.blockError(u.block, "%v", err)
		}
		if h.Degree != degree {
			return e.blockError(u.block, "a hub of degree %d, the object index table says %d", h.Degree, degree)
		}
		original = h.Original
		return nil
	})
	return original, err
}

// readHub reads n neighbours of a hub and, meanwhile where there is room for both,
// their edge ids; pick(i) tells the position, ascending with i, and the entry of
// out for it.
func (w *window) readHub(ctx context.Context, s *sampler, u unit, n int, pick func(i int) (position uint64, entry uint32)) error {
	pages := s.pages
	if w.h.e.edgeIDs == nil {
		return w.readHubNeighbors(ctx, u, n, pages, pick)
	}
	half := len(pages) / 2 / layout.PageSize * layout.PageSize
	if half < 2*layout.PageSize { // an item may cross the end of a page
		if err := w.readHubNeighbors(ctx, u, n, pages, pick); err != nil {
			return err
		}
		return w.readHubEdgeIDs(ctx, u, n, pages, pick)
	}
	return parallel(2, func(part int) error {
		if part == 0 {
			return w.readHubNeighbors(ctx, u, n, pages[:half:half], pick)
		}
		return w.readHubEdgeIDs(ctx, u, n, pages[half:], pick)
	})
}

func (w *window) readHubNeighbors(ctx context.Context, u unit, n int, pages []byte, pick func(i int) (position uint64, entry uint32)) error {
	e := w.h.e
	size := e.manifest.Settings.BlockSize
	base, _ := e.Index.Place(u.block, size)
	return fetch(ctx, e.graph, n, func(i int) int64 {
		p, _ := pick(i)
		off, _ := layout.HubSlot(size, e.nodeBits, int64(p))
		return base + off
	}, 8, pages, func(i int, b []byte) error {
		p, entry := pick(i)
		off, shift := layout.HubSlot(size, e.nodeBits, int64(p))
		v := layout.ReadPacked(b, shift, e.nodeBits)
		if v >= uint64(e.manifest.NumNodes) {
			return e.blockError(u.block+int(off/size), "neighbour %d, the store has %d nodes", v, e.manifest.NumNodes)
		}
		w.out[entry] = uint32(v)
		w.h.bound.graph.mark((base + off) / layout.PageSize)
		return nil
	})
}

func (w *window) readHubEdgeIDs(ctx context.Context, u unit, n int, pages []byte, pick func(i int) (position uint64, entry uint32)) error {
	e := w.h.e
	wide := int64(e.edgeWide)
	firstEdge := int64(e.Index.Entry(u.block).FirstEdge)
	return fetch(ctx, e.edgeIDs, n, func(i int) int64 {
		p, _ := pick(i)
		return (firstEdge + int64(p)) * wide
	}, wide, pages, func(i int, b []byte) error {
		_, entry := pick(i)
		copy(w.outIDs[int64(entry)*wide:int64(entry+1)*wide], b)
		return nil
	})
}

// loadHub loads every piece of a hub, whole and in ascending order, as the
// published algorithm does. Room for what is drawn is taken here, before the
// workers get the pieces: each of them then fills in what lies in its own.
func (w *window) loadHub(ctx context.Context, block, pieces int, s *sweep) error {
	row := w.bucket.row(block)
	n := w.drawn(w.hubDegree(block, pieces))
	at, err := w.take(n * len(row))
	if err != nil {
		return err
	}
	for _, r := range row {
		w.offsets[r.slot], w.counts[r.slot] = at, uint32(n)
		at += uint32(n)
	}
	for i := range pieces {
		if err := w.load(ctx, s, unit{block: block + i, pieces: pieces, first: block}); err != nil {
			return err
		}
	}
	return nil
}

// hubDegree returns the in-degree of the hub whose pieces begin at block.
func (w *window) hubDegree(block, pieces int) uint64 {
	table := w.h.e.table
	return table.Entry(block+pieces).FirstEdge - table.Entry(block).FirstEdge
}

// samplePiece copies what every request of a hub has drawn of one loaded piece.
// Draws are made anew for each piece: they depend on the request alone, and to
// keep those of all requests would take memory that nobody has counted.
func (w *window) samplePiece(s *sampler, u unit) error {
	e := w.h.e
	mem := u.frame.Bytes()
	g, err := e.parse(u.block, mem, s.restore)
	if err != nil {
		return err
	}
	if !g.Hub {
		return e.blockError(u.block, "whole objects where a piece of a hub is due")
	}
	degree := w.hubDegree(u.first, u.pieces)
	from := g.FirstEdge - e.table.Entry(u.first).FirstEdge
	upto := from + uint64(g.Edges)
	wide := int64(e.edgeWide)
	var ids []byte
	if wide > 0 {
		ids = e.blockEdgeIDs(u.block, mem)
	}
	place, _ := e.table.Place(u.block, e.manifest.Settings.BlockSize)
	base := place / layout.PageSize
	pick := func(entry uint32, position uint64) error {
		i := int(position - from)
		v := g.Neighbor(i)
		if v >= uint64(e.manifest.NumNodes) {
			return e.blockError(u.block, "neighbour %d, the store has %d nodes", v, e.manifest.NumNodes)
		}
		w.out[entry] = uint32(v)
		copy(w.outIDs[int64(entry)*wide:][:wide], ids[int64(i)*wide:])
		w.h.bound.graph.mark(base + int64(g.Offset(i)/layout.PageSize))
		return nil
	}
	for _, r := range w.bucket.row(u.first) {
		at, n := w.offsets[r.slot], int(w.counts[r.slot])
		if uint64(n) == degree {
			for p := from; p < upto; p++ {
				if err := pick(at+uint32(p), p); err != nil {
					return err
				}
			}
			continue
		}
		chosen := s.chosen(n)
		stream.draw(chosen, w.batches[r.batch].key, g.Original(0), w.position(r.slot), w.hop, degree, &s.seen)
		k, _ := slices.BinarySearch(chosen, uint32(from))
		for ; k < n && uint64(chosen[k]) < upto; k++ {
			if err := pick(at+uint32(k), uint64(chosen[k])); err != nil {
				return err
			}
		}
	}
	return nil
}
