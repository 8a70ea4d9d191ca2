package layout

import "fmt"

// DType is the element type of an array section. The numbers are part of the
// format: they are never reused and 0 is reserved.
type DType uint8

// The element types. All multi-byte values are little-endian.
const (
	Float32  DType = 1
	Float16  DType = 2
	BFloat16 DType = 3
	Float64  DType = 4
	Int8     DType = 5
	Int16    DType = 6
	Int32    DType = 7
	Int64    DType = 8
	Uint8    DType = 9
	Uint16   DType = 10
	Uint32   DType = 11
	Uint64   DType = 12
	Bool     DType = 13
)

var dtypes = [...]struct {
	name string
	size int
}{
	Float32: {"float32", 4}, Float16: {"float16", 2}, BFloat16: {"bfloat16", 2}, Float64: {"float64", 8},
	Int8: {"int8", 1}, Int16: {"int16", 2}, Int32: {"int32", 4}, Int64: {"int64", 8},
	Uint8: {"uint8", 1}, Uint16: {"uint16", 2}, Uint32: {"uint32", 4}, Uint64: {"uint64", 8},
	Bool: {"bool", 1},
}

// Valid reports whether d is one of the defined element types.
func (d DType) Valid() bool { return d > 0 && int(d) < len(dtypes) }

// String returns numpy's name of the type, such as "float32".
func (d DType) String() string {
	if !d.Valid() {
		return fmt.Sprintf("dtype(%d)", uint8(d))
	}
	return dtypes[d].name
}

// Size returns the bytes of one element, 0 for an undefined type.
func (d DType) Size() int {
	if !d.Valid() {
		return 0
	}
	return dtypes[d].size
}

// ParseDType returns the type that numpy calls name.
func ParseDType(name string) (DType, error) {
	for i, t := range dtypes {
		if t.name == name && i > 0 {
			return DType(i), nil
		}
	}
	return 0, fmt.Errorf("layout: unknown dtype %q", name)
}
