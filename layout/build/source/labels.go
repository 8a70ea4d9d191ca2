package source

// Conversions that give labels and splits their one form: int64 labels with -1
// for none, int64 ids, or bool masks.

import (
	"context"
	"encoding/binary"
	"math"

	"github.com/goagnes/goagnes/layout"
	"github.com/goagnes/goagnes/layout/build/element"
)

// int64Rows converts each element of a 1-D array.
type int64Rows struct {
	Rows
	convert func(out []byte, in []byte, first int64) error
}

func (r *int64Rows) RowShape() []int64   { return nil }
func (r *int64Rows) DType() layout.DType { return layout.Int64 }

func (r *int64Rows) Scan(ctx context.Context, f func(first int64, rows []byte) error) error {
	size := r.Rows.DType().Size()
	out := make([]byte, 0, ChunkBytes)
	return r.Rows.Scan(ctx, func(first int64, rows []byte) error {
		// Narrow elements widen past a chunk: hand them on in parts.
		for len(rows) > 0 {
			if err := ctx.Err(); err != nil {
				return err
			}
			n := min(len(rows)/size, ChunkBytes/8)
			if err := r.convert(out[:8*n], rows[:size*n], first); err != nil {
				return err
			}
			if err := f(first, out[:8*n]); err != nil {
				return err
			}
			first += int64(n)
			rows = rows[size*n:]
		}
		return nil
	})
}

// OneElement reports whether a row is one element.
func OneElement(shape []int64) bool {
	for _, n := range shape {
		if n != 1 {
			return false
		}
	}
	return true
}

// Labels returns r as labels: int64 of shape (N,), -1 where a node has none.
// Shapes (N,) and (N, 1) are read, of bool, integers, float32 and float64. A NaN
// is no label; other fractions and integers below -1 are errors naming the node.
// The note, if not "", says what was changed.
func Labels(r Rows) (labels Rows, note string, err error) {
	if !OneElement(r.RowShape()) {
		return nil, "", Errorf(r.Name(), "shape %s; labels have shape (N,), one class number a node",
			ShapeString(append([]int64{r.Len()}, r.RowShape()...)))
	}
	name := r.Name()
	d := r.DType()
	switch d {
	case layout.Float16, layout.BFloat16:
		return nil, "", Errorf(name, "labels of type %s; convert them to integers", d)
	case layout.Float32, layout.Float64:
		note = name + ": labels are of type " + d.String() + "; NaN is read as no label"
	}
	return &int64Rows{r, func(out, in []byte, first int64) error {
		for i := range len(out) / 8 {
			v, ok := LabelAt(in, i, d)
			if !ok || v < -1 {
				return ErrorAt(name, first+int64(i), "label %s; labels are the integers from 0, or -1 for none", element.Text(in, i, d))
			}
			binary.LittleEndian.PutUint64(out[8*i:], uint64(v))
		}
		return nil
	}}, note, nil
}

// LabelAt reads element i as a label; ok is false where it is no integer.
func LabelAt(b []byte, i int, d layout.DType) (v int64, ok bool) {
	var x float64
	switch d {
	case layout.Float32:
		x = float64(math.Float32frombits(binary.LittleEndian.Uint32(b[4*i:])))
	case layout.Float64:
		x = math.Float64frombits(binary.LittleEndian.Uint64(b[8*i:]))
	default:
		return element.Integer(b, i, d)
	}
	if math.IsNaN(x) {
		return -1, true
	}
	if x != math.Trunc(x) || math.Abs(x) > 1<<53 {
		return 0, false
	}
	return int64(x), true
}

// SplitRows returns r as a split of numNodes nodes (-1: unknown): a bool mask of
// length numNodes stays one, and integers are ids and become int64. Negative ids
// are errors naming the position, as are ids past numNodes where it is known.
func SplitRows(r Rows, numNodes int64) (Rows, error) {
	name := r.Name()
	if len(r.RowShape()) != 0 {
		return nil, Errorf(name, "shape %s; a split is one axis of ids, or a bool mask",
			ShapeString(append([]int64{r.Len()}, r.RowShape()...)))
	}
	d := r.DType()
	switch d {
	case layout.Bool:
		if numNodes >= 0 && r.Len() != numNodes {
			return nil, Errorf(name, "a mask of length %d for %d nodes", r.Len(), numNodes)
		}
		return r, nil
	case layout.Float16, layout.BFloat16, layout.Float32, layout.Float64:
		return nil, Errorf(name, "ids of type %s; a split is integer ids, or a bool mask", d)
	}
	return &int64Rows{r, func(out, in []byte, first int64) error {
		for i := range len(out) / 8 {
			v, ok := element.Integer(in, i, d)
			switch {
			case !ok:
				return ErrorAt(name, first+int64(i), "id %s is too large; ids are below 2^63", element.Text(in, i, d))
			case v < 0:
				return ErrorAt(name, first+int64(i), "negative id %d; ids are 0 or more", v)
			case numNodes >= 0 && v >= numNodes:
				return ErrorAt(name, first+int64(i), "id %d, and there are %d nodes", v, numNodes)
			}
			binary.LittleEndian.PutUint64(out[8*i:], uint64(v))
		}
		return nil
	}}, nil
}
