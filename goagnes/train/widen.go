package train

// Features of types that kernels don't read: widened to float32, a minibatch at
// a time.

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/goagnes/goagnes/layout"
)

// direct reports whether kernels read the type as it is.
func direct(d layout.DType) bool { return d == layout.Float32 || d == layout.Float16 }

// widen sets dst to the features of b, row after row without gaps, rounded to
// the nearest float32.
func widen(dst []float32, b *Batch) error {
	element, err := elementReader(b.XDType)
	if err != nil {
		return err
	}
	size := b.XDType.Size()
	for r := 0; len(dst) > 0; r++ {
		row := b.X[r*b.RowBytes:]
		for c := range dst[:b.Dim] {
			dst[c] = element(row[c*size:])
		}
		dst = dst[b.Dim:]
	}
	return nil
}

// elementReader returns the function that reads one little-endian element.
func elementReader(d layout.DType) (func([]byte) float32, error) {
	le := binary.LittleEndian
	switch d {
	case layout.BFloat16:
		return func(p []byte) float32 { return math.Float32frombits(uint32(le.Uint16(p)) << 16) }, nil
	case layout.Float64:
		return func(p []byte) float32 { return float32(math.Float64frombits(le.Uint64(p))) }, nil
	case layout.Int8:
		return func(p []byte) float32 { return float32(int8(p[0])) }, nil
	case layout.Int16:
		return func(p []byte) float32 { return float32(int16(le.Uint16(p))) }, nil
	case layout.Int32:
		return func(p []byte) float32 { return float32(int32(le.Uint32(p))) }, nil
	case layout.Int64:
		return func(p []byte) float32 { return float32(int64(le.Uint64(p))) }, nil
	case layout.Uint8:
		return func(p []byte) float32 { return float32(p[0]) }, nil
	case layout.Uint16:
		return func(p []byte) float32 { return float32(le.Uint16(p)) }, nil
	case layout.Uint32:
		return func(p []byte) float32 { return float32(le.Uint32(p)) }, nil
	case layout.Uint64:
		return func(p []byte) float32 { return float32(le.Uint64(p)) }, nil
	case layout.Bool:
		return func(p []byte) float32 {
			if p[0] != 0 {
				return 1
			}
			return 0
		}, nil
	}
	return nil, &UnsupportedError{fmt.Sprintf("features of type %v are not read; build the store with feature_dtype float32", d)}
}
