package memory

import (
	"errors"
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
