package kernels

// Neighbourhood aggregation over a compressed sparse column graph, and the
// transposed graph its gradient runs over.

import "fmt"

// An Aggregation is a weighted sum of rows of In along edges:
//
//	out[t] = RowScale[t] * Σ_j Weight[j] * ColScale[Src[j]] * In[Src[j]]
//	         + Self[t] * In[t]            j in Ptr[t] … Ptr[t+1]-1
//
// A nil factor is 1, a nil Self is 0. Targets are the first rows of In. A target
// beyond len(Self) has no Self term.
type Aggregation struct {
	Ptr, Src                         []uint32
	In                               Input // its own Scale and Drop must be unset
	RowScale, ColScale, Weight, Self []float32
	Accumulate                       bool // add to out instead of replacing it
}

// aggregateGrain is the number of targets a worker takes at once: few enough
// that hubs do not leave threads idle, and that one range's edge lists stay
// cached while its column blocks are worked through.
const aggregateGrain = 64

// Aggregate computes g for the first out.Rows targets. Edges are summed in the
// order of Src.
func (e *Engine) Aggregate(out Matrix, g Aggregation) {
	out.check("Aggregate out")
	g.In.check("Aggregate in")
	n := out.Rows
	switch {
	case len(g.Ptr) < n+1:
		panic(fmt.Sprintf("kernels: Aggregate: %d offsets for %d targets", len(g.Ptr), n))
	case out.Cols != g.In.Cols:
		panic(fmt.Sprintf("kernels: Aggregate: %d columns into %d", g.In.Cols, out.Cols))
	case g.In.Scale != nil || g.In.Drop.threshold() > 0:
		panic("kernels: Aggregate: input with scale or dropout")
	case int(g.Ptr[n]) > len(g.Src) || g.Weight != nil && int(g.Ptr[n]) > len(g.Weight):
		panic(fmt.Sprintf("kernels: Aggregate: %d edges, %d sources, %d weights", g.Ptr[n], len(g.Src), len(g.Weight)))
	case g.RowScale != nil && len(g.RowScale) < n || g.ColScale != nil && len(g.ColScale) < g.In.Rows:
		panic("kernels: Aggregate: too few scales")
	case min(len(g.Self), n) > g.In.Rows:
		panic("kernels: Aggregate: self term beyond the input's rows")
	}
	e.each(n, aggregateGrain, func(_, lo, hi int) {
		e.tiles.aggregate(out, lo, hi, &g)
	})
}

// CheckGraph reports the first place where (ptr, src) is not a graph over the
// given number of source rows, or -1: offsets must start at 0, ascend and end
// within src, and each source lie below rows. at is an index into ptr, or
// len(ptr) plus an index into src.
func CheckGraph(ptr, src []uint32, rows int) (at int) {
	if len(ptr) == 0 || ptr[0] != 0 {
		return 0
	}
	for t := 1; t < len(ptr); t++ {
		if ptr[t] < ptr[t-1] || int(ptr[t]) > len(src) {
			return t
		}
	}
	for j, u := range src[:ptr[len(ptr)-1]] {
		if int(u) >= rows {
			return len(ptr) + j
		}
	}
	return -1
}

// Transpose writes the transposed graph of the first len(ptr)-1 targets: for
// each of the len(ptrT)-1 sources, the targets of its edges, ascending. dstT
// must hold every edge. edgeT, unless nil, gets the position each edge had.
func Transpose(ptr, src, ptrT, dstT, edgeT []uint32) {
	targets, sources := len(ptr)-1, len(ptrT)-1
	edges := int(ptr[targets])
	if len(dstT) < edges || edgeT != nil && len(edgeT) < edges {
		panic(fmt.Sprintf("kernels: Transpose: room for %d edges, %d given", len(dstT), edges))
	}
	clear(ptrT)
	for _, u := range src[:edges] {
		ptrT[u+1]++ // panics on a source out of range
	}
	for u := range sources {
		ptrT[u+1] += ptrT[u]
	}
	// ptrT[u] is advanced to the end of u's list, then shifted back by one.
	for t := range targets {
		for j := ptr[t]; j < ptr[t+1]; j++ {
			u := src[j]
			at := ptrT[u]
			ptrT[u]++
			dstT[at] = uint32(t)
			if edgeT != nil {
				edgeT[at] = j
			}
		}
	}
	copy(ptrT[1:], ptrT[:sources])
	ptrT[0] = 0
}
