//go:build cgo && amd64

package kernels

// The AVX2 backend: calls of the C loops, one per block of rows.

// #cgo CFLAGS: -std=c11 -O3 -Wall
// #include "avx2.h"
import "C"

import (
	"sync"
	"unsafe"
)

type avx2Tiles struct{}

var avx2Runs = sync.OnceValue(func() bool { return C.gk_supported() != 0 })

// avx2 returns the backend, or nil where the processor cannot run it.
func avx2() tiles {
	if avx2Runs() {
		return avx2Tiles{}
	}
	return nil
}

func floats(s []float32) *C.float  { return (*C.float)(unsafe.SliceData(s)) }
func words(s []uint32) *C.uint32_t { return (*C.uint32_t)(unsafe.SliceData(s)) }
func (d Dropout) native() C.gk_drop {
	return C.gk_drop{
		threshold: C.uint32_t(d.threshold()), scale: C.float(d.scale()),
		key0: C.uint32_t(d.Key[0]), key1: C.uint32_t(d.Key[1]), layer: C.uint32_t(d.Layer),
	}
}

func flag(b bool) C.int {
	if b {
		return 1
	}
	return 0
}

// native returns the address of element (row, col), and whether it is half.
func (in *Input) native(row, col int) (unsafe.Pointer, C.int) {
	at := row*in.Stride + col
	if in.F16 != nil {
		return unsafe.Pointer(unsafe.SliceData(in.F16[at:])), 1
	}
	return unsafe.Pointer(unsafe.SliceData(in.F32[at:])), 0
}

func (avx2Tiles) name() string { return "avx2" }

func (avx2Tiles) pack(panels, b []float32, ldb int, transposed bool, k, n int) {
	C.gk_pack(floats(panels), floats(b), C.int64_t(ldb), flag(transposed), C.int64_t(k), C.int64_t(n))
}

func (avx2Tiles) gemm(m, n, k int, a []float32, lda int, transposed bool, panels, c []float32, ldc int, alpha, beta float32) {
	C.gk_gemm(C.int64_t(m), C.int64_t(n), C.int64_t(k), floats(a), C.int64_t(lda), flag(transposed),
		floats(panels), floats(c), C.int64_t(ldc), C.float(alpha), C.float(beta))
}

func (avx2Tiles) load(dst []float32, stride int, in *Input, row, rows, col, cols int) {
	p, half := in.native(row, col)
	var scale []float32
	if in.Scale != nil {
		scale = in.Scale[row:]
	}
	C.gk_load(floats(dst), C.int64_t(stride), p, half, C.int64_t(in.Stride), floats(scale),
		C.int64_t(rows), C.int64_t(cols), C.uint32_t(row), C.uint32_t(col), in.Drop.native())
}

func (avx2Tiles) rowSums(dst []float32, in *Input, row, rows int, squares bool) {
	if in.Cols == 0 {
		clear(dst)
		return
	}
	p, half := in.native(row, 0)
	C.gk_row_sums(floats(dst), p, half, C.int64_t(in.Stride), C.int64_t(rows), C.int64_t(in.Cols), flag(squares))
}

func (avx2Tiles) aggregate(out Matrix, first, last int, g *Aggregation) {
	if g.In.Rows == 0 || g.In.Cols == 0 {
		portable{}.aggregate(out, first, last, g)
		return
	}
	p, half := g.In.native(0, 0)
	C.gk_aggregate(floats(out.Data), C.int64_t(out.Stride), C.int64_t(first), C.int64_t(last), words(g.Ptr), words(g.Src),
		p, half, C.int64_t(g.In.Stride), C.int64_t(out.Cols), floats(g.RowScale), floats(g.ColScale), floats(g.Weight),
		floats(g.Self), C.int64_t(len(g.Self)), flag(g.Accumulate))
}

func (avx2Tiles) epilogue(z Matrix, row, rows int, bias []float32, f Activation, d Dropout) {
	if z.Cols == 0 {
		return
	}
	C.gk_epilogue(floats(z.Data[row*z.Stride:]), C.int64_t(z.Stride), C.int64_t(rows), C.int64_t(z.Cols), floats(bias),
		C.int(f), C.uint32_t(row), d.native())
}

func (avx2Tiles) reluGrad(g, h Matrix, row, rows int, scale float32) {
	if g.Cols == 0 {
		return
	}
	C.gk_relu_grad(floats(g.Data[row*g.Stride:]), C.int64_t(g.Stride), floats(h.Data[row*h.Stride:]), C.int64_t(h.Stride),
		C.int64_t(rows), C.int64_t(g.Cols), C.float(scale))
}

func (avx2Tiles) eluGrad(g, h Matrix, row, rows int, d Dropout) {
	if g.Cols == 0 {
		return
	}
	C.gk_elu_grad(floats(g.Data[row*g.Stride:]), C.int64_t(g.Stride), floats(h.Data[row*h.Stride:]), C.int64_t(h.Stride),
		C.int64_t(rows), C.int64_t(g.Cols), C.uint32_t(row), d.native())
}

func (avx2Tiles) columnSums(dst []float32, a Matrix, col, cols int) {
	if a.Rows == 0 {
		clear(dst)
		return
	}
	C.gk_column_sums(floats(dst), floats(a.Data[col:]), C.int64_t(a.Stride), C.int64_t(a.Rows), C.int64_t(cols))
}

func (avx2Tiles) adam(p, g, m, v []float32, s adamStep) {
	C.gk_adam(floats(p), floats(g), floats(m), floats(v), C.int64_t(len(p)), C.float(s.step), C.float(s.beta1),
		C.float(s.beta2), C.float(s.eps), C.float(s.decay), C.float(s.invSqrtBias2))
}
