package formats_test

// Anything at all in the files of every format: a typed error that names the
// file, or a source that can be read to its end twice with the same result,
// within memory in proportion to what the files hold.
//
// An input is a whole source in one string: its files, each after a line
// "== NAME", which the engine changes as it likes. Archives are packed from such
// files, so that what is changed is inside their checksums; what they are as a
// whole, FuzzArchive of layout/npy tries.

import (
	"archive/zip"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/goagnes/goagnes/layout/build/source"
	"github.com/goagnes/goagnes/layout/build/source/formats"
	"github.com/goagnes/goagnes/layout/build/source/sourcetest"
	"github.com/goagnes/goagnes/tests/bounds"
	"github.com/parquet-go/parquet-go"
)

const maxInput = 1 << 16

// pack puts files into one input.
func pack[T ~string | ~[]byte](files map[string]T) []byte {
	var b bytes.Buffer
	for _, name := range slices.Sorted(maps.Keys(files)) {
		b.WriteString("== " + name + "\n" + string(files[name]) + "\n")
	}
	return b.Bytes()
}

// unpack takes an input apart: at most 32 files.
func unpack(b []byte) map[string][]byte {
	files := map[string][]byte{}
	b = bytes.TrimSuffix(b, []byte("\n"))
	for i, part := range bytes.Split(append([]byte("\n"), b...), []byte("\n== ")) {
		name, content, ok := bytes.Cut(part, []byte("\n"))
		if i > 0 && ok && len(files) < 32 && len(name) < 100 && filepath.IsLocal(string(name)) && !bytes.ContainsRune(name, 0) {
			files[string(name)] = content
		}
	}
	return files
}

// zipped packs files as members of an archive.
func zipped(files map[string][]byte) []byte {
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	for i, name := range slices.Sorted(maps.Keys(files)) {
		// Both methods: neither may matter.
		w, err := z.CreateHeader(&zip.FileHeader{Name: name + ".npy", Method: uint16(i%2) * zip.Deflate})
		if err == nil {
			_, err = w.Write(files[name])
		}
		if err != nil {
			panic("formats: an archive in memory cannot be written: " + err.Error())
		}
	}
	if err := z.Close(); err != nil {
		panic("formats: an archive in memory cannot be closed: " + err.Error())
	}
	return b.Bytes()
}

// form is how an input becomes a source of a format.
type form struct {
	format string
	path   string // of the source, in the folder of the files
	// archive packs the files into one archive of this name; those in a folder of
	// that name with its ending, as x.npz/y, where others lie beside it.
	archive bool
	limit   bounds.Limit
}

// lay writes an input's files below dir, which is emptied first, and returns the
// bytes that were written.
func (o form) lay(t testing.TB, dir string, in []byte) int {
	files := unpack(in)
	if o.archive {
		packed, plain := map[string]map[string][]byte{}, map[string][]byte{}
		for name, b := range files {
			if archive, member, ok := strings.Cut(name, ".npz/"); ok {
				if packed[archive+".npz"] == nil {
					packed[archive+".npz"] = map[string][]byte{}
				}
				packed[archive+".npz"][member] = b
			} else {
				plain[name] = b
			}
		}
		for name, members := range packed {
			plain[name] = zipped(members)
		}
		files = plain
	}
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	total := 0
	for name, b := range files {
		path := filepath.Join(dir, name)
		if os.MkdirAll(filepath.Dir(path), 0o755) == nil && os.WriteFile(path, b, 0o644) == nil { // a file may be named as a folder
			total += len(b)
		}
	}
	return total
}

// digest reads a source to its end.
func digest(ctx context.Context, d *source.Dataset) (sum uint32, err error) {
	n := int64(0)
	add := func(b []byte) { sum = crc32.Update(sum, crc32.IEEETable, b) }
	number := func(list []int64) {
		var b [8]byte
		for _, v := range list {
			for i := range b {
				b[i] = byte(v >> (8 * i))
			}
			add(b[:])
		}
	}
	err = d.Edges.Scan(ctx, func(src, dst []int64) error {
		if len(src) != len(dst) || len(src) > source.ChunkEdges || len(src) > 0 && (slices.Min(src) < 0 || slices.Min(dst) < 0) {
			return errors.New("edges outside the rules of package source")
		}
		n += int64(len(src))
		number(src)
		number(dst)
		return nil
	})
	if count, known := d.Edges.Count(); err == nil && known && count != n {
		err = errors.New("the number of edges is not what was said")
	}
	if d.NodeIDs != nil && err == nil {
		err = d.NodeIDs.Scan(ctx, func(ids []int64) error { number(ids); return nil })
	}
	for _, m := range []map[string]source.Rows{d.Arrays, d.Splits} {
		for _, name := range slices.Sorted(maps.Keys(m)) {
			if err != nil {
				return sum, err
			}
			r, next := m[name], int64(0)
			row := int64(r.DType().Size())
			for _, k := range r.RowShape() {
				row *= k
			}
			err = r.Scan(ctx, func(first int64, rows []byte) error {
				if row <= 0 || first != next || int64(len(rows))%row != 0 || len(rows) > max(source.ChunkBytes, int(row)) {
					return errors.New("rows outside the rules of package source")
				}
				next += int64(len(rows)) / row
				add(rows)
				return nil
			})
			if err == nil && row > 0 && next != r.Len() {
				err = errors.New("the number of rows is not what was said")
			}
		}
	}
	return sum, err
}

func (o form) fuzz(f *testing.F, inputs ...[]byte) {
	for _, in := range inputs {
		f.Add(in)
	}
	if o.limit == (bounds.Limit{}) {
		o.limit = bounds.Limit{Fixed: 24 << 20, Factor: 256}
	}
	dir, scratch := filepath.Join(f.TempDir(), "source"), f.TempDir()
	// The first input is a source that is read: what is fuzzed is more than refusals.
	o.lay(f, dir, inputs[0])
	d, err := formats.Open(context.Background(), filepath.Join(dir, o.path), o.format, source.Options{Scratch: scratch})
	if err == nil {
		_, err = digest(context.Background(), d)
	}
	if err != nil {
		f.Fatal(err)
	}
	typed := func(t *testing.T, err error) {
		var e *source.Error
		var u *source.UnsupportedError
		switch class := sourcetest.Class(err); {
		case class != "input" && class != "unsupported":
			t.Fatalf("untyped error %v (%T)", err, err)
		case !strings.Contains(err.Error(), dir):
			t.Fatalf("no file is named: %v", err)
		case errors.As(err, &e) || errors.As(err, &u):
			if strings.ContainsAny(err.Error(), "\n\x00") {
				t.Fatalf("an error of several lines: %q", err)
			}
		}
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		if len(in) > maxInput {
			return
		}
		total := o.lay(t, dir, in)
		bounds.Hold(t, total, o.limit, func() {
			ctx, cancel := context.WithTimeout(context.Background(), bounds.Deadline/2)
			defer cancel()
			d, err := formats.Open(ctx, filepath.Join(dir, o.path), o.format, source.Options{Scratch: scratch})
			if err != nil {
				typed(t, err)
				return
			}
			one, err := digest(ctx, d)
			if err != nil {
				typed(t, err)
				return
			}
			if two, err := digest(ctx, d); err != nil || two != one {
				t.Fatalf("read again: %x, was %x; %v", two, one, err)
			}
		})
		if left, err := os.ReadDir(scratch); err != nil || len(left) > 0 {
			t.Fatalf("left in the scratch directory: %v, %v", left, err)
		}
	})
}

// one is an input of one file.
func one(name, content string) []byte { return pack(map[string]string{name: content}) }

func FuzzSNAP(f *testing.F) {
	form{format: "snap", path: "g.txt"}.fuzz(f, one("g.txt", "# c\n1 2\n3\t4\r\n5,6,7\n\n"), one("g.txt", "9223372036854775807 0 x\n-1 2"),
		one("g.txt", string(sourcetest.Compress(f, "1 2\n", "3 4\n"))), one("g.txt", string(sourcetest.ZstdBytes(f, "1 2\n", "3 4\n"))))
}

func FuzzCSV(f *testing.F) {
	form{format: "csv", path: "g.csv"}.fuzz(f, one("g.csv", "source,target,weight\n1,2,0.5\n3,\"4\",1\n"), one("g.csv", "1;2\n3;4\n"), one("g.csv", "u\tv\r\n1\t2\r\n"),
		one("g.csv", string(sourcetest.Compress(f, "src,dst\n1,2\n"))))
}

func FuzzMatrixMarket(f *testing.F) {
	form{format: "mtx", path: "g.mtx"}.fuzz(f, one("g.mtx", "%%MatrixMarket matrix coordinate real general\n% c\n3 3 2\n1 2 0.5\n3 1 -1e3\n"),
		one("g.mtx", "%%MatrixMarket matrix coordinate pattern symmetric\n%%GraphBLAS type uint8_t\n3 3 2\n2 1\n3 3\n"),
		one("g.mtx", "%%MatrixMarket matrix array integer skew-symmetric\n3 3\n1\n0\n-2\n"), one("g.mtx", "4 4 1\n1 2\n"))
}

func FuzzVE(f *testing.F) {
	form{format: "ve", path: "g.v"}.fuzz(f, pack(map[string]string{"g.v": "1\n2\n7\n", "g.e": "1 2\n7 1 0.5\n"}), pack(map[string]string{"g.v": "1 a\n2 b\n", "g.e": "2 1 x\n"}))
}

func FuzzNPY(f *testing.F) {
	small := sourcetest.Small()
	files := map[string][]byte{"g/edge_index.npy": small["edge_index"], "g/y.npy": small["y"], "g/num_nodes.npy": sourcetest.Ints(nil, 4), "g/split_train.npy": small["train_idx"],
		"g/x.npy": sourcetest.Floats([]int64{4, 2}, 1, 2, 3, 4, 5, 6, 7, 8), "g/split_val.npy": small["val_mask"]}
	form{format: "npy", path: "g"}.fuzz(f, pack(files), pack(map[string][]byte{"g/edge_index.npy": sourcetest.EdgeGrid([]sourcetest.Pair{{0, 1}, {2, 1}}, true).NPY(3+5, true, true, 2)}))
}

// A row of features may be as wide as source.MaxRowBytes, whatever little is in it:
// that is the limit of the archives of sparse features.
var wideRows = bounds.Limit{Fixed: 24<<20 + 3*source.MaxRowBytes, Factor: 256}

// members are an archive's, by the name of its file.
func members(m map[string][]byte, path string) map[string][]byte {
	files := map[string][]byte{}
	for name, b := range m {
		files[path+"/"+name] = b
	}
	return files
}

func FuzzNPZ(f *testing.F) {
	dense := sourcetest.Small()
	for _, name := range []string{"x_indptr", "x_indices", "x_data", "x_shape"} {
		delete(dense, name)
	}
	dense["x"] = sourcetest.Floats([]int64{4, 2}, 1, 2, 3, 4, 5, 6, 7, 8)
	form{format: "npz", path: "a.npz", archive: true, limit: wideRows}.fuzz(f, pack(members(sourcetest.Small(), "a.npz")), pack(members(dense, "a.npz")))
}

func FuzzGNN(f *testing.F) {
	form{format: "gnn", path: "a.npz", archive: true, limit: wideRows}.fuzz(f, pack(members(map[string][]byte{
		"adj_indptr": sourcetest.Ints([]int64{5}, 0, 1, 2, 3, 5), "adj_indices": sourcetest.Ints([]int64{5}, 1, 0, 2, 1, 1),
		"adj_data": sourcetest.Floats([]int64{5}, 1, 1, 1, 1, 1), "adj_shape": sourcetest.Ints([]int64{2}, 4, 4),
		"attr_indptr": sourcetest.Ints([]int64{5}, 0, 1, 1, 3, 4), "attr_indices": sourcetest.Ints([]int64{4}, 2, 0, 1, 1),
		"attr_data": sourcetest.Floats([]int64{4}, 5, 6, 7, 8), "attr_shape": sourcetest.Ints([]int64{2}, 4, 3), "labels": sourcetest.Ints([]int64{4}, 0, 1, 1, 0),
	}, "a.npz")))
}

func FuzzSciPy(f *testing.F) {
	m := map[string][]byte{"indptr": sourcetest.Ints([]int64{4}, 0, 1, 2, 3), "indices": sourcetest.Ints([]int64{3}, 1, 0, 2), "data": sourcetest.Floats([]int64{3}, 1, 2, 3),
		"shape": sourcetest.Ints([]int64{2}, 3, 3), "format": []byte("\x93NUMPY\x01\x00\x3a\x00{'descr': '|S3', 'fortran_order': False, 'shape': (), }  \ncsr")}
	coo := map[string][]byte{"row": m["indices"], "col": m["indices"], "data": m["data"], "shape": m["shape"], "format": bytes.Replace(m["format"], []byte("csr"), []byte("coo"), 1)}
	form{format: "scipy", path: "a.npz", archive: true, limit: wideRows}.fuzz(f, pack(members(m, "a.npz")), pack(members(coo, "a.npz")))
}

func FuzzHeterophilous(f *testing.F) {
	mask := sourcetest.Grid{Shape: []int64{2, 3}, Values: []int64{1, 0, 0, 0, 1, 1}}.NPY(13, false, false, 1)
	form{format: "heterophilous", path: "a.npz", archive: true, limit: wideRows}.fuzz(f, pack(members(map[string][]byte{
		"node_features": sourcetest.Floats([]int64{3, 2}, 1, 2, 3, 4, 5, 6), "node_labels": sourcetest.Ints([]int64{3}, 0, 1, 1), "edges": sourcetest.Ints([]int64{2, 2}, 0, 1, 1, 2),
		"train_masks": mask, "val_masks": mask, "test_masks": mask,
	}, "a.npz")))
}

func FuzzOGB(f *testing.F) {
	// Nine files, each with buffers of its own whenever it is read.
	form{format: "ogb", path: "g", limit: bounds.Limit{Fixed: 128 << 20, Factor: 256}}.fuzz(f, pack(map[string]string{
		"g/raw/edge.csv.gz": string(sourcetest.Compress(f, "0,1\n2,1\n1,0\n")), "g/raw/num-node-list.csv.gz": "3\n", "g/raw/num-edge-list.csv.gz": "3\n",
		"g/raw/node-feat.csv.gz": "0.5,-1.25e-3\n1,2\n3,4.0\n", "g/raw/node-label.csv.gz": "4\nnan\n0\n", "g/raw/node_year.csv.gz": "2013\n2014\n2015\n",
		"g/split/time/train.csv.gz": "2\n0\n", "g/split/time/valid.csv.gz": "1\n", "g/split/time/test.csv.gz": "",
	}))
}

func FuzzOGBBinary(f *testing.F) {
	files := members(map[string][]byte{"edge_index": sourcetest.Ints([]int64{2, 4}, 0, 1, 2, 2, 1, 2, 0, 1), "num_nodes_list": sourcetest.Ints([]int64{1}, 3),
		"num_edges_list": sourcetest.Ints([]int64{1}, 4), "node_feat": sourcetest.Floats([]int64{3, 2}, 1, 2, 3, 4, 5, 6), "node_year": sourcetest.Ints([]int64{3, 1}, 2000, 2001, 2002)}, "g/raw/data.npz")
	files["g/raw/node-label.npz/node_label"] = sourcetest.Floats([]int64{3, 1}, 0, 3, 0)
	files["g/split/time/train.csv.gz"], files["g/split/time/valid.csv.gz"], files["g/split/time/test.csv.gz"] = []byte("2\n"), []byte("1\n"), []byte("0\n")
	form{format: "ogb-binary", path: "g", archive: true, limit: wideRows}.fuzz(f, pack(files))
}

func FuzzIGB(f *testing.F) {
	values := make([]int64, 2*1024)
	form{format: "igb", path: "g"}.fuzz(f, pack(map[string][]byte{
		"g/processed/paper__cites__paper/edge_index.npy": sourcetest.Ints([]int64{3, 2}, 0, 1, 1, 1, 1, 0), "g/processed/paper/node_feat.npy": sourcetest.Floats([]int64{2, 1024}, values...),
		"g/processed/paper/node_label_19.npy": sourcetest.Floats([]int64{2}, 1, 0),
	}))
}

func FuzzParquet(f *testing.F) {
	type row struct {
		Source *int64  `parquet:"source,optional,snappy"`
		Target uint32  `parquet:"target,dict"`
		Weight float64 `parquet:"w"`
	}
	var b bytes.Buffer
	w := parquet.NewGenericWriter[row](&b, parquet.MaxRowsPerRowGroup(3))
	v := int64(7)
	if _, err := w.Write([]row{{&v, 1, 0.5}, {&v, 2, 1}, {&v, 3, 2}, {&v, 4, 3}}); err != nil {
		f.Fatal(err)
	}
	if err := w.Close(); err != nil {
		f.Fatal(err)
	}
	form{format: "parquet", path: "g.parquet"}.fuzz(f, one("g.parquet", b.String()))
}

// short and the functions after it write what CPython's pickle does by protocol 2.
func short(n int) string { return "M" + string([]byte{byte(n), byte(n >> 8)}) }

func ndarray(d string, shape []int, data string) string {
	tuple := "("
	for _, n := range shape {
		tuple += short(n)
	}
	length := string(binary.LittleEndian.AppendUint32(nil, uint32(len(data))))
	return "cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\x00\x85U\x01b\x87R(K\x01" + tuple + "tcnumpy\ndtype\nU\x02" + d +
		"K\x00K\x01\x87R(K\x03U\x01<NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb\x89T" + length + data + "tb"
}

// words are little-endian int32.
func words(n int, value func(i int) int) string {
	var b []byte
	for i := range n {
		b = binary.LittleEndian.AppendUint32(b, uint32(value(i)))
	}
	return string(b)
}

// csrMatrix has a one in column i modulo cols of each row.
func csrMatrix(rows, cols int) string {
	identity := func(i int) int { return i }
	return "\x80\x02cscipy.sparse.csr\ncsr_matrix\n)\x81}(U\x06_shape" + short(rows) + short(cols) + "\x86U\x06indptr" + ndarray("i4", []int{rows + 1}, words(rows+1, identity)) +
		"U\x07indices" + ndarray("i4", []int{rows}, words(rows, func(i int) int { return i % cols })) + "U\x04data" + ndarray("f4", []int{rows}, words(rows, func(int) int { return 0x3f800000 })) + "ub."
}

// oneHot are labels of two classes in turn.
func oneHot(rows int) string {
	return "\x80\x02" + ndarray("i4", []int{rows, 2}, words(2*rows, func(i int) int { return (i/2 + i) % 2 })) + "."
}

func FuzzPlanetoid(f *testing.F) {
	// Two nodes to learn from, 500 for validation, two to test.
	form{format: "planetoid", path: "g"}.fuzz(f, pack(map[string]string{
		"g/ind.t.x": csrMatrix(2, 3), "g/ind.t.tx": csrMatrix(2, 3), "g/ind.t.allx": csrMatrix(502, 3), "g/ind.t.y": oneHot(2), "g/ind.t.ty": oneHot(2), "g/ind.t.ally": oneHot(502),
		"g/ind.t.graph": "\x80\x02ccollections\ndefaultdict\nc__builtin__\nlist\n\x85R(K\x00]K\x01aK\x01](K\x00K\x04eK\x02]K\x03aK\x03]K\x02aK\x04]K\x01au.", "g/ind.t.test.index": "503\n502\n",
	}))
}

// TestFuzzInputs takes inputs apart and puts them together.
func TestFuzzInputs(t *testing.T) {
	in := pack(map[string]string{"a/b": "1\n2\n", "c": "", "d": "\n"})
	if got := unpack(in); len(got) != 3 || string(got["a/b"]) != "1\n2\n" || string(got["c"]) != "" || string(got["d"]) != "\n" {
		t.Errorf("%q", got)
	}
}
