package goagnes_test

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
func wideGraph() *rawGraph {
	r := rand.New(rand.NewPCG(21, 22))
	g := &rawGraph{nodes: 1500, xType: layout.Float32, xShape: []int64{750}, yType: layout.Int64, selfLoops: "drop"}
	for v := range int64(g.nodes) { // every id occurs, so that ranks are the ids
		g.src, g.dst = append(g.src, v), append(g.dst, (v+1)%int64(g.nodes))
	}
	for range 9000 {
		g.src, g.dst = append(g.src, r.Int64N(r.Int64N(1500)+1)), append(g.dst, r.Int64N(1500))
	}
	for _, hub := range []int64{3, 700} {
		for range 25_000 {
			g.src, g.dst = append(g.src, r.Int64N(1500)), append(g.dst, hub)
		}
	}
	return g.fill(r).draw(r, "train", 10)
}

// wideOptions are those of its store.
func wideOptions(stripes []string) goagnes.BuildOptions {
	return goagnes.BuildOptions{BlockSize: 16 << 10, Order: "degree", Compression: "zstd", IDs: "rank", Stripes: stripes}
}

// image builds a store in directories of its own.
func (g *rawGraph) image(t testing.TB, o goagnes.BuildOptions) *image {
	t.Helper()
	path := filepath.Join(t.TempDir(), "store")
	g.build(t, path, o)
	b := readImage(t, path, nil)
	if len(o.Stripes) > 0 {
		b = readImage(t, path, b.m.Stripes)
	}
	return b
}

// images are stores of every form: the golden ones, and the wide one.
func images(t *testing.T) map[string]*image {
	t.Helper()
	list := map[string]*image{}
	for _, c := range goldenStores {
		path := filepath.Join("testdata", "stores", c.name)
		list[c.name] = readImage(t, path, stripeNames(path, c.stripes))
	}
	var dirs []string
	for range 3 {
		dirs = append(dirs, t.TempDir())
	}
	list["wide"] = wideGraph().image(t, wideOptions(dirs))
	return list
}

// TestRegions holds the classes against what the format's specification lists.
func TestRegions(t *testing.T) {
	var names strings.Builder
	for _, im := range images(t) {
		for _, r := range findRegions(t, im) {
			names.WriteString(r.name + "\n")
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

// names says what a report must name and does not, "" if it names it.
func (r *region) names(im *image, report *goagnes.VerifyReport, path string, offset, at int64) string {
	if len(report.Findings) != 1 {
		return fmt.Sprintf("%d findings: %v", len(report.Findings), report.Findings)
	}
	f := report.Findings[0]
	page, block := at/layout.PageSize, at/layout.PageSize
	if r.file == layout.SectionGraph {
		block = im.block(at)
	}
	switch {
	case f.File != r.file:
		return "found in another file: " + f.String()
	case r.file == layout.ManifestFile && f.Offset != r.part:
		return fmt.Sprintf("found in another part of it, want byte %d: %v", r.part, f)
	case r.file == layout.StripeFile && !strings.Contains(f.Message, filepath.Dir(path)):
		return "found in no directory: " + f.String()
	case r.file != layout.ManifestFile && r.file != layout.StripeFile && (f.Block != block || f.Offset != page*layout.PageSize):
		return fmt.Sprintf("found elsewhere, want page %d, block %d: %v", page, block, f)
	}
	return ""
}

// TestFlippedBits flips single bits in every region of every store.
func TestFlippedBits(t *testing.T) {
	list, golden := images(t), map[string]bool{}
	for name, im := range list {
		for _, r := range findRegions(t, im) {
			golden[r.name] = golden[r.name] || name != "wide"
		}
	}
	for name, im := range list {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if report := im.verify(t); !report.OK() {
				t.Fatalf("a sound store: %v", report.Findings)
			}
			r := rand.New(rand.NewPCG(1, uint64(len(name))))
			flips, classes := 0, findRegions(t, im)
			for _, c := range classes {
				bits, most := c.bytes()*8, int64(faults())
				if name == "wide" && golden[c.name] { // it takes long to verify
					most = 10
				}
				for k := range min(most, bits) {
					bit := k // all of a small region
					if bits > most {
						bit = []int64{0, bits - 1, r.Int64N(bits)}[min(k, 2)]
					}
					path, offset, at := c.place(bit / 8)
					b := im.files[path]
					b[offset] ^= 1 << (bit % 8)
					if fault := c.names(im, im.verify(t), path, offset, at); fault != "" {
						t.Errorf("%s, bit %d of byte %d: %s", c.name, bit%8, offset, fault)
					}
					b[offset] ^= 1 << (bit % 8)
					flips++
				}
			}
			if report := im.verify(t); !report.OK() {
				t.Fatalf("the store made whole again: %v", report.Findings)
			}
			t.Logf("%d flips in %d regions of %d files", flips, len(classes), len(im.files))
		})
	}
}

// fileNamed returns the name that findings give a file: that of the file itself.
func fileNamed(path string) string { return filepath.Base(path) }

// paths returns the files of an image that hold anything, sorted.
func (im *image) paths() (list []string) {
	for path, b := range im.files {
		if len(b) > 0 {
			list = append(list, path)
		}
	}
	slices.Sort(list)
	return list
}

// TestTruncations cuts every file, lengthens it and takes it away.
func TestTruncations(t *testing.T) {
	for name, im := range images(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := rand.New(rand.NewPCG(2, uint64(len(name))))
			cut := func(path string, b []byte) {
				whole := im.files[path]
				im.files[path] = b
				defer func() { im.files[path] = whole }()
				if b == nil && fileNamed(path) == layout.ManifestFile {
					if _, err := im.open(goagnes.OpenOptions{}); goagnes.Class(err) != "store" {
						t.Errorf("no manifest: %v", err)
					}
					return
				}
				report := im.verify(t)
				if report.OK() || report.Findings[0].File != fileNamed(path) {
					t.Errorf("%s: %d bytes of %d: found %v", path, len(b), len(whole), report.Findings)
					return
				}
				if f := report.Findings[0]; len(im.stripes) > 0 && filepath.Dir(path) != im.dir && !strings.Contains(f.Message, filepath.Dir(path)) {
					t.Errorf("%s: %d bytes of %d: the directory is not named: %v", path, len(b), len(whole), f)
				}
			}
			paths, done := im.paths(), 0
			for done < max(faults(), 5*len(paths)) {
				for _, path := range paths {
					b := im.files[path]
					n := int64(len(b))
					sizes := []int64{0, n - 1, max(n-layout.PageSize, 0), r.Int64N(n), r.Int64N(n)}
					cut(path, b[:sizes[done/len(paths)%len(sizes)]:n])
					done++
				}
			}
			for _, path := range paths {
				cut(path, append(bytes.Clone(im.files[path]), make([]byte, layout.PageSize)...))
				cut(path, append(bytes.Clone(im.files[path]), 0))
				cut(path, nil)
			}
			if report := im.verify(t); !report.OK() {
				t.Fatalf("the store made whole again: %v", report.Findings)
			}
			t.Logf("%d cuts of %d files", done, len(paths))
		})
	}
}

// page is a page of a store: of a section by its place there, of another file by
// its place in it.
type page struct {
	file   string // that findings name
	number int64
	path   string
	at     int64 // in the file
}

// pages returns all pages of a store.
func (im *image) pages() (list []page) {
	for i := range im.m.Sections {
		s := &im.m.Sections[i]
		for p := range layout.Pages(s.FileBytes()) {
			e := im.spread(s, p*layout.PageSize, layout.PageSize)[0]
			list = append(list, page{s.File, p, e.path, e.from})
		}
	}
	for _, path := range im.paths() {
		if name := fileNamed(path); name == layout.ManifestFile || name == layout.ChecksumFile || name == layout.StripeFile {
			for p := range int64(len(im.files[path]) / layout.PageSize) {
				list = append(list, page{name, p, path, p * layout.PageSize})
			}
		}
	}
	return list
}

func (im *image) page(p page) []byte { return im.files[p.path][p.at:][:layout.PageSize] }

// change is a page and what it is to hold.
type change struct {
	page
	to []byte
}

// shadow adds the pages of which nothing can be said for sure where a page of the
// checksum file is damaged: those that it covers.
func (im *image) shadow(number int64, hidden map[string]bool) {
	for i := range im.m.Sections {
		s := &im.m.Sections[i]
		table, _, root, rootBytes := s.Checksums()
		first, last, end := table/layout.PageSize, root/layout.PageSize, (root+rootBytes)/layout.PageSize
		switch {
		case number < first || number >= end:
			continue
		case number >= last:
			for p := first; p < last; p++ {
				hidden[fmt.Sprint(layout.ChecksumFile, " ", p)] = true
				im.shadow(p, hidden)
			}
		default:
			for p := range int64(layout.PagesPerTablePage) {
				hidden[fmt.Sprint(s.File, " ", (number-first)*layout.PagesPerTablePage+p)] = true
			}
		}
	}
}

// planted makes changes, and says what verification finds wrongly of them: each
// page must be named, and no other.
func (im *image) planted(t testing.TB, changes ...change) string {
	t.Helper()
	want, hidden := map[string]bool{}, map[string]bool{}
	before := make([][]byte, len(changes))
	for i, c := range changes {
		b := im.page(c.page)
		before[i] = bytes.Clone(b)
		if bytes.Equal(b, c.to) {
			t.Fatalf("%s, page %d: nothing is changed", c.path, c.number)
		}
		copy(b, c.to)
		key := fmt.Sprint(c.file, " ", c.number)
		switch c.file {
		case layout.ManifestFile, layout.StripeFile: // named as a whole
			key = c.file
		}
		want[key] = true
		if c.file == layout.ChecksumFile {
			im.shadow(c.number, hidden)
		}
	}
	report := im.verify(t)
	for i := len(changes) - 1; i >= 0; i-- {
		copy(im.page(changes[i].page), before[i])
	}
	got := map[string]bool{}
	for _, f := range report.Findings {
		switch {
		case f.File == layout.ManifestFile || f.File == layout.StripeFile:
			got[f.File] = true
		default:
			got[fmt.Sprint(f.File, " ", f.Offset/layout.PageSize)] = true
		}
	}
	if want[layout.ManifestFile] { // without it nothing else is read
		want = map[string]bool{layout.ManifestFile: true}
	} else if want[layout.StripeFile] {
		want = map[string]bool{layout.StripeFile: true}
	}
	for key := range want {
		if !got[key] && !hidden[key] {
			return fmt.Sprintf("%s is not named: %v", key, report.Findings)
		}
	}
	for key := range got {
		if !want[key] && !hidden[key] {
			return fmt.Sprintf("%s is named, and is whole: %v", key, report.Findings)
		}
	}
	return ""
}

// TestMisplacedPages swaps pages, and puts copies of pages in the place of
// others: of the same file, of other files, whole graph blocks.
func TestMisplacedPages(t *testing.T) {
	for name, im := range images(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := rand.New(rand.NewPCG(3, uint64(len(name))))
			all := im.pages()
			byFile := map[string][]page{}
			for _, p := range all {
				byFile[p.file] = append(byFile[p.file], p)
			}
			try := func(what string, changes ...change) bool {
				for _, c := range changes {
					if bytes.Equal(im.page(c.page), c.to) {
						return false
					}
				}
				if fault := im.planted(t, changes...); fault != "" {
					t.Errorf("%s: page %d of %s: %s", what, changes[0].number, changes[0].path, fault)
				}
				return true
			}
			swap := func(what string, a, b page) bool {
				return a != b && try(what, change{a, bytes.Clone(im.page(b))}, change{b, bytes.Clone(im.page(a))})
			}
			done := map[string]int{}
			for i := 0; i < 40*faults() && slices.Min([]int{done["swap"], done["swap in the file"], done["copy"], done["copy in the file"]}) < faults(); i++ {
				a, b := all[r.IntN(len(all))], all[r.IntN(len(all))]
				near := byFile[a.file][r.IntN(len(byFile[a.file]))]
				for what, ok := range map[string]bool{
					"swap": swap("swap", a, b), "swap in the file": swap("swap in the file", a, near),
					"copy": try("copy", change{a, bytes.Clone(im.page(b))}), "copy in the file": try("copy in the file", change{a, bytes.Clone(im.page(near))}),
				} {
					if ok {
						done[what]++
					}
				}
			}
			// Blocks in the places of blocks as long.
			graph, blocks := im.m.Section(layout.SectionGraph), im.blocks()
			for i, a := range blocks {
				for _, b := range blocks[i+1:] {
					if a.bytes != b.bytes || done["graph blocks"] >= faults() {
						continue
					}
					var both []change
					for p := range a.bytes / layout.PageSize {
						at := func(k block) page {
							e := im.spread(graph, k.at+p*layout.PageSize, layout.PageSize)[0]
							return page{graph.File, k.at/layout.PageSize + p, e.path, e.from}
						}
						x, y := at(a), at(b)
						if !bytes.Equal(im.page(x), im.page(y)) {
							both = append(both, change{x, bytes.Clone(im.page(y))}, change{y, bytes.Clone(im.page(x))})
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
func builds(t *testing.T, of *rawGraph, o goagnes.BuildOptions) (first *image, others map[string]*image) {
	t.Helper()
	first, others = of.image(t, o), map[string]*image{}
	other := func(name string, change func(g *rawGraph, o *goagnes.BuildOptions)) {
		c, p := *of, o
		c.src, c.dst, c.x, c.y = slices.Clone(of.src), slices.Clone(of.dst), bytes.Clone(of.x), bytes.Clone(of.y)
		change(&c, &p)
		others[name] = c.image(t, p)
	}
	other("another order", func(_ *rawGraph, o *goagnes.BuildOptions) { o.Order = "bfs" })
	other("another seed", func(g *rawGraph, _ *goagnes.BuildOptions) { // of arrays and splits
		r := rand.New(rand.NewPCG(77, 78))
		train := g.fill(r).draw(r, "train", 10).splits["train"]
		if g.splits = map[string][]int64{"train": train}; of.splits["val"] != nil {
			g.splits["val"] = train[1:3]
		}
	})
	other("another feature", func(g *rawGraph, _ *goagnes.BuildOptions) { g.x[len(g.x)/2] ^= 1 })
	other("another label", func(g *rawGraph, _ *goagnes.BuildOptions) {
		binary.LittleEndian.PutUint64(g.y[80:], binary.LittleEndian.Uint64(g.y[80:])^1)
	})
	other("another edge", func(g *rawGraph, _ *goagnes.BuildOptions) { e := len(g.src) / 3; g.src[e] = (g.src[e] + 1) % 50 })
	return first, others
}

// TestPagesOfAnotherBuild puts pages and whole sections of builds that differ in
// order, seed or one value into their own places in the first.
func TestPagesOfAnotherBuild(t *testing.T) {
	for name, of := range map[string]struct {
		graph   *rawGraph
		options goagnes.BuildOptions
	}{
		"small": {goldenGraph(), goagnes.BuildOptions{Order: "degree", BlockSize: 4096}},
		"wide":  {wideGraph(), wideOptions(nil)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			first, others := builds(t, of.graph, of.options)
			planted := 0
			for what, other := range others {
				if other.m.ID == first.m.ID {
					t.Errorf("%s: the same build id", what)
				}
				var differ []change
				for _, p := range first.pages() {
					q := p
					q.path = other.path(p.file)
					if p.at+layout.PageSize <= int64(len(other.files[q.path])) && !bytes.Equal(first.page(p), other.page(q)) {
						differ = append(differ, change{p, other.page(q)})
					}
				}
				salted, value := 0, 0
				for _, c := range differ {
					switch c.file {
					case layout.ChecksumFile:
						salted++
					case layout.ManifestFile:
					default:
						value++
					}
				}
				if pages := len(first.files[first.path(layout.ChecksumFile)]) / layout.PageSize; salted != pages {
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
					if fault := first.planted(t, c); fault != "" {
						t.Errorf("%s: page %d of %s: %s", what, c.number, c.file, fault)
					}
					planted++
				}
				// A whole section with the checksums that it had, and its data alone.
				for i := range first.m.Sections {
					s := &first.m.Sections[i]
					o := other.m.Section(s.Name)
					if o == nil || o.FileBytes() != s.FileBytes() || o.ChecksumOffset != s.ChecksumOffset {
						continue
					}
					damaged := first.copy()
					damaged.files[first.path(s.File)] = other.files[other.path(s.File)]
					table, tableBytes, _, rootBytes := s.Checksums()
					copy(damaged.files[first.path(layout.ChecksumFile)][table:table+tableBytes+rootBytes], other.files[other.path(layout.ChecksumFile)][table:])
					report := damaged.verify(t)
					if report.OK() || !strings.Contains(fmt.Sprint(report.Findings), fmt.Sprintf("%q", s.Name)) || report.Findings[0].File != layout.ChecksumFile {
						t.Errorf("%s: section %q with its checksums: %v", what, s.Name, report.Findings)
					}
					planted++
				}
				for _, file := range []string{layout.ManifestFile, layout.ChecksumFile} { // all of it, and all of both
					damaged := first.copy()
					damaged.files[first.path(file)] = other.files[other.path(file)]
					if report := damaged.verify(t); report.OK() {
						t.Errorf("%s: the whole %s: nothing is found", what, file)
					}
				}
			}
			t.Logf("%d pages and sections of %d builds", planted, len(others))
		})
	}
}
