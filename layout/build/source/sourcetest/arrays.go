package sourcetest

// Arrays in every form, written by hand.

import (
	"archive/zip"
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/goagnes/goagnes/layout"
	"github.com/goagnes/goagnes/layout/build/source"
	"github.com/goagnes/goagnes/layout/build/source/array"
)

// Grid is an array of integers in C order, to be written in every form.
type Grid struct {
	Shape  []int64
	Values []int64
}

// Bytes lays the elements out as numpy does.
func (g Grid) Bytes(d layout.DType, big, fortran bool) []byte {
	size := d.Size()
	out := make([]byte, size*len(g.Values))
	index := make([]int64, len(g.Shape))
	for _, v := range g.Values {
		at, step := int64(0), int64(1)
		for i := range index {
			k := i
			if !fortran {
				k = len(index) - 1 - i
			}
			at += index[k] * step
			step *= g.Shape[k]
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
			if index[i]++; index[i] < g.Shape[i] {
				break
			}
			index[i] = 0
		}
	}
	return out
}

// NPY writes a .npy file by hand, header and all.
func (g Grid) NPY(d layout.DType, big, fortran bool, version byte) []byte {
	names := map[layout.DType]string{layout.Int16: "i2", layout.Int32: "i4", layout.Int64: "i8", layout.Uint8: "u1", layout.Uint32: "u4",
		layout.Uint64: "u8", layout.Float32: "f4", layout.Float64: "f8", layout.Bool: "b1"}
	order, f := "<", "False"
	if big {
		order = ">"
	}
	if fortran {
		f = "True"
	}
	head := fmt.Sprintf("{'descr': '%s%s', 'fortran_order': %s, 'shape': %s, }\n", order, names[d], f, source.ShapeString(g.Shape))
	b := []byte("\x93NUMPY" + string(rune(version)) + "\x00")
	if version == 1 {
		b = binary.LittleEndian.AppendUint16(b, uint16(len(head)))
	} else {
		b = binary.LittleEndian.AppendUint32(b, uint32(len(head)))
	}
	return append(append(b, head...), g.Bytes(d, big, fortran)...)
}

// Archive packs .npy files by name.
func Archive(t testing.TB, method uint16, files map[string][]byte) string {
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
	return Write(t, "a.npz", b.Bytes())
}

// EdgeGrid makes an edge index of both shapes.
func EdgeGrid(edges []Pair, pairs bool) Grid {
	n := int64(len(edges))
	g := Grid{Shape: []int64{2, n}, Values: make([]int64, 2*n)}
	if pairs {
		g.Shape = []int64{n, 2}
	}
	for i, e := range edges {
		if pairs {
			g.Values[2*i], g.Values[2*i+1] = e[0], e[1]
		} else {
			g.Values[i], g.Values[int64(i)+n] = e[0], e[1]
		}
	}
	return g
}

// IntRows are rows in memory.
func IntRows(t testing.TB, d layout.DType, shape []int64, values ...int64) source.Rows {
	t.Helper()
	r, err := array.RowsFromMemory(array.Array{Name: "a", Data: Grid{Shape: shape, Values: values}.Bytes(d, false, false), DType: d, Shape: shape})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// Ints is a .npy file of int64.
func Ints(shape []int64, values ...int64) []byte {
	return Grid{Shape: shape, Values: values}.NPY(layout.Int64, false, false, 1)
}

// Floats is a .npy file of float32.
func Floats(shape []int64, values ...int64) []byte {
	return Grid{Shape: shape, Values: values}.NPY(layout.Float32, false, false, 1)
}

// Small is a whole archive: four nodes, three edges, sparse features.
func Small() map[string][]byte {
	return map[string][]byte{
		"edge_index": Ints([]int64{2, 3}, 0, 1, 2, 1, 2, 3),
		"x_indptr":   Ints([]int64{5}, 0, 1, 1, 3, 4),
		"x_indices":  Grid{Shape: []int64{4}, Values: []int64{2, 0, 1, 1}}.NPY(layout.Int16, false, false, 1),
		"x_data":     Floats([]int64{4}, 5, 6, 7, 8),
		"x_shape":    Ints([]int64{2}, 4, 3),
		"y":          Ints([]int64{4}, 0, 1, -1, 1),
		"train_idx":  Ints([]int64{2}, 0, 3),
		"val_mask":   Grid{Shape: []int64{4}, Values: []int64{0, 1, 0, 0}}.NPY(layout.Bool, false, false, 1),
	}
}
