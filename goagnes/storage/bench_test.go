package storage

// Throughput of the pool against plain pread from the same number of
// goroutines, and the cost of checksums.

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/goagnes/goagnes/layout"
)

const benchBytes = 512 << 20

// benchStore writes a store with an array of benchBytes.
func benchStore(b *testing.B) *Store {
	b.Helper()
	dir := b.TempDir()
	m := &layout.Manifest{NumNodes: benchBytes / 512, Settings: layout.Settings{Order: "original", BlockSize: 1 << 20, IDs: "dense"},
		Sections: []layout.Section{
			{Name: layout.SectionGraph, Kind: layout.KindGraph, File: "graph"},
			{Name: layout.SectionIndex, Kind: layout.KindIndex, File: "graph.index", Bytes: 16},
			{Name: layout.SectionX, Kind: layout.KindArray, File: "node.x", Bytes: benchBytes, DType: "float32", Rows: benchBytes / 512, RowShape: []int64{128}},
		}}
	x := make([]byte, benchBytes)
	random := rand.New(rand.NewPCG(1, 1))
	for i := 0; i < len(x); i += 8 {
		binary.LittleEndian.PutUint64(x[i:], random.Uint64())
	}
	writeFiles(b, dir, m, map[string][]byte{layout.SectionGraph: nil, layout.SectionIndex: make([]byte, 16), layout.SectionX: x})
	unix.Sync()
	s, err := OpenStore(dir, StoreOptions{})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { s.Close() })
	return s
}

func BenchmarkRead(b *testing.B) {
	s := benchStore(b)
	x := s.Section(layout.SectionX)
	for _, size := range []int64{4 << 10, 64 << 10, 256 << 10, 1 << 20} {
		mem := AlignedBytes(int(size) * DefaultDepth)
		places := benchBytes / size
		b.Run(fmt.Sprintf("pread/%dKiB", size>>10), func(b *testing.B) {
			b.SetBytes(size)
			var wg sync.WaitGroup
			for w := range DefaultDepth {
				wg.Add(1)
				go func() {
					defer wg.Done()
					buf := mem[int64(w)*size : int64(w+1)*size]
					for i := w; i < b.N; i += DefaultDepth {
						at := int64(uint64(i)*0x9E3779B97F4A7C15>>11) % places * size
						if n, err := unix.Pread(x.file.handle.Fd(), buf, at); n != len(buf) || err != nil {
							b.Error(n, err)
						}
					}
				}()
			}
			wg.Wait()
		})
		for _, check := range []*Section{nil, x} {
			name := "pool"
			if check != nil {
				name = "pool+verify"
			}
			b.Run(fmt.Sprintf("%s/%dKiB", name, size>>10), func(b *testing.B) {
				b.SetBytes(size)
				free := make(chan *Request, DefaultDepth)
				for w := range DefaultDepth {
					free <- &Request{File: x.file, Check: check, Buf: mem[int64(w)*size : int64(w+1)*size], Done: func(r *Request) {
						if r.Err != nil {
							b.Error(r.Err)
						}
						free <- r
					}}
				}
				for i := range b.N {
					r := <-free
					r.Offset = int64(uint64(i)*0x9E3779B97F4A7C15>>11) % places * size
					s.pool.Submit(r)
				}
				for range DefaultDepth {
					<-free
				}
			})
		}
	}
}

func BenchmarkCheckPages(b *testing.B) {
	mem := AlignedBytes(1 << 20)
	sums := make([]byte, len(mem)/layout.PageSize*layout.TableEntry)
	salt := layout.NewSalt(layout.BuildID{1}, "x", false)
	layout.SumPages(salt, mem, 0, sums)
	b.SetBytes(int64(len(mem)))
	for b.Loop() {
		if layout.CheckPages(salt, mem, 0, sums) >= 0 {
			b.Fatal("differs")
		}
	}
}

func BenchmarkWriter(b *testing.B) {
	p := NewPool(PoolOptions{})
	defer p.Close()
	piece := bytes.Repeat([]byte{7}, 1<<20)
	for _, sums := range []bool{false, true} {
		b.Run(fmt.Sprintf("sums=%v", sums), func(b *testing.B) {
			b.SetBytes(128 << 20)
			for b.Loop() {
				path := b.TempDir() + "/file"
				var sink io.Writer
				if sums {
					sink = &bytes.Buffer{}
				}
				w, err := NewWriter(p, path, 0, sink)
				if err != nil {
					b.Fatal(err)
				}
				for range 128 {
					if _, err := w.Write(piece); err != nil {
						b.Fatal(err)
					}
				}
				if err := w.Close(); err != nil {
					b.Fatal(err)
				}
				os.Remove(path)
			}
		})
	}
}
