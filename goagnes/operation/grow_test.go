package operation

import (
	"context"
	"testing"
)

// The first hyperbatches of an epoch are smaller where what they read again is in
// memory, or little beside the rest, and only where that is asked for; the
// minibatches are the same, and the plan says so.
func TestGrow(t *testing.T) {
	var want uint64
	for _, c := range []struct {
		name             string
		mib              int64
		grow, published  bool
		hyperbatch       int
		first, of, again int64 // hyperbatches of the first epoch and of the next
	}{
		{"one size", 64, false, false, 1000, 1, 1, 1},
		{"all in memory", 64, true, false, 1000, 8, 2, 2},
		{"all in memory, small hyperbatches", 64, true, false, 6, 6, 4, 4},
		{"all in memory, hyperbatches not much larger", 64, true, false, 9, 8, 3, 3},
		{"kept beside the steps", 20, true, false, 1000, 8, 2, 2},
		{"nothing kept", 6, true, false, 1000, 20, 1, 1},
		{"as published", 64, true, true, 1000, 20, 1, 1},
	} {
		f := newFixture(t, c.mib<<20, func(o *Options) { o.Grow, o.Published, o.Hyperbatch = c.grow, c.published, c.hyperbatch })
		before := f.Explain()
		for epoch, hyperbatches := range []int64{c.of, c.again} {
			before := f.Stats().Hyperbatches
			n, sum, err := drain(f.Start(context.Background(), 0))
			if err != nil || n != fixtureBatches {
				t.Fatalf("%s: %d minibatches, %v", c.name, n, err)
			}
			if want == 0 {
				want = sum
			}
			if sum != want {
				t.Errorf("%s: other minibatches in epoch %d", c.name, epoch)
			}
			if got := f.Stats().Hyperbatches - before; got != hyperbatches {
				t.Errorf("%s: %d hyperbatches in epoch %d, %d are due", c.name, got, epoch, hyperbatches)
			}
			if !c.published {
				f.idle()
			}
		}
		if x := before; x.Hyperbatches != c.of || c.grow && !c.published && c.of > 1 && int64(x.First) != c.first {
			t.Errorf("%s: the plan says %d hyperbatches, the first of %d", c.name, x.Hyperbatches, x.First)
		}
		f.close()
	}
}

// The number of hyperbatches is that of the sizes one after another.
func TestHyperbatchesOf(t *testing.T) {
	for _, most := range []int{1, 5, 8, 9, 32, 100, 1024} {
		e := &Engine{Options: Options{Hyperbatch: most}}
		for _, grow := range []bool{false, true} {
			for n := int64(0); n < 3000; n += 1 + n/7 {
				count, size, left := int64(0), e.firstSize(grow), n
				for ; left > 0; size = e.sizeAfter(size) {
					left -= int64(size)
					count++
				}
				if got := e.hyperbatchesOf(n, grow); got != count {
					t.Fatalf("%d minibatches, at most %d, growing: %v: %d hyperbatches, %d are due", n, most, grow, got, count)
				}
			}
		}
	}
}
