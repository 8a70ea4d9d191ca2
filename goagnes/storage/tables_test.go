package storage

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io/fs"
	"math/rand/v2"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/goagnes/goagnes/layout"
)

// Against a loader that writes a chunk's key into it, over more chunks than
// frames, with failures and from several goroutines: what is returned is
// always the chunk asked for.
func TestTableCache(t *testing.T) {
	for _, frames := range []int{1, 3, 8} {
		c := newTableCache(make([]byte, frames*tableChunk))
		failure := errors.New("failure")
		var loads, fails atomic.Int64
		var wg sync.WaitGroup
		for g := range 6 {
			wg.Add(1)
			go func() {
				defer wg.Done()
				random := rand.New(rand.NewPCG(uint64(g), uint64(frames)))
				for range 3000 {
					key := tableKey{random.IntN(2), random.Int64N(7)}
					want := uint64(key.section)<<32 | uint64(key.chunk)
					fail := random.IntN(10) == 0
					f, err := c.get(key, nil, func(mem []byte) error {
						loads.Add(1)
						binary.LittleEndian.PutUint64(mem, want)
						binary.LittleEndian.PutUint64(mem[tableChunk-8:], want)
						if fail {
							fails.Add(1)
							return failure
						}
						return nil
					})
					if err != nil {
						if err != failure {
							t.Error(err)
						}
						continue
					}
					if binary.LittleEndian.Uint64(f.memory) != want || binary.LittleEndian.Uint64(f.memory[tableChunk-8:]) != want {
						t.Errorf("chunk %v holds another", key)
					}
					c.put(f)
				}
			}()
		}
		wg.Wait()
		if loads.Load() == 0 || fails.Load() == 0 {
			t.Fatal("nothing was loaded, or nothing failed")
		}
		ring := 0
		for f := c.mu.lru.next; f != &c.mu.lru; f = f.next {
			ring++
			if f.pins != 0 {
				t.Errorf("a frame is left with %d pins", f.pins)
			}
			if f.labelled && c.mu.index[f.key] != f {
				t.Error("a label is not in the index")
			}
		}
		if ring > frames || len(c.mu.index) > ring {
			t.Errorf("%d frames of %d, %d in the index", ring, frames, len(c.mu.index))
		}
	}
}

// Sequential use of no more chunks than frames loads each once; one more
// evicts the one used longest ago.
func TestTableCacheOrder(t *testing.T) {
	c := newTableCache(make([]byte, 3*tableChunk))
	var loaded []int64
	use := func(chunk int64) {
		f, err := c.get(tableKey{0, chunk}, nil, func([]byte) error { loaded = append(loaded, chunk); return nil })
		if err != nil {
			t.Fatal(err)
		}
		c.put(f)
	}
	for _, k := range []int64{0, 1, 2, 0, 1, 3, 0, 2} { // 3 evicts 2, 2 evicts 1
		use(k)
	}
	use(1)
	want := []int64{0, 1, 2, 3, 2, 1}
	if len(loaded) != len(want) {
		t.Fatalf("loaded %v, %v are due", loaded, want)
	}
	for i := range want {
		if loaded[i] != want[i] {
			t.Fatalf("loaded %v, %v are due", loaded, want)
		}
	}
}

// gateFS holds back reads of checksum tables once it is shut, on the thread that
// makes them, and counts the other reads that end.
type gateFS struct {
	FS
	shut  atomic.Bool
	open  chan struct{}
	fail  error
	ended chan struct{} // one for each read of another file
}

type gateHandle struct {
	Handle
	gate   *gateFS
	tables bool
}

func (g *gateFS) OpenFile(path string, flags int, perm fs.FileMode) (Handle, error) {
	h, err := g.FS.OpenFile(path, flags, perm)
	if err != nil {
		return nil, err
	}
	return &gateHandle{h, g, filepath.Base(path) == layout.ChecksumFile}, nil
}

// Fd makes a ring leave the tables to a worker, which may be held.
func (h *gateHandle) Fd() int {
	if h.tables {
		return -1
	}
	return h.Handle.Fd()
}

func (h *gateHandle) Begin(Transfer) (time.Time, error) {
	if h.tables && h.gate.shut.Load() {
		<-h.gate.open
		return time.Time{}, h.gate.fail
	}
	return time.Time{}, nil
}

func (h *gateHandle) End(_ Transfer, n int, err error) (int, error) {
	if !h.tables && h.gate.shut.Load() {
		h.gate.ended <- struct{}{}
	}
	return n, err
}

// A checksum table is at the device together with the pages that need it, however
// many: none of them keeps a worker while it waits, and all end with the table.
func TestTablesReadAhead(t *testing.T) {
	dir := t.TempDir()
	want := writeStore(t, dir, 3, 600, 64)[layout.SectionX]
	failure := errors.New("failure")
	for _, engine := range []string{IOPread, IOUring} {
		for _, fail := range []error{nil, failure} {
			const reads = 12 // more than there are workers
			gate := &gateFS{FS: OS, open: make(chan struct{}), fail: fail, ended: make(chan struct{}, 2*reads)}
			pool := NewPool(PoolOptions{IO: engine, Depth: 2, FS: gate})
			s, err := OpenStore(dir, StoreOptions{Pool: pool})
			if err != nil {
				t.Fatal(err)
			}
			gate.shut.Store(true)
			before := pool.Counters()
			done := make(chan *Request, reads)
			for i := range reads {
				s.Section(layout.SectionX).Submit(int64(i)*layout.PageSize, AlignedBytes(layout.PageSize), int64(i), func(r *Request) { done <- r })
			}
			sync := make(chan error, 1) // a reader on a goroutine of its own waits
			go func() {
				b := AlignedBytes(layout.PageSize)
				err := s.Section(layout.SectionX).Read(0, b)
				if err == nil && !bytes.Equal(b, want[:layout.PageSize]) {
					err = errors.New("other bytes")
				}
				sync <- err
			}()
			for i := range reads + 1 {
				select {
				case <-gate.ended:
				case <-time.After(20 * time.Second):
					t.Fatalf("%s: %d of %d reads ended while their checksums were on their way", engine, i, reads+1)
				}
			}
			if len(done) > 0 {
				t.Errorf("%s: a request ended before it could be verified", engine)
			}
			gate.shut.Store(false)
			close(gate.open)
			failed := 0
			for range reads {
				r := <-done
				switch { // a worker that came too late to be told of a failure reads the table again
				case fail != nil && errors.Is(r.Err, fail):
					failed++
				case r.Err != nil || !bytes.Equal(r.Buf, want[r.Offset:r.Offset+layout.PageSize]):
					t.Errorf("%s: page at %d: %v", engine, r.Offset, r.Err)
				}
			}
			if fail != nil && failed == 0 {
				t.Errorf("%s: nobody was told that the table cannot be read", engine)
			}
			if err := <-sync; err != nil { // it reads the table again by itself
				t.Errorf("%s: %v", engine, err)
			}
			for _, f := range s.tables.mu.index {
				if f.pins != 0 || f.reading || len(f.waiting) > 0 {
					t.Errorf("%s: a frame is left with %d pins, reading: %v, %d waiting", engine, f.pins, f.reading, len(f.waiting))
				}
			}
			if d := pool.Counters().Sub(before); fail == nil && (d.Reads != reads+2 || d.ChecksumRead == 0 || d.PagesVerified != reads+1) {
				t.Errorf("%s: %d reads, %d bytes of tables, %d pages verified", engine, d.Reads, d.ChecksumRead, d.PagesVerified)
			}
			if err := errors.Join(s.Close(), pool.Close()); err != nil {
				t.Error(err)
			}
		}
	}
}

// A store that is closed while requests wait for a table ends them all.
func TestCloseWhileTablesAreRead(t *testing.T) {
	dir := t.TempDir()
	writeStore(t, dir, 3, 600, 64)
	for _, own := range []bool{true, false} {
		for range 20 {
			var pool *Pool
			if !own {
				pool = NewPool(PoolOptions{})
			}
			s, err := OpenStore(dir, StoreOptions{Pool: pool})
			if err != nil {
				t.Fatal(err)
			}
			const reads = 8
			done := make(chan error, reads)
			for i := range reads {
				s.Section(layout.SectionX).Submit(int64(i)*layout.PageSize, AlignedBytes(layout.PageSize), 0, func(r *Request) { done <- r.Err })
			}
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			for range reads {
				var e *Error
				if err := <-done; err != nil && (!errors.As(err, &e) || e.Class() != "closed") {
					t.Error(err)
				}
			}
			if pool != nil {
				pool.Close()
			}
		}
	}
}
