package kerneltest

// Matrix products against gonum's float64 Dgemm.

import (
	"fmt"
	"math"
	"testing"

	"github.com/goagnes/goagnes/kernels"
	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"
)

var forms = []struct {
	name   string
	form   kernels.Form
	ta, tb blas.Transpose
}{
	{"NN", kernels.NN, blas.NoTrans, blas.NoTrans},
	{"TN", kernels.TN, blas.Trans, blas.NoTrans},
	{"NT", kernels.NT, blas.NoTrans, blas.Trans},
}

// shapes of op(A) and op(B): every row remainder of the register tile, every
// kind of column edge, more than one block in each direction, vectors, empties.
var shapes = []struct{ m, n, k int }{
	{1, 1, 1}, {2, 3, 4}, {3, 8, 5}, {4, 9, 7}, {5, 16, 8}, {6, 15, 1}, {7, 17, 3}, {12, 24, 33}, {13, 31, 64},
	{97, 7, 257}, {200, 40, 300}, {96, 256, 256}, {193, 263, 31}, {1, 300, 600}, {500, 1, 40}, {64, 16, 1433},
	{0, 4, 3}, {4, 0, 3}, {4, 5, 0}, {1600, 5, 6},
}

func general(m kernels.Matrix) blas64.General {
	g := blas64.General{Rows: m.Rows, Cols: m.Cols, Stride: max(m.Stride, 1), Data: make([]float64, m.Rows*m.Stride+1)}
	for i, v := range m.Data {
		g.Data[i] = float64(v)
	}
	return g
}

func absolute(g blas64.General) blas64.General {
	d := make([]float64, len(g.Data))
	for i, v := range g.Data {
		d[i] = math.Abs(v)
	}
	g.Data = d
	return g
}

// product returns alpha*op(a)*op(b)+beta*c by gonum, and the error bound of each
// element.
func product(ta, tb blas.Transpose, alpha float64, a, b kernels.Matrix, beta float64, c kernels.Matrix, k int) (want, bound []float64) {
	want64, sums := general(c), absolute(general(c))
	if c.Rows > 0 && c.Cols > 0 && k > 0 {
		blas64.Gemm(ta, tb, alpha, general(a), general(b), beta, want64)
		blas64.Gemm(ta, tb, math.Abs(alpha), absolute(general(a)), absolute(general(b)), math.Abs(beta), sums)
	} else {
		for i := range want64.Data {
			want64.Data[i] *= beta
		}
	}
	for i, v := range sums.Data {
		sums.Data[i] = sumBound(k, v)
	}
	return want64.Data, sums.Data
}

func (s suite) gemm(t *testing.T) {
	for _, f := range forms {
		for _, d := range shapes {
			for _, c := range []struct{ alpha, beta float32 }{{1, 0}, {1, 1}, {-0.5, 0.25}} {
				name := fmt.Sprintf("%s/%dx%dx%d/%v,%v", f.name, d.m, d.n, d.k, c.alpha, c.beta)
				t.Run(name, func(t *testing.T) {
					a, b := s.matrix(d.m, d.k, 3), s.matrix(d.k, d.n, 1)
					if f.form == kernels.TN {
						a = s.matrix(d.k, d.m, 2)
					}
					if f.form == kernels.NT {
						b = s.matrix(d.n, d.k, 5)
					}
					before := s.matrix(d.m, d.n, 4)
					got := s.everyThreads(t, func(e *kernels.Engine) []float32 {
						out := before
						out.Data = append([]float32(nil), before.Data...)
						e.Gemm(f.form, c.alpha, a.Input(), b, c.beta, out)
						return out.Data
					})
					want, bound := product(f.ta, f.tb, float64(c.alpha), a, b, float64(c.beta), before, d.k)
					for r := range d.m {
						at := r * before.Stride
						requireClose(t, fmt.Sprintf("row %d", r), got[at:], want[at:at+d.n], bound[at:at+d.n])
						for i := at + d.n; i < at+before.Stride; i++ {
							if got[i] != before.Data[i] {
								t.Fatalf("row %d: wrote between rows", r)
							}
						}
					}
				})
			}
		}
	}
}

// gemmSpecial: beta 0 must not read C; infinities and NaN of A and B arrive
// where they belong and nowhere else.
func (s suite) gemmSpecial(t *testing.T) {
	nan := float32(math.NaN())
	a, b := s.matrix(7, 9, 0), s.matrix(9, 18, 0)
	a.Data[2*9+4] = float32(math.Inf(1))
	b.Data[3*18+17] = nan
	out := s.everyThreads(t, func(e *kernels.Engine) []float32 {
		c := kernels.NewMatrix(make([]float32, 7*18), 7, 18)
		for i := range c.Data {
			c.Data[i] = nan
		}
		e.Gemm(kernels.NN, 1, a.Input(), b, 0, c)
		return c.Data
	})
	for i, v := range out {
		r, c := i/18, i%18
		switch finite := !math.IsNaN(float64(v)) && !math.IsInf(float64(v), 0); {
		case c == 17 && !math.IsNaN(float64(v)):
			t.Errorf("(%d,%d) is %v, want NaN", r, c, v)
		case c != 17 && r == 2 && !math.IsInf(float64(v), 0):
			t.Errorf("(%d,%d) is %v, want an infinity", r, c, v)
		case c != 17 && r != 2 && !finite:
			t.Errorf("(%d,%d) is %v, want finite", r, c, v)
		}
	}
}

// gemmInput: half floats, row scales and dropout masks in A, both ways, equal the
// product of the matrix they stand for.
func (s suite) gemmInput(t *testing.T) {
	drop := kernels.Dropout{Rate: 0.4, Key: [2]uint32{5, 6}, Layer: 2}
	for _, c := range []struct {
		name              string
		half, scale, mask bool
	}{{"half", true, false, false}, {"scale", false, true, false}, {"mask", false, false, true}, {"all", true, true, true}} {
		for _, d := range []struct{ rows, cols, n int }{{5, 40, 3}, {130, 300, 20}, {300, 33, 270}} {
			t.Run(fmt.Sprintf("%s/%dx%d", c.name, d.rows, d.cols), func(t *testing.T) {
				m := s.matrix(d.rows, d.cols, 7)
				in := m.Input()
				if c.half {
					in, m = s.half(d.rows, d.cols, 7)
				}
				if c.scale {
					in.Scale = s.random(d.rows)
				}
				if c.mask {
					in.Drop = drop
				}
				meant := s.meant(in, m)
				for _, f := range forms[:2] {
					b := s.matrix(d.cols, d.n, 0)
					rows, k := d.rows, d.cols
					if f.form == kernels.TN {
						b, rows, k = s.matrix(d.rows, d.n, 0), d.cols, d.rows
					}
					zero := kernels.NewMatrix(make([]float32, rows*d.n), rows, d.n)
					got := s.everyThreads(t, func(e *kernels.Engine) []float32 {
						out := kernels.NewMatrix(make([]float32, rows*d.n), rows, d.n)
						e.Gemm(f.form, 1, in, b, 0, out)
						return out.Data
					})
					want, bound := product(f.ta, f.tb, 1, meant, b, 0, zero, k)
					requireClose(t, f.name, got, want[:rows*d.n], bound)
				}
			})
		}
	}
}

// meant is the matrix an input stands for, from the definitions.
func (s suite) meant(in kernels.Input, m kernels.Matrix) kernels.Matrix {
	out := kernels.NewMatrix(make([]float32, in.Rows*in.Cols), in.Rows, in.Cols)
	for r := range in.Rows {
		for c := range in.Cols {
			v := m.Data[r*m.Stride+c]
			if in.Scale != nil {
				v *= in.Scale[r]
			}
			if in.Drop.Rate > 0 {
				if kept(in.Drop, r, c) {
					v *= float32(1 / (1 - float64(in.Drop.Rate)))
				} else {
					v = 0
				}
			}
			out.Data[r*in.Cols+c] = v
		}
	}
	return out
}

// kept is the definition of the mask.
func kept(d kernels.Dropout, r, c int) bool {
	w := kernels.Philox(d.Key, [4]uint32{uint32(r), uint32(c/32*8 + c%8), d.Layer, 0})
	return float64(w[c%32/8]) >= math.Floor(float64(d.Rate)*(1<<32))
}
