package source

// What readers check of ids and shapes before they read them.

import (
	"fmt"

	"github.com/goagnes/goagnes/layout"
)

// RowsPerChunk is the number of whole rows of rowBytes > 0 in one chunk.
func RowsPerChunk(rowBytes int64) int64 { return max(1, ChunkBytes/rowBytes) }

// CheckIDType refuses element types that cannot be ids.
func CheckIDType(name string, d layout.DType) error {
	if d >= layout.Int8 && d <= layout.Uint64 {
		return nil
	}
	return Errorf(name, "ids of type %s; ids are integers, best int32, uint32, int64 or uint64", d)
}

// ShapeString words a shape as Python does.
func ShapeString(shape []int64) string {
	s := "("
	for i, n := range shape {
		if i > 0 {
			s += ", "
		}
		s += fmt.Sprint(n)
	}
	if len(shape) == 1 {
		s += ","
	}
	return s + ")"
}

// BadID says why the value at index is no id.
func BadID(name string, index, v int64, d layout.DType) error {
	if d == layout.Uint64 {
		return ErrorAt(name, index, "id %d is too large; ids are below 2^63", uint64(v))
	}
	return ErrorAt(name, index, "negative id %d; ids are 0 or more", v)
}
