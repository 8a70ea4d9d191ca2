package layout

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/DataDog/zstd"
)

// encoded is a graph's blocks, uncompressed.
type encoded struct {
	blocks  [][]byte
	entries []IndexEntry // one more
}

// encodeLists encodes random lists: skewed sources, a hub at node hub, lists sorted
// where sorted.
func encodeLists(t testing.TB, r *rand.Rand, numNodes, blockSize int64, hub int64, sorted bool) encoded {
	t.Helper()
	var out encoded
	e := NewGraphEncoder(numNodes, blockSize, func(b []byte, at IndexEntry) error {
		out.blocks, out.entries = append(out.blocks, bytes.Clone(b)), append(out.entries, at)
		return nil
	})
	span := min(numNodes, 1<<20)
	for v := range min(numNodes, 3000) {
		n := r.IntN(12)
		if v == hub {
			n = int(blockSize)
		}
		ids := make([]uint64, n)
		for i := range ids {
			ids[i] = uint64(r.Int64N(r.Int64N(span)+1) + r.Int64N(2)*(numNodes-span))
		}
		if sorted {
			slices.Sort(ids)
		}
		if err := e.Object(uint64(r.Int64N(numNodes)), uint64(n)); err != nil {
			t.Fatal(err)
		}
		if err := e.Neighbors(ids); err != nil {
			t.Fatal(err)
		}
	}
	e.numNodes = int64(e.node) // an encoder ends with all nodes
	last, err := e.Close()
	if err != nil {
		t.Fatal(err)
	}
	out.entries = append(out.entries, last)
	return out
}

func TestCompressRoundTrip(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	for _, numNodes := range []int64{200, 60_000, 1 << 20, 1<<24 + 5, 1<<32 - 9, 1 << 38} {
		for _, blockSize := range []int64{4 << 10, 16 << 10, 1 << 20} {
			for _, sorted := range []bool{false, true} {
				g := encodeLists(t, r, numNodes, blockSize, 17, sorted)
				c := NewBlockCompressor(numNodes, blockSize, DefaultLevel)
				d := NewBlockDecompressor(make([]byte, 3*blockSize))
				codings := map[byte]int{}
				for i, b := range g.blocks {
					stored, err := c.Compress(b, g.entries[i])
					if err != nil {
						t.Fatal(err)
					}
					if len(stored)%PageSize != 0 || len(stored) > len(b) || IsCompressed(stored) != (len(stored) < len(b)) {
						t.Fatalf("%d nodes, block %d: stored in %d of %d bytes, compressed: %t", numNodes, i, len(stored), len(b), IsCompressed(stored))
					}
					if b[0] == blockHub && &stored[0] != &b[0] {
						t.Fatalf("%d nodes, block %d: a piece of a hub was compressed", numNodes, i)
					}
					if len(stored) == len(b) {
						continue
					}
					codings[stored[1]]++
					got := bytes.Repeat([]byte{0xee}, len(b)) // what a frame held before
					copy(got, stored)
					if err := d.Decompress(got, int64(len(stored)), ShapeOf(numNodes, g.entries[i], g.entries[i+1])); err != nil {
						t.Fatalf("%d nodes, block %d: %v", numNodes, i, err)
					}
					if !bytes.Equal(got, b) {
						t.Fatalf("%d nodes, blocks of %d, block %d of %d: differs after compression", numNodes, blockSize, i, len(g.blocks))
					}
				}
				if blockSize == 1<<20 && len(codings) == 0 || sorted && blockSize == 1<<20 && numNodes == 60_000 && codings[codingDeltas] == 0 {
					t.Errorf("%d nodes, blocks of %d, sorted %t: codings %v", numNodes, blockSize, sorted, codings)
				}
			}
		}
	}
}

// Whatever stored pages hold, restoring them ends with an error or a block that can
// be parsed, within the memory it was given.
func TestDecompressMalformed(t *testing.T) {
	r := rand.New(rand.NewPCG(2, 2))
	const numNodes, blockSize = 1 << 20, 64 << 10
	g := encodeLists(t, r, numNodes, blockSize, -1, false)
	good, err := NewBlockCompressor(numNodes, blockSize, DefaultLevel).Compress(g.blocks[0], g.entries[0])
	if err != nil || !IsCompressed(good) {
		t.Fatal("the first block is not compressed", err)
	}
	s := ShapeOf(numNodes, g.entries[0], g.entries[1])
	// wrap compresses columns as a writer with a fault would.
	wrap := func(columns []byte) []byte {
		frame, err := zstd.Compress(nil, columns)
		if err != nil {
			t.Fatal(err)
		}
		b := append([]byte{blockCompressed, codingIDs, 0, 0, 0, 0, 0, 0}, frame...)
		binary.LittleEndian.PutUint32(b[4:], uint32(len(frame)))
		return append(b, make([]byte, int(roundUp(int64(len(b)), PageSize))-len(b))...)
	}
	columns := func(change func(columns []byte)) []byte {
		c := make([]byte, s.ColumnBytes())
		if _, err := zstd.DecompressInto(c, good[8:8+binary.LittleEndian.Uint32(good[4:])]); err != nil {
			t.Fatal(err)
		}
		change(c)
		return wrap(c)
	}
	set := func(at int, v ...byte) []byte {
		b := bytes.Clone(good)
		copy(b[at:], v)
		return b
	}
	cases := map[string]struct {
		pages []byte
		want  string
	}{
		"another kind":         {set(0, 7), "kind 7"},
		"another coding":       {set(1, 9), "coding 9"},
		"reserved bytes":       {set(2, 1), "coding"},
		"no frame":             {set(4, 0, 0, 0, 0), "of 0 bytes"},
		"a frame past the end": {set(4, 255, 255, 255, 255), "of 4294967295 bytes"},
		"a frame cut short":    {set(4, 40, 0, 0, 0), "that is none"},
		"no zstd":              {set(8, 0, 1, 2, 3), "that is none"},
		"too much":             {wrap(make([]byte, 1<<26)), "that is none"},
		"too little":           {wrap(make([]byte, 100)), "of 100 bytes"},
		"zeros":                {make([]byte, PageSize), "kind 0"},
		"degrees too large":    {columns(func(c []byte) { c[3*s.objects] = 255 }), "more than"},
		"degrees too small":    {columns(func(c []byte) { clear(c[:4*s.objects]) }), "of 0 edges"},
		"an id too large":      {columns(func(c []byte) { c[len(c)-1] = 255 }), "more than 20 bits"},
	}
	d := NewBlockDecompressor(make([]byte, s.ColumnBytes()))
	for name, c := range cases {
		block := make([]byte, blockSize)
		n := copy(block, c.pages)
		err := d.Decompress(block, int64(n), s)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: err = %v, expected %q", name, err, c.want)
		}
		if _, perr := ParseGraphBlock(block, NodeBits(numNodes), g.entries[0], g.entries[1]); perr == nil {
			t.Errorf("%s: what is left passes for a block", name)
		}
	}
	for _, wrong := range []IndexEntry{{FirstNode: 1 << 39}, {FirstNode: 9, FirstEdge: 1 << 30}, {}} {
		block := make([]byte, blockSize)
		n := copy(block, good)
		if err := d.Decompress(block, int64(n), ShapeOf(numNodes, IndexEntry{}, wrong)); err == nil {
			t.Errorf("a block up to %v was restored", wrong)
		}
	}
	for range 1000 { // anything at all
		block := make([]byte, blockSize)
		n := copy(block, good)
		for range 1 + r.IntN(3) {
			block[r.IntN(n)] ^= byte(1 << r.IntN(8))
		}
		if err := d.Decompress(block, int64(n), s); err == nil {
			if _, err := ParseGraphBlock(block, NodeBits(numNodes), g.entries[0], g.entries[1]); err != nil {
				t.Fatalf("restored, and no block: %v", err)
			}
		}
	}
}

func TestZigzag(t *testing.T) {
	for width := 1; width <= 8; width++ {
		mask := ^uint64(0) >> (64 - 8*width)
		for _, v := range []uint64{0, 1, 2, mask, mask - 1, mask / 2, mask/2 + 1} {
			z := zigzag(v, width)
			if z > mask || unzigzag(z)&mask != v {
				t.Errorf("%d bytes: %x became %x, then %x", width, v, z, unzigzag(z)&mask)
			}
		}
		if zigzag(mask, width) != 1 {
			t.Errorf("%d bytes: a difference of -1 became %d", width, zigzag(mask, width))
		}
	}
}

func TestParseCompression(t *testing.T) {
	for in, want := range map[string]string{"": "0 ", "none": "0 ", "zstd": "3 zstd:3", "zstd:1": "1 zstd:1", "zstd:9": "9 zstd:9"} {
		level, canonical, err := ParseCompression(in)
		if got := fmt.Sprint(level, " ", canonical); got != want || err != nil {
			t.Errorf("%q: %s, %v", in, got, err)
		}
	}
	for _, in := range []string{"zstd:", "zstd:0", "zstd:10", "zstd:-1", "zstd:03", "lz4", "ZSTD", "zstd:3 ", "none:3"} {
		if _, _, err := ParseCompression(in); err == nil {
			t.Errorf("%q was taken", in)
		}
	}
}

// BenchmarkDecompress restores blocks of 1 MiB.
func BenchmarkDecompress(b *testing.B) {
	g := encodeLists(b, rand.New(rand.NewPCG(1, 1)), 1<<20, 1<<20, 17, false)
	c := NewBlockCompressor(1<<20, 1<<20, DefaultLevel)
	d := NewBlockDecompressor(make([]byte, 3<<20))
	stored, err := c.Compress(g.blocks[0], g.entries[0])
	if err != nil {
		b.Fatal(err)
	}
	block := make([]byte, 1<<20)
	b.SetBytes(int64(g.entries[1].FirstEdge) * 4)
	for b.Loop() {
		copy(block, stored)
		if err := d.Decompress(block, int64(len(stored)), ShapeOf(1<<20, g.entries[0], g.entries[1])); err != nil {
			b.Fatal(err)
		}
	}
}
