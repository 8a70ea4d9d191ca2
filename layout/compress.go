package layout

// Compressed graph blocks: the columns of a block of whole objects, one zstd
// frame, in whole pages.

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/DataDog/zstd"
)

const blockCompressed = 3 // kind of a compressed block

// Codings of the column of neighbour ids.
const (
	codingIDs    = 1 // ids as they are
	codingDeltas = 2 // zigzag differences to the id before in the list, the first to 0
)

const compressedHeader = 8 // bytes before the zstd frame

// Levels of compression.
const (
	DefaultLevel = 3
	MinLevel     = 1
	MaxLevel     = 9 // beyond it blocks shrink by no more than a hundredth, for tens of MiB
)

// ParseCompression reads "", "none", "zstd" or "zstd:LEVEL" and returns the level, 0
// for none, and the form in which [Settings] hold it.
func ParseCompression(s string) (level int, canonical string, err error) {
	if s == "" || s == "none" {
		return 0, "", nil
	}
	name, digits, given := strings.Cut(s, ":")
	level = DefaultLevel
	if given {
		level, err = strconv.Atoi(digits)
	}
	if name != "zstd" || err != nil || level < MinLevel || level > MaxLevel || given && strconv.Itoa(level) != digits {
		return 0, "", fmt.Errorf("compression is none, zstd or zstd:LEVEL with a level from %d to %d", MinLevel, MaxLevel)
	}
	return level, "zstd:" + strconv.Itoa(level), nil
}

// BlockShape is what the object index table and the number of nodes say about a
// graph block: everything but its objects' degrees, original ids and neighbours.
type BlockShape struct {
	At       IndexEntry
	objects  int
	edges    int
	bits     int // of a neighbour id
	idBytes  int // of a neighbour id in its column
	width    int // of an original id
	payload  int
	numBytes int64 // bytes of the block in use
}

// ShapeOf returns the shape of the block of whole objects between two entries.
func ShapeOf(numNodes int64, at, next IndexEntry) BlockShape {
	s := BlockShape{At: at, bits: NodeBits(numNodes), width: IDType(numNodes).Size()}
	s.idBytes = (s.bits + 7) / 8
	n, e := next.FirstNode-at.FirstNode, next.FirstEdge-at.FirstEdge
	if n > MaxBlockSize || e > MaxBlockSize {
		s.numBytes = 1 << 62 // in no block
		return s
	}
	s.objects, s.edges = int(n), int(e)
	s.payload = int(roundUp(graphHeader+int64(s.objects)*int64(4+s.width), 8))
	s.numBytes = int64(s.payload) + (int64(s.edges)*int64(s.bits)+7)/8 + slack
	return s
}

// Fits reports whether a block of blockSize bytes can have this shape.
func (s *BlockShape) Fits(blockSize int64) bool { return s.objects > 0 && s.numBytes <= blockSize }

// ColumnBytes returns the bytes of the columns: of a shape that fits into a block,
// less than three blocks.
func (s *BlockShape) ColumnBytes() int64 {
	return int64(s.objects)*int64(4+s.width) + int64(s.edges)*int64(s.idBytes)
}

// BlockCompressor compresses graph blocks. It belongs to one goroutine.
type BlockCompressor struct {
	ctx      zstd.Ctx
	numNodes int64
	level    int
	columns  []byte
	out      [2][]byte // by coding
}

// CompressorBytes returns the memory that a compressor of such blocks takes, zstd's
// tables included.
func CompressorBytes(blockSize int64, level int) int64 {
	tables := int64(4 << 20)
	if level > 5 {
		tables = 16 << 20
	}
	return 3*blockSize + 2*int64(compressedHeader+zstd.CompressBound(int(3*blockSize))+PageSize) + tables
}

// NewBlockCompressor returns a compressor of blocks of a store of numNodes nodes.
func NewBlockCompressor(numNodes, blockSize int64, level int) *BlockCompressor {
	c := &BlockCompressor{ctx: zstd.NewCtx(), numNodes: numNodes, level: level, columns: make([]byte, 3*blockSize)}
	for i := range c.out {
		c.out[i] = make([]byte, compressedHeader+zstd.CompressBound(len(c.columns))+PageSize)
	}
	return c
}

// Compress returns the pages in which to store a block that [GraphEncoder] emitted:
// compressed ones, valid until the next call, or the block itself where it is a
// piece of a hub or no page would be saved.
func (c *BlockCompressor) Compress(block []byte, at IndexEntry) ([]byte, error) {
	if block[0] != blockObjects {
		return block, nil
	}
	next := IndexEntry{at.FirstNode + uint64(binary.LittleEndian.Uint32(block[4:])), at.FirstEdge + uint64(binary.LittleEndian.Uint32(block[24:]))}
	s := ShapeOf(c.numNodes, at, next)
	g, err := ParseGraphBlock(block, s.bits, at, next)
	if err != nil {
		panic("layout: a block to compress that is none: " + err.Error())
	}
	columns := c.columns[:s.ColumnBytes()]
	ids := tableColumns(columns, &g, &s)
	best := block
	for coding := codingIDs; coding <= codingDeltas; coding++ {
		idColumn(ids, &g, &s, coding)
		out := c.out[coding-1]
		frame, err := c.ctx.CompressLevel(out[compressedHeader:len(out)-PageSize:len(out)-PageSize], columns, c.level)
		if err != nil {
			return nil, fmt.Errorf("compressing a graph block: %w", err)
		}
		n := compressedHeader + int64(len(frame))
		pages := roundUp(n, PageSize)
		if pages >= int64(len(best)) {
			continue
		}
		clear(out[:compressedHeader])
		out[0], out[1] = blockCompressed, byte(coding)
		binary.LittleEndian.PutUint32(out[4:], uint32(len(frame)))
		clear(out[n:pages])
		best = out[:pages]
	}
	return best, nil
}

// putPlanes writes byte k of value number i of n to plane k.
func putPlanes(to []byte, n, i, width int, v uint64) {
	for k := range width {
		to[k*n+i] = byte(v >> (8 * k))
	}
}

func getPlanes(from []byte, n, i, width int) uint64 {
	v := uint64(0)
	for k := range width {
		v |= uint64(from[k*n+i]) << (8 * k)
	}
	return v
}

// zigzag maps a difference modulo 2^(8*width) to a small number where it is small,
// whatever its sign.
func zigzag(d uint64, width int) uint64 {
	up := uint(64 - 8*width)
	signed := int64(d<<up) >> up
	return uint64(signed<<1^signed>>63) << up >> up
}

func unzigzag(z uint64) uint64 { return z>>1 ^ -(z & 1) }

// tableColumns writes the columns of degrees and of original ids, and returns the
// room for that of neighbours.
func tableColumns(columns []byte, g *GraphBlock, s *BlockShape) []byte {
	n := s.objects
	degrees, originals := columns[:4*n], columns[4*n:(4+s.width)*n]
	last := uint64(0)
	for i := range n {
		start, end := g.Object(i)
		putPlanes(degrees, n, i, 4, uint64(end-start))
		v := g.Original(i)
		putPlanes(originals, n, i, s.width, zigzag(v-last, s.width))
		last = v
	}
	return columns[(4+s.width)*n:]
}

func idColumn(ids []byte, g *GraphBlock, s *BlockShape, coding int) {
	for i := range s.objects {
		start, end := g.Object(i)
		last := uint64(0)
		for j := start; j < end; j++ {
			v := g.Neighbor(j)
			if coding == codingDeltas {
				v, last = zigzag(v-last, s.idBytes), v
			}
			putPlanes(ids, s.edges, j, s.idBytes, v)
		}
	}
}

// BlockDecompressor restores compressed graph blocks. It belongs to one goroutine.
type BlockDecompressor struct {
	ctx     zstd.Ctx
	columns []byte
}

// NewBlockDecompressor returns a decompressor that works in columns, which must be
// as large as the ColumnBytes of every block that it is given.
func NewBlockDecompressor(columns []byte) *BlockDecompressor {
	return &BlockDecompressor{zstd.NewCtx(), columns}
}

// IsCompressed reports whether stored pages hold a compressed block.
func IsCompressed(pages []byte) bool { return pages[0] == blockCompressed }

// Decompress replaces the stored pages at the front of block, stored bytes, by the
// block of that shape, which must fit into it. Whatever the pages hold, nothing
// beyond block and the columns is written or allocated; an error leaves a block that
// is none.
func (d *BlockDecompressor) Decompress(block []byte, stored int64, s BlockShape) error {
	if !s.Fits(int64(len(block))) {
		return errors.New("a compressed block that the object index table makes too large for a block")
	}
	coding, length, zeros := block[1], int64(binary.LittleEndian.Uint32(block[4:])), block[2]|block[3]
	if !IsCompressed(block) || coding != codingIDs && coding != codingDeltas || zeros != 0 {
		return fmt.Errorf("kind %d and coding %d where a compressed block is due", block[0], coding)
	}
	if length == 0 || length > stored-compressedHeader {
		return fmt.Errorf("a compressed block of %d bytes in %d", length, stored)
	}
	columns := d.columns[:s.ColumnBytes()]
	n, err := d.ctx.DecompressInto(columns, block[compressedHeader:compressedHeader+length])
	if err != nil {
		return fmt.Errorf("a compressed block that is none: %w", err)
	}
	if n != len(columns) {
		return fmt.Errorf("a compressed block of %d bytes, its objects and edges make %d", n, len(columns))
	}
	clear(block)
	if err := s.restore(block, columns, coding); err != nil {
		block[0] = 0
		return err
	}
	return nil
}

// restore writes the block of which these are the columns.
func (s *BlockShape) restore(b, columns []byte, coding byte) error {
	n := s.objects
	degrees, originals, ids := columns[:4*n], columns[4*n:(4+s.width)*n], columns[(4+s.width)*n:]
	b[0], b[1], b[2] = blockObjects, byte(s.bits), byte(s.width)
	binary.LittleEndian.PutUint32(b[4:], uint32(n))
	binary.LittleEndian.PutUint64(b[8:], s.At.FirstNode)
	binary.LittleEndian.PutUint64(b[16:], s.At.FirstEdge)
	binary.LittleEndian.PutUint32(b[24:], uint32(s.edges))
	binary.LittleEndian.PutUint32(b[28:], uint32(s.payload))
	original, end := uint64(0), uint64(0)
	table := b[graphHeader+4*n:]
	w := idPacker{out: b[s.payload:], bits: uint(s.bits)}
	for i := range n {
		original += unzigzag(getPlanes(originals, n, i, s.width))
		if s.width == 4 {
			original &= 1<<32 - 1
			binary.LittleEndian.PutUint32(table[4*i:], uint32(original))
		} else {
			binary.LittleEndian.PutUint64(table[8*i:], original)
		}
		start := end
		if end += getPlanes(degrees, n, i, 4); end > uint64(s.edges) {
			return fmt.Errorf("objects of more than %d edges in a compressed block", s.edges)
		}
		binary.LittleEndian.PutUint32(b[graphHeader+4*i:], uint32(end))
		s.restoreList(&w, ids, int(start), int(end), coding)
	}
	w.finish()
	switch {
	case end != uint64(s.edges):
		return fmt.Errorf("objects of %d edges in a compressed block of %d", end, s.edges)
	case w.over != 0:
		return fmt.Errorf("a neighbour id of more than %d bits in a compressed block", s.bits)
	}
	return nil
}

// restoreList packs the neighbours [start, end).
func (s *BlockShape) restoreList(w *idPacker, ids []byte, start, end int, coding byte) {
	mask := uint64(1)<<(8*s.idBytes) - 1
	last := uint64(0)
	e := s.edges
	for j := start; j < end; j++ {
		var v uint64
		switch s.idBytes {
		case 3:
			v = uint64(ids[j]) | uint64(ids[e+j])<<8 | uint64(ids[2*e+j])<<16
		case 4:
			v = uint64(ids[j]) | uint64(ids[e+j])<<8 | uint64(ids[2*e+j])<<16 | uint64(ids[3*e+j])<<24
		default:
			v = getPlanes(ids, e, j, s.idBytes)
		}
		if coding == codingDeltas {
			v = (last + unzigzag(v)) & mask
			last = v
		}
		w.put(v)
	}
}

// idPacker writes ids of bits bits one after another.
type idPacker struct {
	out  []byte
	bits uint
	have uint64 // bits not yet written, the lowest fill of them
	fill uint
	over uint64 // bits past the width of any id
}

func (w *idPacker) put(v uint64) {
	w.over |= v >> w.bits
	v &= 1<<w.bits - 1
	w.have |= v << w.fill
	if w.fill+w.bits >= 64 {
		binary.LittleEndian.PutUint64(w.out, w.have)
		w.out = w.out[8:]
		w.have = v >> (64 - w.fill) // 0 for a shift of 64
		w.fill -= 64
	}
	w.fill += w.bits
}

// finish writes the last bits.
func (w *idPacker) finish() {
	for ; w.fill > 0 && w.fill < 64; w.fill -= min(w.fill, 8) {
		w.out[0] = byte(w.have)
		w.have >>= 8
		w.out = w.out[1:]
	}
}
