package operation

// Graph blocks of a store as everything reads them: which bytes to load, and
// what they hold. Sampling and Reader share this way; hubs, whose chosen
// neighbours are read singly while sampling, have one of their own in hub.go.

import (
	"fmt"
	"sync/atomic"

	"github.com/goagnes/goagnes/goagnes/memory"
	"github.com/goagnes/goagnes/goagnes/storage"
	"github.com/goagnes/goagnes/layout"
)

// graphBlocks reads the graph blocks of a store and the edge ids that go with
// them.
type graphBlocks struct {
	manifest *layout.Manifest
	table    *memory.ObjectIndex
	graph    *storage.Section
	edgeIDs  *storage.Section // nil when not wanted
	edgeWide int              // bytes of an edge id
	nodeBits int
}

func newGraphBlocks(store *storage.Store, table *memory.ObjectIndex, edgeIDs bool) (graphBlocks, error) {
	m := store.Manifest()
	g := graphBlocks{manifest: m, table: table, graph: store.Section(layout.SectionGraph), nodeBits: layout.NodeBits(m.NumNodes)}
	if edgeIDs {
		if g.edgeIDs = store.Section(layout.SectionEdgeID); g.edgeIDs == nil {
			return g, layout.Errorf(layout.Corrupt, layout.ManifestFile, "section %q is missing", layout.SectionEdgeID)
		}
		g.edgeWide = g.edgeIDs.Type().Size()
	}
	return g, nil
}

// load reads a block as it is stored, and behind it the pages with its edge ids,
// into a frame of graphFrameBytes, and calls ready once, on another goroutine.
func (g *graphBlocks) load(block int, frame []byte, ready func(error)) {
	size := g.manifest.Settings.BlockSize
	left := atomic.Int32{}
	left.Store(1)
	var failed atomic.Pointer[error]
	done := func(r *storage.Request) {
		if r.Err != nil {
			failed.CompareAndSwap(nil, &r.Err)
		}
		if left.Add(-1) == 0 {
			var err error
			if p := failed.Load(); p != nil {
				err = *p
			}
			ready(err)
		}
	}
	if at, length := g.edgeIDPages(block); length > 0 {
		left.Add(1)
		g.edgeIDs.Submit(at, frame[size:size+length], 0, done)
	}
	offset, stored := g.table.Place(block, size)
	g.graph.Submit(offset, frame[:stored], 0, done)
}

// decompressor restores compressed blocks for one goroutine at a time.
type decompressor struct {
	columns []byte // columnBytes of memory
	blocks  *layout.BlockDecompressor
}

// columnBytes returns the memory of a decompressor, 0 where no block is compressed.
func (g *graphBlocks) columnBytes() int64 {
	if !g.table.Compressed() {
		return 0
	}
	return g.table.ColumnBytes(g.manifest.Settings.BlockSize)
}

// parse reads the tables of a loaded block, after restoring it in its frame where it
// lies there compressed.
func (g *graphBlocks) parse(block int, frame []byte, d *decompressor) (layout.GraphBlock, error) {
	size := g.manifest.Settings.BlockSize
	at, next := g.table.Entry(block), g.table.Entry(block+1)
	if _, stored := g.table.Place(block, size); stored < size && layout.IsCompressed(frame) {
		if d.blocks == nil {
			d.blocks = layout.NewBlockDecompressor(d.columns)
		}
		if err := d.blocks.Decompress(frame[:size], stored, layout.ShapeOf(g.manifest.NumNodes, at, next)); err != nil {
			return layout.GraphBlock{}, g.blockError(block, "%v", err)
		}
	}
	b, err := layout.ParseGraphBlock(frame[:size], g.nodeBits, at, next)
	if err != nil {
		return b, g.blockError(block, "%v", err)
	}
	return b, nil
}

// blockEdgeIDs returns the edge ids in a loaded block's frame, edgeWide bytes
// each, in the order of the block's neighbours.
func (g *graphBlocks) blockEdgeIDs(block int, frame []byte) []byte {
	first, _ := g.edgeIDPages(block)
	return frame[g.manifest.Settings.BlockSize:][int64(g.table.Entry(block).FirstEdge)*int64(g.edgeWide)-first:]
}

// edgeIDPages returns the byte range of the edge ids that go with a block.
func (g *graphBlocks) edgeIDPages(block int) (at, length int64) {
	if g.edgeIDs == nil {
		return 0, 0
	}
	return g.edgeIDs.RowPages(int64(g.table.Entry(block).FirstEdge), int64(g.table.Entry(block+1).FirstEdge))
}

// graphFrameBytes returns the bytes of a frame: a block and the edge ids that
// go with it.
func (g *graphBlocks) graphFrameBytes() int64 {
	longest := int64(0)
	if g.edgeIDs != nil {
		for b := range g.table.Blocks() {
			_, n := g.edgeIDPages(b)
			longest = max(longest, n)
		}
	}
	return g.manifest.Settings.BlockSize + longest
}

func (g *graphBlocks) blockError(block int, format string, a ...any) error {
	offset, _ := g.table.Place(block, g.manifest.Settings.BlockSize)
	return &layout.Error{Kind: layout.Corrupt, File: g.graph.File, Block: int64(block),
		Offset: offset, Msg: fmt.Sprintf(format, a...)}
}
