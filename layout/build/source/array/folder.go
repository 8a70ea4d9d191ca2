package array

// Arrays by their names in a directory: edge_index.npy, x.npy, y.npy, num_nodes.npy and
// split_NAME.npy.

import (
	"context"
	"os"
	"path/filepath"
	"strings"

	"github.com/goagnes/goagnes/layout/build/source"
)

// Open opens an edge_index.npy, or a directory that holds one.
func Open(ctx context.Context, path string, o source.Options) (*source.Dataset, error) {
	d := source.NewDataset("npy")
	st, err := os.Stat(path)
	if err != nil {
		return nil, source.ErrorFrom(path, "cannot be opened", err)
	}
	if !st.IsDir() {
		in, err := NewInput(path, "")
		if err != nil {
			return nil, err
		}
		d.Edges, err = NewEdges(in)
		return d, err
	}
	in, err := NewInput(filepath.Join(path, "edge_index.npy"), "")
	if err != nil {
		return nil, err
	}
	if d.Edges, err = NewEdges(in); err != nil {
		return nil, err
	}
	if file := filepath.Join(path, "num_nodes.npy"); source.Exists(file) {
		in, err := NewInput(file, "")
		if err != nil {
			return nil, err
		}
		n, err := SmallIDs(ctx, in, 1)
		if err != nil {
			return nil, err
		}
		d.NumNodes = n[0]
	}
	rows := func(file string) (source.Rows, error) {
		in, err := NewInput(file, "")
		if err != nil {
			return nil, err
		}
		return NewRows(in, o.Scratch)
	}
	for _, name := range []string{"x", "y"} {
		file := filepath.Join(path, name+".npy")
		if !source.Exists(file) {
			continue
		}
		r, err := rows(file)
		if err != nil {
			return nil, err
		}
		if name == "y" {
			err = d.AddLabels(r)
		} else {
			err = d.AddArray(name, r)
		}
		if err != nil {
			return nil, err
		}
	}
	files, err := filepath.Glob(filepath.Join(source.QuoteGlob(path), "split_*.npy"))
	if err != nil {
		return nil, source.ErrorFrom(path, "cannot be listed", err)
	}
	for _, file := range files {
		r, err := rows(file)
		if err != nil {
			return nil, err
		}
		name := strings.TrimSuffix(strings.TrimPrefix(filepath.Base(file), "split_"), ".npy")
		if err := d.AddSplit(name, r); err != nil {
			return nil, err
		}
	}
	return d, nil
}
