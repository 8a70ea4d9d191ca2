// Package npy reads and writes the headers of numpy's .npy files, versions 1, 2
// and 3, and streams arrays in and out of .npz archives.
//
// The data itself is not decoded: a [Header] says where it starts and how its
// elements lie, and the caller streams or positions its own reads. So an array
// larger than memory costs no memory here.
//
// # Format (numpy.lib.format)
//
//	offset 0  6 bytes  "\x93NUMPY"
//	       6  1 byte   major version: 1, 2 or 3
//	       7  1 byte   minor version: 0
//	       8  uint16 (version 1) or uint32 (2 and 3), little-endian: header length
//	       …  a Python literal, padded with spaces, ending in a newline:
//	          {'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }
//	       …  the elements
//
// # Limits
//
// A header is at most [MaxHeaderBytes], an array at most [MaxDims] axes and 2^62
// bytes, and an archive at most [MaxMembers] members. Structured, object, string,
// complex and date types are refused by name; nothing is ever evaluated or
// unpickled. Two-byte void ('<V2') is read and written as bfloat16, which is how
// numpy saves the ml_dtypes type.
//
// sbinet/npyio is the oracle of the tests; it is not used here because it writes
// element by element, no float16, and arrays of shape (0, k) as (0,), reads no version 3
// and panics on some headers (npyio_test.go).
package npy

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"

	"github.com/goagnes/goagnes/layout"
)

// Limits of a header.
const (
	// MaxHeaderBytes bounds the text of a header.
	MaxHeaderBytes = 64 << 10
	// MaxDims bounds the axes of an array, as numpy did up to version 1.
	MaxDims = 32
	// maxBytes bounds the data an array may claim.
	maxBytes = 1 << 62
	// alignment of the data in written files.
	alignment = 64
)

const magic = "\x93NUMPY"

// Header describes an array.
type Header struct {
	// DType is the element type.
	DType layout.DType
	// BigEndian says that elements are stored most significant byte first; false
	// for types of one byte.
	BigEndian bool
	// Fortran says that the first axis varies fastest.
	Fortran bool
	// Shape is the extent of each axis; empty for a single value.
	Shape []int64
	// DataOffset is the number of bytes before the first element.
	DataOffset int64
}

// Elements is the number of elements.
func (h Header) Elements() int64 {
	n := int64(1)
	for _, s := range h.Shape {
		n *= s
	}
	return n
}

// DataBytes is the number of bytes of all elements.
func (h Header) DataBytes() int64 { return h.Elements() * int64(h.DType.Size()) }

// Error is a fault of a file or archive.
type Error struct {
	// File is the file or archive; empty where a bare reader was given.
	File string
	// Member is the member of an archive; empty for a file.
	Member string
	// Msg says what is wrong.
	Msg string
	// Unsupported says that the content is legal and of a kind that is not read.
	Unsupported bool
	// Err is the cause where there is one.
	Err error
}

// Error gives the place and the fault in one line.
func (e *Error) Error() string {
	s := e.Msg
	if e.Err != nil {
		s += ": " + e.Err.Error()
	}
	if e.Member != "" {
		s = e.Member + ": " + s
	}
	if e.File != "" {
		return e.File + ": " + s
	}
	return "npy: " + s
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Class returns "unsupported" or "input".
func (e *Error) Class() string {
	if e.Unsupported {
		return "unsupported"
	}
	return "input"
}

func failed(format string, args ...any) error { return &Error{Msg: fmt.Sprintf(format, args...)} }

func unsupported(format string, args ...any) error {
	return &Error{Msg: fmt.Sprintf(format, args...), Unsupported: true}
}

// IsNPY reports whether a file that starts with b is a .npy file.
func IsNPY(b []byte) bool { return len(b) >= len(magic) && string(b[:len(magic)]) == magic }

// ReadHeader reads a header and leaves r at the first element. It reads no byte
// past it. Errors are of type *Error; an error of r itself is its cause.
func ReadHeader(r io.Reader) (Header, error) {
	var fixed [12]byte
	if err := readFull(r, fixed[:8], "the magic string"); err != nil {
		return Header{}, err
	}
	if !IsNPY(fixed[:]) {
		return Header{}, failed("no .npy file: it starts with %q", fixed[:6])
	}
	major, minor := fixed[6], fixed[7]
	if major < 1 || major > 3 || minor != 0 {
		return Header{}, unsupported(".npy version %d.%d; versions 1.0, 2.0 and 3.0 are read", major, minor)
	}
	var length, start int64
	if major == 1 {
		if err := readFull(r, fixed[8:10], "the header length"); err != nil {
			return Header{}, err
		}
		length, start = int64(binary.LittleEndian.Uint16(fixed[8:])), 10
	} else {
		if err := readFull(r, fixed[8:12], "the header length"); err != nil {
			return Header{}, err
		}
		length, start = int64(binary.LittleEndian.Uint32(fixed[8:])), 12
	}
	if length > MaxHeaderBytes {
		return Header{}, failed("a header of %d bytes; at most %d are read", length, MaxHeaderBytes)
	}
	text := make([]byte, length)
	if err := readFull(r, text, "the header"); err != nil {
		return Header{}, err
	}
	h, err := parse(string(text))
	if err != nil {
		return Header{}, err
	}
	h.DataOffset = start + length
	return h, nil
}

func readFull(r io.Reader, b []byte, what string) error {
	_, err := io.ReadFull(r, b)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF):
		return &Error{Msg: "the file ends within " + what, Err: io.ErrUnexpectedEOF}
	default:
		return &Error{Msg: "reading " + what, Err: err}
	}
}

// descr gives numpy's type string.
var descr = map[layout.DType]string{
	layout.Float32: "<f4", layout.Float16: "<f2", layout.BFloat16: "<V2", layout.Float64: "<f8",
	layout.Int8: "|i1", layout.Int16: "<i2", layout.Int32: "<i4", layout.Int64: "<i8",
	layout.Uint8: "|u1", layout.Uint16: "<u2", layout.Uint32: "<u4", layout.Uint64: "<u8",
	layout.Bool: "|b1",
}

var fromDescr = func() map[string]layout.DType {
	m := map[string]layout.DType{"bfloat16": layout.BFloat16}
	for d, s := range descr {
		m[s[1:]] = d
	}
	return m
}()

// ParseDescr returns the type and byte order of a numpy type string such as "<f4".
func ParseDescr(s string) (d layout.DType, bigEndian bool, err error) {
	order, name := byte('<'), s
	if s != "" && strings.IndexByte("<>|=", s[0]) >= 0 {
		order, name = s[0], s[1:]
	}
	d, ok := fromDescr[name]
	if !ok {
		return 0, false, unsupported("elements of type %q are not read; convert them to a bool, integer or float type", s)
	}
	return d, order == '>' && d.Size() > 1, nil
}

// WriteHeader writes the header of an array of little-endian elements in C order
// and returns the number of bytes written, a multiple of 64. It writes version 1,
// or 2 where the header is too long for that.
func WriteHeader(w io.Writer, d layout.DType, shape []int64) (int64, error) {
	return writeHeader(w, d, shape, 0)
}

// WriteGrowingHeader is WriteHeader for an array whose first axis is not yet
// known: the number of bytes is the same for every extent of it, so that the
// header can be written again over itself.
func WriteGrowingHeader(w io.Writer, d layout.DType, shape []int64) (int64, error) {
	const digits = 19 // of the largest int64
	return writeHeader(w, d, shape, digits-len(strconv.FormatInt(shape[0], 10)))
}

func writeHeader(w io.Writer, d layout.DType, shape []int64, spare int) (int64, error) {
	text, ok := descr[d]
	if !ok {
		panic("npy: WriteHeader of " + d.String())
	}
	if len(shape) > MaxDims {
		return 0, failed("%d axes; at most %d are written", len(shape), MaxDims)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "{'descr': '%s', 'fortran_order': False, 'shape': (", text)
	for i, n := range shape {
		if n < 0 {
			return 0, failed("negative extent %d of axis %d", n, i)
		}
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(strconv.FormatInt(n, 10))
	}
	if len(shape) == 1 {
		b.WriteByte(',')
	}
	b.WriteString("), }")
	b.WriteString(strings.Repeat(" ", spare))
	start := 10
	head := []byte(magic + "\x01\x00\x00\x00")
	padded := (start + b.Len() + 1 + alignment - 1) / alignment * alignment
	if padded-start > math.MaxUint16 {
		start = 12
		head = []byte(magic + "\x02\x00\x00\x00\x00\x00")
		padded = (start + b.Len() + 1 + alignment - 1) / alignment * alignment
		binary.LittleEndian.PutUint32(head[8:], uint32(padded-start))
	} else {
		binary.LittleEndian.PutUint16(head[8:], uint16(padded-start))
	}
	out := make([]byte, 0, padded)
	out = append(out, head...)
	out = append(out, b.String()...)
	for len(out) < padded-1 {
		out = append(out, ' ')
	}
	out = append(out, '\n')
	n, err := w.Write(out)
	return int64(n), err
}
