package exactness

// Stores of every format version, kept for ever: each must open, be whole and
// give the minibatches of the graph that it was made of. They were written by
//
//	go test ./tests/exactness -run TestGolden -golden.write
//
// when their version came; a version's stores are never written again.

import (
	"context"
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/goagnes/goagnes/goagnes"
	"github.com/goagnes/goagnes/layout"
	"github.com/goagnes/goagnes/tests/fixture/golden"
	"github.com/goagnes/goagnes/tests/fixture/graph"
	"github.com/goagnes/goagnes/tests/fixture/image"
)

var goldenWrite = flag.Bool("golden.write", false, "write the golden stores that are missing")

func TestGolden(t *testing.T) {
	g := golden.Graph()
	seen := map[[2]int64]bool{}
	distinct := &graph.Graph{Nodes: g.Nodes, X: g.X, Y: g.Y, XType: g.XType, XShape: g.XShape, YType: g.YType, Splits: g.Splits}
	ids := []int64{} // of the edges of distinct
	for e := range g.Src {
		if pair := [2]int64{g.Src[e], g.Dst[e]}; !seen[pair] {
			seen[pair] = true
			distinct.Src, distinct.Dst, ids = append(distinct.Src, pair[0]), append(distinct.Dst, pair[1]), append(ids, int64(e))
		}
	}
	for _, c := range golden.Stores {
		path := c.Path(t)
		o := c.Options
		o.BlockSize, o.Scratch = 4096, t.TempDir()
		stripes := c.StripeDirs(t)
		if _, err := os.Stat(path); os.IsNotExist(err) && *goldenWrite {
			writeGolden(t, g, path, stripes, o)
		}
		t.Run(c.Name, func(t *testing.T) {
			report, err := goagnes.Verify(context.Background(), path, goagnes.VerifyOptions{Stripes: stripes})
			if err != nil || !report.OK() {
				t.Fatalf("%+v, %v", report, err)
			}
			s, err := goagnes.Open(path, goagnes.OpenOptions{Stripes: stripes, Scratch: t.TempDir()})
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			if info := s.Info(); info.FormatVersion != c.Version || info.BuildID != c.ID {
				t.Errorf("format version %d, build id %s; want %d and %s", info.FormatVersion, info.BuildID, c.Version, c.ID)
			}
			kept := g
			if o.Duplicates == "drop" {
				kept = distinct
			}
			p := graph.Plan{Fanouts: []int{3, 2}, Input: goagnes.InputNodes{Split: "train"}, Batch: 2, Shuffle: true}
			seed := uint64(11)
			want := kept.Plain(p, seed).Epoch(0)
			if o.Duplicates == "drop" {
				for _, b := range want { // edge ids are those of the imported list
					for i, e := range b.IDs {
						b.IDs[i] = ids[e]
					}
				}
			}
			lo := goagnes.LoaderOptions{NumNeighbors: p.Fanouts, InputNodes: p.Input, BatchSize: p.Batch, Shuffle: true, Seed: &seed}
			l, err := goagnes.NewLoader(s, lo)
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			kept.HoldEqual(t, l, lo, want)
		})
		t.Run(c.Name+" again", func(t *testing.T) { // the same input gives the same bytes today
			again := filepath.Join(t.TempDir(), c.Name)
			for range stripes {
				o.Stripes = append(o.Stripes, t.TempDir())
			}
			g.Build(t, again, o)
			s, err := goagnes.Open(again, goagnes.OpenOptions{})
			if err != nil {
				t.Fatal(err)
			}
			info := s.Info()
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			if o.Compression != "" { // another zstd may pack otherwise
				return
			}
			if info.BuildID != c.ID {
				t.Errorf("build id %s, want %s", info.BuildID, c.ID)
			}
			image.Same(t, path, again)
			for i, dir := range info.Stripes {
				image.Same(t, stripes[i], dir)
			}
		})
	}
}

// writeGolden builds a golden store; of a striped one the manifest then names
// directories that are nowhere, as after a move.
func writeGolden(t *testing.T, g *graph.Graph, path string, stripes []string, o goagnes.BuildOptions) {
	t.Helper()
	for range stripes {
		o.Stripes = append(o.Stripes, t.TempDir())
	}
	built := filepath.Join(t.TempDir(), "golden")
	g.Build(t, built, o)
	manifest := filepath.Join(built, layout.ManifestFile)
	b, err := os.ReadFile(manifest)
	if err != nil {
		t.Fatal(err)
	}
	m, err := layout.DecodeManifest(b)
	if err != nil {
		t.Fatal(err)
	}
	copyDir := func(to, from string) {
		if err := os.CopyFS(to, os.DirFS(from)); err != nil {
			t.Fatal(err)
		}
	}
	for i, dir := range m.Stripes {
		copyDir(stripes[i], dir)
		m.Stripes[i] = "/ssd" + string(rune('0'+i))
	}
	if b, err = m.Encode(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(manifest, b, 0o644); err != nil {
		t.Fatal(err)
	}
	copyDir(path, built)
}
