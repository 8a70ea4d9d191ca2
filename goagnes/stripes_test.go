package goagnes_test

// Stores over several directories: the same minibatches, shares of the bytes,
// and what happens to the directories.

import (
	"context"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/goagnes/goagnes/goagnes"
	"github.com/goagnes/goagnes/layout"
	"github.com/goagnes/goagnes/tests/fixture/graph"
	"github.com/goagnes/goagnes/tests/fixture/life"
)

// ssds makes k directories.
func ssds(t *testing.T, k int) []string {
	t.Helper()
	root, list := t.TempDir(), make([]string, k)
	for i := range list {
		list[i] = filepath.Join(root, "ssd"+string(rune('a'+i)))
		if err := os.Mkdir(list[i], 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return list
}

// entries lists what lies in the directories.
func entries(t *testing.T, dirs []string) []string {
	t.Helper()
	var all []string
	for _, dir := range dirs {
		list, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range list {
			all = append(all, filepath.Join(dir, e.Name()))
		}
	}
	return all
}

func TestStripes(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	n := 60_000
	g := &graph.Graph{Nodes: n, XType: layout.Float32, XShape: []int64{48}, YType: layout.Int64}
	for range 6 * n {
		g.Src, g.Dst = append(g.Src, r.Int64N(int64(n))), append(g.Dst, r.Int64N(int64(n)))
	}
	for range 200_000 { // a hub over several units
		g.Src, g.Dst = append(g.Src, r.Int64N(int64(n))), append(g.Dst, 17)
	}
	g.X, g.Y = graph.Noise(r, g.XType, n*48), graph.Noise(r, g.YType, n)
	seed := uint64(3)
	seeds := []int64{17, 5, 9999}
	for range 2000 {
		seeds = append(seeds, r.Int64N(int64(n)))
	}
	o := goagnes.LoaderOptions{NumNeighbors: []int{7, 4}, BatchSize: 100, Shuffle: true, Seed: &seed, InputNodes: goagnes.InputNodes{IDs: seeds}}
	want := g.Plain(graph.Plan{Fanouts: o.NumNeighbors, Input: o.InputNodes, Batch: 100, Shuffle: true}, seed).Epoch(0)
	for _, k := range []int{0, 1, 2, 4} {
		dirs, path := ssds(t, k), filepath.Join(t.TempDir(), "s")
		g.Build(t, path, goagnes.BuildOptions{Stripes: dirs, BlockSize: 64 << 10})
		report, err := goagnes.Verify(context.Background(), path, goagnes.VerifyOptions{})
		if err != nil || !report.OK() {
			t.Fatalf("%d directories: %v, %v", k, report, err)
		}
		store, err := goagnes.Open(path, goagnes.OpenOptions{Memory: 6 << 20})
		if err != nil {
			t.Fatal(err)
		}
		l := life.Load(t, store, o)
		g.HoldEqual(t, l, o, want)
		stats := l.Stats()
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		if len(stats.IO.StripeBytes) != k {
			t.Fatalf("%d directories: %v bytes in each", k, stats.IO.StripeBytes)
		}
		if k > 1 {
			if stats.IO.ScratchWritten == 0 {
				t.Errorf("%d directories: nothing is spilled", k)
			}
			sum := int64(0)
			for _, n := range stats.IO.StripeBytes {
				sum += n
			}
			if sum+stats.IO.ChecksumRead != stats.BytesRead+stats.BytesWritten {
				t.Errorf("%d directories: %d bytes in them, %d in all", k, sum, stats.BytesRead+stats.BytesWritten)
			}
			for i, n := range stats.IO.StripeBytes {
				if share := float64(n) / float64(sum) * float64(k); share < 0.85 || share > 1.15 {
					t.Errorf("%d directories: number %d carries %.2f of its share: %v", k, i, share, stats.IO.StripeBytes)
				}
			}
		}
		if info := store.Info(); len(info.Stripes) != k || k > 0 && info.FormatVersion != 2 || k == 0 && info.FormatVersion != 1 {
			t.Errorf("%d directories: %v, format version %d", k, info.Stripes, info.FormatVersion)
		}
		if err := store.Close(); err != nil {
			t.Fatal(err)
		}
		if left := entries(t, dirs); len(left) != k {
			t.Errorf("%d directories hold %v", k, left)
		}
	}
}

// small builds a small striped store.
func small(t *testing.T, path string, dirs []string, overwrite bool) error {
	t.Helper()
	_, err := smallNotes(t, path, dirs, overwrite)
	return err
}

// smallNotes is small, and returns what the build told.
func smallNotes(t *testing.T, path string, dirs []string, overwrite bool) ([]string, error) {
	t.Helper()
	n := int64(500)
	src, dst := make([]int64, 3000), make([]int64, 3000)
	for i := range src {
		src[i], dst[i] = int64(i*7)%n, int64(i*13)%n
	}
	edges := goagnes.Input{Memory: &goagnes.Memory{Name: "edge_index", Data: graph.BytesOf(append(src, dst...)), DType: layout.Int64, Shape: []int64{2, 3000}}}
	report, err := goagnes.Build(context.Background(), path, goagnes.BuildOptions{EdgeIndex: edges, NumNodes: n, Stripes: dirs, Overwrite: overwrite})
	if err != nil {
		return nil, err
	}
	return report.Notes, nil
}

// TestStripeDirectories: a missing, a foreign and a misplaced directory are
// refused by name; moved ones are found where they are said to be; builds that
// are replaced or refused leave nothing.
func TestStripeDirectories(t *testing.T) {
	dirs, root := ssds(t, 2), t.TempDir()
	path, other := filepath.Join(root, "s"), filepath.Join(root, "other")
	if err := small(t, path, dirs, false); err != nil {
		t.Fatal(err)
	}
	stripes := entries(t, dirs)
	open := func(path string, stripes ...string) error {
		s, err := goagnes.Open(path, goagnes.OpenOptions{Stripes: stripes})
		if err == nil {
			err = s.Close()
		}
		return err
	}
	refused := func(what string, err error, says ...string) {
		t.Helper()
		if err == nil || goagnes.Class(err) != "store" {
			t.Errorf("%s: %v (%s)", what, err, goagnes.Class(err))
			return
		}
		for _, text := range says {
			if !strings.Contains(err.Error(), text) {
				t.Errorf("%s: %q is not in %q", what, text, err)
			}
		}
	}
	if err := open(path); err != nil {
		t.Fatal(err)
	}
	refused("directories in another order", open(path, stripes[1], stripes[0]), "order")
	for what, err := range map[string]error{
		"opened": open(path, stripes[0]),
		"verified": func() error {
			_, err := goagnes.Verify(t.Context(), path, goagnes.VerifyOptions{Stripes: stripes[:1]})
			return err
		}(),
	} {
		if goagnes.Class(err) != goagnes.ClassUsage || !strings.Contains(err.Error(), "over 2 directories") {
			t.Errorf("one directory of two, %s: %v", what, err)
		}
	}
	plain := filepath.Join(root, "plain")
	if err := small(t, plain, nil, false); err != nil {
		t.Fatal(err)
	}
	_, verified := goagnes.Verify(t.Context(), plain, goagnes.VerifyOptions{Stripes: stripes})
	for _, err := range []error{open(plain, stripes...), verified} {
		if goagnes.Class(err) != goagnes.ClassUsage || !strings.Contains(err.Error(), "leave stripes out") {
			t.Errorf("stripes of a store without: %v", err)
		}
	}

	moved := stripes[1] + "-moved"
	if err := os.Rename(stripes[1], moved); err != nil {
		t.Fatal(err)
	}
	refused("a directory that is missing", open(path), stripes[1], "missing", "stripes")
	if report, err := goagnes.Verify(context.Background(), path, goagnes.VerifyOptions{}); err != nil || report.OK() || !strings.Contains(report.Findings[0].Message, stripes[1]) {
		t.Errorf("verifying without a directory: %+v, %v", report, err)
	}
	if err := open(path, stripes[0], moved); err != nil {
		t.Errorf("a directory that was moved: %v", err)
	}
	if report, err := goagnes.Verify(context.Background(), path, goagnes.VerifyOptions{Stripes: []string{stripes[0], moved}}); err != nil || !report.OK() {
		t.Errorf("verifying a store that was moved: %+v, %v", report, err)
	}
	if err := os.Rename(moved, stripes[1]); err != nil {
		t.Fatal(err)
	}

	unlike := ssds(t, 2)
	if err := small(t, other, unlike[:1], false); err != nil {
		t.Fatal(err)
	}
	refused("another store's directory", open(path, stripes[0], entries(t, unlike)[0]), "build")

	if err := small(t, path, dirs, false); err == nil {
		t.Error("a store that is there is replaced")
	}
	if now := entries(t, dirs); len(now) != 2 || now[0] != stripes[0] {
		t.Errorf("a refused build changed the directories: %v", now)
	}
	if err := small(t, path, unlike, true); err != nil {
		t.Fatal(err)
	}
	if left := entries(t, dirs); len(left) != 0 {
		t.Errorf("the replaced store's directories are left: %v", left)
	}
	if err := open(path); err != nil {
		t.Fatal(err)
	}
	if err := small(t, filepath.Join(root, "t"), []string{filepath.Join(root, "none")}, false); err == nil || goagnes.Class(err) != "usage" || !strings.Contains(err.Error(), "none") {
		t.Errorf("a directory that does not exist: %v", err)
	}
}

// TestStripeLeftovers: what a killed build left is removed by the next, a
// finished directory of a store that was moved is not.
func TestStripeLeftovers(t *testing.T) {
	dirs, root := ssds(t, 2), t.TempDir()
	path := filepath.Join(root, "s")
	unfinished := filepath.Join(dirs[0], "s.stripe-0-4194000-0")
	foreign := filepath.Join(dirs[0], "s.stripe-notes")
	for _, dir := range []string{unfinished, foreign} {
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "node.x"), []byte("half"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := small(t, path, dirs, false); err != nil {
		t.Fatal(err)
	}
	if left := entries(t, dirs); len(left) != 3 {
		t.Errorf("%v; want the store's two and %s", left, foreign)
	}
	if err := os.Rename(path, filepath.Join(root, "moved")); err != nil {
		t.Fatal(err)
	}
	if err := small(t, path, dirs, false); err != nil {
		t.Fatal(err)
	}
	for _, p := range []string{path, filepath.Join(root, "moved")} {
		s, err := goagnes.Open(p, goagnes.OpenOptions{})
		if err != nil {
			t.Fatalf("%s: %v", p, err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestStripesInTheStore: a directory of the store that is replaced would go with
// it.
func TestStripesInTheStore(t *testing.T) {
	dirs, root := ssds(t, 1), t.TempDir()
	path, link := filepath.Join(root, "s"), filepath.Join(root, "link")
	if err := small(t, path, nil, false); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(path, link); err != nil {
		t.Fatal(err)
	}
	inside := filepath.Join(path, "inside")
	if err := os.Mkdir(inside, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{path, link, inside} {
		err := small(t, path, []string{dirs[0], dir}, true)
		if err == nil || goagnes.Class(err) != "usage" || !strings.Contains(err.Error(), dir) {
			t.Errorf("stripes in %s: %v", dir, err)
		}
		if left := entries(t, dirs); len(left) != 0 {
			t.Errorf("a refused build left %v", left)
		}
		if report, err := goagnes.Verify(context.Background(), path, goagnes.VerifyOptions{}); err != nil || !report.OK() {
			t.Errorf("a refused build harmed the store: %v, %v", report, err)
		}
	}
	beside := path + "-1"
	if err := os.Mkdir(beside, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := small(t, path, []string{beside}, true); err != nil {
		t.Errorf("a directory whose name begins as the store's: %v", err)
	}
}

// TestReplacedWithoutAStripe: of a replaced store with a directory that cannot
// be told to be its own, the others are removed and that one is named.
func TestReplacedWithoutAStripe(t *testing.T) {
	dirs, path := ssds(t, 2), filepath.Join(t.TempDir(), "s")
	if err := small(t, path, dirs, false); err != nil {
		t.Fatal(err)
	}
	stripes := entries(t, dirs)
	if err := os.Truncate(filepath.Join(stripes[0], layout.StripeFile), 0); err != nil {
		t.Fatal(err)
	}
	notes, err := smallNotes(t, path, nil, true)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(strings.Join(notes, "\n"), stripes[0]) || strings.Contains(strings.Join(notes, "\n"), stripes[1]) {
		t.Errorf("what is left is not told alone: %q", notes)
	}
	if left := entries(t, dirs); len(left) != 1 || left[0] != stripes[0] {
		t.Errorf("%v is left, want %s", left, stripes[0])
	}
	s, err := goagnes.Open(path, goagnes.OpenOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
}
