package source

import (
	"archive/zip"
	"bytes"
	"context"
	"encoding/binary"
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
	"github.com/goagnes/goagnes/layout/npy"
)

// grid is an array of integers in C order, to be written in every form.
type grid struct {
	shape  []int64
	values []int64
}

// bytes lays the elements out as numpy does.
func (g grid) bytes(d layout.DType, big, fortran bool) []byte {
	size := d.Size()
	out := make([]byte, size*len(g.values))
	index := make([]int64, len(g.shape))
	for _, v := range g.values {
		at, step := int64(0), int64(1)
		for i := range index {
			k := i
			if !fortran {
				k = len(index) - 1 - i
			}
			at += index[k] * step
			step *= g.shape[k]
		}
		var w [8]byte
		switch d {
		case layout.Float32:
			binary.LittleEndian.PutUint32(w[:], math.Float32bits(float32(v)))
		case layout.Float64:
			binary.LittleEndian.PutUint64(w[:], math.Float64bits(float64(v)))
		default:
			binary.LittleEndian.PutUint64(w[:], uint64(v))
		}
		e := w[:size]
		if big {
			slices.Reverse(e)
		}
		copy(out[int(at)*size:], e)
		for i := len(index) - 1; i >= 0; i-- {
			if index[i]++; index[i] < g.shape[i] {
				break
			}
			index[i] = 0
		}
	}
	return out
}

// npy writes a .npy file by hand, header and all.
func (g grid) npy(d layout.DType, big, fortran bool, version byte) []byte {
	names := map[layout.DType]string{layout.Int16: "i2", layout.Int32: "i4", layout.Int64: "i8", layout.Uint8: "u1", layout.Uint32: "u4",
		layout.Uint64: "u8", layout.Float32: "f4", layout.Float64: "f8", layout.Bool: "b1"}
	order, f := "<", "False"
	if big {
		order = ">"
	}
	if fortran {
		f = "True"
	}
	head := fmt.Sprintf("{'descr': '%s%s', 'fortran_order': %s, 'shape': %s, }\n", order, names[d], f, shapeString(g.shape))
	b := []byte("\x93NUMPY" + string(rune(version)) + "\x00")
	if version == 1 {
		b = binary.LittleEndian.AppendUint16(b, uint16(len(head)))
	} else {
		b = binary.LittleEndian.AppendUint32(b, uint32(len(head)))
	}
	return append(append(b, head...), g.bytes(d, big, fortran)...)
}

// archive packs .npy files by name.
func archive(t testing.TB, method uint16, files map[string][]byte) string {
	t.Helper()
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	var names []string
	for n := range files {
		names = append(names, n)
	}
	slices.Sort(names)
	for _, n := range names {
		w, err := z.CreateHeader(&zip.FileHeader{Name: n + ".npy", Method: method})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(files[n]); err != nil {
			t.Fatal(err)
		}
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return write(t, "a.npz", b.Bytes())
}

// edgeGrid makes an edge index of both shapes.
func edgeGrid(edges []pair, pairs bool) grid {
	n := int64(len(edges))
	g := grid{shape: []int64{2, n}, values: make([]int64, 2*n)}
	if pairs {
		g.shape = []int64{n, 2}
	}
	for i, e := range edges {
		if pairs {
			g.values[2*i], g.values[2*i+1] = e.src, e.dst
		} else {
			g.values[i], g.values[int64(i)+n] = e.src, e.dst
		}
	}
	return g
}

func TestEdgeIndexForms(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	want := make([]pair, ChunkEdges+1234)
	for i := range want {
		want[i] = pair{r.Int64N(1 << 31), r.Int64N(1 << 31)}
	}
	for _, edges := range [][]pair{want, want[:1], want[:3], {}} {
		for _, d := range []layout.DType{layout.Int32, layout.Uint32, layout.Int64, layout.Uint64} {
			if len(edges) > ChunkEdges && (d == layout.Uint32 || d == layout.Uint64) {
				continue // several chunks of signed ids are enough
			}
			for form := range 8 {
				pairs, big, fortran := form&1 != 0, form&2 != 0, form&4 != 0
				g := edgeGrid(edges, pairs)
				b := g.npy(d, big, fortran, byte(1+form%3))
				paths := []string{write(t, "edge_index.npy", b),
					archive(t, zip.Store, map[string][]byte{"edge_index": b}),
					archive(t, zip.Deflate, map[string][]byte{"edge_index": b})}
				for i, path := range paths {
					e, rank, err := EdgesFromFile(path, Options{})
					if err != nil || rank {
						t.Fatal(err)
					}
					if got := allEdges(t, e); !slices.Equal(got, edges) {
						t.Errorf("%d edges of %s, form %d, file %d: differ", len(edges), d, form, i)
					}
				}
				e, err := EdgesFromMemory(Array{Name: "edge_index", Data: g.bytes(d, big, false), DType: d, BigEndian: big, Shape: g.shape})
				if err != nil {
					t.Fatal(err)
				}
				if !slices.Equal(allEdges(t, e), edges) {
					t.Errorf("%d edges of %s, form %d, in memory: differ", len(edges), d, form)
				}
			}
		}
	}
}

func TestSquareEdgeIndexIsRows(t *testing.T) {
	g := grid{[]int64{2, 2}, []int64{1, 2, 3, 4}}
	e, _, err := EdgesFromFile(write(t, "e.npy", g.npy(layout.Int64, false, false, 1)), Options{})
	if err != nil {
		t.Fatal(err)
	}
	if got := allEdges(t, e); !slices.Equal(got, []pair{{1, 3}, {2, 4}}) {
		t.Errorf("got %v", got)
	}
}

func TestEdgesFromStridedMemory(t *testing.T) {
	// Columns 3 and 1 of a (4, 5) int32 array, rows backwards.
	g := grid{shape: []int64{4, 5}}
	for i := range int64(20) {
		g.values = append(g.values, i)
	}
	a := Array{Name: "e", Data: g.bytes(layout.Int32, false, false), DType: layout.Int32,
		Shape: []int64{4, 2}, Strides: []int64{-20, -8}, Offset: 3*20 + 12}
	e, err := EdgesFromMemory(a)
	if err != nil {
		t.Fatal(err)
	}
	want := []pair{{18, 16}, {13, 11}, {8, 6}, {3, 1}}
	if got := allEdges(t, e); !slices.Equal(got, want) {
		t.Errorf("got %v", got)
	}
	for name, bad := range map[string]Array{
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
		var e *Error
		if _, err := EdgesFromMemory(bad); !errors.As(err, &e) {
			t.Errorf("%s: got %v", name, err)
		}
	}
	src := Array{Name: "s", Data: []byte{1, 0, 0, 0, 2, 0, 0, 0}, DType: layout.Int32, Shape: []int64{2}}
	dst := Array{Name: "d", Data: []byte{3, 9, 4, 9}, DType: layout.Uint8, Shape: []int64{2}, Strides: []int64{2}}
	e, err = EdgesFromPairs(src, dst)
	if err != nil {
		t.Fatal(err)
	}
	if got := allEdges(t, e); !slices.Equal(got, []pair{{1, 3}, {2, 4}}) {
		t.Errorf("got %v", got)
	}
	dst.Shape = []int64{1}
	if _, err = EdgesFromPairs(src, dst); err == nil || !strings.Contains(err.Error(), "1 targets for 2 sources") {
		t.Errorf("got %v", err)
	}
}

func TestBadIDsInArrays(t *testing.T) {
	edges := make([]pair, ChunkEdges+10)
	edges[ChunkEdges+3].dst = -7
	for _, d := range []layout.DType{layout.Int32, layout.Int64, layout.Uint64} {
		for _, pairs := range []bool{false, true} {
			e, _, err := EdgesFromFile(write(t, "e.npy", edgeGrid(edges, pairs).npy(d, false, false, 1)), Options{})
			if err != nil {
				t.Fatal(err)
			}
			err = e.Scan(context.Background(), func(_, _ []int64) error { return nil })
			var bad *Error
			want := "negative id -7"
			if d == layout.Uint64 {
				want = "id 18446744073709551609 is too large"
			}
			if !errors.As(err, &bad) || bad.Index != ChunkEdges+3 || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: got %v", d, err)
			}
		}
	}
}

func TestRowForms(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	for _, shape := range [][]int64{{5}, {1}, {0}, {0, 3}, {7, 3}, {1, 9}, {9, 1}, {4, 2, 3}, {3, 1, 2, 2}, {40000, 13}, {3, 0}} {
		g := grid{shape: shape}
		n := int64(1)
		for _, s := range shape {
			n *= s
		}
		for range n {
			g.values = append(g.values, r.Int64N(100))
		}
		for _, d := range []layout.DType{layout.Uint8, layout.Int16, layout.Float32, layout.Float64} {
			if shape[0] > 1000 && d != layout.Float32 {
				continue // several chunks of one type are enough
			}
			want := g.bytes(d, false, false)
			for form := range 4 {
				big, fortran := form&1 != 0, form&2 != 0
				b := g.npy(d, big, fortran, 1)
				for i, path := range []string{write(t, "x.npy", b), archive(t, zip.Store, map[string][]byte{"x": b}),
					archive(t, zip.Deflate, map[string][]byte{"x": b})} {
					dir := t.TempDir()
					rows, err := RowsFromFile(path, Options{Scratch: dir})
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
					if !bytes.Equal(allRows(t, rows), want) {
						t.Errorf("%v %s, form %d, file %d: differ", shape, d, form, i)
					}
					if left, _ := os.ReadDir(dir); len(left) != 0 {
						t.Errorf("%v was left in the scratch directory", left)
					}
				}
				if n == 0 {
					continue
				}
				a := Array{Name: "x", Data: g.bytes(d, big, fortran), DType: d, BigEndian: big, Shape: shape}
				if fortran {
					step := int64(d.Size())
					for _, s := range shape {
						a.Strides = append(a.Strides, step)
						step *= s
					}
				}
				rows, err := RowsFromMemory(a)
				if err != nil {
					t.Fatal(err)
				}
				if !bytes.Equal(allRows(t, rows), want) {
					t.Errorf("%v %s, form %d, in memory: differ", shape, d, form)
				}
			}
		}
	}
}

// TestFortranWindows reads an array of several windows.
func TestFortranWindows(t *testing.T) {
	g := grid{shape: []int64{windowBytes/1024 + 77, 128}}
	for i := range g.shape[0] * g.shape[1] {
		g.values = append(g.values, i*2654435761%100003)
	}
	rows, err := RowsFromFile(write(t, "x.npy", g.npy(layout.Float64, true, true, 2)), Options{})
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(allRows(t, rows), g.bytes(layout.Float64, false, false)) {
		t.Error("differ")
	}
}

func TestArraysThatChange(t *testing.T) {
	path := write(t, "x.npy", grid{[]int64{4, 2}, make([]int64, 8)}.npy(layout.Int32, false, false, 1))
	rows, err := RowsFromFile(path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	scan := func() error { return rows.Scan(context.Background(), func(int64, []byte) error { return nil }) }
	if err := os.WriteFile(path, grid{[]int64{5, 2}, make([]int64, 10)}.npy(layout.Int32, false, false, 1), 0o644); err != nil {
		t.Fatal(err)
	}
	var e *Error
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

func intRows(t testing.TB, d layout.DType, shape []int64, values ...int64) Rows {
	t.Helper()
	r, err := RowsFromMemory(Array{Name: "a", Data: grid{shape, values}.bytes(d, false, false), DType: d, Shape: shape})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestLabels(t *testing.T) {
	for d := layout.Int8; d <= layout.Uint64; d++ {
		y, note, err := Labels(intRows(t, d, []int64{3, 1}, 5, 0, 7))
		if err != nil || note != "" {
			t.Fatalf("%s: %v, %q", d, err, note)
		}
		if got := allInts(t, y); !slices.Equal(got, []int64{5, 0, 7}) {
			t.Errorf("%s: got %v", d, got)
		}
	}
	nan := []byte{0, 0, 0xc0, 0x7f, 0, 0, 0x80, 0x3f}
	r, err := RowsFromMemory(Array{Name: "y", Data: nan, DType: layout.Float32, Shape: []int64{2}})
	if err != nil {
		t.Fatal(err)
	}
	y, note, err := Labels(r)
	if err != nil || !strings.Contains(note, "NaN") {
		t.Fatalf("%v, %q", err, note)
	}
	if got := allInts(t, y); !slices.Equal(got, []int64{-1, 1}) {
		t.Errorf("got %v", got)
	}
	// More labels than a chunk of int64 holds.
	many := make([]int64, 300000)
	for i := range many {
		many[i] = int64(i % 100)
	}
	y, _, err = Labels(intRows(t, layout.Uint8, []int64{int64(len(many))}, many...))
	if err != nil || !slices.Equal(allInts(t, y), many) {
		t.Errorf("many labels: %v", err)
	}
	bad := []byte{0, 0, 0, 0, 0, 0, 0x20, 0x40}
	half, err := RowsFromMemory(Array{Name: "y", Data: bad, DType: layout.Float32, Shape: []int64{2}})
	if err != nil {
		t.Fatal(err)
	}
	for name, r := range map[string]Rows{"label 2.5": half, "label -2": intRows(t, layout.Int64, []int64{2}, 0, -2),
		"label 18446744073709551615": intRows(t, layout.Uint64, []int64{2}, 0, -1)} {
		y, _, err := Labels(r)
		if err != nil {
			t.Fatal(err)
		}
		err = y.Scan(context.Background(), func(int64, []byte) error { return nil })
		var e *Error
		if !errors.As(err, &e) || e.Index != 1 || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: got %v", name, err)
		}
	}
	if _, _, err := Labels(intRows(t, layout.Int64, []int64{2, 2}, 0, 1, 2, 3)); err == nil {
		t.Error("labels of two columns were taken")
	}
}

func TestSplitRows(t *testing.T) {
	s, err := SplitRows(intRows(t, layout.Int32, []int64{3}, 5, 0, 7), 8)
	if err != nil || !slices.Equal(allInts(t, s), []int64{5, 0, 7}) {
		t.Errorf("ids: %v", err)
	}
	if s, err := SplitRows(intRows(t, layout.Bool, []int64{3}, 1, 0, 1), 3); err != nil || s.DType() != layout.Bool {
		t.Errorf("mask: %v", err)
	}
	for want, r := range map[string]Rows{
		"mask of length 2": intRows(t, layout.Bool, []int64{2}, 1, 0),
		"type float32":     intRows(t, layout.Float32, []int64{1}, 1),
		"one axis":         intRows(t, layout.Int64, []int64{1, 1}, 1),
	} {
		if _, err := SplitRows(r, 3); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v", want, err)
		}
	}
	for want, r := range map[string]Rows{
		"[2]: negative id -4":              intRows(t, layout.Int16, []int64{3}, 0, 1, -4),
		"[1]: id 3, and there are 3 nodes": intRows(t, layout.Int64, []int64{2}, 0, 3),
		"[0]: id 18446744073709551615":     intRows(t, layout.Uint64, []int64{1}, -1),
	} {
		s, err := SplitRows(r, 3)
		if err != nil {
			t.Fatal(err)
		}
		err = s.Scan(context.Background(), func(int64, []byte) error { return nil })
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v", want, err)
		}
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
		e, _, err := EdgesFromFile(edges, Options{})
		if err != nil {
			b.Fatal(err)
		}
		b.SetBytes(16 * n)
		for b.Loop() {
			if err := e.Scan(context.Background(), func(_, _ []int64) error { return nil }); err != nil {
				b.Fatal(err)
			}
		}
	})
	rows := filepath.Join(dir, "x.npy")
	for _, fortran := range []bool{false, true} {
		g := grid{shape: []int64{1 << 17, 128}, values: make([]int64, 1<<24)}
		if err := os.WriteFile(rows, g.npy(layout.Float32, false, fortran, 1), 0o644); err != nil {
			b.Fatal(err)
		}
		b.Run(fmt.Sprintf("rows/fortran=%v", fortran), func(b *testing.B) {
			r, err := RowsFromFile(rows, Options{})
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
