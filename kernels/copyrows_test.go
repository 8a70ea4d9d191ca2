package kernels

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"
	"unsafe"
)

func TestCopyRows(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, width := range []int{1, 4, 16, 100, 128, 144, 512, 524, 5732} {
		for _, extra := range []int{0, 4, 12} {
			const rows, n = 97, 61
			stride := width + extra
			src := make([]byte, rows*stride)
			for i := range src {
				src[i] = byte(r.Uint32())
			}
			raw := make([]byte, rows*width+64)
			for _, shift := range []int{0, 1} { // an unaligned destination too
				at := int(-uintptr(unsafe.Pointer(unsafe.SliceData(raw)))&31) + shift
				for _, mode := range []string{"gather", "scatter", "both", "none"} {
					var to, from []uint32
					if mode == "scatter" || mode == "both" {
						for _, i := range r.Perm(rows)[:n] {
							to = append(to, uint32(i))
						}
					}
					if mode == "gather" || mode == "both" {
						for range n {
							from = append(from, r.Uint32N(rows))
						}
					}
					got, want := raw[at:at+rows*width], make([]byte, rows*width)
					clear(got)
					CopyRows(got, to, src, stride, from, width, n)
					copyRowsPortable(unsafe.SliceData(want), to, unsafe.SliceData(src), stride, from, width, n)
					if !bytes.Equal(got, want) {
						t.Fatalf("width %d, stride %d, %s: rows differ", width, stride, mode)
					}
				}
			}
		}
	}
}

func TestCopyRowsBounds(t *testing.T) {
	for name, f := range map[string]func(){
		"dst":   func() { CopyRows(make([]byte, 31), nil, make([]byte, 64), 16, nil, 16, 2) },
		"src":   func() { CopyRows(make([]byte, 64), nil, make([]byte, 47), 32, nil, 16, 2) },
		"index": func() { CopyRows(make([]byte, 64), []uint32{0, 4}, make([]byte, 64), 16, nil, 16, 2) },
		"short": func() { CopyRows(make([]byte, 64), []uint32{0}, make([]byte, 64), 16, nil, 16, 2) },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: no panic", name)
				}
			}()
			f()
		}()
	}
}

// BenchmarkCopyRows gathers rows of 512 bytes from a table larger than the
// caches: random order, as a minibatch's cached rows.
func BenchmarkCopyRows(b *testing.B) {
	const width, rows, n = 512, 400_000, 100_000
	src, dst := make([]byte, rows*(width+12)), make([]byte, n*width+32)
	dst = dst[-uintptr(unsafe.Pointer(unsafe.SliceData(dst)))&31:][:n*width]
	from := make([]uint32, n)
	r := rand.New(rand.NewPCG(1, 2))
	for i := range from {
		from[i] = r.Uint32N(rows)
	}
	for _, c := range []struct {
		name string
		f    func()
	}{
		{"default", func() { CopyRows(dst, nil, src, width+12, from, width, n) }},
		{"portable", func() {
			copyRowsPortable(unsafe.SliceData(dst), nil, unsafe.SliceData(src), width+12, from, width, n)
		}},
	} {
		b.Run(fmt.Sprint(c.name), func(b *testing.B) {
			b.SetBytes(n * width)
			for b.Loop() {
				c.f()
			}
		})
	}
}
