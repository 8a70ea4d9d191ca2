package faults

// Damage to an open store and trouble with scratch: a typed error that names
// the place, nothing left over, and a loader that works again once mended.

import (
	"errors"
	"flag"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/goagnes/goagnes/goagnes"
	"github.com/goagnes/goagnes/goagnes/storage"
	"github.com/goagnes/goagnes/layout"
	"github.com/goagnes/goagnes/tests/fixture/graph"
	"github.com/goagnes/goagnes/tests/fixture/life"
	"github.com/goagnes/goagnes/tests/fixture/tree"
)

// moments is at how many moments of each run a fault is tried. The default suits
// every run of the tests; -moments 0 tries all, which takes an hour:
//
//	go test -timeout 3h -run 'TestPowerLoss|TestKilled|TestFailing|TestFullDisk|TestTransfersFail' ./tests/faults -moments 0
var moments = flag.Int("moments", 4, "moments of each run at which a fault is tried, 0 for all")

// everything reads every section of a store.
func everything() goagnes.LoaderOptions {
	seed := uint64(3)
	return goagnes.LoaderOptions{NumNeighbors: []int{-1}, InputNodes: goagnes.InputNodes{Split: "all"}, BatchSize: 150, Degree: true, Seed: &seed, HyperbatchSize: 9}
}

// TestDamage flips a bit, or cuts the file, in the first, middle and last page
// of every section of an open store.
func TestDamage(t *testing.T) {
	g := graph.Ring(1100)
	for range 9000 { // a hub of three blocks
		g.Src, g.Dst = append(g.Src, int64(len(g.Src)%1100)), append(g.Dst, 500)
	}
	g.Splits = map[string][]int64{"all": {}}
	for v := range int64(g.Nodes) {
		g.Splits["all"] = append(g.Splits["all"], v*7%1100)
	}
	scratch := t.TempDir()
	path := filepath.Join(t.TempDir(), "store")
	g.Build(t, path, goagnes.BuildOptions{BlockSize: 4096, Order: "degree"})
	before := life.TakeCensus(t)
	s := life.Open(t, path, goagnes.OpenOptions{Memory: 7 << 20, Scratch: scratch, NumThreads: 2})
	sections := s.Info().Sections
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for name := range maps.Keys(sections) {
		if name == layout.SectionIndex { // read at Open alone
			continue
		}
		seen[name] = true
		file := filepath.Join(path, name)
		whole, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		pages := int64(len(whole)) / layout.PageSize
		for _, page := range []int64{0, pages / 2, pages - 1} {
			s := life.Open(t, path, goagnes.OpenOptions{Memory: 7 << 20, Scratch: scratch, NumThreads: 2})
			base := s.Info().MemoryByUse
			l := life.Load(t, s, everything())
			at := page*layout.PageSize + 5
			tree.Flip(t, file, at)
			err := life.Epoch(t, l)
			var damage *layout.Error
			if !errors.As(err, &damage) || damage.File != name || damage.Kind != layout.Checksum || damage.Block != at/4096 || goagnes.Class(err) != goagnes.ClassStore {
				t.Errorf("%s, page %d: %v (%+v), want the file and block %d", name, page, err, damage, at/4096)
			}
			if again := life.Epoch(t, l); again == nil {
				t.Errorf("%s, page %d: the second epoch does not see the damage", name, page)
			}
			tree.Flip(t, file, at)
			if err := life.Epoch(t, l); err != nil {
				t.Errorf("%s, page %d, mended: %v", name, page, err)
			}
			if err := os.Truncate(file, page*layout.PageSize); err != nil {
				t.Fatal(err)
			}
			l2 := life.Load(t, s, everything()) // with empty buffers
			err = life.Epoch(t, l2)
			if !errors.As(err, &damage) || damage.File != name || goagnes.Class(err) != goagnes.ClassStore || !strings.Contains(err.Error(), "truncated") {
				t.Errorf("%s, cut at page %d: %v", name, page, err)
			}
			if err := os.WriteFile(file, whole, 0); err != nil {
				t.Fatal(err)
			}
			if err := life.Epoch(t, l2); err != nil {
				t.Errorf("%s, made whole again: %v", name, err)
			}
			if err := errors.Join(l.Close(), l2.Close()); err != nil {
				t.Error(err)
			}
			if uses := s.Info().MemoryByUse; !maps.Equal(uses, base) {
				t.Errorf("%s, page %d: the closed loaders left %v, before: %v", name, page, uses, base)
			}
			if err := s.Close(); err != nil {
				t.Error(err)
			}
			if testing.Short() {
				break
			}
		}
	}
	for _, name := range []string{layout.SectionGraph, layout.SectionEdgeID, layout.SectionX, layout.SectionY, layout.SectionOriginal, layout.SectionInternal, layout.SectionDegree, layout.SplitPrefix + "all"} {
		if !seen[name] {
			t.Errorf("section %s was not damaged: the store has %v", name, sections)
		}
	}
	// What Open reads is refused there.
	for _, name := range []string{layout.SectionIndex, layout.ManifestFile} {
		tree.Flip(t, filepath.Join(path, name), 70)
		_, err := goagnes.Open(path, goagnes.OpenOptions{})
		var damage *layout.Error
		if !errors.As(err, &damage) || damage.File != name || goagnes.Class(err) != goagnes.ClassStore {
			t.Errorf("%s: %v", name, err)
		}
		tree.Flip(t, filepath.Join(path, name), 70)
	}
	// Checksum tables: at Open or when they are needed.
	tree.Flip(t, filepath.Join(path, layout.ChecksumFile), 0)
	s, err := goagnes.Open(path, goagnes.OpenOptions{Memory: 7 << 20, Scratch: scratch})
	if err == nil {
		err = life.Epoch(t, life.Load(t, s, everything()))
		if e := s.Close(); e != nil {
			t.Error(e)
		}
	}
	var damage *layout.Error
	if !errors.As(err, &damage) || damage.File != layout.ChecksumFile {
		t.Errorf("%s: %v", layout.ChecksumFile, err)
	}
	tree.Empty(t, scratch)
	before.Hold(t)
}

// TestScratchTrouble spills to where nothing can be written.
func TestScratchTrouble(t *testing.T) {
	g := graph.Ring(1500)
	dir := t.TempDir()
	path := filepath.Join(dir, "store")
	g.Build(t, path, goagnes.BuildOptions{BlockSize: 4096, Order: "degree"})
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	before := life.TakeCensus(t)
	small := goagnes.OpenOptions{Memory: 5 << 19, NumThreads: 2, Scratch: dir}
	for _, c := range []struct {
		name  string
		set   func(*goagnes.OpenOptions)
		class string
		says  []string
	}{
		{"missing directory", func(o *goagnes.OpenOptions) { o.Scratch = filepath.Join(dir, "none") }, goagnes.ClassIO, []string{"none", "scratch"}},
		{"a file", func(o *goagnes.OpenOptions) { o.Scratch = file }, goagnes.ClassIO, []string{file, "scratch"}},
		{"a limit of one byte, below what a hyperbatch takes", func(o *goagnes.OpenOptions) { o.ScratchLimit = 1 }, "", nil},
		{"a limit below what a hyperbatch takes", func(o *goagnes.OpenOptions) { o.ScratchLimit = 300 << 10 }, "", nil},
		{"a limit below a step", func(o *goagnes.OpenOptions) { o.ScratchLimit = 40 << 20 }, "", nil},
		{"no limit", func(*goagnes.OpenOptions) {}, "", nil},
	} {
		o := small
		c.set(&o)
		s := life.Open(t, path, o)
		l := life.Load(t, s, goagnes.LoaderOptions{NumNeighbors: []int{5, 5}, InputNodes: goagnes.InputNodes{Split: "train"}, BatchSize: 20, HyperbatchSize: 10})
		for range 2 {
			err := life.Epoch(t, l)
			if goagnes.Class(err) != c.class {
				t.Errorf("%s: %v, class %q, want %q", c.name, err, goagnes.Class(err), c.class)
			}
			for _, words := range c.says {
				if err != nil && !strings.Contains(err.Error(), words) {
					t.Errorf("%s: %q does not say %q", c.name, err, words)
				}
			}
			var io *storage.Error
			if c.class != "" && !errors.As(err, &io) {
				t.Errorf("%s: %T is not a typed error", c.name, err)
			}
		}
		below := strings.Contains(c.name, "a hyperbatch takes")
		if st := l.Stats(); (st.SpilledRowBytes == 0 && !below || st.Halved > 0 != below) && c.class == "" {
			t.Errorf("%s: %d bytes of rows were spilled, %d hyperbatches halved", c.name, st.SpilledRowBytes, st.Halved)
		}
		if err := s.Close(); err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	left, err := os.ReadDir(dir)
	if err != nil || len(left) != 2 {
		t.Errorf("left beside the store and the file: %v, %v", left, err)
	}
	before.Hold(t)
}

// TestScratchLimitIsTheStores spills with two loaders of one store: what one has
// taken of scratch_limit is missing to the other until it is closed.
func TestScratchLimitIsTheStores(t *testing.T) {
	g := graph.Ring(1500)
	dir := t.TempDir()
	path := filepath.Join(dir, "store")
	g.Build(t, path, goagnes.BuildOptions{BlockSize: 4096, Order: "degree"})
	seed := uint64(2)
	o := goagnes.LoaderOptions{NumNeighbors: []int{5, 5}, InputNodes: goagnes.InputNodes{Split: "train"}, BatchSize: 20, HyperbatchSize: 10, FixedHyperbatch: true, Memory: 9 << 18, Seed: &seed}
	halved := func(s *goagnes.Store) (*goagnes.Loader, bool) {
		l := life.Load(t, s, o)
		if err := life.Epoch(t, l); err != nil {
			t.Fatal(err)
		}
		return l, l.Stats().Halved > 0
	}
	// What one loader takes at least: files grow in steps unless the limit is near.
	before := life.TakeCensus(t)
	needs, few := int64(128<<10), 0
	for ; ; needs += 64 << 10 {
		s := life.Open(t, path, goagnes.OpenOptions{Memory: 6 << 20, NumThreads: 2, ScratchLimit: needs})
		_, less := halved(s)
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		if !less {
			break
		}
		few++
	}
	if few == 0 {
		t.Errorf("%d bytes are enough: the fixture does not spill", needs)
	}
	s := life.Open(t, path, goagnes.OpenOptions{Memory: 6 << 20, NumThreads: 2, ScratchLimit: needs})
	first, less := halved(s)
	if less {
		t.Errorf("%d bytes were enough, and are not", needs)
	}
	if _, less := halved(s); !less {
		t.Error("the second loader has scratch beyond the store's limit")
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = life.Open(t, path, goagnes.OpenOptions{Memory: 6 << 20, NumThreads: 2, ScratchLimit: needs})
	if first, less = halved(s); less {
		t.Errorf("%d bytes were enough, and are not", needs)
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	if _, less := halved(s); less {
		t.Error("the second loader lacks scratch after the first was closed")
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	before.Hold(t)
}

// TestReadOnlyStore opens a store beside which nothing can be written: scratch
// goes to the temporary directory, which Info tells, or where it was sent.
func TestReadOnlyStore(t *testing.T) {
	g := graph.Ring(1500)
	mnt := smallDisk(t)
	path := filepath.Join(mnt, "store")
	g.Build(t, path, goagnes.BuildOptions{BlockSize: 4096, Order: "degree"})
	if out, err := exec.Command("mount", "-o", "remount,ro", mnt).CombinedOutput(); err != nil {
		t.Fatalf("%v %s", err, out)
	}
	temporary, own := t.TempDir(), t.TempDir()
	t.Setenv("TMPDIR", temporary)
	before := life.TakeCensus(t)
	for _, scratch := range []string{"", own} {
		s := life.Open(t, path, goagnes.OpenOptions{Memory: 5 << 19, NumThreads: 2, Scratch: scratch})
		info := s.Info()
		if want := map[string]string{"": temporary, own: own}[scratch]; !slices.Equal(info.Scratch, []string{want}) || (info.ScratchMoved != "") != (scratch == "") ||
			scratch == "" && !strings.Contains(info.ScratchMoved, mnt+": read-only") {
			t.Errorf("scratch=%q: it is %q, %q", scratch, info.Scratch, info.ScratchMoved)
		}
		seed := uint64(2)
		o := goagnes.LoaderOptions{NumNeighbors: []int{5, 5}, InputNodes: goagnes.InputNodes{Split: "train"}, BatchSize: 20, HyperbatchSize: 10, Seed: &seed}
		l := life.Load(t, s, o)
		g.HoldEqual(t, l, o, g.Plain(graph.Plan{Fanouts: o.NumNeighbors, Input: o.InputNodes, Batch: 20}, seed).Epoch(0))
		if l.Stats().SpilledRowBytes == 0 {
			t.Error("nothing was spilled")
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		tree.Empty(t, temporary)
		tree.Empty(t, own)
	}
	// A build there is refused and leaves nothing.
	if _, err := g.Write(filepath.Join(mnt, "other"), goagnes.BuildOptions{}); !errors.Is(err, unix.EROFS) || goagnes.Class(err) != goagnes.ClassIO {
		t.Errorf("a build on a read-only disk: %v", err)
	}
	before.Hold(t)
}

// smallDisk mounts a file system of a few MiB.
func smallDisk(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	disk, mnt := filepath.Join(dir, "image"), filepath.Join(dir, "mnt")
	if err := errors.Join(os.WriteFile(disk, nil, 0o600), os.Truncate(disk, 24<<20), os.Mkdir(mnt, 0o777)); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"mkfs.ext4", "-q", "-b", "4096", "-m", "0", disk}, {"mount", "-o", "loop", disk, mnt}} {
		if out, err := exec.Command(args[0], args[1:]...).CombinedOutput(); err != nil {
			t.Skipf("no small disk (root and loop devices are needed): %s: %v %s", args[0], err, out)
		}
	}
	t.Cleanup(func() {
		if out, err := exec.Command("umount", mnt).CombinedOutput(); err != nil {
			t.Errorf("%v %s", err, out)
		}
	})
	return mnt
}
