package corruption

// Ordinary reads of a damaged store: those that touch the damage stop and name
// it, all others give what is right. What is touched, the file system tells.

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/goagnes/goagnes/goagnes"
	"github.com/goagnes/goagnes/layout"
	"github.com/goagnes/goagnes/tests/fixture/golden"
	"github.com/goagnes/goagnes/tests/fixture/graph"
	"github.com/goagnes/goagnes/tests/fixture/image"
)

// graphs are those of which images are made.
func graphs() map[string]*graph.Graph {
	list := map[string]*graph.Graph{"wide": wideGraph()}
	for _, c := range golden.Stores {
		g := golden.Graph()
		g.Duplicates = c.Options.Duplicates
		list[c.Name] = g
	}
	return list
}

// touches reports whether one of the reads seen holds a byte of the page.
func touches(seen map[image.Extent]bool, p image.Page) bool {
	for e := range seen {
		if e.Path == p.Path && e.From < p.At+layout.PageSize && e.To > p.At {
			return true
		}
	}
	return false
}

// blames says what is wrong with the error of a read that touched a damaged page.
func blames(im *image.Image, err error, p image.Page) string {
	var damage *layout.Error
	if !errors.As(err, &damage) || goagnes.Class(err) != goagnes.ClassStore {
		return fmt.Sprintf("%v (%T)", err, err)
	}
	at := p.Number * layout.PageSize
	switch {
	case damage.File != p.File:
		return "another file is named: " + err.Error()
	case p.File == layout.ManifestFile || p.File == layout.StripeFile:
		return ""
	case damage.Offset != at:
		return "another place is named: " + err.Error()
	case p.File == layout.SectionGraph && damage.Block != im.Block(at):
		return "another block is named: " + err.Error()
	case p.File != layout.SectionGraph && p.File != layout.ChecksumFile && damage.Block != at/im.Manifest.Settings.BlockSize:
		return "another block is named: " + err.Error()
	}
	return ""
}

// TestEpochOfDamagedStore flips a bit of one page after the other and runs an
// epoch over a few seeds each time.
func TestEpochOfDamagedStore(t *testing.T) {
	all := graphs()
	for name, im := range images(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g, r := all[name], rand.New(rand.NewPCG(5, uint64(len(name))))
			p := graph.Plan{Fanouts: []int{2, 2}, Input: goagnes.InputNodes{IDs: g.Splits["train"][:2]}, Batch: 1}
			if name != "wide" {
				p.Fanouts = []int{2}
			}
			want := g.Plain(p, 3).Epoch(0)
			epoch := func() error {
				s, err := im.Open(goagnes.OpenOptions{Memory: 64 << 20, Scratch: t.TempDir(), NumThreads: 1})
				if err != nil {
					return err
				}
				defer s.Close()
				l, err := goagnes.NewLoader(s, p.Options(3))
				if err != nil {
					return err
				}
				defer l.Close()
				if err := l.Start(context.Background()); err != nil {
					return err
				}
				return g.Follow(l, p.Options(3), 0, want)
			}
			if err := epoch(); err != nil {
				t.Fatalf("a sound store: %v", err)
			}
			pages := im.Pages()
			if n := 4 * faults(); len(pages) > n {
				r.Shuffle(len(pages), func(i, j int) { pages[i], pages[j] = pages[j], pages[i] })
				pages = pages[:n]
			}
			stopped, right := 0, 0
			for _, p := range pages {
				b := im.Page(p)
				at, bit := r.IntN(len(b)), byte(1)<<r.IntN(8)
				b[at] ^= bit
				im.Look()
				err := epoch()
				b[at] ^= bit
				switch touched := touches(im.Look(), p); {
				case !touched && err != nil:
					t.Errorf("%s, page %d, is damaged; an epoch that does not read it: %v", p.Path, p.Number, err)
				case touched && err == nil && p.File != layout.ChecksumFile:
					t.Errorf("%s, page %d, is damaged; an epoch reads it and ends", p.Path, p.Number)
				case err != nil:
					stopped++
					if fault := blames(im, err, p); fault != "" {
						t.Errorf("%s, page %d, is damaged: %s", p.Path, p.Number, fault)
					}
				default:
					right++
				}
			}
			if stopped == 0 || right == 0 {
				t.Errorf("%d epochs were stopped, %d were right: a test of both needs some", stopped, right)
			}
			t.Logf("%d pages: %d stopped the epoch and were named, %d were not read", len(pages), stopped, right)
		})
	}
}

// TestNodesOfDamagedStore reads single rows around a damaged page: those that
// have bytes in it are refused and no others, and in-edges likewise.
func TestNodesOfDamagedStore(t *testing.T) {
	im, g := images(t)["wide"], wideGraph()
	r := rand.New(rand.NewPCG(6, 6))
	s, err := im.Open(goagnes.OpenOptions{Memory: 64 << 20, Scratch: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	x := im.Manifest.Section(layout.SectionX)
	internal := graph.ValuesOf[uint32](im.Section(im.Manifest.Section(layout.SectionInternal)))
	p := g.Plain(graph.Plan{}, 0)
	pages := map[string][]image.Page{}
	for _, p := range im.Pages() {
		pages[p.File] = append(pages[p.File], p)
	}
	refused, right := 0, 0
	outcome := func(what string, touched bool, err error, p image.Page, same bool) {
		t.Helper()
		switch {
		case touched && err == nil:
			t.Errorf("%s reads page %d of %s, which is damaged, and says nothing", what, p.Number, p.File)
		case err != nil && !touched:
			t.Errorf("%s does not need page %d of %s: %v", what, p.Number, p.File, err)
		case err != nil:
			refused++
			if fault := blames(im, err, p); fault != "" {
				t.Errorf("%s: %s", what, fault)
			}
		case !same:
			t.Errorf("%s beside page %d of %s, which is damaged, gives something else", what, p.Number, p.File)
		default:
			right++
		}
	}
	row := make([]byte, x.Stride())
	for range 2 * faults() {
		p := pages[layout.SectionX][r.IntN(len(pages[layout.SectionX]))]
		b := im.Page(p)
		at := r.IntN(len(b))
		b[at] ^= 4
		near := p.Number * layout.PageSize / x.Stride()
		for v := range int64(g.Nodes) {
			i := int64(internal[v])
			if i < near-2 || i > near+4 {
				continue
			}
			first, last := i*x.Stride()/layout.PageSize, ((i+1)*x.Stride()-1)/layout.PageSize
			err := s.ReadNodes(context.Background(), "x", goagnes.Nodes{IDs: []int64{v}}, row)
			outcome(fmt.Sprintf("row %d", i), first <= p.Number && p.Number <= last, err, p, bytes.Equal(row, g.X[v*x.Stride():(v+1)*x.Stride()]))
		}
		b[at] ^= 4
	}
	sources, edges := make([]int64, 60_000), make([]int64, 60_000)
	for k := range 2 * faults() {
		file := []string{layout.SectionGraph, layout.SectionEdgeID}[k%2]
		p2 := pages[file][r.IntN(len(pages[file]))]
		b := im.Page(p2)
		at := r.IntN(len(b))
		b[at] ^= 4
		for range 4 {
			v := r.Int64N(int64(g.Nodes))
			im.Look()
			n, err := s.Neighbors(context.Background(), v, sources, edges)
			same := err == nil && bytes.Equal(graph.BytesOf(sources[:n]), graph.BytesOf(p.Sources[v])) && bytes.Equal(graph.BytesOf(edges[:n]), graph.BytesOf(p.IDs[v]))
			outcome(fmt.Sprintf("the in-edges of node %d", v), touches(im.Look(), p2), err, p2, same)
		}
		b[at] ^= 4
	}
	if refused < faults() || right < faults() {
		t.Errorf("%d reads were refused, %d were right", refused, right)
	}
	t.Logf("%d reads were refused by name, %d beside the damage were right", refused, right)
}
