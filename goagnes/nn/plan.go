package nn

// The memory plan of a pass: which buffers it needs, carved from one arena.

import (
	"fmt"
	"unsafe"

	"github.com/goagnes/goagnes/kernels"
)

// A Bound gives upper bounds of a minibatch: new nodes of each hop (seeds
// first, Hops()+1 entries) and edges of each hop (Hops() entries).
type Bound struct {
	NodesPerHop []int
	EdgesPerHop []int
}

// ActivationBytes returns the bytes of arena that a pass over a minibatch within
// the bound needs; train tells whether a backward pass follows.
func (c Config) ActivationBytes(b Bound, train bool) int64 {
	var a arena
	c.carve(&a, c.sizes(b.NodesPerHop, b.EdgesPerHop), train)
	return int64(a.used) * 4
}

// sizes are the shapes of a pass: layer l turns rows of the first nodes[l] nodes
// into those of the first nodes[l+1], over the first edges[l] edges.
type sizes struct {
	nodes [MaxLayers + 1]int
	edges [MaxLayers]int
}

func (c Config) sizes(nodesPerHop, edgesPerHop []int) (s sizes) {
	if len(nodesPerHop) < c.Hops()+1 || len(edgesPerHop) < c.Hops() {
		panic(fmt.Sprintf("nn: %d hops of nodes and %d of edges, a %s of %d layers reads %d hops",
			len(nodesPerHop)-1, len(edgesPerHop), c.Kind, c.Layers, c.Hops()))
	}
	if c.Kind == MLP {
		for l := range c.Layers + 1 {
			s.nodes[l] = nodesPerHop[0]
		}
		return s
	}
	nodes, edges := 0, 0
	for h := range c.Layers + 1 {
		nodes += nodesPerHop[h]
		s.nodes[c.Layers-h] = nodes
		if h < c.Layers {
			edges += edgesPerHop[h]
			s.edges[c.Layers-h-1] = edges
		}
	}
	return s
}

// buffers are the scratch of one pass. Where no backward pass follows, nothing
// outlives the next layer and buffers are shared.
type buffers struct {
	norm       []float32 // gcn: 1/sqrt(D) of each node; sage: 1/in-degree of each target
	self       []float32 // gcn: coefficient of a target's own row
	normInput  []float32 // norm and self times the input's row scale
	selfInput  []float32
	hidden     [MaxLayers + 1][]float32 // output of layer l-1, input of layer l
	aggregated [MaxLayers][]float32     // Â X, where aggregation comes first; later its gradient
	product    []float32                // X W, where the product comes first; later its gradient
	gradient   [2][]float32             // of a layer's output and of its input, taking turns
	ptrT, dstT []uint32                 // transposed graph of a layer

	// gat: by layer, what the backward pass reads again; then one layer's gradients.
	attention [MaxLayers]attention
	edgeT     []uint32 // edge of each entry of dstT
	dWeight   []float32
	dSelf     []float32
	dTarget   []float32
	dSource   []float32
}

// attention are the buffers of one layer's attention.
type attention struct {
	product        []float32 // X W of the layer's sources
	source, target []float32 // scores: heads a node
	weight, self   []float32 // coefficients: heads an edge, heads a target
}

// carveAttention takes gat's own buffers: where no backward pass follows, those of
// the largest layer serve all.
func (c Config) carveAttention(a *arena, s sizes, train bool, b *buffers) {
	size := func(l int) [5]int {
		heads, units := c.heads(l)
		return [5]int{s.nodes[l] * heads * units, s.nodes[l] * heads, s.nodes[l+1] * heads, s.edges[l] * heads, s.nodes[l+1] * heads}
	}
	take := func(n [5]int) attention {
		return attention{a.take(n[0]), a.take(n[1]), a.take(n[2]), a.take(n[3]), a.take(n[4])}
	}
	var most [5]int
	for l := range c.Layers {
		for i, n := range size(l) {
			most[i] = max(most[i], n)
		}
	}
	if !train {
		one := take(most)
		for l := range c.Layers {
			b.attention[l] = one
		}
		return
	}
	for l := range c.Layers {
		b.attention[l] = take(size(l))
	}
	b.product = a.take(most[0])
	b.dSource, b.dTarget, b.dWeight, b.dSelf = a.take(most[1]), a.take(most[2]), a.take(most[3]), a.take(most[4])
	b.edgeT = a.takeWords(s.edges[0])
}

// arena hands out parts of a float32 array in order; without one it counts.
type arena struct {
	floats []float32
	used   int
}

// line is the alignment of a buffer in floats: a cache line.
const line = 16

func (a *arena) take(n int) []float32 {
	at := a.used
	a.used += (n + line - 1) / line * line
	if a.floats == nil || n == 0 {
		return nil
	}
	if a.used > len(a.floats) {
		panic(fmt.Sprintf("nn: arena of %d floats, %d and more needed", len(a.floats), a.used))
	}
	return a.floats[at : at+n : at+n]
}

// takeWords is take for uint32, which has the size and alignment of float32.
func (a *arena) takeWords(n int) []uint32 {
	f := a.take(n)
	return unsafe.Slice((*uint32)(unsafe.Pointer(unsafe.SliceData(f))), len(f))
}

// transposeFrom returns the first layer whose backward pass reads the transposed
// graph: the gradient of the input itself is not needed.
func (c Config) transposeFrom() int {
	if c.transformFirst(0) {
		return 0
	}
	return 1
}

func (c Config) carve(a *arena, s sizes, train bool) (b buffers) {
	switch c.Kind {
	case GCN:
		b.norm, b.self = a.take(s.nodes[0]), a.take(s.nodes[1])
		b.normInput, b.selfInput = a.take(s.nodes[0]), a.take(s.nodes[1])
	case SAGE:
		b.norm = a.take(s.nodes[1])
	case GAT:
		c.carveAttention(a, s, train, &b)
	}
	var hidden [2]int
	var aggregated, product int
	var gradient [2]int
	for l := range c.Layers {
		out := s.nodes[l+1] * c.width(l+1)
		hidden[l%2] = max(hidden[l%2], out)
		if l < c.Layers-1 {
			gradient[l%2] = max(gradient[l%2], out)
		}
		switch {
		case c.Kind == MLP, c.Kind == GAT:
		case c.transformFirst(l):
			product = max(product, s.nodes[l]*c.width(l+1))
		default:
			aggregated = max(aggregated, s.nodes[l+1]*c.width(l))
		}
	}
	if c.Kind != GAT {
		b.product = a.take(product)
	}
	if !train {
		h := [2][]float32{a.take(hidden[0]), a.take(hidden[1])}
		t := a.take(aggregated)
		for l := range c.Layers {
			b.hidden[l+1], b.aggregated[l] = h[l%2], t
		}
		return b
	}
	for l := range c.Layers {
		b.hidden[l+1] = a.take(s.nodes[l+1] * c.width(l+1))
		if c.Kind != MLP && !c.transformFirst(l) {
			b.aggregated[l] = a.take(s.nodes[l+1] * c.width(l))
		}
	}
	b.gradient = [2][]float32{a.take(gradient[0]), a.take(gradient[1])}
	if from := c.transposeFrom(); c.Kind != MLP && from < c.Layers {
		b.ptrT, b.dstT = a.takeWords(s.nodes[from]+1), a.takeWords(s.edges[from])
	}
	return b
}

// view is the first rows x cols elements of a buffer.
func view(buf []float32, rows, cols int) kernels.Matrix {
	return kernels.NewMatrix(buf[:rows*cols], rows, cols)
}
