package kernels

// Matrix product: checks, blocking over k and n, split over threads.

import "fmt"

// A Form tells which operands of a product are transposed.
type Form uint8

// The forms: A and B as they are, A transposed, B transposed.
const (
	NN Form = iota
	TN
	NT
)

// Block sizes. A worker's packed block of B (blockK x blockN) stays in the
// second-level cache, one panel of it (blockK x 16) in the first; a tile of A
// that had to be widened, scaled or masked is blockM x blockK.
const (
	panelWidth   = 16
	blockM       = 96 // multiple of the 6 rows of a register tile and of maskWidth
	blockN       = 256
	blockK       = 256
	packedFloats = blockK * blockN
	tileFloats   = blockM * blockK
	// Largest number of rows a worker takes at once: packing B again for each
	// costs less than 1 % and bounds the wait for an interruption.
	maxRows = 16 * blockM
)

// Gemm computes C = alpha*op(A)*op(B) + beta*C, where form says what op is.
// C is not read when beta is 0. C must overlap neither A nor B.
//
// Shapes, C being m x n: NN: A m x k, B k x n. TN: A k x m, B k x n. NT: A
// m x k, B n x k.
func (e *Engine) Gemm(form Form, alpha float32, a Input, b Matrix, beta float32, c Matrix) {
	a.check("Gemm A")
	b.check("Gemm B")
	c.check("Gemm C")
	m, k, n := a.Rows, a.Cols, b.Cols
	inner := b.Rows
	switch form {
	case TN:
		m, k = k, m
	case NT:
		n, inner = inner, n
	}
	if inner != k || c.Rows != m || c.Cols != n {
		panic(fmt.Sprintf("kernels: Gemm form %d: A %dx%d, B %dx%d, C %dx%d", form, a.Rows, a.Cols, b.Rows, b.Cols, c.Rows, c.Cols))
	}
	if m == 0 || n == 0 {
		return
	}
	if k == 0 {
		for r := range m {
			row := c.row(r)
			for i := range row {
				if beta == 0 {
					row[i] = 0
				} else {
					row[i] *= beta
				}
			}
		}
		return
	}
	e.each(m, e.gemmGrain(m), func(worker, lo, hi int) {
		e.gemmRows(e.scratch[worker], form, alpha, &a, b, beta, c, lo, hi, n, k)
	})
}

// gemmGrain gives each thread one range of rows where that is not too much for
// one go, in multiples of maskWidth so that ranges of a transposed A can be
// masked.
func (e *Engine) gemmGrain(m int) int {
	share := (m + e.threads - 1) / e.threads
	if share >= maxRows {
		return maxRows
	}
	if share > 2*blockM {
		return (share + blockM - 1) / blockM * blockM
	}
	return (share + maskWidth - 1) / maskWidth * maskWidth
}

// gemmRows computes rows [lo, hi) of C.
func (e *Engine) gemmRows(scratch []float32, form Form, alpha float32, a *Input, b Matrix, beta float32, c Matrix, lo, hi, n, k int) {
	packed, tile := scratch[:packedFloats], scratch[packedFloats:]
	for n0 := 0; n0 < n; n0 += blockN {
		nb := min(blockN, n-n0)
		for k0 := 0; k0 < k; k0 += blockK {
			if e.stopped.Load() {
				return
			}
			kb := min(blockK, k-k0)
			if form == NT {
				e.tiles.pack(packed, b.Data[n0*b.Stride+k0:], b.Stride, true, kb, nb)
			} else {
				e.tiles.pack(packed, b.Data[k0*b.Stride+n0:], b.Stride, false, kb, nb)
			}
			scale := beta
			if k0 > 0 {
				scale = 1
			}
			for i := lo; i < hi; i += blockM {
				mb := min(blockM, hi-i)
				out := c.Data[i*c.Stride+n0:]
				switch {
				case form == TN: // always through the tile: its columns lie far apart
					e.tiles.load(tile, blockM, a, k0, kb, i, mb)
					e.tiles.gemm(mb, nb, kb, tile, blockM, true, packed, out, c.Stride, alpha, scale)
				case a.plain():
					e.tiles.gemm(mb, nb, kb, a.F32[i*a.Stride+k0:], a.Stride, false, packed, out, c.Stride, alpha, scale)
				default:
					e.tiles.load(tile, blockK, a, i, mb, k0, kb)
					e.tiles.gemm(mb, nb, kb, tile, blockK, false, packed, out, c.Stride, alpha, scale)
				}
			}
		}
	}
}
