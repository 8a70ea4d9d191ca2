package goagnes_test

// Every array of every minibatch against the plain sampler, over graphs,
// stores, plans, outputs and budgets chosen to reach each path of the engine.

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"testing"

	"github.com/goagnes/goagnes/goagnes"
	"github.com/goagnes/goagnes/layout"
)

// rawGraph is a graph with arrays of any type, in memory.
type rawGraph struct {
	nodes    int
	src, dst []int64
	x, y     []byte // nil: none
	xType    layout.DType
	xShape   []int64 // of a row
	yType    layout.DType
	splits   map[string][]int64
}

func (g *rawGraph) rowBytes() int {
	n := g.xType.Size()
	for _, d := range g.xShape {
		n *= int(d)
	}
	return n
}

// noise fills rows of any type with bytes that are valid values of it: integers
// below 100 for labels, finite numbers for features.
func noise(r *rand.Rand, d layout.DType, elements int) []byte {
	b := make([]byte, elements*d.Size())
	for i := range elements {
		e := b[i*d.Size() : (i+1)*d.Size()]
		switch d {
		case layout.Float16:
			e[0], e[1] = byte(r.Uint32()), 0x3c+byte(r.IntN(8))
		case layout.Float32:
			e[0], e[1], e[2], e[3] = byte(r.Uint32()), byte(r.Uint32()), byte(r.Uint32()), 0x3f
		default:
			e[0] = byte(r.IntN(100))
		}
	}
	return b
}

func (g *rawGraph) build(t testing.TB, dir string, o goagnes.BuildOptions) {
	t.Helper()
	array := func(name string, d layout.DType, b []byte, shape ...int64) goagnes.Input {
		return goagnes.Input{Memory: &goagnes.Memory{Name: name, Data: b, DType: d, Shape: shape}}
	}
	o.EdgeIndex = array("edge_index", layout.Int64, bytesOf(append(slices.Clone(g.src), g.dst...)), 2, int64(len(g.src)))
	o.NumNodes = int64(g.nodes)
	if g.x != nil {
		o.X = array("x", g.xType, g.x, append([]int64{int64(g.nodes)}, g.xShape...)...)
	}
	if g.y != nil {
		o.Y = array("y", g.yType, g.y, int64(g.nodes))
	}
	o.Splits = map[string]goagnes.Input{}
	for name, ids := range g.splits {
		o.Splits[name] = array(name, layout.Int64, bytesOf(ids), int64(len(ids)))
	}
	if _, err := goagnes.Build(context.Background(), dir, o); err != nil {
		t.Fatal(err)
	}
}

// hubGraph has nodes on both sides of the degrees where draws change: 9000
// (four blocks of 4 KiB), 4097, 4096; parallel edges, loops and isolated nodes.
func hubGraph(r *rand.Rand) *rawGraph {
	g := &rawGraph{nodes: 2600, xType: layout.Float32, xShape: []int64{37}, yType: layout.Int64}
	live := int64(2400) // the rest is isolated
	edge := func(u, v int64) { g.src, g.dst = append(g.src, u), append(g.dst, v) }
	for v, d := range map[int64]int{7: 9000, 2399: 4097, 1200: 4096, 31: 700, 2000: 101, 2001: 100, 5: 49, 6: 48} {
		for range d {
			edge(r.Int64N(live), v)
		}
	}
	for range 12000 {
		u, v := r.Int64N(live), r.Int64N(r.Int64N(live)+1)
		if v == 1200 || v == 2399 || v > 2399 {
			continue
		}
		edge(u, v)
		switch r.IntN(40) {
		case 0:
			edge(u, v) // parallel
		case 1:
			edge(v, v) // a loop
		}
	}
	r.Shuffle(len(g.src), func(i, j int) {
		g.src[i], g.src[j] = g.src[j], g.src[i]
		g.dst[i], g.dst[j] = g.dst[j], g.dst[i]
	})
	g.x, g.y = noise(r, g.xType, g.nodes*37), noise(r, g.yType, g.nodes)
	for v := range int64(g.nodes) {
		if r.IntN(9) == 0 {
			g.splits = map[string][]int64{"train": append(g.splits["train"], v)}
		}
	}
	r.Shuffle(len(g.splits["train"]), func(i, j int) {
		s := g.splits["train"]
		s[i], s[j] = s[j], s[i]
	})
	return g
}

// plan is a loader's options without what must not matter.
type plan struct {
	name    string
	fanouts []int
	input   goagnes.InputNodes
	batch   int
	shuffle bool
	drop    bool
}

func (g *rawGraph) plain(p plan, seed uint64) *plainPlan {
	q := newPlainPlan(g.nodes, g.src, g.dst)
	q.fanouts, q.batch, q.shuffle, q.drop, q.seed = p.fanouts, max(p.batch, 1), p.shuffle, p.drop, seed
	switch in := p.input; {
	case in.Split != "":
		q.inputs = g.splits[in.Split]
	case in.IDs != nil:
		q.inputs = in.IDs
	default:
		q.byID = true
		for v := range g.nodes {
			if in.Mask == nil || in.Mask[v] {
				q.inputs = append(q.inputs, int64(v))
			}
		}
	}
	return q
}

// arrays returns the bytes of every array that the options ask for.
func (g *rawGraph) arrays(b *plainBatch, o goagnes.LoaderOptions) map[string][]byte {
	a := map[string][]byte{"n_id": bytesOf(b.nodes), "input_id": bytesOf(b.input)}
	if o.Compact {
		src := make([]uint32, len(b.source))
		for i, s := range b.source {
			src[i] = uint32(s)
		}
		a["ptr"], a["src"] = bytesOf(b.ptr), bytesOf(src)
	} else {
		a["edge_index"] = bytesOf(append(slices.Clone(b.source), b.target...))
	}
	if !o.NoEdgeIDs && len(o.NumNeighbors) > 0 {
		a["e_id"] = bytesOf(b.ids)
	}
	rows := func(data []byte, width int) []byte {
		out := []byte{}
		for _, v := range b.nodes {
			out = append(out, data[int(v)*width:(int(v)+1)*width]...)
		}
		return out
	}
	if g.x != nil && !o.NoFeatures {
		a["x"] = rows(g.x, g.rowBytes())
	}
	if g.y != nil {
		a["y"] = rows(g.y, g.yType.Size())
	}
	if o.Degree {
		degree := make([]uint32, g.nodes)
		for e, v := range g.dst {
			if g.src[e] != v {
				degree[v]++
			}
		}
		a["degree"] = rows(bytesOf(degree), 4)
	}
	return a
}

func (g *rawGraph) shapes(b *plainBatch) map[string]string {
	n, e := len(b.nodes), len(b.ids)
	s := map[string]string{
		"n_id": fmt.Sprint([]int{n}, layout.Int64), "input_id": fmt.Sprint([]int{len(b.input)}, layout.Int64),
		"edge_index": fmt.Sprint([]int{2, e}, layout.Int64), "e_id": fmt.Sprint([]int{e}, layout.Int64),
		"ptr": fmt.Sprint([]int{len(b.ptr)}, layout.Uint32), "src": fmt.Sprint([]int{e}, layout.Uint32),
		"y": fmt.Sprint([]int{n}, g.yType), "degree": fmt.Sprint([]int{n}, layout.Uint32),
		"x": fmt.Sprint(append([]int64{int64(n)}, g.xShape...), g.xType),
	}
	return s
}

// holdEqual runs one epoch and holds it against the plain sampler's.
func (g *rawGraph) holdEqual(t *testing.T, l *goagnes.Loader, o goagnes.LoaderOptions, want []*plainBatch) {
	t.Helper()
	ctx := context.Background()
	if l.Len() != len(want) {
		t.Fatalf("Len is %d, want %d", l.Len(), len(want))
	}
	if err := l.Start(ctx); err != nil {
		t.Fatal(err)
	}
	for m, w := range want {
		b, err := l.Next(ctx)
		if err != nil {
			t.Fatalf("minibatch %d of %d: %v", m, len(want), err)
		}
		arrays, shapes := g.arrays(w, o), g.shapes(w)
		for _, a := range b.Arrays() {
			if expect, ok := arrays[a.Name]; !ok || !bytes.Equal(a.Bytes(), expect) {
				t.Fatalf("minibatch %d: %s is %s, want %s", m, a.Name, digest(a.Bytes()), digest(expect))
			}
			if got := fmt.Sprint(a.Shape, a.DType); got != shapes[a.Name] {
				t.Fatalf("minibatch %d: %s has shape and type %s, want %s", m, a.Name, got, shapes[a.Name])
			}
			if uintptr(a.Pointer)%64 != 0 {
				t.Fatalf("minibatch %d: %s lies at %p", m, a.Name, a.Pointer)
			}
			delete(arrays, a.Name)
		}
		if len(arrays) > 0 {
			t.Fatalf("minibatch %d lacks %d arrays", m, len(arrays))
		}
		if b.Index != int64(m) || b.BatchSize != len(w.input) || b.NumNodes != len(w.nodes) || b.NumEdges != len(w.ids) ||
			!slices.Equal(b.NumSampledNodes, w.nodesByHop) || !slices.Equal(b.NumSampledEdges, w.edgesByHop) {
			t.Fatalf("minibatch %d: %d seeds, nodes %v, edges %v; want %d, %v, %v", m, b.BatchSize, b.NumSampledNodes, b.NumSampledEdges, len(w.input), w.nodesByHop, w.edgesByHop)
		}
		b.Release()
	}
	for range 2 {
		if _, err := l.Next(ctx); !errors.Is(err, io.EOF) {
			t.Fatalf("after the last minibatch: %v", err)
		}
	}
}

func digest(b []byte) string { return fmt.Sprintf("%d bytes %x…", len(b), b[:min(len(b), 24)]) }

// outputs are the sets of arrays that the tests rotate through.
var outputs = []goagnes.LoaderOptions{
	{},
	{Compact: true, Degree: true, NoEdgeIDs: true},
	{Degree: true},
	{NoFeatures: true},
	{Compact: true},
	{NoEdgeIDs: true},
}

// TestEquality prepares plans over the hub graph under rotating stores,
// budgets, hyperbatches and outputs: epochs 0, 1 and, after SetEpoch, 7.
func TestEquality(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 5))
	g := hubGraph(r)
	dir := t.TempDir()
	type settings struct {
		path           string
		memory         int64
		hyperbatch     int
		threads        int
		mode           string
		graph, feature int64 // buffers, by frames of a block at least
	}
	var all []settings
	for i, order := range []string{"original", "degree", "bfs", "visit"} {
		for j, kib := range []int64{4, 32} {
			path := filepath.Join(dir, fmt.Sprintf("%s-%d", order, kib))
			g.build(t, path, goagnes.BuildOptions{Order: order, BlockSize: kib << 10, Compression: []string{"", "zstd"}[(i+j)%2]})
			all = append(all,
				settings{path: path, memory: 12 << 20, hyperbatch: []int{3, 1000}[j], threads: 1 + i%2},
				settings{path: path, memory: 64 << 20, hyperbatch: []int{1000, 2}[i%2], threads: 3, mode: []string{"", "agnes-no"}[j]},
				settings{path: path, memory: 12 << 20, hyperbatch: []int{1, 1000}[j], threads: 3, mode: "agnes-paper"},
				settings{path: path, memory: 24 << 20, hyperbatch: []int{5, 1}[i%2], threads: 2, mode: []string{"agnes-paper", ""}[j], graph: 256 << 10, feature: 256 << 10})
		}
	}
	mask := make([]bool, g.nodes)
	for v := range mask {
		mask[v] = v%7 == 0
	}
	repeated := []int64{7, 31, 7, 7, 2599, 1200, 2399, 7, 31, 2599, 5, 6, 2000, 2001, 1200}
	plans := []plan{
		{name: "all nodes", fanouts: []int{4, 3}, batch: 300, shuffle: true},
		{name: "split", fanouts: []int{5, 2}, input: goagnes.InputNodes{Split: "train"}, batch: 50, shuffle: true},
		{name: "mask", fanouts: []int{3}, input: goagnes.InputNodes{Mask: mask}, batch: 100, drop: true},
		{name: "repeated seeds", fanouts: []int{3, 2}, input: goagnes.InputNodes{IDs: repeated}, batch: 8},
		{name: "repeated seeds, shuffled", fanouts: []int{40}, input: goagnes.InputNodes{IDs: repeated}, batch: 8, shuffle: true},
		{name: "repeated seeds, all neighbours", fanouts: []int{-1}, input: goagnes.InputNodes{IDs: repeated}, batch: 5},
		{name: "a 0 in the middle", fanouts: []int{3, 0, 4}, input: goagnes.InputNodes{IDs: []int64{1, 2, 3}}, batch: 2},
		{name: "a 0 first", fanouts: []int{0, 4}, input: goagnes.InputNodes{IDs: []int64{1, 2, 3}}, batch: 2},
		{name: "large k", fanouts: []int{49, 100}, input: goagnes.InputNodes{IDs: []int64{7, 31, 5, 6, 2000, 2001}}, batch: 4},
		{name: "k around 4096", fanouts: []int{4096}, input: goagnes.InputNodes{IDs: []int64{7, 1200, 2399}}, batch: 1},
		{name: "k of a hub", fanouts: []int{3000}, input: goagnes.InputNodes{IDs: []int64{2399, 7, 1200, 7}}, batch: 4},
		{name: "all then some", fanouts: []int{-1, 1}, input: goagnes.InputNodes{Split: "train"}, batch: 200, shuffle: true, drop: true},
		{name: "no hops", input: goagnes.InputNodes{Split: "train"}, batch: 64, shuffle: true},
		{name: "five hops", fanouts: []int{2, 2, 2, 2, 2}, input: goagnes.InputNodes{Split: "train"}, batch: 40, shuffle: true},
		{name: "one minibatch", fanouts: []int{2}, input: goagnes.InputNodes{Split: "train"}, batch: 1 << 20, shuffle: true},
		{name: "one too few", fanouts: []int{2}, input: goagnes.InputNodes{IDs: []int64{9, 8}}, batch: 3, drop: true},
		{name: "empty ids", fanouts: []int{2}, input: goagnes.InputNodes{IDs: []int64{}}},
		{name: "default batch", fanouts: []int{2, 2}, input: goagnes.InputNodes{IDs: []int64{2599, 7, 2598}}},
		{name: "isolated", fanouts: []int{2, -1}, input: goagnes.InputNodes{IDs: []int64{2400, 2599, 2500}}, batch: 2},
	}
	seeds := []uint64{0, 1, 1<<63 + 12345, 0xffffffffffffffff}
	engines := []string{"auto", "pread", "buffered"}
	repeats, hubs := 0, 0
	turns := len(all)
	if testing.Short() {
		turns = 3
	}
	for i, p := range plans {
		seed := seeds[i%len(seeds)]
		epochs := map[uint32][]*plainBatch{}
		q := g.plain(p, seed)
		for _, e := range []uint32{0, 1, 7} {
			epochs[e] = q.epoch(e)
			for _, b := range epochs[e] {
				repeats, hubs = repeats+b.repeatedSeeds, hubs+b.hubsDrawn
			}
		}
		for turn := range turns {
			s := all[(turn*5+i)%len(all)]
			o := outputs[(turn+i)%len(outputs)]
			o.NumNeighbors, o.InputNodes, o.BatchSize, o.Shuffle, o.DropLast = p.fanouts, p.input, p.batch, p.shuffle, p.drop
			o.Seed, o.HyperbatchSize, o.Mode = &seed, s.hyperbatch, s.mode
			if o.FeatureBuffer = s.feature; len(p.fanouts) > 0 {
				o.GraphBuffer = s.graph
			}
			t.Run(fmt.Sprintf("%s/%d", p.name, turn), func(t *testing.T) {
				store, err := goagnes.Open(s.path, goagnes.OpenOptions{Memory: s.memory, NumThreads: s.threads, Scratch: dir, IO: engines[(turn+i)%len(engines)]})
				if err != nil {
					t.Fatal(err)
				}
				defer store.Close()
				l, err := goagnes.NewLoader(store, o)
				if err != nil {
					t.Fatal(err)
				}
				defer l.Close()
				g.holdEqual(t, l, o, epochs[0])
				g.holdEqual(t, l, o, epochs[1])
				l.SetEpoch(7)
				g.holdEqual(t, l, o, epochs[7])
			})
		}
	}
	if repeats == 0 || hubs == 0 {
		t.Errorf("%d repeated seeds and %d sampled hubs: the plans miss what they are for", repeats, hubs)
	}
}

// TestEqualitySmall holds graphs at the edges of what a store can be.
func TestEqualitySmall(t *testing.T) {
	r := rand.New(rand.NewPCG(6, 6))
	cases := []struct {
		name string
		g    rawGraph
	}{
		{"one node", rawGraph{nodes: 1}},
		{"one node with x", rawGraph{nodes: 1, xType: layout.Float32, xShape: []int64{3}}},
		{"one node, three loops", rawGraph{nodes: 1, src: []int64{0, 0, 0}, dst: []int64{0, 0, 0}, xType: layout.Float16, xShape: []int64{1}}},
		{"no edges", rawGraph{nodes: 5, xType: layout.Float32, xShape: []int64{2}, yType: layout.Int64}},
		{"y alone", rawGraph{nodes: 9, src: []int64{0, 8, 0}, dst: []int64{8, 8, 1}, yType: layout.Int16}},
		{"neither x nor y", rawGraph{nodes: 9, src: []int64{0, 8, 0}, dst: []int64{8, 8, 1}}},
		{"rows of odd bytes", rawGraph{nodes: 40, src: []int64{0, 8, 0}, dst: []int64{8, 8, 1}, xType: layout.Float16, xShape: []int64{15}, yType: layout.Uint8}},
		{"rows longer than a block", rawGraph{nodes: 30, src: []int64{0, 8, 0}, dst: []int64{8, 8, 1}, xType: layout.Float32, xShape: []int64{2500}, yType: layout.Int64}},
	}
	dir := t.TempDir()
	for _, c := range cases {
		g := &c.g
		if g.xType != 0 {
			g.x = noise(r, g.xType, g.nodes*g.rowBytes()/g.xType.Size())
		}
		if g.yType != 0 {
			g.y = noise(r, g.yType, g.nodes)
		}
		for i, order := range []string{"original", "degree", "bfs"} {
			path := filepath.Join(dir, c.name+order)
			g.build(t, path, goagnes.BuildOptions{Order: order, BlockSize: 4096 << i, Compression: []string{"", "zstd:1", "zstd"}[i]})
			for k, fanouts := range [][]int{{2, 2}, {-1}, nil} {
				o := outputs[(i+2*k)%len(outputs)]
				seed := uint64(k)
				o.NumNeighbors, o.BatchSize, o.Shuffle, o.Seed = fanouts, 4, k == 0, &seed
				t.Run(fmt.Sprint(c.name, "/", order, fanouts), func(t *testing.T) {
					store, err := goagnes.Open(path, goagnes.OpenOptions{Memory: 16 << 20, Scratch: dir})
					if err != nil {
						t.Fatal(err)
					}
					defer store.Close()
					l, err := goagnes.NewLoader(store, o)
					if err != nil {
						t.Fatal(err)
					}
					defer l.Close()
					q := g.plain(plan{fanouts: fanouts, batch: 4, shuffle: k == 0}, seed)
					g.holdEqual(t, l, o, q.epoch(0))
					g.holdEqual(t, l, o, q.epoch(1))
				})
			}
		}
	}
}
