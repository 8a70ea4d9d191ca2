package storage

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/goagnes/goagnes/layout"
)

// stripeDirs makes k directories.
func stripeDirs(t *testing.T, k int) []string {
	t.Helper()
	dirs := make([]string, k)
	for i := range dirs {
		dirs[i] = filepath.Join(t.TempDir(), fmt.Sprint("ssd", i))
		if err := os.Mkdir(dirs[i], 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return dirs
}

// TestStriped writes and reads ranges of a striped file through a pool and
// directly, and compares it with a plain array, and its parts with layout's rule.
func TestStriped(t *testing.T) {
	const pages, page = 101, layout.PageSize
	for _, c := range []struct{ k, unitPages int }{{1, 1}, {2, 1}, {3, 4}, {4, 16}, {5, 128}} {
		r := rand.New(rand.NewPCG(uint64(c.k), uint64(c.unitPages)))
		unit := int64(c.unitPages) * page
		dirs := stripeDirs(t, c.k)
		f, err := OpenStriped(nil, dirs, "x", unit, Flags{Create: true})
		if err != nil {
			t.Fatal(err)
		}
		if err := f.Preallocate(pages * page); err != nil {
			t.Fatal(err)
		}
		if n, err := f.Size(); n != pages*page || err != nil {
			t.Errorf("%v: %d bytes, %v", c, n, err)
		}
		pool := NewPool(PoolOptions{Depth: 4})
		want := make([]byte, pages*page)
		buffer := AlignedBytes(pages * page)
		for round := range 60 {
			from := r.IntN(pages)
			to := from + 1 + r.IntN(pages-from)
			b := buffer[:(to-from)*page]
			write := round%2 == 0
			if write {
				for i := range b {
					b[i] = byte(r.Uint32())
				}
				copy(want[from*page:], b)
			} else {
				clear(b)
			}
			request := Request{File: f, Offset: int64(from) * page, Buf: b, Write: write}
			switch round % 6 {
			case 0, 1:
				err = pool.Do(&request)
			case 2, 3:
				done := make(chan struct{})
				request.Done = func(*Request) { close(done) }
				pool.Submit(&request)
				<-done
				err = request.Err
			case 4:
				_, err = f.WriteAt(b, request.Offset)
			case 5: // any range
				low, high := int(request.Offset)+r.IntN(page), from*page+len(b)-r.IntN(page)/2
				b = b[low-from*page : max(low, high)-from*page]
				_, err = f.ReadAt(b, int64(low))
				from, to = 0, 0
				if !bytes.Equal(b, want[low:low+len(b)]) {
					t.Fatalf("%v, round %d: bytes %d to %d differ", c, round, low, low+len(b))
				}
			}
			if err != nil {
				t.Fatalf("%v, round %d: %v", c, round, err)
			}
			if !write && to > from && !bytes.Equal(b, want[from*page:to*page]) {
				t.Fatalf("%v, round %d: pages %d to %d differ", c, round, from, to)
			}
		}
		parts := make([][]byte, c.k)
		for i := range parts {
			if parts[i], err = os.ReadFile(filepath.Join(dirs[i], "x")); err != nil {
				t.Fatal(err)
			}
			if n := layout.StripeBytes(pages*page, unit, c.k, layout.StripeFirst("x", c.k), i); int64(len(parts[i])) != n {
				t.Errorf("%v: part %d has %d bytes, want %d", c, i, len(parts[i]), n)
			}
		}
		for p := range int64(pages) {
			i, at := layout.StripeAt(p*page, unit, c.k, layout.StripeFirst("x", c.k))
			if !bytes.Equal(parts[i][at:at+page], want[p*page:(p+1)*page]) {
				t.Fatalf("%v: page %d is not at %d of part %d", c, p, at, i)
			}
		}
		counted := pool.Counters()
		sum := int64(0)
		for _, n := range counted.StripeBytes {
			sum += n
		}
		if len(counted.StripeBytes) > c.k || sum != counted.BytesRead+counted.BytesWritten {
			t.Errorf("%v: %v by stripe, %d and %d bytes in all", c, counted.StripeBytes, counted.BytesRead, counted.BytesWritten)
		}
		if err := errors.Join(pool.Close(), f.Sync(), f.Close()); err != nil {
			t.Error(err)
		}
	}
}

// TestStripedInFlight has a request of many units occupy the whole queue.
func TestStripedInFlight(t *testing.T) {
	dirs := stripeDirs(t, 2)
	f, err := OpenStriped(nil, dirs, "x", layout.PageSize, Flags{Create: true})
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	pool := NewPool(PoolOptions{Depth: 8})
	defer pool.Close()
	var wait sync.WaitGroup
	requests := make([]Request, 4)
	for i := range requests {
		wait.Add(1)
		requests[i] = Request{File: f, Offset: int64(i) * 64 * layout.PageSize, Buf: AlignedBytes(64 * layout.PageSize), Write: true, Done: func(*Request) { wait.Done() }}
		pool.Submit(&requests[i])
	}
	wait.Wait()
	c := pool.Counters()
	if c.Writes != 256 || c.StripeBytes[0] != c.StripeBytes[1] {
		t.Errorf("%d writes, %v bytes by stripe", c.Writes, c.StripeBytes)
	}
	if c.MaxInFlight < 2 || c.MaxInFlight > 8 {
		t.Errorf("%d requests in flight", c.MaxInFlight)
	}
}

func TestStripedFaults(t *testing.T) {
	dirs := stripeDirs(t, 3)
	var paths []string
	for i := range 3 { // in the order of units
		paths = append(paths, filepath.Join(dirs[(i+layout.StripeFirst("x", 3))%3], "x"))
	}
	if err := os.WriteFile(paths[2], nil, 0o644); err != nil {
		t.Fatal(err)
	}
	var failed *Error
	if _, err := OpenStriped(nil, dirs, "x", layout.PageSize, Flags{Create: true}); !errors.As(err, &failed) || failed.Path != paths[2] {
		t.Errorf("a part that is there already: %v", err)
	}
	if left, _ := filepath.Glob(filepath.Join(filepath.Dir(filepath.Dir(dirs[0])), "*", "*", "x")); len(left) != 1 {
		t.Errorf("left behind: %v", left)
	}
	if _, err := OpenStriped(nil, dirs, "x", layout.PageSize, Flags{}); !errors.As(err, &failed) || failed.Path != filepath.Join(dirs[0], "x") {
		t.Errorf("a part that is missing: %v", err)
	}
	os.Remove(paths[2])
	f, err := OpenStriped(nil, dirs, "x", layout.PageSize, Flags{Create: true})
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Truncate(7 * layout.PageSize); err != nil {
		t.Fatal(err)
	}
	pool := NewPool(PoolOptions{})
	r := Request{File: f, Buf: AlignedBytes(9 * layout.PageSize)}
	if err := pool.Do(&r); !errors.As(err, &failed) || failed.Path != paths[1] || failed.Offset != 2*layout.PageSize {
		t.Errorf("a read past the end: %v", err)
	}
	if err := os.Truncate(paths[2], 0); err != nil {
		t.Fatal(err)
	}
	r = Request{File: f, Buf: AlignedBytes(6 * layout.PageSize), Done: func(*Request) {}}
	if err := pool.Do(&r); !errors.As(err, &failed) || failed.Path != paths[2] || failed.Offset != 0 {
		t.Errorf("a part that was cut: %v", err)
	}
	if err := pool.Close(); err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	r = Request{File: f, Buf: AlignedBytes(6 * layout.PageSize), Done: func(*Request) { close(done) }}
	pool.Submit(&r)
	<-done
	if !errors.Is(r.Err, ErrClosed) {
		t.Errorf("a request to a closed pool: %v", r.Err)
	}
	if err := errors.Join(f.Close()); err != nil {
		t.Error(err)
	}
}
