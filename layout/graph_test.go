package layout

import (
	"math/rand/v2"
	"testing"
)

type object struct {
	original uint64
	ids      []uint64
}

// encode runs the objects through an encoder and returns the blocks and the
// object index table.
func encode(t *testing.T, numNodes, blockSize int64, objects []object) (blocks [][]byte, index []IndexEntry) {
	t.Helper()
	e := NewGraphEncoder(numNodes, blockSize, func(b []byte, entry IndexEntry) error {
		blocks = append(blocks, append([]byte(nil), b...))
		index = append(index, entry)
		return nil
	})
	for _, o := range objects {
		if err := e.Object(o.original, uint64(len(o.ids))); err != nil {
			t.Fatal(err)
		}
		for i := 0; i < len(o.ids); i += 1000 { // in parts, as a build streams them
			if err := e.Neighbors(o.ids[i:min(i+1000, len(o.ids))]); err != nil {
				t.Fatal(err)
			}
		}
	}
	last, err := e.Close()
	if err != nil {
		t.Fatal(err)
	}
	return blocks, append(index, last)
}

func TestGraphBlocks(t *testing.T) {
	for _, c := range []struct {
		name      string
		numNodes  int64
		blockSize int64
		degree    func(r *rand.Rand, v int64) int
	}{
		{"small", 50, 4096, func(r *rand.Rand, v int64) int { return r.IntN(5) }},
		{"no edges", 3000, 4096, func(*rand.Rand, int64) int { return 0 }},
		{"hubs", 5000, 4096, func(r *rand.Rand, v int64) int { return []int{0, 3, 700, 9000, 40000}[r.IntN(100)/24] }},
		{"just below and above a block", 3000, 4096, func(r *rand.Rand, v int64) int { return 2660 + int(v)%60 }},
		{"1 MiB", 100000, 1 << 20, func(r *rand.Rand, v int64) int { return r.IntN(60) }},
		{"wide original ids", 1<<32 + 5, 1 << 16, nil},
		{"one node", 1, 4096, func(*rand.Rand, int64) int { return 3 }},
		{"none", 0, 4096, func(*rand.Rand, int64) int { return 0 }},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.degree == nil {
				testWide(t, c.numNodes, c.blockSize)
				return
			}
			r := rand.New(rand.NewPCG(1, 2))
			objects := make([]object, c.numNodes)
			for v := range objects {
				objects[v].original = r.Uint64N(uint64(c.numNodes))
				for range c.degree(r, int64(v)) {
					objects[v].ids = append(objects[v].ids, r.Uint64N(uint64(c.numNodes)))
				}
			}
			blocks, index := encode(t, c.numNodes, c.blockSize, objects)
			check(t, c.numNodes, c.blockSize, objects, blocks, index)
		})
	}
}

func check(t *testing.T, numNodes, blockSize int64, objects []object, blocks [][]byte, index []IndexEntry) {
	t.Helper()
	bits := NodeBits(numNodes)
	node, edge, hubs := 0, 0, 0
	var flat []byte
	for _, b := range blocks {
		flat = append(flat, b...)
	}
	for b := 0; b < len(blocks); b++ {
		g, err := ParseGraphBlock(blocks[b], bits, index[b], index[b+1])
		if err != nil {
			t.Fatalf("block %d: %v", b, err)
		}
		if g.FirstNode != uint64(node) || g.FirstEdge != uint64(edge) {
			t.Fatalf("block %d begins with node %d, edge %d; want %d, %d", b, g.FirstNode, g.FirstEdge, node, edge)
		}
		if g.Hub {
			hubs++
			o := objects[node]
			head, err := ParseHubHead(blocks[b][:PageSize], blockSize, bits, index[b], index[b+1])
			if err != nil || head != (HubHead{uint64(len(o.ids)), o.original}) || g.Original(0) != o.original {
				t.Fatalf("hub %d: head %+v, %v; want degree %d, original %d", node, head, err, len(o.ids), o.original)
			}
			first := b
			for ; index[b+1].FirstNode == uint64(node); b++ { // to the hub's last piece
			}
			for pos, want := range o.ids {
				off, shift := HubSlot(blockSize, bits, int64(pos))
				if got := ReadPacked(flat[int64(first)*blockSize+off:], shift, bits); got != want {
					t.Fatalf("hub %d, neighbour %d: %d, want %d", node, pos, got, want)
				}
			}
			node++
			edge += len(o.ids)
			continue
		}
		for i := range g.Count {
			o := objects[node]
			start, end := g.Object(i)
			if end-start != len(o.ids) || g.Original(i) != o.original {
				t.Fatalf("node %d: degree %d of %d, original %d of %d", node, end-start, len(o.ids), g.Original(i), o.original)
			}
			for k, want := range o.ids {
				if got := g.Neighbor(start + k); got != want {
					t.Fatalf("node %d, neighbour %d: %d, want %d", node, k, got, want)
				}
			}
			node++
			edge += len(o.ids)
		}
	}
	if node != len(objects) || index[len(blocks)] != (IndexEntry{uint64(node), uint64(edge)}) {
		t.Fatalf("ends at node %d, edge %d, entry %v", node, edge, index[len(blocks)])
	}
	t.Logf("%d blocks, %d pieces begin a hub", len(blocks), hubs)
}

// testWide encodes the first nodes of a graph of more than 2^32 nodes, whose
// ids take 33 bits and whose original ids 8 bytes.
func testWide(t *testing.T, numNodes, blockSize int64) {
	r := rand.New(rand.NewPCG(3, 4))
	var objects []object
	var blocks [][]byte
	var index []IndexEntry
	e := NewGraphEncoder(numNodes, blockSize, func(b []byte, entry IndexEntry) error {
		blocks = append(blocks, append([]byte(nil), b...))
		index = append(index, entry)
		return nil
	})
	for range 20000 {
		o := object{original: r.Uint64N(uint64(numNodes))}
		for range r.IntN(10) {
			o.ids = append(o.ids, r.Uint64N(uint64(numNodes)))
		}
		objects = append(objects, o)
		if err := e.Object(o.original, uint64(len(o.ids))); err != nil {
			t.Fatal(err)
		}
		if err := e.Neighbors(o.ids); err != nil {
			t.Fatal(err)
		}
	}
	if len(blocks) < 3 {
		t.Fatalf("only %d blocks", len(blocks))
	}
	objects = objects[:index[len(index)-1].FirstNode] // the open block is not emitted
	check(t, numNodes, blockSize, objects, blocks[:len(blocks)-1], index)
}

// TestParseGraphBlockBounds flips bytes of headers and tables: parsing either
// refuses the block, or leaves one whose every method stays inside it.
func TestParseGraphBlockBounds(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	objects := make([]object, 3000)
	for v := range objects {
		n := r.IntN(20)
		if v == 1500 {
			n = 8000
		}
		objects[v].original = uint64(v)
		for range n {
			objects[v].ids = append(objects[v].ids, r.Uint64N(3000))
		}
	}
	blocks, index := encode(t, 3000, 4096, objects)
	refused := 0
	for range 20000 {
		b := r.IntN(len(blocks))
		c := append([]byte(nil), blocks[b]...)
		for range 1 + r.IntN(3) {
			c[r.IntN(600)] = byte(r.Uint32())
		}
		g, err := ParseGraphBlock(c, NodeBits(3000), index[b], index[b+1])
		if err != nil {
			refused++
			continue
		}
		if g.Hub {
			g.Original(0)
			continue
		}
		for i := range g.Count {
			start, end := g.Object(i)
			for k := start; k < end; k++ {
				g.Neighbor(k)
			}
			g.Original(i)
		}
	}
	if refused < 1000 {
		t.Fatalf("only %d of 20000 damaged blocks refused", refused)
	}
}
