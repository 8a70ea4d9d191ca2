package archive

// The graphs of the GNN benchmark (Shchur and others 2018; Amazon Computers and
// Photo, Coauthor CS and Physics, the Cora ML family) as published: one .npz archive
// with the adjacency matrix as adj_data, adj_indices, adj_indptr, adj_shape,
// attributes in the same form under attr_ or dense as attr_matrix, and labels.
//
// Edges are made as torch_geometric.io.read_npz makes them: self-loops dropped, both
// directions, sorted, without repeats. Sorting holds all edges, 16 bytes each, so
// their number is bounded.

import (
	"context"
	"math"

	"github.com/goagnes/goagnes/layout/build/source"
	"github.com/goagnes/goagnes/layout/build/source/array"
)

// looplessEdges are edges without self-loops.
type looplessEdges struct{ source.Edges }

func (e looplessEdges) Scan(ctx context.Context, f func(src, dst []int64) error) error {
	return e.Edges.Scan(ctx, func(src, dst []int64) error {
		kept := 0
		for i, u := range src { // the slices are the scan's own scratch
			if u != dst[i] {
				src[kept], dst[kept] = u, dst[i]
				kept++
			}
		}
		if kept == 0 {
			return nil
		}
		return f(src[:kept], dst[:kept])
	})
}

// inputs finds members PREFIX_NAME.
func (m *Members) inputs(prefix string, names ...string) ([]*array.Input, error) {
	in := make([]*array.Input, len(names))
	for i, name := range names {
		name = prefix + name
		if m.Find(name) == "" {
			return nil, source.Errorf(m.path, "member %s is missing; %s", name, m.List())
		}
		var err error
		if in[i], err = m.Input(name); err != nil {
			return nil, err
		}
	}
	return in, nil
}

// OpenGNN opens a graph of the GNN benchmark.
func OpenGNN(ctx context.Context, path string, o source.Options) (*source.Dataset, error) {
	m, err := List(path)
	if err != nil {
		return nil, err
	}
	d := source.NewDataset("gnn")
	adj, err := m.inputs("adj_", "indptr", "indices", "shape", "data")
	if err != nil {
		return nil, err
	}
	shape, err := array.SmallIDs(ctx, adj[2], 2)
	if err != nil {
		return nil, err
	}
	if shape[0] != shape[1] || shape[0] > math.MaxUint32 {
		return nil, source.Errorf(adj[2].Name(), "(%d, %d); a square matrix of at most %d rows is due", shape[0], shape[1], int64(math.MaxUint32))
	}
	// The checks of a matrix of attributes are those of this one.
	if _, err := array.NewCSR(path+": adj", adj[0], adj[1], adj[3], shape[0], 1); err != nil {
		return nil, err
	}
	e := &scipyEdges{path: path, first: adj[0], second: adj[1], format: "csr", nodes: shape[0], count: adj[1].Header.Shape[0]}
	if e.count > maxHeterophilousEdges {
		return nil, source.Errorf(adj[1].Name(), "%d entries; at most %d are read in this format", e.count, maxHeterophilousEdges)
	}
	d.Edges, d.NumNodes = &undirectedEdges{looplessEdges{e}, e.nodes}, e.nodes
	d.Note("%s: the %d entries of the matrix are taken without self-loops, in both directions, sorted, and without repeats, as PyG's read_npz does; their values are not kept", path, e.count)
	switch {
	case m.Find("attr_matrix") != "":
		rows, err := m.Rows("attr_matrix", o)
		if err != nil {
			return nil, err
		}
		if err := d.AddArray("x", rows); err != nil {
			return nil, err
		}
	case m.Find("attr_indptr") != "":
		attr, err := m.inputs("attr_", "indptr", "indices", "data", "shape")
		if err != nil {
			return nil, err
		}
		shape, err := array.SmallIDs(ctx, attr[3], 2)
		if err != nil {
			return nil, err
		}
		rows, err := array.NewCSR(path+": attr", attr[0], attr[1], attr[2], shape[0], shape[1])
		if err != nil {
			return nil, err
		}
		if err := d.AddArray("x", rows); err != nil {
			return nil, err
		}
	}
	if m.Find("labels") != "" {
		rows, err := m.Rows("labels", o)
		if err != nil {
			return nil, err
		}
		if err := d.AddLabels(rows); err != nil {
			return nil, err
		}
	}
	m.noteUnread(d)
	return d, nil
}
