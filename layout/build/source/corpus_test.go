package source

// The public graphs: counts as published, and two readings of one graph equal.

import (
	"context"
	"encoding/binary"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/goagnes/goagnes/layout"
)

// corpus finds a public graph beside the repository.
func corpus(t testing.TB, name string) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for {
		if path := filepath.Join(dir, "..", "shared", "data", name); exists(filepath.Join(dir, "go.mod")) && exists(path) {
			return path
		}
		if dir == filepath.Dir(dir) {
			t.Skipf("no ../shared/data/%s beside the repository: the public graph is not here", name)
		}
		dir = filepath.Dir(dir)
	}
}

func openCorpus(t testing.TB, name string) *Dataset {
	t.Helper()
	d, err := Open(context.Background(), corpus(t, name), "auto", Options{})
	if err != nil {
		t.Fatal(err)
	}
	return d
}

type pair struct{ src, dst int64 }

func allEdges(t testing.TB, e Edges) []pair {
	t.Helper()
	var out []pair
	err := e.Scan(context.Background(), func(src, dst []int64) error {
		if len(src) != len(dst) || len(src) > ChunkEdges || len(src) == 0 {
			t.Fatalf("a chunk of %d and %d", len(src), len(dst))
		}
		for i := range src {
			out = append(out, pair{src[i], dst[i]})
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

func allRows(t testing.TB, r Rows) []byte {
	t.Helper()
	rowBytes := int64(r.DType().Size())
	for _, n := range r.RowShape() {
		rowBytes *= n
	}
	out := []byte{}
	err := r.Scan(context.Background(), func(first int64, rows []byte) error {
		if first*rowBytes != int64(len(out)) || int64(len(rows))%rowBytes != 0 || (len(rows) > ChunkBytes && int64(len(rows)) > rowBytes) {
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

func allInts(t testing.TB, r Rows) []int64 {
	t.Helper()
	if r.DType() != layout.Int64 || len(r.RowShape()) != 0 {
		t.Fatalf("%s is %s with rows %v", r.Name(), r.DType(), r.RowShape())
	}
	b := allRows(t, r)
	out := make([]int64, len(b)/8)
	for i := range out {
		out[i] = int64(binary.LittleEndian.Uint64(b[8*i:]))
	}
	return out
}

func distinct(edges []pair) int {
	seen := map[int64]bool{}
	for _, e := range edges {
		seen[e.src], seen[e.dst] = true, true
	}
	return len(seen)
}

func TestSNAPCorpora(t *testing.T) {
	for _, c := range []struct {
		name         string
		nodes, edges int
	}{
		{"snap/Wiki-Vote.txt.gz", 7115, 103689},
		{"snap/p2p-Gnutella31.txt.gz", 62586, 147892},
		{"snap/email-Enron.edges.txt.gz", 36692, 183831},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := openCorpus(t, c.name)
			e := allEdges(t, d.Edges)
			if len(e) != c.edges || distinct(e) != c.nodes {
				t.Errorf("%d nodes and %d edges, want %d and %d", distinct(e), len(e), c.nodes, c.edges)
			}
			if d.Format != "snap" || !d.RankIDs || d.NumNodes != -1 || len(d.Notes) != 0 {
				t.Errorf("%+v", d)
			}
			if !slices.Equal(e, allEdges(t, d.Edges)) {
				t.Error("a second scan differs")
			}
		})
	}
}

func TestArchiveCorpora(t *testing.T) {
	for _, c := range []struct {
		name                      string
		nodes, edges, dim         int64
		classes                   int64
		train, val, test, unnamed int
	}{
		{"npz/planetoid-cora.npz", 2708, 10556, 1433, 7, 140, 500, 1000, 0},
		{"npz/planetoid-citeseer.npz", 3327, 9104, 3703, 6, 120, 500, 1000, 15},
		{"npz/amazon_cs.npz", 13752, 491722, 767, 10, 0, 0, 0, 0},
		{"npz/coauthor_cs.npz", 18333, 163788, 6805, 15, 0, 0, 0, 0},
		{"npz/cora_ml.npz", 2995, 16316, 2879, 7, 0, 0, 0, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := openCorpus(t, c.name)
			if d.Format != "npz" || d.NumNodes != c.nodes || d.RankIDs || len(d.Notes) != 0 {
				t.Errorf("%+v", d)
			}
			e := allEdges(t, d.Edges)
			if int64(len(e)) != c.edges {
				t.Errorf("%d edges, want %d", len(e), c.edges)
			}
			x := d.Arrays["x"]
			if x.DType() != layout.Float32 || x.Len() != c.nodes || !slices.Equal(x.RowShape(), []int64{c.dim}) {
				t.Errorf("x is %s (%d, %v)", x.DType(), x.Len(), x.RowShape())
			}
			bytes := int64(0)
			if err := x.Scan(context.Background(), func(_ int64, rows []byte) error {
				bytes += int64(len(rows))
				return nil
			}); err != nil || bytes != 4*c.nodes*c.dim {
				t.Errorf("x brings %d bytes: %v", bytes, err)
			}
			y := allInts(t, d.Arrays["y"])
			none := 0
			for _, v := range y {
				if v < 0 {
					none++
				}
			}
			if slices.Max(y)+1 != c.classes || none != c.unnamed {
				t.Errorf("%d classes, %d nodes without a label", slices.Max(y)+1, none)
			}
			for name, want := range map[string]int{"train": c.train, "val": c.val, "test": c.test} {
				have := 0
				if s := d.Splits[name]; s != nil {
					have = len(allInts(t, s))
				}
				if have != want {
					t.Errorf("split %s has %d nodes, want %d", name, have, want)
				}
			}
		})
	}
}

// TestPlanetoidBothWays reads each graph from its pickles and from the archive.
// Citeseer is published with 4732 undirected edges, which its files list twice:
// 9464 = 9104 + 248 + 112.
func TestPlanetoidBothWays(t *testing.T) {
	for name, notes := range map[string][]string{
		"cora":     {"dropped 302 duplicate edges"},
		"citeseer": {"15 numbers are missing", "dropped 248 self-loops", "dropped 112 duplicate edges"},
	} {
		t.Run(name, func(t *testing.T) {
			raw, npz := openCorpus(t, "planetoid/"+name), openCorpus(t, "npz/planetoid-"+name+".npz")
			if raw.Format != "planetoid" || raw.NumNodes != npz.NumNodes {
				t.Errorf("%s with %d nodes, want %d", raw.Format, raw.NumNodes, npz.NumNodes)
			}
			all := strings.Join(raw.Notes, "\n")
			for _, n := range notes {
				if !strings.Contains(all, n) {
					t.Errorf("no note of %q in %q", n, all)
				}
			}
			a, b := allEdges(t, raw.Edges), allEdges(t, npz.Edges)
			less := func(x, y pair) int {
				if x.dst != y.dst {
					return int(x.dst - y.dst)
				}
				return int(x.src - y.src)
			}
			if !slices.IsSortedFunc(a, less) {
				t.Error("edges are not sorted by target and source")
			}
			slices.SortFunc(b, less)
			if !slices.Equal(a, b) {
				t.Errorf("%d edges differ from the archive's %d", len(a), len(b))
			}
			if !slices.Equal(allRows(t, raw.Arrays["x"]), allRows(t, npz.Arrays["x"])) {
				t.Error("x differs")
			}
			if !slices.Equal(allInts(t, raw.Arrays["y"]), allInts(t, npz.Arrays["y"])) {
				t.Error("y differs")
			}
			for _, s := range []string{"train", "val", "test"} {
				a, b := allInts(t, raw.Splits[s]), allInts(t, npz.Splits[s])
				slices.Sort(a)
				slices.Sort(b)
				if !slices.Equal(a, b) {
					t.Errorf("split %s differs", s)
				}
			}
		})
	}
}

func TestPlanetoidPaths(t *testing.T) {
	dir := corpus(t, "planetoid/cora")
	for _, path := range []string{dir, filepath.Join(dir, "ind.cora"), filepath.Join(dir, "ind.cora.graph"),
		filepath.Join(dir, "ind.cora.test.index"), corpus(t, "npz/planetoid-cora.npz")} {
		d, err := Open(context.Background(), path, "planetoid", Options{})
		if err != nil || d.NumNodes != 2708 {
			t.Errorf("%s: %v", path, err)
		}
	}
}

func TestACMFeaturesAreRefused(t *testing.T) {
	_, err := Open(context.Background(), corpus(t, "hetero/acm/p_feat.npz"), "auto", Options{})
	if err == nil || !strings.Contains(err.Error(), "a rectangular matrix") {
		t.Errorf("got %v", err)
	}
	r, err := RowsFromFile(corpus(t, "hetero/acm/labels.npy"), Options{})
	if err != nil {
		t.Fatal(err)
	}
	y, _, err := Labels(r)
	if err != nil {
		t.Fatal(err)
	}
	if v := allInts(t, y); len(v) != 4019 || slices.Max(v) != 2 {
		t.Errorf("%d labels up to %d", len(v), slices.Max(v))
	}
}

func TestCoraRowSums(t *testing.T) {
	// Every paper of Cora has between 1 and 30 words, 49216 in all.
	x := allRows(t, openCorpus(t, "npz/planetoid-cora.npz").Arrays["x"])
	total := float32(0)
	for i := 0; i < len(x); i += 4 {
		total += math.Float32frombits(binary.LittleEndian.Uint32(x[i:]))
	}
	if total != 49216 {
		t.Errorf("%v words", total)
	}
}
