package formats_test

// The public graphs: counts as published, and two readings of one graph equal.

import (
	"context"
	"encoding/binary"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/goagnes/goagnes/layout"
	"github.com/goagnes/goagnes/layout/build/source"
	"github.com/goagnes/goagnes/layout/build/source/formats"
	"github.com/goagnes/goagnes/layout/build/source/sourcetest"
)

func openCorpus(t testing.TB, name string) *source.Dataset {
	t.Helper()
	d, err := formats.Open(context.Background(), sourcetest.Corpus(t, name), "auto", source.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return d
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
			e := sourcetest.AllEdges(t, d.Edges)
			if len(e) != c.edges || sourcetest.Distinct(e) != c.nodes {
				t.Errorf("%d nodes and %d edges, want %d and %d", sourcetest.Distinct(e), len(e), c.nodes, c.edges)
			}
			if d.Format != "snap" || !d.RankIDs || d.NumNodes != -1 || len(d.Notes) != 0 {
				t.Errorf("%+v", d)
			}
			if !slices.Equal(e, sourcetest.AllEdges(t, d.Edges)) {
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
			e := sourcetest.AllEdges(t, d.Edges)
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
			y := sourcetest.AllInts(t, d.Arrays["y"])
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
					have = len(sourcetest.AllInts(t, s))
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
			a, b := sourcetest.AllEdges(t, raw.Edges), sourcetest.AllEdges(t, npz.Edges)
			less := func(x, y sourcetest.Pair) int {
				if x[1] != y[1] {
					return int(x[1] - y[1])
				}
				return int(x[0] - y[0])
			}
			if !slices.IsSortedFunc(a, less) {
				t.Error("edges are not sorted by target and source")
			}
			slices.SortFunc(b, less)
			if !slices.Equal(a, b) {
				t.Errorf("%d edges differ from the archive's %d", len(a), len(b))
			}
			if !slices.Equal(sourcetest.AllRows(t, raw.Arrays["x"]), sourcetest.AllRows(t, npz.Arrays["x"])) {
				t.Error("x differs")
			}
			if !slices.Equal(sourcetest.AllInts(t, raw.Arrays["y"]), sourcetest.AllInts(t, npz.Arrays["y"])) {
				t.Error("y differs")
			}
			for _, s := range []string{"train", "val", "test"} {
				a, b := sourcetest.AllInts(t, raw.Splits[s]), sourcetest.AllInts(t, npz.Splits[s])
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
	dir := sourcetest.Corpus(t, "planetoid/cora")
	for _, path := range []string{dir, filepath.Join(dir, "ind.cora"), filepath.Join(dir, "ind.cora.graph"),
		filepath.Join(dir, "ind.cora.test.index"), sourcetest.Corpus(t, "npz/planetoid-cora.npz")} {
		d, err := formats.Open(context.Background(), path, "planetoid", source.Options{})
		if err != nil || d.NumNodes != 2708 {
			t.Errorf("%s: %v", path, err)
		}
	}
}

func TestACMFeaturesAreRefused(t *testing.T) {
	_, err := formats.Open(context.Background(), sourcetest.Corpus(t, "hetero/acm/p_feat.npz"), "auto", source.Options{})
	if err == nil || !strings.Contains(err.Error(), "a rectangular matrix") {
		t.Errorf("got %v", err)
	}
	r, err := formats.RowsFromFile(sourcetest.Corpus(t, "hetero/acm/labels.npy"), source.Options{})
	if err != nil {
		t.Fatal(err)
	}
	y, _, err := source.Labels(r)
	if err != nil {
		t.Fatal(err)
	}
	if v := sourcetest.AllInts(t, y); len(v) != 4019 || slices.Max(v) != 2 {
		t.Errorf("%d labels up to %d", len(v), slices.Max(v))
	}
}

func TestCoraRowSums(t *testing.T) {
	// Every paper of Cora has between 1 and 30 words, 49216 in all.
	x := sourcetest.AllRows(t, openCorpus(t, "npz/planetoid-cora.npz").Arrays["x"])
	total := float32(0)
	for i := 0; i < len(x); i += 4 {
		total += math.Float32frombits(binary.LittleEndian.Uint32(x[i:]))
	}
	if total != 49216 {
		t.Errorf("%v words", total)
	}
}

func TestVertexAndEdgeCorpus(t *testing.T) {
	d := openCorpus(t, "weighted/p2p-31.e.gz")
	e := sourcetest.AllEdges(t, d.Edges)
	if ids := sourcetest.AllIDs(t, d.NodeIDs); d.Format != "ve" || len(e) != 147892 || sourcetest.Distinct(e) != 62586 || len(ids) != 62586 {
		t.Errorf("%s: %d ids, %d of them in %d edges", d.Format, len(ids), sourcetest.Distinct(e), len(e))
	}
}
