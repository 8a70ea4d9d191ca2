package archive_test

import (
	"archive/zip"
	"bytes"
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/goagnes/goagnes/layout"
	"github.com/goagnes/goagnes/layout/build/source"
	"github.com/goagnes/goagnes/layout/build/source/formats"
	"github.com/goagnes/goagnes/layout/build/source/sourcetest"
)

func TestArchive(t *testing.T) {
	for _, method := range []uint16{zip.Store, zip.Deflate} {
		files := sourcetest.Small()
		files["year"] = sourcetest.Ints([]int64{4}, 1, 2, 3, 4)
		d, err := formats.Open(context.Background(), sourcetest.Archive(t, method, files), "auto", source.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if d.NumNodes != 4 || d.Format != "npz" || len(d.Notes) != 1 || !strings.Contains(d.Notes[0], "member year is not read") {
			t.Errorf("%+v", d)
		}
		if e := sourcetest.AllEdges(t, d.Edges); !slices.Equal(e, []sourcetest.Pair{{0, 1}, {1, 2}, {2, 3}}) {
			t.Errorf("edges %v", e)
		}
		want := sourcetest.Grid{Shape: []int64{4, 3}, Values: []int64{0, 0, 5, 0, 0, 0, 6, 7, 0, 0, 8, 0}}.Bytes(layout.Float32, false, false)
		if !bytes.Equal(sourcetest.AllRows(t, d.Arrays["x"]), want) {
			t.Error("x differs")
		}
		if y := sourcetest.AllInts(t, d.Arrays["y"]); !slices.Equal(y, []int64{0, 1, -1, 1}) {
			t.Errorf("y %v", y)
		}
		if ids := sourcetest.AllInts(t, d.Splits["train"]); !slices.Equal(ids, []int64{0, 3}) || d.Splits["val"].DType() != layout.Bool {
			t.Errorf("train %v", ids)
		}
	}
}

func TestArchiveRefuses(t *testing.T) {
	for _, c := range []struct {
		name, member string
		content      []byte
		class, want  string
	}{
		{"no edges", "edge_index", nil, "input", "no member edge_index; it has"},
		{"edges of one axis", "edge_index", sourcetest.Ints([]int64{4}, 0, 1, 2, 3), "input", "shape (4,)"},
		{"float edges", "edge_index", sourcetest.Floats([]int64{2, 2}, 0, 1, 2, 3), "input", "ids of type float32"},
		{"negative edge", "edge_index", sourcetest.Ints([]int64{2, 2}, 0, 1, -2, 3), "input", "edge_index[0]: negative id -2"},
		{"edges that are no array", "edge_index", []byte("0 1\n1 2\n"), "input", "edge_index: no .npy file"},
		{"objects", "y", []byte("\x93NUMPY\x01\x00\x3b\x00{'descr': '|O', 'fortran_order': False, 'shape': (4,), }    \n"), "unsupported", `"|O"`},
		{"labels of other length", "y", sourcetest.Ints([]int64{3}, 0, 1, 1), "input", "3 rows for 4 nodes"},
		{"labels of two columns", "y", sourcetest.Ints([]int64{4, 2}, 0, 1, 1, 0, 1, 0, 1, 0), "input", "shape (4, 2)"},
		{"train id outside", "train_idx", sourcetest.Ints([]int64{1}, 4), "input", "id 4, and there are 4 nodes"},
		{"short mask", "val_mask", sourcetest.Grid{Shape: []int64{3}, Values: []int64{0, 1, 0}}.NPY(layout.Bool, false, false, 1), "input", "mask of length 3"},
		{"part of a matrix", "x_data", nil, "input", "member x_data is missing"},
		{"indptr too short", "x_indptr", sourcetest.Ints([]int64{4}, 0, 1, 3, 4), "input", "length 4 for 4 rows"},
		{"indptr falls", "x_indptr", sourcetest.Ints([]int64{5}, 0, 3, 1, 3, 4), "input", "x_indptr[2]: 1 after 3"},
		{"indptr past the end", "x_indptr", sourcetest.Ints([]int64{5}, 0, 1, 1, 3, 9), "input", "9 after 3"},
		{"indptr starts late", "x_indptr", sourcetest.Ints([]int64{5}, 1, 1, 1, 3, 4), "input", "starts with 0"},
		{"indptr ends early", "x_indptr", sourcetest.Ints([]int64{5}, 0, 1, 1, 3, 3), "input", "ends at 3"},
		{"column outside", "x_indices", sourcetest.Ints([]int64{4}, 2, 0, 3, 1), "input", "x_indices[2]: column 3"},
		{"column twice", "x_indices", sourcetest.Ints([]int64{4}, 2, 0, 0, 1), "input", "a second time in row 2"},
		{"other count of values", "x_data", sourcetest.Floats([]int64{3}, 1, 2, 3), "input", "3 values for 4"},
		{"shape of three", "x_shape", sourcetest.Ints([]int64{3}, 4, 3, 1), "input", "2 numbers are due"},
		{"huge rows", "x_shape", sourcetest.Ints([]int64{2}, 4, 1<<40), "input", "at most"},
	} {
		t.Run(c.name, func(t *testing.T) {
			files := sourcetest.Small()
			if files[c.member] = c.content; c.content == nil {
				delete(files, c.member)
			}
			path := sourcetest.Archive(t, zip.Deflate, files)
			d, err := formats.Open(context.Background(), path, "npz", source.Options{})
			if err == nil {
				err = sourcetest.Drain(d)
			}
			if sourcetest.Class(err) != c.class || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), path) {
				t.Errorf("got %s: %v; want %s with %q", sourcetest.Class(err), err, c.class, c.want)
			}
		})
	}
}

// TestRepeatedColumnShowsUpFront: a column that a row has twice is refused by Check,
// before a build reads its edges, also where one of the values is zero; the same
// column in the next row is none.
func TestRepeatedColumnShowsUpFront(t *testing.T) {
	for _, c := range []struct {
		name, want string
		indices    []byte
		values     []byte
	}{
		{"distinct", "", sourcetest.Ints([]int64{4}, 2, 0, 1, 1), sourcetest.Floats([]int64{4}, 5, 6, 7, 8)},
		{"twice", "x_indices[2]: column 0 a second time in row 2", sourcetest.Ints([]int64{4}, 2, 0, 0, 1), sourcetest.Floats([]int64{4}, 5, 6, 7, 8)},
		{"twice, the first zero", "x_indices[2]: column 0 a second time in row 2", sourcetest.Ints([]int64{4}, 2, 0, 0, 1), sourcetest.Floats([]int64{4}, 5, 0, 7, 8)},
	} {
		t.Run(c.name, func(t *testing.T) {
			files := sourcetest.Small()
			files["x_indices"], files["x_data"] = c.indices, c.values
			d, err := formats.Open(context.Background(), sourcetest.Archive(t, zip.Deflate, files), "npz", source.Options{})
			if err != nil {
				t.Fatal(err)
			}
			err = d.Arrays["x"].(source.Checker).Check(context.Background())
			if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("%v, want %q", err, c.want)
			}
		})
	}
}
