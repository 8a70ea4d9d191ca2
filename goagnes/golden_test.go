package goagnes_test

// Stores of every format version, kept for ever: each must open, be whole and
// give the minibatches of the graph that it was made of. They were written by
//
//	go test ./goagnes -run TestGolden -golden.write
//
// when their version came; a version's stores are never written again.

import (
	"bytes"
	"context"
	"encoding/binary"
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/goagnes/goagnes/goagnes"
	"github.com/goagnes/goagnes/layout"
)

var goldenWrite = flag.Bool("golden.write", false, "write the golden stores that are missing")

// goldenGraph is a graph by arithmetic alone, with a hub of three blocks of 4
// KiB, parallel edges, loops and isolated nodes.
func goldenGraph() *rawGraph {
	const nodes = 60
	g := &rawGraph{nodes: nodes, xType: layout.Float16, xShape: []int64{3}, yType: layout.Int64,
		splits: map[string][]int64{"train": {41, 7, 3, 59, 12}, "val": {1, 2}}}
	state := uint64(42)
	next := func(n uint64) int64 {
		state = state*6364136223846793005 + 1442695040888963407
		return int64(state >> 33 % n)
	}
	for range 9000 {
		g.src, g.dst = append(g.src, next(50)), append(g.dst, 7)
	}
	for range 400 {
		g.src, g.dst = append(g.src, next(50)), append(g.dst, next(50))
	}
	for i := range nodes * 3 {
		g.x = binary.LittleEndian.AppendUint16(g.x, uint16(0x3c00+i))
	}
	for v := range int64(nodes) {
		g.y = binary.LittleEndian.AppendUint64(g.y, uint64(v%5-1))
	}
	return g
}

// goldenStores are the stores by name, with the build ids that they had.
var goldenStores = []struct {
	name, id string
	version  int
	options  goagnes.BuildOptions
	stripes  int
}{
	{"v1", "f0b79956df782de7244c3b62d946e496", 1, goagnes.BuildOptions{Order: "degree"}, 0},
	{"v1-original", "8b7fa766bffff26baee1fbdd775c43db", 1, goagnes.BuildOptions{Order: "original"}, 0},
	{"v2-gaps", "608d3e6800c16c31c2d3d1de3fe40341", 2, goagnes.BuildOptions{Order: "visit", Duplicates: "drop"}, 0},
	{"v2-zstd", "bc390f38453037f2cfad983ddc4f1080", 2, goagnes.BuildOptions{Order: "bfs", Compression: "zstd"}, 0},
	{"v2-stripes", "c294242abb68f5cc503593965f51460b", 2, goagnes.BuildOptions{Order: "degree"}, 2},
}

// stripeNames are the directories of a golden store beside it.
func stripeNames(path string, n int) []string {
	var list []string
	for i := range n {
		list = append(list, path+".stripe-"+string(rune('0'+i)))
	}
	return list
}

func TestGolden(t *testing.T) {
	g := goldenGraph()
	seen := map[[2]int64]bool{}
	distinct := &rawGraph{nodes: g.nodes, x: g.x, y: g.y, xType: g.xType, xShape: g.xShape, yType: g.yType, splits: g.splits}
	ids := []int64{} // of the edges of distinct
	for e := range g.src {
		if pair := [2]int64{g.src[e], g.dst[e]}; !seen[pair] {
			seen[pair] = true
			distinct.src, distinct.dst, ids = append(distinct.src, pair[0]), append(distinct.dst, pair[1]), append(ids, int64(e))
		}
	}
	for _, c := range goldenStores {
		path := filepath.Join("testdata", "stores", c.name)
		o := c.options
		o.BlockSize, o.Scratch = 4096, t.TempDir()
		stripes := stripeNames(path, c.stripes)
		if _, err := os.Stat(path); os.IsNotExist(err) && *goldenWrite {
			writeGolden(t, g, path, stripes, o)
		}
		t.Run(c.name, func(t *testing.T) {
			report, err := goagnes.Verify(context.Background(), path, goagnes.VerifyOptions{Stripes: stripes})
			if err != nil || !report.OK() {
				t.Fatalf("%+v, %v", report, err)
			}
			s, err := goagnes.Open(path, goagnes.OpenOptions{Stripes: stripes, Scratch: t.TempDir()})
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			if info := s.Info(); info.FormatVersion != c.version || info.BuildID != c.id {
				t.Errorf("format version %d, build id %s; want %d and %s", info.FormatVersion, info.BuildID, c.version, c.id)
			}
			graph := g
			if o.Duplicates == "drop" {
				graph = distinct
			}
			p := plan{fanouts: []int{3, 2}, input: goagnes.InputNodes{Split: "train"}, batch: 2, shuffle: true}
			seed := uint64(11)
			want := graph.plain(p, seed).epoch(0)
			if o.Duplicates == "drop" {
				for _, b := range want { // edge ids are those of the imported list
					for i, e := range b.ids {
						b.ids[i] = ids[e]
					}
				}
			}
			lo := goagnes.LoaderOptions{NumNeighbors: p.fanouts, InputNodes: p.input, BatchSize: p.batch, Shuffle: true, Seed: &seed}
			l, err := goagnes.NewLoader(s, lo)
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			graph.holdEqual(t, l, lo, want)
		})
		t.Run(c.name+" again", func(t *testing.T) { // the same input gives the same bytes today
			again := filepath.Join(t.TempDir(), c.name)
			for range stripes {
				o.Stripes = append(o.Stripes, t.TempDir())
			}
			g.build(t, again, o)
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
			if info.BuildID != c.id {
				t.Errorf("build id %s, want %s", info.BuildID, c.id)
			}
			sameFiles(t, path, again)
			for i, dir := range info.Stripes {
				sameFiles(t, stripes[i], dir)
			}
		})
	}
}

// sameFiles compares two directories, of MANIFEST only what the build id covers.
func sameFiles(t *testing.T, want, got string) {
	t.Helper()
	list, err := os.ReadDir(want)
	if err != nil {
		t.Fatal(err)
	}
	if now, err := os.ReadDir(got); err != nil || len(now) != len(list) {
		t.Fatalf("%s has %d files, %v; want %d", got, len(now), err, len(list))
	}
	for _, e := range list {
		a, err := os.ReadFile(filepath.Join(want, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		b, err := os.ReadFile(filepath.Join(got, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		if e.Name() == layout.ManifestFile {
			n := layout.PageSize + int(binary.LittleEndian.Uint64(a[16:])+layout.PageSize-1)/layout.PageSize*layout.PageSize
			a, b = a[:n], b[:n]
			for _, header := range [][]byte{a, b} { // the record's checksum is the record's
				clear(header[44:48])
				clear(header[layout.PageSize-4 : layout.PageSize])
			}
		}
		if !bytes.Equal(a, b) {
			t.Errorf("%s differs from %s", filepath.Join(got, e.Name()), filepath.Join(want, e.Name()))
		}
	}
}

// writeGolden builds a golden store; of a striped one the manifest then names
// directories that are nowhere, as after a move.
func writeGolden(t *testing.T, g *rawGraph, path string, stripes []string, o goagnes.BuildOptions) {
	t.Helper()
	for range stripes {
		o.Stripes = append(o.Stripes, t.TempDir())
	}
	built := filepath.Join(t.TempDir(), "golden")
	g.build(t, built, o)
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
