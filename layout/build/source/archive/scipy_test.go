package archive_test

import (
	"archive/zip"
	"context"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/goagnes/goagnes/layout"
	"github.com/goagnes/goagnes/layout/build/source"
	"github.com/goagnes/goagnes/layout/build/source/array"
	"github.com/goagnes/goagnes/layout/build/source/formats"
	"github.com/goagnes/goagnes/layout/build/source/sourcetest"
)

// text makes a .npy file of one string, as save_npz writes its format.
func text(descr, s string) []byte {
	var data []byte
	for _, c := range s {
		switch descr[1] {
		case 'S':
			data = append(data, byte(c))
		default:
			data = binary.LittleEndian.AppendUint32(data, uint32(c))
		}
	}
	header := fmt.Sprintf("{'descr': '%s%d', 'fortran_order': False, 'shape': (), }\n", descr, len(s))
	b := append([]byte("\x93NUMPY\x01\x00"), byte(len(header)), 0)
	return append(append(b, header...), data...)
}

func sparse(format string, more map[string][]byte) map[string][]byte {
	files := map[string][]byte{"format": text("|S", format), "shape": sourcetest.Ints([]int64{2}, 3, 3), "data": sourcetest.Floats([]int64{4}, 1, 0, 1, 1)}
	for k, v := range more {
		if v == nil {
			delete(files, k)
		} else {
			files[k] = v
		}
	}
	return files
}

func compressedRows() map[string][]byte {
	return map[string][]byte{"indptr": sourcetest.Ints([]int64{4}, 0, 3, 3, 4), "indices": sourcetest.Ints([]int64{4}, 2, 0, 2, 1)}
}

func TestSciPy(t *testing.T) {
	coordinates := map[string][]byte{"row": sourcetest.Ints([]int64{4}, 2, 0, 1, 1), "col": sourcetest.Ints([]int64{4}, 0, 1, 2, 2)}
	rows := []sourcetest.Pair{{0, 2}, {0, 0}, {0, 2}, {2, 1}}
	columns := []sourcetest.Pair{{2, 0}, {0, 0}, {2, 0}, {1, 2}}
	unicode := sparse("csr", compressedRows())
	unicode["format"] = text("<U", "csr")
	for name, c := range map[string]struct {
		files map[string][]byte
		want  []sourcetest.Pair
	}{
		"csr": {sparse("csr", compressedRows()), rows}, "csc": {sparse("csc", compressedRows()), columns},
		"coo":     {sparse("coo", coordinates), []sourcetest.Pair{{2, 0}, {0, 1}, {1, 2}, {1, 2}}},
		"unicode": {unicode, rows},
	} {
		for _, method := range []uint16{zip.Store, zip.Deflate} {
			path := sourcetest.Archive(t, method, c.files)
			d, err := formats.Open(context.Background(), path, "auto", source.Options{})
			if err != nil {
				t.Errorf("%s: %v", name, err)
				continue
			}
			n, known := d.Edges.Count()
			if got := sourcetest.AllEdges(t, d.Edges); d.Format != "scipy" || !slices.Equal(got, c.want) || d.NumNodes != 3 || n != 4 || !known {
				t.Errorf("%s: %s, %v, %d nodes, count %d", name, d.Format, got, d.NumNodes, n)
			}
			if len(d.Notes) == 0 || !strings.Contains(d.Notes[0], "the 4 values") {
				t.Errorf("%s: notes %q", name, d.Notes)
			}
			if e, err := formats.OpenEdges(path, source.Options{}); err != nil || e.RankIDs || e.NumNodes != d.NumNodes || !slices.Equal(sourcetest.AllEdges(t, e.Edges), c.want) {
				t.Errorf("%s: as edges alone: %v", name, err)
			}
		}
	}
}

func TestSciPyRefuses(t *testing.T) {
	rows := func(change map[string][]byte) map[string][]byte {
		m := compressedRows()
		for k, v := range change {
			m[k] = v
		}
		return sparse("csr", m)
	}
	for _, c := range []struct {
		files       map[string][]byte
		class, want string
	}{
		{sparse("bsr", compressedRows()), "unsupported", "format bsr"},
		{sparse("dia", map[string][]byte{"offsets": sourcetest.Ints([]int64{1}, 0)}), "unsupported", "format dia"},
		{sparse("odd", compressedRows()), "input", `format "odd"`},
		{rows(map[string][]byte{"format": sourcetest.Ints([]int64{1}, 3)}), "input", "no single string"},
		{rows(map[string][]byte{"format": text("|S", "csr")[:60]}), "input", "ends within the header"},
		{rows(map[string][]byte{"shape": sourcetest.Ints([]int64{2}, 3, 4)}), "input", "a rectangular matrix of 3 rows and 4"},
		{rows(map[string][]byte{"shape": sourcetest.Ints([]int64{3}, 3, 3, 3)}), "input", "2 numbers are due"},
		{rows(map[string][]byte{"shape": sourcetest.Ints([]int64{2}, -3, -3)}), "input", "negative"},
		{rows(map[string][]byte{"shape": sourcetest.Ints([]int64{2}, 4, 4)}), "input", "indptr: length 4, where 5 is due"},
		{rows(map[string][]byte{"indices": nil}), "input", "member indices"},
		{rows(map[string][]byte{"data": sourcetest.Floats([]int64{3}, 1, 1, 1)}), "input", "3 values for 4 entries"},
		{rows(map[string][]byte{"data": sourcetest.Floats([]int64{2, 2}, 1, 1, 1, 1)}), "input", "one axis"},
		{rows(map[string][]byte{"indices": sourcetest.Floats([]int64{4}, 1, 1, 1, 1)}), "input", "ids of type float32"},
		{rows(map[string][]byte{"indices": sourcetest.Ints([]int64{4}, 2, 0, 3, 1)}), "input", "indices[2]: 3, in a matrix of 3"},
		{rows(map[string][]byte{"indices": sourcetest.Ints([]int64{4}, 2, -1, 2, 1)}), "input", "indices[1]"},
		{rows(map[string][]byte{"indptr": sourcetest.Ints([]int64{4}, 1, 3, 3, 4)}), "input", "indptr[0]: 1"},
		{rows(map[string][]byte{"indptr": sourcetest.Ints([]int64{4}, 0, 3, 2, 4)}), "input", "indptr[2]: 2 after 3"},
		{rows(map[string][]byte{"indptr": sourcetest.Ints([]int64{4}, 0, 3, 3, 5)}), "input", "indptr[3]: 5 after 3"},
		{rows(map[string][]byte{"indptr": sourcetest.Ints([]int64{4}, 0, 3, 3, 3)}), "input", "indptr[3]: ends at 3"},
		{sparse("coo", map[string][]byte{"row": sourcetest.Ints([]int64{4}, 2, 0, 1, 3), "col": sourcetest.Ints([]int64{4}, 0, 1, 2, 2)}), "input", "row[3]: 3"},
		{sparse("coo", map[string][]byte{"row": sourcetest.Ints([]int64{3}, 2, 0, 1), "col": sourcetest.Ints([]int64{4}, 0, 1, 2, 2)}), "input", "row: length 3, where 4 is due"},
	} {
		path := sourcetest.Archive(t, zip.Deflate, c.files)
		d, err := formats.Open(context.Background(), path, "scipy", source.Options{})
		if err == nil {
			err = d.Edges.Scan(context.Background(), func(_, _ []int64) error { return nil })
		}
		if sourcetest.Class(err) != c.class || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), path) {
			t.Errorf("got %s %v, want %s %q", sourcetest.Class(err), err, c.class, c.want)
		}
	}
}

func heterophilous(change map[string][]byte) map[string][]byte {
	mask := func(v ...int64) []byte {
		return sourcetest.Grid{Shape: []int64{2, 3}, Values: v}.NPY(layout.Bool, false, false, 1)
	}
	files := map[string][]byte{
		"node_features": sourcetest.Floats([]int64{3, 1}, 1, 2, 3), "node_labels": sourcetest.Ints([]int64{3}, 0, 1, 0),
		"edges":       sourcetest.Ints([]int64{4, 2}, 2, 0, 0, 1, 1, 1, 0, 2),
		"train_masks": mask(1, 0, 0, 0, 1, 0), "val_masks": mask(0, 1, 0, 0, 0, 1), "test_masks": mask(0, 0, 1, 1, 0, 0),
	}
	for k, v := range change {
		if v == nil {
			delete(files, k)
		} else {
			files[k] = v
		}
	}
	return files
}

func TestHeterophilous(t *testing.T) {
	path := sourcetest.Archive(t, zip.Deflate, heterophilous(nil))
	for index, want := range [][]byte{{1, 0, 0}, {0, 1, 0}} {
		d, err := formats.Open(context.Background(), path, "auto", source.Options{SplitIndex: index})
		if err != nil {
			t.Fatal(err)
		}
		e := sourcetest.AllEdges(t, d.Edges)
		if d.Format != "heterophilous" || !slices.Equal(e, []sourcetest.Pair{{0, 1}, {0, 2}, {1, 0}, {1, 1}, {2, 0}}) || d.NumNodes != 3 {
			t.Errorf("%s, %v, %d nodes", d.Format, e, d.NumNodes)
		}
		if got := sourcetest.AllRows(t, d.Splits["train"]); !slices.Equal(got, want) {
			t.Errorf("split %d: %v", index, got)
		}
	}
	for _, c := range []struct {
		change map[string][]byte
		index  int
		want   string
	}{
		{nil, 2, "split_index 2 of 2 masks"},
		{nil, -1, "split_index -1 of 2 masks"},
		{map[string][]byte{"edges": nil}, 0, "member edges"},
		{map[string][]byte{"val_masks": nil}, 0, "member val_masks"},
		{map[string][]byte{"edges": sourcetest.Ints([]int64{2, 2}, 0, 1, 2, 3)}, 0, "edge"},
		{map[string][]byte{"edges": sourcetest.Ints([]int64{3, 2}, 0, 1, 2, 3, 1, 1)}, 0, "edges[1]: edge 2, 3 in a graph of 3"},
		{map[string][]byte{"node_labels": sourcetest.Ints([]int64{2}, 0, 1)}, 0, "2 rows for 3 nodes"},
	} {
		d, err := formats.Open(context.Background(), sourcetest.Archive(t, zip.Deflate, heterophilous(c.change)), "heterophilous", source.Options{SplitIndex: c.index})
		if err == nil {
			err = d.Edges.Scan(context.Background(), func(_, _ []int64) error { return nil })
		}
		if sourcetest.Class(err) != "input" || !strings.Contains(err.Error(), c.want) {
			t.Errorf("got %v, want %q", err, c.want)
		}
	}
}

// TestHeterophilousCorpus holds the edges to the undirected graph that the rows of
// the archive give, read another way.
func TestHeterophilousCorpus(t *testing.T) {
	for _, c := range []struct {
		name                          string
		nodes, edges, columns, labels int
	}{
		{"minesweeper", 10000, 39402, 7, 2},
		{"chameleon_filtered", 890, 8854, 2325, 5},
	} {
		path := sourcetest.Corpus(t, "heterophilous/"+c.name+".npz")
		in, err := array.NewInput(path, "edges")
		if err != nil {
			t.Fatal(err)
		}
		raw, err := array.NewEdges(in)
		if err != nil {
			t.Fatal(err)
		}
		list := sourcetest.AllEdges(t, raw)
		if len(list) != c.edges {
			t.Errorf("%s: %d rows of edges", c.name, len(list))
		}
		both := map[sourcetest.Pair]bool{}
		for _, e := range list {
			both[e], both[sourcetest.Pair{e[1], e[0]}] = true, true
		}
		d, err := formats.Open(context.Background(), path, "auto", source.Options{SplitIndex: 9})
		if err != nil {
			t.Fatal(err)
		}
		got := sourcetest.AllEdges(t, d.Edges)
		for i, e := range got {
			if !both[e] || i > 0 && (got[i-1][0] > e[0] || got[i-1][0] == e[0] && got[i-1][1] >= e[1]) {
				t.Fatalf("%s: edge %d is %v", c.name, i, e)
			}
		}
		y := sourcetest.AllInts(t, d.Arrays["y"])
		if len(got) != len(both) || d.NumNodes != int64(c.nodes) || !slices.Equal(d.Arrays["x"].RowShape(), []int64{int64(c.columns)}) || int(slices.Max(y)) != c.labels-1 {
			t.Errorf("%s: %d edges, want %d; %d nodes, %v, labels to %d", c.name, len(got), len(both), d.NumNodes, d.Arrays["x"].RowShape(), slices.Max(y))
		}
		total := 0
		for _, name := range []string{"train", "val", "test"} {
			for _, v := range sourcetest.AllRows(t, d.Splits[name]) {
				total += int(v)
			}
		}
		if total != c.nodes {
			t.Errorf("%s: the three masks hold %d nodes", c.name, total)
		}
	}
}
