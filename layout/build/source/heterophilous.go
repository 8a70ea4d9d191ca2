package source

// The heterophilous graphs (Platonov and others 2023; Minesweeper, the filtered
// Chameleon and their kin) as published: one .npz archive with node_features,
// node_labels, edges (E, 2) and ten splits as masks (10, N).
//
// Edges are made as torch_geometric.datasets.HeterophilousGraphDataset makes them,
// by to_undirected: both directions, sorted by source, then target, without
// repeats. Sorting holds all edges, 16 bytes each, so their number is bounded.

import (
	"context"
	"math"
	"slices"
)

// maxHeterophilousEdges bounds the rows of edges; the largest published graph has
// less than two million.
const maxHeterophilousEdges = 8 << 20

// undirectedEdges are edges in both directions, sorted and distinct.
type undirectedEdges struct {
	Edges
	nodes int64
}

func (e *undirectedEdges) Count() (int64, bool) { return 0, false }

func (e *undirectedEdges) Scan(ctx context.Context, f func(src, dst []int64) error) error {
	n, _ := e.Edges.Count()
	keys := make([]uint64, 0, 2*n)
	at := int64(0)
	err := e.Edges.Scan(ctx, func(src, dst []int64) error {
		for i, u := range src {
			v := dst[i]
			if max(u, v) >= e.nodes {
				return indexError(e.Name(), at+int64(i), "edge %d, %d in a graph of %d nodes", u, v, e.nodes)
			}
			keys = append(keys, uint64(u)<<32|uint64(v), uint64(v)<<32|uint64(u))
		}
		at += int64(len(src))
		return nil
	})
	if err != nil {
		return err
	}
	slices.Sort(keys)
	c := newEdgeChunks(ctx, f)
	for _, k := range slices.Compact(keys) {
		if err := c.put(int64(k>>32), int64(k&math.MaxUint32)); err != nil {
			return err
		}
	}
	return c.flush()
}

func openHeterophilous(ctx context.Context, path string, o Options) (*Dataset, error) {
	m, err := listMembers(path)
	if err != nil {
		return nil, err
	}
	d := newDataset("heterophilous")
	var rows [5]Rows
	for i, name := range []string{"node_features", "node_labels", "train_masks", "val_masks", "test_masks"} {
		if m.find(name) == "" {
			return nil, inputError(path, "member %s is missing; %s", name, m.list())
		}
		if rows[i], err = m.rows(name, o); err != nil {
			return nil, err
		}
	}
	if m.find("edges") == "" {
		return nil, inputError(path, "member edges is missing; %s", m.list())
	}
	in, err := m.input("edges")
	if err != nil {
		return nil, err
	}
	edges, err := newArrayEdges(in)
	if err != nil {
		return nil, err
	}
	if edges.count > maxHeterophilousEdges {
		return nil, inputError(in.name(), "%d edges; at most %d are read in this format", edges.count, maxHeterophilousEdges)
	}
	if err := d.addArray("x", rows[0]); err != nil {
		return nil, err
	}
	if d.NumNodes > math.MaxUint32 {
		return nil, inputError(rows[0].Name(), "%d nodes; at most %d are read in this format", d.NumNodes, int64(math.MaxUint32))
	}
	if err := d.addLabels(rows[1]); err != nil {
		return nil, err
	}
	d.Edges = &undirectedEdges{edges, d.NumNodes}
	d.note("%s: the %d edges are taken in both directions, sorted, and without repeats, as PyG's HeterophilousGraphDataset does", path, edges.count)
	for i, split := range []string{"train", "val", "test"} {
		r, err := d.oneMask(ctx, rows[2+i], o.SplitIndex)
		if err != nil {
			return nil, err
		}
		if err := d.addSplit(split, r); err != nil {
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
