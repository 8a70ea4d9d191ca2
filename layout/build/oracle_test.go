package build

// A naive builder and reader of stores, against which builds are checked. The reader
// knows the layout package only.

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"testing"

	"github.com/goagnes/goagnes/layout"
	"github.com/goagnes/goagnes/layout/build/element"
	"github.com/goagnes/goagnes/layout/build/order"
	"github.com/goagnes/goagnes/layout/build/source"
	"github.com/goagnes/goagnes/layout/build/source/array"
	"github.com/goagnes/goagnes/layout/build/workspace"
)

// graph is an input in memory.
type graph struct {
	n        int64
	src, dst []int64
	dim      int
	x        []float32
	y        []int64
	splits   map[string][]int64

	// Of a graph whose edges were edited: the ids of its edges, and the sources that
	// the degree order goes by. nil: positions, src.
	ids     []int64
	sources []int64
}

func words[T any](v []T) []byte {
	var b bytes.Buffer
	if err := binary.Write(&b, binary.LittleEndian, v); err != nil {
		panic(err)
	}
	return b.Bytes()
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func rowsOf(name string, d layout.DType, data []byte, shape ...int64) source.Rows {
	return must(array.RowsFromMemory(array.Array{Name: name, Data: data, DType: d, Shape: shape}))
}

func edgesOf(src, dst []int64) source.Edges {
	list := func(name string, v []int64) array.Array {
		return array.Array{Name: name, Data: words(v), DType: layout.Int64, Shape: []int64{int64(len(v))}}
	}
	return must(array.EdgesFromPairs(list("src", src), list("dst", dst)))
}

func (g *graph) options() Options {
	o := Options{Edges: edgesOf(g.src, g.dst), NumNodes: g.n, Arrays: map[string]source.Rows{}, Splits: map[string]source.Rows{}}
	if g.x != nil {
		o.Arrays["x"] = rowsOf("x", layout.Float32, words(g.x), g.n, int64(g.dim))
	}
	if g.y != nil {
		o.Arrays["y"] = rowsOf("y", layout.Int64, words(g.y), g.n)
	}
	for name, ids := range g.splits {
		o.Splits[name] = rowsOf(name, layout.Int64, words(ids), int64(len(ids)))
	}
	return o
}

// randomGraph has hubs, loops, parallel edges and isolated nodes.
func randomGraph(seed uint64, n int64, edges int, dim int) *graph {
	r := rand.New(rand.NewPCG(seed, 1))
	g := &graph{n: n, dim: dim, splits: map[string][]int64{}}
	skewed := func() int64 {
		switch r.IntN(4) {
		case 0:
			return n / 3 // a hub
		case 1:
			return r.Int64N(min(n, 10))
		}
		return r.Int64N(n)
	}
	for range edges {
		g.src = append(g.src, skewed())
		g.dst = append(g.dst, skewed())
	}
	if dim > 0 {
		g.x = make([]float32, n*int64(dim))
	}
	for i := range g.x {
		g.x[i] = r.Float32()
	}
	g.y = make([]int64, n)
	for i := range g.y {
		g.y[i] = r.Int64N(5) - 1
	}
	for _, name := range []string{"train", "val"} {
		g.splits[name] = []int64{}
		for range n / 5 {
			g.splits[name] = append(g.splits[name], r.Int64N(n))
		}
	}
	return g
}

// naiveOrder returns the original ids in internal order.
func (g *graph) naiveOrder(name string) []int64 {
	ids := make([]int64, g.n)
	for i := range ids {
		ids[i] = int64(i)
	}
	switch name {
	case layout.OrderOriginal:
		return ids
	case order.BFS:
		return g.naiveBFS()
	}
	degree := map[int64]int{}
	sources := g.sources
	if sources == nil {
		sources = g.src
	}
	for _, s := range sources {
		degree[s]++
	}
	train := map[int64]bool{}
	for _, v := range g.splits["train"] {
		train[v] = true
	}
	sort.SliceStable(ids, func(i, j int) bool {
		a, b := ids[i], ids[j]
		if degree[a] != degree[b] {
			return degree[a] > degree[b]
		}
		return train[a] && !train[b]
	})
	return ids
}

// opened is a store read whole.
type opened struct {
	m     *layout.Manifest
	files map[string][]byte
}

func readStore(t testing.TB, dir string) *opened {
	t.Helper()
	o := &opened{files: map[string][]byte{}}
	m, err := layout.DecodeManifest(must(os.ReadFile(filepath.Join(dir, layout.ManifestFile))))
	if err != nil {
		t.Fatal(err)
	}
	o.m = m
	sums := must(os.ReadFile(filepath.Join(dir, layout.ChecksumFile)))
	end := int64(0)
	for i := range m.Sections {
		s := &m.Sections[i]
		b := must(os.ReadFile(filepath.Join(dir, s.File)))
		if int64(len(b)) != s.FileBytes() {
			t.Fatalf("%s has %d bytes, the manifest says %d", s.File, len(b), s.FileBytes())
		}
		at, tableBytes, rootAt, rootBytes := s.Checksums()
		table, root := sums[at:at+tableBytes], sums[rootAt:rootAt+rootBytes]
		if layout.CRC(root) != s.RootCRC {
			t.Fatalf("%s: root checksum", s.Name)
		}
		if p := layout.CheckPages(layout.NewSalt(m.ID, s.Name, true), table, 0, root); p >= 0 {
			t.Fatalf("%s: page %d of the checksum table", s.Name, p)
		}
		if p := layout.CheckPages(layout.NewSalt(m.ID, s.Name, false), b, 0, table); p >= 0 {
			t.Fatalf("%s: page %d", s.Name, p)
		}
		for _, v := range b[s.Bytes:] {
			if v != 0 {
				t.Fatalf("%s: padding is not zero", s.Name)
			}
		}
		o.files[s.Name] = b[:s.Bytes]
		end = rootAt + rootBytes
	}
	if end != int64(len(sums)) {
		t.Fatalf("%s has %d bytes, %d are used", layout.ChecksumFile, len(sums), end)
	}
	return o
}

// integers reads an integer section.
func (o *opened) integers(name string) []int64 {
	s := o.m.Section(name)
	if s == nil {
		return nil
	}
	var v []int64
	for i := range int(s.Rows) {
		n, _ := element.Integer(o.files[name], i, s.Type())
		v = append(v, n)
	}
	return v
}

// compare checks every section against what a naive builder makes of g.
func (o *opened) compare(g *graph, name string) error {
	m := o.m
	if m.NumNodes != g.n || m.NumEdges != int64(len(g.src)) || m.Settings.Order != name {
		return fmt.Errorf("%d nodes, %d edges, name %q", m.NumNodes, m.NumEdges, m.Settings.Order)
	}
	var original []int64
	if name == order.Visit {
		original = o.integers(layout.SectionOriginal)
		if err := g.checkVisit(original); err != nil {
			return err
		}
	} else {
		original = g.naiveOrder(name)
	}
	internal := make([]int64, g.n)
	for i, v := range original {
		internal[v] = int64(i)
	}
	if name == layout.OrderOriginal {
		if m.Section(layout.SectionInternal) != nil || m.Section(layout.SectionOriginal) != nil {
			return fmt.Errorf("tables of ids in original order")
		}
	} else if !slices.Equal(o.integers(layout.SectionInternal), internal) || !slices.Equal(o.integers(layout.SectionOriginal), original) {
		return fmt.Errorf("tables of ids differ")
	}
	type in struct{ source, id int64 }
	lists := make([][]in, g.n)
	for e := range g.src {
		t := internal[g.dst[e]]
		id := int64(e)
		if g.ids != nil {
			id = g.ids[e]
		}
		lists[t] = append(lists[t], in{internal[g.src[e]], id})
	}
	ids, degrees := o.integers(layout.SectionEdgeID), o.integers(layout.SectionDegree)
	got, err := o.lists()
	if err != nil {
		return err
	}
	p := 0
	for v, want := range lists {
		others := int64(len(want))
		for _, e := range want {
			if e.source == int64(v) {
				others--
			}
		}
		if others != degrees[v] || len(want) != len(got[v].sources) || got[v].original != original[v] {
			return fmt.Errorf("node %d: %d in-edges in node.in_degree, %d in the graph, %d expected; original id %d, expected %d",
				v, degrees[v], len(got[v].sources), others, got[v].original, original[v])
		}
		for i, e := range want {
			if got[v].sources[i] != e.source || ids[p] != e.id {
				return fmt.Errorf("node %d, in-edge %d: source %d edge %d, expected %d and %d", v, i, got[v].sources[i], ids[p], e.source, e.id)
			}
			p++
		}
	}
	if g.x != nil {
		var want []float32
		for _, v := range original {
			want = append(want, g.x[v*int64(g.dim):(v+1)*int64(g.dim)]...)
		}
		if !bytes.Equal(words(want), o.files[layout.SectionX]) {
			return fmt.Errorf("features differ")
		}
	}
	if g.y != nil {
		var want []int64
		classes := int64(0)
		for _, v := range original {
			want = append(want, g.y[v])
			classes = max(classes, g.y[v]+1)
		}
		if !slices.Equal(want, o.integers(layout.SectionY)) || m.NumClasses != classes {
			return fmt.Errorf("labels differ, or %d classes are not %d", m.NumClasses, classes)
		}
	}
	for name, ids := range g.splits {
		if !slices.Equal(ids, o.integers(layout.SplitPrefix+name)) {
			return fmt.Errorf("split %s differs", name)
		}
	}
	return nil
}

type list struct {
	original int64
	sources  []int64
}

// lists decodes all graph blocks.
func (o *opened) lists() ([]list, error) {
	lists := make([]list, o.m.NumNodes)
	index, blocks := o.files[layout.SectionIndex], o.files[layout.SectionGraph]
	bs := o.m.Settings.BlockSize
	nb := int64(len(blocks)) / bs
	if o.m.Settings.Compression != "" {
		blocks = o.decompressed()
		nb = int64(len(blocks)) / bs
	}
	if int64(len(index)) != (nb+1)*layout.IndexEntryBytes {
		return nil, fmt.Errorf("%d blocks, index of %d bytes", nb, len(index))
	}
	for k := range nb {
		at, next := layout.GetIndexEntry(index[16*k:]), layout.GetIndexEntry(index[16*k+16:])
		g, err := layout.ParseGraphBlock(blocks[k*bs:(k+1)*bs], layout.NodeBits(o.m.NumNodes), at, next)
		if err != nil {
			return nil, fmt.Errorf("block %d: %w", k, err)
		}
		for i := range g.Count {
			start, end := 0, g.Edges
			if !g.Hub {
				start, end = g.Object(i)
			}
			l := &lists[g.FirstNode+uint64(i)]
			l.original = int64(g.Original(i))
			for j := start; j < end; j++ {
				l.sources = append(l.sources, int64(g.Neighbor(j)))
			}
		}
	}
	return lists, nil
}

// decompressed returns the section graph as it is without compression.
func (o *opened) decompressed() []byte {
	bs := o.m.Settings.BlockSize
	places, index, stored := o.integers(layout.SectionPlaces), o.files[layout.SectionIndex], o.files[layout.SectionGraph]
	d := layout.NewBlockDecompressor(make([]byte, 3*bs))
	var all []byte
	for k := range len(places) - 1 {
		block := make([]byte, bs)
		n := copy(block, stored[places[k]*layout.PageSize:places[k+1]*layout.PageSize])
		if int64(n) < bs {
			s := layout.ShapeOf(o.m.NumNodes, layout.GetIndexEntry(index[16*k:]), layout.GetIndexEntry(index[16*k+16:]))
			if err := d.Decompress(block, int64(n), s); err != nil {
				panic(err)
			}
		}
		all = append(all, block...)
	}
	return all
}

// buildIn builds o in a fresh directory and returns the store's path.
func buildIn(t testing.TB, o Options, tune workspace.Tuning) (string, *Report) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "store")
	r, err := build(context.Background(), path, o, tune)
	if err != nil {
		t.Fatal(err)
	}
	return path, r
}
