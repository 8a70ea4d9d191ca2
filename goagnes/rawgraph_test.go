package goagnes_test

// Graphs in memory that the tests build stores of, and a minibatch of a loader
// or of an export held against the plain sampler's.

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"unsafe"

	"github.com/goagnes/goagnes/goagnes"
	"github.com/goagnes/goagnes/layout"
)

func bytesOf[T any](s []T) []byte {
	var zero T
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(s))), len(s)*int(unsafe.Sizeof(zero)))
}

// rawGraph is a graph with arrays of any type, in memory.
type rawGraph struct {
	nodes    int
	src, dst []int64
	x, y     []byte // nil: none
	xType    layout.DType
	xShape   []int64 // of a row
	yType    layout.DType
	splits   map[string][]int64
	// Edits of the edge list, as in goagnes.BuildOptions.
	undirected            bool
	selfLoops, duplicates string
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

// fill gives features and labels of the graph's types, where it has them.
func (g *rawGraph) fill(r *rand.Rand) *rawGraph {
	if g.xType != 0 {
		g.x = noise(r, g.xType, g.nodes*g.rowBytes()/g.xType.Size())
	}
	if g.yType != 0 {
		g.y = noise(r, g.yType, g.nodes)
	}
	return g
}

// draw gives a split of the share of nodes, in a random order.
func (g *rawGraph) draw(r *rand.Rand, split string, share int) *rawGraph {
	var ids []int64
	for v := range int64(g.nodes) {
		if r.IntN(share) == 0 {
			ids = append(ids, v)
		}
	}
	r.Shuffle(len(ids), func(i, j int) { ids[i], ids[j] = ids[j], ids[i] })
	g.splits = map[string][]int64{split: ids}
	return g
}

func (g *rawGraph) build(t testing.TB, dir string, o goagnes.BuildOptions) *goagnes.BuildReport {
	t.Helper()
	report, err := g.write(dir, o)
	if err != nil {
		t.Fatal(err)
	}
	return report
}

func (g *rawGraph) write(dir string, o goagnes.BuildOptions) (*goagnes.BuildReport, error) {
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
	if g.undirected || g.selfLoops != "" || g.duplicates != "" {
		o.Undirected, o.SelfLoops, o.Duplicates = g.undirected, g.selfLoops, g.duplicates
	}
	return goagnes.Build(context.Background(), dir, o)
}

// edges returns the edges after the edits, by ascending id.
func (g *rawGraph) edges() (src, dst, ids []int64) {
	seen, looped := map[[2]int64]bool{}, make([]bool, g.nodes)
	add := func(u, v, id int64) {
		pair := [2]int64{u, v}
		if u == v && g.selfLoops == "drop" || g.duplicates == "drop" && seen[pair] {
			return
		}
		if g.duplicates == "drop" {
			seen[pair] = true
		}
		looped[u] = looped[u] || u == v
		src, dst, ids = append(src, u), append(dst, v), append(ids, id)
	}
	next := int64(len(g.src))
	for e := range g.src {
		add(g.src[e], g.dst[e], int64(e))
	}
	if g.undirected {
		for e := range g.src {
			if g.src[e] != g.dst[e] {
				add(g.dst[e], g.src[e], next+int64(e))
			}
		}
		next *= 2
	}
	if g.selfLoops == "add" {
		for v := range int64(g.nodes) {
			if !looped[v] {
				add(v, v, next+v)
			}
		}
	}
	return src, dst, ids
}

// hubGraph has nodes on both sides of the degrees where draws change: 9000
// (four blocks of 4 KiB), 4097, 4096; parallel edges, loops and isolated nodes.
func hubGraph(r *rand.Rand) *rawGraph {
	g := &rawGraph{nodes: 2600, xType: layout.Float32, xShape: []int64{37}, yType: layout.Int64}
	live := int64(2400) // the rest is isolated
	edge := func(u, v int64) { g.src, g.dst = append(g.src, u), append(g.dst, v) }
	for _, hub := range [][2]int64{{7, 9000}, {2399, 4097}, {1200, 4096}, {31, 700}, {2000, 101}, {2001, 100}, {5, 49}, {6, 48}} {
		for range hub[1] {
			edge(r.Int64N(live), hub[0])
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
	return g.fill(r).draw(r, "train", 9)
}

// skewedGraph has skewed in- and out-degrees, parallel edges, loops and isolated
// nodes, and rows that cross pages and blocks.
func skewedGraph(r *rand.Rand, nodes, edges, features int) *rawGraph {
	g := &rawGraph{nodes: nodes, xType: layout.Float32, xShape: []int64{int64(features)}, yType: layout.Int64}
	live := nodes - nodes/10 // the others are isolated
	skewed := func(power float64) int64 {
		return int64(math.Pow(r.Float64(), power) * float64(live))
	}
	for e := range edges {
		u, v := (skewed(2)*7919+13)%int64(live), (skewed(6)*104729+5)%int64(live)
		if e%50 == 1 { // a parallel edge
			u, v = g.src[e-1], g.dst[e-1]
		}
		if e%97 == 0 { // a loop
			u = v
		}
		g.src, g.dst = append(g.src, u), append(g.dst, v)
	}
	return g.fill(r).draw(r, "train", 6)
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

// options returns the loader's options of a plan.
func (p plan) options(seed uint64) goagnes.LoaderOptions {
	return goagnes.LoaderOptions{NumNeighbors: p.fanouts, InputNodes: p.input, BatchSize: p.batch, Shuffle: p.shuffle, DropLast: p.drop, Seed: &seed}
}

func (g *rawGraph) plain(p plan, seed uint64) *plainPlan {
	src, dst, ids := g.edges()
	q := newPlainPlan(g.nodes, src, dst, ids)
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
		degree := make([]uint32, len(b.nodes))
		for i, v := range b.nodes {
			degree[i] = b.degrees[v]
		}
		a["degree"] = bytesOf(degree)
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

// minibatch is what a loader's and an export's minibatch have.
type minibatch struct {
	arrays                           []goagnes.Array
	index                            int64
	batchSize, nodes, edges          int
	numSampledNodes, numSampledEdges []int64
}

func loaded(b *goagnes.Batch) minibatch {
	return minibatch{b.Arrays(), b.Index, b.BatchSize, b.NumNodes, b.NumEdges, b.NumSampledNodes, b.NumSampledEdges}
}

func exported(b *goagnes.ExportedBatch) minibatch {
	return minibatch{b.Arrays(), b.Index, b.BatchSize, b.NumNodes, b.NumEdges, b.NumSampledNodes, b.NumSampledEdges}
}

// equal says how minibatch m differs from the plain sampler's, nil if in nothing.
func (g *rawGraph) equal(b minibatch, m int, w *plainBatch, o goagnes.LoaderOptions) error {
	arrays, shapes := g.arrays(w, o), g.shapes(w)
	for _, a := range b.arrays {
		if expect, ok := arrays[a.Name]; !ok || !bytes.Equal(a.Bytes(), expect) {
			return fmt.Errorf("minibatch %d: %s is %s, want %s", m, a.Name, digest(a.Bytes()), digest(expect))
		}
		if got := fmt.Sprint(a.Shape, a.DType); got != shapes[a.Name] {
			return fmt.Errorf("minibatch %d: %s has shape and type %s, want %s", m, a.Name, got, shapes[a.Name])
		}
		delete(arrays, a.Name)
	}
	if len(arrays) > 0 {
		return fmt.Errorf("minibatch %d lacks %d arrays", m, len(arrays))
	}
	if b.index != int64(m) || b.batchSize != len(w.input) || b.nodes != len(w.nodes) || b.edges != len(w.ids) ||
		!slices.Equal(b.numSampledNodes, w.nodesByHop) || !slices.Equal(b.numSampledEdges, w.edgesByHop) {
		return fmt.Errorf("minibatch %d: number %d, %d seeds, nodes %v, edges %v; want %d, %v, %v", m, b.index, b.batchSize, b.numSampledNodes, b.numSampledEdges, len(w.input), w.nodesByHop, w.edgesByHop)
	}
	return nil
}

// follow takes the minibatches from first on of an epoch that was started, and
// its end, and says how they differ from the plain sampler's.
func (g *rawGraph) follow(l *goagnes.Loader, o goagnes.LoaderOptions, first int, want []*plainBatch) error {
	ctx := context.Background()
	for m := first; m < len(want); m++ {
		b, err := l.Next(ctx)
		if err != nil {
			return fmt.Errorf("minibatch %d of %d: %w", m, len(want), err)
		}
		err = g.equal(loaded(b), m, want[m], o)
		for _, a := range b.Arrays() {
			if uintptr(a.Pointer)%64 != 0 && err == nil {
				err = fmt.Errorf("minibatch %d: %s lies at %p", m, a.Name, a.Pointer)
			}
		}
		b.Release()
		if err != nil {
			return err
		}
	}
	for range 2 {
		if _, err := l.Next(ctx); !errors.Is(err, io.EOF) {
			return fmt.Errorf("after the last minibatch: %w", err)
		}
	}
	return nil
}

// holdEqual runs one epoch and holds it against the plain sampler's.
func (g *rawGraph) holdEqual(t *testing.T, l *goagnes.Loader, o goagnes.LoaderOptions, want []*plainBatch) {
	t.Helper()
	if l.Len() != len(want) {
		t.Fatalf("Len is %d, want %d", l.Len(), len(want))
	}
	if err := l.Start(context.Background()); err != nil {
		t.Fatal(err)
	}
	if err := g.follow(l, o, 0, want); err != nil {
		t.Fatal(err)
	}
}

func digest(b []byte) string { return fmt.Sprintf("%d bytes %x…", len(b), b[:min(len(b), 24)]) }
