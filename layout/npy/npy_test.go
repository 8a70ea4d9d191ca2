package npy

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/sbinet/npyio"

	"github.com/goagnes/goagnes/layout"
)

// file builds a .npy file of a version by hand.
func file(version byte, header string, data ...byte) []byte {
	b := []byte("\x93NUMPY" + string(version) + "\x00")
	if version == 1 {
		b = binary.LittleEndian.AppendUint16(b, uint16(len(header)))
	} else {
		b = binary.LittleEndian.AppendUint32(b, uint32(len(header)))
	}
	return append(append(b, header...), data...)
}

func TestReadHeader(t *testing.T) {
	for _, c := range []struct {
		name string
		in   []byte
		want Header
	}{
		{"v1", file(1, "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }  \n"),
			Header{DType: layout.Float32, Shape: []int64{3, 4}}},
		{"v2", file(2, "{'descr': '<i8', 'fortran_order': True, 'shape': (2, 5), }\n"),
			Header{DType: layout.Int64, Fortran: true, Shape: []int64{2, 5}}},
		{"v3", file(3, "{'descr': '|b1', 'fortran_order': False, 'shape': (7,), }\n"),
			Header{DType: layout.Bool, Shape: []int64{7}}},
		{"big-endian", file(1, "{'descr': '>u4', 'fortran_order': False, 'shape': (1,)}"),
			Header{DType: layout.Uint32, BigEndian: true, Shape: []int64{1}}},
		{"byte order of bytes is nothing", file(1, "{'descr': '>i1', 'fortran_order': False, 'shape': ()}"),
			Header{DType: layout.Int8, Shape: []int64{}}},
		{"empty keeps its shape", file(1, "{'descr': '<f2', 'fortran_order': False, 'shape': (0, 128), }"),
			Header{DType: layout.Float16, Shape: []int64{0, 128}}},
		{"Python 2, other order, double quotes", file(1, "{\"shape\":(3L,4L),\n\"descr\" : \"<f8\",'fortran_order':False}"),
			Header{DType: layout.Float64, Shape: []int64{3, 4}}},
		{"ml_dtypes", file(1, "{'descr': '<V2', 'fortran_order': False, 'shape': (2,), }"),
			Header{DType: layout.BFloat16, Shape: []int64{2}}},
		{"beyond 32 bits", file(1, "{'descr': '<i8', 'fortran_order': False, 'shape': (2, 1615685872), }"),
			Header{DType: layout.Int64, Shape: []int64{2, 1615685872}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := bytes.NewReader(append(slices.Clone(c.in), "rest"...))
			h, err := ReadHeader(iotest.OneByteReader(r))
			if err != nil {
				t.Fatal(err)
			}
			c.want.DataOffset = int64(len(c.in))
			if fmt.Sprintf("%+v", h) != fmt.Sprintf("%+v", c.want) {
				t.Errorf("got  %+v\nwant %+v", h, c.want)
			}
			if rest, _ := io.ReadAll(r); string(rest) != "rest" {
				t.Errorf("the reader stands at %q", rest)
			}
		})
	}
}

func TestReadHeaderRefuses(t *testing.T) {
	long := "{'descr': '<f4', 'fortran_order': False, 'shape': (3,), }" + strings.Repeat(" ", MaxHeaderBytes)
	for _, c := range []struct {
		name, class, want string
		in                []byte
	}{
		{"empty", "input", "ends within the magic", nil},
		{"text", "input", "no .npy file", []byte("0 1\n1 2\n2 3\n")},
		{"version 4", "unsupported", "version 4.0", file(4, "{}")},
		{"cut length", "input", "ends within the header length", []byte("\x93NUMPY\x01\x00\x76")},
		{"cut header", "input", "ends within the header", file(1, strings.Repeat(" ", 80))[:40]},
		{"long header", "input", "at most 65536", file(2, long)},
		{"claimed 4 GiB", "input", "at most 65536", []byte("\x93NUMPY\x02\x00\xff\xff\xff\xff")},
		{"no literal", "input", "'{' is due", file(1, "hello")},
		{"missing key", "input", "lacks", file(1, "{'descr': '<f4', 'shape': (3,), }")},
		{"key twice", "input", "twice", file(1, "{'descr': '<f4', 'descr': '<f4', }")},
		{"unknown key", "input", "unknown key", file(1, "{'descr': '<f4', 'evil': 1, }")},
		{"negative extent", "input", "an extent", file(1, "{'descr': '<f4', 'fortran_order': False, 'shape': (-3,), }")},
		{"extent beyond int64", "input", "an extent", file(1, "{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999,), }")},
		{"product overflows", "input", "too large", file(1, "{'descr': '<f4', 'fortran_order': False, 'shape': (4294967296, 4294967296), }")},
		{"product overflows beside a zero", "input", "too large", file(1, "{'descr': '<f4', 'fortran_order': False, 'shape': (0, 4294967296, 4294967296), }")},
		{"no tuple", "input", "tuple", file(1, "{'descr': '<f4', 'fortran_order': False, 'shape': (3), }")},
		{"33 axes", "input", "more than 32", file(1, "{'descr': '<f4', 'fortran_order': False, 'shape': ("+strings.Repeat("1, ", 33)+"), }")},
		{"neither True nor False", "input", "True or False", file(1, "{'descr': '<f4', 'fortran_order': 0, 'shape': (3,), }")},
		{"rubbish after", "input", "end of the header", file(1, "{'descr': '<f4', 'fortran_order': False, 'shape': (3,), } + 1")},
		{"an expression", "input", "a string is due", file(1, "{'descr': __import__('os'), 'fortran_order': False, 'shape': (3,), }")},
		{"objects", "unsupported", `"|O"`, file(1, "{'descr': '|O', 'fortran_order': False, 'shape': (3,), }")},
		{"strings", "unsupported", `"<U7"`, file(1, "{'descr': '<U7', 'fortran_order': False, 'shape': (3,), }")},
		{"complex", "unsupported", `"<c8"`, file(1, "{'descr': '<c8', 'fortran_order': False, 'shape': (3,), }")},
		{"structured", "unsupported", "structured", file(1, "{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (3,), }")},
		{"escape", "input", "without escapes", file(1, `{'descr': '\x3cf4', 'fortran_order': False, 'shape': (3,), }`)},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := ReadHeader(bytes.NewReader(c.in))
			var e *Error
			if !errors.As(err, &e) {
				t.Fatalf("got %v", err)
			}
			if e.Class() != c.class || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %s: %v, want %s with %q", e.Class(), err, c.class, c.want)
			}
		})
	}
}

// TestAgainstNpyio reads what another implementation wrote, and the reverse.
func TestAgainstNpyio(t *testing.T) {
	var theirs bytes.Buffer
	values := []float32{1, 2, 3, 4.5, -1}
	if err := npyio.Write(&theirs, values); err != nil {
		t.Fatal(err)
	}
	h, err := ReadHeader(&theirs)
	if err != nil {
		t.Fatal(err)
	}
	if h.DType != layout.Float32 || !slices.Equal(h.Shape, []int64{5}) || h.DataBytes() != int64(theirs.Len()) {
		t.Errorf("their header reads %+v with %d bytes after it", h, theirs.Len())
	}

	data := []int64{5, -6, 7, 8, 9, 10}
	var ours bytes.Buffer
	n, err := WriteHeader(&ours, layout.Int64, []int64{2, 3})
	if err != nil || n != int64(ours.Len()) || n%alignment != 0 {
		t.Fatalf("wrote %d of %d bytes: %v", n, ours.Len(), err)
	}
	if err := binary.Write(&ours, binary.LittleEndian, data); err != nil {
		t.Fatal(err)
	}
	r, err := npyio.NewReader(&ours)
	if err != nil {
		t.Fatal(err)
	}
	if d := r.Header.Descr; d.Type != "<i8" || d.Fortran || !slices.Equal(d.Shape, []int{2, 3}) {
		t.Errorf("they read %+v", d)
	}
	var back []int64
	if err := r.Read(&back); err != nil || !slices.Equal(back, data) {
		t.Errorf("they read %v: %v", back, err)
	}
}

func TestWriteHeaderRoundTrip(t *testing.T) {
	for d := layout.Float32; d.Valid(); d++ {
		for _, shape := range [][]int64{{}, {0}, {1}, {2, 0, 3}, {1 << 40, 128}, make([]int64, MaxDims)} {
			var b bytes.Buffer
			n, err := WriteHeader(&b, d, shape)
			if err != nil {
				t.Fatal(err)
			}
			h, err := ReadHeader(&b)
			if err != nil {
				t.Fatalf("%s %v: %v", d, shape, err)
			}
			if h.DType != d || h.BigEndian || h.Fortran || !slices.Equal(h.Shape, shape) || h.DataOffset != n {
				t.Errorf("%s %v came back as %+v", d, shape, h)
			}
		}
	}
	for _, shape := range [][]int64{{-1}, make([]int64, MaxDims+1)} {
		if _, err := WriteHeader(io.Discard, layout.Int8, shape); err == nil {
			t.Errorf("shape %v was written", shape)
		}
	}
}
