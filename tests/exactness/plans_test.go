package exactness

// The graphs and plans of TestMetamorphic: those that reach each path of the
// engine, those at the edges of what a store can be, and some that are drawn.

import (
	"math/rand/v2"
	"slices"

	"github.com/goagnes/goagnes/goagnes"
	"github.com/goagnes/goagnes/layout"
	"github.com/goagnes/goagnes/tests/fixture/graph"
	"github.com/goagnes/goagnes/tests/fixture/sampler"
)

// subject is a plan over a graph, and the minibatches that the plain sampler
// draws of it.
type subject struct {
	graphName string
	graph     *graph.Graph
	plan      graph.Plan
	seed      uint64

	plain         *sampler.Plan // nil before the first epoch
	epochs        map[uint32][]*sampler.Batch
	repeats, hubs int // repeated seeds and sampled hubs so far

	// Planted faults: the graph that the store is built of, and a change of the
	// loader's options; nil for none.
	built  *graph.Graph
	tamper func(o *goagnes.LoaderOptions)
}

// epoch returns the plain sampler's minibatches of an epoch.
func (s *subject) epoch(epoch uint32) []*sampler.Batch {
	if s.plain == nil {
		s.plain, s.epochs = s.graph.Plain(s.plan, s.seed), map[uint32][]*sampler.Batch{}
	}
	if _, known := s.epochs[epoch]; !known {
		s.epochs[epoch] = s.plain.Epoch(epoch)
		for _, b := range s.epochs[epoch] {
			s.repeats, s.hubs = s.repeats+b.RepeatedSeeds, s.hubs+b.HubsDrawn
		}
	}
	return s.epochs[epoch]
}

// subjects returns all plans; r draws the graphs and some of the plans.
func subjects(r *rand.Rand) []*subject {
	var all []*subject
	seeds := []uint64{0, 1, 1<<63 + 12345, 0xffffffffffffffff}
	add := func(name string, g *graph.Graph, plans ...graph.Plan) {
		for _, p := range plans {
			all = append(all, &subject{graphName: name, graph: g, plan: p, seed: seeds[len(all)%len(seeds)]})
		}
	}
	hub := graph.Hub(r)
	skewed := graph.Skewed(r, 3000, 36000, 301)
	// Reverses that meet edges of the list are dropped, which leaves gaps in the
	// edge ids.
	both := graph.Skewed(r, 700, 6000, 5)
	both.Undirected, both.Duplicates = true, "drop"
	gaps := graph.Hub(r)
	gaps.SelfLoops, gaps.Duplicates = "drop", "drop"
	looped := graph.Skewed(r, 500, 3000, 9)
	looped.SelfLoops = "add"
	train := goagnes.InputNodes{Split: "train"}

	add("hub", hub, hubPlans(hub)...)
	add("skewed", skewed,
		graph.Plan{Name: "three-hops", Fanouts: []int{7, 5, 3}, Input: train, Batch: 64, Shuffle: true},
		graph.Plan{Name: "skewed-in-order", Fanouts: []int{4, -1}, Input: train, Batch: 200})
	add("both", both,
		graph.Plan{Name: "undirected", Fanouts: []int{5, 3}, Batch: 100, Shuffle: true},
		graph.Plan{Name: "undirected-all-neighbours", Fanouts: []int{-1}, Batch: 150})
	add("gaps", gaps,
		graph.Plan{Name: "gaps-in-edge-ids", Fanouts: []int{6, 2}, Input: train, Batch: 80, Shuffle: true},
		graph.Plan{Name: "gaps-all-neighbours", Fanouts: []int{-1}, Input: goagnes.InputNodes{IDs: []int64{7, 2399, 1200, 31}}, Batch: 2})
	add("looped", looped,
		graph.Plan{Name: "loops-added", Fanouts: []int{3, 2}, Batch: 90, Shuffle: true, Drop: true})
	for i, name := range []string{"hub", "skewed", "both", "gaps", "looped"} {
		g := []*graph.Graph{hub, skewed, both, gaps, looped}[i]
		add(name, g, drawnPlan(r, "drawn-over-"+name, g))
	}
	for _, small := range smallGraphs(r) {
		for k, fanouts := range [][]int{{2, 2}, {-1}, nil} {
			add(small.name, small.g, graph.Plan{Name: small.name + []string{"-two-hops", "-all-neighbours", "-no-hops"}[k], Fanouts: fanouts, Batch: 4, Shuffle: k == 0})
		}
	}
	return all
}

// hubPlans are over the hub graph's special nodes.
func hubPlans(g *graph.Graph) []graph.Plan {
	train := goagnes.InputNodes{Split: "train"}
	mask := make([]bool, g.Nodes)
	for v := range mask {
		mask[v] = v%7 == 0
	}
	ids := func(list ...int64) goagnes.InputNodes { return goagnes.InputNodes{IDs: list} }
	repeated := ids(7, 31, 7, 7, 2599, 1200, 2399, 7, 31, 2599, 5, 6, 2000, 2001, 1200)
	return []graph.Plan{
		{Name: "all-nodes", Fanouts: []int{4, 3}, Batch: 300, Shuffle: true},
		{Name: "split", Fanouts: []int{5, 2}, Input: train, Batch: 50, Shuffle: true},
		{Name: "mask", Fanouts: []int{3}, Input: goagnes.InputNodes{Mask: mask}, Batch: 100, Drop: true},
		{Name: "drop-last", Fanouts: []int{3}, Input: train, Batch: 100, Drop: true},
		{Name: "repeated-seeds", Fanouts: []int{3, 2}, Input: repeated, Batch: 8},
		{Name: "repeated-seeds-shuffled", Fanouts: []int{40}, Input: repeated, Batch: 8, Shuffle: true},
		{Name: "repeated-seeds-all-neighbours", Fanouts: []int{-1}, Input: repeated, Batch: 5},
		{Name: "a-0-in-the-middle", Fanouts: []int{3, 0, 4}, Input: ids(1, 2, 3), Batch: 2},
		{Name: "a-0-first", Fanouts: []int{0, 4}, Input: ids(1, 2, 3), Batch: 2},
		{Name: "large-k", Fanouts: []int{49, 100}, Input: ids(7, 31, 5, 6, 2000, 2001), Batch: 4},
		{Name: "k-around-4096", Fanouts: []int{4096}, Input: ids(7, 1200, 2399), Batch: 1},
		{Name: "k-of-a-hub", Fanouts: []int{3000}, Input: ids(2399, 7, 1200, 7), Batch: 4},
		{Name: "all-then-some", Fanouts: []int{-1, 1}, Input: train, Batch: 200, Shuffle: true, Drop: true},
		{Name: "no-hops", Input: train, Batch: 64, Shuffle: true},
		{Name: "five-hops", Fanouts: []int{2, 2, 2, 2, 2}, Input: train, Batch: 40, Shuffle: true},
		{Name: "one-minibatch", Fanouts: []int{2}, Input: train, Batch: 1 << 20, Shuffle: true},
		{Name: "one-too-few", Fanouts: []int{2}, Input: ids(9, 8), Batch: 3, Drop: true},
		{Name: "empty-ids", Fanouts: []int{2}, Input: goagnes.InputNodes{IDs: []int64{}}},
		{Name: "default-batch", Fanouts: []int{2, 2}, Input: ids(2599, 7, 2598)},
		{Name: "isolated", Fanouts: []int{2, -1}, Input: ids(2400, 2599, 2500), Batch: 2},
	}
}

// drawnPlan is any plan over a graph: of one to three hops, of which the last
// alone may take all neighbours.
func drawnPlan(r *rand.Rand, name string, g *graph.Graph) graph.Plan {
	p := graph.Plan{Name: name, Batch: 1 + r.IntN(150), Shuffle: r.IntN(2) == 0, Drop: r.IntN(2) == 0}
	for range 1 + r.IntN(3) {
		p.Fanouts = append(p.Fanouts, r.IntN(9))
	}
	if r.IntN(3) == 0 {
		p.Fanouts[len(p.Fanouts)-1] = -1
	}
	switch r.IntN(3) {
	case 0:
		p.Input.Split = "train"
	case 1:
		p.Input.Mask = make([]bool, g.Nodes)
		for v := range p.Input.Mask {
			p.Input.Mask[v] = r.IntN(5) == 0
		}
	case 2:
		for range 300 {
			p.Input.IDs = append(p.Input.IDs, r.Int64N(int64(g.Nodes)))
		}
		p.Input.IDs = append(p.Input.IDs, slices.Repeat(p.Input.IDs[:1], 3)...)
	}
	return p
}

type namedGraph struct {
	name string
	g    *graph.Graph
}

// smallGraphs are at the edges of what a store can be.
func smallGraphs(r *rand.Rand) []namedGraph {
	all := []namedGraph{
		{"one-node", &graph.Graph{Nodes: 1}},
		{"one-node-with-x", &graph.Graph{Nodes: 1, XType: layout.Float32, XShape: []int64{3}}},
		{"three-loops", &graph.Graph{Nodes: 1, Src: []int64{0, 0, 0}, Dst: []int64{0, 0, 0}, XType: layout.Float16, XShape: []int64{1}}},
		{"no-edges", &graph.Graph{Nodes: 5, XType: layout.Float32, XShape: []int64{2}, YType: layout.Int64}},
		{"y-alone", &graph.Graph{Nodes: 9, Src: []int64{0, 8, 0}, Dst: []int64{8, 8, 1}, YType: layout.Int16}},
		{"neither-x-nor-y", &graph.Graph{Nodes: 9, Src: []int64{0, 8, 0}, Dst: []int64{8, 8, 1}}},
		{"rows-of-odd-bytes", &graph.Graph{Nodes: 40, Src: []int64{0, 8, 0}, Dst: []int64{8, 8, 1}, XType: layout.Float16, XShape: []int64{15}, YType: layout.Uint8}},
		{"rows-longer-than-a-block", &graph.Graph{Nodes: 30, Src: []int64{0, 8, 0}, Dst: []int64{8, 8, 1}, XType: layout.Float32, XShape: []int64{2500}, YType: layout.Int64}},
	}
	for i, c := range all {
		if c.g.Fill(r); i%2 == 0 {
			c.g.Splits = map[string][]int64{"train": {0}}
		}
	}
	return all
}
