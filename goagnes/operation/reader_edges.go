package operation

// Reader: in-edges of one node, and all edges of a store.

import (
	"context"

	"github.com/goagnes/goagnes/layout"
)

// NeighborBytes returns the memory that Neighbors needs.
func (r *Reader) NeighborBytes() int64 {
	least, _ := RowBytes(readChunk, 8)
	return least + r.graphFrameBytes() + roundUp(r.columnBytes(), layout.PageSize) + layout.PageSize
}

// Neighbors writes the sources (original ids) of a node's in-edges and their
// edge ids, in import order, and returns how many there are. Where they are
// more than sources and edges have room for, nothing is written.
func (r *Reader) Neighbors(ctx context.Context, node int64, sources, edges []int64, mem []byte) (int64, error) {
	frame, rest := r.frame(mem)
	restore, rest := r.restorer(rest)
	p := cut(rest, readChunk, 8)
	p.keys[0] = uint32(node)
	if r.internal != nil {
		if err := r.translate(ctx, r.internal, p.keys[:1], p.keys[:1], p.pages); err != nil {
			return 0, err
		}
	}
	own := uint64(p.keys[0])
	block, pieces := r.table.Find(own)
	degree := int64(r.table.Entry(block+pieces).FirstEdge - r.table.Entry(block).FirstEdge)
	if pieces > 1 && degree > int64(len(sources)) {
		return degree, nil
	}
	n := int64(0)
	for piece := range pieces {
		g, err := r.read(ctx, block+piece, frame, restore)
		if err != nil {
			return 0, err
		}
		start, end := 0, g.Edges
		if g.Hub != (pieces > 1) {
			return 0, r.blockError(block+piece, "node %d is split over %d blocks, by the object index table", own, pieces)
		}
		if !g.Hub {
			start, end = g.Object(int(own - g.FirstNode))
			if degree = int64(end - start); degree > int64(len(sources)) {
				return degree, nil
			}
		}
		if end > start {
			if err := r.copyEdges(&g, block+piece, frame, start, end, sources[n:], edges[n:]); err != nil {
				return 0, err
			}
		}
		n += int64(end - start)
	}
	sources = sources[:n]
	if r.original == nil {
		return n, nil
	}
	for at := 0; at < len(sources); at += readChunk {
		part := sources[at:min(at+readChunk, len(sources))]
		keys, slots := p.keys[:len(part)], p.slots[:len(part)]
		for i, v := range part {
			keys[i], slots[i] = uint32(v), uint32(i)
		}
		sortPairs(keys, slots, p.tmpK, p.tmpV)
		if err := r.translate(ctx, r.original, keys, p.tmpK, p.pages); err != nil {
			return 0, err
		}
		for i, slot := range slots {
			part[slot] = int64(p.tmpK[i])
		}
	}
	return n, nil
}

// copyEdges copies the sources, as internal ids, and the edge ids of the
// neighbours [start, end) of a block.
func (r *Reader) copyEdges(g *layout.GraphBlock, block int, frame []byte, start, end int, sources, edges []int64) error {
	wide := int64(r.edgeWide)
	ids := r.blockEdgeIDs(block, frame)
	for i := range end - start {
		v, e := g.Neighbor(start+i), getID(ids[int64(start+i)*wide:], wide)
		if v >= uint64(r.manifest.NumNodes) || e >= uint64(r.manifest.EdgeIDRange()) {
			return r.blockError(block, "edge %d from node %d; edge ids are below %d, nodes below %d", e, v, r.manifest.EdgeIDRange(), r.manifest.NumNodes)
		}
		sources[i], edges[i] = int64(v), int64(e)
	}
	return nil
}

// frame cuts a frame for graph blocks off page-aligned memory.
func (r *Reader) frame(mem []byte) (frame, rest []byte) {
	n := roundUp(r.graphFrameBytes(), layout.PageSize)
	return mem[:n:n], mem[n:]
}

// restorer cuts a decompressor off page-aligned memory.
func (r *Reader) restorer(mem []byte) (d *decompressor, rest []byte) {
	n := roundUp(r.columnBytes(), layout.PageSize)
	return &decompressor{columns: mem[:n:n]}, mem[n:]
}

// read loads a block and parses it. A read that was begun is waited for.
func (r *Reader) read(ctx context.Context, block int, frame []byte, restore *decompressor) (layout.GraphBlock, error) {
	if err := ctx.Err(); err != nil {
		return layout.GraphBlock{}, err
	}
	ready := make(chan error, 1)
	r.load(block, frame, func(err error) { ready <- err })
	if err := <-ready; err != nil {
		return layout.GraphBlock{}, err
	}
	return r.parse(block, frame, restore)
}

// EdgeBytes returns the memory that Edges needs.
func (r *Reader) EdgeBytes() int64 {
	n := r.NeighborBytes() + roundUp(r.graphFrameBytes(), layout.PageSize)
	if r.original != nil {
		n += roundUp(4*r.manifest.NumNodes, layout.PageSize)
	}
	return n
}

// Edges writes the source and the target of every edge, as original ids, at the
// place of its edge id; places without an edge are left as they are. Blocks are read once, each while the one before is
// copied. report is called after every block.
func (r *Reader) Edges(ctx context.Context, sources, targets []int64, mem []byte, report func(done, total int64)) error {
	var frames [2][]byte
	frames[0], mem = r.frame(mem)
	frames[1], mem = r.frame(mem)
	restore, mem := r.restorer(mem)
	var originals []uint32
	if r.original != nil {
		n := roundUp(4*r.manifest.NumNodes, layout.PageSize)
		originals, mem = words(mem[:n])[:r.manifest.NumNodes], mem[n:]
		p := cut(mem, readChunk, 8)
		width := r.original.Stride()
		if err := fetch(ctx, r.original, len(originals), func(i int) int64 { return int64(i) * width }, width, p.pages, func(i int, b []byte) error {
			v := getID(b, width)
			if v >= uint64(r.manifest.NumNodes) {
				return layout.Errorf(layout.Corrupt, r.original.File, "row %d holds node %d, the store has %d nodes", i, v, r.manifest.NumNodes)
			}
			originals[i] = uint32(v)
			return nil
		}); err != nil {
			return err
		}
	}
	blocks := r.table.Blocks()
	ready := [2]chan error{make(chan error, 1), make(chan error, 1)}
	begin := func(b int) {
		if b < blocks {
			r.load(b, frames[b%2], func(err error) { ready[b%2] <- err })
		}
	}
	begin(0)
	for b := range blocks {
		failed := <-ready[b%2]
		if failed == nil {
			failed = ctx.Err()
		}
		if failed != nil {
			return failed
		}
		begin(b + 1)
		if err := r.placeEdges(b, frames[b%2], restore, originals, sources, targets); err != nil {
			if b+1 < blocks {
				<-ready[(b+1)%2] // its frame is the caller's again
			}
			return err
		}
		report(int64(b+1), int64(blocks))
	}
	return nil
}

// placeEdges writes the edges of a loaded block.
func (r *Reader) placeEdges(block int, frame []byte, restore *decompressor, originals []uint32, sources, targets []int64) error {
	g, err := r.parse(block, frame, restore)
	if err != nil || g.Edges == 0 {
		return err
	}
	wide := int64(r.edgeWide)
	ids := r.blockEdgeIDs(block, frame)
	for i := range g.Count {
		start, end := 0, g.Edges
		if !g.Hub {
			start, end = g.Object(i)
		}
		target := int64(g.Original(i))
		for k := start; k < end; k++ {
			v, e := g.Neighbor(k), getID(ids[int64(k)*wide:], wide)
			if v >= uint64(r.manifest.NumNodes) || e >= uint64(r.manifest.EdgeIDRange()) {
				return r.blockError(block, "edge %d from node %d; edge ids are below %d, nodes below %d", e, v, r.manifest.EdgeIDRange(), r.manifest.NumNodes)
			}
			source := int64(v)
			if originals != nil {
				source = int64(originals[v])
			}
			sources[e], targets[e] = source, target
		}
	}
	return nil
}
