//go:build !cgo || !amd64

package kernels

func copyRows(dst *byte, to []uint32, src *byte, stride int, from []uint32, width, n int) {
	copyRowsPortable(dst, to, src, stride, from, width, n)
}
