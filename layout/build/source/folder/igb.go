package folder

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
	"github.com/goagnes/goagnes/layout/build/source"
	"github.com/goagnes/goagnes/layout/build/source/array"
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

// IGBFolder returns the folder "processed" of path, "" where there is none.
func IGBFolder(path string) string {
	for _, folder := range []string{filepath.Join(path, "processed"), path} {
		if source.Exists(filepath.Join(folder, "paper__cites__paper", "edge_index.npy")) {
			return folder
		}
	}
	return ""
}

// OpenIGB opens a folder of IGB.
func OpenIGB(_ context.Context, path string, o source.Options) (*source.Dataset, error) {
	folder := IGBFolder(path)
	if folder == "" {
		return nil, source.Errorf(path, "no processed/paper__cites__paper/edge_index.npy in it")
	}
	d := source.NewDataset("igb")
	in, err := array.NewInput(filepath.Join(folder, "paper__cites__paper", "edge_index.npy"), "")
	if err != nil {
		return nil, err
	}
	if d.Edges, err = array.NewEdges(in); err != nil {
		return nil, err
	}
	feat := filepath.Join(folder, "paper", "node_feat.npy")
	x, err := igbInput(feat, igbFeatures)
	if err != nil {
		return nil, err
	}
	if x.Raw {
		d.Note("%s: no numpy header; read as float32 rows of %d, which makes %d papers", feat, igbFeatures, x.Header.Shape[0])
	}
	rows, err := array.NewRows(x, o.Scratch)
	if err != nil {
		return nil, err
	}
	if err := d.AddArray("x", rows); err != nil {
		return nil, err
	}
	labelled, err := addIGBLabels(d, folder, o)
	if err != nil {
		return nil, err
	}
	train, val := int64(float64(labelled)*0.6), int64(float64(labelled)*0.2)
	d.Splits["train"] = idRange{feat, 0, train}
	d.Splits["val"] = idRange{feat, train, train + val}
	d.Splits["test"] = idRange{feat, train + val, labelled}
	d.Note("splits are by position, as in IGB's own loader: the first 60%% of the %d labelled papers train, the next 20%% val, the others test", labelled)
	for _, other := range []string{"author", "institute", "fos"} {
		if source.Exists(filepath.Join(folder, other)) {
			d.Note("%s is not read: stores have one type of node, papers here", filepath.Join(folder, other))
		}
	}
	d.Note("edges are taken as listed; IGB's own loader then replaces self-loops by one for every node: self_loops=drop, or add")
	return d, nil
}

// addIGBLabels adds the labels of the first set that is there, and returns how many
// papers have one.
func addIGBLabels(d *source.Dataset, folder string, o source.Options) (int64, error) {
	taken := ""
	labelled := d.NumNodes
	for _, set := range igbLabels {
		file := filepath.Join(folder, "paper", set.file)
		switch {
		case !source.Exists(file):
			continue
		case taken != "":
			d.Note("%s is not read: %s is; give the other as y to take it", file, taken)
			continue
		}
		taken = set.file
		in, err := igbInput(file, 0)
		if err != nil {
			return 0, err
		}
		if in.Raw && in.Header.Shape[0] > d.NumNodes {
			d.Note("%s: %d entries past the %d papers are passed over", file, in.Header.Shape[0]-d.NumNodes, d.NumNodes)
			in.Header.Shape = []int64{d.NumNodes}
		}
		rows, err := array.NewRows(in, o.Scratch)
		if err != nil {
			return 0, err
		}
		if rows.Len() != d.NumNodes {
			return 0, source.Errorf(file, "%d labels for %d papers", rows.Len(), d.NumNodes)
		}
		labels, note, err := source.Labels(rows)
		if err != nil {
			return 0, err
		}
		if note != "" {
			d.Note("%s", note)
		}
		if d.NumNodes == igbFull {
			labelled = set.labelled
			labels = paddedLabels{labels, labelled}
			d.Note("%s: the entries from %d on are padding and read as no label", file, labelled)
		}
		if err := d.AddArray("y", labels); err != nil {
			return 0, err
		}
	}
	if taken == "" {
		d.Note("%s: there are no labels", filepath.Join(folder, "paper"))
	}
	return labelled, nil
}

// igbInput opens an array that may lack the numpy header: float32, rows of width, or
// single numbers for width 0.
func igbInput(file string, width int64) (*array.Input, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, source.ErrorFrom(file, "cannot be opened", err)
	}
	defer f.Close()
	head := make([]byte, 8)
	n, err := f.ReadAt(head, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, source.ErrorFrom(file, "cannot be read", err)
	}
	if npy.IsNPY(head[:n]) {
		return array.NewInput(file, "")
	}
	st, err := f.Stat()
	if err != nil {
		return nil, source.ErrorFrom(file, "cannot be examined", err)
	}
	rowBytes := 4 * max(width, 1)
	if st.Size() == 0 || st.Size()%rowBytes != 0 {
		return nil, source.Errorf(file, "%d bytes, neither a numpy file nor whole rows of %d float32", st.Size(), max(width, 1))
	}
	h := npy.Header{DType: layout.Float32, Shape: []int64{st.Size() / rowBytes}}
	if width > 0 {
		h.Shape = append(h.Shape, width)
	}
	return &array.Input{Path: file, Header: h, Raw: true}, nil
}

// paddedLabels gives the rows from labelled on no label.
type paddedLabels struct {
	source.Rows
	labelled int64
}

func (p paddedLabels) Scan(ctx context.Context, f func(first int64, rows []byte) error) error {
	buf := make([]byte, 0, source.ChunkBytes)
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
	out := make([]byte, 0, source.ChunkBytes)
	for at := int64(0); at < r.Len(); at += source.ChunkBytes / 8 {
		if err := ctx.Err(); err != nil {
			return err
		}
		out = out[:0]
		for i := at; i < min(at+source.ChunkBytes/8, r.Len()); i++ {
			out = binary.LittleEndian.AppendUint64(out, uint64(r.from+i))
		}
		if err := f(at, out); err != nil {
			return err
		}
	}
	return nil
}
