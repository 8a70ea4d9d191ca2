package element

// Decoding of element bytes: ids of every integer type in both byte orders, and the
// byte order of rows.

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/bits"

	"github.com/goagnes/goagnes/layout"
)

// IDs fills out with elements of type d, the first at byte at of data, each
// stride bytes after the one before. It returns the index of the first value that
// is no id (left in out: negative, or a uint64 past 2^63-1 seen as negative), or -1.
func IDs(out []int64, data []byte, at, stride int64, d layout.DType, big bool) int {
	var sign int64
	switch {
	case d == layout.Int64 || d == layout.Uint64:
		if stride == 8 && !big {
			b := data[at : at+8*int64(len(out))]
			for i := range out {
				v := int64(binary.LittleEndian.Uint64(b[8*i:]))
				out[i] = v
				sign |= v
			}
			break
		}
		for i := range out {
			v := binary.LittleEndian.Uint64(data[at:])
			if big {
				v = bits.ReverseBytes64(v)
			}
			out[i] = int64(v)
			sign |= int64(v)
			at += stride
		}
	case d == layout.Int32 || d == layout.Uint32:
		signed := d == layout.Int32
		for i := range out {
			w := binary.LittleEndian.Uint32(data[at:])
			if big {
				w = bits.ReverseBytes32(w)
			}
			v := int64(w)
			if signed {
				v = int64(int32(w))
			}
			out[i] = v
			sign |= v
			at += stride
		}
	default: // narrow integers
		size := int64(d.Size())
		var w [2]byte
		for i := range out {
			copy(w[:], data[at:at+size])
			if big && size == 2 {
				w[0], w[1] = w[1], w[0]
			}
			v, _ := Integer(w[:], 0, d)
			out[i] = v
			sign |= v
			at += stride
		}
	}
	if sign >= 0 {
		return -1
	}
	for i, v := range out {
		if v < 0 {
			return i
		}
	}
	panic("element: sign bit without a negative value")
}

// SwapBytes reverses the bytes of every element of size bytes.
func SwapBytes(b []byte, size int) {
	switch size {
	case 1:
	case 2:
		for ; len(b) >= 2; b = b[2:] {
			b[0], b[1] = b[1], b[0]
		}
	case 4:
		for ; len(b) >= 4; b = b[4:] {
			binary.LittleEndian.PutUint32(b, binary.BigEndian.Uint32(b))
		}
	case 8:
		for ; len(b) >= 8; b = b[8:] {
			binary.LittleEndian.PutUint64(b, binary.BigEndian.Uint64(b))
		}
	default:
		panic("element: element size")
	}
}

// Text words element i of b for a message.
func Text(b []byte, i int, d layout.DType) string {
	switch d {
	case layout.Float32:
		return fmt.Sprint(math.Float32frombits(binary.LittleEndian.Uint32(b[4*i:])))
	case layout.Float64:
		return fmt.Sprint(math.Float64frombits(binary.LittleEndian.Uint64(b[8*i:])))
	case layout.Uint64:
		return fmt.Sprint(binary.LittleEndian.Uint64(b[8*i:]))
	}
	v, _ := Integer(b, i, d)
	return fmt.Sprint(v)
}

// Integer reads element i of b, of an integer type or bool; ok is false for a uint64
// past 2^63-1, which comes out negative.
func Integer(b []byte, i int, d layout.DType) (v int64, ok bool) {
	switch d {
	case layout.Bool:
		if b[i] != 0 {
			return 1, true
		}
		return 0, true
	case layout.Uint8:
		return int64(b[i]), true
	case layout.Int8:
		return int64(int8(b[i])), true
	case layout.Int16:
		return int64(int16(binary.LittleEndian.Uint16(b[2*i:]))), true
	case layout.Uint16:
		return int64(binary.LittleEndian.Uint16(b[2*i:])), true
	case layout.Int32:
		return int64(int32(binary.LittleEndian.Uint32(b[4*i:]))), true
	case layout.Uint32:
		return int64(binary.LittleEndian.Uint32(b[4*i:])), true
	case layout.Int64:
		return int64(binary.LittleEndian.Uint64(b[8*i:])), true
	case layout.Uint64:
		u := binary.LittleEndian.Uint64(b[8*i:])
		return int64(u), u <= math.MaxInt64
	}
	panic("element: no integer type: " + d.String())
}
