package kerneltest

// Attention against its definition in float64, and its gradients against
// differences of that definition.

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/goagnes/goagnes/kernels"
)

// attended is the whole operation from a matrix and two vectors on, in float64.
type attended struct {
	ptr, src       []uint32
	targets, heads int
	cols           int // of one head
	slope          float64
	mean           bool
	edges, selves  kernels.Dropout
}

// run returns the softmax of edges and of targets' own edges, before dropout, and
// the output.
func (d attended) run(x, source, target []float64) (weight, self, out []float64) {
	n, wide := d.heads, d.heads*d.cols
	score := func(row int, vector []float64, h int) (s float64) {
		for c := h * d.cols; c < (h+1)*d.cols; c++ {
			s += x[row*wide+c] * vector[c]
		}
		return s
	}
	weight, self = make([]float64, len(d.src)*n), make([]float64, d.targets*n)
	outCols, share := wide, 1.0
	if d.mean {
		outCols, share = d.cols, 1/float64(n)
	}
	out = make([]float64, d.targets*outCols)
	for t := range d.targets {
		for h := range n {
			exp := func(u int) float64 {
				s := score(u, source, h) + score(t, target, h)
				if s < 0 {
					s *= d.slope
				}
				return math.Exp(s)
			}
			own := exp(t)
			sum := own
			for j := d.ptr[t]; j < d.ptr[t+1]; j++ {
				if u := int(d.src[j]); u != t {
					weight[int(j)*n+h] = exp(u)
					sum += weight[int(j)*n+h]
				}
			}
			at := 0
			if !d.mean {
				at = h * d.cols
			}
			add := func(w float64, u int, keep bool) {
				if !keep {
					return
				}
				w *= share / (1 - float64(d.edges.Rate))
				for c := range d.cols {
					out[t*outCols+at+c] += w * x[u*wide+h*d.cols+c]
				}
			}
			for j := int(d.ptr[t]); j < int(d.ptr[t+1]); j++ {
				weight[j*n+h] /= sum
				add(weight[j*n+h], int(d.src[j]), kept(d.edges, j, h))
			}
			self[t*n+h] = own / sum
			add(self[t*n+h], t, kept(d.selves, t, h))
		}
	}
	return weight, self, out
}

// attentionCase is one operation with its operands.
type attentionCase struct {
	attended
	name           string
	sources        int
	x              kernels.Matrix
	source, target []float32 // vectors
}

func (s suite) attentionCases(targets, sources int) (all []attentionCase) {
	ptr, src := s.graph(targets, sources)
	for _, shape := range [][2]int{{1, 1}, {1, 7}, {8, 8}, {3, 16}, {2, 70}, {5, 3}, {40, 2}, {1, 64}} {
		for mode := range 4 {
			d := attended{ptr: ptr, src: src, targets: targets, heads: shape[0], cols: shape[1], slope: 0.2, mean: mode&1 != 0}
			if mode&2 != 0 {
				d.edges = kernels.Dropout{Rate: 0.6, Key: [2]uint32{4, 5}, Layer: 1}
				d.selves = kernels.Dropout{Rate: 0.6, Key: [2]uint32{4, 5}, Layer: 2}
			}
			c := attentionCase{attended: d, name: fmt.Sprintf("%dx%d/%d", shape[0], shape[1], mode), sources: sources}
			wide := d.heads * d.cols
			c.x, c.source, c.target = s.matrix(sources, wide, 3), s.random(wide), s.random(wide)
			for i := range c.source { // scores of about 1
				c.source[i] /= float32(math.Sqrt(float64(d.cols)))
				c.target[i] /= float32(math.Sqrt(float64(d.cols)))
			}
			all = append(all, c)
		}
	}
	return all
}

// forward returns the operation with all its buffers filled, and its output.
func (c attentionCase) forward(e *kernels.Engine) (kernels.Attention, kernels.Matrix) {
	n := c.heads
	scores := make([]float32, c.sources*n)
	e.HeadDots(scores, c.x, c.source, n)
	own := make([]float32, c.targets*n)
	e.HeadDots(own, c.x.Slice(0, c.targets), c.target, n)
	a := kernels.Attention{Ptr: c.ptr, Src: c.src, Heads: n, In: c.x, Source: scores, Target: own, Slope: float32(c.slope),
		Weight: garbage(len(c.src) * n), Self: garbage(c.targets * n), Rate: c.edges.Rate, Mean: c.mean}
	e.AttentionWeights(a, c.targets, c.edges, c.selves)
	cols := c.heads * c.cols
	if c.mean {
		cols = c.cols
	}
	out := kernels.NewMatrix(make([]float32, c.targets*cols), c.targets, cols)
	e.Attend(out, a)
	return a, out
}

// garbage is memory that must be written before it is read.
func garbage(n int) []float32 {
	return slices.Repeat([]float32{float32(math.NaN())}, n)
}

func wide(v []float32) []float64 {
	out := make([]float64, len(v))
	for i, x := range v {
		out[i] = float64(x)
	}
	return out
}

func (c attentionCase) operands() (x, source, target []float64) {
	return wide(dense(c.x.Data, c.x.Rows, c.x.Cols, c.x.Stride)), wide(c.source), wide(c.target)
}

func (s suite) attention(t *testing.T) {
	const targets, sources = 150, 400
	for _, c := range s.attentionCases(targets, sources) {
		t.Run(c.name, func(t *testing.T) {
			edges := len(c.src) * c.heads
			got := s.everyThreads(t, func(e *kernels.Engine) []float32 {
				a, out := c.forward(e)
				return slices.Concat(a.Weight, a.Self, out.Data)
			})
			weight, self, out := c.run(c.operands())
			for i := range edges + targets*c.heads {
				w, d, row := 0.0, c.edges, i/c.heads
				if i < edges {
					w = weight[i]
				} else {
					w, d, row = self[i-edges], c.selves, (i-edges)/c.heads
				}
				// A score of cols products, in the exponent, and a sum of 300 terms.
				bound := w*(float64(8*c.cols)+310)*epsilon + 1e-37
				if v := math.Abs(float64(got[i])); !(math.Abs(v-w) <= bound) {
					t.Fatalf("weight %d is %v, want %v within %g", i, got[i], w, bound)
				}
				if keep := kept(d, row, i%c.heads); w > 0 && math.Signbit(float64(got[i])) == keep {
					t.Fatalf("weight %d is %v, kept: %v", i, got[i], keep)
				}
			}
			bound := make([]float64, len(out))
			for i := range bound { // weights sum to 1, values are below 6
				bound[i] = (float64(16*c.cols) + 700) * epsilon * 6 * 2.5
			}
			requireClose(t, "sum", got[edges+targets*c.heads:], out, bound)
		})
	}
}

// attentionGradients: by every element of the input and of both vectors.
func (s suite) attentionGradients(t *testing.T) {
	const targets, sources = 9, 15
	for _, c := range s.attentionCases(targets, sources) {
		if c.heads*c.cols > 64 {
			continue // the wide ones differ in speed alone
		}
		t.Run(c.name, func(t *testing.T) {
			n, wide := c.heads, c.heads*c.cols
			r := s.random(targets * wide)
			edges := len(c.src)
			got := s.everyThreads(t, func(e *kernels.Engine) []float32 {
				a, out := c.forward(e)
				dz := kernels.NewMatrix(r[:len(out.Data)], out.Rows, out.Cols)
				dWeight, dSelf, dTarget, dSource := garbage(edges*n), garbage(targets*n), garbage(targets*n), garbage(sources*n)
				e.AttentionGrad(dz, a, dWeight, dSelf, dTarget)
				ptrT, dstT, edgeT := make([]uint32, sources+1), make([]uint32, edges), make([]uint32, edges)
				kernels.Transpose(c.ptr, c.src, ptrT, dstT, edgeT)
				dx := kernels.NewMatrix(garbage(sources*wide), sources, wide)
				e.AttentionBack(dx, dz, a, kernels.AttentionTransposed{Ptr: ptrT, Dst: dstT, Edge: edgeT,
					DWeight: dWeight, DSelf: dSelf, DTarget: dTarget, SourceVector: c.source, TargetVector: c.target, DSource: dSource})
				// Those of the vectors follow from the scores'.
				all := slices.Clone(dx.Data)
				for _, d := range [][]float32{dSource, dTarget} {
					for i := range wide {
						var sum float64
						for u := range len(d) / n {
							sum += float64(d[u*n+i/c.cols]) * float64(c.x.Data[u*c.x.Stride+i])
						}
						all = append(all, float32(sum))
					}
				}
				return all
			})
			x, source, target := c.operands()
			total := func() (sum, size float64) {
				_, _, out := c.run(x, source, target)
				for i, v := range out {
					sum += v * float64(r[i])
					size += math.Abs(v * float64(r[i]))
				}
				return sum, size
			}
			at := 0
			for _, v := range [][]float64{x, source, target} {
				for i := range v {
					const h = 1e-6
					old := v[i]
					v[i] = old + h
					up, size := total()
					v[i] = old - h
					down, _ := total()
					v[i] = old
					want := (up - down) / (2 * h)
					// Each path carries some units of roundoff of scores and sums; h leaves 1e-9.
					if bound := float64(64+8*c.cols)*epsilon*(size+math.Abs(want)+1) + 1e-8; !(math.Abs(float64(got[at])-want) <= bound) {
						t.Fatalf("gradient %d is %v, differences give %v within %g", at, got[at], want, bound)
					}
					at++
				}
			}
		})
	}
}

func (s suite) attentionShapes(t *testing.T) {
	e := s.engine(t, 1)
	x, out := s.matrix(3, 4, 0), s.matrix(2, 4, 0)
	good := kernels.Attention{Ptr: []uint32{0, 1, 2}, Src: []uint32{2, 0}, Heads: 2, In: x,
		Source: s.random(6), Target: s.random(4), Weight: s.random(4), Self: s.random(4)}
	for name, change := range map[string]func(*kernels.Attention){
		"heads":   func(a *kernels.Attention) { a.Heads = 3 },
		"offsets": func(a *kernels.Attention) { a.Ptr = a.Ptr[:2] },
		"edges":   func(a *kernels.Attention) { a.Src = a.Src[:1] },
		"scores":  func(a *kernels.Attention) { a.Source = a.Source[:5] },
		"weights": func(a *kernels.Attention) { a.Weight = a.Weight[:3] },
		"rate":    func(a *kernels.Attention) { a.Rate = 1 },
		"columns": func(a *kernels.Attention) { a.Mean = true },
	} {
		a := good
		change(&a)
		requirePanic(t, "Attend "+name, func() { e.Attend(out, a) })
	}
	requirePanic(t, "AttentionWeights rates", func() { e.AttentionWeights(good, 2, kernels.Dropout{Rate: 0.5}, kernels.Dropout{}) })
	requirePanic(t, "AttentionGrad", func() { e.AttentionGrad(out, good, make([]float32, 3), make([]float32, 4), make([]float32, 4)) })
	requirePanic(t, "AttentionBack", func() { e.AttentionBack(x, out, good, kernels.AttentionTransposed{}) })
	requirePanic(t, "HeadDots", func() { e.HeadDots(make([]float32, 5), x, make([]float32, 4), 2) })
}
