package order

// The order "visit": nodes by descending probability of being in a minibatch whose
// seeds are drawn from the train split.
//
// The model is a minibatch of visitSeeds seeds of which each train node is one with
// the same probability, and visitHops hops of which each draws up to visitFanout
// in-neighbours. p_h(v), the probability that v is reached at hop h and no earlier, is
// carried over the edges, one pass a hop: an edge u → v misses u with probability
// 1 - p_h(v) · min(1, fanout / in-degree of v), and all edges do with the product of
// that, as if they were independent. Products are kept as sums of logarithms. Loops
// lead nowhere new and are left out. Nodes are ordered by the probability after
// the last hop; among equals the train split comes first, then the higher out-degree,
// then the smaller original id.
//
// Sums are float32, added in the order of import on one goroutine, and everything
// else is float64 whose products are rounded before they are added, so that threads,
// memory and processor are invisible in the result.

import (
	"fmt"
	"math"

	"github.com/goagnes/goagnes/layout/build/edgelist"
	"github.com/goagnes/goagnes/layout/build/ledger"
	"github.com/goagnes/goagnes/layout/build/source"
	"github.com/goagnes/goagnes/layout/build/spill"
)

// The workload that "visit" expects.
const (
	visitSeeds  = 1000
	visitHops   = 3
	visitFanout = 10
)

// maxHazard stands for certainty: exp(-maxHazard) is nothing beside 1.
const maxHazard = 64

// hit returns 1-exp(-x) for x of 0 or more. The conversions keep compilers from
// fusing operations, which would round differently from machine to machine.
func hit(x float64) float64 {
	x = min(x, maxHazard)
	doublings := 0
	for ; x > 1.0/8; doublings++ {
		x /= 2
	}
	p := 1.0
	for k := 9.0; k >= 2; k-- {
		p = 1 - float64(float64(x/k)*p)
	}
	p = float64(x * p)
	for range doublings {
		p = float64(p * float64(2-p))
	}
	return p
}

// hazard returns -log(1-p), at most maxHazard, for p from 0 to 1: the inverse of hit.
func hazard(p float64) float64 {
	if p >= 1 {
		return maxHazard
	}
	sum := 0.0
	if p > 0.5 { // 1-p is 2^-k times what is from 1/2 to 1
		frac, exp := math.Frexp(1 - p)
		p, sum = 1-frac, float64(float64(-exp)*math.Ln2)
	}
	z := p / (2 - p) // -log(1-p) = 2 artanh(z)
	square, series := float64(z*z), 0.0
	for k := 29.0; k >= 1; k -= 2 {
		series = 1/k + float64(square*series)
	}
	return min(sum+float64(2*float64(z*series)), maxHazard)
}

// floats shows a table as float32.
func floats(r *ledger.Region, n int) []float32 { return ledger.View[float32](r.Bytes)[:n] }

// visitOrder finds the order; the degrees of c are used up. train has a bit a node.
func (b *finder) visitOrder(e source.Edges, c *edgelist.Census, train []uint64) (*Order, error) {
	outdegree, err := spill.Park(b.Space, "out-degrees", c.Out)
	if err != nil {
		return nil, err
	}
	defer outdegree.Close()
	indegree, err := spill.Park(b.Space, "in-degrees", c.In)
	if err != nil {
		return nil, err
	}
	defer indegree.Close()
	var r0, r1, r2 *ledger.Region
	defer func() { r0.Close(); r1.Close(); r2.Close() }()
	if err := b.tables(b.numNodes, "tables of the order visit", &r0, &r1, &r2); err != nil {
		return nil, err
	}
	if err := b.visits(e, train, indegree, r0, r1, r2); err != nil {
		return nil, err
	}
	// From here r0 is the key and r1 and r2 hold the order, before and after a step
	// of the radix sort, which begins with what decides last.
	reached, err := spill.Park(b.Space, "visits", r0)
	if err != nil {
		return nil, err
	}
	defer reached.Close()
	if err := b.tables(b.numNodes, "tables of the order visit", &r0); err != nil {
		return nil, err
	}
	n := int(b.numNodes)
	s := &descending{b: b, key: ledger.View[uint32](r0.Bytes)[:n], order: ledger.View[uint32](r1.Bytes)[:n], spare: ledger.View[uint32](r2.Bytes)[:n]}
	for v := range s.order {
		s.order[v] = uint32(v)
	}
	if err := outdegree.Load(r0); err != nil {
		return nil, err
	}
	if err := s.byKey(); err != nil {
		return nil, err
	}
	if err := s.step(func(v uint32) uint32 { return uint32(^train[v>>6] >> (v & 63) & 1) }); err != nil {
		return nil, err
	}
	if err := reached.Load(r0); err != nil {
		return nil, err
	}
	if err := s.byKey(); err != nil {
		return nil, err
	}
	if &s.order[0] != &ledger.View[uint32](r1.Bytes)[0] {
		r1, r2 = r2, r1
	}
	original, internal := s.order, s.spare
	if err := invert(b.Ctx, original, internal); err != nil {
		return nil, err
	}
	if err := indegree.Load(r0); err != nil {
		return nil, err
	}
	if err := recount(b.Ctx, c, internal, s.key); err != nil {
		return nil, err
	}
	r := &Order{Internal: internal, Original: original, internalRegion: r2, originalRegion: r1}
	r1, r2 = nil, nil
	return r, nil
}

// visits leaves in r0 the probability of each node, as a float32.
func (b *finder) visits(e source.Edges, train []uint64, indegree *spill.Parked, r0, r1, r2 *ledger.Region) error {
	n := int(b.numNodes)
	// missed is -log of the probability that no edge leads to the node so far, before
	// the same before this hop, weight what each in-edge of the node adds.
	missed, before, weight := floats(r0, n), floats(r1, n), floats(r2, n)
	buf, err := b.Mem.Map("a part of a table of nodes", spill.ParkedBuffer)
	if err != nil {
		return err
	}
	defer buf.Close()
	seeds := 0
	for v := range n {
		seeds += int(train[v>>6] >> (v & 63) & 1)
	}
	share := min(1, visitSeeds/float64(max(seeds, 1)))
	seed := func(v int) float64 { // probability that v is a seed
		if train[v>>6]>>(v&63)&1 != 0 {
			return share
		}
		return 0
	}
	for hop := range visitHops {
		err := indegree.Stream(buf.Bytes, func(first int, degrees []uint32) {
			for i, d := range degrees {
				v := first + i
				p := seed(v)
				if hop > 0 {
					was, is := float64(before[v]), float64(missed[v])
					p = float64(float64(float64(1-p)*float64(1-hit(was))) * hit(is-was))
				}
				if d > visitFanout {
					p = float64(p*visitFanout) / float64(d)
				}
				weight[v], before[v] = float32(hazard(p)), missed[v]
			}
		})
		if err != nil {
			return err
		}
		err = b.orderPass(e, fmt.Sprintf("order nodes (visit): hop %d of %d", hop+1, visitHops), func(src, dst []uint32) {
			for i, u := range src {
				v := dst[i]
				if u == v {
					continue
				}
				missed[u] += weight[v]
				if b.undirected {
					missed[v] += weight[u]
				}
			}
		})
		if err != nil {
			return err
		}
	}
	return inSteps(b.Ctx, n, func(low, high int) {
		for v := low; v < high; v++ {
			p := seed(v)
			missed[v] = float32(p + float64(float64(1-p)*hit(float64(missed[v]))))
		}
	})
}

// descending sorts nodes stably by keys, the largest first. Keys are unsigned, or
// floats of 0 or more, which sort as their bits do.
type descending struct {
	b            *finder
	key          []uint32 // by node
	order, spare []uint32
}

// byKey sorts by key.
func (s *descending) byKey() error {
	for _, shift := range []uint{0, 16} {
		if err := s.step(func(v uint32) uint32 { return math.MaxUint16 - s.key[v]>>shift&math.MaxUint16 }); err != nil {
			return err
		}
	}
	return nil
}

// step sorts by a digit, the smallest first.
func (s *descending) step(digit func(v uint32) uint32) error {
	place := make([]uint32, 1<<16)
	err := inSteps(s.b.Ctx, len(s.order), func(low, high int) {
		for v := low; v < high; v++ {
			place[digit(uint32(v))]++
		}
	})
	if err != nil {
		return err
	}
	next := uint32(0)
	for i, c := range place {
		place[i] = next
		next += c
	}
	err = inSteps(s.b.Ctx, len(s.order), func(low, high int) {
		for _, v := range s.order[low:high] {
			p := &place[digit(v)]
			s.spare[*p] = v
			*p++
		}
	})
	s.order, s.spare = s.spare, s.order
	return err
}
