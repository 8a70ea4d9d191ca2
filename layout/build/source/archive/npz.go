package archive

// Datasets in one .npz archive: the repackaged Planetoid, Amazon and Coauthor
// graphs, the heterophilous graphs, and OGB's data.npz. Members are found by the
// names these use.

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/goagnes/goagnes/layout/build/source"
	"github.com/goagnes/goagnes/layout/build/source/array"
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

// Members finds arrays of an archive and remembers which were used.
type Members struct {
	path  string
	Names []string
	Used  map[string]bool
}

// List lists the members of an archive.
func List(path string) (*Members, error) {
	a, err := npy.OpenArchive(path)
	if err != nil {
		return nil, err
	}
	defer a.Close()
	return &Members{path: path, Names: slices.Clone(a.Names()), Used: map[string]bool{}}, nil
}

// Find returns the first of names that is a member, or "".
func (m *Members) Find(names ...string) string {
	for _, n := range names {
		if slices.Contains(m.Names, n) {
			m.Used[n] = true
			return n
		}
	}
	return ""
}

// noteUnread tells of the members that were not asked for.
func (m *Members) noteUnread(d *source.Dataset) {
	for _, n := range m.Names {
		if !m.Used[n] {
			d.Note("%s: member %s is not read", m.path, n)
		}
	}
}

// Input opens a member as an array.
func (m *Members) Input(name string) (*array.Input, error) { return array.NewInput(m.path, name) }

// List tells in a message what the archive has.
func (m *Members) List() string {
	if len(m.Names) == 0 {
		return "it has no .npy member"
	}
	names := m.Names
	more := ""
	if len(names) > 12 {
		names, more = names[:12], fmt.Sprintf(" and %d more", len(names)-12)
	}
	return "it has " + strings.Join(names, ", ") + more
}

// Open opens an archive with edge_index and, where there are any, x, y and splits.
func Open(ctx context.Context, path string, o source.Options) (*source.Dataset, error) {
	m, err := List(path)
	if err != nil {
		return nil, err
	}
	d := source.NewDataset("npz")
	name := m.Find(edgeMembers...)
	if name == "" {
		if m.Find("adj_indptr") != "" {
			return nil, source.Unsupported(path, "a GNN-benchmark archive; read it with format gnn")
		}
		return nil, source.Errorf(path, "no member edge_index; %s", m.List())
	}
	in, err := m.Input(name)
	if err != nil {
		return nil, err
	}
	if d.Edges, err = array.NewEdges(in); err != nil {
		return nil, err
	}
	if name == "edges" {
		d.Note("%s: edges are taken as they are listed; this kind of archive lists each undirected edge once, so neighbours are seen from one side only unless the reverse edges are added", path)
	}
	if err := m.features(ctx, d, o); err != nil {
		return nil, err
	}
	if name := m.Find(yMembers...); name != "" {
		rows, err := m.Rows(name, o)
		if err != nil {
			return nil, err
		}
		if err := d.AddLabels(rows); err != nil {
			return nil, err
		}
	}
	for _, split := range []string{"train", "val", "test"} {
		name := m.Find(splitMembers[split]...)
		if name == "" {
			continue
		}
		rows, err := m.Rows(name, o)
		if err != nil {
			return nil, err
		}
		rows, err = d.OneMask(ctx, rows, o.SplitIndex)
		if err != nil {
			return nil, err
		}
		if err := d.AddSplit(split, rows); err != nil {
			return nil, err
		}
	}
	m.noteUnread(d)
	return d, nil
}

// Rows opens a member as rows.
func (m *Members) Rows(name string, o source.Options) (source.Rows, error) {
	in, err := m.Input(name)
	if err != nil {
		return nil, err
	}
	return array.NewRows(in, o.Scratch)
}

// features adds x, dense or as a compressed sparse row matrix.
func (m *Members) features(ctx context.Context, d *source.Dataset, o source.Options) error {
	if name := m.Find(xMembers...); name != "" {
		rows, err := m.Rows(name, o)
		if err != nil {
			return err
		}
		return d.AddArray("x", rows)
	}
	if m.Find("x_indptr") == "" {
		return nil
	}
	var in [4]*array.Input
	for i, name := range []string{"x_indptr", "x_indices", "x_data", "x_shape"} {
		if m.Find(name) == "" {
			return source.Errorf(m.path, "member %s is missing beside x_indptr; %s", name, m.List())
		}
		var err error
		if in[i], err = m.Input(name); err != nil {
			return err
		}
	}
	shape, err := array.SmallIDs(ctx, in[3], 2)
	if err != nil {
		return err
	}
	rows, err := array.NewCSR(m.path+": x", in[0], in[1], in[2], shape[0], shape[1])
	if err != nil {
		return err
	}
	return d.AddArray("x", rows)
}

// Edges returns the edges of an archive, whatever else it holds.
func Edges(path string) (source.Edges, error) {
	m, err := List(path)
	if err != nil {
		return nil, err
	}
	name := m.Find(edgeMembers...)
	if name == "" {
		return nil, source.Errorf(path, "no member edge_index; %s", m.List())
	}
	in, err := m.Input(name)
	if err != nil {
		return nil, err
	}
	return array.NewEdges(in)
}

// Rows returns the rows of an archive of one array.
func Rows(path string, o source.Options) (source.Rows, error) {
	m, err := List(path)
	if err != nil {
		return nil, err
	}
	if len(m.Names) != 1 {
		return nil, source.Errorf(path, "an archive with one array is due; %s", m.List())
	}
	return m.Rows(m.Names[0], o)
}
