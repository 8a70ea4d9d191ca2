package npy

// Why bulk arrays are not written by sbinet/npyio, and files of others not read by it:
// what docs/export.md and the package comment say of version 0.9.0. A version that does
// better fails here, and the reasons are to be looked at again.

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/sbinet/npyio"
	npyionpy "github.com/sbinet/npyio/npy"
	"github.com/sbinet/npyio/npy/float16"

	"github.com/goagnes/goagnes/layout"
)

// writes counts calls of Write.
type writes struct {
	bytes.Buffer
	n int
}

func (w *writes) Write(p []byte) (int, error) {
	w.n++
	return w.Buffer.Write(p)
}

func TestNpyioWritesElementByElement(t *testing.T) {
	var w writes
	if err := npyio.Write(&w, make([]int64, 1000)); err != nil || w.n < 1000 {
		t.Errorf("1000 elements in %d writes: %v", w.n, err)
	}
}

func TestNpyioLosesTheShapeOfEmptyArrays(t *testing.T) {
	for want, v := range map[string]any{"[0]": [0][3]float32{}, "[3 0]": [3][0]float32{}} {
		var b bytes.Buffer
		if err := npyio.Write(&b, v); err != nil {
			t.Fatal(err)
		}
		h, err := ReadHeader(&b)
		if err != nil || fmt.Sprint(h.Shape) != want {
			t.Errorf("%T is written as %v: %v", v, h.Shape, err)
		}
	}
	var b bytes.Buffer
	if _, err := WriteHeader(&b, layout.Float32, []int64{0, 3}); err != nil {
		t.Fatal(err)
	}
	if h, err := ReadHeader(&b); err != nil || !slices.Equal(h.Shape, []int64{0, 3}) {
		t.Errorf("our header of shape (0, 3) reads %v: %v", h.Shape, err)
	}
}

func TestNpyioWritesNoFloat16(t *testing.T) {
	if err := npyio.Write(&bytes.Buffer{}, []float16.Num{float16.New(1)}); err == nil || !strings.Contains(err.Error(), "not supported") {
		t.Errorf("float16 is written: %v", err)
	}
}

func TestNpyioReadsNoVersion3AndPanics(t *testing.T) {
	sound := "{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }\n"
	for _, c := range []struct {
		version byte
		head    string
		ours    bool // our reader reads it
		panics  bool // npyio panics
	}{
		{1, sound, true, false},
		{3, sound, true, false},
		{1, "no end of line", false, true},
		{1, "{'shape': (2,), 'fortran_order': False, 'descr': '<f4', }\n", true, true}, // the keys in another order
		{1, "{'descr': '<f4', 'fortran_order': False, 'shape': (2,)\n", false, true},
	} {
		b := []byte("\x93NUMPY" + string(rune(c.version)) + "\x00")
		if c.version == 1 {
			b = binary.LittleEndian.AppendUint16(b, uint16(len(c.head)))
		} else {
			b = binary.LittleEndian.AppendUint32(b, uint32(len(c.head)))
		}
		b = append(b, c.head...)
		if _, err := ReadHeader(bytes.NewReader(b)); (err == nil) != c.ours {
			t.Errorf("version %d, %q: we read %v", c.version, c.head, err)
		}
		panicked, err := npyioHeader(b)
		if (panicked != nil) != c.panics || !c.panics && (err != nil) != (c.version == 3) {
			t.Errorf("version %d, %q: npyio says %v, panics with %v", c.version, c.head, err, panicked)
		}
	}
}

// npyioHeader reads a header with npyio.
func npyioHeader(b []byte) (panicked any, err error) {
	defer func() { panicked = recover() }()
	_, err = npyionpy.NewReader(bytes.NewReader(b))
	return nil, err
}
