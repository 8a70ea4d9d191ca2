package synthetic

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/goagnes/goagnes/layout"
	"github.com/goagnes/goagnes/layout/build/source"
	"github.com/goagnes/goagnes/layout/build/source/formats"
)

func TestWriteRawRoundTrip(t *testing.T) {
	for _, o := range []Options{
		{Kind: Community, NumNodes: 9000, AvgDegree: 15, NumFeatures: 12},
		{Kind: RMAT, NumNodes: 1001, NumFeatures: 7, FeatureDType: layout.Float16},
		{Kind: RMAT, NumNodes: 50, AvgDegree: -1, NumFeatures: -1, NumClasses: -1},
	} {
		d := generate(t, o)
		dir := filepath.Join(t.TempDir(), "a", "b")
		if err := WriteRaw(context.Background(), d, dir); err != nil {
			t.Fatal(err)
		}
		back, err := formats.Open(context.Background(), dir, "auto", source.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if back.Format != "npy" || back.NumNodes != o.NumNodes || back.RankIDs || len(back.Notes) != 0 || len(back.Arrays) != len(d.Arrays) {
			t.Errorf("%+v", back)
		}
		src, dst := edgesOf(t, d)
		src2, dst2 := edgesOf(t, back)
		if !slices.Equal(src, src2) || !slices.Equal(dst, dst2) {
			t.Error("edges differ")
		}
		for name, r := range d.Arrays {
			if b := back.Arrays[name]; b.DType() != r.DType() || !slices.Equal(b.RowShape(), r.RowShape()) || !bytes.Equal(rowsOf(t, b), rowsOf(t, r)) {
				t.Errorf("%s differs", name)
			}
		}
		for name, r := range d.Splits {
			if !slices.Equal(intsOf(t, back.Splits[name]), intsOf(t, r)) {
				t.Errorf("split %s differs", name)
			}
		}
		err = WriteRaw(context.Background(), d, dir)
		var e *RawError
		if !errors.As(err, &e) || e.Class() != "usage" || !strings.Contains(err.Error(), "exists already") {
			t.Errorf("a second run: %v", err)
		}
	}
}

// liar counts one edge more or less than it has.
type liar struct {
	source.Edges
	by int64
}

func (l liar) Count() (int64, bool) {
	n, known := l.Edges.Count()
	return n + l.by, known
}

func TestWriteRawLeavesNothing(t *testing.T) {
	d := generate(t, Options{Kind: RMAT, NumNodes: 1 << 14, NumFeatures: 4})
	cancelled, cancel := context.WithCancel(context.Background())
	cancel()
	for name, run := range map[string]func(dir string) error{
		"cancelled": func(dir string) error { return WriteRaw(cancelled, d, dir) },
		"too few": func(dir string) error {
			bad := *d
			bad.Edges = liar{d.Edges, 1}
			return WriteRaw(context.Background(), &bad, dir)
		},
		"too many": func(dir string) error {
			bad := *d
			bad.Edges = liar{d.Edges, -1}
			return WriteRaw(context.Background(), &bad, dir)
		},
	} {
		dir := t.TempDir()
		for _, to := range []string{dir, filepath.Join(dir, "a", "b")} {
			if err := run(to); err == nil {
				t.Errorf("%s: no error", name)
			}
			left, err := os.ReadDir(dir)
			if err != nil || len(left) != 0 {
				t.Errorf("%s: %v is left, %v", name, left, err)
			}
		}
	}
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	var e *RawError
	if err := WriteRaw(context.Background(), d, file); !errors.As(err, &e) || e.Class() != "io" {
		t.Errorf("a file for a directory: %v", err)
	}
}

// Files that were there are neither written over nor removed by a run that fails,
// and what a killed run left goes with the next one, unless it is still being written.
func TestWriteRawBesideOthers(t *testing.T) {
	d := generate(t, Options{Kind: RMAT, NumNodes: 1 << 10, NumFeatures: 4})
	for _, name := range []string{"x.npy", "y.npy", "split_train.npy", "num_nodes.npy", "edge_index.npy"} {
		dir := t.TempDir()
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte("mine"), 0o644); err != nil {
			t.Fatal(err)
		}
		var e *RawError
		if err := WriteRaw(context.Background(), d, dir); !errors.As(err, &e) || e.File != path || e.Class() != "usage" {
			t.Errorf("%s is there: %v", name, err)
		}
		if data, err := os.ReadFile(path); err != nil || string(data) != "mine" {
			t.Errorf("%s holds %q, %v", name, data, err)
		}
	}

	dir := t.TempDir()
	killed, held, other := filepath.Join(dir, ".x.npy-123.part"), filepath.Join(dir, ".x.npy-45.part"), filepath.Join(dir, ".x.npy-a.part")
	for _, path := range []string{killed, held, other} {
		if err := os.WriteFile(path, []byte("half"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	f, err := os.Open(held)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	if err := WriteRaw(context.Background(), d, dir); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]bool{killed: false, held: true, other: true} {
		if _, err := os.Lstat(path); (err == nil) != want {
			t.Errorf("%s: %v", path, err)
		}
	}
}
