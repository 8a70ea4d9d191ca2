package source

// The folders of the Illinois Graph Benchmark (IGB), homogeneous: papers and their
// citations. Read as igb/dataloader.py does.

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/goagnes/goagnes/layout"
	"github.com/goagnes/goagnes/layout/npy"
)

const (
	igbFeatures = 1024 // float32 of a paper
	// igbFull is the number of papers of the largest graph, the one in which some
	// have no label: those past igbLabelled, whose entries are zero.
	igbFull = 269346174
)

// igbLabels are the label files in order of preference, and the labelled papers of
// the largest graph.
var igbLabels = []struct {
	file     string
	labelled int64
}{{"node_label_19.npy", 227130858}, {"node_label_2K.npy", 157675969}}

// igbFolder returns the folder "processed" of path, "" where there is none.
func igbFolder(path string) string {
	for _, folder := range []string{filepath.Join(path, "processed"), path} {
		if exists(filepath.Join(folder, "paper__cites__paper", "edge_index.npy")) {
			return folder
		}
	}
	return ""
}

func openIGB(_ context.Context, path string, o Options) (*Dataset, error) {
	folder := igbFolder(path)
	if folder == "" {
		return nil, inputError(path, "no processed/paper__cites__paper/edge_index.npy in it")
	}
	d := newDataset("igb")
	in, err := newInput(filepath.Join(folder, "paper__cites__paper", "edge_index.npy"), "")
	if err != nil {
		return nil, err
	}
	if d.Edges, err = newArrayEdges(in); err != nil {
		return nil, err
	}
	feat := filepath.Join(folder, "paper", "node_feat.npy")
	x, err := igbInput(feat, igbFeatures)
	if err != nil {
		return nil, err
	}
	if x.raw {
		d.note("%s: no numpy header; read as float32 rows of %d, which makes %d papers", feat, igbFeatures, x.header.Shape[0])
	}
	rows, err := newArrayRows(x, o.Scratch)
	if err != nil {
		return nil, err
	}
	if err := d.addArray("x", rows); err != nil {
		return nil, err
	}
	labelled, err := d.addIGBLabels(folder, o)
	if err != nil {
		return nil, err
	}
	train, val := int64(float64(labelled)*0.6), int64(float64(labelled)*0.2)
	d.Splits["train"] = idRange{feat, 0, train}
	d.Splits["val"] = idRange{feat, train, train + val}
	d.Splits["test"] = idRange{feat, train + val, labelled}
	d.note("splits are by position, as in IGB's own loader: the first 60%% of the %d labelled papers train, the next 20%% val, the others test", labelled)
	for _, other := range []string{"author", "institute", "fos"} {
		if exists(filepath.Join(folder, other)) {
			d.note("%s is not read: stores have one type of node, papers here", filepath.Join(folder, other))
		}
	}
	d.note("edges are taken as listed; IGB's own loader then replaces self-loops by one for every node: self_loops=drop, or add")
	return d, nil
}

// addIGBLabels adds the labels of the first set that is there, and returns how many
// papers have one.
func (d *Dataset) addIGBLabels(folder string, o Options) (int64, error) {
	taken := ""
	labelled := d.NumNodes
	for _, set := range igbLabels {
		file := filepath.Join(folder, "paper", set.file)
		switch {
		case !exists(file):
			continue
		case taken != "":
			d.note("%s is not read: %s is; give the other as y to take it", file, taken)
			continue
		}
		taken = set.file
		in, err := igbInput(file, 0)
		if err != nil {
			return 0, err
		}
		if in.raw && in.header.Shape[0] > d.NumNodes {
			d.note("%s: %d entries past the %d papers are passed over", file, in.header.Shape[0]-d.NumNodes, d.NumNodes)
			in.header.Shape = []int64{d.NumNodes}
		}
		rows, err := newArrayRows(in, o.Scratch)
		if err != nil {
			return 0, err
		}
		if rows.Len() != d.NumNodes {
			return 0, inputError(file, "%d labels for %d papers", rows.Len(), d.NumNodes)
		}
		labels, note, err := Labels(rows)
		if err != nil {
			return 0, err
		}
		if note != "" {
			d.note("%s", note)
		}
		if d.NumNodes == igbFull {
			labelled = set.labelled
			labels = paddedLabels{labels, labelled}
			d.note("%s: the entries from %d on are padding and read as no label", file, labelled)
		}
		if err := d.addArray("y", labels); err != nil {
			return 0, err
		}
	}
	if taken == "" {
		d.note("%s: there are no labels", filepath.Join(folder, "paper"))
	}
	return labelled, nil
}

// igbInput opens an array that may lack the numpy header: float32, rows of width, or
// single numbers for width 0.
func igbInput(file string, width int64) (*input, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, causeError(file, "cannot be opened", err)
	}
	defer f.Close()
	head := make([]byte, 8)
	n, err := f.ReadAt(head, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, causeError(file, "cannot be read", err)
	}
	if npy.IsNPY(head[:n]) {
		return newInput(file, "")
	}
	st, err := f.Stat()
	if err != nil {
		return nil, causeError(file, "cannot be examined", err)
	}
	rowBytes := 4 * max(width, 1)
	if st.Size() == 0 || st.Size()%rowBytes != 0 {
		return nil, inputError(file, "%d bytes, neither a numpy file nor whole rows of %d float32", st.Size(), max(width, 1))
	}
	h := npy.Header{DType: layout.Float32, Shape: []int64{st.Size() / rowBytes}}
	if width > 0 {
		h.Shape = append(h.Shape, width)
	}
	return &input{path: file, header: h, raw: true}, nil
}

// paddedLabels gives the rows from labelled on no label.
type paddedLabels struct {
	Rows
	labelled int64
}

func (p paddedLabels) Scan(ctx context.Context, f func(first int64, rows []byte) error) error {
	buf := make([]byte, 0, ChunkBytes)
	return p.Rows.Scan(ctx, func(first int64, rows []byte) error {
		if first+int64(len(rows)/8) <= p.labelled {
			return f(first, rows)
		}
		buf = append(buf[:0], rows...)
		for i := max(p.labelled-first, 0); i < int64(len(buf)/8); i++ {
			binary.LittleEndian.PutUint64(buf[8*i:], ^uint64(0))
		}
		return f(first, buf)
	})
}

// idRange is a split of consecutive nodes.
type idRange struct {
	name        string
	from, below int64
}

func (r idRange) Len() int64          { return r.below - r.from }
func (r idRange) RowShape() []int64   { return nil }
func (r idRange) DType() layout.DType { return layout.Int64 }
func (r idRange) Name() string        { return fmt.Sprintf("%s: nodes %d to %d", r.name, r.from, r.below-1) }

func (r idRange) Scan(ctx context.Context, f func(first int64, rows []byte) error) error {
	out := make([]byte, 0, ChunkBytes)
	for at := int64(0); at < r.Len(); at += ChunkBytes / 8 {
		if err := ctx.Err(); err != nil {
			return err
		}
		out = out[:0]
		for i := at; i < min(at+ChunkBytes/8, r.Len()); i++ {
			out = binary.LittleEndian.AppendUint64(out, uint64(r.from+i))
		}
		if err := f(at, out); err != nil {
			return err
		}
	}
	return nil
}
