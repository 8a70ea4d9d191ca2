package inject_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"sync"
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
	const depth, latency = 8, 20 * time.Millisecond
	path, want := makeFile(t, 3*depth)
	p := storage.NewPool(storage.PoolOptions{Depth: depth})
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
