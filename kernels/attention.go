package kernels

// Attention over a compressed sparse column graph: scores, softmax, weighted sums
// and their gradients, without a row for any edge.

import (
	"fmt"
	"math"
)

// An Attention is the operation of a graph attention layer (Veličković et al.,
// 2018; PyG's GATConv). In holds Heads blocks of C columns. For target t, head h
// and each in-edge j of t from u, and for t itself,
//
//	s = Source[u,h] + Target[t,h],  a = softmax over t's edges of LeakyReLU(s)
//	out[t] = Σ dropout(a)[h] * In[u]'s block h
//
// where the heads' blocks are kept apart or, with Mean, averaged. Every target has
// exactly one edge to itself: those listed in Src count as nothing, one is added.
// Targets are the first rows of In.
type Attention struct {
	Ptr, Src []uint32
	Heads    int
	In       Matrix    // sources x Heads*C
	Source   []float32 // sources x Heads: scores of a node as a source
	Target   []float32 // targets x Heads: scores of a node as a target
	Slope    float32   // of LeakyReLU below 0
	// Weight (edges x Heads) and Self (targets x Heads) are a: AttentionWeights
	// writes them, the others read them. What dropout removes keeps its value and
	// has its sign set, since the gradient needs it and a itself is never negative.
	Weight, Self []float32
	Rate         float32 // of the dropout that was applied
	Mean         bool
}

// attentionTiles are the inner loops of attention that a backend supplies, each
// for targets (or sources) first to last-1.
type attentionTiles interface {
	headDots(dst []float32, x Matrix, vector []float32, heads, first, last int)
	attentionWeights(a *Attention, first, last int, edges, selves Dropout)
	attend(out Matrix, a *Attention, first, last int)
	attentionGrad(dz Matrix, a *Attention, first, last int, dWeight, dSelf, dTarget []float32)
	attentionBack(dx, dz Matrix, a *Attention, first, last int, g *AttentionTransposed)
}

// check panics unless a fits its graph of the given targets; weights says whether
// Weight and Self must be there.
func (a *Attention) check(op string, targets int) {
	a.In.check(op)
	h := a.Heads
	switch {
	case h < 1 || a.In.Cols%h != 0:
		panic(fmt.Sprintf("kernels: %s: %d columns for %d heads", op, a.In.Cols, h))
	case len(a.Ptr) < targets+1 || targets > a.In.Rows:
		panic(fmt.Sprintf("kernels: %s: %d offsets and %d rows for %d targets", op, len(a.Ptr), a.In.Rows, targets))
	case int(a.Ptr[targets]) > len(a.Src):
		panic(fmt.Sprintf("kernels: %s: %d edges, %d sources", op, a.Ptr[targets], len(a.Src)))
	case len(a.Source) < a.In.Rows*h || len(a.Target) < targets*h:
		panic(fmt.Sprintf("kernels: %s: %d and %d scores for %d sources and %d targets of %d heads", op, len(a.Source), len(a.Target), a.In.Rows, targets, h))
	case len(a.Weight) < int(a.Ptr[targets])*h || len(a.Self) < targets*h:
		panic(fmt.Sprintf("kernels: %s: %d and %d weights for %d edges and %d targets of %d heads", op, len(a.Weight), len(a.Self), a.Ptr[targets], targets, h))
	case !(a.Rate >= 0 && a.Rate < 1):
		panic(fmt.Sprintf("kernels: %s: rate %v outside [0,1)", op, a.Rate))
	}
}

// columns is the width of the output.
func (a *Attention) columns() int {
	if a.Mean {
		return a.In.Cols / a.Heads
	}
	return a.In.Cols
}

// scale is the factor of a weight that is kept.
func (a *Attention) scale() float32 {
	s := Dropout{Rate: a.Rate}.scale()
	if a.Mean {
		s /= float32(a.Heads)
	}
	return s
}

// HeadDots sets dst[r*heads+h] to the product of block h of row r of x with block
// h of vector.
func (e *Engine) HeadDots(dst []float32, x Matrix, vector []float32, heads int) {
	x.check("HeadDots")
	if heads < 1 || x.Cols%heads != 0 || len(vector) != x.Cols || len(dst) < x.Rows*heads {
		panic(fmt.Sprintf("kernels: HeadDots: %dx%d, vector of %d, %d heads, %d products", x.Rows, x.Cols, len(vector), heads, len(dst)))
	}
	e.each(x.Rows, rowGrain(x.Cols), func(_, lo, hi int) {
		e.tiles.headDots(dst, x, vector, heads, lo, hi)
	})
}

// AttentionWeights computes Weight and Self of the given number of targets. edges
// masks Weight, a matrix of edges x Heads, selves masks Self; both have the rate
// a.Rate.
func (e *Engine) AttentionWeights(a Attention, targets int, edges, selves Dropout) {
	a.check("AttentionWeights", targets)
	if edges.Rate != a.Rate || selves.Rate != a.Rate {
		panic(fmt.Sprintf("kernels: AttentionWeights: rates %v and %v, want %v", edges.Rate, selves.Rate, a.Rate))
	}
	e.each(targets, aggregateGrain, func(_, lo, hi int) {
		e.tiles.attentionWeights(&a, lo, hi, edges, selves)
	})
}

// Attend adds to out, a row for each target, the weighted sums.
func (e *Engine) Attend(out Matrix, a Attention) {
	out.check("Attend out")
	a.check("Attend", out.Rows)
	if out.Cols != a.columns() {
		panic(fmt.Sprintf("kernels: Attend: %d columns, want %d", out.Cols, a.columns()))
	}
	e.each(out.Rows, aggregateGrain, func(_, lo, hi int) {
		e.tiles.attend(out, &a, lo, hi)
	})
}

// AttentionGrad computes, from the gradient dz of Attend's output, the gradients
// of the sums s: dWeight of every edge's, dSelf of every target's own, and
// dTarget of Target, which is the sum of both over a target. They are laid out
// like Weight, Self and Target.
func (e *Engine) AttentionGrad(dz Matrix, a Attention, dWeight, dSelf, dTarget []float32) {
	dz.check("AttentionGrad dz")
	a.check("AttentionGrad", dz.Rows)
	n, edges := dz.Rows*a.Heads, int(a.Ptr[dz.Rows])*a.Heads
	if dz.Cols != a.columns() || len(dWeight) < edges || len(dSelf) < n || len(dTarget) < n {
		panic(fmt.Sprintf("kernels: AttentionGrad: %d columns, gradients of %d, %d and %d", dz.Cols, len(dWeight), len(dSelf), len(dTarget)))
	}
	e.each(dz.Rows, aggregateGrain, func(_, lo, hi int) {
		e.tiles.attentionGrad(dz, &a, lo, hi, dWeight, dSelf, dTarget)
	})
}

// AttentionTransposed is what AttentionBack reads beside the forward operation:
// the transposed graph, as [Transpose] gives it, the gradients of AttentionGrad,
// and the vectors whose HeadDots with In are Source and Target.
type AttentionTransposed struct {
	Ptr, Dst, Edge             []uint32
	DWeight, DSelf, DTarget    []float32
	SourceVector, TargetVector []float32
	DSource                    []float32 // set to the gradient of Source
}

// AttentionBack sets dx to the gradient of a.In, through the weighted sums and
// through both scores, and g.DSource.
func (e *Engine) AttentionBack(dx, dz Matrix, a Attention, g AttentionTransposed) {
	dx.check("AttentionBack dx")
	dz.check("AttentionBack dz")
	a.check("AttentionBack", dz.Rows)
	h, edges := a.Heads, int(a.Ptr[dz.Rows])
	switch {
	case dx.Rows != a.In.Rows || dx.Cols != a.In.Cols || dz.Cols != a.columns():
		panic(fmt.Sprintf("kernels: AttentionBack: %dx%d from %d columns, want %dx%d", dx.Rows, dx.Cols, dz.Cols, a.In.Rows, a.In.Cols))
	case len(g.Ptr) < dx.Rows+1 || int(g.Ptr[dx.Rows]) != edges || len(g.Dst) < edges || len(g.Edge) < edges:
		panic(fmt.Sprintf("kernels: AttentionBack: transposed graph of %d offsets, %d and %d edges", len(g.Ptr), len(g.Dst), len(g.Edge)))
	case len(g.DWeight) < edges*h || len(g.DSelf) < dz.Rows*h || len(g.DTarget) < dz.Rows*h || len(g.DSource) < dx.Rows*h:
		panic(fmt.Sprintf("kernels: AttentionBack: gradients of %d, %d, %d and %d", len(g.DWeight), len(g.DSelf), len(g.DTarget), len(g.DSource)))
	case len(g.SourceVector) != dx.Cols || len(g.TargetVector) != dx.Cols:
		panic(fmt.Sprintf("kernels: AttentionBack: vectors of %d and %d", len(g.SourceVector), len(g.TargetVector)))
	}
	e.each(dx.Rows, aggregateGrain, func(_, lo, hi int) {
		e.tiles.attentionBack(dx, dz, &a, lo, hi, &g)
	})
}

// kept is the weight that dropout leaves of a stored one.
func kept(w, scale float32) float32 {
	if math.Signbit(float64(w)) {
		return 0
	}
	return w * scale
}
