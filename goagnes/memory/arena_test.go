package memory

import (
	"errors"
	"math/rand/v2"
	"testing"
	"unsafe"
)

func address(b []byte) uintptr { return uintptr(unsafe.Pointer(unsafe.SliceData(b))) }

func TestMap(t *testing.T) {
	for _, n := range []int64{1, 4096, 100_000, 4 << 20, 5<<20 + 1} {
		b, err := MapFor("test", n)
		if err != nil {
			t.Fatal(err)
		}
		if int64(len(b)) != n || address(b)%4096 != 0 || (n >= hugeFrom && address(b)%hugePage != 0) {
			t.Fatalf("%d bytes at %x", len(b), address(b))
		}
		if got := Live()["test"]; got != roundUp(n, hostPage) {
			t.Fatalf("%d bytes live, %d mapped", got, n)
		}
		for i := range b {
			if b[i] != 0 {
				t.Fatal("not zeroed")
			}
		}
		b[n-1] = 1
		if err := Unmap(b); err != nil {
			t.Fatal(err)
		}
		mustPanic(t, func() { Unmap(b) })
		if Live()["test"] != 0 {
			t.Fatal("still live")
		}
	}
	b, err := Map(0)
	if err != nil || len(b) != 0 || Unmap(b) != nil {
		t.Fatal(err)
	}
	mustPanic(t, func() { Map(-1) })
	if _, err := Map(maxMapping); err == nil {
		t.Skip("the system lets 64 TiB be mapped")
	} else if e := new(MapError); !errors.As(err, &e) || e.Class() != "budget" {
		t.Fatal(err)
	}
}

func TestArena(t *testing.T) {
	budget := NewBudget(1 << 20)
	if _, err := NewArena(budget, "arena", 2<<20); !errors.As(err, new(*BudgetError)) {
		t.Fatal(err)
	}
	a, err := NewArena(budget, "arena", 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	if budget.Used() != 1<<20 || Live()["arena"] != 1<<20 {
		t.Fatal("not counted")
	}
	random := rand.New(rand.NewPCG(1, 2))
	for range 40 {
		a.Reset(0)
		base := a.Mark()
		var pieces [][]byte
		for {
			n := random.Int64N(50_000)
			var b []byte
			switch random.IntN(4) {
			case 0:
				b = a.Pages(n)
				if b != nil && n > 0 && address(b)%4096 != 0 {
					t.Fatal("a piece is not page-aligned")
				}
			case 1:
				if s := Slice[float64](a, int(n/8)); s != nil {
					b = unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(s))), n/8*8)
				}
			default:
				if n > a.Remaining() {
					if a.Bytes(n) != nil {
						t.Fatal("more than remains")
					}
					break
				}
				if b = a.Bytes(n); b == nil {
					t.Fatalf("%d bytes do not fit into %d", n, a.Remaining())
				}
			}
			if b == nil {
				break
			}
			if len(b) > 0 && address(b)%64 != 0 {
				t.Fatal("a piece is not aligned")
			}
			for i := range b {
				b[i] = byte(len(pieces))
			}
			pieces = append(pieces, b)
		}
		for i, p := range pieces {
			for _, v := range p {
				if v != byte(i) {
					t.Fatal("pieces overlap")
				}
			}
		}
		a.Reset(base)
	}
	if Slice[int64](a, int(a.Size()/8)) == nil || Slice[int64](a, 1<<61) != nil || a.Remaining() != 0 || a.Peak() != a.Size() {
		t.Fatal("the whole arena")
	}
	if b := a.Bytes(0); b == nil {
		t.Fatal("nothing always fits")
	}
	full := a.Mark()
	a.Reset(0)
	mustPanic(t, func() { a.Reset(full) })
	mustPanic(t, func() { a.Bytes(-1) })
	if err := errors.Join(a.Close(), a.Close()); err != nil || budget.Used() != 0 || Live()["arena"] != 0 {
		t.Fatal(err)
	}
	if a.Bytes(1) != nil {
		t.Fatal("a closed arena hands out memory")
	}
}

func TestArenaOverUnalignedMemory(t *testing.T) {
	mem := make([]byte, 10_000)
	for skip := range 70 {
		a := ArenaOver(mem[skip:])
		b, c := a.Bytes(100), a.Pages(100)
		if address(b)%64 != 0 || address(c)%4096 != 0 {
			t.Fatal("not aligned")
		}
		if err := a.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
