package operation

// Samples of the engine, from a store to delivered minibatches, held against what
// uniform and independent draws give; and engines with a planted defect, which the
// same statistics must reject. docs/sampling.md has the table of both.

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"testing"
	"unsafe"

	"gonum.org/v1/gonum/stat/combin"

	"github.com/goagnes/goagnes/layout"
	"github.com/goagnes/goagnes/layout/build"
	"github.com/goagnes/goagnes/layout/build/source/array"
)

// trialSeeds are the loader seeds of every statistic: the ends of the range and
// others.
func trialSeeds() []uint64 {
	seeds := []uint64{0, 1, 1 << 16, 1 << 32, math.MaxUint64}
	for r := rand.New(rand.NewPCG(2026, 11)); len(seeds) < 20; {
		seeds = append(seeds, r.Uint64())
	}
	if testing.Short() {
		return seeds[:2]
	}
	return seeds
}

// familyAlpha bounds the chance that a correct sampler fails anywhere in
// TestStatistics. Every p-value is held against familyAlpha over the number of all
// of them (Bonferroni), however they depend on each other.
const familyAlpha = 1e-6

// The graph: ranges of nodes by what is drawn of them.
const (
	lists  = 2000 // nodes of in-degree 20, 2i and 2i+1 with the same neighbours
	chain1 = 1 * lists
	chain2 = 2 * lists // a single in-edge: chain1+v from v, chain2+v from chain1+v
	sixes  = 3 * lists // 500 nodes of in-degree 6
	fives  = sixes + 500
	wides  = fives + 500 // 100 nodes of in-degree 64
	hubTwo = wides + 100 // two hubs
	leaves = hubTwo + 2  // without in-edges
	ends   = leaves + 3000

	listDegree, wideDegree, hubDegree = 20, 64, 12000
)

// laboratory is a store of that graph, open, and where each node's edges begin.
type laboratory struct {
	*fixture
	first   []int64 // edge id, by node; one more at the end
	planted bool    // the engine has a defect
	ours    map[string]any
}

// once returns what take gives, which is the same at every call while no defect
// is planted.
func once[T any](l *laboratory, name string, seed uint64, take func() T) T {
	if l.planted {
		return take()
	}
	key := fmt.Sprint(name, seed)
	if l.ours[key] == nil {
		l.ours[key] = take()
	}
	return l.ours[key].(T)
}

func newLaboratory(t *testing.T) *laboratory {
	r := rand.New(rand.NewPCG(6, 6))
	l := &laboratory{first: []int64{0}, ours: map[string]any{}}
	var src, dst []int64
	for v := range int64(ends) {
		in := func(degree int) {
			for _, u := range r.Perm(ends - leaves)[:min(degree, ends-leaves)] {
				src = append(src, leaves+int64(u))
			}
			for range degree - (ends - leaves) {
				src = append(src, leaves+r.Int64N(ends-leaves))
			}
		}
		switch {
		case v < chain1 && v%2 == 0, v >= wides && v < hubTwo:
			in(map[bool]int{true: listDegree, false: wideDegree}[v < chain1])
		case v < chain1:
			src = append(src, src[len(src)-listDegree:]...)
		case v < sixes:
			src = append(src, v-lists)
		case v < fives:
			in(6)
		case v < wides:
			in(5)
		case v >= hubTwo && v < leaves:
			in(hubDegree)
		}
		for len(dst) < len(src) {
			dst = append(dst, v)
		}
		l.first = append(l.first, int64(len(src)))
	}
	edges, err := array.EdgesFromMemory(array.Array{Name: "edge_index", Data: rawBytes(append(src, dst...)), DType: layout.Int64, Shape: []int64{2, int64(len(src))}})
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "store")
	if _, err := build.Build(context.Background(), dir, build.Options{Edges: edges, NumNodes: ends, Order: "original", BlockSize: 4096}); err != nil {
		t.Fatal(err)
	}
	l.fixture = newFixtureOf(t, dir, 64<<20, nil)
	for v := uint64(hubTwo); v < leaves; v++ {
		if n := len(hubEnds(l.Index, v)); n < 4 {
			t.Fatalf("hub %d lies in %d graph blocks, want more than three", v, n)
		}
	}
	return l
}

// survey is epochs of a loader, of which the draws of each minibatch's last hop
// are kept.
type survey struct {
	seed    uint64
	from    uint32 // epoch
	epochs  int
	batch   int
	seeds   []int64
	nodes   []int64 // that the last hop expands, by place; nil: the seeds
	fanouts []int
	set     func(*Options)
}

// upTo returns the nodes from..from+n-1.
func upTo(from, n int) []int64 {
	ids := make([]int64, n)
	for i := range ids {
		ids[i] = int64(from + i)
	}
	return ids
}

// again returns the ids, times over.
func again(ids []int64, times int) []int64 { return slices.Repeat(ids, times) }

// take runs the survey: the draws of epoch by epoch, minibatch by minibatch, seed
// by seed.
func (l *laboratory) take(s survey) *sets {
	if s.nodes == nil {
		s.nodes = s.seeds
	}
	at := l.first[s.nodes[0]:]
	all := &sets{k: s.fanouts[len(s.fanouts)-1], d: int(at[1] - at[0])}
	l.run(s, func(b *Batch, places []int64) {
		eids, ptr := longs(b, "e_id"), shorts(b, "ptr")
		ptr = ptr[len(ptr)-len(places)-1:]
		for i, place := range places {
			v := s.nodes[place]
			drawn := eids[ptr[i]:ptr[i+1]]
			if len(drawn) != all.k {
				l.t.Fatalf("%d edges are drawn of node %d, want %d", len(drawn), v, all.k)
			}
			for j, e := range drawn {
				p := e - l.first[v]
				if e < l.first[v] || e >= l.first[v+1] || j > 0 && drawn[j-1] >= e {
					l.t.Fatalf("the edges %v are drawn of node %d, whose are %d to %d", drawn, v, l.first[v], l.first[v+1]-1)
				}
				all.positions = append(all.positions, uint32(p))
			}
		}
	})
	return all
}

// run hands out the survey's minibatches, with the places of their seeds.
func (l *laboratory) run(s survey, use func(b *Batch, places []int64)) {
	o := l.Options
	o.Seeds, o.BatchSize, o.Fanouts, o.Seed, o.Hyperbatch = ListSeeds(s.seeds), s.batch, s.fanouts, s.seed, 256
	o.Outputs = Outputs{EdgeIDs: len(s.fanouts) > 0, CSC: true, InputIDs: true}
	if s.set != nil {
		s.set(&o)
	}
	e, err := New(o)
	if err != nil {
		l.t.Fatal(err)
	}
	for epoch := range s.epochs {
		r := e.Start(context.Background(), s.from+uint32(epoch))
		for {
			b, err := r.Next(context.Background())
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				l.t.Fatal(err)
			}
			use(b, longs(b, "input_id"))
			b.Release()
		}
	}
	if err := e.Close(); err != nil {
		l.t.Fatal(err)
	}
}

func longs(b *Batch, name string) []int64 {
	a, _ := b.Array(name)
	return unsafe.Slice((*int64)(a.Pointer), len(a.Bytes())/8)
}

func shorts(b *Batch, name string) []uint32 {
	a, _ := b.Array(name)
	return unsafe.Slice((*uint32)(a.Pointer), len(a.Bytes())/4)
}

// orders returns the seed orders of epochs of n seeds, of which the engine's first
// ones are compared: to run as many epochs would take longer than all else.
func (l *laboratory) orders(seed uint64, n, epochs int) [][]int64 {
	return once(l, fmt.Sprint("orders of ", n), seed, func() [][]int64 {
		all := make([][]int64, epochs)
		for e := range all {
			p := stream.order(seed, uint32(e), uint64(n))
			for i := range n {
				all[e] = append(all[e], int64(p.at(uint64(i))))
			}
		}
		s := survey{seed: seed, epochs: 20, batch: n, seeds: upTo(0, n), set: func(o *Options) { o.Shuffle = true }}
		epoch := 0
		l.run(s, func(_ *Batch, places []int64) {
			if !slices.Equal(places, all[epoch]) {
				l.t.Fatalf("epoch %d of seed %d has the order %v, want %v", epoch, seed, places, all[epoch])
			}
			epoch++
		})
		return all
	})
}

// spread returns 100 of the list nodes, over all their graph blocks.
func spread() []int64 {
	ids := upTo(0, 100)
	for i := range ids {
		ids[i] *= lists / 100
	}
	return ids
}

// of100 surveys the 100 spread nodes together, in 20 minibatches of 20 epochs.
func (l *laboratory) of100(seed uint64) *sets {
	return once(l, "100", seed, func() *sets {
		return l.take(survey{seed: seed, epochs: 20, batch: 100, seeds: again(spread(), 20), fanouts: []int{10}})
	})
}

// ofHubs surveys both hubs, each 50 times in each of 20 minibatches of 2 epochs.
func (l *laboratory) ofHubs(seed uint64) *sets {
	return once(l, "hubs", seed, func() *sets {
		return l.take(survey{seed: seed, epochs: 2, batch: 100, seeds: again([]int64{hubTwo, hubTwo + 1}, 1000), fanouts: []int{40},
			set: func(o *Options) { o.Published = seed%2 == 1 }})
	})
}

// statistics are the tests: each gives a p-value of the engine under a seed, and
// names the defects that it must find.
var statistics = []struct {
	name     string
	p        func(l *laboratory, seed uint64) float64
	controls map[string]defect
}{
	{"inclusion", func(l *laboratory, seed uint64) float64 {
		var all []*sets
		for i, k := range []int{1, 3, 10, 19} {
			all = append(all, l.take(survey{seed: seed, from: uint32(i), epochs: 1, batch: 500, seeds: upTo(0, lists), fanouts: []int{k}}))
		}
		return inclusion(append(all, l.take(survey{seed: seed, epochs: 20, batch: 100, seeds: upTo(wides, 100), fanouts: []int{16}}))...)
	}, map[string]defect{"Floyd off by one": floydOffByOne}},
	{"pairs", func(l *laboratory, seed uint64) float64 {
		return pairs(l.take(survey{seed: seed, epochs: 3, batch: 500, seeds: upTo(0, lists), fanouts: []int{10}}))
	}, map[string]defect{"words repeat": wordsRepeat}},
	{"subsets", func(l *laboratory, seed uint64) float64 {
		return subsets(
			l.take(survey{seed: seed, epochs: 10, batch: 100, seeds: upTo(sixes, 500), fanouts: []int{3}}),
			l.take(survey{seed: seed, epochs: 10, batch: 100, seeds: upTo(fives, 500), fanouts: []int{2}}))
	}, map[string]defect{"Floyd off by one": floydOffByOne}},
	{"nodes", func(l *laboratory, seed uint64) float64 {
		return dispersion(l.of100(seed), 100, func(i int) int { return i / 100 })
	}, map[string]defect{"a stream for each graph block": blockReseed, "node left out": nodeLeftOut}},
	{"nodes with the same neighbours", func(l *laboratory, seed uint64) float64 {
		s := l.take(survey{seed: seed, epochs: 5, batch: 500, seeds: upTo(0, lists), fanouts: []int{10}})
		return overlap(s.every(0, 2), s.every(1, 2))
	}, map[string]defect{"node left out": nodeLeftOut}},
	{"occurrences of a seed", func(l *laboratory, seed uint64) float64 {
		s := l.take(survey{seed: seed, epochs: 2, batch: 200, seeds: slices.Sorted(slices.Values(again(upTo(0, lists), 2))), fanouts: []int{10}})
		return overlap(s.every(0, 2), s.every(1, 2))
	}, map[string]defect{"position left out": positionLeftOut}},
	{"hops", func(l *laboratory, seed uint64) float64 {
		// The same nodes in the same minibatches, but at hop 0, 1 and 2.
		all := &sets{k: 10, d: listDegree}
		for hop, from := range []int{0, chain1, chain2} {
			s := l.take(survey{seed: seed, epochs: 1, batch: 500, seeds: upTo(from, lists), nodes: upTo(0, lists), fanouts: []int{1, 1, 10}[2-hop:]})
			all.positions = append(all.positions, s.positions...)
		}
		return dispersion(all, 3, func(i int) int { return i % lists })
	}, map[string]defect{"hop left out": hopLeftOut}},
	{"minibatches", func(l *laboratory, seed uint64) float64 {
		return dispersion(l.of100(seed), 20, func(i int) int { return i/2000*100 + i%100 })
	}, map[string]defect{"minibatch left out": minibatchLeftOut}},
	{"epochs", func(l *laboratory, seed uint64) float64 {
		return dispersion(l.of100(seed), 20, func(i int) int { return i % 2000 })
	}, map[string]defect{"epoch left out": epochLeftOut}},
	{"seeds of a loader", func(l *laboratory, seed uint64) float64 {
		all := &sets{k: 10, d: listDegree}
		for bit := range 10 { // seeds that differ in an upper bit alone
			s := l.take(survey{seed: seed ^ 1<<(16+5*bit), epochs: 1, batch: 500, seeds: upTo(0, lists), fanouts: []int{10}})
			all.positions = append(all.positions, s.positions...)
		}
		return dispersion(all, 10, func(i int) int { return i % lists })
	}, map[string]defect{"seed cut to 16 bits": seedCut}},
	{"coinciding minibatches", func(l *laboratory, seed uint64) float64 {
		s := l.take(survey{seed: seed, epochs: 2, batch: 1, seeds: again([]int64{wides}, 1000), fanouts: []int{32}})
		masks := make([]uint64, s.len())
		for i := range masks {
			for _, p := range s.at(i) {
				masks[i] |= 1 << p
			}
		}
		return coincidences(masks, math.Log2(math.Exp(combin.LogGeneralizedBinomial(wideDegree, 32))))
	}, map[string]defect{"keys cut to 16 bits": keyCut}},
	{"order of the seeds", func(l *laboratory, seed uint64) float64 {
		// The same seeds in another order within each minibatch: not a statistic, the
		// same draws.
		order := upTo(0, lists)
		for from := 0; from < lists; from += 100 {
			rand.New(rand.NewPCG(seed, uint64(from))).Shuffle(100, func(i, j int) { order[from+i], order[from+j] = order[from+j], order[from+i] })
		}
		one := l.take(survey{seed: seed, epochs: 1, batch: 100, seeds: upTo(0, lists), fanouts: []int{10}})
		two := l.take(survey{seed: seed, epochs: 1, batch: 100, seeds: order, fanouts: []int{10}})
		for i, v := range order {
			if !slices.Equal(one.at(int(v)), two.at(i)) {
				return 0
			}
		}
		return 1
	}, map[string]defect{"a running generator": runningGenerator}},
	{"hubs by block and position", func(l *laboratory, seed uint64) float64 {
		upTo := hubEnds(l.Index, hubTwo)
		for i := range 99 {
			upTo = append(upTo, (i+1)*hubDegree/100)
		}
		slices.Sort(upTo)
		return ranges(slices.Compact(upTo), l.ofHubs(seed))
	}, map[string]defect{"hubs from their first block": hubFirstBlock}},
	{"share of a hub's first block", func(l *laboratory, seed uint64) float64 {
		return below(hubEnds(l.Index, hubTwo)[0], l.ofHubs(seed))
	}, map[string]defect{"hubs block by block": hubByBlock}},
	{"places of the seeds", func(l *laboratory, seed uint64) float64 {
		return places(l.orders(seed, 24, 2000))
	}, map[string]defect{"one Feistel round": orderOneRound}},
	{"orders of five seeds", func(l *laboratory, seed uint64) float64 {
		return allOrders(meanSign(5, 16), l.orders(seed, 5, 6000))
	}, map[string]defect{"two Feistel rounds": orderTwoRounds}},
	{"orders of two epochs", func(l *laboratory, seed uint64) float64 {
		orders := l.orders(seed, 24, 2000)
		var even, odd [][]int64
		for i := 0; i < len(orders); i += 2 {
			even, odd = append(even, orders[i]), append(odd, orders[i+1])
		}
		return meetings(even, odd)
	}, map[string]defect{"epoch left out of the order": orderEpochLeftOut}},
	{"coinciding orders", func(l *laboratory, seed uint64) float64 {
		orders := l.orders(seed, 24, 2000)
		list := make([]string, len(orders))
		for i, order := range orders {
			list[i] = fmt.Sprint(order)
		}
		g, _ := math.Lgamma(25)
		return coincidences(list, g/math.Ln2)
	}, map[string]defect{"order's keys cut to 16 bits": orderKeyCut}},
}

// TestStatistics: the engine passes every statistic with every seed, and an engine
// with a defect is rejected with 19 seeds of 20.
func TestStatistics(t *testing.T) {
	seeds := trialSeeds()
	alpha := familyAlpha / float64(20*len(statistics))
	l := newLaboratory(t)
	defer l.close()
	defer func() { stream.key, stream.draw, stream.order = batchKey, draw, newPermutation }() // also after a Fatal
	for _, s := range statistics {
		t.Run(s.name, func(t *testing.T) {
			l.t = t
			least := 1.0
			for _, seed := range seeds {
				p := s.p(l, seed)
				if least = min(least, p); p < alpha {
					t.Errorf("seed %d: p = %.2g, below %.2g", seed, p, alpha)
				}
			}
			t.Logf("ours: least p of %d seeds %.2g", len(seeds), least)
			for name, d := range s.controls {
				rejected, most := 0, 0.0
				for _, seed := range seeds {
					remove := plant(d, l.Index)
					l.planted = true
					p := s.p(l, seed)
					l.planted = false
					remove()
					if most = max(most, p); p < alpha {
						rejected++
					}
				}
				t.Logf("%s: rejected with %d of %d seeds, largest p %.2g", name, rejected, len(seeds), most)
				if rejected < len(seeds)-len(seeds)/20 {
					t.Errorf("%s: rejected with %d of %d seeds", name, rejected, len(seeds))
				}
			}
		})
	}
	l.t = t
}
