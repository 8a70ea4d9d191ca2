package corruption

// Nothing silent: verify finds and names every flipped bit, truncation, swapped
// or misplaced page and page of another build, in every region of every file of
// stores of every form.

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/goagnes/goagnes/goagnes"
	"github.com/goagnes/goagnes/layout"
	"github.com/goagnes/goagnes/tests/fixture/golden"
	"github.com/goagnes/goagnes/tests/fixture/graph"
	"github.com/goagnes/goagnes/tests/fixture/image"
)

// faults is how often a region, or a store, is damaged in each way: the stated
// number, a few with -short.
func faults() int {
	if testing.Short() {
		return 4
	}
	return 50
}

// wideGraph is a graph whose store has checksum tables of several pages, hubs of
// several blocks, blocks that compress, ids that were ranked, and gaps in its edge ids.
func wideGraph() *graph.Graph {
	r := rand.New(rand.NewPCG(21, 22))
	g := &graph.Graph{Nodes: 1500, XType: layout.Float32, XShape: []int64{750}, YType: layout.Int64, SelfLoops: "drop"}
	for v := range int64(g.Nodes) { // every id occurs, so that ranks are the ids
		g.Src, g.Dst = append(g.Src, v), append(g.Dst, (v+1)%int64(g.Nodes))
	}
	for range 9000 {
		g.Src, g.Dst = append(g.Src, r.Int64N(r.Int64N(1500)+1)), append(g.Dst, r.Int64N(1500))
	}
	for _, hub := range []int64{3, 700} {
		for range 25_000 {
			g.Src, g.Dst = append(g.Src, r.Int64N(1500)), append(g.Dst, hub)
		}
	}
	return g.Fill(r).Draw(r, "train", 10)
}

// wideOptions are those of its store.
func wideOptions(stripes []string) goagnes.BuildOptions {
	return goagnes.BuildOptions{BlockSize: 16 << 10, Order: "degree", Compression: "zstd", IDs: "rank", Stripes: stripes}
}

// images are stores of every form: the golden ones, and the wide one.
func images(t *testing.T) map[string]*image.Image {
	t.Helper()
	list := map[string]*image.Image{}
	for _, c := range golden.Stores {
		list[c.Name] = c.Read(t)
	}
	var dirs []string
	for range 3 {
		dirs = append(dirs, t.TempDir())
	}
	list["wide"] = image.Build(t, wideGraph(), wideOptions(dirs))
	return list
}

// TestRegions holds the classes against what the format's specification lists.
func TestRegions(t *testing.T) {
	var names strings.Builder
	for _, im := range images(t) {
		for _, r := range image.Regions(t, im) {
			names.WriteString(r.Name + "\n")
		}
	}
	for _, want := range []string{
		"graph: header of a block", "graph: ends of objects", "graph: original ids", "graph: neighbour ids", "graph: rest of a block",
		"graph: header of a hub", "graph: degree and original id of a hub", "graph: padding of a hub", "graph: neighbour ids of a hub",
		"graph: header of a compressed block", "graph: zstd frame", "graph.index: entries", "graph.place: rows", "edge.id: rows", "ids: rows",
		"node.original: rows", "node.internal: rows", "node.in_degree: rows", "node.x: rows", "node.y: rows", "split.train: rows",
		"node.x: padding of the file", "CHECKSUMS: page table of node.x", "CHECKSUMS: padding of the root table of graph", "MANIFEST: body", "STRIPE: build id",
	} {
		if !strings.Contains(names.String(), want+"\n") {
			t.Errorf("no store has a region %q", want)
		}
	}
}

// misnamed says what a report of a fault in a region must name and does not, "" if
// it names it.
func misnamed(r *image.Region, im *image.Image, report *goagnes.VerifyReport, path string, offset, at int64) string {
	if len(report.Findings) != 1 {
		return fmt.Sprintf("%d findings: %v", len(report.Findings), report.Findings)
	}
	f := report.Findings[0]
	page, block := at/layout.PageSize, at/layout.PageSize
	if r.File == layout.SectionGraph {
		block = im.Block(at)
	}
	switch {
	case f.File != r.File:
		return "found in another file: " + f.String()
	case r.File == layout.ManifestFile && f.Offset != r.Part:
		return fmt.Sprintf("found in another part of it, want byte %d: %v", r.Part, f)
	case r.File == layout.StripeFile && !strings.Contains(f.Message, filepath.Dir(path)):
		return "found in no directory: " + f.String()
	case r.File != layout.ManifestFile && r.File != layout.StripeFile && (f.Block != block || f.Offset != page*layout.PageSize):
		return fmt.Sprintf("found elsewhere, want page %d, block %d: %v", page, block, f)
	}
	return ""
}

// TestFlippedBits flips single bits in every region of every store.
func TestFlippedBits(t *testing.T) {
	list, known := images(t), map[string]bool{}
	for name, im := range list {
		for _, r := range image.Regions(t, im) {
			known[r.Name] = known[r.Name] || name != "wide"
		}
	}
	for name, im := range list {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if report := im.Verify(t); !report.OK() {
				t.Fatalf("a sound store: %v", report.Findings)
			}
			r := rand.New(rand.NewPCG(1, uint64(len(name))))
			flips, classes := 0, image.Regions(t, im)
			for _, c := range classes {
				bits, most := c.Bytes()*8, int64(faults())
				if name == "wide" && known[c.Name] { // it takes long to verify
					most = 10
				}
				for k := range min(most, bits) {
					bit := k // all of a small region
					if bits > most {
						bit = []int64{0, bits - 1, r.Int64N(bits)}[min(k, 2)]
					}
					path, offset, at := c.Place(bit / 8)
					b := im.Files[path]
					b[offset] ^= 1 << (bit % 8)
					if fault := misnamed(c, im, im.Verify(t), path, offset, at); fault != "" {
						t.Errorf("%s, bit %d of byte %d: %s", c.Name, bit%8, offset, fault)
					}
					b[offset] ^= 1 << (bit % 8)
					flips++
				}
			}
			if report := im.Verify(t); !report.OK() {
				t.Fatalf("the store made whole again: %v", report.Findings)
			}
			t.Logf("%d flips in %d regions of %d files", flips, len(classes), len(im.Files))
		})
	}
}

// TestTruncations cuts every file, lengthens it and takes it away.
func TestTruncations(t *testing.T) {
	for name, im := range images(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := rand.New(rand.NewPCG(2, uint64(len(name))))
			cut := func(path string, b []byte) {
				whole := im.Files[path]
				im.Files[path] = b
				defer func() { im.Files[path] = whole }()
				if b == nil && image.FileName(path) == layout.ManifestFile {
					if _, err := im.Open(goagnes.OpenOptions{}); goagnes.Class(err) != "store" {
						t.Errorf("no manifest: %v", err)
					}
					return
				}
				report := im.Verify(t)
				if report.OK() || report.Findings[0].File != image.FileName(path) {
					t.Errorf("%s: %d bytes of %d: found %v", path, len(b), len(whole), report.Findings)
					return
				}
				if f := report.Findings[0]; len(im.Stripes) > 0 && filepath.Dir(path) != im.Dir && !strings.Contains(f.Message, filepath.Dir(path)) {
					t.Errorf("%s: %d bytes of %d: the directory is not named: %v", path, len(b), len(whole), f)
				}
			}
			paths, done := im.Paths(), 0
			for done < max(faults(), 5*len(paths)) {
				for _, path := range paths {
					b := im.Files[path]
					n := int64(len(b))
					sizes := []int64{0, n - 1, max(n-layout.PageSize, 0), r.Int64N(n), r.Int64N(n)}
					cut(path, b[:sizes[done/len(paths)%len(sizes)]:n])
					done++
				}
			}
			for _, path := range paths {
				cut(path, append(bytes.Clone(im.Files[path]), make([]byte, layout.PageSize)...))
				cut(path, append(bytes.Clone(im.Files[path]), 0))
				cut(path, nil)
			}
			if report := im.Verify(t); !report.OK() {
				t.Fatalf("the store made whole again: %v", report.Findings)
			}
			t.Logf("%d cuts of %d files", done, len(paths))
		})
	}
}

// TestMisplacedPages swaps pages, and puts copies of pages in the place of
// others: of the same file, of other files, whole graph blocks.
func TestMisplacedPages(t *testing.T) {
	for name, im := range images(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := rand.New(rand.NewPCG(3, uint64(len(name))))
			all := im.Pages()
			byFile := map[string][]image.Page{}
			for _, p := range all {
				byFile[p.File] = append(byFile[p.File], p)
			}
			try := func(what string, changes ...image.Change) bool {
				for _, c := range changes {
					if bytes.Equal(im.Page(c.Page), c.To) {
						return false
					}
				}
				if fault := im.Planted(t, changes...); fault != "" {
					t.Errorf("%s: page %d of %s: %s", what, changes[0].Number, changes[0].Path, fault)
				}
				return true
			}
			swap := func(what string, a, b image.Page) bool {
				return a != b && try(what, image.Change{Page: a, To: bytes.Clone(im.Page(b))}, image.Change{Page: b, To: bytes.Clone(im.Page(a))})
			}
			done := map[string]int{}
			for i := 0; i < 40*faults() && slices.Min([]int{done["swap"], done["swap in the file"], done["copy"], done["copy in the file"]}) < faults(); i++ {
				a, b := all[r.IntN(len(all))], all[r.IntN(len(all))]
				near := byFile[a.File][r.IntN(len(byFile[a.File]))]
				for what, ok := range map[string]bool{
					"swap": swap("swap", a, b), "swap in the file": swap("swap in the file", a, near),
					"copy": try("copy", image.Change{Page: a, To: bytes.Clone(im.Page(b))}), "copy in the file": try("copy in the file", image.Change{Page: a, To: bytes.Clone(im.Page(near))}),
				} {
					if ok {
						done[what]++
					}
				}
			}
			// Blocks in the places of blocks as long.
			section, blocks := im.Manifest.Section(layout.SectionGraph), im.Blocks()
			for i, a := range blocks {
				for _, b := range blocks[i+1:] {
					if a.Bytes != b.Bytes || done["graph blocks"] >= faults() {
						continue
					}
					var both []image.Change
					for p := range a.Bytes / layout.PageSize {
						at := func(k image.Block) image.Page {
							e := im.Spread(section, k.At+p*layout.PageSize, layout.PageSize)[0]
							return image.Page{File: section.File, Number: k.At/layout.PageSize + p, Path: e.Path, At: e.From}
						}
						x, y := at(a), at(b)
						if !bytes.Equal(im.Page(x), im.Page(y)) {
							both = append(both, image.Change{Page: x, To: bytes.Clone(im.Page(y))}, image.Change{Page: y, To: bytes.Clone(im.Page(x))})
						}
					}
					if len(both) > 0 && try("graph blocks", both...) {
						done["graph blocks"]++
					}
				}
			}
			if done["swap"] < faults() || done["copy"] < faults() || done["swap in the file"] < faults() || done["graph blocks"] == 0 && len(blocks) > 1 {
				t.Errorf("too few were tried: %v", done)
			}
			t.Logf("of %d pages: %v", len(all), done)
		})
	}
}

// builds are builds of almost the same: each differs from the first in one thing.
func builds(t *testing.T, of *graph.Graph, o goagnes.BuildOptions) (first *image.Image, others map[string]*image.Image) {
	t.Helper()
	first, others = image.Build(t, of, o), map[string]*image.Image{}
	other := func(name string, change func(g *graph.Graph, o *goagnes.BuildOptions)) {
		c, p := *of, o
		c.Src, c.Dst, c.X, c.Y = slices.Clone(of.Src), slices.Clone(of.Dst), bytes.Clone(of.X), bytes.Clone(of.Y)
		change(&c, &p)
		others[name] = image.Build(t, &c, p)
	}
	other("another order", func(_ *graph.Graph, o *goagnes.BuildOptions) { o.Order = "bfs" })
	other("another seed", func(g *graph.Graph, _ *goagnes.BuildOptions) { // of arrays and splits
		r := rand.New(rand.NewPCG(77, 78))
		train := g.Fill(r).Draw(r, "train", 10).Splits["train"]
		if g.Splits = map[string][]int64{"train": train}; of.Splits["val"] != nil {
			g.Splits["val"] = train[1:3]
		}
	})
	other("another feature", func(g *graph.Graph, _ *goagnes.BuildOptions) { g.X[len(g.X)/2] ^= 1 })
	other("another label", func(g *graph.Graph, _ *goagnes.BuildOptions) {
		binary.LittleEndian.PutUint64(g.Y[80:], binary.LittleEndian.Uint64(g.Y[80:])^1)
	})
	other("another edge", func(g *graph.Graph, _ *goagnes.BuildOptions) { e := len(g.Src) / 3; g.Src[e] = (g.Src[e] + 1) % 50 })
	return first, others
}

// TestPagesOfAnotherBuild puts pages and whole sections of builds that differ in
// order, seed or one value into their own places in the first.
func TestPagesOfAnotherBuild(t *testing.T) {
	for name, of := range map[string]struct {
		graph   *graph.Graph
		options goagnes.BuildOptions
	}{
		"small": {golden.Graph(), goagnes.BuildOptions{Order: "degree", BlockSize: 4096}},
		"wide":  {wideGraph(), wideOptions(nil)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			first, others := builds(t, of.graph, of.options)
			planted := 0
			for what, other := range others {
				if other.Manifest.ID == first.Manifest.ID {
					t.Errorf("%s: the same build id", what)
				}
				var differ []image.Change
				for _, p := range first.Pages() {
					q := p
					q.Path = other.Path(p.File)
					if p.At+layout.PageSize <= int64(len(other.Files[q.Path])) && !bytes.Equal(first.Page(p), other.Page(q)) {
						differ = append(differ, image.Change{Page: p, To: other.Page(q)})
					}
				}
				salted, value := 0, 0
				for _, c := range differ {
					switch c.File {
					case layout.ChecksumFile:
						salted++
					case layout.ManifestFile:
					default:
						value++
					}
				}
				if pages := len(first.Files[first.Path(layout.ChecksumFile)]) / layout.PageSize; salted != pages {
					t.Errorf("%s: %d pages of checksums of %d differ: the build id does not enter the others", what, salted, pages)
				}
				if strings.Contains(what, "feature") || strings.Contains(what, "label") {
					if value != 1 {
						t.Errorf("%s: %d pages of sections differ", what, value)
					}
				}
				r := rand.New(rand.NewPCG(4, uint64(len(what))))
				r.Shuffle(len(differ), func(i, j int) { differ[i], differ[j] = differ[j], differ[i] })
				for _, c := range differ[:min(len(differ), faults())] {
					if fault := first.Planted(t, c); fault != "" {
						t.Errorf("%s: page %d of %s: %s", what, c.Number, c.File, fault)
					}
					planted++
				}
				// A whole section with the checksums that it had, and its data alone.
				for i := range first.Manifest.Sections {
					s := &first.Manifest.Sections[i]
					o := other.Manifest.Section(s.Name)
					if o == nil || o.FileBytes() != s.FileBytes() || o.ChecksumOffset != s.ChecksumOffset {
						continue
					}
					damaged := first.Copy()
					damaged.Files[first.Path(s.File)] = other.Files[other.Path(s.File)]
					table, tableBytes, _, rootBytes := s.Checksums()
					copy(damaged.Files[first.Path(layout.ChecksumFile)][table:table+tableBytes+rootBytes], other.Files[other.Path(layout.ChecksumFile)][table:])
					report := damaged.Verify(t)
					if report.OK() || !strings.Contains(fmt.Sprint(report.Findings), fmt.Sprintf("%q", s.Name)) || report.Findings[0].File != layout.ChecksumFile {
						t.Errorf("%s: section %q with its checksums: %v", what, s.Name, report.Findings)
					}
					planted++
				}
				for _, file := range []string{layout.ManifestFile, layout.ChecksumFile} { // all of it, and all of both
					damaged := first.Copy()
					damaged.Files[first.Path(file)] = other.Files[other.Path(file)]
					if report := damaged.Verify(t); report.OK() {
						t.Errorf("%s: the whole %s: nothing is found", what, file)
					}
				}
			}
			t.Logf("%d pages and sections of %d builds", planted, len(others))
		})
	}
}
