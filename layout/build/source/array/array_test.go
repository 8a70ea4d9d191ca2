package array_test

import (
	"archive/zip"
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
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
	"github.com/goagnes/goagnes/layout/npy"
)

func TestEdgeIndexForms(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	want := make([]sourcetest.Pair, source.ChunkEdges+1234)
	for i := range want {
		want[i] = sourcetest.Pair{r.Int64N(1 << 31), r.Int64N(1 << 31)}
	}
	for _, edges := range [][]sourcetest.Pair{want, want[:1], want[:3], {}} {
		for _, d := range []layout.DType{layout.Int32, layout.Uint32, layout.Int64, layout.Uint64} {
			if len(edges) > source.ChunkEdges && (d == layout.Uint32 || d == layout.Uint64) {
				continue // several chunks of signed ids are enough
			}
			for form := range 8 {
				pairs, big, fortran := form&1 != 0, form&2 != 0, form&4 != 0
				g := sourcetest.EdgeGrid(edges, pairs)
				b := g.NPY(d, big, fortran, byte(1+form%3))
				paths := []string{sourcetest.Write(t, "edge_index.npy", b),
					sourcetest.Archive(t, zip.Store, map[string][]byte{"edge_index": b}),
					sourcetest.Archive(t, zip.Deflate, map[string][]byte{"edge_index": b})}
				for i, path := range paths {
					e, err := formats.OpenEdges(path, source.Options{})
					if err != nil || e.RankIDs {
						t.Fatal(err)
					}
					if got := sourcetest.AllEdges(t, e.Edges); !slices.Equal(got, edges) {
						t.Errorf("%d edges of %s, form %d, file %d: differ", len(edges), d, form, i)
					}
				}
				e, err := array.EdgesFromMemory(array.Array{Name: "edge_index", Data: g.Bytes(d, big, false), DType: d, BigEndian: big, Shape: g.Shape})
				if err != nil {
					t.Fatal(err)
				}
				if !slices.Equal(sourcetest.AllEdges(t, e), edges) {
					t.Errorf("%d edges of %s, form %d, in memory: differ", len(edges), d, form)
				}
			}
		}
	}
}

func TestSquareEdgeIndexIsRows(t *testing.T) {
	g := sourcetest.Grid{Shape: []int64{2, 2}, Values: []int64{1, 2, 3, 4}}
	e, err := formats.OpenEdges(sourcetest.Write(t, "e.npy", g.NPY(layout.Int64, false, false, 1)), source.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if got := sourcetest.AllEdges(t, e.Edges); !slices.Equal(got, []sourcetest.Pair{{1, 3}, {2, 4}}) {
		t.Errorf("got %v", got)
	}
}

func TestEdgesFromStridedMemory(t *testing.T) {
	// Columns 3 and 1 of a (4, 5) int32 array, rows backwards.
	g := sourcetest.Grid{Shape: []int64{4, 5}}
	for i := range int64(20) {
		g.Values = append(g.Values, i)
	}
	a := array.Array{Name: "e", Data: g.Bytes(layout.Int32, false, false), DType: layout.Int32,
		Shape: []int64{4, 2}, Strides: []int64{-20, -8}, Offset: 3*20 + 12}
	e, err := array.EdgesFromMemory(a)
	if err != nil {
		t.Fatal(err)
	}
	want := []sourcetest.Pair{{18, 16}, {13, 11}, {8, 6}, {3, 1}}
	if got := sourcetest.AllEdges(t, e); !slices.Equal(got, want) {
		t.Errorf("got %v", got)
	}
	for name, bad := range map[string]array.Array{
		"before the start": {Data: a.Data, DType: layout.Int32, Shape: []int64{5, 2}, Strides: []int64{-20, -8}, Offset: a.Offset},
		"past the end":     {Data: a.Data, DType: layout.Int32, Shape: []int64{2, 11}},
		"huge stride":      {Data: a.Data, DType: layout.Int32, Shape: []int64{2, 3}, Strides: []int64{math.MinInt64, 4}},
		"overflow":         {Data: a.Data, DType: layout.Int32, Shape: []int64{2, math.MaxInt64}, Strides: []int64{math.MaxInt64, 4}},
		"negative extent":  {Data: a.Data, DType: layout.Int32, Shape: []int64{2, -1}},
		"missing strides":  {Data: a.Data, DType: layout.Int32, Shape: []int64{2, 2}, Strides: []int64{4}},
		"floats":           {Data: a.Data, DType: layout.Float32, Shape: []int64{2, 2}},
		"one axis":         {Data: a.Data, DType: layout.Int32, Shape: []int64{4}},
		"three columns":    {Data: a.Data, DType: layout.Int32, Shape: []int64{3, 3}},
		"no type":          {Data: a.Data, Shape: []int64{2, 2}},
	} {
		var e *source.Error
		if _, err := array.EdgesFromMemory(bad); !errors.As(err, &e) {
			t.Errorf("%s: got %v", name, err)
		}
	}
	src := array.Array{Name: "s", Data: []byte{1, 0, 0, 0, 2, 0, 0, 0}, DType: layout.Int32, Shape: []int64{2}}
	dst := array.Array{Name: "d", Data: []byte{3, 9, 4, 9}, DType: layout.Uint8, Shape: []int64{2}, Strides: []int64{2}}
	e, err = array.EdgesFromPairs(src, dst)
	if err != nil {
		t.Fatal(err)
	}
	if got := sourcetest.AllEdges(t, e); !slices.Equal(got, []sourcetest.Pair{{1, 3}, {2, 4}}) {
		t.Errorf("got %v", got)
	}
	dst.Shape = []int64{1}
	if _, err = array.EdgesFromPairs(src, dst); err == nil || !strings.Contains(err.Error(), "1 targets for 2 sources") {
		t.Errorf("got %v", err)
	}
}

func TestBadIDsInArrays(t *testing.T) {
	edges := make([]sourcetest.Pair, source.ChunkEdges+10)
	edges[source.ChunkEdges+3][1] = -7
	for _, d := range []layout.DType{layout.Int32, layout.Int64, layout.Uint64} {
		for _, pairs := range []bool{false, true} {
			e, err := formats.OpenEdges(sourcetest.Write(t, "e.npy", sourcetest.EdgeGrid(edges, pairs).NPY(d, false, false, 1)), source.Options{})
			if err != nil {
				t.Fatal(err)
			}
			err = e.Edges.Scan(context.Background(), func(_, _ []int64) error { return nil })
			var bad *source.Error
			want := "negative id -7"
			if d == layout.Uint64 {
				want = "id 18446744073709551609 is too large"
			}
			if !errors.As(err, &bad) || bad.Index != source.ChunkEdges+3 || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: got %v", d, err)
			}
		}
	}
}

func TestRowForms(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	for _, shape := range [][]int64{{5}, {1}, {0}, {0, 3}, {7, 3}, {1, 9}, {9, 1}, {4, 2, 3}, {3, 1, 2, 2}, {40000, 13}, {3, 0}} {
		g := sourcetest.Grid{Shape: shape}
		n := int64(1)
		for _, s := range shape {
			n *= s
		}
		for range n {
			g.Values = append(g.Values, r.Int64N(100))
		}
		for _, d := range []layout.DType{layout.Uint8, layout.Int16, layout.Float32, layout.Float64} {
			if shape[0] > 1000 && d != layout.Float32 {
				continue // several chunks of one type are enough
			}
			want := g.Bytes(d, false, false)
			for form := range 4 {
				big, fortran := form&1 != 0, form&2 != 0
				b := g.NPY(d, big, fortran, 1)
				for i, path := range []string{sourcetest.Write(t, "x.npy", b), sourcetest.Archive(t, zip.Store, map[string][]byte{"x": b}),
					sourcetest.Archive(t, zip.Deflate, map[string][]byte{"x": b})} {
					dir := t.TempDir()
					rows, err := formats.RowsFromFile(path, source.Options{Scratch: dir})
					if err != nil {
						t.Fatal(err)
					}
					if rows.Len() != shape[0] || !slices.Equal(rows.RowShape(), shape[1:]) || rows.DType() != d {
						t.Fatalf("%s (%d, %v)", rows.DType(), rows.Len(), rows.RowShape())
					}
					if n == 0 {
						err := rows.Scan(context.Background(), func(int64, []byte) error { return errors.New("a call") })
						if err != nil {
							t.Errorf("shape %v: %v", shape, err)
						}
						continue
					}
					if !bytes.Equal(sourcetest.AllRows(t, rows), want) {
						t.Errorf("%v %s, form %d, file %d: differ", shape, d, form, i)
					}
					if left, _ := os.ReadDir(dir); len(left) != 0 {
						t.Errorf("%v was left in the scratch directory", left)
					}
				}
				if n == 0 {
					continue
				}
				a := array.Array{Name: "x", Data: g.Bytes(d, big, fortran), DType: d, BigEndian: big, Shape: shape}
				if fortran {
					step := int64(d.Size())
					for _, s := range shape {
						a.Strides = append(a.Strides, step)
						step *= s
					}
				}
				rows, err := array.RowsFromMemory(a)
				if err != nil {
					t.Fatal(err)
				}
				if !bytes.Equal(sourcetest.AllRows(t, rows), want) {
					t.Errorf("%v %s, form %d, in memory: differ", shape, d, form)
				}
			}
		}
	}
}

// TestFortranWindows reads an array of several windows.
func TestFortranWindows(t *testing.T) {
	g := sourcetest.Grid{Shape: []int64{array.WindowSize/1024 + 77, 128}}
	for i := range g.Shape[0] * g.Shape[1] {
		g.Values = append(g.Values, i*2654435761%100003)
	}
	rows, err := formats.RowsFromFile(sourcetest.Write(t, "x.npy", g.NPY(layout.Float64, true, true, 2)), source.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(sourcetest.AllRows(t, rows), g.Bytes(layout.Float64, false, false)) {
		t.Error("differ")
	}
}

func TestArraysThatChange(t *testing.T) {
	path := sourcetest.Write(t, "x.npy", sourcetest.Grid{Shape: []int64{4, 2}, Values: make([]int64, 8)}.NPY(layout.Int32, false, false, 1))
	rows, err := formats.RowsFromFile(path, source.Options{})
	if err != nil {
		t.Fatal(err)
	}
	scan := func() error { return rows.Scan(context.Background(), func(int64, []byte) error { return nil }) }
	if err := os.WriteFile(path, sourcetest.Grid{Shape: []int64{5, 2}, Values: make([]int64, 10)}.NPY(layout.Int32, false, false, 1), 0o644); err != nil {
		t.Fatal(err)
	}
	var e *source.Error
	if err := scan(); !errors.As(err, &e) || !strings.Contains(err.Error(), "changed") {
		t.Errorf("another shape: %v", err)
	}
	if err := os.Truncate(path, 100); err != nil {
		t.Fatal(err)
	}
	var n *npy.Error
	if err := scan(); !errors.As(err, &n) || !strings.Contains(err.Error(), path) {
		t.Errorf("a cut file: %v", err)
	}
}

func BenchmarkNPY(b *testing.B) {
	dir := b.TempDir()
	edges := filepath.Join(dir, "e.npy")
	f, err := os.Create(edges)
	if err != nil {
		b.Fatal(err)
	}
	const n = 8 << 20
	if _, err := npy.WriteHeader(f, layout.Int64, []int64{2, n}); err != nil {
		b.Fatal(err)
	}
	if _, err := f.Write(make([]byte, 16*n)); err != nil {
		b.Fatal(err)
	}
	if err := f.Close(); err != nil {
		b.Fatal(err)
	}
	b.Run("edges", func(b *testing.B) {
		e, err := formats.OpenEdges(edges, source.Options{})
		if err != nil {
			b.Fatal(err)
		}
		b.SetBytes(16 * n)
		for b.Loop() {
			if err := e.Edges.Scan(context.Background(), func(_, _ []int64) error { return nil }); err != nil {
				b.Fatal(err)
			}
		}
	})
	rows := filepath.Join(dir, "x.npy")
	for _, fortran := range []bool{false, true} {
		g := sourcetest.Grid{Shape: []int64{1 << 17, 128}, Values: make([]int64, 1<<24)}
		if err := os.WriteFile(rows, g.NPY(layout.Float32, false, fortran, 1), 0o644); err != nil {
			b.Fatal(err)
		}
		b.Run(fmt.Sprintf("rows/fortran=%v", fortran), func(b *testing.B) {
			r, err := formats.RowsFromFile(rows, source.Options{})
			if err != nil {
				b.Fatal(err)
			}
			b.SetBytes(1 << 26)
			for b.Loop() {
				if err := r.Scan(context.Background(), func(int64, []byte) error { return nil }); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func TestCompressedArrays(t *testing.T) {
	list := make([]sourcetest.Pair, 2*source.ChunkEdges+5)
	for i := range list {
		list[i] = sourcetest.Pair{int64(i), int64(i * 7 % 1000)}
	}
	for _, pairs := range []bool{false, true} {
		for _, fortran := range []bool{false, true} {
			b := string(sourcetest.EdgeGrid(list, pairs).NPY(layout.Int64, true, fortran, 2))
			for _, in := range [][]byte{sourcetest.Compress(t, b), sourcetest.Compress(t, b[:77], b[77:]), sourcetest.ZstdBytes(t, b)} {
				e, err := formats.OpenEdges(sourcetest.Write(t, "e.npy", in), source.Options{})
				if err != nil || e.RankIDs {
					t.Fatal(err)
				}
				for range 2 {
					if !slices.Equal(sourcetest.AllEdges(t, e.Edges), list) {
						t.Errorf("pairs %v, fortran %v: the edges differ", pairs, fortran)
					}
				}
			}
		}
	}
	x := sourcetest.Grid{Shape: []int64{3, 2}, Values: []int64{1, 2, 3, 4, 5, 6}}
	want := x.Bytes(layout.Float32, false, false)
	for _, fortran := range []bool{false, true} {
		b := string(x.NPY(layout.Float32, false, fortran, 1))
		for _, in := range [][]byte{sourcetest.Compress(t, b), sourcetest.ZstdBytes(t, b)} {
			r, err := formats.RowsFromFile(sourcetest.Write(t, "x.npy.gz", in), source.Options{Scratch: t.TempDir()})
			if err != nil {
				t.Fatal(err)
			}
			if got := sourcetest.AllRows(t, r); !bytes.Equal(got, want) {
				t.Errorf("fortran %v: got %v", fortran, got)
			}
		}
	}
}

func TestCompressedArraysRefuse(t *testing.T) {
	b := string(sourcetest.Ints([]int64{2, 3}, 0, 1, 2, 3, 4, 5))
	flipped := sourcetest.Compress(t, b)
	flipped[len(flipped)-6] ^= 1
	for name, c := range map[string]struct {
		in   []byte
		want string
	}{
		"short":          {sourcetest.Compress(t, b[:len(b)-8]), "ends early"},
		"short zstd":     {sourcetest.ZstdBytes(t, b[:len(b)-8]), "ends early"},
		"cut":            {sourcetest.Compress(t, b)[:40], ""},
		"more":           {sourcetest.Compress(t, b, "x"), "more bytes than the header asks for"},
		"wrong checksum": {flipped, "checksum"},
		"no array":       {sourcetest.Compress(t, "PK\x03\x04"), "compressed .npz archive"},
	} {
		path := sourcetest.Write(t, "e.npy.gz", c.in)
		e, err := formats.OpenEdges(path, source.Options{})
		if err == nil {
			err = e.Edges.Scan(context.Background(), func(_, _ []int64) error { return nil })
		}
		if err == nil || sourcetest.Class(err) == "" || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: got %v, want %q", name, err, c.want)
		}
	}
}
