package archive

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

	"github.com/goagnes/goagnes/layout/build/source"
	"github.com/goagnes/goagnes/layout/build/source/array"
)

// maxHeterophilousEdges bounds the rows of edges; the largest published graph has
// less than two million.
const maxHeterophilousEdges = 8 << 20

// undirectedEdges are edges in both directions, sorted and distinct.
type undirectedEdges struct {
	source.Edges
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
				return source.ErrorAt(e.Name(), at+int64(i), "edge %d, %d in a graph of %d nodes", u, v, e.nodes)
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
	c := source.NewEdgeChunks(ctx, f)
	for _, k := range slices.Compact(keys) {
		if err := c.Put(int64(k>>32), int64(k&math.MaxUint32)); err != nil {
			return err
		}
	}
	return c.Flush()
}

// OpenHeterophilous opens one of the heterophilous graphs.
func OpenHeterophilous(ctx context.Context, path string, o source.Options) (*source.Dataset, error) {
	m, err := List(path)
	if err != nil {
		return nil, err
	}
	d := source.NewDataset("heterophilous")
	var rows [5]source.Rows
	for i, name := range []string{"node_features", "node_labels", "train_masks", "val_masks", "test_masks"} {
		if m.Find(name) == "" {
			return nil, source.Errorf(path, "member %s is missing; %s", name, m.List())
		}
		if rows[i], err = m.Rows(name, o); err != nil {
			return nil, err
		}
	}
	if m.Find("edges") == "" {
		return nil, source.Errorf(path, "member edges is missing; %s", m.List())
	}
	in, err := m.Input("edges")
	if err != nil {
		return nil, err
	}
	edges, err := array.NewEdges(in)
	if err != nil {
		return nil, err
	}
	if edges.NumEdges > maxHeterophilousEdges {
		return nil, source.Errorf(in.Name(), "%d edges; at most %d are read in this format", edges.NumEdges, maxHeterophilousEdges)
	}
	if err := d.AddArray("x", rows[0]); err != nil {
		return nil, err
	}
	if d.NumNodes > math.MaxUint32 {
		return nil, source.Errorf(rows[0].Name(), "%d nodes; at most %d are read in this format", d.NumNodes, int64(math.MaxUint32))
	}
	if err := d.AddLabels(rows[1]); err != nil {
		return nil, err
	}
	d.Edges = &undirectedEdges{edges, d.NumNodes}
	d.Note("%s: the %d edges are taken in both directions, sorted, and without repeats, as PyG's HeterophilousGraphDataset does", path, edges.NumEdges)
	for i, split := range []string{"train", "val", "test"} {
		r, err := d.OneMask(ctx, rows[2+i], o.SplitIndex)
		if err != nil {
			return nil, err
		}
		if err := d.AddSplit(split, r); err != nil {
			return nil, err
		}
	}
	m.noteUnread(d)
	return d, nil
}
