package kernels

// Philox4x32-10, the counter-based generator behind every random number of
// training and sampling: no state, so that any draw can be made at any time, on
// any thread, and a mask is recomputed instead of stored.

// Philox4x32 returns the four words of Philox4x32-10 (Salmon et al., SC 2011,
// the Random123 library) for a key and a counter. It takes and returns scalars
// because the compiler keeps no array in registers.
func Philox4x32(k0, k1, c0, c1, c2, c3 uint32) (w0, w1, w2, w3 uint32) {
	for range 10 {
		p0 := uint64(c0) * 0xD2511F53
		p1 := uint64(c2) * 0xCD9E8D57
		c0, c1, c2, c3 = uint32(p1>>32)^c1^k0, uint32(p1), uint32(p0>>32)^c3^k1, uint32(p0)
		k0 += 0x9E3779B9
		k1 += 0xBB67AE85
	}
	return c0, c1, c2, c3
}

// Philox is [Philox4x32] over arrays.
func Philox(key [2]uint32, ctr [4]uint32) (w [4]uint32) {
	w[0], w[1], w[2], w[3] = Philox4x32(key[0], key[1], ctr[0], ctr[1], ctr[2], ctr[3])
	return w
}
