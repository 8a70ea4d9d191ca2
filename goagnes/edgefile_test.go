package goagnes_test

// Files of edges alone: what they state of the graph is taken with the edges.

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/goagnes/goagnes/goagnes"
	"github.com/goagnes/goagnes/layout"
	"github.com/goagnes/goagnes/layout/build/source/sourcetest"
	"github.com/goagnes/goagnes/tests/fixture/life"
)

// TestNodesOfEdgeFiles: the last nodes of a matrix may have no entry.
func TestNodesOfEdgeFiles(t *testing.T) {
	dir := t.TempDir()
	mtx := filepath.Join(dir, "g.mtx")
	if err := os.WriteFile(mtx, []byte("%%MatrixMarket matrix coordinate real general\n7 7 2\n1 2 0.5\n3 1 2\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	scipy := sourcetest.Archive(t, 8, map[string][]byte{
		"format": []byte("\x93NUMPY\x01\x00\x76\x00" + "{'descr': '|S3', 'fortran_order': False, 'shape': (), }" + strings.Repeat(" ", 0x76-56) + "\n" + "csr"),
		"shape":  sourcetest.Ints([]int64{2}, 7, 7), "data": sourcetest.Floats([]int64{2}, 1, 1),
		"indptr": sourcetest.Ints([]int64{8}, 0, 1, 1, 2, 2, 2, 2, 2), "indices": sourcetest.Ints([]int64{2}, 1, 0),
	})
	rows := func(n int64) goagnes.Input {
		return goagnes.Input{Memory: &goagnes.Memory{Name: "x", Data: make([]byte, 4*n), DType: layout.Float32, Shape: []int64{n, 1}}}
	}
	for _, file := range []string{mtx, scipy} {
		store := func(name string) string { return filepath.Join(t.TempDir(), name) }
		edges := goagnes.Input{File: file}
		path := store("alone")
		r, err := goagnes.Build(t.Context(), path, goagnes.BuildOptions{EdgeIndex: edges})
		if err != nil || r.NumNodes != 7 || r.NumEdges != 2 {
			t.Fatalf("%s alone: %+v, %v", file, r, err)
		}
		if !slices.ContainsFunc(r.Notes, func(n string) bool { return strings.Contains(n, "2 values of the entries are not kept") }) {
			t.Errorf("%s: notes %q", file, r.Notes)
		}
		if r, err = goagnes.Build(t.Context(), store("more"), goagnes.BuildOptions{EdgeIndex: edges, NumNodes: 9}); err != nil || r.NumNodes != 9 {
			t.Errorf("%s, num_nodes=9: %+v, %v", file, r, err)
		}
		if r, err = goagnes.Build(t.Context(), store("x"), goagnes.BuildOptions{EdgeIndex: edges, X: rows(7)}); err != nil || r.NumNodes != 7 {
			t.Errorf("%s with 7 rows: %+v, %v", file, r, err)
		}
		for _, n := range []int64{3, 8} { // as many as the largest id would give, and too many
			if _, err = goagnes.Build(t.Context(), store("short"), goagnes.BuildOptions{EdgeIndex: edges, X: rows(n)}); goagnes.Class(err) != goagnes.ClassInput || !strings.Contains(err.Error(), "rows for 7 nodes") {
				t.Errorf("%s with %d rows: %v", file, n, err)
			}
		}
		// In place of the edges of a source that says another number.
		if _, err = goagnes.Import(t.Context(), store("other"), sourcetest.Archive(t, 8, sourcetest.Small()), goagnes.BuildOptions{EdgeIndex: edges}); goagnes.Class(err) != goagnes.ClassUsage ||
			!strings.Contains(err.Error(), "of 7 nodes, the source of 4") {
			t.Errorf("%s for a source of 4 nodes: %v", file, err)
		}
	}
}

// TestEditsAreOnRecord: a store says what became of the edges that were imported.
func TestEditsAreOnRecord(t *testing.T) {
	list := filepath.Join(t.TempDir(), "g.txt")
	// Two loops, one edge twice, one edge in both directions.
	if err := os.WriteFile(list, []byte("0 1\n1 1\n0 1\n2 3\n3 2\n4 4\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		o    goagnes.BuildOptions
		want string // the record's edits
	}{
		{goagnes.BuildOptions{}, ""},
		{goagnes.BuildOptions{SelfLoops: "keep", Duplicates: "keep"}, ""},
		{goagnes.BuildOptions{Undirected: true, SelfLoops: "drop", Duplicates: "drop"},
			`{"edges_listed":6,"reverses_added":4,"self_loops_dropped":2,"self_loops_added":0,"duplicates_dropped":4}`},
		{goagnes.BuildOptions{SelfLoops: "add"},
			`{"edges_listed":6,"reverses_added":0,"self_loops_dropped":0,"self_loops_added":3,"duplicates_dropped":0}`},
	} {
		path := filepath.Join(t.TempDir(), "s")
		if _, err := goagnes.Import(t.Context(), path, list, c.o); err != nil {
			t.Fatal(err)
		}
		s := life.Open(t, path, goagnes.OpenOptions{})
		var record struct {
			Format string          `json:"format"`
			Edits  json.RawMessage `json:"edits"`
		}
		if err := json.Unmarshal(s.Info().Source, &record); err != nil {
			t.Fatal(err)
		}
		if record.Format != "snap" || string(record.Edits) != c.want {
			t.Errorf("%+v: the record says %s %s, expected %s", c.o, record.Format, record.Edits, c.want)
		}
	}
}
