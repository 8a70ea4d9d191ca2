package memory

import (
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/goagnes/goagnes/layout"
)

// tableOf returns the index of a graph whose degrees are given, by layout's
// own encoder.
func tableOf(t testing.TB, degrees []uint64, blockSize int64) (entries []byte, edges int64) {
	t.Helper()
	put := func(e layout.IndexEntry) {
		entries = append(entries, make([]byte, layout.IndexEntryBytes)...)
		e.Put(entries[len(entries)-layout.IndexEntryBytes:])
	}
	enc := layout.NewGraphEncoder(int64(len(degrees)), blockSize, func(_ []byte, e layout.IndexEntry) error { put(e); return nil })
	ids := make([]uint64, 4096)
	for v, d := range degrees {
		if err := enc.Object(uint64(v), d); err != nil {
			t.Fatal(err)
		}
		for left := d; left > 0; left -= min(left, uint64(len(ids))) {
			if err := enc.Neighbors(ids[:min(left, uint64(len(ids)))]); err != nil {
				t.Fatal(err)
			}
		}
		edges += int64(d)
	}
	last, err := enc.Close()
	if err != nil {
		t.Fatal(err)
	}
	put(last)
	return entries, edges
}

func TestObjectIndex(t *testing.T) {
	random := rand.New(rand.NewPCG(8, 8))
	shapes := map[string]func(v int) uint64{
		"no edges": func(int) uint64 { return 0 },
		"even":     func(int) uint64 { return 20 },
		"skewed":   func(v int) uint64 { return uint64(60_000 / (v + 1)) },
		"hubs": func(v int) uint64 {
			if random.IntN(20) == 0 {
				return 8_000 + random.Uint64N(30_000)
			}
			return random.Uint64N(300)
		},
		"all hubs": func(int) uint64 { return 9_000 },
		"end hub": func(v int) uint64 {
			if v == 0 || v >= 98 {
				return 20_000
			}
			return 1
		},
	}
	for name, degree := range shapes {
		for _, n := range []int{0, 1, 2, 100, 500} {
			if name == "all hubs" && n > 100 {
				continue
			}
			degrees := make([]uint64, n)
			for v := range degrees {
				degrees[v] = degree(v)
			}
			const blockSize = 4096
			entries, edges := tableOf(t, degrees, blockSize)
			x, err := NewObjectIndex(entries, make([]byte, ObjectIndexBytes(int64(len(entries)/layout.IndexEntryBytes-1))), int64(n), edges)
			if err != nil {
				t.Fatalf("%s, %d nodes: %v", name, n, err)
			}
			if err := x.CheckHubs(layout.HubCapacity(blockSize, layout.NodeBits(int64(n)))); err != nil {
				t.Fatal(err)
			}
			if x.Bytes() > int64(24*x.Blocks()+16) {
				t.Fatalf("%d bytes for %d blocks", x.Bytes(), x.Blocks())
			}
			// Brute force: the blocks whose range of nodes, by their entry and
			// the next, holds the node.
			for v := range degrees {
				first, pieces := -1, 0
				for b := range x.Blocks() {
					e, next := x.Entry(b), x.Entry(b+1)
					if e.FirstNode <= uint64(v) && (uint64(v) < next.FirstNode || e.FirstNode == uint64(v)) {
						if first < 0 {
							first = b
						}
						pieces++
					}
				}
				if b, p := x.Find(uint64(v)); b != first || p != pieces {
					t.Fatalf("%s: node %d of %d in blocks %d+%d, %d+%d are due", name, v, n, b, p, first, pieces)
				}
			}
			mustPanic(t, func() { x.Find(uint64(n)) })
		}
	}
}

func TestObjectIndexRefuses(t *testing.T) {
	degrees := make([]uint64, 300)
	for v := range degrees {
		degrees[v] = uint64(v)
	}
	degrees[100] = 50_000
	good, edges := tableOf(t, degrees, 4096)
	blocks := len(good)/layout.IndexEntryBytes - 1
	set := func(b int, change func(e *layout.IndexEntry)) []byte {
		c := append([]byte(nil), good...)
		e := layout.GetIndexEntry(c[b*layout.IndexEntryBytes:])
		change(&e)
		e.Put(c[b*layout.IndexEntryBytes:])
		return c
	}
	cases := map[string][]byte{
		"nothing":               {},
		"half an entry":         good[:len(good)-8],
		"cut":                   good[:len(good)-16],
		"first node not 0":      set(0, func(e *layout.IndexEntry) { e.FirstNode = 1 }),
		"first edge not 0":      set(0, func(e *layout.IndexEntry) { e.FirstEdge = 1 }),
		"nodes descend":         set(3, func(e *layout.IndexEntry) { e.FirstNode = 1 << 40 }),
		"edges descend":         set(3, func(e *layout.IndexEntry) { e.FirstEdge = 1 << 40 }),
		"empty block":           set(1, func(e *layout.IndexEntry) { *e = layout.IndexEntry{} }),
		"wrong number of nodes": set(blocks, func(e *layout.IndexEntry) { e.FirstNode++ }),
		"wrong number of edges": set(blocks, func(e *layout.IndexEntry) { e.FirstEdge++ }),
		"last block empty":      set(blocks-1, func(e *layout.IndexEntry) { e.FirstNode = 300 }),
	}
	for name, c := range cases {
		var e *layout.Error
		if _, err := NewObjectIndex(c, nil, 300, edges); !errors.As(err, &e) || e.Kind != layout.Corrupt || e.File != layout.SectionIndex {
			t.Errorf("%s: %v", name, err)
		}
	}
	x, err := NewObjectIndex(good, nil, 300, edges)
	if err != nil {
		t.Fatal(err)
	}
	hub, pieces := x.Find(100)
	if pieces < 3 {
		t.Fatalf("%d pieces", pieces)
	}
	if x, err = NewObjectIndex(set(hub+1, func(e *layout.IndexEntry) { e.FirstEdge-- }), nil, 300, edges); err != nil {
		t.Fatal(err)
	}
	if err := x.CheckHubs(layout.HubCapacity(4096, layout.NodeBits(300))); !errors.As(err, new(*layout.Error)) {
		t.Fatalf("a short piece of a hub: %v", err)
	}
	capacity := layout.HubCapacity(layout.MaxBlockSize, 8)
	many := make([]byte, 0, 16*layout.IndexEntryBytes)
	for at := int64(0); at < 1<<32+capacity; at += capacity {
		many = append(many, make([]byte, layout.IndexEntryBytes)...)
		layout.IndexEntry{FirstEdge: uint64(at)}.Put(many[len(many)-layout.IndexEntryBytes:])
	}
	for _, c := range []struct {
		edges int64
		ok    bool
	}{{1<<32 - 1, true}, {1 << 32, false}} {
		layout.IndexEntry{FirstNode: 1, FirstEdge: uint64(c.edges)}.Put(many[len(many)-layout.IndexEntryBytes:])
		if x, err = NewObjectIndex(many, nil, 1, c.edges); err != nil {
			t.Fatal(err)
		}
		if err := x.CheckHubs(capacity); (err == nil) != c.ok {
			t.Errorf("a hub of %d neighbours: %v", c.edges, err)
		}
	}
	mustPanic(t, func() { NewObjectIndex(good, make([]byte, 8), 300, edges) })
}

// benchIndex has the shape of a store in degree order: blocks of 1 MiB, the
// degree falling as a power of the node.
func benchIndex(b *testing.B, blocks int, skew bool) *ObjectIndex {
	b.Helper()
	entries := make([]byte, (blocks+1)*layout.IndexEntryBytes)
	node := uint64(0)
	for i := range blocks + 1 {
		layout.IndexEntry{FirstNode: node, FirstEdge: uint64(i) * 300_000}.Put(entries[i*layout.IndexEntryBytes:])
		node += 10_000
		if skew {
			node += uint64(i) * uint64(i) / 100
		}
	}
	last := layout.GetIndexEntry(entries[blocks*layout.IndexEntryBytes:])
	x, err := NewObjectIndex(entries, nil, int64(last.FirstNode), int64(last.FirstEdge))
	if err != nil {
		b.Fatal(err)
	}
	return x
}

func BenchmarkObjectIndexFind(b *testing.B) {
	for _, c := range []struct {
		name   string
		blocks int
		skew   bool
	}{{"even/256", 256, false}, {"even/8192", 8192, false}, {"skewed/8192", 8192, true}} {
		b.Run(c.name, func(b *testing.B) {
			x := benchIndex(b, c.blocks, c.skew)
			sum, state := 0, uint64(1)
			for b.Loop() {
				state = state*6364136223846793005 + 1442695040888963407
				block, _ := x.Find((state >> 32) * x.numNodes >> 32)
				sum += block
			}
			if sum == 0 {
				b.Fatal("every node in block 0")
			}
		})
	}
}

// BlockAt inverts Place, for blocks of one size and for compressed ones.
func TestObjectIndexBlockAt(t *testing.T) {
	const blockSize = 4 * layout.PageSize
	degrees := make([]uint64, 20_000)
	for v := range degrees {
		degrees[v] = uint64(v % 5)
	}
	entries, edges := tableOf(t, degrees, blockSize)
	x, err := NewObjectIndex(entries, nil, int64(len(degrees)), edges)
	if err != nil || x.Blocks() < 8 {
		t.Fatal(x.Blocks(), err)
	}
	check := func() {
		t.Helper()
		end := int64(0)
		for b := range x.Blocks() {
			at, stored := x.Place(b, blockSize)
			for _, offset := range []int64{at, at + 1, at + stored - 1} {
				if got := x.BlockAt(offset, blockSize); got != int64(b) {
					t.Errorf("byte %d lies in block %d, not %d", offset, b, got)
				}
			}
			end = at + stored
		}
		for _, offset := range []int64{-1, end} {
			if got := x.BlockAt(offset, blockSize); x.Compressed() && got != -1 {
				t.Errorf("byte %d lies in block %d", offset, got)
			}
		}
	}
	check()
	var places []byte
	page := uint64(0)
	for b := range x.Blocks() + 1 {
		places = binary.LittleEndian.AppendUint64(places, page)
		if b < x.Blocks() {
			page += uint64(1 + b*b%4)
		}
	}
	if err := x.SetPlaces(places, blockSize, int64(page)*layout.PageSize); err != nil {
		t.Fatal(err)
	}
	check()
}
