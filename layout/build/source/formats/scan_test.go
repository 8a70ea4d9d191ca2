package formats_test

// What holds for every stream of every reader: errors of the caller end a scan and
// come back as they are, cancelling ends it, and a file that is cut or changed in
// the middle of a scan gives a typed error.

import (
	"archive/zip"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/goagnes/goagnes/layout"
	"github.com/goagnes/goagnes/layout/build/source"
	"github.com/goagnes/goagnes/layout/build/source/array"
	"github.com/goagnes/goagnes/layout/build/source/formats"
	"github.com/goagnes/goagnes/layout/build/source/sourcetest"
	"github.com/goagnes/goagnes/layout/build/source/text"
)

// streams opens one of each kind, all of several chunks.
func streams(t *testing.T) map[string]func(ctx context.Context, f func() error) error {
	t.Helper()
	out := map[string]func(ctx context.Context, f func() error) error{}
	edges := func(name string, e source.Edges, err error) {
		if err != nil {
			t.Fatal(err)
		}
		if e.Name() == "" {
			t.Errorf("%s has no name", name)
		}
		out[name] = func(ctx context.Context, f func() error) error {
			return e.Scan(ctx, func(_, _ []int64) error { return f() })
		}
	}
	dataset := func(name string, d *source.Dataset, err error) {
		if err != nil {
			t.Fatal(err)
		}
		edges(name, d.Edges, nil)
	}
	rows := func(name string, r source.Rows, err error) {
		if err != nil {
			t.Fatal(err)
		}
		if r.Name() == "" {
			t.Errorf("%s has no name", name)
		}
		out[name] = func(ctx context.Context, f func() error) error {
			return r.Scan(ctx, func(int64, []byte) error { return f() })
		}
	}
	const n = 2*source.ChunkEdges + 5
	list := make([]sourcetest.Pair, n)
	for _, pairs := range []bool{false, true} {
		g := sourcetest.EdgeGrid(list, pairs)
		b := g.NPY(layout.Int32, false, false, 1)
		d, err := formats.OpenEdges(sourcetest.Write(t, "e.npy", b), source.Options{})
		dataset("npy edges "+source.ShapeString(g.Shape), d, err)
		d, err = formats.OpenEdges(sourcetest.Archive(t, zip.Deflate, map[string][]byte{"edge_index": b}), source.Options{})
		dataset("npz edges "+source.ShapeString(g.Shape), d, err)
		e, err := array.EdgesFromMemory(array.Array{Name: "e", Data: g.Bytes(layout.Int32, false, false), DType: layout.Int32, Shape: g.Shape})
		edges("memory edges "+source.ShapeString(g.Shape), e, err)
	}
	edges("text", text.NewEdges(sourcetest.Write(t, "e.txt", []byte(strings.Repeat("0 1\n", n)))), nil)
	x := sourcetest.Grid{Shape: []int64{3 * source.ChunkBytes / 64, 16}, Values: make([]int64, 3*source.ChunkBytes/4)}
	for _, fortran := range []bool{false, true} {
		b := x.NPY(layout.Float32, false, fortran, 1)
		name := map[bool]string{false: "C", true: "fortran"}[fortran]
		r, err := formats.RowsFromFile(sourcetest.Write(t, "x.npy", b), source.Options{})
		rows("npy rows "+name, r, err)
		r, err = formats.RowsFromFile(sourcetest.Archive(t, zip.Deflate, map[string][]byte{"x": b}), source.Options{Scratch: t.TempDir()})
		rows("npz rows "+name, r, err)
		a := array.Array{Name: "x", Data: x.Bytes(layout.Float32, false, fortran), DType: layout.Float32, Shape: x.Shape}
		if fortran {
			a.Strides = []int64{4, 4 * x.Shape[0]}
		}
		r, err = array.RowsFromMemory(a)
		rows("memory rows "+name, r, err)
	}
	many := sourcetest.Grid{Shape: []int64{3 * source.ChunkBytes}, Values: make([]int64, 3*source.ChunkBytes)}
	r, err := formats.RowsFromFile(sourcetest.Write(t, "y.npy", many.NPY(layout.Uint8, false, false, 1)), source.Options{})
	if err != nil {
		t.Fatal(err)
	}
	y, _, err := source.Labels(r)
	rows("labels", y, err)
	s, err := source.SplitRows(r, -1)
	rows("split", s, err)
	files := sourcetest.Small()
	const wide = 3 * source.ChunkBytes / 64
	files["x_indptr"] = sourcetest.Ints([]int64{wide + 1}, make([]int64, wide+1)...)
	files["x_indices"], files["x_data"] = sourcetest.Ints([]int64{0}), sourcetest.Floats([]int64{0})
	files["x_shape"] = sourcetest.Ints([]int64{2}, wide, 16)
	for _, name := range []string{"y", "train_idx", "val_mask"} {
		delete(files, name)
	}
	d, err := formats.Open(context.Background(), sourcetest.Archive(t, zip.Deflate, files), "auto", source.Options{})
	if err != nil {
		t.Fatal(err)
	}
	rows("sparse npz rows", d.Arrays["x"], nil)
	masked := source.NewDataset("npz")
	masked.NumNodes = 2 * source.ChunkBytes
	mask, err := masked.OneMask(context.Background(), sourcetest.IntRows(t, layout.Bool, []int64{2, 2 * source.ChunkBytes}, make([]int64, 4*source.ChunkBytes)...), 1)
	rows("mask", mask, err)
	return out
}

func TestEveryScanStops(t *testing.T) {
	for name, scan := range streams(t) {
		t.Run(name, func(t *testing.T) {
			sourcetest.CheckStops(t, scan)
		})
	}
}

func TestInputsCutDuringAScan(t *testing.T) {
	const n = 4 * source.ChunkEdges
	path := sourcetest.Write(t, "e.npy", sourcetest.EdgeGrid(make([]sourcetest.Pair, n), false).NPY(layout.Int64, false, false, 1))
	e, err := formats.OpenEdges(path, source.Options{})
	if err != nil {
		t.Fatal(err)
	}
	err = e.Edges.Scan(context.Background(), func(_, _ []int64) error { return os.Truncate(path, 1<<20) })
	var typed *source.Error
	if !errors.As(err, &typed) || !errors.Is(err, io.ErrUnexpectedEOF) || !strings.Contains(err.Error(), path) {
		t.Errorf("edges: %v", err)
	}
	for _, fortran := range []bool{false, true} {
		path := sourcetest.Write(t, "x.npy", sourcetest.Grid{Shape: []int64{1 << 20, 2}, Values: make([]int64, 2<<20)}.NPY(layout.Int64, false, fortran, 1))
		r, err := formats.RowsFromFile(path, source.Options{})
		if err != nil {
			t.Fatal(err)
		}
		calls := 0
		err = r.Scan(context.Background(), func(int64, []byte) error {
			calls++
			return os.Truncate(path, 2<<20)
		})
		if fortran {
			// One window holds all of it: the cut comes too late to be met.
			if err != nil || calls != 16 {
				t.Errorf("fortran rows: %d calls, %v", calls, err)
			}
			continue
		}
		if !errors.As(err, &typed) || !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("rows: %v", err)
		}
	}
}

func TestDeflatedMembersThatAreBroken(t *testing.T) {
	g := sourcetest.EdgeGrid(make([]sourcetest.Pair, 100000), false)
	for i := range g.Values {
		g.Values[i] = int64(i) * 7919 % 100003
	}
	whole, err := os.ReadFile(sourcetest.Archive(t, zip.Deflate, map[string][]byte{"edge_index": g.NPY(layout.Int64, false, false, 1),
		"x": sourcetest.Grid{Shape: []int64{50000, 4}, Values: g.Values}.NPY(layout.Int64, false, true, 1)}))
	if err != nil {
		t.Fatal(err)
	}
	for at := 2000; at < len(whole)-400; at += len(whole) / 9 {
		b := slices.Clone(whole)
		b[at] ^= 0x55
		d, err := formats.Open(context.Background(), sourcetest.Write(t, "a.npz", b), "auto", source.Options{Scratch: t.TempDir()})
		if err == nil {
			err = sourcetest.Drain(d)
		}
		if sourcetest.Class(err) != "input" || !strings.Contains(err.Error(), "a.npz") {
			t.Errorf("byte %d of %d flipped: %s: %v", at, len(whole), sourcetest.Class(err), err)
		}
	}
}

func TestScratchDirectoryIsMissing(t *testing.T) {
	b := sourcetest.Grid{Shape: []int64{3, 2}, Values: make([]int64, 6)}.NPY(layout.Int64, false, true, 1)
	r, err := formats.RowsFromFile(sourcetest.Archive(t, zip.Deflate, map[string][]byte{"x": b}), source.Options{Scratch: filepath.Join(t.TempDir(), "none")})
	if err != nil {
		t.Fatal(err)
	}
	err = r.Scan(context.Background(), func(int64, []byte) error { return nil })
	if err == nil || !strings.Contains(err.Error(), "scratch") {
		t.Errorf("got %v", err)
	}
}

func TestSingleFiles(t *testing.T) {
	edges := sourcetest.Write(t, "e.npy", sourcetest.Ints([]int64{3, 2}, 0, 1, 1, 2, 2, 0))
	d, err := formats.Open(context.Background(), edges, "auto", source.Options{})
	if err != nil || d.NumNodes != -1 || d.RankIDs || d.Format != "npy" {
		t.Errorf("%+v, %v", d, err)
	}
	text := sourcetest.Write(t, "e.txt", []byte("7 9\n"))
	e, err := formats.OpenEdges(text, source.Options{})
	if err != nil || !e.RankIDs || e.NumNodes != -1 || !slices.Equal(sourcetest.AllEdges(t, e.Edges), []sourcetest.Pair{{7, 9}}) {
		t.Errorf("text: %+v, %v", e, err)
	}
	several := sourcetest.Archive(t, zip.Store, sourcetest.Small())
	for want, err := range map[string]error{
		"one array is due; it has edge_index": second(formats.RowsFromFile(several, source.Options{})),
		"no numpy file":                       second(formats.RowsFromFile(text, source.Options{})),
		"a single value":                      second(formats.RowsFromFile(sourcetest.Write(t, "s.npy", sourcetest.Ints(nil, 3)), source.Options{})),
		"no member edge_index; it has no":     second(formats.OpenEdges(sourcetest.Archive(t, zip.Store, nil), source.Options{})),
		"no member edge_index; it has x":      second(formats.OpenEdges(sourcetest.Archive(t, zip.Store, map[string][]byte{"x": sourcetest.Ints([]int64{1}, 1)}), source.Options{})),
		"a whole dataset":                     second(formats.OpenEdges(sourcetest.Write(t, "ind.a.graph", []byte("x")), source.Options{})),
		"shape (2, 2, 1)":                     second(formats.OpenEdges(sourcetest.Write(t, "f.npy", sourcetest.Ints([]int64{2, 2, 1}, 1, 2, 3, 4)), source.Options{})),
		"source id":                           second(formats.OpenEdges(sourcetest.Write(t, "f.txt", []byte("a b\n")), source.Options{})),
	} {
		if sourcetest.Class(err) != "input" || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}

func second[A any](_ A, err error) error { return err }

func TestDirectory(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "odd [name]*")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for file, b := range map[string][]byte{
		"edge_index.npy":  sourcetest.Ints([]int64{2, 1}, 3, 1),
		"num_nodes.npy":   sourcetest.Ints(nil, 4),
		"x.npy":           sourcetest.Floats([]int64{4, 1}, 1, 2, 3, 4),
		"y.npy":           sourcetest.Ints([]int64{4}, 0, 1, -1, 0),
		"split_train.npy": sourcetest.Ints([]int64{2}, 1, 3),
		"split_mine.npy":  sourcetest.Grid{Shape: []int64{4}, Values: []int64{1, 0, 0, 1}}.NPY(layout.Bool, false, false, 1),
	} {
		if err := os.WriteFile(filepath.Join(dir, file), b, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	d, err := formats.Open(context.Background(), dir, "auto", source.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if d.NumNodes != 4 || len(d.Arrays) != 2 || len(d.Splits) != 2 || d.Splits["mine"].DType() != layout.Bool ||
		!slices.Equal(sourcetest.AllInts(t, d.Splits["train"]), []int64{1, 3}) || !slices.Equal(sourcetest.AllEdges(t, d.Edges), []sourcetest.Pair{{3, 1}}) {
		t.Errorf("%+v", d)
	}
}
