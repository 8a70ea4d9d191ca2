package layout

// Anything at all in the place of a store's files: an *Error, or something whose
// every method holds what it promises.

import (
	"bytes"
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/DataDog/zstd"

	"github.com/goagnes/goagnes/tests/bounds"
)

// golden adds the golden stores' files of a name.
func golden(f *testing.F, name string, add func(b []byte)) {
	f.Helper()
	paths, err := filepath.Glob(filepath.Join("..", "tests", "fixture", "golden", "testdata", "stores", "*", name))
	if err != nil || len(paths) == 0 {
		f.Fatalf("no golden store has a file %s: %v", name, err)
	}
	for _, path := range paths {
		b, err := os.ReadFile(path)
		if err != nil {
			f.Fatal(err)
		}
		add(b)
	}
}

// sealed makes a manifest's file of a body and a record: whatever they hold, the
// checksums are right.
func sealed(version byte, body, record []byte) []byte {
	padded := roundUp(int64(len(body)), PageSize)
	b := make([]byte, PageSize+padded+roundUp(8+int64(len(record)), PageSize))
	copy(b[PageSize:], body)
	tail := b[PageSize+padded:]
	binary.LittleEndian.PutUint32(tail[4:], uint32(len(record)))
	copy(tail[8:], record)
	binary.LittleEndian.PutUint32(tail, CRC(tail[4:]))
	copy(b, magic)
	binary.LittleEndian.PutUint32(b[8:], uint32(version))
	binary.LittleEndian.PutUint32(b[12:], PageSize)
	binary.LittleEndian.PutUint64(b[16:], uint64(len(body)))
	binary.LittleEndian.PutUint32(b[40:], CRC(b[PageSize:PageSize+padded]))
	binary.LittleEndian.PutUint32(b[PageSize-4:], CRC(b[:PageSize-4]))
	return b
}

func FuzzManifest(f *testing.F) {
	golden(f, ManifestFile, func(b []byte) {
		n := int64(binary.LittleEndian.Uint64(b[16:]))
		tail := b[PageSize+roundUp(n, PageSize):]
		f.Add(b[8], b[PageSize:PageSize+n], tail[8:8+binary.LittleEndian.Uint32(tail[4:])], uint16(0), byte(0))
		f.Add(b[8], b[PageSize:PageSize+n], []byte("{}"), uint16(17), byte(4))
	})
	f.Fuzz(func(t *testing.T, version byte, body, record []byte, at uint16, flip byte) {
		b := sealed(version, body, record)
		b[int(at)%len(b)] ^= flip // past the checksums, and against them
		bounds.Hold(t, len(b), bounds.Limit{Fixed: 1 << 20, Factor: 64}, func() {
			m, err := DecodeManifest(b)
			if err != nil {
				if !errors.As(err, new(*Error)) {
					t.Fatalf("untyped error %v", err)
				}
				return
			}
			promised(t, m)
		})
	})
}

// promised checks what readers rely on in a manifest that was read.
func promised(t *testing.T, m *Manifest) {
	if m.Section(SectionGraph) == nil || m.Section(SectionIndex) == nil || m.EdgeIDRange() < m.NumEdges || NodeBits(m.NumNodes) > 40 {
		t.Fatalf("%+v was read", m)
	}
	for i := range m.Sections {
		s := &m.Sections[i]
		table, tableBytes, root, rootBytes := s.Checksums()
		if s.FileBytes() < s.Bytes || table < 0 || root != table+tableBytes || rootBytes < 0 || root+rootBytes < root || tableBytes*PagesPerTablePage < s.FileBytes() {
			t.Fatalf("section %+v: checksums %d+%d and %d+%d", s, table, tableBytes, root, rootBytes)
		}
		if s.Kind != KindArray || s.Rows == 0 {
			continue
		}
		last := s.RowBlock(m.Settings.BlockSize, s.Rows-1)
		if first, end := s.BlockRows(m.Settings.BlockSize, last); s.Stride() > 0 && (first >= end || end != s.Rows) {
			t.Fatalf("section %+v: the last block %d holds rows %d to %d", s, last, first, end)
		}
		if at, n := s.RowPages(s.Rows-1, s.Rows); at < 0 || n < 0 || at+n > s.FileBytes() {
			t.Fatalf("section %+v: the last row lies in %d+%d", s, at, n)
		}
	}
	again, err := m.Encode()
	if err != nil {
		t.Fatalf("what was read cannot be written: %v", err)
	}
	back, err := DecodeManifest(again)
	if err != nil {
		t.Fatalf("what was written cannot be read: %v", err)
	}
	if third, err := back.Encode(); err != nil || !bytes.Equal(third, again) {
		t.Fatalf("%+v came back as %+v: %v", m, back, err)
	}
}

func FuzzStripe(f *testing.F) {
	golden(f, StripeFile, func(b []byte) { f.Add(b, uint8(0), uint8(2)) })
	f.Add(Stripe{Index: 1, Count: 3}.Encode(), uint8(1), uint8(3))
	f.Fuzz(func(t *testing.T, b []byte, index, count uint8) {
		want := Stripe{Index: int(index), Count: int(count)}
		bounds.Hold(t, len(b), bounds.Limit{Fixed: 64 << 10, Factor: 4}, func() {
			err := CheckStripe(b, want)
			if err == nil && !bytes.Equal(b[:32], want.Encode()[:32]) {
				t.Fatalf("%x passes for %+v", b, want)
			}
			if err != nil && !errors.As(err, new(*Error)) {
				t.Fatalf("untyped error %v", err)
			}
		})
	})
}

// walk reads all that a parsed block holds.
func walk(t *testing.T, g *GraphBlock) {
	if g.Count < 0 || g.Edges < 0 {
		t.Fatalf("%+v was parsed", g)
	}
	end := 0
	for i := range g.Count {
		from, to := 0, g.Edges
		if !g.Hub {
			from, to = g.Object(i)
		}
		if from != end && !g.Hub || to < from || to > g.Edges {
			t.Fatalf("object %d has the ids %d to %d of %d", i, from, to, g.Edges)
		}
		end = to
		g.Original(i)
	}
	for i := range g.Edges {
		if v := g.Neighbor(i); v > g.mask {
			t.Fatalf("neighbour %d is %d", i, v)
		}
	}
}

// FuzzGraphBlock parses anything as a block between any two entries. Where agree
// is set, they are those that the block itself names.
func FuzzGraphBlock(f *testing.F) {
	golden(f, "graph", func(b []byte) {
		for ; len(b) > 0; b = b[4096:] {
			f.Add(bytes.Clone(b[:4096]), uint8(8), uint64(0), uint64(0), uint64(60), uint64(400), true)
		}
	})
	f.Fuzz(func(t *testing.T, in []byte, bits uint8, node, edge, nextNode, nextEdge uint64, agree bool) {
		b := make([]byte, max(MinBlockSize, int(roundUp(int64(min(len(in), 1<<16)), MinBlockSize))))
		copy(b, in)
		w := 8 + int(bits)%33 // what NodeBits gives
		at, next := IndexEntry{node, edge}, IndexEntry{nextNode, nextEdge}
		if agree {
			at = IndexEntry{binary.LittleEndian.Uint64(b[8:]), binary.LittleEndian.Uint64(b[16:])}
			next = IndexEntry{at.FirstNode + uint64(binary.LittleEndian.Uint32(b[4:])), at.FirstEdge + uint64(binary.LittleEndian.Uint32(b[24:]))}
			b[1] = byte(w)
		}
		bounds.Hold(t, len(b), bounds.Limit{Fixed: 64 << 10}, func() {
			if g, err := ParseGraphBlock(b, w, at, next); err == nil {
				walk(t, &g)
			}
			if head, err := ParseHubHead(b[:PageSize], int64(len(b)), w, at, next); err == nil && next.FirstEdge < at.FirstEdge {
				t.Fatalf("%+v between entries that descend", head)
			}
		})
	})
}

// FuzzCompressedBlock restores anything as a compressed block: bytes as they are,
// or columns packed as a writer with a fault would.
func FuzzCompressedBlock(f *testing.F) {
	const numNodes = 1 << 12
	e := NewGraphEncoder(numNodes, 16<<10, func(b []byte, at IndexEntry) error {
		stored, err := NewBlockCompressor(numNodes, 16<<10, DefaultLevel).Compress(b, at)
		if err != nil || !IsCompressed(stored) {
			f.Fatalf("a block of %d bytes that was not compressed: %v", len(stored), err)
		}
		n, edges := binary.LittleEndian.Uint32(b[4:]), binary.LittleEndian.Uint32(b[24:])
		f.Add(bytes.Clone(stored), uint32(n), uint32(edges), uint8(1), false)
		columns, err := zstd.Decompress(nil, stored[8:8+binary.LittleEndian.Uint32(stored[4:])])
		if err != nil {
			f.Fatal(err)
		}
		f.Add(columns, n, edges, stored[1], true)
		return nil
	})
	for v := range uint64(numNodes) {
		if err := e.Object(v, v%3); err != nil {
			f.Fatal(err)
		}
		if err := e.Neighbors([]uint64{v / 2, v / 3}[:v%3]); err != nil {
			f.Fatal(err)
		}
	}
	if _, err := e.Close(); err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, in []byte, objects, edges uint32, coding uint8, columns bool) {
		const blockSize = 16 << 10
		if columns {
			frame, err := zstd.Compress(nil, in[:min(len(in), 1<<16)])
			if err != nil {
				t.Fatal(err)
			}
			in = append([]byte{blockCompressed, coding, 0, 0, 0, 0, 0, 0}, frame...)
			binary.LittleEndian.PutUint32(in[4:], uint32(len(frame)))
		}
		block := make([]byte, blockSize)
		stored := roundUp(int64(copy(block, in)), PageSize)
		bounds.Hold(t, blockSize, bounds.Limit{Fixed: 256 << 10, Factor: 8}, func() {
			next := IndexEntry{uint64(objects), uint64(edges)}
			s := ShapeOf(numNodes, IndexEntry{}, next)
			d := NewBlockDecompressor(make([]byte, 3*blockSize))
			if err := d.Decompress(block, stored, s); err != nil {
				if _, err := ParseGraphBlock(block, NodeBits(numNodes), IndexEntry{}, next); err == nil && s.Fits(blockSize) {
					t.Fatal("what is left of a block that was refused passes for one")
				}
				return
			}
			g, err := ParseGraphBlock(block, NodeBits(numNodes), IndexEntry{}, next)
			if err != nil {
				t.Fatalf("restored, and no block: %v", err)
			}
			walk(t, &g)
		})
	})
}
