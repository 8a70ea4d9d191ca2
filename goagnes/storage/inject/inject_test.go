package inject_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/goagnes/goagnes/goagnes/storage"
	"github.com/goagnes/goagnes/goagnes/storage/inject"
)

const page = 4096

func makeFile(t *testing.T, pages int) (string, []byte) {
	t.Helper()
	b := make([]byte, pages*page)
	for i := range b {
		b[i] = byte(i * i >> 7)
	}
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, b, 0o644); err != nil {
		t.Fatal(err)
	}
	return path, b
}

// readAll reads a file page by page through a pool and returns how long it took.
func readAll(t *testing.T, p *storage.Pool, f *storage.File, want []byte) time.Duration {
	t.Helper()
	start := time.Now()
	var wg sync.WaitGroup
	for at := 0; at < len(want); at += page {
		wg.Add(1)
		p.Submit(&storage.Request{File: f, Offset: int64(at), Buf: storage.AlignedBytes(page), Done: func(r *storage.Request) {
			defer wg.Done()
			if r.Err != nil || !bytes.Equal(r.Buf, want[r.Offset:r.Offset+page]) {
				t.Errorf("page at %d differs: %v", r.Offset, r.Err)
			}
		}})
	}
	wg.Wait()
	return time.Since(start)
}

// Requests in flight take their latency together, and hold their place in the
// queue meanwhile. The lower bounds hold on any machine.
func TestLatency(t *testing.T) {
	for _, engine := range []string{storage.IOUring, storage.IOPread} {
		t.Run(engine, func(t *testing.T) {
			if err := storage.RingRefusal(); engine == storage.IOUring && err != nil {
				t.Skip(err)
			}
			testLatency(t, engine)
		})
	}
}

func testLatency(t *testing.T, engine string) {
	const depth, latency = 8, 20 * time.Millisecond
	path, want := makeFile(t, 3*depth)
	p := storage.NewPool(storage.PoolOptions{Depth: depth, IO: engine})
	defer p.Close()
	f, err := storage.OpenFile(inject.New(nil, inject.Options{ReadLatency: latency}), path, storage.Flags{})
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if took := readAll(t, p, f, want); took < 3*latency {
		t.Errorf("three rounds of reads of %v take %v", latency, took)
	}
	c := p.Counters()
	if c.MaxInFlight != depth {
		t.Errorf("%d requests are in flight at most, the depth is %d", c.MaxInFlight, depth)
	}
	if q := c.ReadLatency.Quantile(0.01); q < latency.Microseconds() {
		t.Errorf("reads of at most %d µs", q)
	}
}

// The files of a directory share its bandwidth, those of another do not.
func TestBandwidth(t *testing.T) {
	const perSecond = 1 << 20
	fs := inject.New(nil, inject.Options{Bandwidth: perSecond})
	p := storage.NewPool(storage.PoolOptions{Depth: 8})
	defer p.Close()
	var wg sync.WaitGroup
	for range 2 {
		path, want := makeFile(t, 32) // 128 KiB: an eighth of a second
		f, err := storage.OpenFile(fs, path, storage.Flags{})
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		wg.Go(func() {
			if took := readAll(t, p, f, want); took < time.Second/8 {
				t.Errorf("%d bytes at %d a second take %v", len(want), perSecond, took)
			}
		})
	}
	wg.Wait()
}

func TestRefusals(t *testing.T) {
	path, want := makeFile(t, 4)
	refused := errors.New("refused")
	fs := inject.New(nil, inject.Options{RefuseDirect: true, Magic: unix.TMPFS_MAGIC, Fail: func(op inject.Op) error {
		if op.Name == "read" && op.Offset == page || op.Name == "sync" || op.Name == "mkdir" || op.Name == "syncdir" {
			return refused
		}
		return nil
	}})
	f, err := storage.OpenFile(fs, path, storage.Flags{})
	if err != nil || f.Direct() {
		t.Fatalf("%v, direct %v", err, f.Direct())
	}
	defer f.Close()
	b := make([]byte, page)
	if n, err := f.ReadAt(b, 0); n != page || err != nil || !bytes.Equal(b, want[:page]) {
		t.Fatal(n, err)
	}
	var e *storage.Error
	if _, err := f.ReadAt(b, page); !errors.As(err, &e) || !errors.Is(err, refused) || e.Offset != page {
		t.Fatal(err)
	}
	if err := f.Sync(); !errors.Is(err, refused) {
		t.Fatal(err)
	}
	if err := fs.Mkdir(filepath.Join(t.TempDir(), "d"), 0o700); !errors.Is(err, refused) {
		t.Fatal(err)
	}
	if err := fs.SyncDir(t.TempDir()); !errors.Is(err, refused) {
		t.Fatal(err)
	}
	if st, err := fs.Statfs(t.TempDir()); err != nil || st.Type != unix.TMPFS_MAGIC {
		t.Fatal(st.Type, err)
	}
	fs.Set(inject.Options{})
	if _, err := f.ReadAt(b, page); err != nil || f.Sync() != nil {
		t.Fatal(err)
	}
}

// shortFS moves less than is asked, is interrupted and busy now and then, and
// fails where told; below it is the operating system.
type shortFS struct {
	storage.FS
	steps  atomic.Int64
	broken atomic.Bool
	noFD   bool
}

type shortFile struct {
	storage.Handle
	fs *shortFS
}

var errBroken = errors.New("broken")

func (f *shortFS) OpenFile(path string, flags int, perm fs.FileMode) (storage.Handle, error) {
	h, err := f.FS.OpenFile(path, flags, perm)
	if err != nil {
		return nil, err
	}
	return &shortFile{h, f}, nil
}

func (f *shortFile) Fd() int {
	if f.fs.noFD {
		return -1
	}
	return f.Handle.Fd()
}

func (f *shortFile) Begin(storage.Transfer) (time.Time, error) {
	if f.fs.steps.Add(1)%7 == 3 {
		return time.Time{}, unix.EAGAIN
	}
	return time.Time{}, nil
}

func (f *shortFile) End(t storage.Transfer, n int, err error) (int, error) {
	switch k := f.fs.steps.Add(1); {
	case err != nil && err != io.EOF:
		return n, err
	case f.fs.broken.Load():
		return 0, errBroken
	case k%5 == 1:
		return 0, unix.EINTR
	case n > page:
		return n / 2, nil
	}
	return n, err
}

// Every engine goes on after short, interrupted and refused transfers, passes
// on errors of completions, and reads files without a descriptor.
func TestContinued(t *testing.T) {
	for _, engine := range []string{storage.IOUring, storage.IOPread, storage.IOBuffered} {
		for _, noFD := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/%v", engine, noFD), func(t *testing.T) {
				if err := storage.RingRefusal(); engine == storage.IOUring && err != nil {
					t.Skip(err)
				}
				path, want := makeFile(t, 64)
				below := &shortFS{FS: storage.OS, noFD: noFD}
				p := storage.NewPool(storage.PoolOptions{Depth: 3, IO: engine, FS: below})
				defer p.Close()
				f, err := storage.OpenFile(inject.New(below, inject.Options{}), path, storage.Flags{Write: true, Buffered: engine == storage.IOBuffered})
				if err != nil {
					t.Fatal(err)
				}
				defer f.Close()
				for i := range want {
					want[i] += byte(i % 251)
				}
				const each = 8 * page
				var wg sync.WaitGroup
				for at := 0; at < len(want); at += each {
					wg.Add(1)
					b := storage.AlignedBytes(each)
					copy(b, want[at:])
					p.Submit(&storage.Request{File: f, Offset: int64(at), Buf: b, Write: true, Done: func(r *storage.Request) {
						if r.Err != nil {
							t.Error(r.Err)
						}
						clear(r.Buf)
						r.Write, r.Done = false, func(r *storage.Request) {
							defer wg.Done()
							if r.Err != nil || !bytes.Equal(r.Buf, want[r.Offset:r.Offset+each]) {
								t.Errorf("bytes at %d differ: %v", r.Offset, r.Err)
							}
						}
						p.Submit(r)
					}})
				}
				wg.Wait()
				below.broken.Store(true)
				failed := make(chan error, 1)
				p.Submit(&storage.Request{File: f, Buf: storage.AlignedBytes(page), Done: func(r *storage.Request) { failed <- r.Err }})
				var e *storage.Error
				if err := <-failed; !errors.Is(err, errBroken) || !errors.As(err, &e) || e.Op != "read" {
					t.Errorf("a failed completion: %v", err)
				}
			})
		}
	}
}

// Scratch on a file system that lies in memory is counted, and refused where
// there is no room.
func TestScratchInMemory(t *testing.T) {
	s, err := storage.OpenScratch(inject.New(nil, inject.Options{Magic: unix.TMPFS_MAGIC}), []string{t.TempDir()}, 1<<30)
	if err != nil || !s.InMemory() {
		t.Fatal(err)
	}
	full, used := errors.New("no memory left"), int64(0)
	s.CountMemory(func(n int64) error {
		if n > 3*page {
			return full
		}
		used = n
		return nil
	})
	f, err := s.Create("a", 2*page)
	if err != nil || used != 2*page {
		t.Fatal(err, used)
	}
	if _, err := s.Create("b", 2*page); !errors.Is(err, full) || !strings.Contains(err.Error(), "scratch=DIR") || s.Used() != 2*page {
		t.Fatalf("%v, %d used", err, s.Used())
	}
	if err := s.Extend(f, 3*page); err != nil || used != 3*page {
		t.Fatal(err, used)
	}
	if err := s.Remove(f); err != nil || used != 0 {
		t.Fatal(err, used)
	}
	if _, err := s.Create("c", page); err != nil || used != page {
		t.Fatal(err, used)
	}
	if err := s.Close(); err != nil || used != 0 {
		t.Fatal(err, used)
	}
	if s, err = storage.OpenScratch(nil, []string{t.TempDir()}, 1<<20); err != nil {
		t.Fatal(err)
	}
	s.Close()
}
