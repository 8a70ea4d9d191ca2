package kernels

// Bias, activation and dropout in one pass, their gradients, and column sums.

import (
	"fmt"
	"math"
)

// Dropout is a counter-based mask. Element (r, c) is kept, and multiplied by
// 1/(1-Rate), where word (c mod 32)/8 of
//
//	Philox(Key, {r, c/32*8 + c mod 8, Layer, 0})
//
// is at least Rate*2^32, and is 0 otherwise. The zero value keeps everything.
type Dropout struct {
	Rate  float32 // in [0, 1)
	Key   [2]uint32
	Layer uint32
}

// maskWidth is the number of columns one group of 8 Philox blocks masks.
const maskWidth = 32

func (d Dropout) threshold() uint32 {
	if d.Rate == 0 {
		return 0
	}
	if !(d.Rate > 0 && d.Rate < 1) {
		panic(fmt.Sprintf("kernels: dropout rate %v outside [0,1)", d.Rate))
	}
	return uint32(min(float64(d.Rate)*(1<<32), math.MaxUint32))
}

func (d Dropout) scale() float32 { return float32(1 / (1 - float64(d.Rate))) }

// An Activation is the function between two layers.
type Activation int

// The activations.
const (
	Identity Activation = iota
	ReLU                // max(x, 0)
	ELU                 // x where x > 0, else e^x - 1 (Clevert et al., 2016, alpha 1)
)

// Epilogue replaces z by dropout(activation(z + bias)), where each of the three
// steps may be absent: bias nil, Identity, d zero.
func (e *Engine) Epilogue(z Matrix, bias []float32, f Activation, d Dropout) {
	z.check("Epilogue")
	if bias != nil && len(bias) != z.Cols {
		panic(fmt.Sprintf("kernels: Epilogue: bias of %d for %d columns", len(bias), z.Cols))
	}
	if f < Identity || f > ELU {
		panic(fmt.Sprintf("kernels: Epilogue: activation %d", f))
	}
	d.threshold() // panics here rather than among the workers
	e.each(z.Rows, rowGrain(z.Cols), func(_, lo, hi int) {
		e.tiles.epilogue(z, lo, hi-lo, bias, f, d)
	})
}

// ReluGrad replaces g by the gradient before ReLU and a dropout of the given
// rate, where h is what Epilogue left: g/(1-rate) where h > 0, else 0. The mask
// is not needed, since a dropped element of h is 0.
func (e *Engine) ReluGrad(g, h Matrix, rate float32) {
	g.check("ReluGrad g")
	h.check("ReluGrad h")
	if g.Rows != h.Rows || g.Cols != h.Cols {
		panic(fmt.Sprintf("kernels: ReluGrad: %dx%d and %dx%d", g.Rows, g.Cols, h.Rows, h.Cols))
	}
	scale := Dropout{Rate: rate}.scale()
	e.each(g.Rows, rowGrain(g.Cols), func(_, lo, hi int) {
		e.tiles.reluGrad(g, h, lo, hi-lo, scale)
	})
}

// ELUGrad replaces g by the gradient before ELU and the dropout d, where h is what
// Epilogue left. An ELU may be 0 where nothing was dropped, so the mask is drawn
// again.
func (e *Engine) ELUGrad(g, h Matrix, d Dropout) {
	g.check("ELUGrad g")
	h.check("ELUGrad h")
	if g.Rows != h.Rows || g.Cols != h.Cols {
		panic(fmt.Sprintf("kernels: ELUGrad: %dx%d and %dx%d", g.Rows, g.Cols, h.Rows, h.Cols))
	}
	d.threshold()
	e.each(g.Rows, rowGrain(g.Cols), func(_, lo, hi int) {
		e.tiles.eluGrad(g, h, lo, hi-lo, d)
	})
}

// ColumnSums sets dst[c] to the sum of column c of a (the gradient of a bias).
func (e *Engine) ColumnSums(dst []float32, a Matrix) {
	a.check("ColumnSums")
	if len(dst) != a.Cols {
		panic(fmt.Sprintf("kernels: ColumnSums: %d sums of %d columns", len(dst), a.Cols))
	}
	e.each(a.Cols, 32, func(_, lo, hi int) {
		e.tiles.columnSums(dst[lo:hi], a, lo, hi-lo)
	})
}
