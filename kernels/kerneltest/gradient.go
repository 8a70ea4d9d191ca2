package kerneltest

// Gradients of each operation by finite differences: with L = Σ R∘f(x) for a
// random R, the operation's gradient applied to R is dL/dx. All of these are
// linear, or linear around a point away from ReLU's kink, so central differences
// with a large step have rounding error alone.

import (
	"math"
	"testing"

	"github.com/goagnes/goagnes/kernels"
)

// differ compares gradient with central differences of Σ r∘f() by each element
// of x.
func differ(t *testing.T, what string, x, gradient, r []float32, f func() []float32) {
	t.Helper()
	const h = 1.0 / 64
	total := func() (sum, size float64) {
		for i, v := range f() {
			sum += float64(v) * float64(r[i])
			size += math.Abs(float64(v) * float64(r[i]))
		}
		return sum, size
	}
	for i := range x {
		old := x[i]
		x[i] = old + h
		up, size := total()
		x[i] = old - h
		down, _ := total()
		x[i] = old
		// Each output carries some units of roundoff, and so does x±h.
		bound := (64*epsilon*size + 1e-6) / h
		if want := (up - down) / (2 * h); !(math.Abs(float64(gradient[i])-want) <= bound) {
			t.Errorf("%s: gradient %d is %v, differences give %v within %g", what, i, gradient[i], want, bound)
			return
		}
	}
}

func (s suite) gradients(t *testing.T) {
	e := s.engine(t, 2)
	const m, k, n = 7, 5, 19
	a, b, r := s.matrix(m, k, 0), s.matrix(k, n, 0), s.matrix(m, n, 0)
	product := func() []float32 {
		c := kernels.NewMatrix(make([]float32, m*n), m, n)
		e.Gemm(kernels.NN, 1, a.Input(), b, 0, c)
		return c.Data
	}
	da, db := kernels.NewMatrix(make([]float32, m*k), m, k), kernels.NewMatrix(make([]float32, k*n), k, n)
	e.Gemm(kernels.NT, 1, r.Input(), b, 0, da)
	e.Gemm(kernels.TN, 1, a.Input(), r, 0, db)
	differ(t, "Gemm by A", a.Data, da.Data, r.Data, product)
	differ(t, "Gemm by B", b.Data, db.Data, r.Data, product)

	// A masked, scaled half input: only B has a gradient.
	in := a.Input()
	in.Scale, in.Drop = s.random(m), kernels.Dropout{Rate: 0.5, Key: [2]uint32{1, 1}}
	e.Gemm(kernels.TN, 1, in, r, 0, db)
	differ(t, "Gemm of a masked input by B", b.Data, db.Data, r.Data, func() []float32 {
		c := kernels.NewMatrix(make([]float32, m*n), m, n)
		e.Gemm(kernels.NN, 1, in, b, 0, c)
		return c.Data
	})

	const targets, sources, cols = 8, 14, 9
	ptr, src := []uint32{0, 0, 3, 4, 8, 9, 9, 12, 14}, []uint32{1, 1, 5, 13, 3, 0, 9, 2, 7, 10, 6, 10, 7, 12}
	x, y := s.matrix(sources, cols, 0), s.matrix(targets, cols, 0)
	g := kernels.Aggregation{Ptr: ptr, Src: src, In: x.Input(), RowScale: s.random(targets), ColScale: s.random(sources), Self: s.random(targets)}
	ptrT, dstT := make([]uint32, sources+1), make([]uint32, len(src))
	kernels.Transpose(ptr, src, ptrT, dstT, nil)
	dx := kernels.NewMatrix(make([]float32, sources*cols), sources, cols)
	e.Aggregate(dx, kernels.Aggregation{Ptr: ptrT, Src: dstT, In: y.Input(), RowScale: g.ColScale, ColScale: g.RowScale, Self: g.Self})
	differ(t, "Aggregate", x.Data, dx.Data, y.Data, func() []float32 {
		out := kernels.NewMatrix(make([]float32, targets*cols), targets, cols)
		e.Aggregate(out, g)
		return out.Data
	})

	// Bias, ReLU and dropout together, every value well off the kink.
	z, bias, drop := s.matrix(m, n, 0), make([]float32, n), kernels.Dropout{Rate: 0.25, Key: [2]uint32{2, 3}, Layer: 1}
	for i, v := range z.Data {
		z.Data[i] = v + float32(math.Copysign(0.5, float64(v)))
	}
	epilogue := func() []float32 {
		h := kernels.NewMatrix(append([]float32(nil), z.Data...), m, n)
		e.Epilogue(h, bias, kernels.ReLU, drop)
		return h.Data
	}
	dz := kernels.NewMatrix(append([]float32(nil), r.Data...), m, n)
	e.ReluGrad(dz, kernels.NewMatrix(epilogue(), m, n), drop.Rate)
	differ(t, "Epilogue by z", z.Data, dz.Data, r.Data, epilogue)
	dbias := make([]float32, n)
	e.ColumnSums(dbias, dz)
	differ(t, "Epilogue by bias", bias, dbias, r.Data, epilogue)

	// ELU bends, so its differences are taken of the definition, in float64.
	for _, d := range []kernels.Dropout{{}, drop} {
		h, g := kernels.NewMatrix(append([]float32(nil), z.Data...), m, n), kernels.NewMatrix(append([]float32(nil), r.Data...), m, n)
		h.Data[3], z.Data[3] = 0, 0
		e.Epilogue(h, nil, kernels.ELU, d)
		e.ELUGrad(g, h, d)
		const step = 1e-6
		elu := func(v float64) float64 {
			if v > 0 {
				return v
			}
			return math.Expm1(v)
		}
		for i, v := range z.Data {
			want := 0.0
			if d.Rate == 0 || kept(d, i/n, i%n) {
				want = float64(r.Data[i]) / (1 - float64(d.Rate)) * (elu(float64(v)+step) - elu(float64(v)-step)) / (2 * step)
			}
			if bound := (16*epsilon + step) * math.Abs(2*float64(r.Data[i])); !(math.Abs(float64(g.Data[i])-want) <= bound) {
				t.Errorf("ELU: gradient %d is %v, differences give %v within %g", i, g.Data[i], want, bound)
			}
		}
	}
}
