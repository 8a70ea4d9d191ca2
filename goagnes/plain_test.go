package goagnes_test

// The plain sampler: one minibatch after the other, from arrays in memory, as
// docs/sampling.md specifies it. It shares no code with the engine, so that the
// two agree bit for bit only if both follow the page.

import (
	"math/bits"
	"slices"
)

// plainWords is Philox4x32-10.
func plainWords(key [2]uint32, c0, c1, c2, c3 uint32) [4]uint32 {
	for round := uint32(0); round < 10; round++ {
		k0, k1 := key[0]+round*0x9E3779B9, key[1]+round*0xBB67AE85
		hi0, lo0 := bits.Mul32(0xD2511F53, c0)
		hi1, lo1 := bits.Mul32(0xCD9E8D57, c2)
		c0, c1, c2, c3 = hi1^c1^k0, lo1, hi0^c3^k1, lo0
	}
	return [4]uint32{c0, c1, c2, c3}
}

// plainOrder returns the seed order of an epoch.
func plainOrder(seed uint64, epoch uint32, n int) []int64 {
	w := plainWords([2]uint32{uint32(seed), uint32(seed >> 32)}, 0, 0, epoch, 1)
	key := [2]uint32{w[0], w[1]}
	h := 1
	for n > 1 && 2*h < bits.Len(uint(n-1)) {
		h++
	}
	order := make([]int64, n)
	for i := range order {
		x := uint64(i)
		for again := true; again; again = x >= uint64(n) {
			l, r := x>>h, x%(1<<h)
			for round := uint32(0); round < 10; round++ {
				l, r = r, l^uint64(plainWords(key, uint32(r), round, 0, 0)[0])%(1<<h)
			}
			x = l<<h | r
		}
		order[i] = int64(x)
	}
	return order
}

// plainDraw returns the positions drawn for one node.
func plainDraw(key [2]uint32, node, position uint64, hop, degree, k int) []int {
	var all []int
	if k < 0 || degree <= k {
		for p := range degree {
			all = append(all, p)
		}
		return all
	}
	word := func(i int) uint64 {
		w := plainWords(key, uint32(node), uint32(position), uint32(hop)|uint32(node>>32)<<24, uint32(i/4))
		return uint64(w[i%4])
	}
	chosen := map[int]bool{}
	for i := range k {
		j := degree - k + i
		var t uint64
		if degree <= 4096 {
			t = word(i) * uint64(j+1) >> 32
		} else {
			t, _ = bits.Mul64(word(2*i)|word(2*i+1)<<32, uint64(j+1))
		}
		if chosen[int(t)] {
			t = uint64(j)
		}
		chosen[int(t)] = true
		all = append(all, int(t))
	}
	slices.Sort(all)
	return all
}

// plainPlan is what decides a minibatch's contents.
type plainPlan struct {
	sources [][]int64 // in-edges of each node in import order: sources
	ids     [][]int64 // and edge ids
	inputs  []int64   // seeds by place
	byID    bool      // input_id holds node ids
	fanouts []int
	batch   int
	shuffle bool
	drop    bool
	seed    uint64
	degrees []uint32 // in-degree of each node, loops left out
}

// newPlainPlan takes the edges in import order, by ascending id.
func newPlainPlan(nodes int, src, dst, ids []int64) *plainPlan {
	p := &plainPlan{sources: make([][]int64, nodes), ids: make([][]int64, nodes), degrees: make([]uint32, nodes)}
	for e, v := range dst {
		p.sources[v] = append(p.sources[v], src[e])
		p.ids[v] = append(p.ids[v], ids[e])
		if src[e] != v {
			p.degrees[v]++
		}
	}
	return p
}

// plainBatch is a minibatch in PyG's terms.
type plainBatch struct {
	nodes, input             []int64
	source, target, ids      []int64
	nodesByHop, edgesByHop   []int64
	ptr                      []uint32 // end of the edges of each expanded node, after a 0
	degrees                  []uint32 // of the plan
	repeatedSeeds, hubsDrawn int
}

func (p *plainPlan) batches() int {
	if p.drop {
		return len(p.inputs) / p.batch
	}
	return (len(p.inputs) + p.batch - 1) / p.batch
}

// epoch returns all minibatches of an epoch.
func (p *plainPlan) epoch(epoch uint32) []*plainBatch {
	order := make([]int64, len(p.inputs))
	for i := range order {
		order[i] = int64(i)
	}
	if p.shuffle {
		order = plainOrder(p.seed, epoch, len(p.inputs))
	}
	var all []*plainBatch
	for m := range p.batches() {
		all = append(all, p.minibatch(epoch, m, order[m*p.batch:min((m+1)*p.batch, len(order))]))
	}
	return all
}

func (p *plainPlan) minibatch(epoch uint32, m int, places []int64) *plainBatch {
	w := plainWords([2]uint32{uint32(p.seed), uint32(p.seed >> 32)}, uint32(m), 0, epoch, 2)
	key := [2]uint32{w[0], w[1]}
	b := &plainBatch{ptr: []uint32{0}, degrees: p.degrees, nodesByHop: []int64{int64(len(places))}}
	local := map[int64]int64{}
	var position []uint64 // by local id
	for i, place := range places {
		v := p.inputs[place]
		if p.byID {
			b.input = append(b.input, v)
		} else {
			b.input = append(b.input, place)
		}
		b.nodes = append(b.nodes, v)
		if _, again := local[v]; again {
			position = append(position, uint64(i))
			b.repeatedSeeds++
		} else {
			local[v] = int64(i)
			position = append(position, 0)
		}
	}
	first := 0
	for hop, k := range p.fanouts {
		end, edges := len(b.nodes), len(b.ids)
		for t := first; t < end; t++ {
			v := b.nodes[t]
			at := uint64(0)
			if hop == 0 {
				at = position[t]
			}
			if d := len(p.sources[v]); k >= 0 && d > k && d > 4096 {
				b.hubsDrawn++
			}
			for _, q := range plainDraw(key, uint64(v), at, hop, len(p.sources[v]), k) {
				u := p.sources[v][q]
				l, known := local[u]
				if !known {
					l = int64(len(b.nodes))
					local[u] = l
					b.nodes = append(b.nodes, u)
				}
				b.source, b.target, b.ids = append(b.source, l), append(b.target, int64(t)), append(b.ids, p.ids[v][q])
			}
			b.ptr = append(b.ptr, uint32(len(b.ids)))
		}
		b.nodesByHop, b.edgesByHop = append(b.nodesByHop, int64(len(b.nodes)-end)), append(b.edgesByHop, int64(len(b.ids)-edges))
		first = end
	}
	return b
}
