package source

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

	"golang.org/x/sys/unix"

	"github.com/goagnes/goagnes/layout"
)

// class is what every typed error says of itself.
func class(err error) string {
	var c interface{ Class() string }
	if errors.As(err, &c) {
		return c.Class()
	}
	return "none"
}

// drain reads everything a dataset holds and returns the first error.
func drain(d *Dataset) error {
	ctx := context.Background()
	if err := d.Edges.Scan(ctx, func(_, _ []int64) error { return nil }); err != nil {
		return err
	}
	for _, m := range []map[string]Rows{d.Arrays, d.Splits} {
		for _, r := range m {
			if err := r.Scan(ctx, func(int64, []byte) error { return nil }); err != nil {
				return err
			}
		}
	}
	return nil
}

func ints(shape []int64, values ...int64) []byte {
	return grid{shape, values}.npy(layout.Int64, false, false, 1)
}

func floats(shape []int64, values ...int64) []byte {
	return grid{shape, values}.npy(layout.Float32, false, false, 1)
}

// small is a whole archive: four nodes, three edges, sparse features.
func small() map[string][]byte {
	return map[string][]byte{
		"edge_index": ints([]int64{2, 3}, 0, 1, 2, 1, 2, 3),
		"x_indptr":   ints([]int64{5}, 0, 1, 1, 3, 4),
		"x_indices":  grid{[]int64{4}, []int64{2, 0, 1, 1}}.npy(layout.Int16, false, false, 1),
		"x_data":     floats([]int64{4}, 5, 6, 7, 8),
		"x_shape":    ints([]int64{2}, 4, 3),
		"y":          ints([]int64{4}, 0, 1, -1, 1),
		"train_idx":  ints([]int64{2}, 0, 3),
		"val_mask":   grid{[]int64{4}, []int64{0, 1, 0, 0}}.npy(layout.Bool, false, false, 1),
	}
}

func TestArchive(t *testing.T) {
	for _, method := range []uint16{zip.Store, zip.Deflate} {
		files := small()
		files["year"] = ints([]int64{4}, 1, 2, 3, 4)
		d, err := Open(context.Background(), archive(t, method, files), "auto", Options{})
		if err != nil {
			t.Fatal(err)
		}
		if d.NumNodes != 4 || d.Format != "npz" || len(d.Notes) != 1 || !strings.Contains(d.Notes[0], "member year is not read") {
			t.Errorf("%+v", d)
		}
		if e := allEdges(t, d.Edges); !slices.Equal(e, []pair{{0, 1}, {1, 2}, {2, 3}}) {
			t.Errorf("edges %v", e)
		}
		want := grid{[]int64{4, 3}, []int64{0, 0, 5, 0, 0, 0, 6, 7, 0, 0, 8, 0}}.bytes(layout.Float32, false, false)
		if !bytes.Equal(allRows(t, d.Arrays["x"]), want) {
			t.Error("x differs")
		}
		if y := allInts(t, d.Arrays["y"]); !slices.Equal(y, []int64{0, 1, -1, 1}) {
			t.Errorf("y %v", y)
		}
		if ids := allInts(t, d.Splits["train"]); !slices.Equal(ids, []int64{0, 3}) || d.Splits["val"].DType() != layout.Bool {
			t.Errorf("train %v", ids)
		}
	}
}

func TestArchiveRefuses(t *testing.T) {
	for _, c := range []struct {
		name, member string
		content      []byte
		class, want  string
	}{
		{"no edges", "edge_index", nil, "input", "no member edge_index; it has"},
		{"edges of one axis", "edge_index", ints([]int64{4}, 0, 1, 2, 3), "input", "shape (4,)"},
		{"float edges", "edge_index", floats([]int64{2, 2}, 0, 1, 2, 3), "input", "ids of type float32"},
		{"negative edge", "edge_index", ints([]int64{2, 2}, 0, 1, -2, 3), "input", "edge_index[0]: negative id -2"},
		{"edges that are no array", "edge_index", []byte("0 1\n1 2\n"), "input", "edge_index: no .npy file"},
		{"objects", "y", []byte("\x93NUMPY\x01\x00\x3b\x00{'descr': '|O', 'fortran_order': False, 'shape': (4,), }    \n"), "unsupported", `"|O"`},
		{"labels of other length", "y", ints([]int64{3}, 0, 1, 1), "input", "3 rows for 4 nodes"},
		{"labels of two columns", "y", ints([]int64{4, 2}, 0, 1, 1, 0, 1, 0, 1, 0), "input", "shape (4, 2)"},
		{"train id outside", "train_idx", ints([]int64{1}, 4), "input", "id 4, and there are 4 nodes"},
		{"short mask", "val_mask", grid{[]int64{3}, []int64{0, 1, 0}}.npy(layout.Bool, false, false, 1), "input", "mask of length 3"},
		{"part of a matrix", "x_data", nil, "input", "member x_data is missing"},
		{"indptr too short", "x_indptr", ints([]int64{4}, 0, 1, 3, 4), "input", "length 4 for 4 rows"},
		{"indptr falls", "x_indptr", ints([]int64{5}, 0, 3, 1, 3, 4), "input", "x_indptr[2]: 1 after 3"},
		{"indptr past the end", "x_indptr", ints([]int64{5}, 0, 1, 1, 3, 9), "input", "9 after 3"},
		{"indptr starts late", "x_indptr", ints([]int64{5}, 1, 1, 1, 3, 4), "input", "starts with 0"},
		{"indptr ends early", "x_indptr", ints([]int64{5}, 0, 1, 1, 3, 3), "input", "ends at 3"},
		{"column outside", "x_indices", ints([]int64{4}, 2, 0, 3, 1), "input", "x_indices[2]: column 3"},
		{"column twice", "x_indices", ints([]int64{4}, 2, 0, 0, 1), "input", "a second time in row 2"},
		{"other count of values", "x_data", floats([]int64{3}, 1, 2, 3), "input", "3 values for 4"},
		{"shape of three", "x_shape", ints([]int64{3}, 4, 3, 1), "input", "2 numbers are due"},
		{"huge rows", "x_shape", ints([]int64{2}, 4, 1<<40), "input", "at most"},
	} {
		t.Run(c.name, func(t *testing.T) {
			files := small()
			if files[c.member] = c.content; c.content == nil {
				delete(files, c.member)
			}
			path := archive(t, zip.Deflate, files)
			d, err := Open(context.Background(), path, "npz", Options{})
			if err == nil {
				err = drain(d)
			}
			if class(err) != c.class || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), path) {
				t.Errorf("got %s: %v; want %s with %q", class(err), err, c.class, c.want)
			}
		})
	}
}

func TestDirectoryRefuses(t *testing.T) {
	for name, c := range map[string]struct{ file, want string }{
		"rows of x and y": {"y.npy", "y.npy: 3 rows for 4 nodes"},
		"count of nodes":  {"num_nodes.npy", "4 rows for 3 nodes"},
	} {
		dir := t.TempDir()
		for file, content := range map[string][]byte{"edge_index.npy": ints([]int64{2, 1}, 0, 1), "x.npy": ints([]int64{4}, 0, 0, 0, 0)} {
			if err := os.WriteFile(filepath.Join(dir, file), content, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		content := ints([]int64{3}, 0, 0, 0)
		if c.file == "num_nodes.npy" {
			content = ints(nil, 3)
		}
		if err := os.WriteFile(filepath.Join(dir, c.file), content, 0o644); err != nil {
			t.Fatal(err)
		}
		_, err := Open(context.Background(), dir, "auto", Options{})
		if class(err) != "input" || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

func TestDetect(t *testing.T) {
	for _, c := range []struct{ name, content, class, want string }{
		{"a.txt", "0 1\n", "", "snap"},
		{"b", "", "", "snap"},
		{"c.gz", string(compress(t, "0 1\n")), "", "snap"},
		{"d.bin", string(ints([]int64{2, 1}, 0, 1)), "", "npy"},
		{"e.bin", "PK\x05\x06" + strings.Repeat("\x00", 18), "", "npz"},
		{"ind.cora.graph", "x", "", "planetoid"},
		{"ind.cora.test.index", "x", "", "planetoid"},
		{"f.txt", "%%MatrixMarket matrix coordinate\n", "", "mtx"},
		{"f.mtx.gz", string(compress(t, "%%matrixmarket matrix coordinate\n")), "", "mtx"},
		{"f2.mtx.zst", string(zstdBytes(t, "3 3 1\n1 2\n")), "input", "mtx or snap"},
		{"g.parquet", "PAR1\x15\x04", "", "parquet"},
		{"h.zst", string(zstdBytes(t, "0 1\n")), "", "snap"},
		{"h2.zst", "\x28\xb5\x2f\xfd\x24", "input", "unexpected EOF"},
		{"i.bz2", "BZh91AY&SY", "unsupported", "bzip2"},
		{"j.xz", "\xfd7zXZ\x00", "unsupported", "xz"},
		{"k.npy.gz", string(compress(t, string(ints([]int64{2, 1}, 0, 1)))), "", "npy"},
		{"k.npy.zst", string(zstdBytes(t, string(ints([]int64{2, 1}, 0, 1)))), "", "npy"},
		{"k.npz.gz", string(compress(t, "PK\x05\x06"+strings.Repeat("\x00", 18))), "unsupported", "gzip -d"},
		{"k.parquet.zst", string(zstdBytes(t, "PAR1\x15\x04")), "unsupported", "zstd -d"},
		{"l.bin", "\x00\x01\x02", "input", "neither text"},
		{"m.txt", "", "", "snap"},
		{"n.npy", "", "input", "an empty file"},
		{"o.npz", "", "input", "an empty file"},
	} {
		format, err := Detect(write(t, c.name, []byte(c.content)))
		if c.class == "" && (err != nil || format != c.want) {
			t.Errorf("%s: %q, %v; want %q", c.name, format, err, c.want)
		}
		if c.class != "" && (class(err) != c.class || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %q, %s: %v; want %s with %q", c.name, format, class(err), err, c.class, c.want)
		}
	}
	if _, err := Detect(t.TempDir()); class(err) != "input" {
		t.Errorf("an empty directory: %v", err)
	}
	pipe := filepath.Join(t.TempDir(), "pipe.txt")
	if err := unix.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Detect(pipe); class(err) != "input" || !strings.Contains(err.Error(), "regular") { // or hang
		t.Errorf("a pipe: %v", err)
	}
	for _, format := range []string{"mag240m", "pyg", "nonsense"} {
		_, err := Open(context.Background(), write(t, "a.txt", []byte("0 1\n")), format, Options{})
		if class(err) != "unsupported" || !strings.Contains(err.Error(), format) || format != "pyg" && !strings.Contains(err.Error(), "auto, "+strings.Join(Formats(), ", ")) {
			t.Errorf("%s: got %v", format, err)
		}
	}
}

// TestPlanetoidRefuses spoils one file of Cora at a time.
func TestPlanetoidRefuses(t *testing.T) {
	dir := corpus(t, "planetoid/cora")
	read := func(ending string) []byte {
		b, err := os.ReadFile(filepath.Join(dir, "ind.cora."+ending))
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	cut := func(b []byte) []byte { return b[:len(b)/2] }
	for _, c := range []struct {
		name, ending string
		content      []byte
		want         string
	}{
		{"missing", "tx", nil, "no such file"},
		{"cut", "graph", cut(read("graph")), "ends early"},
		{"code", "graph", []byte("cos\nsystem\n(S'true'\ntR."), `"os.system", which is not allowed`},
		{"features for labels", "ally", read("allx"), "no two-dimensional array"},
		{"labels for features", "allx", read("ally"), "no csr_matrix"},
		{"test rows for all", "allx", read("tx"), "1000 rows, where test.index starts with 1708"},
		{"fewer rows than tests", "tx", read("x"), "140 rows for 1000 lines"},
		{"test labels of other length", "ty", read("y"), "140 rows, where 1000 are due"},
		{"a list for the graph", "graph", []byte("\x80\x02]."), "no dictionary"},
		{"a node outside", "graph", []byte("\x80\x02}K\x00]M\xff\xffas."), "neighbour 65535 of node 0"},
		{"a key outside", "graph", []byte("\x80\x02}J\xff\xff\xff\xff]s."), "key -1"},
		{"no list", "graph", []byte("\x80\x02}K\x00K\x01s."), "no list of neighbours"},
		{"a word among the tests", "test.index", []byte("1708\nx\n"), "test.index:2: "},
		{"a test node twice", "test.index", []byte("1708\n1709\n1708\n"), "test.index:3: node 1708 a second time"},
		{"no tests", "test.index", nil, "no such file"},
		{"empty tests", "test.index", []byte("\n"), "no test node"},
		{"a huge test node", "test.index", []byte("1708\n99999999\n"), "no node number below"},
	} {
		t.Run(c.name, func(t *testing.T) {
			spoiled := t.TempDir()
			for _, ending := range planetoidEndings {
				from := filepath.Join(dir, "ind.cora."+ending)
				to := filepath.Join(spoiled, "ind.cora."+ending)
				switch {
				case ending != c.ending:
					if err := os.Symlink(from, to); err != nil {
						t.Fatal(err)
					}
				case c.content != nil:
					if err := os.WriteFile(to, c.content, 0o644); err != nil {
						t.Fatal(err)
					}
				}
			}
			_, err := Open(context.Background(), spoiled, "planetoid", Options{})
			if class(err) != "input" || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %s: %v; want %q", class(err), err, c.want)
			}
			if err != nil && !strings.Contains(err.Error(), filepath.Join(spoiled, "ind.cora."+c.ending)) {
				t.Errorf("the file is not named: %v", err)
			}
		})
	}
}

func TestPlanetoidSharedLists(t *testing.T) {
	// Keys may share one list; the edges are bounded all the same.
	dir := t.TempDir()
	src := corpus(t, "planetoid/cora")
	for _, ending := range planetoidEndings {
		if ending != "graph" {
			if err := os.Symlink(filepath.Join(src, "ind.cora."+ending), filepath.Join(dir, "ind.cora."+ending)); err != nil {
				t.Fatal(err)
			}
		}
	}
	var b bytes.Buffer
	b.WriteString("\x80\x02](" + strings.Repeat("K\x01", 5000) + "eq\x000}(")
	for i := range 2700 {
		b.Write([]byte{'M', byte(i), byte(i >> 8), 'h', 0})
	}
	b.WriteString("u.")
	if err := os.WriteFile(filepath.Join(dir, "ind.cora.graph"), b.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
	_, err := Open(context.Background(), dir, "auto", Options{})
	if class(err) != "input" || !strings.Contains(err.Error(), "edges") {
		t.Errorf("got %v", err)
	}
}

func TestErrorText(t *testing.T) {
	for want, e := range map[string]*Error{
		"f: m":            inputError("f", "m"),
		"f:7: m":          lineError("f", 7, "m"),
		"f[0]: m":         indexError("f", 0, "m"),
		"f: m: EOF":       {File: "f", Index: -1, Msg: "m", Err: io.EOF},
		"f: EOF":          {File: "f", Index: -1, Err: io.EOF},
		"f: m: no access": {File: "f", Index: -1, Msg: "m", Err: &os.PathError{Op: "open", Path: "f", Err: errors.New("no access")}},
	} {
		if e.Error() != want || e.Class() != "input" || !errors.Is(e, e.Err) && e.Err != nil {
			t.Errorf("got %q, want %q", e.Error(), want)
		}
	}
}
