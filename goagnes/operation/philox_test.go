package operation

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// TestPhilox holds the known answers of Random123 1.14, kat_vectors.
func TestPhilox(t *testing.T) {
	for _, c := range []struct {
		key Key
		ctr [4]uint32
		out [4]uint32
	}{
		{Key{}, [4]uint32{}, [4]uint32{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
		{Key{0xffffffff, 0xffffffff}, [4]uint32{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}, [4]uint32{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
		{Key{0xa4093822, 0x299f31d0}, [4]uint32{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, [4]uint32{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
	} {
		w0, w1, w2, w3 := philox(c.key, c.ctr[0], c.ctr[1], c.ctr[2], c.ctr[3])
		if got := [4]uint32{w0, w1, w2, w3}; got != c.out {
			t.Errorf("philox(%v, %x) = %x, want %x", c.key, c.ctr, got, c.out)
		}
	}
}

func TestPermutation(t *testing.T) {
	for _, n := range []uint64{1, 2, 3, 4, 5, 17, 255, 256, 257, 1000, 4097, 100000} {
		p := newPermutation(7, 3, n)
		seen := make([]bool, n)
		moved := 0
		for i := range n {
			x := p.at(i)
			if x >= n || seen[x] {
				t.Fatalf("n=%d: %d -> %d, out of range or twice", n, i, x)
			}
			seen[x] = true
			if x != i {
				moved++
			}
		}
		if n > 100 && float64(moved) < 0.9*float64(n) {
			t.Errorf("n=%d: only %d places move", n, moved)
		}
	}
	if newPermutation(7, 3, 1000).at(0) == newPermutation(7, 4, 1000).at(0) && newPermutation(7, 3, 1000).at(1) == newPermutation(7, 4, 1000).at(1) {
		t.Error("two epochs have one order")
	}
}

// TestDrawMarginals holds every position's inclusion against k/d by a
// chi-square statistic (semantics: uniform without replacement), on both sides
// of the word-size border; an off-by-one Floyd is refused by the same bound.
func TestDrawMarginals(t *testing.T) {
	statistic := func(k, d, trials int, one func(out []uint32, trial int)) float64 {
		counts := make([]float64, d)
		out := make([]uint32, k)
		for i := range trials {
			one(out, i)
			for j, x := range out {
				if j > 0 && out[j-1] >= x || int(x) >= d {
					t.Fatalf("draw %v of %d is not ascending, distinct and in range", out, d)
				}
				counts[x]++
			}
		}
		p := float64(k) / float64(d)
		s := 0.0
		for _, c := range counts {
			s += (c - float64(trials)*p) * (c - float64(trials)*p) / (float64(trials) * p * (1 - p))
		}
		return s * float64(d-1) / float64(d)
	}
	var seen positionSet
	for _, c := range []struct{ k, d, trials int }{{1, 2, 20000}, {10, 20, 20000}, {3, 7, 20000}, {10, 11, 20000}, {60, 200, 5000}, {10, 4096, 20000}, {10, 5000, 20000}, {300, 5000, 700}} {
		s := statistic(c.k, c.d, c.trials, func(out []uint32, i int) {
			draw(out, batchKey(11, uint32(i>>10), uint64(i&1023)), uint64(i)*7, 0, i%3, uint64(c.d), &seen)
		})
		// Wilson-Hilferty: alpha = 1e-6 is z = 4.75.
		df := float64(c.d - 1)
		bound := df * math.Pow(1-2/(9*df)+4.75*math.Sqrt(2/(9*df)), 3)
		if s > bound {
			t.Errorf("%d of %d: chi-square %.1f over %.1f", c.k, c.d, s, bound)
		}
	}
	// The control: t drawn from [0, j) instead of [0, j].
	r := rand.New(rand.NewPCG(1, 1))
	s := statistic(10, 20, 20000, func(out []uint32, _ int) {
		for i := range out {
			j := uint32(10 + i)
			x := r.Uint32N(j)
			if slices.Contains(out[:i], x) {
				x = j
			}
			out[i] = x
		}
		slices.Sort(out)
	})
	if bound := 19 * math.Pow(1-2/(9*19.)+4.75*math.Sqrt(2/(9*19.)), 3); s < bound {
		t.Errorf("an off-by-one Floyd passes: %.1f below %.1f", s, bound)
	}
}

func TestSortPairs(t *testing.T) {
	r := rand.New(rand.NewPCG(2, 2))
	for _, n := range []int{0, 1, 2, 100, 5000} {
		for _, span := range []uint32{1, 100, 1 << 12, math.MaxUint32} {
			keys, values := make([]uint32, n), make([]uint32, n)
			for i := range keys {
				keys[i], values[i] = r.Uint32N(span), uint32(i)
			}
			want := slices.Clone(values)
			slices.SortStableFunc(want, func(a, b uint32) int { return int(int64(keys[a]) - int64(keys[b])) })
			sorted := slices.Sorted(slices.Values(keys))
			sortPairs(keys, values, make([]uint32, n), make([]uint32, n))
			if !slices.Equal(keys, sorted) || !slices.Equal(values, want) {
				t.Fatalf("n=%d span=%d: wrong order", n, span)
			}
		}
	}
}
