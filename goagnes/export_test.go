package goagnes_test

// Exports: equal to the loader, equal however they were cut off, and refused
// while unfinished or when damaged.

import (
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/goagnes/goagnes/goagnes"
	"github.com/goagnes/goagnes/goagnes/export"
	"github.com/goagnes/goagnes/tests/fixture/graph"
	"github.com/goagnes/goagnes/tests/fixture/life"
	"github.com/goagnes/goagnes/tests/fixture/tree"
)

// TestExport holds exports under another budget, hyperbatch, thread count and
// block size byte for byte against the first, and the first's epochs, which do not
// begin at 0, against the plain sampler. Exports of every plan are read back in
// TestMetamorphic.
func TestExport(t *testing.T) {
	g := graph.Hub(rand.New(rand.NewPCG(5, 5)))
	dir := t.TempDir()
	paths := []string{filepath.Join(dir, "a"), filepath.Join(dir, "b")}
	g.Build(t, paths[0], goagnes.BuildOptions{Order: "degree", BlockSize: 4096})
	g.Build(t, paths[1], goagnes.BuildOptions{Order: "original", BlockSize: 32768})
	plans := []graph.Plan{
		{Name: "split", Fanouts: []int{5, 2}, Input: goagnes.InputNodes{Split: "train"}, Batch: 50, Shuffle: true},
		{Name: "empty", Fanouts: []int{2}, Input: goagnes.InputNodes{IDs: []int64{}}},
		{Name: "repeated seeds", Fanouts: []int{3, 2}, Input: goagnes.InputNodes{IDs: []int64{7, 31, 7, 7, 2599}}, Batch: 8},
	}
	for i, p := range plans {
		seed := uint64(i)
		o := p.Options(seed)
		o.Compact, o.Degree = i == 2, i == 2
		var first map[string]string
		for k, path := range []string{paths[0], paths[0], paths[1]} {
			out := filepath.Join(dir, p.Name+strconv.Itoa(k))
			o.HyperbatchSize = []int{0, 2, 5}[k]
			s := life.Open(t, path, goagnes.OpenOptions{Memory: []int64{64, 12, 32}[k] << 20, NumThreads: 1 + k, Scratch: dir})
			if _, err := goagnes.Export(context.Background(), s, out, goagnes.ExportOptions{LoaderOptions: o, FirstEpoch: 6, Epochs: 2}); err != nil {
				t.Fatalf("%s: %v", p.Name, err)
			}
			if uses := s.Info().MemoryByUse; len(uses) != 2 {
				t.Errorf("%s: Export left %v", p.Name, uses)
			}
			if err := s.Close(); err != nil {
				t.Error(err)
			}
			files := tree.Read(t, out)
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
			tree.Same(t, p.Name, files, first)
		}
		r, err := goagnes.OpenExport(filepath.Join(dir, p.Name+"0"))
		if err != nil {
			t.Fatal(err)
		}
		for _, epoch := range []uint32{6, 7} {
			want := g.Plain(p, seed).Epoch(epoch)
			if r.Len() != len(want) {
				t.Fatalf("%s: %d minibatches, want %d", p.Name, r.Len(), len(want))
			}
			for m, w := range want {
				b, err := r.Batch(epoch, int64(m))
				if err == nil {
					err = g.Equal(graph.Exported(b), m, w, o)
				}
				if err != nil {
					t.Errorf("%s, epoch %d: %v", p.Name, epoch, err)
				}
			}
		}
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestExportResume cancels, damages what is there, and asks for something else.
func TestExportResume(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "store")
	graph.Ring(1500).Build(t, path, goagnes.BuildOptions{BlockSize: 4096})
	s := life.Open(t, path, goagnes.OpenOptions{Memory: 32 << 20})
	defer s.Close()
	whole := filepath.Join(dir, "whole")
	if _, err := goagnes.Export(context.Background(), s, whole, graph.ExportOptions(2)); err != nil {
		t.Fatal(err)
	}
	want := tree.Read(t, whole)
	cancelled := func(out string, after int64) {
		t.Helper()
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		o := graph.ExportOptions(2)
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
		o := graph.ExportOptions(2)
		o.Seed = nil // the unfinished export's own
		report, err := goagnes.Export(context.Background(), s, out, o)
		if err != nil {
			t.Fatal(err)
		}
		if report.Resumed != resumed {
			t.Errorf("%d minibatches were taken up, want %d", report.Resumed, resumed)
		}
		tree.Same(t, "gone on with", tree.Read(t, out), want)
	}
	out := filepath.Join(dir, "out")
	n := int64(15) // minibatches of an epoch
	cancelled(out, 5)
	again(out, n+5)
	again(out, 2*n) // finished: nothing to do
	for name, damage := range map[string]func(string){
		"epoch-1/x.npy":             func(p string) { tree.Flip(t, p, 4000) },
		"epoch-1/edge_index.npy":    func(p string) { tree.Flip(t, p, 128) },
		"epoch-1/minibatches.jsonl": func(p string) { tree.Flip(t, p, 30) },
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
	o := graph.ExportOptions(2)
	o.BatchSize, o.NoEdgeIDs = 10, true
	var mismatch *export.MismatchError
	if _, err := goagnes.Export(context.Background(), s, out, o); !errors.As(err, &mismatch) || !strings.Contains(err.Error(), "batch_size was 20, is 10") || !strings.Contains(err.Error(), "e_id") || !strings.Contains(err.Error(), "holds an unfinished export") {
		t.Errorf("other settings: %v", err)
	}
	o = graph.ExportOptions(2)
	o.Overwrite = true
	if _, err := goagnes.Export(context.Background(), s, out, o); err != nil {
		t.Error(err)
	}
	tree.Same(t, "overwritten", tree.Read(t, out), want)
	if _, err := goagnes.Export(context.Background(), s, dir, graph.ExportOptions(2)); !errors.As(err, &mismatch) {
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
	graph.Ring(600).Build(t, path, goagnes.BuildOptions{BlockSize: 4096})
	s := life.Open(t, path, goagnes.OpenOptions{Memory: 32 << 20})
	defer s.Close()
	if _, err := goagnes.Export(context.Background(), s, out, graph.ExportOptions(1)); err != nil {
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
	for name, whole := range tree.Read(t, out) {
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
			tree.Flip(t, p, at)
			if strings.HasSuffix(name, ".npy") && at < 128 && use() == nil {
				tree.Flip(t, p, at) // a space of a header's padding
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
