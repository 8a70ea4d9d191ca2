package goagnes_test

// Exports: equal to the loader, equal however they were cut off, and refused
// while unfinished or when damaged.

import (
	"context"
	"errors"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/goagnes/goagnes/goagnes"
	"github.com/goagnes/goagnes/goagnes/export"
)

// tree returns the bytes of every file below a folder.
func tree(t testing.TB, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		name, _ := filepath.Rel(dir, path)
		all[name] = string(b)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func sameTree(t testing.TB, what string, got, want map[string]string) {
	t.Helper()
	for name := range want {
		if got[name] != want[name] {
			t.Errorf("%s: %s is %s, want %s", what, name, digest([]byte(got[name])), digest([]byte(want[name])))
		}
	}
	for name := range got {
		if _, ok := want[name]; !ok {
			t.Errorf("%s: %s is left over", what, name)
		}
	}
}

func exportOptions(epochs int) goagnes.ExportOptions {
	seed := uint64(11)
	return goagnes.ExportOptions{Epochs: epochs, LoaderOptions: goagnes.LoaderOptions{NumNeighbors: []int{4, 3}, InputNodes: goagnes.InputNodes{Split: "train"}, BatchSize: 20, Shuffle: true, Seed: &seed}}
}

// TestExport holds exports under another budget, hyperbatch, thread count and
// block size byte for byte against the first, and the first's epochs, which do not
// begin at 0, against the plain sampler. Exports of every plan are read back in
// TestMetamorphic.
func TestExport(t *testing.T) {
	g := hubGraph(rand.New(rand.NewPCG(5, 5)))
	dir := t.TempDir()
	paths := []string{filepath.Join(dir, "a"), filepath.Join(dir, "b")}
	g.build(t, paths[0], goagnes.BuildOptions{Order: "degree", BlockSize: 4096})
	g.build(t, paths[1], goagnes.BuildOptions{Order: "original", BlockSize: 32768})
	plans := []plan{
		{name: "split", fanouts: []int{5, 2}, input: goagnes.InputNodes{Split: "train"}, batch: 50, shuffle: true},
		{name: "empty", fanouts: []int{2}, input: goagnes.InputNodes{IDs: []int64{}}},
		{name: "repeated seeds", fanouts: []int{3, 2}, input: goagnes.InputNodes{IDs: []int64{7, 31, 7, 7, 2599}}, batch: 8},
	}
	for i, p := range plans {
		seed := uint64(i)
		o := p.options(seed)
		o.Compact, o.Degree = i == 2, i == 2
		var first map[string]string
		for k, path := range []string{paths[0], paths[0], paths[1]} {
			out := filepath.Join(dir, p.name+strconv.Itoa(k))
			o.HyperbatchSize = []int{0, 2, 5}[k]
			s := open(t, path, goagnes.OpenOptions{Memory: []int64{64, 12, 32}[k] << 20, NumThreads: 1 + k, Scratch: dir})
			if _, err := goagnes.Export(context.Background(), s, out, goagnes.ExportOptions{LoaderOptions: o, FirstEpoch: 6, Epochs: 2}); err != nil {
				t.Fatalf("%s: %v", p.name, err)
			}
			if uses := s.Info().MemoryByUse; len(uses) != 2 {
				t.Errorf("%s: Export left %v", p.name, uses)
			}
			if err := s.Close(); err != nil {
				t.Error(err)
			}
			files := tree(t, out)
			if k == 2 { // another store: its build id is in the index and in the lines' checksums
				for name := range files {
					if !strings.HasSuffix(name, ".npy") {
						delete(files, name)
						delete(first, name)
					}
				}
			}
			if first == nil {
				first = files
			}
			sameTree(t, p.name, files, first)
		}
		r, err := goagnes.OpenExport(filepath.Join(dir, p.name+"0"))
		if err != nil {
			t.Fatal(err)
		}
		for _, epoch := range []uint32{6, 7} {
			want := g.plain(p, seed).epoch(epoch)
			if r.Len() != len(want) {
				t.Fatalf("%s: %d minibatches, want %d", p.name, r.Len(), len(want))
			}
			for m, w := range want {
				b, err := r.Batch(epoch, int64(m))
				if err == nil {
					err = g.equal(exported(b), m, w, o)
				}
				if err != nil {
					t.Errorf("%s, epoch %d: %v", p.name, epoch, err)
				}
			}
		}
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestExportChild is the process that TestExportKilled kills.
func TestExportChild(t *testing.T) {
	store, out := os.Getenv("GOAGNES_EXPORT_STORE"), os.Getenv("GOAGNES_EXPORT_OUT")
	if store == "" {
		t.Skip("only as a child of TestExportKilled")
	}
	s := open(t, store, goagnes.OpenOptions{Memory: 16 << 20, NumThreads: 1})
	if _, err := goagnes.Export(context.Background(), s, out, exportOptions(3)); err != nil {
		t.Fatal(err)
	}
}

// TestExportKilled kills a child at random moments, a dozen times or as often as
// GOAGNES_EXPORT_KILLS says: what it leaves never opens, and is gone on with to
// the bytes of an export that nothing cut off.
func TestExportKilled(t *testing.T) {
	kills := 12
	if n, err := strconv.Atoi(os.Getenv("GOAGNES_EXPORT_KILLS")); err == nil {
		kills = n
	}
	if testing.Short() {
		kills = 3
	}
	dir := t.TempDir()
	path := filepath.Join(dir, "store")
	ringGraph(3000).build(t, path, goagnes.BuildOptions{BlockSize: 4096})
	child := func(out string) *exec.Cmd {
		c := exec.Command(os.Args[0], "-test.run=^TestExportChild$")
		c.Env = append(os.Environ(), "GOAGNES_EXPORT_STORE="+path, "GOAGNES_EXPORT_OUT="+out)
		return c
	}
	whole := filepath.Join(dir, "whole")
	start := time.Now()
	if b, err := child(whole).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, b)
	}
	took := time.Since(start)
	want := tree(t, whole)
	out := filepath.Join(dir, "killed")
	r := rand.New(rand.NewPCG(1, 2))
	killed, resumed := 0, int64(0)
	for i := 0; killed < kills && i < 20*kills; i++ {
		c := child(out)
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Duration(r.Float64() * 1.1 * float64(took)))
		c.Process.Kill()
		if c.Wait() != nil {
			killed++
		}
		if r, err := goagnes.OpenExport(out); err == nil {
			sameTree(t, "an export that opens", without(tree(t, out), export.PartialFile), want)
			if err := r.Close(); err != nil {
				t.Fatal(err)
			}
		} else if goagnes.Class(err) != goagnes.ClassStore {
			t.Fatalf("a killed export: %v", err)
		}
		if i%3 < 2 { // killed again and again before it may end
			continue
		}
		s := open(t, path, goagnes.OpenOptions{Memory: 32 << 20})
		report, err := goagnes.Export(context.Background(), s, out, exportOptions(3))
		if err != nil {
			t.Fatal(err)
		}
		resumed += report.Resumed
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		sameTree(t, "a resumed export", tree(t, out), want)
		if err := os.RemoveAll(out); err != nil {
			t.Fatal(err)
		}
	}
	if killed < kills || resumed == 0 && !testing.Short() {
		t.Errorf("%d children were killed, %d minibatches gone on from: the moments miss what they are for", killed, resumed)
	}
}

func without(m map[string]string, name string) map[string]string { delete(m, name); return m }

// TestExportResume cancels, damages what is there, and asks for something else.
func TestExportResume(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "store")
	ringGraph(1500).build(t, path, goagnes.BuildOptions{BlockSize: 4096})
	s := open(t, path, goagnes.OpenOptions{Memory: 32 << 20})
	defer s.Close()
	whole := filepath.Join(dir, "whole")
	if _, err := goagnes.Export(context.Background(), s, whole, exportOptions(2)); err != nil {
		t.Fatal(err)
	}
	want := tree(t, whole)
	cancelled := func(out string, after int64) {
		t.Helper()
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		o := exportOptions(2)
		o.Progress = func(stage string, done, total int64) {
			if stage == "epoch 1" && done >= after {
				cancel()
			}
		}
		if _, err := goagnes.Export(ctx, s, out, o); !errors.Is(err, context.Canceled) {
			t.Fatalf("a cancelled export: %v", err)
		}
		if _, err := goagnes.OpenExport(out); err == nil || !strings.Contains(err.Error(), "unfinished") {
			t.Fatalf("an unfinished export: %v", err)
		}
	}
	again := func(out string, resumed int64) {
		t.Helper()
		o := exportOptions(2)
		o.Seed = nil // the unfinished export's own
		report, err := goagnes.Export(context.Background(), s, out, o)
		if err != nil {
			t.Fatal(err)
		}
		if report.Resumed != resumed {
			t.Errorf("%d minibatches were taken up, want %d", report.Resumed, resumed)
		}
		sameTree(t, "gone on with", tree(t, out), want)
	}
	out := filepath.Join(dir, "out")
	n := int64(15) // minibatches of an epoch
	cancelled(out, 5)
	again(out, n+5)
	again(out, 2*n) // finished: nothing to do
	for name, damage := range map[string]func(string){
		"epoch-1/x.npy":             func(p string) { flip(t, p, 4000) },
		"epoch-1/edge_index.npy":    func(p string) { flip(t, p, 128) },
		"epoch-1/minibatches.jsonl": func(p string) { flip(t, p, 30) },
		"epoch-1/n_id.npy": func(p string) {
			if err := os.Truncate(p, 200); err != nil {
				t.Fatal(err)
			}
		},
		"epoch-1/y.npy": func(p string) {
			if err := os.Remove(p); err != nil {
				t.Fatal(err)
			}
		},
	} {
		out := filepath.Join(dir, strings.ReplaceAll(name, "/", "-"))
		cancelled(out, 5)
		damage(filepath.Join(out, name))
		again(out, n)
	}
	// Something else is refused by name, and replaced on demand.
	out = filepath.Join(dir, "other")
	cancelled(out, 3)
	o := exportOptions(2)
	o.BatchSize, o.NoEdgeIDs = 10, true
	var mismatch *export.MismatchError
	if _, err := goagnes.Export(context.Background(), s, out, o); !errors.As(err, &mismatch) || !strings.Contains(err.Error(), "batch_size was 20, is 10") || !strings.Contains(err.Error(), "e_id") || !strings.Contains(err.Error(), "holds an unfinished export") {
		t.Errorf("other settings: %v", err)
	}
	o = exportOptions(2)
	o.Overwrite = true
	if _, err := goagnes.Export(context.Background(), s, out, o); err != nil {
		t.Error(err)
	}
	sameTree(t, "overwritten", tree(t, out), want)
	if _, err := goagnes.Export(context.Background(), s, dir, exportOptions(2)); !errors.As(err, &mismatch) {
		t.Errorf("a folder with other files: %v", err)
	}
	if _, err := os.Stat(path); err != nil {
		t.Errorf("the other files: %v", err)
	}
}

// TestExportDamage flips a bit in, cuts and removes every file of an export: it
// is refused when opened or when the minibatch is touched, by the file's name.
func TestExportDamage(t *testing.T) {
	dir := t.TempDir()
	path, out := filepath.Join(dir, "store"), filepath.Join(dir, "out")
	ringGraph(600).build(t, path, goagnes.BuildOptions{BlockSize: 4096})
	s := open(t, path, goagnes.OpenOptions{Memory: 32 << 20})
	defer s.Close()
	if _, err := goagnes.Export(context.Background(), s, out, exportOptions(1)); err != nil {
		t.Fatal(err)
	}
	use := func() error {
		r, err := goagnes.OpenExport(out)
		if err != nil {
			return err
		}
		return errors.Join(r.Verify(context.Background(), nil), r.Close())
	}
	if err := use(); err != nil {
		t.Fatal(err)
	}
	random := rand.New(rand.NewPCG(3, 3))
	for name, whole := range tree(t, out) {
		p := filepath.Join(out, name)
		check := func(what string) {
			t.Helper()
			err := use()
			var fault *export.Error
			if !errors.As(err, &fault) || !strings.Contains(err.Error(), filepath.Base(name)) && name != export.IndexFile || goagnes.Class(err) != goagnes.ClassStore {
				t.Errorf("%s, %s: %v", name, what, err)
			}
			if err := os.WriteFile(p, []byte(whole), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		for range 6 {
			at := random.Int64N(int64(len(whole)))
			flip(t, p, at)
			if strings.HasSuffix(name, ".npy") && at < 128 && use() == nil {
				flip(t, p, at) // a space of a header's padding
				continue
			}
			check("a bit of byte " + strconv.FormatInt(at, 10))
		}
		for _, n := range []int64{0, 1, int64(len(whole)) / 2, int64(len(whole)) - 1} {
			if err := os.Truncate(p, n); err != nil {
				t.Fatal(err)
			}
			check("cut to " + strconv.FormatInt(n, 10))
		}
		if err := os.Remove(p); err != nil {
			t.Fatal(err)
		}
		check("removed")
	}
}

// TestExportSettings wants every option of a loader to be either one of an
// export's settings or known to change no minibatch.
func TestExportSettings(t *testing.T) {
	shaping := []string{"NumNeighbors", "InputNodes", "BatchSize", "Shuffle", "DropLast", "Seed", "NoEdgeIDs", "Compact", "Degree", "NoFeatures"}
	indifferent := []string{"HyperbatchSize", "FixedHyperbatch", "Memory", "IO", "Mode", "Consumer", "ReleasesFirst", "GraphBuffer", "FeatureBuffer", "unchecked", "beside"}
	o := reflect.TypeFor[goagnes.LoaderOptions]()
	for i := range o.NumField() {
		if name := o.Field(i).Name; !slices.Contains(shaping, name) && !slices.Contains(indifferent, name) {
			t.Errorf("LoaderOptions.%s: does it change minibatches? Then export.Settings must have it; name it here", name)
		}
	}
}
