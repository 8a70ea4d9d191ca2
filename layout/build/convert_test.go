package build

import (
	"slices"
	"testing"

	"github.com/goagnes/goagnes/layout"
	"github.com/goagnes/goagnes/layout/build/order"
	"github.com/goagnes/goagnes/layout/build/verify"
	"github.com/goagnes/goagnes/layout/build/workspace"
)

func TestFeatureTypes(t *testing.T) {
	values := []float64{0, 1, 2, 100, 7, 3}
	for _, c := range []struct {
		from, to layout.DType
		data     []byte
		want     []byte
	}{
		{layout.Float64, layout.Float32, words(values), words([]float32{0, 1, 2, 100, 7, 3})},
		{layout.Float32, layout.Float16, words([]float32{0, 1, 2, 100, 7, 3}), words([]uint16{0, 0x3c00, 0x4000, 0x5640, 0x4700, 0x4200})},
		{layout.Float64, layout.Float16, words(values), words([]uint16{0, 0x3c00, 0x4000, 0x5640, 0x4700, 0x4200})},
		{layout.Float16, layout.Float32, words([]uint16{0, 0x3c00, 0x4000, 0x5640, 0x4700, 0x4200}), words([]float32{0, 1, 2, 100, 7, 3})},
		{layout.BFloat16, layout.Float32, words([]uint16{0, 0x3f80, 0x4000, 0x42c8, 0x40e0, 0x4040}), words([]float32{0, 1, 2, 100, 7, 3})},
		{layout.Int8, layout.Float32, words([]int8{0, 1, 2, 100, 7, -3}), words([]float32{0, 1, 2, 100, 7, -3})},
		{layout.Bool, layout.Float16, []byte{0, 1, 1, 0, 0, 1}, words([]uint16{0, 0x3c00, 0x3c00, 0, 0, 0x3c00})},
		{layout.Uint64, layout.Float32, words([]uint64{0, 1 << 63, 2, 3, 4, 5}), words([]float32{0, 1 << 63, 2, 3, 4, 5})},
		{layout.Float32, 0, words([]float32{1, 2, 3, 4, 5, 6}), words([]float32{1, 2, 3, 4, 5, 6})},
		{layout.Float16, 0, words([]uint16{1, 2, 3, 4, 5, 6}), words([]uint16{1, 2, 3, 4, 5, 6})},
	} {
		t.Run(c.from.String()+" to "+c.to.String(), func(t *testing.T) {
			g := &graph{n: 3, src: []int64{0, 1}, dst: []int64{1, 2}}
			o := g.options()
			o.Order, o.FeatureDType = layout.OrderOriginal, c.to
			o.Arrays["x"] = rowsOf("x", c.from, c.data, 3, 2)
			path, r := buildIn(t, o, workspace.Tuning{})
			s := readStore(t, path)
			if string(s.files[layout.SectionX]) != string(c.want) {
				t.Errorf("x is % x, expected % x", s.files[layout.SectionX], c.want)
			}
			if want := max(c.to, 0); want != 0 && s.m.Section(layout.SectionX).Type() != want || r.NumFeatures != 2 {
				t.Errorf("type %s, %d features", s.m.Section(layout.SectionX).DType, r.NumFeatures)
			}
		})
	}
}

// TestFeatureShapes keeps the shape of a node's features, converted or not.
func TestFeatureShapes(t *testing.T) {
	for _, shape := range [][]int64{{}, {2}, {2, 3}, {1, 1, 2}} {
		for _, to := range []layout.DType{0, layout.Float16} {
			width := int64(1)
			for _, n := range shape {
				width *= n
			}
			values := make([]float32, 3*width)
			for i := range values {
				values[i] = float32(i)
			}
			g := &graph{n: 3, src: []int64{0, 1, 1}, dst: []int64{1, 2, 0}}
			o := g.options()
			o.Order, o.FeatureDType = order.Degree, to
			o.Arrays["x"] = rowsOf("x", layout.Float32, words(values), append([]int64{3}, shape...)...)
			path, r := buildIn(t, o, workspace.Tuning{})
			x := readStore(t, path).m.Section(layout.SectionX)
			if !slices.Equal(x.RowShape, shape) || r.NumFeatures != width || x.Rows != 3 {
				t.Errorf("rows of shape %v as %v: %d rows of shape %v, %d features", shape, to, x.Rows, x.RowShape, r.NumFeatures)
			}
			if report, err := verify.Store(t.Context(), path, verify.Options{}); err != nil || !report.OK() {
				t.Errorf("rows of shape %v: %v, %v", shape, report, err)
			}
		}
	}
}
