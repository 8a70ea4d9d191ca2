package goagnes_test

// Rows, in-edges, ids and splits of single nodes, held to the imported arrays.

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/goagnes/goagnes/goagnes"
	"github.com/goagnes/goagnes/layout"
	"github.com/goagnes/goagnes/tests/fixture/graph"
	"github.com/goagnes/goagnes/tests/fixture/life"
)

// selections are nodes in every form, with the list that each stands for.
func selections(r *rand.Rand, n int64) map[string]goagnes.Nodes {
	some := make([]int64, 3000)
	for i := range some {
		some[i] = r.Int64N(n)
	}
	return map[string]goagnes.Nodes{
		"none":              {IDs: []int64{}},
		"one":               {IDs: []int64{n - 1}},
		"repeated":          {IDs: []int64{5, 5, 0, 5}},
		"any order":         {IDs: some},
		"all":               {Step: 1, Count: n},
		"all, backwards":    {First: n - 1, Step: -1, Count: n},
		"every third":       {First: 2, Step: 3, Count: (n - 2 + 2) / 3},
		"a few":             {First: 100, Step: 1, Count: 7},
		"a few, far apart":  {First: n - 1, Step: -600, Count: 4},
		"an empty range":    {Step: 1},
		"half of the nodes": {First: n / 2, Step: 1, Count: n / 2},
	}
}

func listed(n goagnes.Nodes) []int64 {
	if n.IDs != nil {
		return n.IDs
	}
	list := []int64{}
	for i := range n.Count {
		list = append(list, n.First+i*n.Step)
	}
	return list
}

func TestNodes(t *testing.T) {
	for _, order := range []string{"original", "degree"} {
		for _, memory := range []int64{2 << 20, 64 << 20} {
			t.Run(fmt.Sprint(order, memory), func(t *testing.T) { testNodes(t, order, memory) })
		}
	}
}

func testNodes(t *testing.T, order string, memory int64) {
	ctx := context.Background()
	r := rand.New(rand.NewPCG(5, 7))
	g := graph.Hub(r)
	path := filepath.Join(t.TempDir(), "store")
	g.Build(t, path, goagnes.BuildOptions{BlockSize: 4096, Order: order})
	before := life.TakeCensus(t)
	s := life.Open(t, path, goagnes.OpenOptions{Memory: memory})
	uses := s.Info().MemoryByUse
	n := int64(g.Nodes)
	for name, nodes := range selections(r, n) {
		for array, all := range map[string][]byte{"x": g.X, "y": g.Y} {
			row := int64(len(all)) / n
			want := []byte{}
			for _, v := range listed(nodes) {
				want = append(want, all[v*row:(v+1)*row]...)
			}
			got := make([]byte, len(want))
			if err := s.ReadNodes(ctx, array, nodes, got); err != nil || !bytes.Equal(got, want) {
				t.Errorf("%s of %s: %v, or other rows than imported", array, name, err)
			}
		}
		ids := make([]int64, nodes.Len())
		if err := s.OriginalIDs(ctx, nodes, ids); err != nil || !slices.Equal(ids, listed(nodes)) {
			t.Errorf("ids of %s: %v, or not the dense ones", name, err)
		}
	}
	for _, v := range []int64{0, 7, 2399, 1200, 31, 5, n - 1} {
		var sources, edges []int64
		for e, dst := range g.Dst {
			if dst == v {
				sources, edges = append(sources, g.Src[e]), append(edges, int64(e))
			}
		}
		gotS, gotE := make([]int64, len(edges)), make([]int64, len(edges))
		d, err := s.Neighbors(ctx, v, gotS, gotE)
		if err != nil || d != int64(len(edges)) || !slices.Equal(gotS, sources) || !slices.Equal(gotE, edges) {
			t.Errorf("in-edges of %d: %d, %v, or others than imported", v, d, err)
		}
		if len(edges) > 0 {
			short := make([]int64, len(edges)-1)
			if d, err := s.Neighbors(ctx, v, short, short); err != nil || d != int64(len(edges)) || slices.Max(append(short, 0)) != 0 {
				t.Errorf("in-edges of %d without room: %d, %v", v, d, err)
			}
		}
	}
	src, dst := make([]int64, len(g.Src)), make([]int64, len(g.Dst))
	if err := s.ReadEdges(ctx, src, dst, nil); err != nil || !slices.Equal(src, g.Src) || !slices.Equal(dst, g.Dst) {
		t.Errorf("all edges: %v, or others than imported", err)
	}
	for name, want := range g.Splits {
		got := make([]int64, len(want))
		if err := s.ReadSplit(ctx, name, got); err != nil || !slices.Equal(got, want) {
			t.Errorf("split %s: %v, or other nodes than imported", name, err)
		}
	}
	if now := s.Info().MemoryByUse; fmt.Sprint(now) != fmt.Sprint(uses) {
		t.Errorf("reading left %v in use, %v before", now, uses)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	before.Hold(t)
}

// TestNodesRefused holds refusals to their class and to naming what is wrong.
func TestNodesRefused(t *testing.T) {
	g := graph.Ring(600)
	path := filepath.Join(t.TempDir(), "store")
	g.Build(t, path, goagnes.BuildOptions{BlockSize: 4096, Order: "degree"})
	s := life.Open(t, path, goagnes.OpenOptions{Memory: 2 << 20})
	defer s.Close()
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	live := context.Background()
	huge := goagnes.Nodes{IDs: slices.Repeat([]int64{1}, 3<<18)}
	for _, c := range []struct {
		name, class, want string
		do                func() error
	}{
		{"no such array", goagnes.ClassUsage, `"z"`, func() error { return s.ReadNodes(live, "z", goagnes.Nodes{}, nil) }},
		{"ids of the store itself", goagnes.ClassUsage, `"internal"`, func() error { return s.ReadNodes(live, "internal", goagnes.Nodes{}, nil) }},
		{"past the end", goagnes.ClassUsage, "600 at position 1", func() error {
			return s.ReadNodes(live, "x", goagnes.Nodes{IDs: []int64{1, 600}}, nil)
		}},
		{"negative", goagnes.ClassUsage, "-1 at position 0", func() error { return s.OriginalIDs(live, goagnes.Nodes{IDs: []int64{-1}}, make([]int64, 1)) }},
		{"a range past the end", goagnes.ClassUsage, "0 to 600", func() error {
			return s.ReadNodes(live, "x", goagnes.Nodes{Step: 1, Count: 601}, nil)
		}},
		{"another size", goagnes.ClassUsage, "out", func() error { return s.ReadNodes(live, "x", goagnes.Nodes{IDs: []int64{1}}, nil) }},
		{"larger than the budget", goagnes.ClassBudget, "set memory to ", func() error { return s.ReadNodes(live, "x", huge, nil) }},
		{"in-edges of no node", goagnes.ClassUsage, "600", func() error { _, err := s.Neighbors(live, 600, nil, nil); return err }},
		{"an id of no node", goagnes.ClassUsage, "777 at position 2", func() error {
			return s.DenseIDs(live, []int64{1, 2, 777}, make([]int64, 3))
		}},
		{"no such split", goagnes.ClassUsage, "the store has train", func() error { return s.ReadSplit(live, "other", nil) }},
		{"cancelled", goagnes.ClassInterrupted, "cancel", func() error {
			return s.ReadNodes(ctx, "x", goagnes.Nodes{IDs: []int64{3}}, make([]byte, g.RowBytes()))
		}},
	} {
		if err := c.do(); goagnes.Class(err) != c.class || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v (%s), want class %s and %q", c.name, err, goagnes.Class(err), c.class, c.want)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := s.ReadNodes(live, "x", goagnes.Nodes{IDs: []int64{3}}, make([]byte, g.RowBytes())); !errors.Is(err, goagnes.ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
}

// TestRankedIDs translates between dense ids and those of the source.
func TestRankedIDs(t *testing.T) {
	ctx := context.Background()
	r := rand.New(rand.NewPCG(8, 8))
	distinct := map[int64]bool{}
	for len(distinct) < 5000 {
		distinct[r.Int64N(1<<40)] = true
	}
	var sorted []int64
	for v := range distinct {
		sorted = append(sorted, v)
	}
	slices.Sort(sorted)
	edges := append(slices.Clone(sorted), sorted[1:]...)
	edges = append(edges, sorted[0]) // a ring over all of them
	path := filepath.Join(t.TempDir(), "store")
	in := goagnes.Input{Memory: &goagnes.Memory{Name: "edge_index", Data: graph.BytesOf(edges), DType: layout.Int64, Shape: []int64{2, 5000}}}
	if _, err := goagnes.Build(ctx, path, goagnes.BuildOptions{EdgeIndex: in, IDs: "rank", Order: "degree", BlockSize: 4096}); err != nil {
		t.Fatal(err)
	}
	s := life.Open(t, path, goagnes.OpenOptions{Memory: 4 << 20})
	defer s.Close()
	order := make([]int64, 20000)
	want := make([]int64, len(order))
	for i := range order {
		want[i] = r.Int64N(5000)
		order[i] = sorted[want[i]]
	}
	dense, back := make([]int64, len(order)), make([]int64, len(order))
	if err := s.DenseIDs(ctx, order, dense); err != nil || !slices.Equal(dense, want) {
		t.Errorf("dense ids: %v, or others than the ranks", err)
	}
	if err := s.OriginalIDs(ctx, goagnes.Nodes{IDs: dense}, back); err != nil || !slices.Equal(back, order) {
		t.Errorf("ids of the source: %v, or others", err)
	}
	for _, wrong := range []int64{-1, sorted[0] - 1, sorted[len(sorted)-1] + 1, sorted[99] + 1} {
		if distinct[wrong] {
			continue
		}
		order[17] = wrong
		if err := s.DenseIDs(ctx, order, dense); goagnes.Class(err) != goagnes.ClassUsage || !strings.Contains(err.Error(), fmt.Sprintf("%d at position 17", wrong)) {
			t.Errorf("%d: %v", wrong, err)
		}
	}
}

// TestSetSplit sets splits on the open store: loaders, training and prediction
// see them, the files do not change.
func TestSetSplit(t *testing.T) {
	ctx := context.Background()
	g := graph.Ring(600)
	path := filepath.Join(t.TempDir(), "store")
	g.Build(t, path, goagnes.BuildOptions{BlockSize: 4096})
	s := life.Open(t, path, goagnes.OpenOptions{Memory: 8 << 20})
	defer s.Close()
	base := s.Info().MemoryByUse
	train := g.Splits["train"]
	own := []int64{train[3], 599, train[0], 599}
	report, err := s.SetSplit(ctx, "mine", goagnes.InputNodes{IDs: own})
	if err != nil || report.Nodes != 4 || report.Repeated != 1 || report.Overlaps["train"] < 2 {
		t.Fatalf("%+v, %v", report, err)
	}
	read := make([]int64, 4)
	if err := s.ReadSplit(ctx, "mine", read); err != nil || !slices.Equal(read, own) {
		t.Errorf("%v, %v", read, err)
	}
	l := life.Load(t, s, goagnes.LoaderOptions{InputNodes: goagnes.InputNodes{Split: "mine"}, BatchSize: 4})
	mask := make([]bool, 600)
	mask[8], mask[300] = true, true
	if _, err := s.SetSplit(ctx, "mine", goagnes.InputNodes{Mask: mask}); err != nil {
		t.Fatal(err)
	}
	if err := l.Start(ctx); err != nil {
		t.Fatal(err)
	}
	b, err := l.Next(ctx) // of the loader made before the mask
	if err != nil {
		t.Fatal(err)
	}
	if ids, _ := b.Array("n_id"); !bytes.Equal(ids.Bytes()[:24], graph.BytesOf(own[:3])) {
		t.Error("the loader does not have the split as it was")
	}
	b.Release()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if got := s.Splits()["mine"]; got != 2 {
		t.Errorf("%d nodes, want the mask's 2", got)
	}
	if uses := s.Info().MemoryByUse["splits"]; uses != base["splits"]+16 {
		t.Errorf("%d bytes of splits, want 16", uses)
	}
	for want, in := range map[string]goagnes.InputNodes{
		"600 at position 1": {IDs: []int64{1, 600}}, "a mask of 5": {Mask: make([]bool, 5)}, "not both": {IDs: own, Mask: mask},
	} {
		if _, err := s.SetSplit(ctx, "mine", in); goagnes.Class(err) != goagnes.ClassUsage || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	if _, err := s.SetSplit(ctx, "../x", goagnes.InputNodes{IDs: own}); goagnes.Class(err) != goagnes.ClassUsage {
		t.Errorf("a name that is none: %v", err)
	}
	again := life.Open(t, path, goagnes.OpenOptions{Memory: 8 << 20})
	defer again.Close()
	if _, ok := again.Splits()["mine"]; ok {
		t.Error("the split is in the store's files")
	}
}

// TestNodesWithGaps reads edges of a store from which duplicates were dropped:
// edge ids go past the number of edges.
func TestNodesWithGaps(t *testing.T) {
	ctx := context.Background()
	g := graph.Hub(rand.New(rand.NewPCG(8, 9)))
	path := filepath.Join(t.TempDir(), "store")
	g.Build(t, path, goagnes.BuildOptions{BlockSize: 4096, Duplicates: "drop", SelfLoops: "drop"})
	s := life.Open(t, path, goagnes.OpenOptions{Memory: 64 << 20})
	seen := map[[2]int64]bool{}
	var ofHub []int64
	wantS, wantT := make([]int64, len(g.Src)), make([]int64, len(g.Src))
	kept := int64(0)
	for e := range g.Src {
		pair := [2]int64{g.Src[e], g.Dst[e]}
		if wantS[e], wantT[e] = -1, -1; seen[pair] || pair[0] == pair[1] {
			continue
		}
		seen[pair] = true
		wantS[e], wantT[e] = pair[0], pair[1]
		if kept++; pair[1] == 7 {
			ofHub = append(ofHub, int64(e))
		}
	}
	info := s.Info()
	if info.NumEdges != kept || info.EdgeIDRange != int64(len(g.Src)) || kept == info.EdgeIDRange {
		t.Fatalf("%d edges of ids below %d, want %d and %d", info.NumEdges, info.EdgeIDRange, kept, len(g.Src))
	}
	src, dst := make([]int64, len(g.Src)), make([]int64, len(g.Src))
	if err := s.ReadEdges(ctx, src, dst, nil); err != nil || !slices.Equal(src, wantS) || !slices.Equal(dst, wantT) {
		t.Errorf("all edges: %v, or others than kept", err)
	}
	from, ids := make([]int64, len(ofHub)), make([]int64, len(ofHub))
	if d, err := s.Neighbors(ctx, 7, from, ids); err != nil || d != int64(len(ofHub)) || !slices.Equal(ids, ofHub) {
		t.Errorf("in-edges of a hub: %d of %d, %v", d, len(ofHub), err)
	}
}
