package goagnes_test

// The graphs and plans of TestMetamorphic: those that reach each path of the
// engine, those at the edges of what a store can be, and some that are drawn.

import (
	"math/rand/v2"
	"slices"

	"github.com/goagnes/goagnes/goagnes"
	"github.com/goagnes/goagnes/layout"
)

// subject is a plan over a graph, and the minibatches that the plain sampler
// draws of it.
type subject struct {
	graphName string
	graph     *rawGraph
	plan      plan
	seed      uint64

	plain         *plainPlan // nil before the first epoch
	epochs        map[uint32][]*plainBatch
	repeats, hubs int // repeated seeds and sampled hubs so far

	// Planted faults: the graph that the store is built of, and a change of the
	// loader's options; nil for none.
	built  *rawGraph
	tamper func(o *goagnes.LoaderOptions)
}

// epoch returns the plain sampler's minibatches of an epoch.
func (s *subject) epoch(epoch uint32) []*plainBatch {
	if s.plain == nil {
		s.plain, s.epochs = s.graph.plain(s.plan, s.seed), map[uint32][]*plainBatch{}
	}
	if _, known := s.epochs[epoch]; !known {
		s.epochs[epoch] = s.plain.epoch(epoch)
		for _, b := range s.epochs[epoch] {
			s.repeats, s.hubs = s.repeats+b.repeatedSeeds, s.hubs+b.hubsDrawn
		}
	}
	return s.epochs[epoch]
}

// subjects returns all plans; r draws the graphs and some of the plans.
func subjects(r *rand.Rand) []*subject {
	var all []*subject
	seeds := []uint64{0, 1, 1<<63 + 12345, 0xffffffffffffffff}
	add := func(name string, g *rawGraph, plans ...plan) {
		for _, p := range plans {
			all = append(all, &subject{graphName: name, graph: g, plan: p, seed: seeds[len(all)%len(seeds)]})
		}
	}
	hub := hubGraph(r)
	skewed := skewedGraph(r, 3000, 36000, 301)
	// Reverses that meet edges of the list are dropped, which leaves gaps in the
	// edge ids.
	both := skewedGraph(r, 700, 6000, 5)
	both.undirected, both.duplicates = true, "drop"
	gaps := hubGraph(r)
	gaps.selfLoops, gaps.duplicates = "drop", "drop"
	looped := skewedGraph(r, 500, 3000, 9)
	looped.selfLoops = "add"
	train := goagnes.InputNodes{Split: "train"}

	add("hub", hub, hubPlans(hub)...)
	add("skewed", skewed,
		plan{name: "three-hops", fanouts: []int{7, 5, 3}, input: train, batch: 64, shuffle: true},
		plan{name: "skewed-in-order", fanouts: []int{4, -1}, input: train, batch: 200})
	add("both", both,
		plan{name: "undirected", fanouts: []int{5, 3}, batch: 100, shuffle: true},
		plan{name: "undirected-all-neighbours", fanouts: []int{-1}, batch: 150})
	add("gaps", gaps,
		plan{name: "gaps-in-edge-ids", fanouts: []int{6, 2}, input: train, batch: 80, shuffle: true},
		plan{name: "gaps-all-neighbours", fanouts: []int{-1}, input: goagnes.InputNodes{IDs: []int64{7, 2399, 1200, 31}}, batch: 2})
	add("looped", looped,
		plan{name: "loops-added", fanouts: []int{3, 2}, batch: 90, shuffle: true, drop: true})
	for i, name := range []string{"hub", "skewed", "both", "gaps", "looped"} {
		g := []*rawGraph{hub, skewed, both, gaps, looped}[i]
		add(name, g, drawnPlan(r, "drawn-over-"+name, g))
	}
	for _, small := range smallGraphs(r) {
		for k, fanouts := range [][]int{{2, 2}, {-1}, nil} {
			add(small.name, small.g, plan{name: small.name + []string{"-two-hops", "-all-neighbours", "-no-hops"}[k], fanouts: fanouts, batch: 4, shuffle: k == 0})
		}
	}
	return all
}

// hubPlans are over the hub graph's special nodes.
func hubPlans(g *rawGraph) []plan {
	train := goagnes.InputNodes{Split: "train"}
	mask := make([]bool, g.nodes)
	for v := range mask {
		mask[v] = v%7 == 0
	}
	ids := func(list ...int64) goagnes.InputNodes { return goagnes.InputNodes{IDs: list} }
	repeated := ids(7, 31, 7, 7, 2599, 1200, 2399, 7, 31, 2599, 5, 6, 2000, 2001, 1200)
	return []plan{
		{name: "all-nodes", fanouts: []int{4, 3}, batch: 300, shuffle: true},
		{name: "split", fanouts: []int{5, 2}, input: train, batch: 50, shuffle: true},
		{name: "mask", fanouts: []int{3}, input: goagnes.InputNodes{Mask: mask}, batch: 100, drop: true},
		{name: "drop-last", fanouts: []int{3}, input: train, batch: 100, drop: true},
		{name: "repeated-seeds", fanouts: []int{3, 2}, input: repeated, batch: 8},
		{name: "repeated-seeds-shuffled", fanouts: []int{40}, input: repeated, batch: 8, shuffle: true},
		{name: "repeated-seeds-all-neighbours", fanouts: []int{-1}, input: repeated, batch: 5},
		{name: "a-0-in-the-middle", fanouts: []int{3, 0, 4}, input: ids(1, 2, 3), batch: 2},
		{name: "a-0-first", fanouts: []int{0, 4}, input: ids(1, 2, 3), batch: 2},
		{name: "large-k", fanouts: []int{49, 100}, input: ids(7, 31, 5, 6, 2000, 2001), batch: 4},
		{name: "k-around-4096", fanouts: []int{4096}, input: ids(7, 1200, 2399), batch: 1},
		{name: "k-of-a-hub", fanouts: []int{3000}, input: ids(2399, 7, 1200, 7), batch: 4},
		{name: "all-then-some", fanouts: []int{-1, 1}, input: train, batch: 200, shuffle: true, drop: true},
		{name: "no-hops", input: train, batch: 64, shuffle: true},
		{name: "five-hops", fanouts: []int{2, 2, 2, 2, 2}, input: train, batch: 40, shuffle: true},
		{name: "one-minibatch", fanouts: []int{2}, input: train, batch: 1 << 20, shuffle: true},
		{name: "one-too-few", fanouts: []int{2}, input: ids(9, 8), batch: 3, drop: true},
		{name: "empty-ids", fanouts: []int{2}, input: goagnes.InputNodes{IDs: []int64{}}},
		{name: "default-batch", fanouts: []int{2, 2}, input: ids(2599, 7, 2598)},
		{name: "isolated", fanouts: []int{2, -1}, input: ids(2400, 2599, 2500), batch: 2},
	}
}

// drawnPlan is any plan over a graph: of one to three hops, of which the last
// alone may take all neighbours.
func drawnPlan(r *rand.Rand, name string, g *rawGraph) plan {
	p := plan{name: name, batch: 1 + r.IntN(150), shuffle: r.IntN(2) == 0, drop: r.IntN(2) == 0}
	for range 1 + r.IntN(3) {
		p.fanouts = append(p.fanouts, r.IntN(9))
	}
	if r.IntN(3) == 0 {
		p.fanouts[len(p.fanouts)-1] = -1
	}
	switch r.IntN(3) {
	case 0:
		p.input.Split = "train"
	case 1:
		p.input.Mask = make([]bool, g.nodes)
		for v := range p.input.Mask {
			p.input.Mask[v] = r.IntN(5) == 0
		}
	case 2:
		for range 300 {
			p.input.IDs = append(p.input.IDs, r.Int64N(int64(g.nodes)))
		}
		p.input.IDs = append(p.input.IDs, slices.Repeat(p.input.IDs[:1], 3)...)
	}
	return p
}

type namedGraph struct {
	name string
	g    *rawGraph
}

// smallGraphs are at the edges of what a store can be.
func smallGraphs(r *rand.Rand) []namedGraph {
	all := []namedGraph{
		{"one-node", &rawGraph{nodes: 1}},
		{"one-node-with-x", &rawGraph{nodes: 1, xType: layout.Float32, xShape: []int64{3}}},
		{"three-loops", &rawGraph{nodes: 1, src: []int64{0, 0, 0}, dst: []int64{0, 0, 0}, xType: layout.Float16, xShape: []int64{1}}},
		{"no-edges", &rawGraph{nodes: 5, xType: layout.Float32, xShape: []int64{2}, yType: layout.Int64}},
		{"y-alone", &rawGraph{nodes: 9, src: []int64{0, 8, 0}, dst: []int64{8, 8, 1}, yType: layout.Int16}},
		{"neither-x-nor-y", &rawGraph{nodes: 9, src: []int64{0, 8, 0}, dst: []int64{8, 8, 1}}},
		{"rows-of-odd-bytes", &rawGraph{nodes: 40, src: []int64{0, 8, 0}, dst: []int64{8, 8, 1}, xType: layout.Float16, xShape: []int64{15}, yType: layout.Uint8}},
		{"rows-longer-than-a-block", &rawGraph{nodes: 30, src: []int64{0, 8, 0}, dst: []int64{8, 8, 1}, xType: layout.Float32, xShape: []int64{2500}, yType: layout.Int64}},
	}
	for i, c := range all {
		if c.g.fill(r); i%2 == 0 {
			c.g.splits = map[string][]int64{"train": {0}}
		}
	}
	return all
}
