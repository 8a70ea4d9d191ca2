package source

// Datasets in one .npz archive: the repackaged Planetoid, Amazon and Coauthor
// graphs, the heterophilous graphs, and OGB's data.npz. Members are found by the
// names these use.

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/goagnes/goagnes/layout"
	"github.com/goagnes/goagnes/layout/npy"
)

// Names of members, the first found is taken.
var (
	edgeMembers  = []string{"edge_index", "edges"}
	xMembers     = []string{"x", "node_features", "node_feat", "features"}
	yMembers     = []string{"y", "node_labels", "node_label", "labels"}
	splitMembers = map[string][]string{
		"train": {"train_idx", "train_mask", "train_masks"},
		"val":   {"val_idx", "val_mask", "val_masks", "valid_idx", "valid_mask"},
		"test":  {"test_idx", "test_mask", "test_masks"},
	}
)

// members finds arrays of an archive and remembers which were used.
type members struct {
	path  string
	names []string
	used  map[string]bool
}

func listMembers(path string) (*members, error) {
	a, err := npy.OpenArchive(path)
	if err != nil {
		return nil, err
	}
	defer a.Close()
	return &members{path: path, names: slices.Clone(a.Names()), used: map[string]bool{}}, nil
}

// find returns the first of names that is a member, or "".
func (m *members) find(names ...string) string {
	for _, n := range names {
		if slices.Contains(m.names, n) {
			m.used[n] = true
			return n
		}
	}
	return ""
}

func (m *members) input(name string) (*input, error) { return newInput(m.path, name) }

func (m *members) list() string {
	if len(m.names) == 0 {
		return "it has no .npy member"
	}
	names := m.names
	more := ""
	if len(names) > 12 {
		names, more = names[:12], fmt.Sprintf(" and %d more", len(names)-12)
	}
	return "it has " + strings.Join(names, ", ") + more
}

func openNPZ(ctx context.Context, path string, o Options) (*Dataset, error) {
	m, err := listMembers(path)
	if err != nil {
		return nil, err
	}
	d := newDataset("npz")
	name := m.find(edgeMembers...)
	if name == "" {
		if m.find("adj_indptr") != "" {
			return nil, &UnsupportedError{path, "a GNN-benchmark archive; read it with format gnn"}
		}
		return nil, inputError(path, "no member edge_index; %s", m.list())
	}
	in, err := m.input(name)
	if err != nil {
		return nil, err
	}
	if d.Edges, err = newArrayEdges(in); err != nil {
		return nil, err
	}
	if name == "edges" {
		d.note("%s: edges are taken as they are listed; this kind of archive lists each undirected edge once, so neighbours are seen from one side only unless the reverse edges are added", path)
	}
	if err := m.features(ctx, d, o); err != nil {
		return nil, err
	}
	if name := m.find(yMembers...); name != "" {
		rows, err := m.rows(name, o)
		if err != nil {
			return nil, err
		}
		if err := d.addLabels(rows); err != nil {
			return nil, err
		}
	}
	for _, split := range []string{"train", "val", "test"} {
		name := m.find(splitMembers[split]...)
		if name == "" {
			continue
		}
		rows, err := m.rows(name, o)
		if err != nil {
			return nil, err
		}
		rows, err = d.oneMask(ctx, rows, o.SplitIndex)
		if err != nil {
			return nil, err
		}
		if err := d.addSplit(split, rows); err != nil {
			return nil, err
		}
	}
	for _, n := range m.names {
		if !m.used[n] {
			d.note("%s: member %s is not read", path, n)
		}
	}
	return d, nil
}

func (m *members) rows(name string, o Options) (Rows, error) {
	in, err := m.input(name)
	if err != nil {
		return nil, err
	}
	return newArrayRows(in, o.Scratch)
}

// features adds x, dense or as a compressed sparse row matrix.
func (m *members) features(ctx context.Context, d *Dataset, o Options) error {
	if name := m.find(xMembers...); name != "" {
		rows, err := m.rows(name, o)
		if err != nil {
			return err
		}
		return d.addArray("x", rows)
	}
	if m.find("x_indptr") == "" {
		return nil
	}
	var in [4]*input
	for i, name := range []string{"x_indptr", "x_indices", "x_data", "x_shape"} {
		if m.find(name) == "" {
			return inputError(m.path, "member %s is missing beside x_indptr; %s", name, m.list())
		}
		var err error
		if in[i], err = m.input(name); err != nil {
			return err
		}
	}
	shape, err := smallIDs(ctx, in[3], 2)
	if err != nil {
		return err
	}
	rows, err := newCSRRows(m.path+": x", in[0], in[1], in[2], shape[0], shape[1])
	if err != nil {
		return err
	}
	return d.addArray("x", rows)
}

// smallIDs reads all of a short array of n ids.
func smallIDs(ctx context.Context, in *input, n int64) ([]int64, error) {
	h := in.header
	if err := checkIDType(in.name(), h.DType); err != nil {
		return nil, err
	}
	if h.Elements() != n {
		return nil, inputError(in.name(), "shape %s; %d numbers are due", shapeString(h.Shape), n)
	}
	o, err := in.open()
	if err != nil {
		return nil, err
	}
	defer o.Close()
	r, err := o.stream(ctx, 0)
	if err != nil {
		return nil, err
	}
	s := elementStream{o: o, r: r, size: int64(h.DType.Size()), left: n}
	out := make([]int64, n)
	for i := range out {
		if out[i], err = s.id(); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// maskRow is one row of a (masks, nodes) array.
type maskRow struct {
	Rows
	number int64
}

func (r *maskRow) Len() int64        { return r.Rows.RowShape()[0] }
func (r *maskRow) RowShape() []int64 { return nil }

func (r *maskRow) Scan(ctx context.Context, f func(first int64, rows []byte) error) error {
	size := r.Len()
	return r.Rows.Scan(ctx, func(first int64, rows []byte) error {
		at := (r.number - first) * size
		if at < 0 || at >= int64(len(rows)) {
			return nil
		}
		row := rows[at : at+size]
		for i := int64(0); i < size; i += ChunkBytes {
			if err := ctx.Err(); err != nil {
				return err
			}
			if err := f(i, row[i:min(i+ChunkBytes, size)]); err != nil {
				return err
			}
		}
		return nil
	})
}

// oneMask takes one of several masks, as the heterophilous graphs have ten.
func (d *Dataset) oneMask(ctx context.Context, r Rows, index int) (Rows, error) {
	shape := r.RowShape()
	if len(shape) != 1 || r.DType() != layout.Bool || r.Len() == 0 || shape[0] != d.NumNodes {
		return r, ctx.Err()
	}
	if index < 0 || int64(index) >= r.Len() {
		return nil, inputError(r.Name(), "split_index %d of %d masks; they count from 0", index, r.Len())
	}
	d.SplitIndexed = true
	d.note("%s: mask %d of %d is read (split_index; they count from 0)", r.Name(), index, r.Len())
	return &maskRow{r, int64(index)}, ctx.Err()
}
