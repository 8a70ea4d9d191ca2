package kernels

import "math"

// widen converts an IEEE 754 half float; subnormals, infinities and NaN
// payloads are kept.
func widen(h uint16) float32 {
	sign, exp, frac := uint32(h>>15)<<31, uint32(h>>10)&31, uint32(h)&1023
	switch {
	case exp == 31 && frac != 0:
		return math.Float32frombits(sign | 0x7FC00000 | frac<<13)
	case exp == 31:
		return math.Float32frombits(sign | 0x7F800000)
	case exp == 0:
		v := float32(frac) * (1.0 / (1 << 24))
		return math.Float32frombits(math.Float32bits(v) | sign)
	}
	return math.Float32frombits(sign | (exp+112)<<23 | frac<<13)
}
