package goagnes_test

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
)

// graphs are those of which images are made.
func graphs() map[string]*rawGraph {
	list := map[string]*rawGraph{"wide": wideGraph()}
	for _, c := range goldenStores {
		g := goldenGraph()
		g.duplicates = c.options.Duplicates
		list[c.name] = g
	}
	return list
}

// touches reports whether one of the reads seen holds a byte of the page.
func touches(seen map[extent]bool, p page) bool {
	for e := range seen {
		if e.path == p.path && e.from < p.at+layout.PageSize && e.to > p.at {
			return true
		}
	}
	return false
}

// blames says what is wrong with the error of a read that touched a damaged page.
func (im *image) blames(err error, p page) string {
	var damage *layout.Error
	if !errors.As(err, &damage) || goagnes.Class(err) != goagnes.ClassStore {
		return fmt.Sprintf("%v (%T)", err, err)
	}
	at := p.number * layout.PageSize
	switch {
	case damage.File != p.file:
		return "another file is named: " + err.Error()
	case p.file == layout.ManifestFile || p.file == layout.StripeFile:
		return ""
	case damage.Offset != at:
		return "another place is named: " + err.Error()
	case p.file == layout.SectionGraph && damage.Block != im.block(at):
		return "another block is named: " + err.Error()
	case p.file != layout.SectionGraph && p.file != layout.ChecksumFile && damage.Block != at/im.m.Settings.BlockSize:
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
			p := plan{fanouts: []int{2, 2}, input: goagnes.InputNodes{IDs: g.splits["train"][:2]}, batch: 1}
			if name != "wide" {
				p.fanouts = []int{2}
			}
			want := g.plain(p, 3).epoch(0)
			epoch := func() error {
				s, err := im.open(goagnes.OpenOptions{Memory: 64 << 20, Scratch: t.TempDir(), NumThreads: 1})
				if err != nil {
					return err
				}
				defer s.Close()
				l, err := goagnes.NewLoader(s, p.options(3))
				if err != nil {
					return err
				}
				defer l.Close()
				if err := l.Start(context.Background()); err != nil {
					return err
				}
				return g.follow(l, p.options(3), 0, want)
			}
			if err := epoch(); err != nil {
				t.Fatalf("a sound store: %v", err)
			}
			pages := im.pages()
			if n := 4 * faults(); len(pages) > n {
				r.Shuffle(len(pages), func(i, j int) { pages[i], pages[j] = pages[j], pages[i] })
				pages = pages[:n]
			}
			stopped, right := 0, 0
			for _, p := range pages {
				b := im.page(p)
				at, bit := r.IntN(len(b)), byte(1)<<r.IntN(8)
				b[at] ^= bit
				im.look()
				err := epoch()
				b[at] ^= bit
				switch touched := touches(im.look(), p); {
				case !touched && err != nil:
					t.Errorf("%s, page %d, is damaged; an epoch that does not read it: %v", p.path, p.number, err)
				case touched && err == nil && p.file != layout.ChecksumFile:
					t.Errorf("%s, page %d, is damaged; an epoch reads it and ends", p.path, p.number)
				case err != nil:
					stopped++
					if fault := im.blames(err, p); fault != "" {
						t.Errorf("%s, page %d, is damaged: %s", p.path, p.number, fault)
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
	s, err := im.open(goagnes.OpenOptions{Memory: 64 << 20, Scratch: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	x := im.m.Section(layout.SectionX)
	internal := valuesOf[uint32](im.section(im.m.Section(layout.SectionInternal)))
	p := g.plain(plan{}, 0)
	pages := map[string][]page{}
	for _, p := range im.pages() {
		pages[p.file] = append(pages[p.file], p)
	}
	refused, right := 0, 0
	outcome := func(what string, touched bool, err error, p page, same bool) {
		t.Helper()
		switch {
		case touched && err == nil:
			t.Errorf("%s reads page %d of %s, which is damaged, and says nothing", what, p.number, p.file)
		case err != nil && !touched:
			t.Errorf("%s does not need page %d of %s: %v", what, p.number, p.file, err)
		case err != nil:
			refused++
			if fault := im.blames(err, p); fault != "" {
				t.Errorf("%s: %s", what, fault)
			}
		case !same:
			t.Errorf("%s beside page %d of %s, which is damaged, gives something else", what, p.number, p.file)
		default:
			right++
		}
	}
	row := make([]byte, x.Stride())
	for range 2 * faults() {
		p := pages[layout.SectionX][r.IntN(len(pages[layout.SectionX]))]
		b := im.page(p)
		at := r.IntN(len(b))
		b[at] ^= 4
		near := p.number * layout.PageSize / x.Stride()
		for v := range int64(g.nodes) {
			i := int64(internal[v])
			if i < near-2 || i > near+4 {
				continue
			}
			first, last := i*x.Stride()/layout.PageSize, ((i+1)*x.Stride()-1)/layout.PageSize
			err := s.ReadNodes(context.Background(), "x", goagnes.Nodes{IDs: []int64{v}}, row)
			outcome(fmt.Sprintf("row %d", i), first <= p.number && p.number <= last, err, p, bytes.Equal(row, g.x[v*x.Stride():(v+1)*x.Stride()]))
		}
		b[at] ^= 4
	}
	sources, edges := make([]int64, 60_000), make([]int64, 60_000)
	for k := range 2 * faults() {
		file := []string{layout.SectionGraph, layout.SectionEdgeID}[k%2]
		p2 := pages[file][r.IntN(len(pages[file]))]
		b := im.page(p2)
		at := r.IntN(len(b))
		b[at] ^= 4
		for range 4 {
			v := r.Int64N(int64(g.nodes))
			im.look()
			n, err := s.Neighbors(context.Background(), v, sources, edges)
			same := err == nil && bytes.Equal(bytesOf(sources[:n]), bytesOf(p.sources[v])) && bytes.Equal(bytesOf(edges[:n]), bytesOf(p.ids[v]))
			outcome(fmt.Sprintf("the in-edges of node %d", v), touches(im.look(), p2), err, p2, same)
		}
		b[at] ^= 4
	}
	if refused < faults() || right < faults() {
		t.Errorf("%d reads were refused, %d were right", refused, right)
	}
	t.Logf("%d reads were refused by name, %d beside the damage were right", refused, right)
}
