package nn

// Forward and backward passes.

import (
	"fmt"
	"math"

	"github.com/goagnes/goagnes/kernels"
)

// A Batch is one minibatch as a network reads it. Nodes have local numbers: hop
// by hop, seeds first.
type Batch struct {
	NodesPerHop []int         // new nodes of hops 0 (seeds) … Hops()
	X           kernels.Input // a feature row for each node; Scale may be set, Drop not
	// In-edges of the nodes of all hops but the last: sources Src[Ptr[t]:Ptr[t+1]]
	// of target t.
	Ptr, Src []uint32
	// Degree is the in-degree in the whole graph of every node, self-loops left
	// out; nil where neighbours were sampled. Only gcn reads it, for nodes of the
	// last hop: the others have all their edges here. Where it counts self-loops,
	// which the edges at hand cannot tell, such a node weighs that much less than
	// in PyG.
	Degree []uint32
}

// A GraphError tells that a minibatch's graph points outside it.
type GraphError struct {
	Array string // "Ptr" or "Src"
	Index int
}

func (e *GraphError) Error() string {
	return fmt.Sprintf("nn: minibatch graph: %s[%d] is out of range", e.Array, e.Index)
}

// Class returns "input".
func (e *GraphError) Class() string { return "input" }

// Mode tells what a pass is for: the zero value is evaluation.
type Mode struct {
	Train bool
	Key   [2]uint32 // of the dropout masks, in training
}

// A Network computes a Model on an Engine. It is not safe for concurrent use.
type Network struct {
	model  *Model
	engine *kernels.Engine
	memory []float32

	// The pass in progress.
	batch Batch
	mode  Mode
	sizes sizes
	buf   buffers
}

// NewNetwork returns a network that computes m on e. It needs an arena before
// its first pass.
func NewNetwork(m *Model, e *kernels.Engine) *Network {
	return &Network{model: m, engine: e}
}

// SetArena gives the network its scratch; the pass before is forgotten.
func (n *Network) SetArena(memory []float32) {
	n.memory = memory
	n.batch, n.buf = Batch{}, buffers{}
}

// measure checks b and returns the shapes of a pass over it.
func (n *Network) measure(b *Batch) (sizes, error) {
	c := n.model.Config
	hops := c.Hops()
	if len(b.NodesPerHop) < hops+1 {
		panic(fmt.Sprintf("nn: minibatch of %d hops, a %s of %d layers reads %d", len(b.NodesPerHop)-1, c.Kind, c.Layers, hops))
	}
	total, expanded := 0, 0
	for h, nodes := range b.NodesPerHop[:hops+1] {
		expanded = total
		total += nodes
		if nodes < 0 {
			panic(fmt.Sprintf("nn: %d nodes in hop %d", nodes, h))
		}
	}
	if b.X.Rows < total || b.X.Cols != c.Inputs || b.X.Drop != (kernels.Dropout{}) {
		panic(fmt.Sprintf("nn: features %dx%d, want %dx%d without dropout", b.X.Rows, b.X.Cols, total, c.Inputs))
	}
	if hops == 0 {
		return c.sizes(b.NodesPerHop, nil), nil
	}
	if len(b.Ptr) < expanded+1 {
		panic(fmt.Sprintf("nn: %d offsets for %d targets", len(b.Ptr), expanded))
	}
	if b.Degree != nil && len(b.Degree) < total {
		panic(fmt.Sprintf("nn: %d degrees for %d nodes", len(b.Degree), total))
	}
	if at := kernels.CheckGraph(b.Ptr[:expanded+1], b.Src, total); at > expanded {
		return sizes{}, &GraphError{"Src", at - expanded - 1}
	} else if at >= 0 {
		return sizes{}, &GraphError{"Ptr", at}
	}
	// Edges of a hop are those of the targets of the hop before.
	var edges [MaxLayers]int
	end := 0
	for h := range hops {
		first := end
		end += b.NodesPerHop[h]
		edges[h] = int(b.Ptr[end] - b.Ptr[first])
	}
	s := c.sizes(b.NodesPerHop, edges[:hops])
	for l := 1; l < hops; l++ { // a layer's sources lie at most one hop beyond its targets
		for _, u := range b.Src[:s.edges[l]] {
			if int(u) >= s.nodes[l] {
				panic(fmt.Sprintf("nn: layer %d: an edge from node %d, %d nodes within its hops", l, u, s.nodes[l]))
			}
		}
	}
	return s, nil
}

// ArenaBytes returns the bytes of arena a pass over b needs, or a *GraphError.
func (n *Network) ArenaBytes(b Batch, train bool) (int64, error) {
	s, err := n.measure(&b)
	if err != nil {
		return 0, err
	}
	var a arena
	n.model.Config.carve(&a, s, train)
	return int64(a.used) * 4, nil
}

// Forward computes the logits of b's seeds (seeds x classes), which stay valid
// until the next pass. b's arrays must not change before the backward pass is
// over. It returns a *GraphError for a graph that points outside b; an arena
// smaller than ArenaBytes panics.
func (n *Network) Forward(b Batch, mode Mode) (kernels.Matrix, error) {
	s, err := n.measure(&b)
	if err != nil {
		return kernels.Matrix{}, err
	}
	c := n.model.Config
	if n.memory == nil {
		panic("nn: Forward without an arena")
	}
	n.batch, n.mode, n.sizes = b, mode, s
	n.buf = c.carve(&arena{floats: n.memory}, s, mode.Train)
	switch c.Kind {
	case GCN:
		n.normalize()
	case SAGE:
		for t := range n.buf.norm {
			n.buf.norm[t] = 0
			if d := b.Ptr[t+1] - b.Ptr[t]; d > 0 {
				n.buf.norm[t] = 1 / float32(d)
			}
		}
	}
	var out kernels.Matrix
	for l := range c.Layers {
		out = n.forward(l)
	}
	return out, nil
}

// normalize computes gcn's coefficients. An edge of weight 1/sqrt(D_t D_u) is
// norm[t]*norm[u]; all k self-loops of a target are summed with the other edges,
// so its own row gets 1-k more of the same, which leaves exactly one.
func (n *Network) normalize() {
	b, buf := &n.batch, &n.buf
	targets := n.sizes.nodes[1]
	for t := range buf.norm {
		degree, loops := 0, 0
		if t < targets {
			for _, u := range b.Src[b.Ptr[t]:b.Ptr[t+1]] {
				if int(u) == t {
					loops++
				}
			}
			degree = int(b.Ptr[t+1]-b.Ptr[t]) - loops
		} else if b.Degree != nil {
			degree = int(b.Degree[t])
		}
		d := float64(degree + 1)
		buf.norm[t] = float32(1 / math.Sqrt(d))
		if t < targets {
			buf.self[t] = float32(float64(1-loops) / d)
		}
	}
	if scale := b.X.Scale; scale != nil {
		for t, v := range buf.norm {
			buf.normInput[t] = v * scale[t]
		}
		for t, v := range buf.self {
			buf.selfInput[t] = v * scale[t]
		}
	}
}

// dropout is the mask before layer l.
func (n *Network) dropout(l int) kernels.Dropout {
	c := n.model.Config
	if !n.mode.Train || c.Dropout == 0 || l == 0 && !c.InputDropout || l == c.Layers {
		return kernels.Dropout{}
	}
	return kernels.Dropout{Rate: float32(c.Dropout), Key: n.mode.Key, Layer: uint32(l)}
}

// input returns the rows that enter layer l.
func (n *Network) input(l int) kernels.Input {
	if l == 0 {
		x := n.batch.X.Slice(0, n.sizes.nodes[0])
		x.Drop = n.dropout(0)
		return x
	}
	return view(n.buf.hidden[l], n.sizes.nodes[l], n.model.Config.width(l)).Input()
}

// aggregation is Â (or the mean) of layer l over rows in. The input's own row
// scale is folded into the coefficients.
func (n *Network) aggregation(l int, in kernels.Input) kernels.Aggregation {
	targets := n.sizes.nodes[l+1]
	g := kernels.Aggregation{Ptr: n.batch.Ptr[:targets+1], Src: n.batch.Src, In: in, RowScale: n.buf.norm[:targets]}
	if n.model.Config.Kind == GCN {
		g.ColScale, g.Self = n.buf.norm, n.buf.self[:targets]
		if in.Scale != nil {
			g.ColScale, g.Self = n.buf.normInput, n.buf.selfInput[:targets]
		}
	} else {
		g.ColScale = in.Scale
	}
	g.In.Scale = nil
	return g
}

// forward computes layer l.
func (n *Network) forward(l int) kernels.Matrix {
	c, e := n.model.Config, n.engine
	p := n.model.layer(n.model.Values, l)
	w := p.w
	x := n.input(l)
	targets := n.sizes.nodes[l+1]
	z := view(n.buf.hidden[l+1], targets, c.width(l+1))
	beta := float32(0)
	if p.self.Cols > 0 {
		e.Gemm(kernels.NN, 1, x.Slice(0, targets), p.self, 0, z)
		beta = 1
	}
	switch {
	case c.Kind == GAT:
		if beta == 0 {
			clear(z.Data)
		}
		n.attend(l, x, p, z)
	case c.Kind == MLP:
		e.Gemm(kernels.NN, 1, x, w, 0, z)
	case c.transformFirst(l):
		y := view(n.buf.product, x.Rows, w.Cols)
		e.Gemm(kernels.NN, 1, x, w, 0, y)
		g := n.aggregation(l, y.Input())
		g.Accumulate = beta != 0
		e.Aggregate(z, g)
	default:
		t := view(n.buf.aggregated[l], targets, w.Rows)
		e.Aggregate(t, n.aggregation(l, x))
		e.Gemm(kernels.NN, 1, t.Input(), w, beta, z)
	}
	e.Epilogue(z, p.bias, c.activation(l), n.dropout(l+1))
	return z
}

// Backward sets gradient, which has the layout of Model.Values, to the gradient
// of the loss whose derivative by the logits of the Forward before is grad
// (seeds x classes; it may be those logits' own memory). That pass must have
// been one of training. grad's memory is kept as it is; the pass is over.
func (n *Network) Backward(grad kernels.Matrix, gradient []float32) {
	c := n.model.Config
	if !n.mode.Train || n.buf.hidden[1] == nil && n.sizes.nodes[c.Layers] > 0 {
		panic("nn: Backward without a Forward in training")
	}
	if grad.Rows != n.sizes.nodes[c.Layers] || grad.Cols != c.Classes || len(gradient) != len(n.model.Values) {
		panic(fmt.Sprintf("nn: Backward of %dx%d into %d parameters", grad.Rows, grad.Cols, len(gradient)))
	}
	dz := grad
	for l := c.Layers - 1; l >= 0; l-- {
		dz = n.backward(l, dz, gradient)
	}
	n.batch, n.buf, n.mode = Batch{}, buffers{}, Mode{}
}

// backward sets the gradients of layer l's parameters from that of its output,
// and returns that of the output of the layer before.
func (n *Network) backward(l int, dz kernels.Matrix, gradient []float32) kernels.Matrix {
	c, e := n.model.Config, n.engine
	p, d := n.model.layer(n.model.Values, l), n.model.layer(gradient, l)
	w, dw := p.w, d.w
	x := n.input(l)
	targets := n.sizes.nodes[l+1]
	e.ColumnSums(d.bias, dz)
	if p.self.Cols > 0 {
		e.Gemm(kernels.TN, 1, x.Slice(0, targets), dz, 0, d.self)
	}
	var dx kernels.Matrix
	if l > 0 {
		dx = view(n.buf.gradient[(l-1)%2], x.Rows, w.Rows)
	}
	switch {
	case c.Kind == MLP:
		e.Gemm(kernels.TN, 1, x, dz, 0, dw)
		if l > 0 {
			e.Gemm(kernels.NT, 1, dz.Input(), w, 0, dx)
		}
	case c.Kind == GAT:
		dy := n.attendBack(l, dz, p, d)
		e.Gemm(kernels.TN, 1, x, dy, 0, dw)
		if l > 0 {
			e.Gemm(kernels.NT, 1, dy.Input(), w, 0, dx)
		}
	case c.transformFirst(l):
		dy := view(n.buf.product, x.Rows, w.Cols)
		e.Aggregate(dy, n.transposed(l, dz))
		e.Gemm(kernels.TN, 1, x, dy, 0, dw)
		if l > 0 {
			e.Gemm(kernels.NT, 1, dy.Input(), w, 0, dx)
		}
	default:
		t := view(n.buf.aggregated[l], targets, w.Rows)
		e.Gemm(kernels.TN, 1, t.Input(), dz, 0, dw)
		if l > 0 {
			e.Gemm(kernels.NT, 1, dz.Input(), w, 0, t) // t's values are spent
			e.Aggregate(dx, n.transposed(l, t))
		}
	}
	if l == 0 {
		return dx
	}
	if p.self.Cols > 0 {
		e.Gemm(kernels.NT, 1, dz.Input(), p.self, 1, dx.Slice(0, targets))
	}
	h := view(n.buf.hidden[l], x.Rows, w.Rows)
	if c.activation(l-1) == kernels.ELU {
		e.ELUGrad(dx, h, n.dropout(l))
	} else {
		e.ReluGrad(dx, h, n.dropout(l).Rate)
	}
	return dx
}

// transposed is the transposed aggregation of layer l over rows in, one for each
// of its targets.
func (n *Network) transposed(l int, in kernels.Matrix) kernels.Aggregation {
	targets := n.sizes.nodes[l+1]
	ptrT, dstT := n.buf.ptrT[:n.sizes.nodes[l]+1], n.buf.dstT[:n.sizes.edges[l]]
	kernels.Transpose(n.batch.Ptr[:targets+1], n.batch.Src, ptrT, dstT, nil)
	g := kernels.Aggregation{Ptr: ptrT, Src: dstT, In: in.Input(), ColScale: n.buf.norm[:targets]}
	if n.model.Config.Kind == GCN {
		g.RowScale, g.Self = n.buf.norm, n.buf.self[:targets]
	}
	return g
}
