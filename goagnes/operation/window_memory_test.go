package operation

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// What a hop draws into memory that was lent stays as it is when the rest is given
// back, wherever it moves, and the rest can be taken again. The peak counts what was
// kept alone, and what is fixed apart.
func TestLend(t *testing.T) {
	r := rand.New(rand.NewPCG(4, 4))
	for range 300 {
		size := int64(8+r.IntN(60)) * 4096
		mem := newTwoEnded(make([]byte, size))
		if _, err := mem.takeLow(r.Int64N(2000)); err != nil {
			t.Fatal(err)
		}
		if _, err := mem.takeFixed(r.Int64N(4000)); err != nil {
			t.Fatal(err)
		}
		wide, most := []int64{0, 4, 8}[r.IntN(3)], 1+r.Int64N(20000)
		before := mem.room()
		lent, out, ids, err := mem.lend(most, wide)
		if err != nil {
			t.Fatal(err)
		}
		if int64(len(out)) != lent.entries || int64(len(ids)) != lent.entries*wide || lent.entries > most ||
			lent.entries < most && lent.entries*(4+wide) < before-3*4096 {
			t.Fatalf("%d of %d entries are lent out of %d bytes: %d and %d bytes", lent.entries, most, before, 4*len(out), len(ids))
		}
		for i := range out {
			out[i] = r.Uint32()
		}
		for i := range ids {
			ids[i] = byte(r.Uint32())
		}
		n := r.Int64N(lent.entries + 1)
		wantOut, wantIDs := slices.Clone(out[:n]), slices.Clone(ids[:n*wide])
		out, ids = lent.giveBack(n, out, ids)
		if !slices.Equal(out, wantOut) || !slices.Equal(ids, wantIDs) {
			t.Fatalf("%d of %d entries with %d bytes beside: others after the move", n, lent.entries, wide)
		}
		used := n * (4 + wide)
		if left := mem.room(); left < before-used-128 {
			t.Fatalf("%d bytes are left of %d after %d were used", left, before, used)
		}
		if most := size - mem.room(); mem.peak > most || mem.peakFixed > 4000+4096 {
			t.Fatalf("a peak of %d bytes, %d of them fixed, where %d are in use", mem.peak, mem.peakFixed, most)
		}
		rest, err := mem.takeLow(mem.room() / 8 * 8)
		if err != nil {
			t.Fatal(err)
		}
		for i := range rest {
			rest[i] = 0xFF
		}
		if !slices.Equal(out, wantOut) || !slices.Equal(ids, wantIDs) {
			t.Fatal("what was kept lies in what was given back")
		}
	}
	if _, _, _, err := newTwoEnded(make([]byte, 8192)).lend(10, 4); !isSplit(err) {
		t.Errorf("no room for an entry: %v", err)
	}
}

// Workers that number nodes never take more than there is room for where fewer would
// do, nor more than a quarter of the window unless one alone does.
func TestCollectors(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 5))
	for range 2000 {
		size := int64(1+r.IntN(100)) * 4096
		mem := newTwoEnded(make([]byte, size))
		if _, err := mem.takeHigh(r.Int64N(size - 4095)); err != nil {
			t.Fatal(err)
		}
		threads, bodies, each, body := 1+r.IntN(8), 1+r.IntN(2), 1+r.Int64N(20000), r.Int64N(9000)
		n, k := collectors(threads, bodies, mem, each, body)
		if n < 1 || n > threads || k < 1 || k > bodies {
			t.Fatalf("%d workers with %d bodies of %d with %d", n, k, threads, bodies)
		}
		most := min(size/4, mem.room())
		took := int64(n) * (each + int64(k)*body)
		if took > most && (n > 1 || k > 1) {
			t.Errorf("%d workers with %d bodies take %d of %d bytes", n, k, took, most)
		}
		if more := int64(n+1) * (each + body); n < threads && k == 1 && more <= most {
			t.Errorf("%d workers where %d would take %d of %d bytes", n, n+1, more, most)
		}
	}
}
