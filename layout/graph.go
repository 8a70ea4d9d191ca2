package layout

import (
	"encoding/binary"
	"fmt"
)

// Kinds of graph block; 0 is reserved.
const (
	blockObjects = 1 // whole objects
	blockHub     = 2 // one piece of an object that is larger than a block
)

const (
	graphHeader = 32 // bytes before the objects' table
	hubPayload  = 64 // byte offset of the neighbour ids in a hub's piece
	slack       = 8  // zero bytes after the last id, so that ids are read 8 bytes at a time
)

// IndexEntryBytes is the size of an entry of the object index table on disk.
const IndexEntryBytes = 16

// IndexEntry is one entry of the object index table T_obj: the first node and
// the first CSC position of a graph block. Block b holds the whole objects of
// nodes [FirstNode(b), FirstNode(b+1)); the pieces of a hub share its
// FirstNode. The last entry, one past the last block, is {num_nodes, num_edges}.
type IndexEntry struct {
	FirstNode uint64
	FirstEdge uint64
}

// Put writes e to b.
func (e IndexEntry) Put(b []byte) {
	binary.LittleEndian.PutUint64(b, e.FirstNode)
	binary.LittleEndian.PutUint64(b[8:], e.FirstEdge)
}

// GetIndexEntry reads an entry from b.
func GetIndexEntry(b []byte) IndexEntry {
	return IndexEntry{binary.LittleEndian.Uint64(b), binary.LittleEndian.Uint64(b[8:])}
}

// HubCapacity returns the neighbour ids that one piece of a hub holds, but for
// the last.
func HubCapacity(blockSize int64, nodeBits int) int64 {
	return (blockSize - hubPayload - slack) * 8 / int64(nodeBits)
}

// HubSlot returns the byte offset within a hub's blocks of the 8 bytes that
// hold neighbour number pos, and the shift of the id within them.
func HubSlot(blockSize int64, nodeBits int, pos int64) (offset int64, shift uint) {
	c := HubCapacity(blockSize, nodeBits)
	bit := pos % c * int64(nodeBits)
	return pos/c*blockSize + hubPayload + bit>>3, uint(bit & 7)
}

// ReadPacked returns the nodeBits bits at shift of the 8 bytes at b.
func ReadPacked(b []byte, shift uint, nodeBits int) uint64 {
	return binary.LittleEndian.Uint64(b) >> shift & (1<<uint(nodeBits) - 1)
}

// GraphBlock is a parsed graph block. Parsing checks every offset, so that no
// method can read outside the block; neighbour ids themselves are not checked
// against num_nodes.
type GraphBlock struct {
	Hub       bool   // a piece of a hub; then Count is 1
	Count     int    // objects
	Edges     int    // neighbour ids in this block
	FirstNode uint64 // internal id of the first object
	FirstEdge uint64 // CSC position of the first neighbour id
	nodeBits  uint
	mask      uint64
	ends      []byte // uint32 end of each object, counted in ids
	originals []byte
	wide      bool // originals are 8 bytes each
	packed    []byte
	payload   int // byte offset of packed in the block
}

// ParseGraphBlock reads the header and table of the graph block b, which must
// be a whole block, and compares it with its two entries of the object index
// table.
func ParseGraphBlock(b []byte, nodeBits int, at, next IndexEntry) (GraphBlock, error) {
	g := GraphBlock{
		Count:     int(binary.LittleEndian.Uint32(b[4:])),
		FirstNode: binary.LittleEndian.Uint64(b[8:]),
		FirstEdge: binary.LittleEndian.Uint64(b[16:]),
		Edges:     int(binary.LittleEndian.Uint32(b[24:])),
		nodeBits:  uint(nodeBits),
		mask:      1<<uint(nodeBits) - 1,
		wide:      b[2] == 8,
	}
	payload := int(binary.LittleEndian.Uint32(b[28:]))
	if int(b[1]) != nodeBits || (b[2] != 4 && b[2] != 8) || b[3] != 0 {
		return g, fmt.Errorf("ids of %d bits and original ids of %d bytes, expected %d bits", b[1], b[2], nodeBits)
	}
	if g.FirstNode != at.FirstNode || g.FirstEdge != at.FirstEdge || uint64(g.Edges) != next.FirstEdge-at.FirstEdge {
		return g, fmt.Errorf("holds node %d on, CSC positions %d+%d; the object index table says node %d on, positions %d to %d",
			g.FirstNode, g.FirstEdge, g.Edges, at.FirstNode, at.FirstEdge, next.FirstEdge)
	}
	if payload > len(b) || (int64(len(b)-payload)-slack)*8 < int64(g.Edges)*int64(nodeBits) {
		return g, fmt.Errorf("%d ids of %d bits from byte %d on do not fit", g.Edges, nodeBits, payload)
	}
	width := 4
	if g.wide {
		width = 8
	}
	switch b[0] {
	case blockObjects:
		if uint64(g.Count) != next.FirstNode-at.FirstNode {
			return g, fmt.Errorf("%d objects, the object index table says %d", g.Count, next.FirstNode-at.FirstNode)
		}
		if g.Count > len(b) || graphHeader+g.Count*(4+width) > payload {
			return g, fmt.Errorf("a table of %d objects does not fit before byte %d", g.Count, payload)
		}
		g.ends = b[graphHeader : graphHeader+4*g.Count]
		g.originals = b[graphHeader+4*g.Count : graphHeader+(4+width)*g.Count]
		last := uint32(0)
		for i := 0; i < len(g.ends); i += 4 {
			e := binary.LittleEndian.Uint32(g.ends[i:])
			if e < last {
				return g, fmt.Errorf("object %d ends before it begins", i/4)
			}
			last = e
		}
		if int(last) != g.Edges {
			return g, fmt.Errorf("objects of %d ids, the header says %d", last, g.Edges)
		}
	case blockHub:
		g.Hub = true
		if g.Count != 1 || payload != hubPayload {
			return g, fmt.Errorf("a hub's piece of %d objects, ids at byte %d", g.Count, payload)
		}
		g.wide = true
		g.originals = b[graphHeader+8 : graphHeader+16]
	default:
		return g, fmt.Errorf("unknown kind of block %d", b[0])
	}
	g.packed, g.payload = b[payload:], payload
	return g, nil
}

// HubHead is the head of a hub's first piece.
type HubHead struct {
	Degree   uint64 // edges of the hub, over all its pieces
	Original uint64 // original id of the hub
}

// ParseHubHead reads a hub's head from the first page of its first piece,
// which fills a block of blockSize bytes, and compares it with the block's
// entries of the object index table.
func ParseHubHead(page []byte, blockSize int64, nodeBits int, at, next IndexEntry) (HubHead, error) {
	if page[0] != blockHub || int(page[1]) != nodeBits {
		return HubHead{}, fmt.Errorf("a block of kind %d with ids of %d bits where a hub with ids of %d bits is due", page[0], page[1], nodeBits)
	}
	node, edge, n := binary.LittleEndian.Uint64(page[8:]), binary.LittleEndian.Uint64(page[16:]), binary.LittleEndian.Uint32(page[24:])
	if node != at.FirstNode || edge != at.FirstEdge || uint64(n) != next.FirstEdge-at.FirstEdge || int64(n) > HubCapacity(blockSize, nodeBits) {
		return HubHead{}, fmt.Errorf("a piece of node %d at position %d with %d ids; the object index table says node %d, positions %d to %d",
			node, edge, n, at.FirstNode, at.FirstEdge, next.FirstEdge)
	}
	return HubHead{binary.LittleEndian.Uint64(page[graphHeader:]), binary.LittleEndian.Uint64(page[graphHeader+8:])}, nil
}

// Object returns the range of ids, counted within the block, of object i.
func (g *GraphBlock) Object(i int) (start, end int) {
	if i > 0 {
		start = int(binary.LittleEndian.Uint32(g.ends[4*i-4:]))
	}
	return start, int(binary.LittleEndian.Uint32(g.ends[4*i:]))
}

// Original returns the original id of object i.
func (g *GraphBlock) Original(i int) uint64 {
	if g.wide {
		return binary.LittleEndian.Uint64(g.originals[8*i:])
	}
	return uint64(binary.LittleEndian.Uint32(g.originals[4*i:]))
}

// Neighbor returns neighbour id number i of the block.
func (g *GraphBlock) Neighbor(i int) uint64 {
	bit := uint(i) * g.nodeBits
	return binary.LittleEndian.Uint64(g.packed[bit>>3:]) >> (bit & 7) & g.mask
}

// Offset returns the byte offset within the block of neighbour id number i.
func (g *GraphBlock) Offset(i int) int { return g.payload + i*int(g.nodeBits)>>3 }

// GraphEncoder writes objects in ascending internal id into graph blocks.
type GraphEncoder struct {
	emit      func(block []byte, entry IndexEntry) error
	blockSize int64
	numNodes  int64
	bits      uint
	width     int // bytes of an original id

	node, edge uint64 // next node, next CSC position
	first      IndexEntry
	ends       []uint32
	originals  []uint64
	packed     []byte // ids of the open block, bit-packed from bit 0
	count      uint32 // ids in packed
	block      []byte

	left     uint64 // ids that the open object still lacks
	hub      bool
	degree   uint64
	original uint64
}

// NewGraphEncoder returns an encoder that passes each finished block, of
// blockSize bytes and valid during the call, to emit in order. emit also gets
// the block's entry of the object index table.
func NewGraphEncoder(numNodes, blockSize int64, emit func(block []byte, entry IndexEntry) error) *GraphEncoder {
	return &GraphEncoder{
		emit: emit, blockSize: blockSize, numNodes: numNodes, bits: uint(NodeBits(numNodes)),
		width: IDType(numNodes).Size(), packed: make([]byte, blockSize), block: make([]byte, blockSize),
	}
}

// Object begins the object of the next node: its original id and its degree.
// Exactly degree ids must follow by Neighbors before the next Object or Close.
func (e *GraphEncoder) Object(original, degree uint64) error {
	if e.left != 0 {
		panic("layout: an object lacks neighbours")
	}
	if e.node >= uint64(e.numNodes) {
		panic("layout: more objects than nodes")
	}
	e.left, e.degree, e.original = degree, degree, original
	if !e.fits(0, 0, degree) {
		if err := e.flush(); err != nil {
			return err
		}
		e.hub = true
		return nil
	}
	if !e.fits(len(e.ends), uint64(e.count), degree) {
		if err := e.flush(); err != nil {
			return err
		}
	}
	if len(e.ends) == 0 {
		e.first = IndexEntry{e.node, e.edge}
	}
	e.ends = append(e.ends, e.count+uint32(degree))
	e.originals = append(e.originals, original)
	e.node++
	return nil
}

// fits reports whether one more object fits beside objects objects of ids ids.
func (e *GraphEncoder) fits(objects int, ids, degree uint64) bool {
	if degree > uint64(e.blockSize)*8 {
		return false
	}
	table := roundUp(graphHeader+int64(objects+1)*int64(4+e.width), 8)
	return table+int64((ids+degree)*uint64(e.bits)+7)/8+slack <= e.blockSize
}

// Neighbors appends neighbour ids, in order, to the object begun last.
func (e *GraphEncoder) Neighbors(ids []uint64) error {
	if uint64(len(ids)) > e.left {
		panic("layout: more neighbours than the object's degree")
	}
	for len(ids) > 0 {
		n := len(ids)
		if e.hub {
			room := HubCapacity(e.blockSize, int(e.bits)) - int64(e.count)
			n = int(min(int64(n), room))
		}
		for _, v := range ids[:n] {
			if v >= uint64(e.numNodes) {
				panic("layout: a neighbour id is no node")
			}
			bit := uint(e.count) * e.bits
			p := e.packed[bit>>3:]
			binary.LittleEndian.PutUint64(p, binary.LittleEndian.Uint64(p)|v<<(bit&7))
			e.count++
		}
		ids = ids[n:]
		e.left -= uint64(n)
		e.edge += uint64(n)
		if e.hub && (e.left == 0 || int64(e.count) == HubCapacity(e.blockSize, int(e.bits))) {
			if err := e.flushHub(); err != nil {
				return err
			}
		}
	}
	return nil
}

func (e *GraphEncoder) header(kind byte, width int, entry IndexEntry, objects int, payload int64) {
	b := e.block
	b[0], b[1], b[2] = kind, byte(e.bits), byte(width)
	binary.LittleEndian.PutUint32(b[4:], uint32(objects))
	binary.LittleEndian.PutUint64(b[8:], entry.FirstNode)
	binary.LittleEndian.PutUint64(b[16:], entry.FirstEdge)
	binary.LittleEndian.PutUint32(b[24:], e.count)
	binary.LittleEndian.PutUint32(b[28:], uint32(payload))
}

func (e *GraphEncoder) finish(payload int64, entry IndexEntry) error {
	used := (int64(e.count)*int64(e.bits) + 7) / 8
	copy(e.block[payload:], e.packed[:used])
	err := e.emit(e.block, entry)
	clear(e.block)
	clear(e.packed)
	e.count = 0
	return err
}

// flush emits the open block of whole objects, if it holds any.
func (e *GraphEncoder) flush() error {
	if len(e.ends) == 0 {
		return nil
	}
	payload := roundUp(graphHeader+int64(len(e.ends))*int64(4+e.width), 8)
	e.header(blockObjects, e.width, e.first, len(e.ends), payload)
	for i, end := range e.ends {
		binary.LittleEndian.PutUint32(e.block[graphHeader+4*i:], end)
	}
	at := e.block[graphHeader+4*len(e.ends):]
	for i, o := range e.originals {
		if e.width == 8 {
			binary.LittleEndian.PutUint64(at[8*i:], o)
		} else {
			binary.LittleEndian.PutUint32(at[4*i:], uint32(o))
		}
	}
	e.ends, e.originals = e.ends[:0], e.originals[:0]
	return e.finish(payload, e.first)
}

// flushHub emits a piece of the open hub; after the last piece the next node
// begins.
func (e *GraphEncoder) flushHub() error {
	entry := IndexEntry{e.node, e.edge - uint64(e.count)}
	e.header(blockHub, 8, entry, 1, hubPayload)
	binary.LittleEndian.PutUint64(e.block[graphHeader:], e.degree)
	binary.LittleEndian.PutUint64(e.block[graphHeader+8:], e.original)
	if e.left == 0 {
		e.hub = false
		e.node++
	}
	return e.finish(hubPayload, entry)
}

// Close emits the last block and returns the entry that ends the object index
// table.
func (e *GraphEncoder) Close() (IndexEntry, error) {
	if e.left != 0 || e.node != uint64(e.numNodes) {
		panic(fmt.Sprintf("layout: the graph ends at node %d of %d", e.node, e.numNodes))
	}
	return IndexEntry{e.node, e.edge}, e.flush()
}
