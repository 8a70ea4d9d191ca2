package build

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/goagnes/goagnes/layout"
	"github.com/goagnes/goagnes/layout/build/order"
	"github.com/goagnes/goagnes/layout/build/source"
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

// TestOddFeatures: features that are NaN or infinite are kept as they are, and told.
func TestOddFeatures(t *testing.T) {
	const n, width = 3000, 4
	nan, inf := math.NaN(), math.Inf(1)
	odd := map[int]float64{5*width + 1: nan, 5*width + 2: inf, 77 * width: -inf, n*width - 1: nan, n*width - 2: nan}
	values := func(extra map[int]float64) []float64 {
		v := make([]float64, n*width)
		for i := range v {
			v[i] = float64(i % 100)
		}
		for i, x := range odd {
			v[i] = x
		}
		for i, x := range extra {
			v[i] = x
		}
		return v
	}
	single := func(v []float64) []byte {
		out := make([]float32, len(v))
		for i, x := range v {
			out[i] = float32(x)
		}
		return words(out)
	}
	src, dst := []int64{0, 1, 2}, []int64{1, 2, n - 1}
	for _, c := range []struct {
		name          string
		x             source.Rows
		to            layout.DType
		nan, infinite int64
		note          string
	}{
		{"float32", rowsOf("x", layout.Float32, single(values(nil)), n, width), 0, 3, 2, "3 values that are NaN and 2 that are infinite, the first in row 5"},
		{"float64 to float32", rowsOf("x", layout.Float64, words(values(map[int]float64{9: 1e300})), n, width), layout.Float32, 3, 3, "3 values that are NaN and 3 that are infinite, the first in row 2"},
		{"float32 to float16", rowsOf("x", layout.Float32, single(values(map[int]float64{9: 1e5})), n, width), layout.Float16, 3, 3, "3 values that are NaN and 3 that are infinite, the first in row 2"},
		{"none", rowsOf("x", layout.Float32, make([]byte, 4*n*width), n, width), 0, 0, 0, ""},
	} {
		for tname, tune := range map[string]workspace.Tuning{"in order": {}, "in several passes": {OnScratch: true, AreaBytes: 500_000}} {
			o := Options{Edges: edgesOf(src, dst), Arrays: map[string]source.Rows{"x": c.x}, FeatureDType: c.to, Order: order.Degree}
			path, r := buildIn(t, o, tune)
			if r.FeaturesNaN != c.nan || r.FeaturesInfinite != c.infinite {
				t.Errorf("%s, %s: %d NaN, %d infinite", c.name, tname, r.FeaturesNaN, r.FeaturesInfinite)
			}
			notes := strings.Join(r.Notes, "\n")
			if told := strings.Contains(notes, "infinite, the first in row"); told != (c.note != "") || !strings.Contains(notes, c.note) {
				t.Errorf("%s, %s: notes %q", c.name, tname, notes)
			}
			whole(t, path)
		}
	}
}
