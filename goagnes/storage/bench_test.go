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

// benchDepth is the number of reads in flight.
const benchDepth = DefaultRingDepth

// BenchmarkRead reads random places: by plain pread from as many goroutines, by
// the pool with each engine, with memory registered, and with checksums. Beside
// the time, "cpu-ns/op" is processor time, the system's included.
func BenchmarkRead(b *testing.B) {
	s := benchStore(b)
	x := s.Section(layout.SectionX)
	for _, size := range []int64{4 << 10, 64 << 10, 256 << 10, 1 << 20} {
		mem, err := unix.Mmap(-1, 0, int(size)*benchDepth, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { unix.Munmap(mem) })
		place := func(i int) int64 { return int64(uint64(i)*0x9E3779B97F4A7C15>>11) % (benchBytes / size) * size }
		run := func(name string, read func(b *testing.B)) {
			b.Run(fmt.Sprintf("%s/%dKiB", name, size>>10), func(b *testing.B) {
				b.SetBytes(size)
				before := cpuTime(b)
				read(b)
				b.ReportMetric(float64(cpuTime(b)-before)/float64(b.N), "cpu-ns/op")
			})
		}
		run("plain", func(b *testing.B) {
			var wg sync.WaitGroup
			for w := range benchDepth {
				wg.Go(func() {
					buf := mem[int64(w)*size : int64(w+1)*size]
					for i := w; i < b.N; i += benchDepth {
						if n, err := unix.Pread(x.file.handle.Fd(), buf, place(i)); n != len(buf) || err != nil {
							b.Error(n, err)
						}
					}
				})
			}
			wg.Wait()
		})
		for _, way := range []struct {
			name, engine string
			registered   bool
			check        *Section
		}{{"pread", IOPread, false, nil}, {"uring", IOUring, false, nil}, {"uring+registered", IOUring, true, nil}, {"uring+verify", IOUring, false, x}} {
			run(way.name, func(b *testing.B) {
				p := NewPool(PoolOptions{IO: way.engine, Depth: benchDepth})
				defer p.Close()
				if p.Engine() != way.engine {
					b.Skip(p.Refusal())
				}
				if way.registered {
					unregister, ok := p.Register(mem)
					defer unregister()
					if !ok {
						b.Skip("no memory can be registered")
					}
				}
				free := make(chan *Request, benchDepth)
				for w := range int64(benchDepth) {
					free <- &Request{File: x.file, Check: way.check, Buf: mem[w*size : (w+1)*size], Done: func(r *Request) {
						if r.Err != nil {
							b.Error(r.Err)
						}
						free <- r
					}}
				}
				b.ResetTimer()
				for i := range b.N {
					r := <-free
					r.Offset = place(i)
					p.Submit(r)
				}
				for range benchDepth {
					<-free
				}
			})
		}
	}
}

// cpuTime returns the processor time of the process in nanoseconds.
func cpuTime(b *testing.B) int64 {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return u.Utime.Nano() + u.Stime.Nano()
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
