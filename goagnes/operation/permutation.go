package operation

import "math/bits"

// permutation is a keyed bijection of [0, n): the seed order of an epoch,
// without an array. It is a balanced Feistel network of ten rounds on the
// smallest even number of bits that holds n, walked until it falls below n.
type permutation struct {
	key    Key
	n      uint64
	half   uint
	rounds uint32
}

// newPermutation returns the permutation of an epoch.
func newPermutation(seed uint64, epoch uint32, n uint64) permutation {
	w0, w1, _, _ := philox(seedKey(seed), 0, 0, epoch, purposeOrder)
	half := uint(1)
	if n > 1 {
		half = max(1, uint(bits.Len64(n-1)+1)/2)
	}
	return permutation{Key{w0, w1}, n, half, 10}
}

// at returns the image of i < n. The expected number of walks is below four.
func (p permutation) at(i uint64) uint64 {
	mask := uint32(1)<<p.half - 1
	x := i
	for {
		l, r := uint32(x>>p.half), uint32(x)&mask
		for round := range p.rounds {
			w, _, _, _ := philox(p.key, r, round, 0, 0)
			l, r = r, l^w&mask
		}
		x = uint64(l)<<p.half | uint64(r)
		if x < p.n {
			return x
		}
	}
}
