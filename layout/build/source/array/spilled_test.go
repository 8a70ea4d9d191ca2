package array

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
)

// What was spilled is read back from any position, and what the device altered is found.
func TestSpilled(t *testing.T) {
	const n = 3*spillUnit + 1234
	want := make([]byte, n)
	rng := rand.New(rand.NewPCG(1, 2))
	for i := range want {
		want[i] = byte(rng.Uint32())
	}
	write := func(t *testing.T) (*spilled, *os.File) {
		f, err := os.Create(filepath.Join(t.TempDir(), "spill"))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { f.Close() })
		s := newSpilled(f)
		if err := s.fill(bytes.NewReader(want), n); err != nil {
			t.Fatal(err)
		}
		return s, f
	}
	s, _ := write(t)
	for range 200 {
		at := rng.Int64N(n + 10)
		b := make([]byte, rng.IntN(2*spillUnit))
		k, err := s.ReadAt(b, at)
		if have := max(0, min(int64(len(b)), n-at)); int64(k) != have || (err == nil) != (have == int64(len(b))) || err != nil && err != io.EOF {
			t.Fatalf("%d bytes at %d: %d, %v", len(b), at, k, err)
		}
		if !bytes.Equal(b[:k], want[min(at, n):min(at, n)+int64(k)]) {
			t.Fatalf("%d bytes at %d: others", len(b), at)
		}
	}
	short, _ := write(t)
	if err := short.fill(bytes.NewReader(want[:9]), 10); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Fatal(err)
	}

	for name, alter := range map[string]func(f *os.File) error{
		"a bit": func(f *os.File) error {
			_, err := f.WriteAt([]byte{want[spillUnit+77] ^ 4}, spillUnit+77)
			return err
		},
		"zeros": func(f *os.File) error { _, err := f.WriteAt(make([]byte, 4096), spillUnit+8192); return err },
		"the unit before": func(f *os.File) error {
			_, err := f.WriteAt(want[:spillUnit], spillUnit)
			return err
		},
		"cut short": func(f *os.File) error { return f.Truncate(spillUnit + 100) },
	} {
		t.Run(name, func(t *testing.T) {
			s, f := write(t)
			if err := alter(f); err != nil {
				t.Fatal(err)
			}
			b := make([]byte, spillUnit)
			if k, err := s.ReadAt(b, 0); k != spillUnit || err != nil {
				t.Fatal(k, err)
			}
			var damage *ScratchError
			k, err := s.ReadAt(b, spillUnit-10)
			if k != 10 || !errors.As(err, &damage) || damage.Offset != spillUnit || damage.Path != f.Name() || damage.Class() != "io" {
				t.Fatal(k, err)
			}
			if s := fmt.Sprint((&Reading{in: &Input{Path: "x"}}).fail(err)); s != damage.Error() {
				t.Fatal(s)
			}
		})
	}
}
