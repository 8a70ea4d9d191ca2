package build

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/goagnes/goagnes/layout"
	"github.com/goagnes/goagnes/layout/build/source"
	"github.com/goagnes/goagnes/layout/build/source/formats"
	"github.com/goagnes/goagnes/layout/build/workspace"
)

// corpus finds a public graph beside the repository.
func corpus(t *testing.T, name string) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for ; dir != filepath.Dir(dir); dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err != nil {
			continue
		}
		path := filepath.Join(dir, "..", "shared", "data", name)
		if _, err := os.Stat(path); err == nil {
			return path
		}
	}
	t.Skipf("no ../shared/data/%s beside the repository: the public graph is not here", name)
	return ""
}

// The public graphs come out with their published counts, and whole.
func TestPublicGraphs(t *testing.T) {
	for _, c := range []struct {
		path                            string
		nodes, edges, features, classes int64
		train, val, test                int64
		ids                             string
	}{
		{"planetoid/cora", 2708, 10556, 1433, 7, 140, 500, 1000, layout.IDsDense},
		{"planetoid/citeseer", 3327, 9104, 3703, 6, 120, 500, 1000, layout.IDsDense},
		{"npz/planetoid-citeseer.npz", 3327, 9104, 3703, 6, 120, 500, 1000, layout.IDsDense},
		{"npz/amazon_cs.npz", 13752, 491722, 767, 10, 0, 0, 0, layout.IDsDense},
		{"npz/planetoid-cora.npz", 2708, 10556, 1433, 7, 140, 500, 1000, layout.IDsDense},
		{"npz/cora_ml.npz", 2995, 16316, 2879, 7, 0, 0, 0, layout.IDsDense},
		// Both directions of the 39402 and 8854 undirected edges; the first of ten splits.
		{"heterophilous/minesweeper.npz", 10000, 78804, 7, 2, 5000, 2500, 2500, layout.IDsDense},
		{"heterophilous/chameleon_filtered.npz", 890, 17708, 2325, 5, 409, 287, 194, layout.IDsDense},
		{"mtx/karate.mtx", 34, 156, 0, 0, 0, 0, 0, layout.IDsDense},
		{"snap/email-Enron.edges.txt.gz", 36692, 183831, 0, 0, 0, 0, 0, layout.IDsRank},
		{"weighted/p2p-31.v.gz", 62586, 147892, 0, 0, 0, 0, 0, layout.IDsRank},
		{"snap/Wiki-Vote.txt.gz", 7115, 103689, 0, 0, 0, 0, 0, layout.IDsRank},
		{"snap/p2p-Gnutella31.txt.gz", 62586, 147892, 0, 0, 0, 0, 0, layout.IDsRank},
	} {
		t.Run(c.path, func(t *testing.T) {
			d, err := formats.Open(context.Background(), corpus(t, c.path), "auto", source.Options{Scratch: t.TempDir()})
			if err != nil {
				t.Fatal(err)
			}
			o := Options{Edges: d.Edges, Arrays: d.Arrays, Splits: d.Splits, NumNodes: max(d.NumNodes, 0), RankIDs: d.RankIDs, NodeIDs: d.NodeIDs, Memory: 64 << 20}
			path, r := buildIn(t, o, workspace.Tuning{})
			if r.NumNodes != c.nodes || r.NumEdges != c.edges || r.NumFeatures != c.features || r.NumClasses != c.classes || r.IDs != c.ids {
				t.Errorf("%d nodes, %d edges, %d features, %d classes, ids %s", r.NumNodes, r.NumEdges, r.NumFeatures, r.NumClasses, r.IDs)
			}
			s := readStore(t, path)
			for name, want := range map[string]int64{"split.train": c.train, "split.val": c.val, "split.test": c.test} {
				if got := int64(len(s.integers(name))); got != want {
					t.Errorf("%s has %d nodes, expected %d", name, got, want)
				}
			}
			whole(t, path)
		})
	}
}
