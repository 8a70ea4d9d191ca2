package kernels

import (
	"fmt"
	"unsafe"
)

// CopyRows copies n rows of width bytes: row i goes from row from[i] of src,
// whose rows lie stride bytes apart, to row to[i] of dst, whose rows lie width
// bytes apart. A nil index means i itself. Rows that are no longer needed in
// cache are written past it where the processor can (non-temporal stores), and
// the rows ahead are prefetched: tables larger than the caches are copied at
// about the memory's bandwidth.
func CopyRows(dst []byte, to []uint32, src []byte, stride int, from []uint32, width, n int) {
	if n == 0 || width == 0 {
		return
	}
	check := func(name string, index []uint32, stride, length int) {
		last := n - 1
		if index != nil {
			if len(index) < n {
				panic(fmt.Sprintf("kernels: CopyRows of %d rows with %d indices", n, len(index)))
			}
			last = 0
			for _, i := range index[:n] {
				last = max(last, int(i))
			}
		}
		if last*stride+width > length {
			panic(fmt.Sprintf("kernels: CopyRows: row %d of %d bytes lies outside the %d bytes of %s", last, width, length, name))
		}
	}
	check("dst", to, width, len(dst))
	check("src", from, stride, len(src))
	copyRows(unsafe.SliceData(dst), to, unsafe.SliceData(src), stride, from, width, n)
}

// copyRowsPortable is CopyRows in Go.
func copyRowsPortable(dst *byte, to []uint32, src *byte, stride int, from []uint32, width, n int) {
	for i := range n {
		d, s := i, i
		if to != nil {
			d = int(to[i])
		}
		if from != nil {
			s = int(from[i])
		}
		copy(unsafe.Slice((*byte)(unsafe.Add(unsafe.Pointer(dst), d*width)), width),
			unsafe.Slice((*byte)(unsafe.Add(unsafe.Pointer(src), s*stride)), width))
	}
}
