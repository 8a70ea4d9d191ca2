package kernels

// Philox4x32-10, the counter-based generator behind every random number of
// training: no state, so a mask is recomputed instead of stored.

import "math/bits"

// Philox returns the four words of Philox4x32-10 (Salmon et al., SC 2011, the
// Random123 library) for a key and a counter.
func Philox(key [2]uint32, ctr [4]uint32) [4]uint32 {
	for range 10 {
		h0, l0 := bits.Mul32(ctr[0], 0xD2511F53)
		h1, l1 := bits.Mul32(ctr[2], 0xCD9E8D57)
		ctr = [4]uint32{h1 ^ ctr[1] ^ key[0], l1, h0 ^ ctr[3] ^ key[1], l0}
		key[0] += 0x9E3779B9
		key[1] += 0xBB67AE85
	}
	return ctr
}
