package faults

// What makes a store or an export, in every form, and what may be there when it was
// cut off: the deeds that power, errors, full disks and signals interrupt.

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/goagnes/goagnes/goagnes"
	"github.com/goagnes/goagnes/goagnes/storage"
	"github.com/goagnes/goagnes/goagnes/storage/inject"
	"github.com/goagnes/goagnes/layout"
	"github.com/goagnes/goagnes/tests/fixture/graph"
	"github.com/goagnes/goagnes/tests/fixture/tree"
)

// chosen picks moments out of n, always the last and the same for a seed.
func chosen(n int, seed uint64) []int {
	if *moments <= 0 || n <= *moments {
		all := make([]int, n)
		for i := range all {
			all[i] = i
		}
		return all
	}
	r := rand.New(rand.NewPCG(seed, uint64(n)))
	some := r.Perm(n - 1)[:*moments-1]
	slices.Sort(some)
	return append(some, n-1)
}

// unsynced is a file system that makes nothing durable, for speed.
type unsynced struct{ storage.FS }

func (unsynced) SyncDir(string) error { return nil }

func (f unsynced) OpenFile(path string, flags int, perm fs.FileMode) (storage.Handle, error) {
	h, err := f.FS.OpenFile(path, flags, perm)
	if err != nil {
		return nil, err
	}
	return unsyncedFile{h}, nil
}

type unsyncedFile struct{ storage.Handle }

func (unsyncedFile) Sync() error { return nil }

// plainNames is a file system that renames without flags only, as some network
// file systems do.
type plainNames struct{ storage.FS }

func (f plainNames) Rename(from, to string, flags uint) error {
	if flags != 0 {
		return &os.LinkError{Op: "rename", Old: from, New: to, Err: unix.EINVAL}
	}
	return f.FS.Rename(from, to, 0)
}

// deed is something that makes a store or an export in a folder.
type deed struct {
	name  string
	plain bool // on a file system that knows no flags of rename
	// before makes what is there before; nil = nothing.
	before func(t *testing.T, root string)
	// do makes it; the same call must also mend what is left of it.
	do func(root string, fsys storage.FS) error
	// state tells what can be opened: "" for nothing. It fails the test where
	// something that can be opened is wrong.
	state func(root string) (string, error)
	// old is the state before, which is there until the new one is; with gap,
	// there may be nothing in between.
	old string
	gap bool
	// want is the state when do has returned without an error.
	want string
	// left are the names in the folder then, stripes as patterns.
	left []string
	// inside checks what is in these; nil = nothing to check.
	inside func(root string) error
	// again tells that do refuses to do again what is done.
	again bool
}

// run does the deed on a file system over base.
func (d *deed) run(root string, base storage.FS) error {
	if d.plain {
		base = plainNames{base}
	}
	return d.do(root, base)
}

// check opens what is in the folder after a fault; done tells that the deed had
// been done.
func (d *deed) check(root string, done bool) error {
	state, err := d.state(root)
	switch {
	case err != nil:
		return fmt.Errorf("what is there is wrong: %w", err)
	case done && state != d.want:
		return fmt.Errorf("after the end there is %q, want %q", state, d.want)
	case state != d.want && state != d.old && (state != "" || d.old != "" && !d.gap):
		return fmt.Errorf("there is %q, neither %q nor %q", state, d.old, d.want)
	}
	err = d.run(root, unsynced{storage.OS})
	if err != nil && !(d.again && state == d.want && strings.Contains(err.Error(), "exists already")) {
		return fmt.Errorf("the same call again, over %q: %w", state, err)
	}
	if state, err = d.state(root); err != nil || state != d.want {
		return fmt.Errorf("the same call again makes %q, want %q: %w", state, d.want, err)
	}
	return d.holdNames(root)
}

// holdNames reports what is in the folder beside what is to be there.
func (d *deed) holdNames(root string) error {
	entries, err := os.ReadDir(root)
	if err != nil {
		return err
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	left := slices.Clone(names)
	for _, pattern := range d.left {
		i := slices.IndexFunc(left, func(name string) bool { ok, _ := filepath.Match(pattern, name); return ok })
		if i < 0 {
			return fmt.Errorf("no %s among %q", pattern, names)
		}
		left = slices.Delete(left, i, i+1)
	}
	if len(left) > 0 {
		return fmt.Errorf("left over: %q", left)
	}
	if d.inside != nil {
		return d.inside(root)
	}
	return nil
}

// storeState opens and verifies the store in a folder: its build id.
func storeState(root string) (string, error) {
	path := filepath.Join(root, "store")
	s, err := goagnes.Open(path, goagnes.OpenOptions{Memory: 8 << 20, NumThreads: 1, IO: "buffered"})
	if err != nil {
		if class := goagnes.Class(err); class != goagnes.ClassStore {
			return "", fmt.Errorf("not openable, but of class %s: %w", class, err)
		}
		return "", nil
	}
	id := s.Info().BuildID
	if err := s.Close(); err != nil {
		return "", err
	}
	report, err := goagnes.Verify(context.Background(), path, goagnes.VerifyOptions{IO: "buffered"})
	if err != nil {
		return "", err
	}
	if !report.OK() {
		return "", fmt.Errorf("it opens, and verify finds %v", report.Findings)
	}
	return id, nil
}

// powerGraph is a graph small enough to be built hundreds of times, with a hub.
func powerGraph(seed uint64) *graph.Graph {
	r := rand.New(rand.NewPCG(seed, 77))
	g := &graph.Graph{Nodes: 300, XType: layout.Float32, XShape: []int64{16}, YType: layout.Int64}
	for v := range int64(g.Nodes) {
		for range 3 {
			g.Src, g.Dst = append(g.Src, r.Int64N(int64(g.Nodes))), append(g.Dst, v)
		}
	}
	for range 1500 {
		g.Src, g.Dst = append(g.Src, r.Int64N(int64(g.Nodes))), append(g.Dst, 17)
	}
	return g.Fill(r).Draw(r, "train", 4)
}

// deeds are what is done under faults; without states, what they make is not
// known.
func deeds(t *testing.T, states bool) []*deed {
	g, older := powerGraph(1), powerGraph(2)
	options := goagnes.BuildOptions{BlockSize: 4096, Order: "degree", Memory: 64 << 20, NumThreads: 1, IO: "pread"}
	builds := func(h *graph.Graph, change func(root string, o *goagnes.BuildOptions)) func(string, storage.FS) error {
		return func(root string, fsys storage.FS) error {
			o := options
			o.FS = fsys
			if change != nil {
				change(root, &o)
			}
			_, err := h.Write(filepath.Join(root, "store"), o)
			return err
		}
	}
	over := func(_ string, o *goagnes.BuildOptions) { o.Overwrite = true }
	striped := func(root string, o *goagnes.BuildOptions) {
		o.Overwrite, o.Stripes = true, []string{filepath.Join(root, "a"), filepath.Join(root, "b")}
	}
	first := func(do func(string, storage.FS) error) func(*testing.T, string) {
		return func(t *testing.T, root string) {
			if err := do(root, unsynced{storage.OS}); err != nil {
				t.Fatal(err)
			}
		}
	}
	folders := func(t *testing.T, root string) {
		for _, name := range []string{"a", "b"} {
			if err := os.Mkdir(filepath.Join(root, name), 0o777); err != nil {
				t.Fatal(err)
			}
		}
	}
	ring := func(_ string, o *goagnes.BuildOptions) { o.IO = "auto" }
	stripedLeft := func(root string) error {
		for i, name := range []string{"a", "b"} {
			d := deed{left: []string{fmt.Sprintf("store.stripe-%d-*", i)}}
			if err := d.holdNames(filepath.Join(root, name)); err != nil {
				return fmt.Errorf("in %s: %w", name, err)
			}
		}
		return nil
	}

	text := filepath.Join(t.TempDir(), "edges.csv")
	var lines strings.Builder
	for i := range g.Src {
		fmt.Fprintf(&lines, "%d,%d\n", g.Src[i]*1000, g.Dst[i]*1000)
	}
	if err := os.WriteFile(text, []byte(lines.String()), 0o666); err != nil {
		t.Fatal(err)
	}
	imports := func(root string, fsys storage.FS) error {
		_, err := goagnes.Import(context.Background(), filepath.Join(root, "store"), text,
			goagnes.BuildOptions{IDs: "rank", BlockSize: 4096, Order: "bfs", Compression: "zstd", Memory: 24 << 20, NumThreads: 1, Undirected: true, Duplicates: "drop", FS: fsys})
		return err
	}
	generates := func(root string, fsys storage.FS) error {
		_, err := goagnes.Generate(context.Background(), filepath.Join(root, "store"),
			goagnes.GenerateOptions{NumNodes: 500, AvgDegree: 6, NumFeatures: 8, NumClasses: 3, BlockSize: 4096, FS: fsys})
		return err
	}
	madeBy := func(do func(string, storage.FS) error) string {
		if !states {
			return ""
		}
		root := t.TempDir()
		folders(t, root)
		if err := do(root, unsynced{storage.OS}); err != nil {
			t.Fatal(err)
		}
		id, err := storeState(root)
		if err != nil || id == "" {
			t.Fatal(id, err)
		}
		return id
	}
	plainID, olderID := madeBy(builds(g, nil)), madeBy(builds(older, nil))
	stripedID, olderStripedID := madeBy(builds(g, striped)), madeBy(builds(older, striped))
	importID, generateID := madeBy(imports), madeBy(generates)
	list := []*deed{
		{name: "build", do: builds(g, nil), state: storeState, want: plainID, left: []string{"store"}, again: true},
		{name: "build by the ring", do: builds(g, ring), state: storeState, want: plainID, left: []string{"store"}, again: true},
		{name: "build in place of another", before: first(builds(older, nil)), do: builds(g, over), state: storeState, old: olderID, want: plainID, left: []string{"store"}},
		{name: "build in place of another without exchange", plain: true, gap: true, before: first(builds(older, nil)), do: builds(g, over), state: storeState, old: olderID, want: plainID, left: []string{"store"}},
		{name: "build striped", before: folders, do: builds(g, striped), state: storeState, want: stripedID, left: []string{"store", "a", "b"}},
		{name: "build striped in place of another", before: func(t *testing.T, root string) {
			folders(t, root)
			first(builds(older, striped))(t, root)
		}, do: builds(g, striped), state: storeState, old: olderStripedID, want: stripedID, left: []string{"store", "a", "b"}},
		{name: "import", do: imports, state: storeState, want: importID, left: []string{"store"}, again: true},
		{name: "generate", do: generates, state: storeState, want: generateID, left: []string{"store"}, again: true},
	}
	for _, d := range list {
		if slices.Contains(d.left, "a") {
			d.inside = stripedLeft
		}
	}
	list = append(list, exports(t, g, states)...)
	if testing.Short() && states { // one of each kind
		return []*deed{list[0], list[5], list[len(list)-1]}
	}
	return list
}

// exports are deeds that export a store.
func exports(t *testing.T, g *graph.Graph, states bool) []*deed {
	path := filepath.Join(t.TempDir(), "store")
	g.Build(t, path, goagnes.BuildOptions{BlockSize: 4096, Order: "degree"})
	do := func(change func(o *goagnes.ExportOptions)) func(string, storage.FS) error {
		return func(root string, fsys storage.FS) (err error) {
			s, err := goagnes.Open(path, goagnes.OpenOptions{Memory: 16 << 20, NumThreads: 1})
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, s.Close()) }()
			o := graph.ExportOptions(2)
			o.NumNeighbors, o.FS = []int{3}, fsys
			if change != nil {
				change(&o)
			}
			_, err = goagnes.Export(context.Background(), s, filepath.Join(root, "out"), o)
			return err
		}
	}
	other := func(o *goagnes.ExportOptions) { o.NumNeighbors, o.MaxBatches = []int{2, 1}, 2 }
	trees := map[string]map[string]string{}
	for name, change := range map[string]func(*goagnes.ExportOptions){"first": nil, "other": other} {
		if !states {
			break
		}
		root := t.TempDir()
		if err := do(change)(root, nil); err != nil {
			t.Fatal(err)
		}
		trees[name] = tree.Read(t, root)
	}
	state := func(root string) (string, error) {
		r, err := goagnes.OpenExport(filepath.Join(root, "out"))
		if err != nil {
			return "", nil
		}
		if err := errors.Join(r.Verify(context.Background(), nil), r.Close()); err != nil {
			return "", err
		}
		now := tree.Read(t, root)
		for name, want := range trees {
			for file := range want {
				if now[file] != want[file] {
					want = nil
					break
				}
			}
			if want != nil {
				return name, nil
			}
		}
		return "", fmt.Errorf("an export that is neither: %q", slices.Sorted(maps.Keys(now)))
	}
	overwrite := func(o *goagnes.ExportOptions) { o.Overwrite = true }
	exact := func(run func(string, storage.FS) error) func(string, storage.FS) error {
		return func(root string, fsys storage.FS) error {
			if err := run(root, fsys); err != nil {
				return err
			}
			now := tree.Read(t, root)
			if states && !maps.Equal(now, trees["first"]) {
				return fmt.Errorf("the folder holds %q, want %q", slices.Sorted(maps.Keys(now)), slices.Sorted(maps.Keys(trees["first"])))
			}
			return nil
		}
	}
	return []*deed{
		{name: "export", do: exact(do(nil)), state: state, want: "first", left: []string{"out"}},
		{name: "export gone on with", before: func(t *testing.T, root string) {
			// Cut off after some minibatches.
			n := 0
			fail := inject.New(unsynced{storage.OS}, inject.Options{Fail: func(op inject.Op) error {
				if n++; n > 60 {
					return unix.EIO
				}
				return nil
			}})
			if err := do(nil)(root, fail); err == nil {
				t.Fatal("the export was not cut off")
			}
		}, do: exact(do(nil)), state: state, want: "first", left: []string{"out"}},
		{name: "export in place of another", before: func(t *testing.T, root string) {
			if err := do(other)(root, unsynced{storage.OS}); err != nil {
				t.Fatal(err)
			}
		}, do: exact(do(overwrite)), state: state, old: "other", gap: true, want: "first", left: []string{"out"}},
	}
}

// clearDir empties a folder.
func clearDir(t *testing.T, root string) {
	t.Helper()
	entries, err := os.ReadDir(root)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if err := os.RemoveAll(filepath.Join(root, e.Name())); err != nil {
			t.Fatal(err)
		}
	}
}
