package npy

import (
	"archive/zip"
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sbinet/npyio/npz"

	"github.com/goagnes/goagnes/layout"
)

type entry struct {
	name   string
	method uint16
	data   []byte
}

func archive(t *testing.T, entries ...entry) string {
	t.Helper()
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	for _, e := range entries {
		w, err := z.CreateHeader(&zip.FileHeader{Name: e.name, Method: e.method})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(e.data); err != nil {
			t.Fatal(err)
		}
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return save(t, b.Bytes())
}

func save(t *testing.T, b []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "a.npz")
	if err := os.WriteFile(path, b, 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

const three = "{'descr': '|u1', 'fortran_order': False, 'shape': (3,), }"

func TestArchiveRoundTrip(t *testing.T) {
	var b bytes.Buffer
	w := NewArchiveWriter(&b)
	x := bytes.Repeat([]byte{0, 0, 128, 63}, 6)
	if err := w.Add("x", layout.Float32, []int64{2, 3}, bytes.NewReader(x)); err != nil {
		t.Fatal(err)
	}
	if err := w.Add("config", layout.Uint8, []int64{4}, strings.NewReader("abcdefgh")); err != nil {
		t.Fatal(err)
	}
	if err := w.Add("x", layout.Uint8, []int64{0}, strings.NewReader("")); err == nil {
		t.Error("a second member x was written")
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	path := save(t, b.Bytes())
	a, err := OpenArchive(path)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	if !slices.Equal(a.Names(), []string{"x", "config"}) || !a.Has("x") || a.Has("y") {
		t.Errorf("names %q", a.Names())
	}
	h, r, err := a.Open("config")
	if err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(r); err != nil || string(got) != "abcd" || h.DType != layout.Uint8 {
		t.Errorf("config reads %q, %+v, %v", got, h, err)
	}
	h, s, err := a.Section("x")
	if err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(s); err != nil || !bytes.Equal(got, x) || !slices.Equal(h.Shape, []int64{2, 3}) {
		t.Errorf("x reads %d bytes, %+v, %v", len(got), h, err)
	}
	if _, _, err := a.Open("y"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a missing member gives %v", err)
	}
	var theirs []float32
	if err := npz.Read(bytes.NewReader(b.Bytes()), "x.npy", &theirs); err != nil || !slices.Equal(theirs, []float32{1, 1, 1, 1, 1, 1}) {
		t.Errorf("npyio reads %v: %v", theirs, err)
	}
}

func TestArchiveWriterShortData(t *testing.T) {
	w := NewArchiveWriter(io.Discard)
	err := w.Add("x", layout.Float32, []int64{2}, strings.NewReader("1234567"))
	if !errors.Is(err, io.EOF) {
		t.Errorf("seven of eight bytes give %v", err)
	}
}

func TestArchiveDeflated(t *testing.T) {
	data := bytes.Repeat([]byte("abcdefghij"), 5000)
	header := "{'descr': '|u1', 'fortran_order': False, 'shape': (50000,), }"
	a, err := OpenArchive(archive(t, entry{"../x.npy", zip.Deflate, file(1, header, data...)}, entry{"readme.txt", zip.Store, nil}))
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	if !slices.Equal(a.Names(), []string{"../x"}) {
		t.Fatalf("names %q", a.Names())
	}
	_, r, err := a.Open("../x")
	if err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(r); err != nil || !bytes.Equal(got, data) {
		t.Errorf("%d bytes, %v", len(got), err)
	}
	if _, s, err := a.Section("../x"); s != nil || err != nil {
		t.Errorf("a deflated member has a section, or %v", err)
	}
}

func TestArchiveRefuses(t *testing.T) {
	t.Run("no zip", func(t *testing.T) {
		_, err := OpenArchive(save(t, []byte("0 1\n1 2\n")))
		var e *Error
		if !errors.As(err, &e) || !strings.Contains(err.Error(), "a.npz") {
			t.Errorf("got %v", err)
		}
	})
	t.Run("missing", func(t *testing.T) {
		if _, err := OpenArchive(filepath.Join(t.TempDir(), "b.npz")); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("got %v", err)
		}
	})
	t.Run("two of a name", func(t *testing.T) {
		if _, err := OpenArchive(archive(t, entry{"x.npy", 0, nil}, entry{"x.npy", 0, nil})); err == nil {
			t.Error("opened")
		}
	})
	for _, c := range []struct {
		name, want string
		e          entry
	}{
		{"short member", "where the header asks", entry{"x.npy", zip.Store, file(1, three, 1, 2)}},
		{"long member", "where the header asks", entry{"x.npy", zip.Deflate, file(1, three, 1, 2, 3, 4)}},
		{"no npy", "no .npy file", entry{"x.npy", zip.Store, []byte("0 1 2 3 4 5")}},
		{"empty", "ends within", entry{"x.npy", zip.Store, nil}},
	} {
		t.Run(c.name, func(t *testing.T) {
			a, err := OpenArchive(archive(t, c.e))
			if err != nil {
				t.Fatal(err)
			}
			defer a.Close()
			_, _, err = a.Open("x")
			if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "a.npz: x") {
				t.Errorf("Open: %v", err)
			}
			if _, _, err = a.Section("x"); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("Section: %v", err)
			}
		})
	}
	t.Run("flipped bit", func(t *testing.T) {
		path := archive(t, entry{"x.npy", zip.Store, file(1, three, 'Q', 'Q', 'Q')})
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		b[bytes.Index(b, []byte("QQQ"))] ^= 1
		a, err := OpenArchive(save(t, b))
		if err != nil {
			t.Fatal(err)
		}
		defer a.Close()
		_, r, err := a.Open("x")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(r, make([]byte, 3)); !errors.Is(err, zip.ErrChecksum) {
			t.Errorf("exactly the elements: got %v", err)
		}
		if _, err := io.ReadAll(r); !errors.Is(err, zip.ErrChecksum) {
			t.Errorf("once more: got %v", err)
		}
	})
}
