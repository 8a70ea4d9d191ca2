package sizes

// Past the limits of 32 bits: stores with holes, whose files are far larger than
// what lies in them, and headers that claim what no machine of a test holds.

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/goagnes/goagnes/goagnes"
	"github.com/goagnes/goagnes/goagnes/storage"
	"github.com/goagnes/goagnes/layout"
	"github.com/goagnes/goagnes/tests/fixture/golden"
	"github.com/goagnes/goagnes/tests/fixture/graph"
	"github.com/goagnes/goagnes/tests/fixture/life"
	"github.com/goagnes/goagnes/tests/fixture/sampler"
)

// sparse is a store most of whose pages are holes.
type sparse struct {
	m     *layout.Manifest
	pages map[string]map[int64][]byte // by section and page number: what is no hole
}

// newSparse returns a store in the order "original" without sections.
func newSparse(nodes, edges, blockSize int64) *sparse {
	return &sparse{&layout.Manifest{NumNodes: nodes, NumEdges: edges,
		Settings: layout.Settings{Order: "original", BlockSize: blockSize, IDs: "dense"}}, map[string]map[int64][]byte{}}
}

func (s *sparse) array(name string, d layout.DType, rows int64, shape ...int64) {
	c := layout.Section{Name: name, Kind: layout.KindArray, File: name, DType: d.String(), Rows: rows, RowShape: shape}
	c.Bytes = rows * c.Stride()
	s.m.Sections = append(s.m.Sections, c)
}

// put writes bytes at a place of a section.
func (s *sparse) put(section string, at int64, b []byte) {
	if s.pages[section] == nil {
		s.pages[section] = map[int64][]byte{}
	}
	for len(b) > 0 {
		p := s.pages[section][at/layout.PageSize]
		if p == nil {
			p = make([]byte, layout.PageSize)
			s.pages[section][at/layout.PageSize] = p
		}
		n := copy(p[at%layout.PageSize:], b)
		b, at = b[n:], at+int64(n)
	}
}

// graph adds the graph's sections: blocks whose headers are put by the caller,
// between these entries.
func (s *sparse) graph(entries []layout.IndexEntry) {
	s.m.Sections = append(s.m.Sections,
		layout.Section{Name: layout.SectionGraph, Kind: layout.KindGraph, Required: true, File: layout.SectionGraph, Bytes: int64(len(entries)-1) * s.m.Settings.BlockSize},
		layout.Section{Name: layout.SectionIndex, Kind: layout.KindIndex, Required: true, File: layout.SectionIndex, Bytes: int64(len(entries)) * layout.IndexEntryBytes})
	var table []byte
	for _, e := range entries {
		table = binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64(table, e.FirstNode), e.FirstEdge)
	}
	s.put(layout.SectionIndex, 0, table)
}

// header puts the head of block number b; degree is a hub's.
func (s *sparse) header(b int64, at, next layout.IndexEntry, degree uint64) {
	objects, payload, kind := next.FirstNode-at.FirstNode, uint64(64), byte(2)
	if degree == 0 {
		kind, payload = 1, (32+8*objects+7)/8*8
	} else {
		objects = 1
	}
	width := byte(4)
	if kind == 2 {
		width = 8
	}
	h := []byte{kind, byte(layout.NodeBits(s.m.NumNodes)), width, 0}
	h = binary.LittleEndian.AppendUint32(h, uint32(objects))
	h = binary.LittleEndian.AppendUint64(h, at.FirstNode)
	h = binary.LittleEndian.AppendUint64(h, at.FirstEdge)
	h = binary.LittleEndian.AppendUint32(h, uint32(next.FirstEdge-at.FirstEdge))
	h = binary.LittleEndian.AppendUint32(h, uint32(payload))
	if degree != 0 {
		h = binary.LittleEndian.AppendUint64(h, degree)
		h = binary.LittleEndian.AppendUint64(h, at.FirstNode)
	}
	s.put(layout.SectionGraph, b*s.m.Settings.BlockSize, h)
}

// write writes the store with its checksums to a new directory.
func (s *sparse) write(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "store")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	hole := layout.CRC(make([]byte, layout.PageSize))
	plain := func(i int, f func(crc uint32)) {
		c := &s.m.Sections[i]
		for p := range layout.Pages(c.FileBytes()) {
			if b := s.pages[c.Name][p]; b != nil {
				f(layout.CRC(b))
			} else {
				f(hole)
			}
		}
	}
	at := int64(0)
	for i := range s.m.Sections {
		c := &s.m.Sections[i]
		c.ChecksumOffset, c.RootCRC = at, 0
		_, tableBytes, _, rootBytes := c.Checksums()
		at += tableBytes + rootBytes
		f, err := os.Create(filepath.Join(dir, c.File))
		if err != nil {
			t.Fatal(err)
		}
		err = f.Truncate(c.FileBytes())
		for p, b := range s.pages[c.Name] {
			if err == nil {
				_, err = f.WriteAt(b, p*layout.PageSize)
			}
		}
		if err := errors.Join(err, f.Close()); err != nil {
			t.Fatal(err)
		}
	}
	err := s.m.ComputeID(func(i int, write func([]byte)) error {
		words := make([]byte, 0, 1<<16)
		plain(i, func(crc uint32) {
			if words = binary.LittleEndian.AppendUint32(words, crc); len(words) == cap(words) {
				write(words)
				words = words[:0]
			}
		})
		write(words)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	sums := make([]byte, 0, at)
	for i := range s.m.Sections {
		c := &s.m.Sections[i]
		table, tableBytes, root, rootBytes := c.Checksums()
		salt, page := layout.NewSalt(s.m.ID, c.Name, false), int64(0)
		plain(i, func(crc uint32) {
			sums = binary.LittleEndian.AppendUint32(sums, crc^salt.Mask(page))
			page++
		})
		sums = sums[:root+rootBytes] // zeros past what was written
		layout.SumPages(layout.NewSalt(s.m.ID, c.Name, true), sums[table:table+tableBytes], 0, sums[root:])
		c.RootCRC = layout.CRC(sums[root:])
	}
	manifest, err := s.m.Encode()
	if err != nil {
		t.Fatal(err)
	}
	for name, b := range map[string][]byte{layout.ChecksumFile: sums, layout.ManifestFile: manifest} {
		if err := os.WriteFile(filepath.Join(dir, name), b, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// drawn are the positions that a minibatch of one hop draws for a seed.
func drawn(seed uint64, node uint64, degree, k int) []int {
	w := sampler.Words([2]uint32{uint32(seed), uint32(seed >> 32)}, 0, 0, 0, 2)
	return sampler.Draw([2]uint32{w[0], w[1]}, node, 0, 0, degree, k)
}

// first returns the first minibatch of the first epoch, and releases nothing.
func first(t *testing.T, l *goagnes.Loader) *goagnes.Batch {
	t.Helper()
	if err := l.Start(context.Background()); err != nil {
		t.Fatal(err)
	}
	b, err := l.Next(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func arrayOf[T any](t *testing.T, b *goagnes.Batch, name string) []T {
	t.Helper()
	for _, a := range b.Arrays() {
		if a.Name == name {
			return slices.Clone(graph.ValuesOf[T](a.Bytes()))
		}
	}
	t.Fatalf("the minibatch has no array %q", name)
	return nil
}

var ways = []string{storage.IOAuto, storage.IOPread, storage.IOBuffered}

// TestFeaturesPast4GiB reads rows on both sides of 4 GiB, and at the end, of a
// feature file of 5 GB.
func TestFeaturesPast4GiB(t *testing.T) {
	const nodes, width = 77_000, 16 << 10
	s := newSparse(nodes, 2, 1<<20)
	s.graph([]layout.IndexEntry{{}, {FirstNode: nodes, FirstEdge: 2}})
	s.header(0, layout.IndexEntry{}, layout.IndexEntry{FirstNode: nodes, FirstEdge: 2}, 0)
	ends, originals := make([]byte, 4*nodes), make([]byte, 4*nodes)
	for v := range uint32(nodes) { // the last two nodes have an in-edge each, from 5 and 65535
		binary.LittleEndian.PutUint32(ends[4*v:], max(v, nodes-3)-(nodes-3))
		binary.LittleEndian.PutUint32(originals[4*v:], v)
	}
	s.put(layout.SectionGraph, 32, ends)
	s.put(layout.SectionGraph, 32+4*nodes, originals)
	ids := make([]byte, 16)
	binary.LittleEndian.PutUint64(ids, 5|65_535<<17) // 17 bits each
	s.put(layout.SectionGraph, 32+8*nodes, ids)
	s.array(layout.SectionEdgeID, layout.Uint32, 2)
	s.put(layout.SectionEdgeID, 4, []byte{1})
	s.array(layout.SectionDegree, layout.Uint32, nodes)
	s.array(layout.SectionX, layout.Float32, nodes, width)
	row := func(v int64) []byte {
		b := make([]byte, 4*width)
		for i := range width {
			binary.LittleEndian.PutUint32(b[4*i:], uint32(v)<<8+uint32(i)%251) // small and finite
		}
		return b
	}
	full := []int64{5, 65_535, 65_536, nodes - 2, nodes - 1} // row 65536 begins at 4 GiB
	for _, v := range full {
		s.put(layout.SectionX, v*4*width, row(v))
	}
	path := s.write(t)
	if at := s.m.Section(layout.SectionX).Bytes; at <= 1<<32 {
		t.Fatalf("features of %d bytes", at)
	}
	for _, io := range ways {
		store, err := goagnes.Open(path, goagnes.OpenOptions{Memory: 64 << 20, IO: io, Scratch: t.TempDir()})
		if err != nil {
			t.Fatal(err)
		}
		for _, v := range []int64{0, 5, 65_535, 65_536, 70_000, nodes - 1} {
			got := make([]byte, 4*width)
			if err := store.ReadNodes(context.Background(), "x", goagnes.Nodes{IDs: []int64{v}}, got); err != nil {
				t.Fatal(err)
			}
			want := make([]byte, 4*width)
			if slices.Contains(full, v) {
				want = row(v)
			}
			if !bytes.Equal(got, want) {
				t.Errorf("%s: row %d is %s", io, v, graph.Digest(got))
			}
		}
		l := life.Load(t, store, goagnes.LoaderOptions{NumNeighbors: []int{-1}, BatchSize: 3, InputNodes: goagnes.InputNodes{IDs: []int64{nodes - 1, 65_536, nodes - 2}}})
		b := first(t, l)
		nodesOf, x := arrayOf[int64](t, b, "n_id"), arrayOf[byte](t, b, "x")
		if want := []int64{nodes - 1, 65_536, nodes - 2, 65_535, 5}; !slices.Equal(nodesOf, want) {
			t.Errorf("%s: nodes %v, want %v", io, nodesOf, want)
		}
		for i, v := range nodesOf {
			if !bytes.Equal(x[i*4*width:(i+1)*4*width], row(v)) {
				t.Errorf("%s: the minibatch's row of node %d differs", io, v)
			}
		}
		b.Release()
		if err := errors.Join(l.Close(), store.Close()); err != nil {
			t.Error(err)
		}
	}
}

// TestEdgesPast2To32 samples hubs of 2^31 in-edges on both sides of CSC position
// 2^32, whose edge ids take 8 bytes each: files of 4 and 34 GB.
func TestEdgesPast2To32(t *testing.T) {
	const blockSize, k, seed = 1 << 20, 6, uint64(9)
	degrees := []int64{1<<31 + 5, 1<<31 + 7, 3}
	edges := degrees[0] + degrees[1] + degrees[2]
	s := newSparse(3, edges, blockSize)
	s.m.EdgeIDs = edges + 1<<33 // ids have gaps
	capacity := layout.HubCapacity(blockSize, 8)
	entries, firstBlock, begin := []layout.IndexEntry{}, []int64{}, int64(0)
	for v, d := range degrees[:2] {
		firstBlock = append(firstBlock, int64(len(entries)))
		for at := int64(0); at < d; at += capacity {
			entries = append(entries, layout.IndexEntry{FirstNode: uint64(v), FirstEdge: uint64(begin + at)})
		}
		begin += d
	}
	entries = append(entries, layout.IndexEntry{FirstNode: 2, FirstEdge: uint64(begin)}, layout.IndexEntry{FirstNode: 3, FirstEdge: uint64(edges)})
	s.graph(entries)
	for b := range entries[:len(entries)-1] {
		degree := uint64(0)
		if v := entries[b].FirstNode; v < 2 {
			degree = uint64(degrees[v])
		}
		s.header(int64(b), entries[b], entries[b+1], degree)
	}
	last := int64(len(entries)-2) * blockSize
	s.put(layout.SectionGraph, last+32, []byte{3, 0, 0, 0, 2, 0, 0, 0, 0, 1, 2}) // its object's end, original id and neighbours
	s.array(layout.SectionEdgeID, layout.Uint64, edges)
	s.array(layout.SectionDegree, layout.Uint32, 3)
	id := func(p int64) int64 { return p + 1<<33 - 1 } // of the edge at CSC position p
	var want []int64                                   // edge ids, and sources by original id
	var sources []int64
	begin = 0
	for v, d := range degrees {
		for _, q := range drawn(seed, uint64(v), int(d), k) {
			u := int64(q % 3)
			if v < 2 {
				offset, _ := layout.HubSlot(blockSize, 8, int64(q))
				s.put(layout.SectionGraph, firstBlock[v]*blockSize+offset, []byte{byte(u)})
			}
			s.put(layout.SectionEdgeID, (begin+int64(q))*8, binary.LittleEndian.AppendUint64(nil, uint64(id(begin+int64(q)))))
			want, sources = append(want, id(begin+int64(q))), append(sources, u)
		}
		begin += d
	}
	path := s.write(t)
	for _, io := range ways {
		store, err := goagnes.Open(path, goagnes.OpenOptions{Memory: 64 << 20, IO: io, Scratch: t.TempDir()})
		if err != nil {
			t.Fatal(err)
		}
		sd := seed
		l := life.Load(t, store, goagnes.LoaderOptions{NumNeighbors: []int{k}, BatchSize: 3, Seed: &sd, InputNodes: goagnes.InputNodes{IDs: []int64{0, 1, 2}}})
		b := first(t, l)
		if got := arrayOf[int64](t, b, "e_id"); !slices.Equal(got, want) {
			t.Errorf("%s: edge ids %v, want %v", io, got, want)
		}
		if got := arrayOf[int64](t, b, "edge_index"); !slices.Equal(got[:len(want)], sources) {
			t.Errorf("%s: sources %v, want %v", io, got[:len(want)], sources)
		}
		b.Release()
		from, ids := make([]int64, 3), make([]int64, 3)
		n, err := store.Neighbors(context.Background(), 2, from, ids)
		if err != nil || n != 3 || !slices.Equal(from, []int64{0, 1, 2}) || ids[2] != id(edges-1) {
			t.Errorf("%s: in-edges of the last node: %d from %v, ids %v, %v", io, n, from, ids, err)
		}
		if n, err := store.Neighbors(context.Background(), 1, nil, nil); n != degrees[1] || err == nil || goagnes.Class(err) != goagnes.ClassBudget {
			t.Errorf("%s: %d in-edges of a hub, %v", io, n, err)
		}
		if err := errors.Join(l.Close(), store.Close()); err != nil {
			t.Error(err)
		}
	}
}

// TestNodesNear2To32 prepares a minibatch of the last nodes of a graph of as many
// nodes as there may be, and refuses one node more by name.
func TestNodesNear2To32(t *testing.T) {
	const blockSize = layout.MaxBlockSize
	const perBlock = (blockSize - 32 - 64) / 8
	for _, nodes := range []int64{1<<32 - 2, 1<<32 - 1, layout.MaxNodes} {
		s := newSparse(nodes, 3, blockSize)
		count := (nodes + perBlock - 1) / perBlock
		if nodes == layout.MaxNodes {
			count = 1 // a lie, which nobody comes to read
		}
		var entries []layout.IndexEntry
		for b := range count {
			entries = append(entries, layout.IndexEntry{FirstNode: uint64(b * perBlock)})
		}
		entries = append(entries, layout.IndexEntry{FirstNode: uint64(nodes), FirstEdge: 3})
		s.graph(entries)
		for b := range count {
			s.header(b, entries[b], entries[b+1], 0)
		}
		// The last node has in-edges from the one before it, from 2^31 and from 0.
		at := (count - 1) * blockSize
		objects := int64(entries[count].FirstNode - entries[count-1].FirstNode)
		if objects <= perBlock {
			s.put(layout.SectionGraph, at+32+4*(objects-1), binary.LittleEndian.AppendUint32(nil, 3))
			for v := objects - 2; v < objects; v++ {
				s.put(layout.SectionGraph, at+32+4*objects+4*v, binary.LittleEndian.AppendUint32(nil, uint32(nodes-objects+v)))
			}
			var ids []byte
			for _, u := range []uint32{uint32(nodes - 2), 1 << 31, 0} {
				ids = binary.LittleEndian.AppendUint32(ids, u)
			}
			s.put(layout.SectionGraph, at+(32+8*objects+7)/8*8, ids)
		}
		path := s.write(t)
		store, err := goagnes.Open(path, goagnes.OpenOptions{Memory: 1 << 30, Scratch: t.TempDir(), NumThreads: 1})
		if err != nil {
			t.Fatalf("%d nodes: %v", nodes, err)
		}
		l, err := goagnes.NewLoader(store, goagnes.LoaderOptions{NumNeighbors: []int{-1}, NoEdgeIDs: true, BatchSize: 2, InputNodes: goagnes.InputNodes{IDs: []int64{nodes - 1, 7}}})
		if nodes >= 1<<32-1 {
			var refusal *layout.Error
			if !errors.As(err, &refusal) || refusal.Kind != layout.Unsupported || !strings.Contains(err.Error(), "2^32-1") {
				t.Errorf("%d nodes: %v", nodes, err)
			}
			if err := store.ReadNodes(context.Background(), "x", goagnes.Nodes{}, nil); err == nil {
				t.Errorf("%d nodes: rows of an array that is not there", nodes)
			}
			if _, err := store.Neighbors(context.Background(), nodes-1, nil, nil); !errors.As(err, &refusal) {
				t.Errorf("%d nodes: in-edges: %v", nodes, err)
			}
		} else if err != nil {
			t.Fatal(err)
		} else {
			b := first(t, l)
			if got, want := arrayOf[int64](t, b, "n_id"), []int64{nodes - 1, 7, nodes - 2, 1 << 31, 0}; !slices.Equal(got, want) {
				t.Errorf("nodes %v, want %v", got, want)
			}
			b.Release()
			if err := l.Close(); err != nil {
				t.Error(err)
			}
		}
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestWideEdgeIDs gives the edges of a small store ids near 2^40, of 8 bytes each.
func TestWideEdgeIDs(t *testing.T) {
	im := golden.Find(t, "v2-gaps").Read(t)
	narrow := graph.ValuesOf[uint32](im.Section(im.Manifest.Section(layout.SectionEdgeID)))[:im.Manifest.NumEdges]
	const shift = layout.MaxEdges - 9500
	wide := make([]byte, 0, 8*len(narrow))
	for _, id := range narrow {
		wide = binary.LittleEndian.AppendUint64(wide, uint64(id)+shift)
	}
	im.Manifest.EdgeIDs = layout.MaxEdges
	s := im.Manifest.Section(layout.SectionEdgeID)
	s.DType, s.Bytes = layout.Uint64.String(), int64(len(wide))
	im.Files[im.Path(s.File)] = append(wide, make([]byte, s.FileBytes()-s.Bytes)...)
	if !im.Forge(nil) {
		t.Fatal("the store cannot be made")
	}
	if report := im.Verify(t); !report.OK() {
		t.Fatalf("found %v", report.Findings)
	}
	g := golden.Graph()
	g.Duplicates = "drop"
	p := graph.Plan{Fanouts: []int{3, 2}, Input: goagnes.InputNodes{Split: "train"}, Batch: 2, Shuffle: true}
	want := g.Plain(p, 4).Epoch(0)
	for _, b := range want {
		for i := range b.IDs {
			b.IDs[i] += shift
		}
	}
	store, err := im.Open(goagnes.OpenOptions{Scratch: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	if got := store.Info().EdgeIDRange; got != layout.MaxEdges {
		t.Errorf("edge ids below %d", got)
	}
	o := p.Options(4)
	l := life.Load(t, store, o)
	defer l.Close()
	g.HoldEqual(t, l, o, want)
}

// TestNewerStores refuses by name what a later version of the format writes.
func TestNewerStores(t *testing.T) {
	for _, c := range golden.Stores {
		im := c.Read(t)
		header := im.Files[im.Path(layout.ManifestFile)][:layout.PageSize]
		binary.LittleEndian.PutUint32(header[8:], layout.Version+1)
		binary.LittleEndian.PutUint32(header[layout.PageSize-4:], layout.CRC(header[:layout.PageSize-4]))
		_, err := im.Open(goagnes.OpenOptions{})
		var newer *layout.Error
		if !errors.As(err, &newer) || newer.Kind != layout.Newer || !strings.Contains(err.Error(), "format version 3, this program reads up to 2") || goagnes.Class(err) != goagnes.ClassStore {
			t.Errorf("%s: %v", c.Name, err)
		}
		if report := im.Verify(t); len(report.Findings) != 1 || !strings.Contains(report.Findings[0].Message, "version 3") {
			t.Errorf("%s: found %v", c.Name, report.Findings)
		}
	}
	im := golden.Find(t, "v1").Read(t)
	b := im.Files[im.Path(layout.ManifestFile)]
	text := bytes.Replace(b[layout.PageSize:][:binary.LittleEndian.Uint64(b[16:])], []byte(`"sections": [`),
		[]byte(`"sections": [{"name":"graph.wings","kind":"array","required":true,"file":"wings","bytes":0,"dtype":"uint8","checksum_offset":0,"root_crc":0},`), 1)
	pages := layout.Pages(int64(len(text))) * layout.PageSize
	copy(b[layout.PageSize:][:pages], append(text, make([]byte, layout.PageSize)...))
	binary.LittleEndian.PutUint64(b[16:], uint64(len(text)))
	binary.LittleEndian.PutUint32(b[40:], layout.CRC(b[layout.PageSize:][:pages]))
	binary.LittleEndian.PutUint32(b[layout.PageSize-4:], layout.CRC(b[:layout.PageSize-4]))
	if _, err := im.Open(goagnes.OpenOptions{}); err == nil || !strings.Contains(err.Error(), `required section "graph.wings" is not known`) {
		t.Errorf("a required section of a later version: %v", err)
	}
}
