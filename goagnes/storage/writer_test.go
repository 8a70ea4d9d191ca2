package storage

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/goagnes/goagnes/layout"
)

func TestWriter(t *testing.T) { eachEngine(t, testWriter) }

func testWriter(t *testing.T, engine string) {
	p := NewPool(PoolOptions{Depth: 2, IO: engine})
	defer p.Close()
	random := rand.New(rand.NewPCG(10, 10))
	for _, total := range []int{0, 1, page - 1, page, page + 1, 8 * page, 8*page + 1, 16 * page, 100*page + 77} {
		path := filepath.Join(t.TempDir(), "file")
		var sums bytes.Buffer
		w, err := NewWriter(p, path, 7*page+5, &sums)
		if err != nil {
			t.Fatal(err)
		}
		if total == 16*page { // reserved space beyond the end is cut off
			if err := w.Preallocate(20 * page); err != nil {
				t.Fatal(err)
			}
		}
		var want []byte
		for len(want) < total {
			b := make([]byte, min(1+random.IntN(20*page), total-len(want)))
			for i := range b {
				b[i] = byte(random.Uint32())
			}
			if n, err := w.Write(b); n != len(b) || err != nil {
				t.Fatal(n, err)
			}
			want = append(want, b...)
		}
		if w.Bytes() != int64(total) {
			t.Fatalf("%d bytes of %d", w.Bytes(), total)
		}
		if err := errors.Join(w.Close(), w.Close(), w.Abort()); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write([]byte{1}); !errors.Is(err, ErrClosed) {
			t.Fatal(err)
		}
		want = append(want, make([]byte, int(roundUpPage(int64(total)))-total)...)
		got, err := os.ReadFile(path)
		if err != nil || !bytes.Equal(got, want) {
			t.Fatalf("%d bytes: the file differs, %d of %d bytes: %v", total, len(got), len(want), err)
		}
		if sums.Len() != len(want)/page*4 {
			t.Fatalf("%d bytes of sums for %d pages", sums.Len(), len(want)/page)
		}
		for i := 0; i < len(want)/page; i++ {
			if layout.CRC(want[i*page:(i+1)*page]) != binary.LittleEndian.Uint32(sums.Bytes()[4*i:]) {
				t.Fatalf("the sum of page %d differs", i)
			}
		}
	}
}

type failingSink struct{}

func (failingSink) Write([]byte) (int, error) { return 0, errors.New("full") }

func TestWriterFailures(t *testing.T) { eachEngine(t, testWriterFailures) }

func testWriterFailures(t *testing.T, engine string) {
	p := NewPool(PoolOptions{Depth: 2, IO: engine})
	defer p.Close()
	path := filepath.Join(t.TempDir(), "file")
	w, err := NewWriter(p, path, page, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := NewWriter(p, path, page, nil); !errors.Is(err, os.ErrExist) {
		t.Fatal(err)
	}
	if _, err := w.Write(make([]byte, 3*page)); err != nil {
		t.Fatal(err)
	}
	w.file.handle.Close() // the device goes away
	for err = nil; err == nil; _, err = w.Write(make([]byte, page)) {
	}
	var e *Error
	if !errors.As(err, &e) || e.Op != "write" || e.Path != path {
		t.Fatal(err)
	}
	if again := w.Close(); again != err {
		t.Fatalf("Close: %v, not the first failure %v", again, err)
	}
	if err := w.Abort(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
		t.Fatal("an aborted file is there")
	}
	if w, err = NewWriter(p, path, page, failingSink{}); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write(make([]byte, 2*page)); err == nil || err.Error() != "full" {
		t.Fatal(err)
	}
	if err := errors.Join(w.Abort(), w.Abort()); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
		t.Fatal("an aborted file is there")
	}
}
