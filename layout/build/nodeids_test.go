package build

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/goagnes/goagnes/layout"
	"github.com/goagnes/goagnes/layout/build/source"
	"github.com/goagnes/goagnes/layout/build/source/formats"
)

// TestListedIDs builds from a list of nodes, through both kinds of ranking.
func TestListedIDs(t *testing.T) {
	for name, c := range map[string]struct {
		vertices, edges string
		ids             string
		nodes           int64
		want            string
	}{
		"isolated nodes are kept": {"30\n7\n10\n500\n", "10 7 .5\n7 30 1\n", "", 4, ""},
		"very sparse":             {"9000000000000000000\n7\n1\n", "9000000000000000000 7\n", "", 3, ""},
		"no edges":                {"3\n1\n2\n", "", "", 3, ""},
		"an edge to another node": {"30\n7\n", "7 30\n\n# c\n30 10\n", "", 0, "g.e:4: id 10 is not in"},
		"a node listed twice":     {"30\n7\n30\n", "7 30\n", "", 0, "3 lines for 2 distinct ids"},
		"dense":                   {"30\n7\n", "7 30\n", layout.IDsDense, 0, "such ids are ranked"},
	} {
		dir := t.TempDir()
		for file, text := range map[string]string{"g.v": c.vertices, "g.e": c.edges} {
			if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		d, err := formats.Open(context.Background(), filepath.Join(dir, "g.e"), "auto", source.Options{})
		if err != nil {
			t.Fatal(err)
		}
		store := filepath.Join(dir, "store")
		r, err := Build(context.Background(), store, Options{Edges: d.Edges, RankIDs: d.RankIDs, NodeIDs: d.NodeIDs, IDs: c.ids, Memory: 64 << 20})
		if c.want != "" {
			var e interface{ Class() string }
			if !errors.As(err, &e) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s: got %v, want %q", name, err, c.want)
			}
			if _, err := os.Stat(store); err == nil {
				t.Errorf("%s: a store was left", name)
			}
			continue
		}
		if err != nil || r.NumNodes != c.nodes {
			t.Errorf("%s: %+v, %v", name, r, err)
		}
	}
}
