//go:build !cgo || !amd64

package kernels

// avx2 returns nil: this build has no AVX2 backend.
func avx2() tiles { return nil }
