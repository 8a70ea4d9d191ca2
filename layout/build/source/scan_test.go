package source

// What holds for every stream of this package: errors of the caller end a scan and
// come back as they are, cancelling ends it, and a file that is cut or changed in
// the middle of a scan gives a typed error.

import (
	"archive/zip"
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/goagnes/goagnes/layout"
	"github.com/goagnes/goagnes/layout/build/source/pickle"
)

// streams opens one of each kind, all of several chunks.
func streams(t *testing.T) map[string]func(ctx context.Context, f func() error) error {
	t.Helper()
	out := map[string]func(ctx context.Context, f func() error) error{}
	edges := func(name string, e Edges, err error) {
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
	rows := func(name string, r Rows, err error) {
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
	const n = 2*ChunkEdges + 5
	list := make([]pair, n)
	for _, pairs := range []bool{false, true} {
		g := edgeGrid(list, pairs)
		b := g.npy(layout.Int32, false, false, 1)
		e, _, err := EdgesFromFile(write(t, "e.npy", b), Options{})
		edges("npy edges "+shapeString(g.shape), e, err)
		e, _, err = EdgesFromFile(archive(t, zip.Deflate, map[string][]byte{"edge_index": b}), Options{})
		edges("npz edges "+shapeString(g.shape), e, err)
		e, err = EdgesFromMemory(Array{Name: "e", Data: g.bytes(layout.Int32, false, false), DType: layout.Int32, Shape: g.shape})
		edges("memory edges "+shapeString(g.shape), e, err)
	}
	edges("text", &textEdges{write(t, "e.txt", []byte(strings.Repeat("0 1\n", n)))}, nil)
	x := grid{[]int64{3 * ChunkBytes / 64, 16}, make([]int64, 3*ChunkBytes/4)}
	for _, fortran := range []bool{false, true} {
		b := x.npy(layout.Float32, false, fortran, 1)
		name := map[bool]string{false: "C", true: "fortran"}[fortran]
		r, err := RowsFromFile(write(t, "x.npy", b), Options{})
		rows("npy rows "+name, r, err)
		r, err = RowsFromFile(archive(t, zip.Deflate, map[string][]byte{"x": b}), Options{Scratch: t.TempDir()})
		rows("npz rows "+name, r, err)
		a := Array{Name: "x", Data: x.bytes(layout.Float32, false, fortran), DType: layout.Float32, Shape: x.shape}
		if fortran {
			a.Strides = []int64{4, 4 * x.shape[0]}
		}
		r, err = RowsFromMemory(a)
		rows("memory rows "+name, r, err)
	}
	many := grid{[]int64{3 * ChunkBytes}, make([]int64, 3*ChunkBytes)}
	r, err := RowsFromFile(write(t, "y.npy", many.npy(layout.Uint8, false, false, 1)), Options{})
	if err != nil {
		t.Fatal(err)
	}
	y, _, err := Labels(r)
	rows("labels", y, err)
	s, err := SplitRows(r, -1)
	rows("split", s, err)
	files := small()
	const wide = 3 * ChunkBytes / 64
	files["x_indptr"] = ints([]int64{wide + 1}, make([]int64, wide+1)...)
	files["x_indices"], files["x_data"] = ints([]int64{0}), floats([]int64{0})
	files["x_shape"] = ints([]int64{2}, wide, 16)
	for _, name := range []string{"y", "train_idx", "val_mask"} {
		delete(files, name)
	}
	d, err := Open(context.Background(), archive(t, zip.Deflate, files), "auto", Options{})
	if err != nil {
		t.Fatal(err)
	}
	rows("sparse npz rows", d.Arrays["x"], nil)
	rows("sparse memory rows", &sparseRows{name: "x", columns: 1 << 10, rows: make([]sparseRow, 3<<10)}, nil)
	rows("mask", &maskRow{intRows(t, layout.Bool, []int64{2, 2 * ChunkBytes}, make([]int64, 4*ChunkBytes)...), 1}, nil)
	return out
}

func TestEveryScanStops(t *testing.T) {
	for name, scan := range streams(t) {
		t.Run(name, func(t *testing.T) {
			own := errors.New("enough")
			for _, limit := range []int{1, 2} {
				calls := 0
				err := scan(context.Background(), func() error {
					if calls++; calls == limit {
						return own
					}
					return nil
				})
				if err != own || calls != limit {
					t.Errorf("after %d calls: %v, want the error of call %d", calls, err, limit)
				}
			}
			ctx, cancel := context.WithCancel(context.Background())
			calls := 0
			err := scan(ctx, func() error {
				calls++
				cancel()
				return nil
			})
			if err != context.Canceled || calls != 1 {
				t.Errorf("cancelled: after %d calls %v", calls, err)
			}
			if err := scan(ctx, func() error { return own }); err != context.Canceled {
				t.Errorf("cancelled before: %v", err)
			}
			calls = 0
			if err := scan(context.Background(), func() error { calls++; return nil }); err != nil || calls < 2 {
				t.Errorf("%d calls, %v", calls, err)
			}
		})
	}
}

func TestInputsCutDuringAScan(t *testing.T) {
	const n = 4 * ChunkEdges
	path := write(t, "e.npy", edgeGrid(make([]pair, n), false).npy(layout.Int64, false, false, 1))
	e, _, err := EdgesFromFile(path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	err = e.Scan(context.Background(), func(_, _ []int64) error { return os.Truncate(path, 1<<20) })
	var typed *Error
	if !errors.As(err, &typed) || !errors.Is(err, io.ErrUnexpectedEOF) || !strings.Contains(err.Error(), path) {
		t.Errorf("edges: %v", err)
	}
	for _, fortran := range []bool{false, true} {
		path := write(t, "x.npy", grid{[]int64{1 << 20, 2}, make([]int64, 2<<20)}.npy(layout.Int64, false, fortran, 1))
		r, err := RowsFromFile(path, Options{})
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
	g := edgeGrid(make([]pair, 100000), false)
	for i := range g.values {
		g.values[i] = int64(i) * 7919 % 100003
	}
	whole, err := os.ReadFile(archive(t, zip.Deflate, map[string][]byte{"edge_index": g.npy(layout.Int64, false, false, 1),
		"x": grid{[]int64{50000, 4}, g.values}.npy(layout.Int64, false, true, 1)}))
	if err != nil {
		t.Fatal(err)
	}
	for at := 2000; at < len(whole)-400; at += len(whole) / 9 {
		b := slices.Clone(whole)
		b[at] ^= 0x55
		d, err := Open(context.Background(), write(t, "a.npz", b), "auto", Options{Scratch: t.TempDir()})
		if err == nil {
			err = drain(d)
		}
		if class(err) != "input" || !strings.Contains(err.Error(), "a.npz") {
			t.Errorf("byte %d of %d flipped: %s: %v", at, len(whole), class(err), err)
		}
	}
}

func TestScratchDirectoryIsMissing(t *testing.T) {
	b := grid{[]int64{3, 2}, make([]int64, 6)}.npy(layout.Int64, false, true, 1)
	r, err := RowsFromFile(archive(t, zip.Deflate, map[string][]byte{"x": b}), Options{Scratch: filepath.Join(t.TempDir(), "none")})
	if err != nil {
		t.Fatal(err)
	}
	err = r.Scan(context.Background(), func(int64, []byte) error { return nil })
	if err == nil || !strings.Contains(err.Error(), "scratch") {
		t.Errorf("got %v", err)
	}
}

func TestSingleFiles(t *testing.T) {
	edges := write(t, "e.npy", ints([]int64{3, 2}, 0, 1, 1, 2, 2, 0))
	d, err := Open(context.Background(), edges, "auto", Options{})
	if err != nil || d.NumNodes != -1 || d.RankIDs || d.Format != "npy" {
		t.Errorf("%+v, %v", d, err)
	}
	text := write(t, "e.txt", []byte("7 9\n"))
	e, rank, err := EdgesFromFile(text, Options{})
	if err != nil || !rank || !slices.Equal(allEdges(t, e), []pair{{7, 9}}) {
		t.Errorf("text: rank %v, %v", rank, err)
	}
	several := archive(t, zip.Store, small())
	for want, err := range map[string]error{
		"one array is due; it has edge_index": second(RowsFromFile(several, Options{})),
		"no numpy file":                       second(RowsFromFile(text, Options{})),
		"a single value":                      second(RowsFromFile(write(t, "s.npy", ints(nil, 3)), Options{})),
		"no member edge_index; it has no":     third(EdgesFromFile(archive(t, zip.Store, nil), Options{})),
		"no member edge_index; it has x":      third(EdgesFromFile(archive(t, zip.Store, map[string][]byte{"x": ints([]int64{1}, 1)}), Options{})),
		"a whole dataset":                     third(EdgesFromFile(write(t, "ind.a.graph", []byte("x")), Options{})),
		"shape (2, 2, 1)":                     third(EdgesFromFile(write(t, "f.npy", ints([]int64{2, 2, 1}, 1, 2, 3, 4)), Options{})),
		"source id":                           third(EdgesFromFile(write(t, "f.txt", []byte("a b\n")), Options{})),
	} {
		if class(err) != "input" || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}

func second[A any](_ A, err error) error        { return err }
func third[A, B any](_ A, _ B, err error) error { return err }

func TestDirectory(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "odd [name]*")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for file, b := range map[string][]byte{
		"edge_index.npy":  ints([]int64{2, 1}, 3, 1),
		"num_nodes.npy":   ints(nil, 4),
		"x.npy":           floats([]int64{4, 1}, 1, 2, 3, 4),
		"y.npy":           ints([]int64{4}, 0, 1, -1, 0),
		"split_train.npy": ints([]int64{2}, 1, 3),
		"split_mine.npy":  grid{[]int64{4}, []int64{1, 0, 0, 1}}.npy(layout.Bool, false, false, 1),
	} {
		if err := os.WriteFile(filepath.Join(dir, file), b, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	d, err := Open(context.Background(), dir, "auto", Options{})
	if err != nil {
		t.Fatal(err)
	}
	if d.NumNodes != 4 || len(d.Arrays) != 2 || len(d.Splits) != 2 || d.Splits["mine"].DType() != layout.Bool ||
		!slices.Equal(allInts(t, d.Splits["train"]), []int64{1, 3}) || !slices.Equal(allEdges(t, d.Edges), []pair{{3, 1}}) {
		t.Errorf("%+v", d)
	}
}

func TestPickledArrays(t *testing.T) {
	g := grid{[]int64{3, 2}, []int64{1, 2, 3, 4, 5, 6}}
	want := g.bytes(layout.Int32, false, false)
	for form := range 4 {
		big, fortran := form&1 != 0, form&2 != 0
		r, err := RowsFromMemory(pickleArray("a", &pickle.Array{DType: pickle.DType{Type: layout.Int32, BigEndian: big},
			Shape: g.shape, Fortran: fortran, Data: string(g.bytes(layout.Int32, big, fortran))}))
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(allRows(t, r), want) {
			t.Errorf("form %d differs", form)
		}
	}
}
