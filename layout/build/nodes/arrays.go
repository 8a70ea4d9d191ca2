package nodes

// What becomes of the node arrays: features, labels, others.

import (
	"encoding/binary"
	"fmt"
	"math"
	"regexp"

	"github.com/goagnes/goagnes/layout"
	"github.com/goagnes/goagnes/layout/build/element"
	"github.com/goagnes/goagnes/layout/build/fault"
	"github.com/goagnes/goagnes/layout/build/source"
)

var goodName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$`)

// CheckName refuses what is no name of an array or a split.
func CheckName(name string) error {
	if !goodName.MatchString(name) {
		return fault.Usage("%q: a name has up to 64 letters, digits, '_' and '-', and begins with a letter or digit", name)
	}
	return nil
}

// job decides how an array is stored.
func (b *Writer) job(name string, rows source.Rows) (*rowJob, error) {
	section := layout.NodePrefix + name
	switch section {
	case layout.SectionX:
		return b.featureJob(rows)
	case layout.SectionY:
		return b.labelJob(rows)
	case layout.SectionDegree, layout.SectionOriginal, layout.SectionInternal:
		return nil, fault.Usage("array name %q is taken: the store keeps a table of its own under it", name)
	}
	if !goodName.MatchString(name) {
		return nil, fault.Usage("array name %q: a name has up to 64 letters, digits, '_' and '-', and begins with a letter or digit", name)
	}
	return b.plainJob(section, rows)
}

func (b *Writer) plainJob(section string, rows source.Rows) (*rowJob, error) {
	j := &rowJob{section: section, rows: rows, dtype: rows.DType(), shape: rows.RowShape(), stride: RowBytes(rows),
		convert: func(_ int64, in, _ []byte) ([]byte, error) { return in, nil }}
	if j.stride > layout.MaxRowBytes {
		return nil, fault.Unsupported("%s: rows of %d bytes; a store holds rows of at most %d", rows.Name(), j.stride, layout.MaxRowBytes)
	}
	return j, nil
}

// featureJob keeps float32 and float16, and converts where asked to.
func (b *Writer) featureJob(rows source.Rows) (*rowJob, error) {
	width := int64(1) // features of a node, whatever their shape
	for _, n := range rows.RowShape() {
		width *= n
	}
	if width == 0 {
		return nil, source.ErrorAt(rows.Name(), -1, "rows of no features; leave x out")
	}
	from, to := rows.DType(), b.featureDType
	if to == 0 {
		if to = from; to != layout.Float32 && to != layout.Float16 {
			return nil, fault.Unsupported("%s: features of type %s; set feature_dtype to float32 or float16 to convert them", rows.Name(), from)
		}
	}
	j, err := b.plainJob(layout.SectionX, rows)
	if err != nil {
		return nil, err
	}
	if from == to {
		j.convert = func(first int64, in, _ []byte) ([]byte, error) {
			b.odd.count(first, in, j.stride, to)
			return in, nil
		}
		return j, nil
	}
	j.dtype, j.stride = to, width*int64(to.Size())
	if j.stride > layout.MaxRowBytes {
		return nil, fault.Unsupported("%s: rows of %d bytes; a store holds rows of at most %d", rows.Name(), j.stride, layout.MaxRowBytes)
	}
	j.convert = func(first int64, in, buf []byte) ([]byte, error) {
		if first == 0 {
			b.infinite = 0
		}
		out := element.ConvertFloats(buf, in, from, to, &b.infinite)
		b.odd.count(first, out, j.stride, to)
		return out, nil
	}
	return j, nil
}

// labelJob keeps integers as they are, turns other numbers into int64, and finds
// the number of classes. A negative label says that a node has none.
func (b *Writer) labelJob(rows source.Rows) (*rowJob, error) {
	var notes []string
	switch shape := rows.RowShape(); {
	case len(shape) == 1 && shape[0] == 1:
		notes = append(notes, "y has shape (nodes, 1) and is kept as (nodes,)")
	case len(shape) != 0:
		return nil, fault.Unsupported("%s: labels with rows of shape %v; a node has one class label", rows.Name(), shape)
	}
	j, err := b.plainJob(layout.SectionY, rows)
	if err != nil {
		return nil, err
	}
	j.shape, j.notes = nil, notes
	d := rows.DType()
	size := int64(d.Size())
	seen := func(i, label int64) error {
		if label >= layout.MaxNodes {
			return source.ErrorAt(rows.Name(), i, "label %d; class labels are below %d", label, int64(layout.MaxNodes))
		}
		b.classes = max(b.classes, label+1)
		return nil
	}
	switch d {
	case layout.Float32, layout.Float64, layout.Float16, layout.BFloat16:
		j.dtype, j.stride = layout.Int64, 8
		j.convert = func(first int64, in, buf []byte) ([]byte, error) {
			if first == 0 {
				b.unlabelled = 0
			}
			n := int64(len(in)) / size
			for i := range n {
				v := element.Number(in, int(i), d)
				label := int64(-1)
				switch {
				case math.IsNaN(v):
					b.unlabelled++
				case v != math.Trunc(v) || math.Abs(v) > 1<<53:
					return nil, source.ErrorAt(rows.Name(), first+i, "label %v; class labels are whole numbers", v)
				default:
					label = int64(v)
				}
				if err := seen(first+i, label); err != nil {
					return nil, err
				}
				binary.LittleEndian.PutUint64(buf[8*i:], uint64(label))
			}
			return buf[:8*n], nil
		}
		j.notes = append(j.notes, fmt.Sprintf("labels of type %s are kept as int64", d))
	default:
		if d == layout.Bool {
			j.dtype = layout.Uint8
			j.notes = append(j.notes, "labels of type bool are kept as uint8")
		}
		j.convert = func(first int64, in, _ []byte) ([]byte, error) {
			for i := range int64(len(in)) / size {
				v, _ := element.Integer(in, int(i), d)
				if v < 0 && d == layout.Uint64 {
					return nil, source.ErrorAt(rows.Name(), first+i, "label %d; class labels are below %d", uint64(v), int64(layout.MaxNodes))
				}
				if err := seen(first+i, v); err != nil {
					return nil, err
				}
			}
			return in, nil
		}
	}
	return j, nil
}
