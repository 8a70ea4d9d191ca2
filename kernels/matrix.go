package kernels

// Operands: float32 matrices and feature rows that are read through a widening,
// a row scale and a dropout mask.

import (
	"fmt"
	"math"
)

// A Matrix is a row-major float32 matrix: element (r, c) is
// Data[r*Stride+c]. It does not own its memory.
type Matrix struct {
	Rows, Cols, Stride int
	Data               []float32
}

// NewMatrix views data, which must hold rows*cols elements, as a dense matrix.
func NewMatrix(data []float32, rows, cols int) Matrix {
	m := Matrix{rows, cols, cols, data}
	m.check("NewMatrix")
	return m
}

// Slice returns rows [lo, hi) of m, sharing its memory.
func (m Matrix) Slice(lo, hi int) Matrix {
	if lo < 0 || hi < lo || hi > m.Rows {
		panic(fmt.Sprintf("kernels: Slice [%d,%d) of %d rows", lo, hi, m.Rows))
	}
	m.Rows = hi - lo
	if m.Rows == 0 {
		m.Data = nil
		return m
	}
	m.Data = m.Data[lo*m.Stride : (hi-1)*m.Stride+m.Cols]
	return m
}

// Input returns m as an operand without scale or dropout.
func (m Matrix) Input() Input {
	return Input{Rows: m.Rows, Cols: m.Cols, Stride: m.Stride, F32: m.Data}
}

func (m Matrix) check(op string) {
	checkShape(op, m.Rows, m.Cols, m.Stride, len(m.Data))
}

func (m Matrix) row(r int) []float32 { return m.Data[r*m.Stride : r*m.Stride+m.Cols] }

// An Input is a matrix that is only read: rows of float32 or IEEE half floats.
// Its element (r, c) is Scale[r] times the stored element, passed through Drop.
// Exactly one of F32 and F16 is set, unless the matrix is empty.
type Input struct {
	Rows, Cols, Stride int // Stride in elements
	F32                []float32
	F16                []uint16
	Scale              []float32 // one factor a row; nil: 1
	Drop               Dropout
}

// Slice returns rows [lo, hi) of in, sharing its memory. The mask of a row
// depends on its position, so only slices from row 0 keep a dropout.
func (in Input) Slice(lo, hi int) Input {
	if lo < 0 || hi < lo || hi > in.Rows || lo > 0 && in.Drop.threshold() > 0 {
		panic(fmt.Sprintf("kernels: Slice [%d,%d) of %d rows", lo, hi, in.Rows))
	}
	in.Rows = hi - lo
	end := 0
	if hi > lo {
		end = (hi-1)*in.Stride + in.Cols
	} else {
		lo = 0
	}
	if in.F16 != nil {
		in.F16 = in.F16[lo*in.Stride : end]
	} else {
		in.F32 = in.F32[lo*in.Stride : end]
	}
	if in.Scale != nil {
		in.Scale = in.Scale[lo:hi]
	}
	return in
}

func (in *Input) check(op string) {
	if in.F32 != nil && in.F16 != nil {
		panic("kernels: " + op + ": both F32 and F16 set")
	}
	checkShape(op, in.Rows, in.Cols, in.Stride, max(len(in.F32), len(in.F16)))
	if in.Scale != nil && len(in.Scale) < in.Rows {
		panic(fmt.Sprintf("kernels: %s: %d scales for %d rows", op, len(in.Scale), in.Rows))
	}
}

// plain reports whether the stored elements are the elements.
func (in *Input) plain() bool {
	return in.F16 == nil && in.Scale == nil && in.Drop.threshold() == 0
}

func checkShape(op string, rows, cols, stride, held int) {
	if rows < 0 || cols < 0 || rows > 1<<31-1 || cols > 1<<31-1 || stride < cols {
		panic(fmt.Sprintf("kernels: %s: bad shape %dx%d, stride %d", op, rows, cols, stride))
	}
	if rows > 0 && cols > 0 && held < (rows-1)*stride+cols {
		panic(fmt.Sprintf("kernels: %s: %d elements held, %dx%d with stride %d needs %d",
			op, held, rows, cols, stride, (rows-1)*stride+cols))
	}
}

// at returns element (r, c) as stored, widened.
func (in *Input) at(r, c int) float32 {
	if in.F16 != nil {
		return widen(in.F16[r*in.Stride+c])
	}
	return in.F32[r*in.Stride+c]
}

// RowSums sets dst[r] to the sum of row r of in, scale and dropout left out.
func (e *Engine) RowSums(dst []float32, in Input) {
	e.rowSums("RowSums", dst, in, false)
}

// RowNorms sets dst[r] to the Euclidean norm of row r of in, scale and dropout left
// out.
func (e *Engine) RowNorms(dst []float32, in Input) {
	e.rowSums("RowNorms", dst, in, true)
	for r, sum := range dst[:in.Rows] {
		dst[r] = float32(math.Sqrt(float64(sum)))
	}
}

func (e *Engine) rowSums(op string, dst []float32, in Input, squares bool) {
	in.check(op)
	if len(dst) < in.Rows {
		panic(fmt.Sprintf("kernels: %s: %d elements for %d rows", op, len(dst), in.Rows))
	}
	e.each(in.Rows, rowGrain(in.Cols), func(_, lo, hi int) {
		e.tiles.rowSums(dst[lo:hi], &in, lo, hi-lo, squares)
	})
}

// rowGrain is the number of rows of the given width worth handing to a worker
// at once: about 64 Ki elements.
func rowGrain(cols int) int {
	return max(16, 1<<16/max(cols, 1))
}
