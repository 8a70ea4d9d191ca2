package kerneltest

// The loss against its definition, its gradient against finite differences.

import (
	"math"
	"slices"
	"testing"

	"github.com/goagnes/goagnes/kernels"
)

func (s suite) crossEntropy(t *testing.T) {
	for _, d := range []struct{ rows, cols int }{{0, 3}, {5, 4}, {7, 1}, {3000, 6}, {4, 5000}} {
		z, labels := s.matrix(d.rows, d.cols, 1), make([]int64, d.rows)
		for i := range z.Data {
			z.Data[i] *= 3
		}
		for i := range labels {
			labels[i] = int64(s.rng.IntN(d.cols+1)) - 1
		}
		if d.rows > 0 {
			z.Data[0], labels[0] = 300, 0 // must not overflow
		}
		row := func(r int) []float32 { return z.Data[r*z.Stride : r*z.Stride+d.cols] }
		loss := func(r int) float64 {
			top, sum := float64(slices.Max(row(r))), 0.0
			for _, v := range row(r) {
				sum += math.Exp(float64(v) - top)
			}
			return math.Log(sum) + top - float64(row(r)[labels[r]])
		}
		var want kernels.Loss
		for r, label := range labels {
			if label < 0 {
				continue
			}
			want.Labelled++
			want.Sum += loss(r)
			if slices.Index(row(r), slices.Max(row(r))) == int(label) {
				want.Correct++
			}
		}
		const scale = 0.25
		g := s.everyThreads(t, func(e *kernels.Engine) []float32 {
			out := kernels.Matrix{Rows: d.rows, Cols: d.cols, Stride: d.cols, Data: s.random(d.rows * d.cols)}
			got := e.CrossEntropy(z, labels, out, scale)
			if math.Abs(got.Sum-want.Sum) > 1e-9*(1+want.Sum) || got.Labelled != want.Labelled || got.Correct != want.Correct {
				t.Fatalf("%dx%d: %+v, want %+v", d.rows, d.cols, got, want)
			}
			if again := e.CrossEntropy(z, labels, kernels.Matrix{}, scale); again != got {
				t.Fatalf("%dx%d: %+v without a gradient, %+v with one", d.rows, d.cols, again, got)
			}
			inPlace := z
			inPlace.Data = slices.Clone(z.Data)
			e.CrossEntropy(inPlace, labels, inPlace, scale)
			if !slices.Equal(dense(inPlace.Data, d.rows, d.cols, z.Stride), out.Data) {
				t.Fatalf("%dx%d: another gradient in place", d.rows, d.cols)
			}
			return append(out.Data, float32(got.Sum))
		})
		for i := range min(d.rows*d.cols, 200) {
			r, c := i/d.cols, i%d.cols
			if labels[r] < 0 {
				if g[i] != 0 {
					t.Fatalf("%dx%d: gradient (%d,%d) of an ignored row is %v", d.rows, d.cols, r, c, g[i])
				}
				continue
			}
			const h = 1.0 / 1024
			old := row(r)[c]
			row(r)[c] = old + h
			up := loss(r)
			row(r)[c] = old - h
			down := loss(r)
			row(r)[c] = old
			if want := scale * (up - down) / (2 * h); !(math.Abs(float64(g[i])-want) < 1e-5) {
				t.Fatalf("%dx%d: gradient (%d,%d) is %v, want %v", d.rows, d.cols, r, c, g[i], want)
			}
		}
	}
}
