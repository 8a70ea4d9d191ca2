package element

// Conversion of feature elements, rounding to nearest, ties to even, as numpy does.

import (
	"encoding/binary"
	"math"

	"github.com/goagnes/goagnes/layout"
)

// halfToSingle widens an IEEE 754 binary16 number; every value is exact.
func halfToSingle(h uint16) float32 {
	sign := uint32(h&0x8000) << 16
	exp := uint32(h>>10) & 31
	frac := uint32(h & 0x3ff)
	switch {
	case exp == 31: // infinity, NaN
		return math.Float32frombits(sign | 0x7f800000 | frac<<13)
	case exp != 0:
		return math.Float32frombits(sign | (exp+112)<<23 | frac<<13)
	}
	// Subnormal: frac * 2^-24.
	v := float32(frac) * (1.0 / (1 << 24))
	return math.Float32frombits(math.Float32bits(v) | sign)
}

// singleToHalf rounds to binary16; what lies past 65504 becomes infinite.
func singleToHalf(f float32) uint16 {
	b := math.Float32bits(f)
	sign := uint16(b>>16) & 0x8000
	b &= 0x7fffffff
	switch {
	case b > 0x7f800000: // NaN: keep it quiet, and a NaN
		return sign | 0x7e00 | uint16(b>>13)&0x1ff
	case b >= 0x477ff000: // rounds to 2^16 or more
		return sign | 0x7c00
	case b >= 0x38800000: // normal: 2^-14 and more
		b -= 112 << 23
		b += 0xfff + b>>13&1
		return sign | uint16(b>>13)
	case b < 0x33000000: // below half the smallest subnormal
		return sign
	}
	// Subnormal: shift the significand so that its unit is 2^-24.
	shift := 126 - b>>23
	m := b&0x7fffff | 0x800000
	half := uint32(1) << (shift - 1)
	r := m >> shift
	if low := m & (1<<shift - 1); low > half || low == half && r&1 == 1 {
		r++
	}
	return sign | uint16(r)
}

// doubleToHalf rounds once: the way over float32 rounds to odd, so that the second
// rounding sees on which side of a tie the value lies.
func doubleToHalf(v float64) uint16 {
	f := float32(v)
	if b := math.Float32bits(f); float64(f) != v && v == v {
		if math.Abs(float64(f)) > math.Abs(v) {
			b--
		}
		f = math.Float32frombits(b | 1)
	}
	return singleToHalf(f)
}

// Number reads element i of b as a float64, which holds every value of the types
// below 64 bits exactly.
func Number(b []byte, i int, d layout.DType) float64 {
	switch d {
	case layout.Float32:
		return float64(math.Float32frombits(binary.LittleEndian.Uint32(b[4*i:])))
	case layout.Float64:
		return math.Float64frombits(binary.LittleEndian.Uint64(b[8*i:]))
	case layout.Float16:
		return float64(halfToSingle(binary.LittleEndian.Uint16(b[2*i:])))
	case layout.BFloat16:
		return float64(math.Float32frombits(uint32(binary.LittleEndian.Uint16(b[2*i:])) << 16))
	case layout.Uint64:
		return float64(binary.LittleEndian.Uint64(b[8*i:]))
	}
	v, _ := Integer(b, i, d)
	return float64(v)
}

// ConvertFloats converts all elements of in from one type to float32 or float16
// and returns the part of out that holds them. infinite counts the finite values that
// became infinite.
func ConvertFloats(out, in []byte, from, to layout.DType, infinite *int64) []byte {
	n := len(in) / from.Size()
	out = out[:n*to.Size()]
	switch {
	case from == layout.Float32 && to == layout.Float16:
		for i := range n {
			f := math.Float32frombits(binary.LittleEndian.Uint32(in[4*i:]))
			h := singleToHalf(f)
			if h&0x7fff == 0x7c00 && math.Abs(float64(f)) <= math.MaxFloat32 {
				*infinite++
			}
			binary.LittleEndian.PutUint16(out[2*i:], h)
		}
	case from == layout.Float16 && to == layout.Float32:
		for i := range n {
			f := halfToSingle(binary.LittleEndian.Uint16(in[2*i:]))
			binary.LittleEndian.PutUint32(out[4*i:], math.Float32bits(f))
		}
	case to == layout.Float16:
		for i := range n {
			v := Number(in, i, from)
			h := doubleToHalf(v)
			if h&0x7fff == 0x7c00 && math.Abs(v) <= math.MaxFloat64 {
				*infinite++
			}
			binary.LittleEndian.PutUint16(out[2*i:], h)
		}
	case to == layout.Float32:
		for i := range n {
			v := Number(in, i, from)
			f := float32(v)
			if math.IsInf(float64(f), 0) && math.Abs(v) <= math.MaxFloat64 {
				*infinite++
			}
			binary.LittleEndian.PutUint32(out[4*i:], math.Float32bits(f))
		}
	default:
		panic("element: no conversion from " + from.String() + " to " + to.String())
	}
	return out
}
