package kerneltest

// Aggregation, element-wise operations and Adam against float64 loops.

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/goagnes/goagnes/kernels"
)

// graph returns a random graph of targets over sources, with isolated targets, a
// hub, repeated edges and self-loops.
func (s suite) graph(targets, sources int) (ptr, src []uint32) {
	ptr = []uint32{0}
	for t := range targets {
		degree := s.rng.IntN(6)
		if t == targets/2 {
			degree = 300
		}
		for range degree {
			src = append(src, uint32(s.rng.IntN(sources)))
		}
		if t%5 == 1 {
			src = append(src, uint32(t), uint32(t))
		}
		ptr = append(ptr, uint32(len(src)))
	}
	return ptr, src
}

// aggregated is the definition, in float64, with error bounds.
func aggregated(out kernels.Matrix, g kernels.Aggregation, in kernels.Matrix) (want, bound []float64) {
	one := func(s []float32, i int) float64 {
		if s == nil {
			return 1
		}
		return float64(s[i])
	}
	for t := range out.Rows {
		for c := range out.Cols {
			var sum, total float64
			n := 0
			for j := int(g.Ptr[t]); j < int(g.Ptr[t+1]); j++ {
				u := int(g.Src[j])
				v := one(g.Weight, j) * one(g.ColScale, u) * one(g.RowScale, t) * float64(in.Data[u*in.Stride+c])
				sum, total, n = sum+v, total+math.Abs(v), n+1
			}
			if t < len(g.Self) {
				v := float64(g.Self[t]) * float64(in.Data[t*in.Stride+c])
				sum, total = sum+v, total+math.Abs(v)
			}
			if g.Accumulate {
				v := float64(out.Data[t*out.Stride+c])
				sum, total = sum+v, total+math.Abs(v)
			}
			want, bound = append(want, sum), append(bound, sumBound(n+4, total))
		}
	}
	return want, bound
}

func dense(data []float32, rows, cols, stride int) []float32 {
	var out []float32
	for r := range rows {
		out = append(out, data[r*stride:r*stride+cols]...)
	}
	return out
}

func (s suite) aggregate(t *testing.T) {
	const targets, sources = 150, 400
	ptr, src := s.graph(targets, sources)
	for _, cols := range []int{1, 7, 8, 16, 20, 24, 33, 40, 48, 56, 64, 65, 100, 128, 200} {
		for mode := range 6 {
			t.Run(fmt.Sprintf("%d/%d", cols, mode), func(t *testing.T) {
				m := s.matrix(sources, cols, 3)
				g := kernels.Aggregation{Ptr: ptr, Src: src, In: m.Input()}
				switch mode {
				case 1:
					g.RowScale = s.random(targets)
				case 2:
					g.ColScale, g.Accumulate = s.random(sources), true
				case 3:
					g.Weight, g.Self = s.random(len(src)), s.random(targets)
				case 4:
					g.RowScale, g.ColScale, g.Weight = s.random(targets), s.random(sources), s.random(len(src))
					g.Self, g.Accumulate = s.random(targets/2), true
				case 5:
					g.In, m = s.half(sources, cols, 5)
					g.RowScale, g.Self = s.random(targets), s.random(targets)
				}
				before := s.matrix(targets, cols, 2)
				got := s.everyThreads(t, func(e *kernels.Engine) []float32 {
					out := before
					out.Data = slices.Clone(before.Data)
					e.Aggregate(out, g)
					return dense(out.Data, targets, cols, out.Stride)
				})
				want, bound := aggregated(before, g, m)
				requireClose(t, "sum", got, want, bound)
			})
		}
	}
}

// transposed: aggregation over the transposed graph is the gradient, that is
// <A x, y> = <x, A' y> and every entry agrees with a scatter loop.
func (s suite) transposed(t *testing.T) {
	const targets, sources, cols = 90, 170, 19
	ptr, src := s.graph(targets, sources)
	ptrT, dstT, edgeT := make([]uint32, sources+1), make([]uint32, len(src)), make([]uint32, len(src))
	kernels.Transpose(ptr, src, ptrT, dstT, edgeT)
	if at := kernels.CheckGraph(ptrT, dstT, targets); at >= 0 {
		t.Fatalf("transposed graph is wrong at %d", at)
	}
	for u := range sources {
		if !slices.IsSorted(dstT[ptrT[u]:ptrT[u+1]]) {
			t.Fatalf("targets of source %d do not ascend", u)
		}
		for j := ptrT[u]; j < ptrT[u+1]; j++ {
			e, d := edgeT[j], dstT[j]
			if src[e] != uint32(u) || e < ptr[d] || e >= ptr[d+1] {
				t.Fatalf("entry %d: edge %d is not %d to %d", j, e, u, d)
			}
		}
	}
	y, rowScale, colScale, weight := s.matrix(targets, cols, 0), s.random(targets), s.random(sources), s.random(len(src))
	weightT := make([]float32, len(src))
	for j, e := range edgeT {
		weightT[j] = weight[e]
	}
	got := s.everyThreads(t, func(e *kernels.Engine) []float32 {
		out := kernels.NewMatrix(make([]float32, sources*cols), sources, cols)
		e.Aggregate(out, kernels.Aggregation{Ptr: ptrT, Src: dstT, In: y.Input(), RowScale: colScale, ColScale: rowScale, Weight: weightT})
		return out.Data
	})
	want, total := make([]float64, len(got)), make([]float64, len(got))
	for d := range targets {
		for j := ptr[d]; j < ptr[d+1]; j++ {
			for c := range cols {
				v := float64(weight[j]) * float64(rowScale[d]) * float64(colScale[src[j]]) * float64(y.Data[d*cols+c])
				want[int(src[j])*cols+c] += v
				total[int(src[j])*cols+c] += math.Abs(v)
			}
		}
	}
	for i := range total {
		total[i] = sumBound(310, total[i])
	}
	requireClose(t, "scatter", got, want, total)
}

func (s suite) rowSums(t *testing.T) {
	for _, cols := range []int{0, 1, 8, 13, 100} {
		for _, half := range []bool{false, true} {
			m := s.matrix(1200, cols, 2)
			in := m.Input()
			if half {
				in, m = s.half(1200, cols, 2)
			}
			got := s.everyThreads(t, func(e *kernels.Engine) []float32 {
				out := make([]float32, 1200)
				e.RowSums(out, in)
				return out
			})
			for r := range got {
				var sum, total float64
				for _, v := range m.Data[r*m.Stride : r*m.Stride+cols] {
					sum, total = sum+float64(v), total+math.Abs(float64(v))
				}
				requireClose(t, fmt.Sprintf("row %d of %d columns", r, cols), got[r:], []float64{sum}, []float64{sumBound(cols, total)})
			}
			norms := s.everyThreads(t, func(e *kernels.Engine) []float32 {
				out := make([]float32, 1200)
				e.RowNorms(out, in)
				return out
			})
			for r := range norms {
				var squares float64
				for _, v := range m.Data[r*m.Stride : r*m.Stride+cols] {
					squares += float64(v) * float64(v)
				}
				want := math.Sqrt(squares)
				requireClose(t, fmt.Sprintf("norm of row %d of %d columns", r, cols), norms[r:], []float64{want}, []float64{sumBound(cols+2, want)})
			}
		}
	}
}

func (s suite) epilogue(t *testing.T) {
	drop := kernels.Dropout{Rate: 0.25, Key: [2]uint32{9, 1}, Layer: 1}
	for _, cols := range []int{1, 7, 8, 31, 32, 33, 100} {
		for mode := range 12 {
			z := s.matrix(2100, cols, 1)
			z.Data[0] = float32(math.NaN())
			var bias []float32
			var d kernels.Dropout
			if mode&1 != 0 {
				bias = s.random(cols)
			}
			f := kernels.Activation(mode >> 2)
			if mode&2 != 0 {
				d = drop
			}
			got := s.everyThreads(t, func(e *kernels.Engine) []float32 {
				out := z
				out.Data = slices.Clone(z.Data)
				e.Epilogue(out, bias, f, d)
				return out.Data
			})
			for r := range z.Rows {
				for c := range cols {
					want := z.Data[r*z.Stride+c]
					if bias != nil {
						want += bias[c]
					}
					if f == kernels.ReLU && want <= 0 {
						want = 0
					}
					var off float32
					if f == kernels.ELU && want < 0 {
						off = 4 * epsilon // of e^x, whatever is left after the 1 is taken off
						want = float32(math.Expm1(float64(want)))
					}
					if d.Rate > 0 {
						want *= float32(1 / (1 - float64(d.Rate)))
						off *= 2
						if !kept(d, r, c) {
							want = 0
						}
					}
					v := got[r*z.Stride+c]
					if v != want && !(v != v && want != want) && !(math.Abs(float64(v-want)) <= float64(off)) {
						t.Fatalf("%d columns, mode %d: (%d,%d) is %v, want %v", cols, mode, r, c, v, want)
					}
				}
				if got[r*z.Stride+cols] != z.Data[r*z.Stride+cols] {
					t.Fatalf("%d columns: wrote between rows", cols)
				}
			}
		}
	}
}

func (s suite) reluGrad(t *testing.T) {
	for _, cols := range []int{1, 8, 13, 70} {
		g, h := s.matrix(1500, cols, 2), s.matrix(1500, cols, 1)
		h.Data[0] = 0
		got := s.everyThreads(t, func(e *kernels.Engine) []float32 {
			out := g
			out.Data = slices.Clone(g.Data)
			e.ReluGrad(out, h, 0.5)
			return out.Data
		})
		for r := range g.Rows {
			for c := range cols {
				want := 2 * g.Data[r*g.Stride+c]
				if h.Data[r*h.Stride+c] <= 0 {
					want = 0
				}
				if v := got[r*g.Stride+c]; v != want {
					t.Fatalf("%d columns: (%d,%d) is %v, want %v", cols, r, c, v, want)
				}
			}
		}
	}
}

func (s suite) columnSums(t *testing.T) {
	for _, d := range []struct{ rows, cols int }{{0, 3}, {1, 1}, {255, 7}, {257, 40}, {3000, 100}} {
		a := s.matrix(d.rows, d.cols, 3)
		got := s.everyThreads(t, func(e *kernels.Engine) []float32 {
			out := s.random(d.cols)
			e.ColumnSums(out, a)
			return out
		})
		for c := range d.cols {
			var sum, total float64
			for r := range d.rows {
				v := float64(a.Data[r*a.Stride+c])
				sum, total = sum+v, total+math.Abs(v)
			}
			requireClose(t, fmt.Sprintf("%dx%d column %d", d.rows, d.cols, c), got[c:], []float64{sum}, []float64{sumBound(256+d.rows/256, total)})
		}
	}
}

// adam: ten steps against the published update in float64.
func (s suite) adam(t *testing.T) {
	const n = 70001
	a := kernels.Adam{Rate: 0.01, Beta1: 0.9, Beta2: 0.999, Epsilon: 1e-8, Decay: 5e-4}
	start, grads := s.random(n), make([][]float32, 10)
	for i := range grads {
		grads[i] = s.random(n)
	}
	got := s.everyThreads(t, func(e *kernels.Engine) []float32 {
		p, m, v := slices.Clone(start), make([]float32, n), make([]float32, n)
		for i, g := range grads {
			e.Step(a, int64(i+1), p, g, m, v)
		}
		return p
	})
	want, bound := make([]float64, n), make([]float64, n)
	for i := range want {
		p, m, v := float64(start[i]), 0.0, 0.0
		for k, g := range grads {
			d := float64(g[i]) + a.Decay*p
			m = a.Beta1*m + (1-a.Beta1)*d
			v = a.Beta2*v + (1-a.Beta2)*d*d
			mh, vh := m/(1-math.Pow(a.Beta1, float64(k+1))), v/(1-math.Pow(a.Beta2, float64(k+1)))
			p -= a.Rate * mh / (math.Sqrt(vh) + a.Epsilon)
		}
		want[i], bound[i] = p, 1e-5*a.Rate*10+10*epsilon*math.Abs(p)+1e-6
	}
	requireClose(t, "parameter", got, want, bound)
}

// stop: a stopped engine computes nothing; a resumed one does.
func (s suite) stop(t *testing.T) {
	e := s.engine(t, 2)
	a, c := s.matrix(300, 30, 0), kernels.NewMatrix(make([]float32, 300*300), 300, 300)
	e.Stop()
	e.Gemm(kernels.NT, 1, a.Input(), a, 0, c)
	if slices.ContainsFunc(c.Data, func(v float32) bool { return v != 0 }) {
		t.Error("a stopped engine wrote")
	}
	e.Resume()
	e.Gemm(kernels.NT, 1, a.Input(), a, 0, c)
	if c.Data[0] == 0 {
		t.Error("a resumed engine did not write")
	}
}

// shapes: every operation refuses operands that do not fit.
func (s suite) shapes(t *testing.T) {
	e := s.engine(t, 1)
	a, b, c := s.matrix(3, 4, 0), s.matrix(4, 5, 0), s.matrix(3, 5, 0)
	ptr, src := []uint32{0, 1, 2, 3}, []uint32{0, 1, 2}
	requirePanic(t, "Gemm inner", func() { e.Gemm(kernels.NN, 1, b.Input(), a, 0, c) })
	requirePanic(t, "Gemm short C", func() { e.Gemm(kernels.NN, 1, a.Input(), b, 0, kernels.Matrix{Rows: 3, Cols: 5, Stride: 5}) })
	requirePanic(t, "Gemm stride", func() {
		e.Gemm(kernels.NN, 1, a.Input(), b, 0, kernels.Matrix{Rows: 3, Cols: 5, Stride: 4, Data: c.Data})
	})
	requirePanic(t, "Gemm scale", func() {
		in := a.Input()
		in.Scale = make([]float32, 2)
		e.Gemm(kernels.NN, 1, in, b, 0, c)
	})
	requirePanic(t, "Aggregate offsets", func() { e.Aggregate(c, kernels.Aggregation{Ptr: ptr[:3], Src: src, In: c.Input()}) })
	requirePanic(t, "Aggregate edges", func() { e.Aggregate(c, kernels.Aggregation{Ptr: ptr, Src: src[:2], In: c.Input()}) })
	requirePanic(t, "Aggregate columns", func() { e.Aggregate(c, kernels.Aggregation{Ptr: ptr, Src: src, In: a.Input()}) })
	requirePanic(t, "Aggregate scales", func() {
		e.Aggregate(c, kernels.Aggregation{Ptr: ptr, Src: src, In: c.Input(), ColScale: make([]float32, 2)})
	})
	requirePanic(t, "Epilogue bias", func() { e.Epilogue(c, make([]float32, 4), kernels.ReLU, kernels.Dropout{}) })
	requirePanic(t, "Epilogue rate", func() { e.Epilogue(c, nil, kernels.ReLU, kernels.Dropout{Rate: 1}) })
	requirePanic(t, "Epilogue activation", func() { e.Epilogue(c, nil, 3, kernels.Dropout{}) })
	requirePanic(t, "ELUGrad", func() { e.ELUGrad(a, b, kernels.Dropout{}) })
	requirePanic(t, "ReluGrad", func() { e.ReluGrad(a, b, 0) })
	requirePanic(t, "ColumnSums", func() { e.ColumnSums(make([]float32, 4), c) })
	requirePanic(t, "Step", func() { e.Step(kernels.Adam{}, 1, make([]float32, 2), nil, nil, nil) })
	requirePanic(t, "CrossEntropy label", func() { e.CrossEntropy(c, []int64{0, 5, 0}, kernels.Matrix{}, 1) })
}
