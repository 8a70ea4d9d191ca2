package synthetic

// The random numbers: a hash of counters, and permutations of ids by formula.

import "math/bits"

// golden is 2^64 divided by the golden ratio, the step of SplitMix64 (Steele, Lea
// and Flood, OOPSLA 2014).
const golden = 0x9E3779B97F4A7C15

// mix is the finaliser of SplitMix64, a bijection.
func mix(z uint64) uint64 {
	z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9
	z = (z ^ (z >> 27)) * 0x94D049BB133111EB
	return z ^ (z >> 31)
}

// stream returns the key of one stream of a seed.
func stream(seed, number uint64) uint64 { return mix(mix(seed+golden) + number*golden) }

// word returns word i of the stream with this key: SplitMix64, started at key,
// after i steps.
func word(key, i uint64) uint64 { return mix(key + (i+1)*golden) }

// below maps a word to [0, n).
func below(w, n uint64) uint64 {
	hi, _ := bits.Mul64(w, n)
	return hi
}

// unit maps a word to [0, 1).
func unit(w uint64) float64 { return float64(w>>11) / (1 << 53) }

const permutationRounds = 4

// permutation is a keyed bijection of [0, n): multiplications by odd numbers and
// xors with the upper half, all modulo the power of two from n on, repeated while
// the result is n or more (cycle walking, at most two times on average).
type permutation struct {
	n, mask uint64
	shift   uint
	mul     [permutationRounds]uint64
	inverse [permutationRounds]uint64 // of mul modulo 2^64
	add     [permutationRounds]uint64
}

func newPermutation(n int64, key uint64) permutation {
	b := uint(bits.Len64(uint64(n - 1)))
	p := permutation{n: uint64(n), mask: 1<<b - 1, shift: max(1, (b+1)/2)}
	for i := range p.mul {
		p.mul[i] = word(key, uint64(2*i)) | 1
		p.add[i] = word(key, uint64(2*i+1))
		// Newton's iteration doubles the correct bits, of which x has three.
		x := p.mul[i]
		for range 5 {
			x *= 2 - p.mul[i]*x
		}
		p.inverse[i] = x
	}
	return p
}

// at returns the image of x.
func (p *permutation) at(x uint64) uint64 {
	for {
		for i := range permutationRounds {
			x = (x*p.mul[i] + p.add[i]) & p.mask
			x ^= x >> p.shift // its own inverse: the shift is half of the bits or more
		}
		if x < p.n {
			return x
		}
	}
}

// of returns what has the image x.
func (p *permutation) of(x uint64) uint64 {
	for {
		for i := permutationRounds - 1; i >= 0; i-- {
			x ^= x >> p.shift
			x = ((x - p.add[i]) * p.inverse[i]) & p.mask
		}
		if x < p.n {
			return x
		}
	}
}
