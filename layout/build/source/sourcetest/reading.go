package sourcetest

// Reading everything out of a source, and the public graphs beside the repository.

import (
	"context"
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/goagnes/goagnes/layout"
	"github.com/goagnes/goagnes/layout/build/source"
)

// AllIDs reads a list of ids.
func AllIDs(t *testing.T, l source.IDs) []int64 {
	t.Helper()
	var ids []int64
	if err := l.Scan(context.Background(), func(b []int64) error { ids = append(ids, b...); return nil }); err != nil {
		t.Fatal(err)
	}
	return ids
}

// Corpus finds a public graph beside the repository.
func Corpus(t testing.TB, name string) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for {
		if path := filepath.Join(dir, "..", "shared", "data", name); source.Exists(filepath.Join(dir, "go.mod")) && source.Exists(path) {
			return path
		}
		if dir == filepath.Dir(dir) {
			t.Skipf("no ../shared/data/%s beside the repository: the public graph is not here", name)
		}
		dir = filepath.Dir(dir)
	}
}

// Pair is an edge: source, target.
type Pair [2]int64

// AllEdges reads all edges and holds the scan to its rules.
func AllEdges(t testing.TB, e source.Edges) []Pair {
	t.Helper()
	var out []Pair
	err := e.Scan(context.Background(), func(src, dst []int64) error {
		if len(src) != len(dst) || len(src) > source.ChunkEdges || len(src) == 0 {
			t.Fatalf("a chunk of %d and %d", len(src), len(dst))
		}
		for i := range src {
			out = append(out, Pair{src[i], dst[i]})
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if n, known := e.Count(); known && n != int64(len(out)) {
		t.Fatalf("%s: counts %d edges and scans %d", e.Name(), n, len(out))
	}
	return out
}

// ScanEdges returns the edges that come before the end or an error.
func ScanEdges(e source.Edges) ([]Pair, error) {
	var got []Pair
	err := e.Scan(context.Background(), func(src, dst []int64) error {
		for i := range src {
			got = append(got, Pair{src[i], dst[i]})
		}
		return nil
	})
	return got, err
}

// AllRows reads all rows and holds the scan to its rules.
func AllRows(t testing.TB, r source.Rows) []byte {
	t.Helper()
	rowBytes := int64(r.DType().Size())
	for _, n := range r.RowShape() {
		rowBytes *= n
	}
	out := []byte{}
	err := r.Scan(context.Background(), func(first int64, rows []byte) error {
		if first*rowBytes != int64(len(out)) || int64(len(rows))%rowBytes != 0 || (len(rows) > source.ChunkBytes && int64(len(rows)) > rowBytes) {
			t.Fatalf("a chunk of %d bytes at row %d after %d bytes", len(rows), first, len(out))
		}
		out = append(out, rows...)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if int64(len(out)) != r.Len()*rowBytes {
		t.Fatalf("%s: %d bytes for %d rows of %d", r.Name(), len(out), r.Len(), rowBytes)
	}
	return out
}

// AllInts reads all elements as int64.
func AllInts(t testing.TB, r source.Rows) []int64 {
	t.Helper()
	if r.DType() != layout.Int64 || len(r.RowShape()) != 0 {
		t.Fatalf("%s is %s with rows %v", r.Name(), r.DType(), r.RowShape())
	}
	b := AllRows(t, r)
	out := make([]int64, len(b)/8)
	for i := range out {
		out[i] = int64(binary.LittleEndian.Uint64(b[8*i:]))
	}
	return out
}

// Distinct counts the distinct edges.
func Distinct(edges []Pair) int {
	seen := map[int64]bool{}
	for _, e := range edges {
		seen[e[0]], seen[e[1]] = true, true
	}
	return len(seen)
}

// Class is what every typed error says of itself.
func Class(err error) string {
	var c interface{ Class() string }
	if errors.As(err, &c) {
		return c.Class()
	}
	return "none"
}

// Drain reads everything a dataset holds and returns the first error.
func Drain(d *source.Dataset) error {
	ctx := context.Background()
	if err := d.Edges.Scan(ctx, func(_, _ []int64) error { return nil }); err != nil {
		return err
	}
	for _, m := range []map[string]source.Rows{d.Arrays, d.Splits} {
		for _, r := range m {
			if err := r.Scan(ctx, func(int64, []byte) error { return nil }); err != nil {
				return err
			}
		}
	}
	return nil
}
