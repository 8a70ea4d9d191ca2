package memory

import (
	"encoding/binary"
	"fmt"
	"math"
	"sort"
	"unsafe"

	"github.com/goagnes/goagnes/layout"
)

// ObjectIndex is the object index table T_obj: for every graph block its first
// node and its first CSC position, and a directory that finds the block of a
// node in a few nanoseconds. It is not changed after it is made.
//
// The directory cuts the nodes into equal ranges of a power of two, at most two
// a block, and notes for each the last block that begins at or before the range;
// what remains is a binary search between two neighbouring notes, over one or
// two entries unless the degrees are very uneven.
type ObjectIndex struct {
	entries   []byte   // layout.IndexEntry each, one more than blocks
	directory []uint32 // by node >> shift
	shift     uint
	numNodes  uint64
	blocks    int
	places    []byte // page of each stored block, uint64, one more than blocks; nil where blocks lie at their size
}

// directorySize returns the ranges of the directory, and the shift that maps
// nodes to them.
func directorySize(blocks, numNodes int64) (ranges int64, shift uint) {
	if numNodes == 0 || blocks == 0 {
		return 0, 0
	}
	for (numNodes-1)>>shift+1 > 2*blocks-1 {
		shift++
	}
	return (numNodes-1)>>shift + 1, shift
}

// ObjectIndexBytes returns the bytes of the directory of an index: 8 for each
// block.
func ObjectIndexBytes(blocks int64) int64 { return 8 * blocks }

// NewObjectIndex makes an index over entries, the bytes of the section
// graph.index: 16 bytes for each block and as many at the end. They are used
// in place. directory is ObjectIndexBytes of memory, aligned to 4; nil = the Go
// heap. Entries that are not ascending or that do not span numNodes and
// numEdges give a *layout.Error.
func NewObjectIndex(entries, directory []byte, numNodes, numEdges int64) (*ObjectIndex, error) {
	n := int64(len(entries)) / layout.IndexEntryBytes
	if n == 0 || int64(len(entries))%layout.IndexEntryBytes != 0 || n-1 > 1<<31 {
		return nil, layout.Errorf(layout.Corrupt, layout.SectionIndex, "%d bytes are no table of graph blocks", len(entries))
	}
	x := &ObjectIndex{entries: entries, numNodes: uint64(numNodes), blocks: int(n - 1)}
	if err := x.validate(uint64(numEdges)); err != nil {
		return nil, err
	}
	ranges, shift := directorySize(n-1, numNodes)
	x.shift = shift
	if directory == nil {
		x.directory = make([]uint32, ranges)
	} else {
		if int64(len(directory)) < ObjectIndexBytes(n-1) || uintptr(unsafe.Pointer(unsafe.SliceData(directory)))%4 != 0 {
			panic("memory: an object index needs ObjectIndexBytes, aligned to 4, for its directory")
		}
		x.directory = unsafe.Slice((*uint32)(unsafe.Pointer(unsafe.SliceData(directory))), ranges)
	}
	b := 0
	for i := range x.directory {
		for first := uint64(i) << shift; b+1 < x.blocks && x.firstNode(b+1) <= first; {
			b++
		}
		x.directory[i] = uint32(b)
	}
	return x, nil
}

func (x *ObjectIndex) validate(numEdges uint64) error {
	bad := func(b int, format string, a ...any) error {
		return &layout.Error{Kind: layout.Corrupt, File: layout.SectionIndex, Offset: int64(b) * layout.IndexEntryBytes, Block: int64(b), Msg: fmt.Sprintf(format, a...) + ": rebuild the store"}
	}
	prev := layout.IndexEntry{}
	for b := 0; b <= x.blocks; b++ {
		e := x.Entry(b)
		switch {
		case b == 0 && e != prev:
			return bad(b, "the first block begins at node %d, position %d", e.FirstNode, e.FirstEdge)
		case e.FirstNode < prev.FirstNode || e.FirstEdge < prev.FirstEdge:
			return bad(b, "node %d, position %d after node %d, position %d", e.FirstNode, e.FirstEdge, prev.FirstNode, prev.FirstEdge)
		case b > 0 && e.FirstNode == prev.FirstNode && (e.FirstEdge == prev.FirstEdge || b == x.blocks):
			return bad(b, "the block before holds no piece of node %d", e.FirstNode)
		}
		prev = e
	}
	if prev.FirstNode != x.numNodes || prev.FirstEdge != numEdges {
		return bad(x.blocks, "the blocks end at node %d, position %d; the manifest says %d nodes, %d edges", prev.FirstNode, prev.FirstEdge, x.numNodes, numEdges)
	}
	return nil
}

// SetPlaces gives the index the bytes of the section graph.place, which are used in
// place: blocks of blockSize bytes are stored in fewer pages where they are
// compressed. Places that do not ascend by the pages that such blocks can have, or
// that do not span graphBytes, give a *layout.Error; so do blocks whose objects and
// edges would not fit into a block.
func (x *ObjectIndex) SetPlaces(places []byte, blockSize, graphBytes int64) error {
	bad := func(b int, format string, a ...any) error {
		return &layout.Error{Kind: layout.Corrupt, File: layout.SectionPlaces, Offset: 8 * int64(b), Block: int64(b), Msg: fmt.Sprintf(format, a...) + ": rebuild the store"}
	}
	if len(places) != 8*(x.blocks+1) {
		return bad(0, "%d bytes for %d blocks", len(places), x.blocks)
	}
	page := func(b int) uint64 { return binary.LittleEndian.Uint64(places[8*b:]) }
	most := uint64(blockSize / layout.PageSize)
	if page(0) != 0 || page(x.blocks) != uint64(graphBytes/layout.PageSize) {
		return bad(x.blocks, "the blocks lie in pages %d to %d of %d", page(0), page(x.blocks), graphBytes/layout.PageSize)
	}
	for b := range x.blocks {
		n := page(b+1) - page(b) // huge where places descend
		at, next := x.Entry(b), x.Entry(b+1)
		piece := at.FirstNode == next.FirstNode || b > 0 && x.firstNode(b-1) == at.FirstNode
		if n == 0 || n > most || piece && n != most {
			return bad(b, "the block has %d pages, blocks have up to %d, pieces of hubs as many", int64(n), most)
		}
		if s := layout.ShapeOf(int64(x.numNodes), at, next); n != most && !s.Fits(blockSize) {
			return bad(b, "a block of %d objects and %d edges does not fit into %d bytes", next.FirstNode-at.FirstNode, next.FirstEdge-at.FirstEdge, blockSize)
		}
	}
	x.places = places
	return nil
}

// Compressed reports whether blocks may be stored compressed.
func (x *ObjectIndex) Compressed() bool { return x.places != nil }

// Place returns where a block of blockSize bytes is stored, in bytes; fewer than
// blockSize where it is compressed.
func (x *ObjectIndex) Place(b int, blockSize int64) (offset, stored int64) {
	if x.places == nil {
		return int64(b) * blockSize, blockSize
	}
	at := binary.LittleEndian.Uint64(x.places[8*b:])
	return int64(at) * layout.PageSize, int64(binary.LittleEndian.Uint64(x.places[8*b+8:])-at) * layout.PageSize
}

// BlockAt returns the block of blockSize bytes that is stored at a byte of the graph
// section, -1 where none is.
func (x *ObjectIndex) BlockAt(offset, blockSize int64) int64 {
	if x.places == nil {
		return offset / blockSize
	}
	b := sort.Search(x.blocks, func(b int) bool {
		at, stored := x.Place(b, blockSize)
		return at+stored > offset
	})
	if offset < 0 || b == x.blocks {
		return -1
	}
	return int64(b)
}

// ColumnBytes returns the bytes of the largest columns of a compressed block, 0
// where none is compressed.
func (x *ObjectIndex) ColumnBytes(blockSize int64) int64 {
	most := int64(0)
	for b := range x.blocks {
		if _, stored := x.Place(b, blockSize); stored < blockSize {
			s := layout.ShapeOf(int64(x.numNodes), x.Entry(b), x.Entry(b+1))
			most = max(most, s.ColumnBytes())
		}
	}
	return most
}

// CheckHubs verifies that every piece of a hub but the last holds capacity
// neighbour ids, as layout.HubSlot relies on, and that a hub's degree is below
// 2^32, as draws rely on.
func (x *ObjectIndex) CheckHubs(capacity int64) error {
	first := layout.IndexEntry{} // of the first block that begins with the node of block b
	for b := 0; b < x.blocks; b++ {
		e, next := x.Entry(b), x.Entry(b+1)
		if e.FirstNode != first.FirstNode {
			first = e
		}
		if next.FirstEdge-first.FirstEdge > math.MaxUint32 {
			return &layout.Error{Kind: layout.Limits, File: layout.SectionIndex, Offset: int64(b) * layout.IndexEntryBytes, Block: int64(b),
				Msg: fmt.Sprintf("%d edges in the blocks of node %d: a degree of 2^32 or more is not read", next.FirstEdge-first.FirstEdge, first.FirstNode)}
		}
		if e.FirstNode == next.FirstNode && next.FirstEdge-e.FirstEdge != uint64(capacity) {
			return &layout.Error{Kind: layout.Corrupt, File: layout.SectionIndex, Offset: int64(b) * layout.IndexEntryBytes, Block: int64(b),
				Msg: fmt.Sprintf("a piece of node %d holds %d neighbours, %d are due: rebuild the store", e.FirstNode, next.FirstEdge-e.FirstEdge, capacity)}
		}
	}
	return nil
}

// Blocks returns the number of graph blocks.
func (x *ObjectIndex) Blocks() int { return x.blocks }

// Bytes returns the memory that the index occupies: entries, directory and places.
func (x *ObjectIndex) Bytes() int64 {
	return int64(len(x.entries)) + 4*int64(len(x.directory)) + int64(len(x.places))
}

// Entry returns the entry of block b; that of Blocks() is {num_nodes, num_edges}.
func (x *ObjectIndex) Entry(b int) layout.IndexEntry {
	return layout.GetIndexEntry(x.entries[b*layout.IndexEntryBytes:])
}

func (x *ObjectIndex) firstNode(b int) uint64 {
	return binary.LittleEndian.Uint64(x.entries[b*layout.IndexEntryBytes:])
}

// Find returns the block that holds the object of a node. pieces is 1, or, for
// a hub, the number of blocks from block on over which it is split. It panics
// on a node that is none.
func (x *ObjectIndex) Find(node uint64) (block, pieces int) {
	if node >= x.numNodes {
		panic(fmt.Sprintf("memory: node %d of %d", node, x.numNodes))
	}
	r := int(node >> x.shift)
	lo, hi := int(x.directory[r]), x.blocks // the last block to begin at or before node lies in [lo, hi)
	if r+1 < len(x.directory) {
		hi = int(x.directory[r+1]) + 1
	}
	for n := hi - lo; n > 1; { // without branches on the outcome
		half := n >> 1
		m := lo + half
		n -= half
		if x.firstNode(m) <= node {
			lo = m
		}
	}
	// lo is the last piece of a hub, if node is one.
	if lo == 0 || x.firstNode(lo-1) != node {
		return lo, 1
	}
	first := x.firstPiece(lo, node)
	return first, lo - first + 1
}

// firstPiece returns the first of the blocks, up to last, that begin at node.
func (x *ObjectIndex) firstPiece(last int, node uint64) int {
	// Hubs of many pieces are rare and short against all blocks: double the
	// step back from the end before halving.
	step := 1
	for step <= last && x.firstNode(last-step) == node {
		step *= 2
	}
	from := max(last-step+1, 0)
	return from + sort.Search(last-from, func(i int) bool { return x.firstNode(from+i) >= node })
}
