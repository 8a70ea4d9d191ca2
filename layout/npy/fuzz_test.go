package npy

// Anything at all as an .npy or .npz file: an *Error, or arrays that are as their
// headers say.

import (
	"archive/zip"
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/goagnes/goagnes/layout"
	"github.com/goagnes/goagnes/tests/bounds"
)

func FuzzReadHeader(f *testing.F) {
	f.Add(file(1, "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }"))
	f.Add(file(2, "{'descr': '>i8', 'fortran_order': True, 'shape': (2L,), }"))
	f.Add(file(3, "{'shape': (), 'descr': '|b1', 'fortran_order': False}"))
	f.Fuzz(func(t *testing.T, in []byte) {
		bounds.Hold(t, len(in), bounds.Limit{Fixed: 256 << 10, Factor: 16}, func() {
			h, err := ReadHeader(bytes.NewReader(in))
			if err != nil {
				var e *Error
				if !errors.As(err, &e) {
					t.Fatalf("untyped error %v", err)
				}
				return
			}
			if h.DataOffset > int64(len(in)) || h.DataBytes() < 0 || !h.DType.Valid() || len(h.Shape) > MaxDims {
				t.Fatalf("%+v from %q", h, in)
			}
			var b bytes.Buffer
			if _, err := WriteHeader(&b, h.DType, h.Shape); err != nil {
				t.Fatal(err)
			}
			back, err := ReadHeader(&b)
			if err != nil || back.DType != h.DType || !slices.Equal(back.Shape, h.Shape) {
				t.Fatalf("%+v came back as %+v: %v", h, back, err)
			}
		})
	})
}

// zipped is an archive of one stored and one deflated member.
func zipped(f *testing.F, stored, deflated []byte) []byte {
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	for _, e := range []entry{{"x.npy", zip.Store, stored}, {"y.npy", zip.Deflate, deflated}} {
		w, err := z.CreateHeader(&zip.FileHeader{Name: e.name, Method: e.method})
		if err == nil {
			_, err = w.Write(e.data)
		}
		if err != nil {
			f.Fatal(err)
		}
	}
	if err := z.Close(); err != nil {
		f.Fatal(err)
	}
	return b.Bytes()
}

// FuzzArchive reads anything as an archive; where members is set, as the members
// of one that is whole.
func FuzzArchive(f *testing.F) {
	array := file(1, "{'descr': '|u1', 'fortran_order': False, 'shape': (3,), }", 1, 2, 3)
	var own bytes.Buffer
	w := NewArchiveWriter(&own)
	if err := errors.Join(w.Add("x", layout.Uint8, []int64{5}, bytes.NewReader([]byte("12345"))), w.Close()); err != nil {
		f.Fatal(err)
	}
	f.Add(own.Bytes(), false)
	f.Add(zipped(f, array, array), false)
	f.Add(array, true)
	f.Add(file(1, "{'descr': '<f8', 'fortran_order': True, 'shape': (9223372036854775807,), }"), true)
	path := filepath.Join(f.TempDir(), "a.npz")
	f.Fuzz(func(t *testing.T, in []byte, members bool) {
		if len(in) > 1<<16 {
			return
		}
		if members {
			in = zipped(f, in, in)
		}
		if err := os.WriteFile(path, in, 0o644); err != nil {
			t.Fatal(err)
		}
		// Of a deflated member no more is taken than pieces of a fixed size.
		bounds.Hold(t, len(in), bounds.Limit{Fixed: 1 << 20, Factor: 256}, func() { readAll(t, path) })
	})
}

func readAll(t *testing.T, path string) {
	typed := func(err error) bool {
		if err != nil && !errors.As(err, new(*Error)) {
			t.Fatalf("untyped error %v", err)
		}
		return err == nil
	}
	a, err := OpenArchive(path)
	if !typed(err) {
		return
	}
	defer a.Close()
	for _, name := range a.Names() {
		h, r, err := a.Open(name)
		if !typed(err) {
			continue
		}
		// What a small file unpacks to may be large, and is only streamed.
		n, err := io.CopyN(io.Discard, r, 1<<20)
		r.Close()
		if err != nil && !errors.Is(err, io.EOF) {
			typed(err)
			continue
		}
		if err != nil && n != h.DataBytes() || n > h.DataBytes() {
			t.Fatalf("member %q of %d bytes gives %d: %v", name, h.DataBytes(), n, err)
		}
		h2, s, err := a.Section(name)
		if typed(err) && (h2.DataBytes() != h.DataBytes() || s != nil && s.Size() != h.DataBytes()) {
			t.Fatalf("member %q of %d bytes has %d, and a section of %d", name, h.DataBytes(), h2.DataBytes(), s.Size())
		}
	}
}
