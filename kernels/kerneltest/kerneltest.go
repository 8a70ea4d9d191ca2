// Package kerneltest is the conformance suite of package kernels: every backend
// must pass it. Oracles are float64 loops written from the definitions (gonum
// for the matrix product), finite differences for gradients, published
// known answers for the random stream, and the portable backend for masks.
package kerneltest

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/goagnes/goagnes/kernels"
)

// Run checks the backend of the given name.
func Run(t *testing.T, backend string) {
	tests := []struct {
		name string
		f    func(suite, *testing.T)
	}{
		{"Gemm", suite.gemm}, {"GemmSpecialValues", suite.gemmSpecial}, {"GemmHalfScaleDropout", suite.gemmInput},
		{"Aggregate", suite.aggregate}, {"AggregateTransposed", suite.transposed},
		{"RowSums", suite.rowSums}, {"Epilogue", suite.epilogue}, {"ReluGrad", suite.reluGrad}, {"ColumnSums", suite.columnSums},
		{"Attention", suite.attention}, {"AttentionGradients", suite.attentionGradients}, {"AttentionShapes", suite.attentionShapes},
		{"CrossEntropy", suite.crossEntropy}, {"Gradients", suite.gradients}, {"Adam", suite.adam}, {"Stop", suite.stop}, {"Shapes", suite.shapes},
	}
	for _, c := range tests {
		t.Run(c.name, func(t *testing.T) {
			c.f(suite{backend: backend, rng: rand.New(rand.NewPCG(1, 2))}, t)
		})
	}
}

type suite struct {
	backend string
	rng     *rand.Rand
}

// threads are the settings whose results must have equal bits.
var threads = []int{1, 2, 3, 7}

func (s suite) engine(t *testing.T, threads int) *kernels.Engine {
	t.Helper()
	e, err := kernels.New(kernels.Options{Backend: s.backend, Threads: threads})
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// everyThreads runs f, which returns its output, under every number of threads,
// requires equal bits and returns the output.
func (s suite) everyThreads(t *testing.T, f func(e *kernels.Engine) []float32) []float32 {
	t.Helper()
	var first []float32
	for _, n := range threads {
		got := f(s.engine(t, n))
		if first == nil {
			first = got
			continue
		}
		for i := range got {
			if math.Float32bits(got[i]) != math.Float32bits(first[i]) {
				t.Fatalf("element %d: %v with %d threads, %v with 1", i, got[i], n, first[i])
			}
		}
	}
	return first
}

func (s suite) random(n int) []float32 {
	v := make([]float32, n)
	for i := range v {
		v[i] = float32(s.rng.NormFloat64())
	}
	return v
}

// matrix returns a random matrix whose rows are pad elements apart.
func (s suite) matrix(rows, cols, pad int) kernels.Matrix {
	return kernels.Matrix{Rows: rows, Cols: cols, Stride: cols + pad, Data: s.random(rows * (cols + pad))}
}

// half returns a random float16 input and the float32 matrix of its values.
func (s suite) half(rows, cols, pad int) (kernels.Input, kernels.Matrix) {
	stride := cols + pad
	in := kernels.Input{Rows: rows, Cols: cols, Stride: stride, F16: make([]uint16, rows*stride)}
	m := kernels.Matrix{Rows: rows, Cols: cols, Stride: stride, Data: make([]float32, rows*stride)}
	for i := range in.F16 {
		// Sign, exponent 2^-15 (subnormal) … 2^3, fraction.
		bits := uint16(s.rng.Uint32())&0x83FF | uint16(s.rng.IntN(19))<<10
		in.F16[i] = bits
		m.Data[i] = halfValue(bits)
	}
	return in, m
}

// halfValue is the definition of IEEE binary16.
func halfValue(b uint16) float32 {
	sign, exp, frac := 1.0, int(b>>10)&31, float64(b&1023)
	if b>>15 == 1 {
		sign = -1
	}
	switch exp {
	case 0:
		return float32(sign * math.Ldexp(frac, -24))
	case 31:
		if frac != 0 {
			return float32(math.NaN())
		}
		return float32(math.Inf(int(sign)))
	}
	return float32(sign * math.Ldexp(1024+frac, exp-25))
}

// requireClose requires |got-want| <= tolerance, element by element.
func requireClose(t *testing.T, what string, got []float32, want, tolerance []float64) {
	t.Helper()
	for i := range want {
		if d := math.Abs(float64(got[i]) - want[i]); !(d <= tolerance[i]) {
			t.Fatalf("%s: element %d is %v, want %v within %g", what, i, got[i], want[i], tolerance[i])
		}
	}
}

// epsilon is the unit roundoff of float32.
const epsilon = 1.0 / (1 << 24)

// sumBound bounds the rounding error of a float32 sum of n terms whose absolute
// values add up to total (Higham, Accuracy and Stability, section 4.2).
func sumBound(n int, total float64) float64 {
	return float64(n+4)*epsilon*total + 1e-37
}

func requirePanic(t *testing.T, what string, f func()) {
	t.Helper()
	defer func() {
		if r := recover(); r == nil {
			t.Errorf("%s: no panic", what)
		} else if m := fmt.Sprint(r); !strings.HasPrefix(m, "kernels: ") {
			t.Errorf("%s: panic %q does not name the package", what, m)
		}
	}()
	f()
}
