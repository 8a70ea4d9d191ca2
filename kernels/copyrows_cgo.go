//go:build cgo && amd64

package kernels

// #include <stdint.h>
// void gk_stream_rows(uint8_t *dst, const uint32_t *to, const uint8_t *src, int64_t stride, const uint32_t *from, int64_t width, int64_t n);
// void gk_copy_rows(uint8_t *dst, const uint32_t *to, const uint8_t *src, int64_t stride, const uint32_t *from, int64_t width, int64_t n);
import "C"

import "unsafe"

// streamed is the width from which rows are written past the caches.
const streamed = 128

func copyRows(dst *byte, to []uint32, src *byte, stride int, from []uint32, width, n int) {
	d, t, s, f := (*C.uint8_t)(unsafe.Pointer(dst)), (*C.uint32_t)(unsafe.SliceData(to)), (*C.uint8_t)(unsafe.Pointer(src)), (*C.uint32_t)(unsafe.SliceData(from))
	if width >= streamed && width%32 == 0 && uintptr(unsafe.Pointer(dst))%32 == 0 && avx2Runs() {
		C.gk_stream_rows(d, t, s, C.int64_t(stride), f, C.int64_t(width), C.int64_t(n))
		return
	}
	C.gk_copy_rows(d, t, s, C.int64_t(stride), f, C.int64_t(width), C.int64_t(n))
}
