package train_test

// A Source over a graph in memory, for tests.

import (
	"context"
	"io"
	"math/rand/v2"
	"slices"
	"unsafe"

	"github.com/goagnes/goagnes/goagnes/train"
	"github.com/goagnes/goagnes/layout"
)

// graph is a whole graph: in-edges in compressed sparse columns, features, labels.
type graph struct {
	ptr    []int
	src    []uint32
	x      []float32
	dim    int
	y      []int64
	splits map[string][]int64
}

// newGraph takes edges (source, target) in order; unless keep, repeated edges and
// self-loops are dropped, as PyG's Planetoid does.
func newGraph(nodes int, src, dst []int32, keep bool) *graph {
	in := make([][]uint32, nodes)
	seen := map[[2]int32]bool{}
	for i := range src {
		e := [2]int32{src[i], dst[i]}
		if !keep && (seen[e] || src[i] == dst[i]) {
			continue
		}
		seen[e] = true
		in[dst[i]] = append(in[dst[i]], uint32(src[i]))
	}
	g := &graph{ptr: []int{0}}
	for _, s := range in {
		g.src = append(g.src, s...)
		g.ptr = append(g.ptr, len(g.src))
	}
	return g
}

// memorySource counts what is asked of it.
type memorySource struct {
	*graph
	opened   []string
	released int
	given    int
}

func (s *memorySource) Open(_ context.Context, split string, p train.Pass) (train.Stream, error) {
	s.opened = append(s.opened, split)
	seeds := slices.Clone(s.splits[split])
	rng := rand.New(rand.NewPCG(uint64(p.Epoch), 77))
	if p.Shuffle {
		rng.Shuffle(len(seeds), func(i, j int) { seeds[i], seeds[j] = seeds[j], seeds[i] })
	}
	return &memoryStream{s, p, seeds, rng}, nil
}

type memoryStream struct {
	s     *memorySource
	p     train.Pass
	seeds []int64
	rng   *rand.Rand
}

func (m *memoryStream) Close() error { return nil }

func (m *memoryStream) Next(ctx context.Context) (*train.Batch, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if len(m.seeds) == 0 {
		return nil, io.EOF
	}
	n := min(m.p.BatchSize, len(m.seeds))
	b := m.s.minibatch(m.seeds[:n], m.p.Fanouts, m.rng)
	m.seeds = m.seeds[n:]
	m.s.given++
	b.Release = func() { m.s.released++ }
	return b, nil
}

// minibatch takes the neighbourhood of the seeds, in PyG's order.
func (g *graph) minibatch(seeds []int64, fanouts []int, rng *rand.Rand) *train.Batch {
	b := &train.Batch{NumSeeds: len(seeds), NodesPerHop: []int{len(seeds)}, Ptr: []uint32{0}, NID: slices.Clone(seeds)}
	local := make(map[int64]uint32, len(seeds))
	for i, v := range seeds {
		local[v] = uint32(i)
	}
	first, sampled := 0, false
	for _, k := range fanouts {
		end, edges := len(b.NID), len(b.Src)
		for _, v := range b.NID[first:end] {
			neighbours := g.src[g.ptr[v]:g.ptr[v+1]]
			if k >= 0 && len(neighbours) > k {
				sampled = true
				chosen := rng.Perm(len(neighbours))[:k]
				slices.Sort(chosen)
				picked := make([]uint32, k)
				for i, c := range chosen {
					picked[i] = neighbours[c]
				}
				neighbours = picked
			}
			for _, u := range neighbours {
				l, ok := local[int64(u)]
				if !ok {
					l = uint32(len(b.NID))
					local[int64(u)] = l
					b.NID = append(b.NID, int64(u))
				}
				b.Src = append(b.Src, l)
			}
			b.Ptr = append(b.Ptr, uint32(len(b.Src)))
		}
		b.NodesPerHop = append(b.NodesPerHop, len(b.NID)-end)
		b.EdgesPerHop = append(b.EdgesPerHop, len(b.Src)-edges)
		first = end
	}
	x := make([]float32, len(b.NID)*g.dim)
	for i, v := range b.NID {
		copy(x[i*g.dim:], g.x[int(v)*g.dim:(int(v)+1)*g.dim])
		if !sampled {
			b.Degree = append(b.Degree, uint32(g.ptr[v+1]-g.ptr[v]))
		}
	}
	if len(x) > 0 {
		b.X = unsafe.Slice((*byte)(unsafe.Pointer(&x[0])), len(x)*4)
	}
	b.XDType, b.Dim, b.RowBytes = layout.Float32, g.dim, g.dim*4
	for _, v := range seeds {
		b.Labels = append(b.Labels, g.y[v])
	}
	return b
}

// community is a small graph whose classes are seen only over neighbours: nodes
// of class c link to nodes of class c, features are a noisy hint.
func community(nodes, classes, dim int, noise float64) *graph {
	rng := rand.New(rand.NewPCG(21, 22))
	var src, dst []int32
	y := make([]int64, nodes)
	members := make([][]int32, classes)
	for v := range y {
		c := rng.IntN(classes)
		y[v] = int64(c)
		members[c] = append(members[c], int32(v))
	}
	for v, c := range y {
		for range 6 {
			src, dst = append(src, members[c][rng.IntN(len(members[c]))]), append(dst, int32(v))
		}
	}
	g := newGraph(nodes, src, dst, true)
	g.y, g.dim, g.x = y, dim, make([]float32, nodes*dim)
	for v, c := range y {
		for i := range dim {
			g.x[v*dim+i] = float32(noise * rng.NormFloat64())
		}
		g.x[v*dim+int(c)] += 1
	}
	ids := rng.Perm(nodes)
	part := func(lo, hi int) (s []int64) {
		for _, v := range ids[lo:hi] {
			s = append(s, int64(v))
		}
		return s
	}
	g.splits = map[string][]int64{"train": part(0, nodes/4), "val": part(nodes/4, nodes/2), "test": part(nodes/2, nodes)}
	return g
}
