package element

import (
	"math"
	"math/rand/v2"
	"testing"
)

// halfValue is binary16 by its definition.
func halfValue(h uint16) float64 {
	sign := 1.0
	if h&0x8000 != 0 {
		sign = -1
	}
	exp, frac := int(h>>10&31), float64(h&0x3ff)
	switch exp {
	case 31:
		if frac != 0 {
			return math.NaN()
		}
		return math.Inf(int(sign))
	case 0:
		return sign * math.Ldexp(frac, -24)
	}
	return sign * math.Ldexp(1024+frac, exp-25)
}

func same(a, b float64) bool {
	return math.Float64bits(a) == math.Float64bits(b) || math.IsNaN(a) && math.IsNaN(b)
}

func TestHalfToSingle(t *testing.T) {
	for h := range 1 << 16 {
		if got := float64(halfToSingle(uint16(h))); !same(got, halfValue(uint16(h))) {
			t.Fatalf("%#04x is %v, expected %v", h, got, halfValue(uint16(h)))
		}
	}
}

// nearestHalf rounds by comparing distances, ties to the even significand.
func nearestHalf(v float64) uint16 {
	sign := uint16(0)
	if math.Signbit(v) {
		sign, v = 0x8000, -v
	}
	if v >= 65520 { // half way from the largest number to 2^16
		return sign | 0x7c00
	}
	low, high := uint16(0), uint16(0x7bff)
	for low < high { // the largest number that is not above v
		mid := (low + high + 1) / 2
		if halfValue(mid) <= v {
			low = mid
		} else {
			high = mid - 1
		}
	}
	if low < 0x7bff {
		below, above := v-halfValue(low), halfValue(low+1)-v
		if above < below || above == below && low&1 == 1 {
			low++
		}
	} else if v-halfValue(low) >= 16 {
		low = 0x7c00
	}
	return sign | low
}

func TestRoundingToHalf(t *testing.T) {
	var values []float64
	for h := range 0x7c00 {
		a, b := halfValue(uint16(h)), halfValue(uint16(h+1))
		if h == 0x7bff {
			b = 65536
		}
		mid := (a + b) / 2
		values = append(values, a, mid, math.Nextafter(mid, 0), math.Nextafter(mid, 1e9),
			float64(math.Nextafter32(float32(mid), 0)), float64(math.Nextafter32(float32(mid), 1e9)))
	}
	r := rand.New(rand.NewPCG(1, 1))
	for range 100_000 {
		values = append(values, math.Ldexp(r.Float64(), r.IntN(60)-40))
	}
	values = append(values, 1e300, math.MaxFloat64, math.SmallestNonzeroFloat64, math.Inf(1), 1e-46)
	for _, v := range values {
		for _, v := range []float64{v, -v} {
			if got, want := doubleToHalf(v), nearestHalf(v); got != want {
				t.Fatalf("float64 %v becomes %#04x, expected %#04x", v, got, want)
			}
			if f := float32(v); singleToHalf(f) != nearestHalf(float64(f)) {
				t.Fatalf("float32 %v becomes %#04x, expected %#04x", f, singleToHalf(f), nearestHalf(float64(f)))
			}
		}
	}
	for _, bits := range []uint32{0x7fc00000, 0x7f800001, 0xffffffff, 0xff800001} {
		if h := singleToHalf(math.Float32frombits(bits)); !math.IsNaN(halfValue(h)) || h>>15 != uint16(bits>>31) {
			t.Errorf("NaN %#x becomes %#04x", bits, h)
		}
	}
	if !math.IsNaN(halfValue(doubleToHalf(math.NaN()))) {
		t.Error("NaN is lost")
	}
}
