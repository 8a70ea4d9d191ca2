package ledger

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"testing"
)

func TestCharge(t *testing.T) {
	l := New(1000)
	for i, c := range []struct {
		charge, discharge int64
		refused           bool
		used, peak        int64
	}{
		{charge: 0},
		{charge: 400, used: 400, peak: 400},
		{charge: 601, refused: true, used: 400, peak: 400},
		{charge: 600, used: 1000, peak: 1000},
		{charge: 1, refused: true, used: 1000, peak: 1000},
		{discharge: 999, used: 1, peak: 1000},
		{charge: 998, used: 999, peak: 1000},
		{discharge: 999, peak: 1000},
	} {
		err := l.Charge("a part", c.charge)
		l.Discharge(c.discharge)
		var budget *BudgetError
		if errors.As(err, &budget) != c.refused {
			t.Errorf("step %d: %v", i, err)
		}
		if l.Used != c.used || l.Peak != c.peak || l.Free() != 1000-c.used {
			t.Errorf("step %d: used %d, free %d, peak %d", i, l.Used, l.Free(), l.Peak)
		}
	}
	defer func() {
		if recover() == nil {
			t.Error("more is given back than was taken, and nobody minds")
		}
	}()
	l.Discharge(1)
}

// The budget that a refusal asks for is enough, and a byte less is not.
func TestAdvice(t *testing.T) {
	steps := func(l *Ledger) error { return errors.Join(l.Charge("first", 700), l.Charge("second", 5000)) }
	err := steps(New(1000))
	var budget *BudgetError
	var total, need, free, asks int64
	if !errors.As(err, &budget) || budget.Class() != "budget" {
		t.Fatal(err)
	}
	if _, err := fmt.Sscanf(err.Error(), "the memory budget of %d bytes is too small: second needs %d bytes and %d are free; set memory to %d or more", &total, &need, &free, &asks); err != nil {
		t.Fatal(err)
	}
	if total != 1000 || need != 5000 || free != 300 {
		t.Error(budget)
	}
	if err := steps(New(asks)); err != nil {
		t.Error(err)
	}
	if err := steps(New(asks - 1)); err == nil {
		t.Errorf("%d bytes are enough, too", asks-1)
	}
}

func TestMap(t *testing.T) {
	l := New(1 << 30)
	for _, c := range []struct{ bytes, shrunk, size, after int64 }{
		{0, 0, 0, 0}, {1, 1, 4096, 4096}, {4096, 0, 4096, 0}, {4097, 4096, 8192, 4096}, {5 << 20, 100, 5 << 20, 4096},
		{10000, 9000, 12288, 12288}, // within the last page
		{10000, 20000, 12288, 12288},
	} {
		r, err := l.Map("a table", c.bytes)
		if err != nil {
			t.Fatal(err)
		}
		if int64(len(r.Bytes)) != c.bytes || r.Size() != c.size || l.Used != c.size {
			t.Errorf("%d bytes: %d, size %d, used %d", c.bytes, len(r.Bytes), r.Size(), l.Used)
		}
		if bytes.ContainsFunc(r.Mapped, func(v rune) bool { return v != 0 }) {
			t.Errorf("%d bytes: not zeros", c.bytes)
		}
		for i := range r.Bytes {
			r.Bytes[i] = byte(i * 7)
		}
		r.Shrink(c.shrunk)
		if r.Size() != c.after || l.Used != c.after || int64(len(r.Bytes)) != min(c.bytes, c.shrunk) {
			t.Errorf("%d bytes made %d: %d, size %d, used %d", c.bytes, c.shrunk, len(r.Bytes), r.Size(), l.Used)
		}
		for i := range r.Bytes {
			if r.Bytes[i] != byte(i*7) {
				t.Fatalf("%d bytes made %d: byte %d is lost", c.bytes, c.shrunk, i)
			}
		}
		r.Close()
		r.Close()
		if l.Used != 0 {
			t.Errorf("%d bytes: %d are left", c.bytes, l.Used)
		}
	}
	if _, err := New(8191).Map("a table", 4097); err == nil {
		t.Error("a mapping of two pages within less")
	}
	var none *Region
	none.Close()
	if none.Size() != 0 {
		t.Error("no region has a size")
	}
}

// Words and bytes are the same memory, little-endian.
func TestViews(t *testing.T) {
	wide := []uint64{0, 1, math.MaxUint64, 1 << 40}
	var want []byte
	for _, v := range wide {
		want = binary.LittleEndian.AppendUint64(want, v)
	}
	if got := Raw(wide); !bytes.Equal(got, want) {
		t.Errorf("%x, want %x", got, want)
	}
	if got := View[uint64](Raw(wide)); !slices.Equal(got, wide) {
		t.Error(got)
	}
	if got := View[uint32](Raw(wide)); !slices.Equal(got, []uint32{0, 0, 1, 0, math.MaxUint32, math.MaxUint32, 0, 256}) {
		t.Error(got)
	}
	if got := View[float32](Raw([]float32{1.5, -2})); !slices.Equal(got, []float32{1.5, -2}) {
		t.Error(got)
	}
	if View[uint32](nil) != nil || Raw([]int64{}) != nil {
		t.Error("nothing is something")
	}
	for _, c := range [][3]int64{{0, 8, 0}, {1, 8, 8}, {8, 8, 8}, {9, 8, 16}, {1 << 40, 3, 1<<40 + 2}} {
		if got := RoundUp(c[0], c[1]); got != c[2] {
			t.Errorf("%d to a multiple of %d: %d", c[0], c[1], got)
		}
	}
}
