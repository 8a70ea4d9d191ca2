package source_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/goagnes/goagnes/layout"
	"github.com/goagnes/goagnes/layout/build/source"
	"github.com/goagnes/goagnes/layout/build/source/array"
	"github.com/goagnes/goagnes/layout/build/source/sourcetest"
)

func TestLabels(t *testing.T) {
	for d := layout.Int8; d <= layout.Uint64; d++ {
		y, note, err := source.Labels(sourcetest.IntRows(t, d, []int64{3, 1}, 5, 0, 7))
		if err != nil || note != "" {
			t.Fatalf("%s: %v, %q", d, err, note)
		}
		if got := sourcetest.AllInts(t, y); !slices.Equal(got, []int64{5, 0, 7}) {
			t.Errorf("%s: got %v", d, got)
		}
	}
	nan := []byte{0, 0, 0xc0, 0x7f, 0, 0, 0x80, 0x3f}
	r, err := array.RowsFromMemory(array.Array{Name: "y", Data: nan, DType: layout.Float32, Shape: []int64{2}})
	if err != nil {
		t.Fatal(err)
	}
	y, note, err := source.Labels(r)
	if err != nil || !strings.Contains(note, "NaN") {
		t.Fatalf("%v, %q", err, note)
	}
	if got := sourcetest.AllInts(t, y); !slices.Equal(got, []int64{-1, 1}) {
		t.Errorf("got %v", got)
	}
	// More labels than a chunk of int64 holds.
	many := make([]int64, 300000)
	for i := range many {
		many[i] = int64(i % 100)
	}
	y, _, err = source.Labels(sourcetest.IntRows(t, layout.Uint8, []int64{int64(len(many))}, many...))
	if err != nil || !slices.Equal(sourcetest.AllInts(t, y), many) {
		t.Errorf("many labels: %v", err)
	}
	bad := []byte{0, 0, 0, 0, 0, 0, 0x20, 0x40}
	half, err := array.RowsFromMemory(array.Array{Name: "y", Data: bad, DType: layout.Float32, Shape: []int64{2}})
	if err != nil {
		t.Fatal(err)
	}
	for name, r := range map[string]source.Rows{"label 2.5": half, "label -2": sourcetest.IntRows(t, layout.Int64, []int64{2}, 0, -2),
		"label 18446744073709551615": sourcetest.IntRows(t, layout.Uint64, []int64{2}, 0, -1)} {
		y, _, err := source.Labels(r)
		if err != nil {
			t.Fatal(err)
		}
		err = y.Scan(context.Background(), func(int64, []byte) error { return nil })
		var e *source.Error
		if !errors.As(err, &e) || e.Index != 1 || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: got %v", name, err)
		}
	}
	if _, _, err := source.Labels(sourcetest.IntRows(t, layout.Int64, []int64{2, 2}, 0, 1, 2, 3)); err == nil {
		t.Error("labels of two columns were taken")
	}
}

func TestSplitRows(t *testing.T) {
	s, err := source.SplitRows(sourcetest.IntRows(t, layout.Int32, []int64{3}, 5, 0, 7), 8)
	if err != nil || !slices.Equal(sourcetest.AllInts(t, s), []int64{5, 0, 7}) {
		t.Errorf("ids: %v", err)
	}
	if s, err := source.SplitRows(sourcetest.IntRows(t, layout.Bool, []int64{3}, 1, 0, 1), 3); err != nil || s.DType() != layout.Bool {
		t.Errorf("mask: %v", err)
	}
	for want, r := range map[string]source.Rows{
		"mask of length 2": sourcetest.IntRows(t, layout.Bool, []int64{2}, 1, 0),
		"type float32":     sourcetest.IntRows(t, layout.Float32, []int64{1}, 1),
		"one axis":         sourcetest.IntRows(t, layout.Int64, []int64{1, 1}, 1),
	} {
		if _, err := source.SplitRows(r, 3); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v", want, err)
		}
	}
	for want, r := range map[string]source.Rows{
		"[2]: negative id -4":              sourcetest.IntRows(t, layout.Int16, []int64{3}, 0, 1, -4),
		"[1]: id 3, and there are 3 nodes": sourcetest.IntRows(t, layout.Int64, []int64{2}, 0, 3),
		"[0]: id 18446744073709551615":     sourcetest.IntRows(t, layout.Uint64, []int64{1}, -1),
	} {
		s, err := source.SplitRows(r, 3)
		if err != nil {
			t.Fatal(err)
		}
		err = s.Scan(context.Background(), func(int64, []byte) error { return nil })
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v", want, err)
		}
	}
}
