package kernels_test

// Speed of the two operations that decide a training step.

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/goagnes/goagnes/kernels"
)

func benchEngines(b *testing.B, f func(*testing.B, *kernels.Engine)) {
	for _, name := range kernels.Backends() {
		for _, threads := range []int{1, 2} {
			b.Run(fmt.Sprintf("%s/threads=%d", name, threads), func(b *testing.B) {
				e, err := kernels.New(kernels.Options{Backend: name, Threads: threads})
				if err != nil {
					b.Fatal(err)
				}
				f(b, e)
			})
		}
	}
}

func randomMatrix(rows, cols int) kernels.Matrix {
	rng := rand.New(rand.NewPCG(7, 8))
	d := make([]float32, rows*cols)
	for i := range d {
		d[i] = rng.Float32() - 0.5
	}
	return kernels.NewMatrix(d, rows, cols)
}

func BenchmarkGemm(b *testing.B) {
	const m, k, n = 10000, 128, 256
	x, w, z := randomMatrix(m, k), randomMatrix(k, n), randomMatrix(m, n)
	dw, dx := randomMatrix(k, n), randomMatrix(m, k)
	half := kernels.Input{Rows: m, Cols: k, Stride: k, F16: make([]uint16, m*k)}
	for i := range half.F16 {
		half.F16[i] = uint16(i)&0x3ff | 15<<10
	}
	masked := x.Input()
	masked.Drop = kernels.Dropout{Rate: 0.5}
	for _, c := range []struct {
		name string
		run  func(*kernels.Engine)
	}{
		{"NN", func(e *kernels.Engine) { e.Gemm(kernels.NN, 1, x.Input(), w, 0, z) }},
		{"TN", func(e *kernels.Engine) { e.Gemm(kernels.TN, 1, x.Input(), z, 0, dw) }},
		{"NT", func(e *kernels.Engine) { e.Gemm(kernels.NT, 1, z.Input(), w, 0, dx) }},
		{"NN/half", func(e *kernels.Engine) { e.Gemm(kernels.NN, 1, half, w, 0, z) }},
		{"NN/dropout", func(e *kernels.Engine) { e.Gemm(kernels.NN, 1, masked, w, 0, z) }},
	} {
		b.Run(c.name, func(b *testing.B) {
			benchEngines(b, func(b *testing.B, e *kernels.Engine) {
				for b.Loop() {
					c.run(e)
				}
				b.ReportMetric(2*m*k*n*float64(b.N)/b.Elapsed().Seconds()/1e9, "GFLOP/s")
			})
		})
	}
}

// 100,000 rows, 10,000 targets of 10 edges each: the middle layer of a sampled
// minibatch. Bytes are those of the rows read and written.
func BenchmarkAggregate(b *testing.B) {
	const sources, targets, degree = 100000, 10000, 10
	rng := rand.New(rand.NewPCG(5, 6))
	ptr, src := make([]uint32, targets+1), make([]uint32, targets*degree)
	for i := range src {
		src[i] = uint32(rng.IntN(sources))
	}
	for i := range ptr {
		ptr[i] = uint32(i * degree)
	}
	scale := make([]float32, sources)
	for _, cols := range []int{128, 256} {
		in, out := randomMatrix(sources, cols), randomMatrix(targets, cols)
		half := kernels.Input{Rows: sources, Cols: cols, Stride: cols, F16: make([]uint16, sources*cols)}
		for _, c := range []struct {
			name string
			in   kernels.Input
			size int
		}{{"float32", in.Input(), 4}, {"float16", half, 2}} {
			b.Run(fmt.Sprintf("%d/%s", cols, c.name), func(b *testing.B) {
				benchEngines(b, func(b *testing.B, e *kernels.Engine) {
					b.SetBytes(int64(targets * (degree*c.size + 4) * cols))
					for b.Loop() {
						e.Aggregate(out, kernels.Aggregation{Ptr: ptr, Src: src, In: c.in, RowScale: scale, ColScale: scale})
					}
				})
			})
		}
	}
}

func BenchmarkEpilogue(b *testing.B) {
	z := randomMatrix(10000, 256)
	bias := make([]float32, 256)
	for _, rate := range []float32{0, 0.5} {
		b.Run(fmt.Sprintf("dropout=%v", rate), func(b *testing.B) {
			benchEngines(b, func(b *testing.B, e *kernels.Engine) {
				b.SetBytes(int64(len(z.Data) * 8))
				for b.Loop() {
					e.Epilogue(z, bias, kernels.ReLU, kernels.Dropout{Rate: rate})
				}
			})
		})
	}
}
