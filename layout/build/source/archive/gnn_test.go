package archive_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/goagnes/goagnes/layout"
	"github.com/goagnes/goagnes/layout/build/source"
	"github.com/goagnes/goagnes/layout/build/source/formats"
	"github.com/goagnes/goagnes/layout/build/source/sourcetest"
)

// gnnArchive has four nodes, edges 0→1 1→0 2→2 3→1 3→1, sparse attributes.
func gnnArchive() map[string][]byte {
	return map[string][]byte{
		"adj_indptr": sourcetest.Ints([]int64{5}, 0, 1, 2, 3, 5), "adj_indices": sourcetest.Ints([]int64{5}, 1, 0, 2, 1, 1),
		"adj_data": sourcetest.Floats([]int64{5}, 1, 1, 1, 1, 1), "adj_shape": sourcetest.Ints([]int64{2}, 4, 4),
		"attr_indptr": sourcetest.Ints([]int64{5}, 0, 1, 1, 3, 4), "attr_indices": sourcetest.Ints([]int64{4}, 2, 0, 1, 1),
		"attr_data": sourcetest.Floats([]int64{4}, 5, 6, 7, 8), "attr_shape": sourcetest.Ints([]int64{2}, 4, 3),
		"labels": sourcetest.Ints([]int64{4}, 0, 1, 1, 0), "idx_to_node": sourcetest.Ints([]int64{1}, 0),
	}
}

func TestGNN(t *testing.T) {
	path := sourcetest.Archive(t, 8, gnnArchive())
	d, err := formats.Open(context.Background(), path, "auto", source.Options{})
	if err != nil {
		t.Fatal(err)
	}
	var src, dst []int64
	err = d.Edges.Scan(context.Background(), func(s, t []int64) error {
		src, dst = append(src, s...), append(dst, t...)
		return nil
	})
	if err != nil || !slices.Equal(src, []int64{0, 1, 1, 3}) || !slices.Equal(dst, []int64{1, 0, 3, 1}) {
		t.Errorf("edges %v %v (%v)", src, dst, err)
	}
	if x := d.Arrays["x"]; d.Format != "gnn" || d.NumNodes != 4 || x.Len() != 4 || !slices.Equal(x.RowShape(), []int64{3}) || x.DType() != layout.Float32 || d.Arrays["y"] == nil {
		t.Errorf("%+v", d)
	}
	if err := sourcetest.Drain(d); err != nil {
		t.Error(err)
	}
	if notes := strings.Join(d.Notes, "\n"); !strings.Contains(notes, "self-loops") || !strings.Contains(notes, "idx_to_node is not read") {
		t.Error(notes)
	}
}

// Dense attributes take the place of a sparse matrix; both forms give equal rows.
func TestGNNDense(t *testing.T) {
	rows := func(a map[string][]byte) (all []byte) {
		d, err := formats.Open(context.Background(), sourcetest.Archive(t, 8, a), "gnn", source.Options{})
		if err != nil {
			t.Fatal(err)
		}
		x := d.Arrays["x"]
		if x.Len() != 4 || !slices.Equal(x.RowShape(), []int64{3}) || x.DType() != layout.Float32 {
			t.Errorf("x: %d rows of %v, %v", x.Len(), x.RowShape(), x.DType())
		}
		err = x.Scan(context.Background(), func(_ int64, rows []byte) error {
			all = append(all, rows...)
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		return all
	}
	dense := gnnArchive()
	for name := range dense {
		if strings.HasPrefix(name, "attr_") {
			delete(dense, name)
		}
	}
	dense["attr_matrix"] = sourcetest.Floats([]int64{4, 3}, 0, 0, 5, 0, 0, 0, 6, 7, 0, 0, 8, 0)
	if a, b := rows(dense), rows(gnnArchive()); len(a) != 4*3*4 || !slices.Equal(a, b) {
		t.Errorf("dense %v, sparse %v", a, b)
	}
	dense["attr_matrix"] = sourcetest.Floats([]int64{3, 3}, 0, 0, 5, 0, 0, 0, 6, 7, 0)
	_, err := formats.Open(context.Background(), sourcetest.Archive(t, 0, dense), "gnn", source.Options{})
	if err == nil || sourcetest.Class(err) != "input" || !strings.Contains(err.Error(), "3 rows for 4 nodes") {
		t.Errorf("rows are missing: %v", err)
	}
}

func TestGNNRefused(t *testing.T) {
	for name, change := range map[string]func(map[string][]byte){
		"adj_data is missing": func(a map[string][]byte) { delete(a, "adj_data") },
		"square":              func(a map[string][]byte) { a["adj_shape"] = sourcetest.Ints([]int64{2}, 4, 5) },
		"rows + 1":            func(a map[string][]byte) { a["adj_indptr"] = sourcetest.Ints([]int64{4}, 0, 1, 2, 5) },
		"4 rows and columns":  func(a map[string][]byte) { a["adj_indices"] = sourcetest.Ints([]int64{5}, 1, 0, 2, 1, 4) },
		"column 7":            func(a map[string][]byte) { a["attr_indices"] = sourcetest.Ints([]int64{4}, 7, 0, 1, 1) },
		"3 rows for 4 nodes":  func(a map[string][]byte) { a["labels"] = sourcetest.Ints([]int64{3}, 0, 1, 1) },
	} {
		a := gnnArchive()
		change(a)
		d, err := formats.Open(context.Background(), sourcetest.Archive(t, 0, a), "gnn", source.Options{})
		if err == nil {
			err = sourcetest.Drain(d)
		}
		if err == nil || sourcetest.Class(err) != "input" || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
