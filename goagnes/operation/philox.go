package operation

import (
	"math/bits"
	"slices"

	"github.com/goagnes/goagnes/kernels"
)

// Key is a Philox4x32 key.
type Key struct{ k0, k1 uint32 }

// philox returns four words of the stream of a key.
func philox(key Key, c0, c1, c2, c3 uint32) (w0, w1, w2, w3 uint32) {
	return kernels.Philox4x32(key.k0, key.k1, c0, c1, c2, c3)
}

// Purposes of the streams derived from a loader's seed, in the last counter
// word, so that no two streams meet; training uses 3 and 4.
const (
	purposeOrder = 1 // the epoch's seed order
	purposeDraws = 2 // a minibatch's draws
)

// stream is how the engine makes keys, draws and seed orders. A variable for
// tests, which plant defects in it and hold that the statistics find them.
var stream = struct {
	key   func(seed uint64, epoch uint32, minibatch uint64) Key
	draw  func(out []uint32, key Key, original uint64, position uint32, hop int, degree uint64, seen *positionSet)
	order func(seed uint64, epoch uint32, n uint64) permutation
}{batchKey, draw, newPermutation}

func seedKey(seed uint64) Key { return Key{uint32(seed), uint32(seed >> 32)} }

// batchKey returns the key of all draws of one minibatch of one epoch.
func batchKey(seed uint64, epoch uint32, minibatch uint64) Key {
	w0, w1, _, _ := philox(seedKey(seed), uint32(minibatch), uint32(minibatch>>32), epoch, purposeDraws)
	return Key{w0, w1}
}

// narrowDegree is the largest degree whose bounded draws take one 32-bit word:
// their relative bias is at most 4096/2^32 = 2^-20. Larger degrees take two.
const narrowDegree = 4096

// draw writes k of the positions 0..degree-1, distinct, uniform and ascending,
// to out[:k], for degree > k >= 1, by Floyd's method. original and position
// identify the node (see docs/sampling.md), hop counts from the seeds.
// seen is scratch for large k, grown as needed.
func draw(out []uint32, key Key, original uint64, position uint32, hop int, degree uint64, seen *positionSet) {
	k := len(out)
	c2 := uint32(hop) | uint32(original>>32)<<24
	var w [4]uint32
	next := 4 // words of w used up
	block := uint32(0)
	word := func() uint32 {
		if next == 4 {
			w[0], w[1], w[2], w[3] = philox(key, uint32(original), position, c2, block)
			block++
			next = 0
		}
		next++
		return w[next-1]
	}
	large := k > 48
	if large {
		seen.reset(k)
	}
	for i := range out {
		j := degree - uint64(k) + uint64(i)
		var t uint64
		if degree <= narrowDegree {
			t = uint64(word()) * (j + 1) >> 32
		} else {
			lo := word()
			t, _ = bits.Mul64(uint64(word())<<32|uint64(lo), j+1)
		}
		if large {
			if !seen.add(uint32(t)) {
				t = j
				seen.add(uint32(t))
			}
			out[i] = uint32(t)
			continue
		}
		for _, x := range out[:i] {
			if x == uint32(t) {
				t = j
				break
			}
		}
		out[i] = uint32(t)
	}
	sortPositions(out)
}

// sortPositions sorts in place; most calls are of about ten values.
func sortPositions(a []uint32) {
	if len(a) > 48 {
		slices.Sort(a)
		return
	}
	for i := 1; i < len(a); i++ {
		x := a[i]
		j := i
		for ; j > 0 && a[j-1] > x; j-- {
			a[j] = a[j-1]
		}
		a[j] = x
	}
}

// positionSet is an open-addressed set of positions.
type positionSet struct {
	slots []uint32 // position + 1, 0 when free
}

func (s *positionSet) reset(k int) {
	n := 1 << bits.Len(uint(2*k))
	if len(s.slots) < n {
		s.slots = make([]uint32, n)
		return
	}
	clear(s.slots)
}

// add reports whether p was not in the set yet.
func (s *positionSet) add(p uint32) bool {
	mask := uint32(len(s.slots) - 1)
	for i := p * 0x9E3779B1 >> 7 & mask; ; i = (i + 1) & mask {
		switch s.slots[i] {
		case 0:
			s.slots[i] = p + 1
			return true
		case p + 1:
			return false
		}
	}
}
