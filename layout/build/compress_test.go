package build

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/goagnes/goagnes/layout"
	"github.com/goagnes/goagnes/layout/build/order"
	"github.com/goagnes/goagnes/layout/build/verify"
	"github.com/goagnes/goagnes/layout/build/workspace"
)

// A compressed store holds the blocks of the store that is not compressed, in fewer
// pages, and the same everything else.
func TestCompressedStores(t *testing.T) {
	t.Parallel()
	for name, g := range map[string]*graph{
		"many": randomGraph(3, 70_000, 200_000, 2), "hubs": randomGraph(2, 3000, 60_000, 16),
		"no edges": randomGraph(5, 20_000, 0, 4), "no nodes": {}, "one node": randomGraph(4, 1, 40, 5),
	} {
		for _, order := range []string{layout.OrderOriginal, order.Degree, order.BFS} {
			for _, block := range []int64{4 << 10, 16 << 10, 1 << 20} {
				t.Run(fmt.Sprint(name, "/", order, "/", block), func(t *testing.T) {
					t.Parallel()
					o := g.options()
					o.Order, o.BlockSize, o.Memory = order, block, 96<<20
					path, _ := buildIn(t, o, workspace.Tuning{})
					plain := readStore(t, path)
					if plain.m.FormatVersion() != 1 {
						t.Errorf("a store without compression is of version %d", plain.m.FormatVersion())
					}
					id := ""
					for _, tune := range []workspace.Tuning{{}, {OnScratch: true, SortBytes: 20_000}} {
						o.Compression = "zstd"
						path, r := buildIn(t, o, tune)
						s := readStore(t, path)
						if err := s.compare(g, order); err != nil {
							t.Fatal(err)
						}
						if s.m.FormatVersion() != 2 || s.m.Settings.Compression != "zstd:3" {
							t.Errorf("version %d, compression %q", s.m.FormatVersion(), s.m.Settings.Compression)
						}
						if !bytes.Equal(s.decompressed(), plain.files[layout.SectionGraph]) {
							t.Error("the blocks are not those of the store without compression")
						}
						if n, m := len(s.files[layout.SectionGraph]), len(plain.files[layout.SectionGraph]); n > m || n == m && block == 1<<20 && m > 0 {
							t.Errorf("%d bytes of graph, %d without compression", n, m)
						}
						if id != "" && r.BuildID != id {
							t.Errorf("build %s, then %s", id, r.BuildID)
						}
						id = r.BuildID
						if r.PeakMemoryPlanned > o.Memory {
							t.Errorf("%d bytes planned", r.PeakMemoryPlanned)
						}
						whole(t, path)
					}
				})
			}
		}
	}
}

// What is wrong with a compressed block is found, with its number, and nothing after
// it hides: by the checksum where bytes changed, by its contents where the checksums
// are right.
func TestVerifyCompressed(t *testing.T) {
	t.Parallel()
	const block = 16 << 10
	g := randomGraph(3, 20_000, 100_000, 0)
	build := func(t *testing.T) (path string, places []int64) {
		o := g.options()
		o.BlockSize, o.Order, o.Compression = block, order.Degree, "zstd:1"
		path, _ = buildIn(t, o, workspace.Tuning{})
		return path, readStore(t, path).integers(layout.SectionPlaces)
	}
	_, places := build(t)
	k := slices.IndexFunc(places[1:], func(p int64) bool { // the second compressed block
		i := slices.Index(places, p)
		return i > 1 && places[i]-places[i-1] < block/layout.PageSize
	})
	at := places[k] * layout.PageSize
	change := func(file string, at int64, v ...byte) func(t *testing.T, path string) {
		return func(t *testing.T, path string) {
			name := filepath.Join(path, file)
			b := must(os.ReadFile(name))
			copy(b[at:], v)
			if err := os.WriteFile(name, b, 0o666); err != nil {
				t.Fatal(err)
			}
		}
	}
	word := func(v uint64) []byte { return binary.LittleEndian.AppendUint64(nil, v) }
	for name, c := range map[string]struct {
		change func(t *testing.T, path string)
		sealed bool
		want   string
	}{
		"a flipped bit":      {change(layout.SectionGraph, at+100, 0xa5), false, fmt.Sprintf("graph, block %d (byte %d)", k, at)},
		"no zstd":            {change(layout.SectionGraph, at+8, 0, 0, 0, 0), true, fmt.Sprintf("graph, block %d (byte %d): a compressed block that is none", k, at)},
		"a long frame":       {change(layout.SectionGraph, at+4, 0, 0, 0, 0x70), true, fmt.Sprintf("graph, block %d (byte %d): a compressed block of", k, at)},
		"a coding":           {change(layout.SectionGraph, at+1, 77), true, fmt.Sprintf("graph, block %d (byte %d): kind 3 and coding 77", k, at)},
		"a kind":             {change(layout.SectionGraph, at, 1), true, fmt.Sprintf("graph, block %d (byte %d): kind 1", k, at)},
		"a place far off":    {change(layout.SectionPlaces, 8*int64(k+1), word(1<<50)...), true, "graph.place"},
		"a place before":     {change(layout.SectionPlaces, 8*int64(k+1), word(0)...), true, "graph.place"},
		"a negative place":   {change(layout.SectionPlaces, 8*int64(k+1), word(1<<63)...), true, "graph.place"},
		"the first place":    {change(layout.SectionPlaces, 0, word(1)...), true, "the first block is at page 1"},
		"too many edges":     {change(layout.SectionIndex, 16*int64(k+1)+8, word(99_999)...), true, "too large for a block"},
		"edges of one block": {change(layout.SectionIndex, 16*int64(k+1)+8, word(binary.LittleEndian.Uint64(word(0)))...), true, "graph.index"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path, _ := build(t)
			c.change(t, path)
			if c.sealed {
				reseal(t, path)
			}
			rep, err := verify.Store(context.Background(), path, verify.Options{})
			if err != nil {
				t.Fatal(err)
			}
			if rep.OK() || !strings.Contains(fmt.Sprint(rep.Findings), c.want) {
				t.Errorf("found %v, expected %q", rep.Findings, c.want)
			}
		})
	}
}

func TestCompressionRefused(t *testing.T) {
	for _, c := range []string{"zstd:99", "gzip", "zstd:"} {
		o := randomGraph(1, 10, 10, 1).options()
		o.Compression = c
		_, err := Build(context.Background(), filepath.Join(t.TempDir(), "store"), o)
		if err == nil || !strings.Contains(err.Error(), "compression="+c) {
			t.Errorf("%s: err = %v", c, err)
		}
	}
}
