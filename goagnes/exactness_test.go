package goagnes_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unsafe"

	"github.com/goagnes/goagnes/goagnes"
	"github.com/goagnes/goagnes/layout"
)

var exactSeed = flag.Uint64("exact.seed", 1, "seed of the settings that TestExactness tries")

// testGraph is a raw graph in memory: skewed in-degrees with hubs, parallel
// edges, loops and isolated nodes.
type testGraph struct {
	nodes, edges int
	edgeIndex    []int64
	x            []float32
	y            []int64
	train        []int64
	features     int
}

func newTestGraph(r *rand.Rand, nodes, edges, features int) *testGraph {
	g := &testGraph{nodes: nodes, edges: edges, features: features, edgeIndex: make([]int64, 2*edges)}
	live := nodes - nodes/10 // the others are isolated
	skewed := func(power float64) int64 {
		return int64(math.Pow(r.Float64(), power) * float64(live))
	}
	for e := range edges {
		g.edgeIndex[e] = (skewed(2)*7919 + 13) % int64(live)
		g.edgeIndex[edges+e] = (skewed(6)*104729 + 5) % int64(live)
		if e%50 == 1 { // a parallel edge
			g.edgeIndex[e], g.edgeIndex[edges+e] = g.edgeIndex[e-1], g.edgeIndex[edges+e-1]
		}
		if e%97 == 0 { // a loop
			g.edgeIndex[e] = g.edgeIndex[edges+e]
		}
	}
	g.x = make([]float32, nodes*features)
	for i := range g.x {
		g.x[i] = r.Float32()
	}
	g.y = make([]int64, nodes)
	for i := range g.y {
		g.y[i] = int64(r.IntN(12)) - 1
	}
	for v := range nodes {
		if r.IntN(6) == 0 {
			g.train = append(g.train, int64(v))
		}
	}
	r.Shuffle(len(g.train), func(i, j int) { g.train[i], g.train[j] = g.train[j], g.train[i] })
	return g
}

func bytesOf[T any](s []T) []byte {
	var zero T
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(s))), len(s)*int(unsafe.Sizeof(zero)))
}

func (g *testGraph) build(t testing.TB, dir string, o goagnes.BuildOptions) {
	t.Helper()
	memory := func(name string, d layout.DType, b []byte, shape ...int64) goagnes.Input {
		return goagnes.Input{Memory: &goagnes.Memory{Name: name, Data: b, DType: d, Shape: shape}}
	}
	o.EdgeIndex = memory("edge_index", layout.Int64, bytesOf(g.edgeIndex), 2, int64(g.edges))
	o.X = memory("x", layout.Float32, bytesOf(g.x), int64(g.nodes), int64(g.features))
	o.Y = memory("y", layout.Int64, bytesOf(g.y), int64(g.nodes))
	o.Splits = map[string]goagnes.Input{"train": memory("train", layout.Int64, bytesOf(g.train), int64(len(g.train)))}
	if _, err := goagnes.Build(context.Background(), dir, o); err != nil {
		t.Fatal(err)
	}
}

// setting is one way to prepare the same minibatches.
type setting struct {
	store      string // order and block size
	memory     int64
	hyperbatch int
	threads    int
	mode       string
	graph      int64 // buffers in bytes, 0: default
	feature    int64
}

func (s setting) String() string {
	return fmt.Sprintf("store=%s memory=%d hyperbatch=%d threads=%d mode=%s graph_buffer=%d feature_buffer=%d", s.store, s.memory, s.hyperbatch, s.threads, s.mode, s.graph, s.feature)
}

// drain runs two epochs and returns every array of every minibatch, and the
// loader's counts.
func drain(t testing.TB, path string, s setting, o goagnes.LoaderOptions) ([]map[string][]byte, goagnes.Stats) {
	t.Helper()
	store, err := goagnes.Open(path, goagnes.OpenOptions{Memory: s.memory, NumThreads: s.threads, Scratch: t.TempDir()})
	if err != nil {
		t.Fatalf("%v: %v", s, err)
	}
	defer store.Close()
	o.HyperbatchSize, o.Mode, o.GraphBuffer, o.FeatureBuffer = s.hyperbatch, s.mode, s.graph, s.feature
	loader, err := goagnes.NewLoader(store, o)
	if err != nil {
		t.Fatalf("%v: %v", s, err)
	}
	defer loader.Close()
	var all []map[string][]byte
	for range 2 {
		if err := loader.Start(context.Background()); err != nil {
			t.Fatal(err)
		}
		for {
			b, err := loader.Next(context.Background())
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatalf("%v: %v", s, err)
			}
			arrays := map[string][]byte{}
			for _, a := range b.Arrays() {
				arrays[a.Name] = bytes.Clone(a.Bytes())
				arrays[a.Name+" shape"] = []byte(fmt.Sprint(a.Shape, a.DType))
			}
			arrays["hops"] = []byte(fmt.Sprint(b.NumSampledNodes, b.NumSampledEdges, b.BatchSize, b.NumNodes))
			all = append(all, arrays)
			b.Release()
		}
	}
	return all, loader.Stats()
}

// TestExactness prepares one plan under many settings: every array of every
// minibatch must be equal bit for bit, and equal to the plain sampler's.
func TestExactness(t *testing.T) {
	seed := *exactSeed
	r := rand.New(rand.NewPCG(seed, 0))
	rerun := fmt.Sprintf("re-run with: go test ./goagnes -run TestExactness -exact.seed %d", seed)
	g := newTestGraph(r, 5000, 60000, 301)
	dir := t.TempDir()
	stores := map[string]string{}
	sizes := []int64{4, 16, 256, 1024}
	if testing.Short() {
		sizes = []int64{16, 1024}
	}
	var names []string
	for _, order := range []string{"original", "degree"} {
		for _, kib := range sizes {
			name := fmt.Sprintf("%s-%dKiB", order, kib)
			stores[name] = filepath.Join(dir, name)
			names = append(names, name)
			g.build(t, stores[name], goagnes.BuildOptions{Order: order, BlockSize: kib << 10})
		}
	}
	a, errA := os.ReadFile(filepath.Join(stores["original-16KiB"], layout.SectionX))
	b, errB := os.ReadFile(filepath.Join(stores["degree-16KiB"], layout.SectionX))
	if files, _ := os.ReadDir(stores["degree-16KiB"]); errA == nil && errB == nil && bytes.Equal(a, b) {
		t.Fatalf("both orders have the same features file among %v", files)
	}
	loaderSeed := r.Uint64()
	o := goagnes.LoaderOptions{NumNeighbors: []int{7, 5, 3}, InputNodes: goagnes.InputNodes{Split: "train"}, BatchSize: 64, Shuffle: true, Seed: &loaderSeed}
	base := setting{store: "original-1024KiB", memory: 256 << 20, hyperbatch: 1024, threads: 2, mode: "agnes"}
	want, baseStats := drain(t, stores[base.store], base, o)
	if len(want) != 2*((len(g.train)+63)/64) {
		t.Fatalf("%d minibatches, want %d", len(want), 2*((len(g.train)+63)/64))
	}
	for i, m := range want {
		g.compare(t, o, i, len(want)/2, m)
	}
	tight := int64(0)
	count := 44
	if testing.Short() {
		count = 6
	}
	for i := range count {
		s := setting{
			store:      names[i%len(names)],
			memory:     []int64{9 << 20, 12 << 20, 24 << 20, 512 << 20}[r.IntN(4)],
			hyperbatch: []int{1, 2, 5, 17, 1000}[r.IntN(5)],
			threads:    1 + r.IntN(4),
			mode:       []string{"agnes", "agnes", "agnes-no", "agnes-paper"}[r.IntN(4)],
		}
		if i%3 == 0 { // with buffers of a few frames, in every mode
			s.graph, s.feature = 3<<20, 3<<20
			s.memory = max(s.memory, 24<<20)
		}
		if i == 0 { // whatever the seed, one setting must spill
			s.memory, s.hyperbatch, s.mode, s.graph, s.feature = 9<<20, 1000, "agnes", 0, 0
		}
		if strings.HasSuffix(s.store, "1024KiB") {
			s.memory = max(s.memory, 24<<20)
		}
		got, stats := drain(t, stores[s.store], s, o)
		if len(got) != len(want) {
			t.Fatalf("%v: %d minibatches, want %d; %s", s, len(got), len(want), rerun)
		}
		for m := range want {
			for name := range want[m] {
				if !bytes.Equal(got[m][name], want[m][name]) {
					t.Fatalf("%v: minibatch %d differs in %s; %s", s, m, name, rerun)
				}
			}
			if len(got[m]) != len(want[m]) {
				t.Fatalf("%v: minibatch %d has other arrays; %s", s, m, rerun)
			}
		}
		// Each setting must have had its effect; a budget far above the rows keeps
		// them from one hyperbatch to the next.
		single := s.hyperbatch == 1 || s.mode == "agnes-no"
		if single && stats.Hyperbatches != stats.Minibatches {
			t.Errorf("%v: %d hyperbatches for %d minibatches; %s", s, stats.Hyperbatches, stats.Minibatches, rerun)
		}
		if single && s.memory < 512<<20 && stats.FeatureBlocksRead <= baseStats.FeatureBlocksRead {
			t.Errorf("%v: %d feature blocks read, no more than the hyperbatch's %d; %s", s, stats.FeatureBlocksRead, baseStats.FeatureBlocksRead, rerun)
		}
		if stats.SpilledRowBytes > 0 {
			tight++
		}
	}
	if tight == 0 {
		t.Errorf("no setting spilled rows; %s", rerun)
	}
}

// compare holds a minibatch against the raw arrays: whatever was drawn, edges,
// ids, rows and labels must be the graph's own, and the structure PyG's.
func (g *testGraph) compare(t *testing.T, o goagnes.LoaderOptions, i, perEpoch int, m map[string][]byte) {
	t.Helper()
	int64s := func(name string) []int64 {
		b := m[name]
		out := make([]int64, len(b)/8)
		for k := range out {
			out[k] = int64(binary.LittleEndian.Uint64(b[8*k:]))
		}
		return out
	}
	nid, ei, eid, input, y := int64s("n_id"), int64s("edge_index"), int64s("e_id"), int64s("input_id"), int64s("y")
	for k, p := range input {
		if nid[k] != g.train[p] {
			t.Fatalf("minibatch %d: seed %d is %d, input_nodes[%d] is %d", i, k, nid[k], p, g.train[p])
		}
	}
	for k, e := range eid {
		if g.edgeIndex[e] != nid[ei[k]] || g.edgeIndex[g.edges+int(e)] != nid[ei[len(eid)+k]] {
			t.Fatalf("minibatch %d: edge %d is not edge %d of the graph", i, k, e)
		}
	}
	for k, v := range nid {
		if y[k] != g.y[v] || !bytes.Equal(m["x"][k*4*g.features:(k+1)*4*g.features], bytesOf(g.x[int(v)*g.features:(int(v)+1)*g.features])) {
			t.Fatalf("minibatch %d: row %d is not that of node %d", i, k, v)
		}
	}
}
