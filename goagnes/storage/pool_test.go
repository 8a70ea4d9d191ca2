package storage

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/goagnes/goagnes/layout"
)

const page = layout.PageSize

func randomFile(t testing.TB, n int) (string, []byte) {
	t.Helper()
	random := rand.New(rand.NewPCG(7, uint64(n)))
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(random.Uint32())
	}
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, b, 0o644); err != nil {
		t.Fatal(err)
	}
	return path, b
}

func openFile(t testing.TB, path string, flags Flags) *File {
	t.Helper()
	f, err := OpenFile(nil, path, flags)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

// eachEngine runs a test of pools with every way to the device.
func eachEngine(t *testing.T, test func(t *testing.T, engine string)) {
	for _, engine := range []string{IOUring, IOPread, IOBuffered} {
		t.Run(engine, func(t *testing.T) {
			if engine == IOUring && RingRefusal() != nil {
				t.Skip(RingRefusal())
			}
			test(t, engine)
		})
	}
}

func TestPoolReadsAndWrites(t *testing.T) {
	eachEngine(t, func(t *testing.T, engine string) {
		path, want := randomFile(t, 300*page)
		f := openFile(t, path, Flags{Write: true, Buffered: engine == IOBuffered})
		p := NewPool(PoolOptions{Depth: 5, IO: engine})
		if p.Engine() != engine || p.Refusal() != nil {
			t.Fatalf("engine %q: %v", p.Engine(), p.Refusal())
		}
		random := rand.New(rand.NewPCG(8, 8))
		var wg sync.WaitGroup
		// Disjoint ranges: each is overwritten, then read back from Done.
		for at := 0; at < len(want); {
			n := min((1+random.IntN(8))*page, len(want)-at)
			b := AlignedBytes(n)
			for i := range b {
				b[i] = byte(random.Uint32())
			}
			copy(want[at:], b)
			r := &Request{File: f, Offset: int64(at), Buf: b, Write: true}
			wg.Add(1)
			r.Done = func(r *Request) {
				if r.Err != nil {
					t.Error(r.Err)
				}
				clear(r.Buf)
				r.Write = false
				r.Done = func(r *Request) {
					if r.Err != nil || !bytes.Equal(r.Buf, want[r.Offset:r.Offset+int64(len(r.Buf))]) {
						t.Errorf("bytes at %d differ: %v", r.Offset, r.Err)
					}
					wg.Done()
				}
				p.Submit(r)
			}
			p.Submit(r)
			at += n
		}
		wg.Wait()
		if err := p.Close(); err != nil {
			t.Fatal(err)
		}
		c := p.Counters()
		if c.BytesRead != int64(len(want)) || c.BytesWritten != int64(len(want)) || c.Reads != c.Writes || c.Reads == 0 ||
			c.MaxInFlight < 1 || c.MaxInFlight > 5 || c.ReadLatency.Total() != c.Reads || c.WriteSize.Total() != c.Writes || c.BusySeconds <= 0 || c.Failures != 0 {
			t.Errorf("counters %+v", c)
		}
		if got := c.Sub(c); got.Reads != 0 || got.BytesWritten != 0 || got.ReadSize.Total() != 0 || got.MaxInFlight != c.MaxInFlight {
			t.Errorf("a difference of nothing: %+v", got)
		}
		if b, err := json.Marshal(c); err != nil || !bytes.Contains(b, []byte(`"bytes_read":`)) {
			t.Errorf("%s, %v", b, err)
		}
		got, err := os.ReadFile(path)
		if err != nil || !bytes.Equal(got, want) {
			t.Errorf("the file differs: %v", err)
		}
	})
}

func TestPoolErrors(t *testing.T) { eachEngine(t, testPoolErrors) }

func testPoolErrors(t *testing.T, engine string) {
	path, _ := randomFile(t, 3*page)
	f := openFile(t, path, Flags{})
	p := NewPool(PoolOptions{Depth: 2, IO: engine})
	submit := func(r *Request) error {
		done := make(chan error, 1)
		r.Done = func(r *Request) { done <- r.Err }
		p.Submit(r)
		return <-done
	}
	var e *Error
	err := submit(&Request{File: f, Offset: page, Buf: AlignedBytes(4 * page)})
	if !errors.As(err, &e) || e.Offset != 3*page || e.Path != path || e.Op != "read" || !errors.Is(err, io.ErrUnexpectedEOF) || e.Class() != "io" {
		t.Errorf("past the end: %v", err)
	}
	err = submit(&Request{File: f, Buf: AlignedBytes(page), Write: true}) // opened for reading
	if !errors.As(err, &e) || e.Op != "write" || e.Class() != "io" {
		t.Errorf("write to a file for reading: %v", err)
	}
	if c := p.Counters(); c.Failures != 2 {
		t.Errorf("%d failures", c.Failures)
	}
	for _, r := range []*Request{
		{File: f, Offset: 1, Buf: AlignedBytes(page)},
		{File: f, Offset: -page, Buf: AlignedBytes(page)},
		{File: f, Buf: AlignedBytes(page)[:100]},
		{File: f, Buf: AlignedBytes(2 * page)[8 : page+8]},
		{File: f},
		{Buf: AlignedBytes(page)},
	} {
		r.Done = func(*Request) {}
		mustPanic(t, func() { p.Submit(r) })
		mustPanic(t, func() { p.Do(r) })
	}
	mustPanic(t, func() { p.Submit(&Request{File: f, Buf: AlignedBytes(page)}) }) // no Done
	f.Close()
	if err = submit(&Request{File: f, Buf: AlignedBytes(page)}); !errors.As(err, &e) || e.Class() != "closed" {
		t.Errorf("closed file: %v", err)
	}
	p.Close()
	if err = submit(&Request{File: f, Buf: AlignedBytes(page)}); !errors.Is(err, ErrClosed) {
		t.Errorf("closed pool: %v", err)
	}
}

// Close ends every request submitted before it, each exactly once.
func TestPoolCloseDrains(t *testing.T) { eachEngine(t, testPoolCloseDrains) }

func testPoolCloseDrains(t *testing.T, engine string) {
	path, _ := randomFile(t, 64*page)
	f := openFile(t, path, Flags{})
	p := NewPool(PoolOptions{Depth: 3, IO: engine})
	var done, failed atomic.Int64
	const n = 500
	requests := make([]Request, n)
	for i := range requests {
		requests[i] = Request{File: f, Offset: int64(i%64) * page, Buf: AlignedBytes(page), Done: func(r *Request) {
			done.Add(1)
			if r.Err != nil {
				failed.Add(1)
			}
		}}
		p.Submit(&requests[i])
	}
	p.Close()
	p.Close()
	if done.Load() != n || failed.Load() != 0 {
		t.Fatalf("%d done, %d failed", done.Load(), failed.Load())
	}
}

func TestFileReadAtAnyRange(t *testing.T) {
	path, want := randomFile(t, 200*page+123)
	for _, flags := range []Flags{{}, {Buffered: true}} {
		f := openFile(t, path, flags)
		if flags.Buffered && f.Direct() {
			t.Error("a buffered file is direct")
		}
		random := rand.New(rand.NewPCG(9, 9))
		for range 200 {
			at := random.IntN(len(want) + 10)
			b := make([]byte, random.IntN(len(want)))
			n, err := f.ReadAt(b, int64(at))
			due := max(min(len(want)-at, len(b)), 0)
			if n != due || (err == io.EOF) != (n < len(b)) || (err != nil && err != io.EOF) {
				t.Fatalf("%d+%d: %d bytes, %v; %d are due", at, len(b), n, err, due)
			}
			if !bytes.Equal(b[:n], want[min(at, len(want)):min(at, len(want))+n]) {
				t.Fatalf("%d+%d differ", at, len(b))
			}
		}
		got, err := io.ReadAll(io.NewSectionReader(f, 0, 1<<40))
		if err != nil || !bytes.Equal(got, want) {
			t.Fatalf("the whole file differs: %v", err)
		}
		if !flags.Buffered {
			mustPanic(t, func() { f.WriteAt(make([]byte, 100), 0) })
		}
	}
}

// A file system that refuses direct I/O is read through the page cache, and
// the file and the counters say so.
func TestFallback(t *testing.T) {
	f := openFile(t, "/proc/self/stat", Flags{})
	if f.Direct() {
		t.Fatal("procfs has direct I/O")
	}
	b := make([]byte, 20)
	if n, err := f.ReadAt(b, 0); n != len(b) || err != nil {
		t.Fatal(n, err)
	}
	p := NewPool(PoolOptions{Depth: 1})
	defer p.Close()
	p.Do(&Request{File: f, Buf: AlignedBytes(page)}) // ends early: the file is short
	if c := p.Counters(); c.FallbackBytes < 20 || c.FallbackBytes != c.BytesRead {
		t.Fatalf("%d of %d bytes fell back", c.FallbackBytes, c.BytesRead)
	}
	// One that took O_DIRECT at open and refuses a transfer later, as every
	// file system does at an odd offset, goes on buffered.
	path, want := randomFile(t, 4*page)
	g := openFile(t, path, Flags{})
	if !g.Direct() {
		t.Skipf("no direct I/O in %s", path)
	}
	got := AlignedBytes(2 * page)
	if n, err := g.transfer(got, 1, false); n != len(got) || err != nil || !bytes.Equal(got, want[1:1+len(got)]) || !g.fellBack() {
		t.Fatalf("%d bytes, %v, direct %v", n, err, g.Direct())
	}
}

func TestOpenFileErrors(t *testing.T) {
	dir := t.TempDir()
	var e *Error
	if _, err := OpenFile(nil, filepath.Join(dir, "none"), Flags{}); !errors.As(err, &e) || !errors.Is(err, os.ErrNotExist) || e.Op != "open" {
		t.Errorf("%v", err)
	}
	f := openFile(t, filepath.Join(dir, "new"), Flags{Create: true})
	if err := f.Preallocate(10 * page); err != nil {
		t.Fatal(err)
	}
	if n, err := f.Size(); n != 10*page || err != nil {
		t.Fatal(n, err)
	}
	if _, err := OpenFile(nil, filepath.Join(dir, "new"), Flags{Create: true}); !errors.Is(err, os.ErrExist) {
		t.Errorf("%v", err)
	}
	if err := f.Preallocate(1 << 60); !errors.As(err, &e) || e.Op != "allocate" {
		t.Errorf("an exabyte: %v", err)
	}
}

func TestHistogram(t *testing.T) {
	var h Histogram
	for v := int64(0); v < 1000; v++ {
		h.add(v)
	}
	h.add(1 << 62)
	if h.Total() != 1001 || h[0] != 1 || h[1] != 1 || h[2] != 2 || h[10] != 1000-512 || h[31] != 1 {
		t.Fatalf("%v", h)
	}
	for _, c := range []struct {
		q   float64
		min int64
	}{{0, 0}, {0.25, 250}, {0.5, 500}, {0.99, 990}} {
		if got := h.Quantile(c.q); got < c.min || got > 2*c.min {
			t.Errorf("quantile %v: %d", c.q, got)
		}
	}
	if (Histogram{}).Quantile(0.5) != 0 {
		t.Error("quantile of nothing")
	}
}
