package source

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
)

// looplessEdges are edges without self-loops.
type looplessEdges struct{ Edges }

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
func (m *members) inputs(prefix string, names ...string) ([]*input, error) {
	in := make([]*input, len(names))
	for i, name := range names {
		name = prefix + name
		if m.find(name) == "" {
			return nil, inputError(m.path, "member %s is missing; %s", name, m.list())
		}
		var err error
		if in[i], err = m.input(name); err != nil {
			return nil, err
		}
	}
	return in, nil
}

func openGNN(ctx context.Context, path string, o Options) (*Dataset, error) {
	m, err := listMembers(path)
	if err != nil {
		return nil, err
	}
	d := newDataset("gnn")
	adj, err := m.inputs("adj_", "indptr", "indices", "shape", "data")
	if err != nil {
		return nil, err
	}
	shape, err := smallIDs(ctx, adj[2], 2)
	if err != nil {
		return nil, err
	}
	if shape[0] != shape[1] || shape[0] > math.MaxUint32 {
		return nil, inputError(adj[2].name(), "(%d, %d); a square matrix of at most %d rows is due", shape[0], shape[1], int64(math.MaxUint32))
	}
	// The checks of a matrix of attributes are those of this one.
	if _, err := newCSRRows(path+": adj", adj[0], adj[1], adj[3], shape[0], 1); err != nil {
		return nil, err
	}
	e := &scipyEdges{path: path, first: adj[0], second: adj[1], format: "csr", nodes: shape[0], count: adj[1].header.Shape[0]}
	if e.count > maxHeterophilousEdges {
		return nil, inputError(adj[1].name(), "%d entries; at most %d are read in this format", e.count, maxHeterophilousEdges)
	}
	d.Edges, d.NumNodes = &undirectedEdges{looplessEdges{e}, e.nodes}, e.nodes
	d.note("%s: the %d entries of the matrix are taken without self-loops, in both directions, sorted, and without repeats, as PyG's read_npz does; their values are not kept", path, e.count)
	switch {
	case m.find("attr_matrix") != "":
		rows, err := m.rows("attr_matrix", o)
		if err != nil {
			return nil, err
		}
		if err := d.addArray("x", rows); err != nil {
			return nil, err
		}
	case m.find("attr_indptr") != "":
		attr, err := m.inputs("attr_", "indptr", "indices", "data", "shape")
		if err != nil {
			return nil, err
		}
		shape, err := smallIDs(ctx, attr[3], 2)
		if err != nil {
			return nil, err
		}
		rows, err := newCSRRows(path+": attr", attr[0], attr[1], attr[2], shape[0], shape[1])
		if err != nil {
			return nil, err
		}
		if err := d.addArray("x", rows); err != nil {
			return nil, err
		}
	}
	if m.find("labels") != "" {
		rows, err := m.rows("labels", o)
		if err != nil {
			return nil, err
		}
		if err := d.addLabels(rows); err != nil {
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
