package folder_test

import (
	"context"
	"encoding/binary"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/goagnes/goagnes/layout"
	"github.com/goagnes/goagnes/layout/build/source"
	"github.com/goagnes/goagnes/layout/build/source/formats"
	"github.com/goagnes/goagnes/layout/build/source/sourcetest"
)

// arxivLike is OGB's layout, with three nodes.
func arxivLike() map[string]string {
	return map[string]string{
		"raw/edge.csv.gz":             "0,1\n2,1\n1,0\n",
		"raw/num-node-list.csv.gz":    "3\n",
		"raw/num-edge-list.csv.gz":    "3\n",
		"raw/node-feat.csv.gz":        "0.5,-1.25e-3\n1,2\n3,4.0\n",
		"raw/node-label.csv.gz":       "4\nnan\n0\n",
		"raw/node_year.csv.gz":        "2013\n2014\n2015\n",
		"split/time/train.csv.gz":     "2\n0\n",
		"split/time/valid.csv.gz":     "1\n",
		"split/time/test.csv.gz":      "",
		"mapping/labelidx2arxiv.csv":  "whatever\n",
		"RELEASE_v1.txt":              "",
		"split/not-a-folder.csv":      "",
		"raw/edge-feat.csv.gz":        "1\n1\n1\n",
		"processed/geometric_data.pt": "",
	}
}

func openAs(t *testing.T, path, format string) *source.Dataset {
	t.Helper()
	if got, err := formats.Detect(path); err != nil || got != format {
		t.Fatalf("detected %q, err = %v; expected %q", got, err, format)
	}
	d, err := formats.Open(context.Background(), path, "auto", source.Options{Scratch: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func checkSplits(t *testing.T, d *source.Dataset, want map[string][]int64) {
	t.Helper()
	if len(d.Splits) != len(want) {
		t.Errorf("splits %v", d.Splits)
	}
	for name, ids := range want {
		if got := sourcetest.AllInts(t, d.Splits[name]); !slices.Equal(got, ids) {
			t.Errorf("split %s is %v, expected %v", name, got, ids)
		}
	}
}

func TestOGB(t *testing.T) {
	d := openAs(t, sourcetest.Tree(t, "ogbn_arxiv", arxivLike()), "ogb")
	if got := sourcetest.AllEdges(t, d.Edges); !slices.Equal(got, []sourcetest.Pair{{0, 1}, {2, 1}, {1, 0}}) {
		t.Errorf("edges %v", got)
	}
	if d.NumNodes != 3 || d.RankIDs {
		t.Errorf("%d nodes, ranked %v", d.NumNodes, d.RankIDs)
	}
	x := d.Arrays["x"]
	if got := sourcetest.Float32s(sourcetest.AllRows(t, x)); x.DType() != layout.Float32 || !slices.Equal(x.RowShape(), []int64{2}) || !slices.Equal(got, []float32{0.5, -1.25e-3, 1, 2, 3, 4}) {
		t.Errorf("x %v", got)
	}
	if got := sourcetest.AllInts(t, d.Arrays["y"]); !slices.Equal(got, []int64{4, -1, 0}) {
		t.Errorf("y %v", got)
	}
	if got := sourcetest.AllInts(t, d.Arrays["year"]); !slices.Equal(got, []int64{2013, 2014, 2015}) {
		t.Errorf("year %v", got)
	}
	checkSplits(t, d, map[string][]int64{"train": {2, 0}, "val": {1}, "test": {}})
	notes := strings.Join(d.Notes, "\n")
	for _, want := range []string{"edge-feat", `"year"`, `split "time"`} {
		if !strings.Contains(notes, want) {
			t.Errorf("notes %q, expected %s", notes, want)
		}
	}
}

func TestOGBSplitIndex(t *testing.T) {
	files := arxivLike()
	for name, ids := range map[string]string{"train": "1\n", "valid": "0\n", "test": "2\n"} {
		files["split/another/"+name+".csv.gz"] = ids
	}
	path := sourcetest.Tree(t, "ogbn_arxiv", files)
	for i, want := range [][]int64{{1}, {2, 0}} {
		d, err := formats.Open(context.Background(), path, "ogb", source.Options{SplitIndex: i})
		if err != nil {
			t.Fatal(err)
		}
		if got := sourcetest.AllInts(t, d.Splits["train"]); !slices.Equal(got, want) {
			t.Errorf("split %d: train %v, expected %v", i, got, want)
		}
	}
	if _, err := formats.Open(context.Background(), path, "ogb", source.Options{SplitIndex: 2}); sourcetest.Class(err) != "input" || !strings.Contains(err.Error(), "split_index=2") {
		t.Errorf("err = %v", err)
	}
}

// The loader of OGB adds reverses to two of its graphs.
func TestOGBInverse(t *testing.T) {
	files := arxivLike()
	n := source.ChunkEdges/2 + 10
	files["raw/edge.csv.gz"] = strings.Repeat("0,1\n", n-1) + "2,1\n"
	files["raw/num-edge-list.csv.gz"] = "32778"
	d := openAs(t, sourcetest.Tree(t, "ogbn_products", files), "ogb")
	got := sourcetest.AllEdges(t, d.Edges)
	if len(got) != 2*n || got[0] != (sourcetest.Pair{0, 1}) || got[1] != (sourcetest.Pair{1, 0}) || got[2*n-2] != (sourcetest.Pair{2, 1}) || got[2*n-1] != (sourcetest.Pair{1, 2}) {
		t.Errorf("%d edges, %v … %v", len(got), got[:2], got[len(got)-2:])
	}
}

func TestOGBManyLabels(t *testing.T) {
	files := arxivLike()
	files["raw/node-label.csv.gz"] = "0,1\n1,1\n0,0\n"
	d := openAs(t, sourcetest.Tree(t, "some", files), "ogb")
	if d.Arrays["y"] != nil || d.Arrays["labels"] == nil || !slices.Equal(d.Arrays["labels"].RowShape(), []int64{2}) {
		t.Errorf("arrays %v", d.Arrays)
	}
}

func TestOGBRefuses(t *testing.T) {
	for _, c := range []struct{ file, content, class, want string }{
		{"raw/edge.csv.gz", "0,1\n2,x\n1,0\n", "input", "edge.csv.gz:2"},
		{"raw/edge.csv.gz", "0,1\n-2,1\n1,0\n", "input", "edge.csv.gz:2"},
		{"raw/edge.csv.gz", "0,1\n", "input", "num-edge-list says 3"},
		{"raw/edge.csv.gz", "0,1\n0,1\n0,1\n0,1\n", "input", "more edges than the 3"},
		{"raw/num-node-list.csv.gz", "3\n4\n", "input", "num-node-list.csv.gz:2"},
		{"raw/num-node-list.csv.gz", "", "input", "empty"},
		{"raw/num-edge-list.csv.gz", "3.5", "input", "num-edge-list.csv.gz:1"},
		{"raw/node-feat.csv.gz", "1,2\n3\n4,5\n", "input", "node-feat.csv.gz:2"},
		{"raw/node-feat.csv.gz", "1,2\n3,4,5\n6,7\n", "input", "node-feat.csv.gz:2"},
		{"raw/node-feat.csv.gz", "1,2\n3,a\n6,7\n", "input", "node-feat.csv.gz:2"},
		{"raw/node-feat.csv.gz", "1,2\n\n6,7\n8,9\n", "input", "node-feat.csv.gz:2"},
		{"raw/node-feat.csv.gz", "1,2\n3,4\n", "input", "2 rows, where 3"},
		{"raw/node-feat.csv.gz", "1\n1\n1\n1\n", "input", "node-feat.csv.gz:4"},
		{"raw/node-label.csv.gz", "1\n1.5\n1\n", "input", "node-label.csv.gz:2"},
		{"split/time/train.csv.gz", "0\n3\n", "input", "train.csv.gz[1]"},
		{"split/other/train.csv.gz", "0\n", "input", "valid.csv.gz"}, // the first by name
		{"raw/num-node-dict.csv.gz", "author,paper\n1,2\n", "unsupported", "several node types"},
	} {
		files := arxivLike()
		files[c.file] = c.content
		path := sourcetest.Tree(t, "ogbn", files)
		d, err := formats.Open(context.Background(), path, "ogb", source.Options{})
		if err == nil {
			err = sourcetest.Drain(d)
		}
		if sourcetest.Class(err) != c.class || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s %q: %v, expected %s with %q", c.file, c.content, err, c.class, c.want)
		}
	}
	for _, file := range []string{"raw/edge.csv.gz", "raw/num-edge-list.csv.gz", "split/time/valid.csv.gz"} {
		files := arxivLike()
		delete(files, file)
		if _, err := formats.Open(context.Background(), sourcetest.Tree(t, "ogbn", files), "ogb", source.Options{}); sourcetest.Class(err) != "input" || !strings.Contains(err.Error(), filepath.Base(file)) {
			t.Errorf("without %s: %v", file, err)
		}
	}
}

// papersLike is the layout of papers100M; method is that of the zip members.
func papersLike(t *testing.T, method uint16, spoil map[string][]byte) string {
	t.Helper()
	members := map[string][]byte{
		"edge_index":     sourcetest.Ints([]int64{2, 4}, 0, 1, 2, 2, 1, 2, 0, 1),
		"num_nodes_list": sourcetest.Ints([]int64{1}, 3),
		"num_edges_list": sourcetest.Ints([]int64{1}, 4),
		"node_feat":      sourcetest.Floats([]int64{3, 2}, 1, 2, 3, 4, 5, 6),
		"node_year":      sourcetest.Ints([]int64{3, 1}, 2000, 2001, 2002),
	}
	for name, b := range spoil {
		members[name] = b
	}
	labels := sourcetest.Floats([]int64{3, 1}, 0, 3, 0)
	binary.LittleEndian.PutUint32(labels[len(labels)-12:], math.Float32bits(float32(math.NaN())))
	root := sourcetest.Tree(t, "ogbn_papers100M", map[string]string{
		"split/time/train.csv.gz": "2\n", "split/time/valid.csv.gz": "1\n", "split/time/test.csv.gz": "0\n1\n", "raw/x": "",
	})
	for file, m := range map[string]map[string][]byte{"data.npz": members, "node-label.npz": {"node_label": labels}} {
		b, err := os.ReadFile(sourcetest.Archive(t, method, m))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(root, "raw", file), b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

func TestOGBBinary(t *testing.T) {
	for _, method := range []uint16{0, 8} {
		d := openAs(t, papersLike(t, method, nil), "ogb-binary")
		if got := sourcetest.AllEdges(t, d.Edges); !slices.Equal(got, []sourcetest.Pair{{0, 1}, {1, 2}, {2, 0}, {2, 1}}) {
			t.Errorf("edges %v", got)
		}
		if got := sourcetest.Float32s(sourcetest.AllRows(t, d.Arrays["x"])); !slices.Equal(got, []float32{1, 2, 3, 4, 5, 6}) {
			t.Errorf("x %v", got)
		}
		if got := sourcetest.AllInts(t, d.Arrays["y"]); !slices.Equal(got, []int64{-1, 3, 0}) {
			t.Errorf("y %v", got)
		}
		if got := sourcetest.AllInts(t, d.Arrays["year"]); !slices.Equal(got, []int64{2000, 2001, 2002}) {
			t.Errorf("year %v", got)
		}
		checkSplits(t, d, map[string][]int64{"train": {2}, "val": {1}, "test": {0, 1}})
	}
	for want, spoil := range map[string]map[string][]byte{
		"num_edges_list says 5": {"num_edges_list": sourcetest.Ints([]int64{1}, 5)},
		"3 rows for 2 nodes":    {"num_nodes_list": sourcetest.Ints([]int64{1}, 2)},
		"2 numbers":             {"num_nodes_list": sourcetest.Ints([]int64{2}, 2, 1)},
	} {
		_, err := formats.Open(context.Background(), papersLike(t, 8, spoil), "ogb-binary", source.Options{})
		if sourcetest.Class(err) != "input" || !strings.Contains(err.Error(), want) && !strings.Contains(err.Error(), "shape (2,)") {
			t.Errorf("%s: %v", want, err)
		}
	}
}

// raw32 is float32 without a header.
func raw32(values ...float32) string {
	b := []byte{}
	for _, v := range values {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(v))
	}
	return string(b)
}

func TestIGB(t *testing.T) {
	features := make([]float32, 10*1024)
	for i := range features {
		features[i] = float32(i % 977)
	}
	shaped := make([]int64, len(features))
	for i := range shaped {
		shaped[i] = int64(i % 977)
	}
	edges := sourcetest.Ints([]int64{3, 2}, 0, 1, 2, 3, 9, 0)
	want := []int64{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}
	for name, files := range map[string]map[string]string{
		"small": {
			"processed/paper/node_feat.npy":     string(sourcetest.Floats([]int64{10, 1024}, shaped...)),
			"processed/paper/node_label_19.npy": string(sourcetest.Floats([]int64{10}, want...)),
			"processed/paper/node_label_2K.npy": string(sourcetest.Floats([]int64{10}, want...)),
		},
		"large": {
			"processed/paper/node_feat.npy":     raw32(features...),
			"processed/paper/node_label_19.npy": raw32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 0, 0),
		},
	} {
		files["processed/paper__cites__paper/edge_index.npy"] = string(edges)
		d := openAs(t, sourcetest.Tree(t, name, files), "igb")
		if got := sourcetest.AllEdges(t, d.Edges); !slices.Equal(got, []sourcetest.Pair{{0, 1}, {2, 3}, {9, 0}}) {
			t.Errorf("%s: edges %v", name, got)
		}
		if got := sourcetest.Float32s(sourcetest.AllRows(t, d.Arrays["x"])); !slices.Equal(got, features) || d.NumNodes != 10 {
			t.Errorf("%s: features differ, %d nodes", name, d.NumNodes)
		}
		if got := sourcetest.AllInts(t, d.Arrays["y"]); !slices.Equal(got, want) {
			t.Errorf("%s: y %v", name, got)
		}
		checkSplits(t, d, map[string][]int64{"train": want[:6], "val": want[6:8], "test": want[8:]})
	}
	for want, files := range map[string]map[string]string{
		"neither a numpy file": {"processed/paper/node_feat.npy": raw32(1, 2, 3)},
		"9 labels for 10": {"processed/paper/node_feat.npy": raw32(features...),
			"processed/paper/node_label_2K.npy": raw32(0, 1, 2, 3, 4, 5, 6, 7, 8)},
		"node_feat.npy": {},
	} {
		files["processed/paper__cites__paper/edge_index.npy"] = string(edges)
		if _, err := formats.Open(context.Background(), sourcetest.Tree(t, "igb", files), "igb", source.Options{}); sourcetest.Class(err) != "input" || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
}
