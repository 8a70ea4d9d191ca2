//go:build cgo && amd64

package kernels

// The AVX2 backend's calls of the C loops of attention.

// #include "avx2.h"
import "C"

import (
	"runtime"
	"unsafe"
)

// native fills in what C reads of a, over the graph (ptr, src). Its pointers are
// pinned until the pinner is unpinned: C gets the structure by address.
func (a *Attention) native(p *runtime.Pinner, ptr, src []uint32) C.gk_attention {
	c := C.gk_attention{
		ptr: words(ptr), src: words(src), x: floats(a.In.Data), ldx: C.int64_t(a.In.Stride),
		heads: C.int64_t(a.Heads), cols: C.int64_t(a.In.Cols / a.Heads),
		source: floats(a.Source), target: floats(a.Target), weight: floats(a.Weight), self: floats(a.Self),
		slope: C.float(a.Slope), scale: C.float(a.scale()), mean: flag(a.Mean),
	}
	for _, at := range []unsafe.Pointer{unsafe.Pointer(c.ptr), unsafe.Pointer(c.src), unsafe.Pointer(c.x),
		unsafe.Pointer(c.source), unsafe.Pointer(c.target), unsafe.Pointer(c.weight), unsafe.Pointer(c.self)} {
		if at != nil {
			p.Pin(at)
		}
	}
	return c
}

func (avx2Tiles) headDots(dst []float32, x Matrix, vector []float32, heads, first, last int) {
	if x.Cols == 0 {
		clear(dst[first*heads : last*heads])
		return
	}
	C.gk_head_dots(floats(dst[first*heads:]), floats(x.Data[first*x.Stride:]), C.int64_t(x.Stride), floats(vector),
		C.int64_t(heads), C.int64_t(x.Cols/heads), C.int64_t(last-first))
}

func (avx2Tiles) attentionWeights(a *Attention, first, last int, edges, selves Dropout) {
	var p runtime.Pinner
	defer p.Unpin()
	c := a.native(&p, a.Ptr, a.Src)
	C.gk_attention_weights(&c, C.int64_t(first), C.int64_t(last), edges.native(), selves.native())
}

func (avx2Tiles) attend(out Matrix, a *Attention, first, last int) {
	var p runtime.Pinner
	defer p.Unpin()
	c := a.native(&p, a.Ptr, a.Src)
	C.gk_attend(floats(out.Data), C.int64_t(out.Stride), &c, C.int64_t(first), C.int64_t(last))
}

func (avx2Tiles) attentionGrad(dz Matrix, a *Attention, first, last int, dWeight, dSelf, dTarget []float32) {
	var p runtime.Pinner
	defer p.Unpin()
	c := a.native(&p, a.Ptr, a.Src)
	C.gk_attention_grad(floats(dz.Data), C.int64_t(dz.Stride), &c, C.int64_t(first), C.int64_t(last),
		floats(dWeight), floats(dSelf), floats(dTarget))
}

func (avx2Tiles) attentionBack(dx, dz Matrix, a *Attention, first, last int, g *AttentionTransposed) {
	var p runtime.Pinner
	defer p.Unpin()
	c := a.native(&p, g.Ptr, g.Dst)
	C.gk_attention_back(floats(dx.Data), C.int64_t(dx.Stride), floats(dz.Data), C.int64_t(dz.Stride), &c,
		C.int64_t(first), C.int64_t(last), C.int64_t(dz.Rows), words(g.Edge), floats(g.DWeight), floats(g.DSelf),
		floats(g.DTarget), floats(g.SourceVector), floats(g.TargetVector), floats(g.DSource))
}
