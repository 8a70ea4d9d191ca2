package nn

// The attention of a gat layer, forward and backward.

import "github.com/goagnes/goagnes/kernels"

// slope is that of LeakyReLU below 0, PyG's default.
const slope = 0.2

// Streams of the dropout of coefficients: layer l's edges and targets' own edges
// have the layer numbers l+edgeMask and l+selfMask in [kernels.Dropout].
const (
	edgeMask = 1 << 16
	selfMask = 2 << 16
)

// attentionOf is the operation of layer l over the rows of its product.
func (n *Network) attentionOf(l int) kernels.Attention {
	c, b := n.model.Config, n.buf.attention[l]
	heads, units := c.heads(l)
	targets := n.sizes.nodes[l+1]
	a := kernels.Attention{
		Ptr: n.batch.Ptr[:targets+1], Src: n.batch.Src, Heads: heads, In: view(b.product, n.sizes.nodes[l], heads*units),
		Source: b.source, Target: b.target, Slope: slope, Weight: b.weight, Self: b.self, Mean: l == c.Layers-1,
	}
	if n.mode.Train {
		a.Rate = float32(c.AttentionDropout)
	}
	return a
}

// attend adds layer l's weighted sums over x to z.
func (n *Network) attend(l int, x kernels.Input, p weights, z kernels.Matrix) {
	e, a := n.engine, n.attentionOf(l)
	e.Gemm(kernels.NN, 1, x, p.w, 0, a.In)
	e.HeadDots(a.Source, a.In, p.source, a.Heads)
	e.HeadDots(a.Target, a.In.Slice(0, z.Rows), p.target, a.Heads)
	mask := func(stream int) kernels.Dropout {
		if a.Rate == 0 {
			return kernels.Dropout{}
		}
		return kernels.Dropout{Rate: a.Rate, Key: n.mode.Key, Layer: uint32(l + stream)}
	}
	e.AttentionWeights(a, z.Rows, mask(edgeMask), mask(selfMask))
	e.Attend(z, a)
}

// attendBack sets the gradients of the vectors in d from that of layer l's sums,
// and returns that of its product.
func (n *Network) attendBack(l int, dz kernels.Matrix, p, d weights) kernels.Matrix {
	e, a, buf := n.engine, n.attentionOf(l), &n.buf
	e.AttentionGrad(dz, a, buf.dWeight, buf.dSelf, buf.dTarget)
	edges := n.sizes.edges[l]
	ptrT, dstT, edgeT := buf.ptrT[:a.In.Rows+1], buf.dstT[:edges], buf.edgeT[:edges]
	kernels.Transpose(a.Ptr, a.Src, ptrT, dstT, edgeT)
	dy := view(buf.product, a.In.Rows, a.In.Cols)
	e.AttentionBack(dy, dz, a, kernels.AttentionTransposed{Ptr: ptrT, Dst: dstT, Edge: edgeT,
		DWeight: buf.dWeight, DSelf: buf.dSelf, DTarget: buf.dTarget, SourceVector: p.source, TargetVector: p.target, DSource: buf.dSource})
	units := a.In.Cols / a.Heads
	for h := range a.Heads { // the vectors' gradients: scores' times rows, head by head
		rows := kernels.Matrix{Rows: a.In.Rows, Cols: units, Stride: a.In.Stride, Data: from(a.In.Data, h*units)}
		e.Gemm(kernels.TN, 1, column(buf.dSource, h, a.Heads, a.In.Rows), rows, 0, kernels.NewMatrix(d.source[h*units:(h+1)*units], 1, units))
		e.Gemm(kernels.TN, 1, column(buf.dTarget, h, a.Heads, dz.Rows), rows.Slice(0, dz.Rows), 0, kernels.NewMatrix(d.target[h*units:(h+1)*units], 1, units))
	}
	return dy
}

// column is head h's column of an array of heads values a row.
func column(values []float32, h, heads, rows int) kernels.Input {
	return kernels.Input{Rows: rows, Cols: 1, Stride: heads, F32: from(values, h)}
}

// from is values[at:], or nothing where the array is empty.
func from(values []float32, at int) []float32 {
	if len(values) == 0 {
		return nil
	}
	return values[at:]
}
