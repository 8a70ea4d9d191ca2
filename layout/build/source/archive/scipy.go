package archive

// Sparse matrices that scipy.sparse.save_npz wrote, as adjacency matrices: entry
// (i, j) is the edge i → j. The edges come in the order of storage: row by row for
// csr, column by column for csc, as listed for coo. Column numbers within a row
// need no order; repeated entries are parallel edges and explicit zeros are edges.

import (
	"context"

	"github.com/goagnes/goagnes/layout/build/source"
	"github.com/goagnes/goagnes/layout/build/source/array"
	"github.com/goagnes/goagnes/layout/npy"
)

// scipyEdges are the entries of a matrix. In csr and csc the first array is indptr.
type scipyEdges struct {
	path   string
	first  *array.Input // indptr, or the rows of coo
	second *array.Input // indices, or the columns of coo
	format string
	nodes  int64
	count  int64
}

func (e *scipyEdges) Name() string         { return e.path }
func (e *scipyEdges) Count() (int64, bool) { return e.count, true }

// OpenSciPy opens a square matrix that scipy.sparse.save_npz wrote.
func OpenSciPy(ctx context.Context, path string, _ source.Options) (*source.Dataset, error) {
	a, err := npy.OpenArchive(path)
	if err != nil {
		return nil, err
	}
	kind, err := a.Text("format")
	a.Close()
	if err != nil {
		return nil, err
	}
	m, err := List(path)
	if err != nil {
		return nil, err
	}
	names := []string{"indptr", "indices"}
	switch kind {
	case "csr", "csc":
	case "coo":
		names = []string{"row", "col"}
	case "bsr", "dia", "lil", "dok":
		return nil, source.Unsupported(path, "a scipy matrix of format %s is not read; save it after tocsr()", kind)
	default:
		return nil, source.Errorf(path, "a matrix of format %s; csr, csc and coo are read", source.Clip([]byte(kind)))
	}
	var in [4]*array.Input
	for i, name := range append(names, "shape", "data") {
		if m.Find(name) == "" {
			return nil, source.Errorf(path, "member %s of a matrix of format %s is missing; %s", name, kind, m.List())
		}
		if in[i], err = m.Input(name); err != nil {
			return nil, err
		}
	}
	shape, err := array.SmallIDs(ctx, in[2], 2)
	if err != nil {
		return nil, err
	}
	if shape[0] != shape[1] {
		return nil, source.Errorf(path, "a rectangular matrix of %d rows and %d columns is no graph on one set of nodes; only square ones are read", shape[0], shape[1])
	}
	e := &scipyEdges{path: path, first: in[0], second: in[1], format: kind, nodes: shape[0]}
	for _, x := range []*array.Input{in[0], in[1], in[3]} {
		if len(x.Header.Shape) != 1 {
			return nil, source.Errorf(x.Name(), "shape %s; it has one axis in a sparse matrix", source.ShapeString(x.Header.Shape))
		}
	}
	for _, x := range in[:2] {
		if err := source.CheckIDType(x.Name(), x.Header.DType); err != nil {
			return nil, err
		}
	}
	e.count = e.second.Header.Shape[0]
	due := e.count
	if kind != "coo" {
		due = e.nodes + 1
	}
	if n := e.first.Header.Shape[0]; n != due {
		return nil, source.Errorf(e.first.Name(), "length %d, where %d is due", n, due)
	}
	if n := in[3].Header.Shape[0]; n != e.count {
		return nil, source.Errorf(in[3].Name(), "%d values for %d entries", n, e.count)
	}
	d := source.NewDataset("scipy")
	d.Edges, d.NumNodes = e, e.nodes
	d.Note("%s: the %d values of the entries are not kept; an entry is an edge, whatever its value", path, e.count)
	if kind == "csc" {
		d.Note("%s: edges are in the order of storage, column by column", path)
	}
	return d, nil
}

func (e *scipyEdges) Scan(ctx context.Context, f func(src, dst []int64) error) error {
	var s [2]*array.Elements
	for i, in := range []*array.Input{e.first, e.second} {
		var err error
		if s[i], err = in.Elements(ctx); err != nil {
			return err
		}
		defer s[i].Close()
	}
	c := source.NewEdgeChunks(ctx, f)
	var err error
	if e.format == "coo" {
		err = e.pairs(&c, s[0], s[1])
	} else {
		err = e.compressed(&c, s[0], s[1])
	}
	if err != nil {
		return err
	}
	return c.Flush()
}

func (e *scipyEdges) number(s *array.Elements, at int64) (int64, error) {
	v, err := s.ID()
	if err == nil && v >= e.nodes {
		err = source.ErrorAt(s.Name(), at, "%d, in a matrix of %d rows and columns", v, e.nodes)
	}
	return v, err
}

func (e *scipyEdges) pairs(c *source.EdgeChunks, rows, columns *array.Elements) error {
	for i := range e.count {
		row, err := e.number(rows, i)
		if err != nil {
			return err
		}
		column, err := e.number(columns, i)
		if err != nil {
			return err
		}
		if err := c.Put(row, column); err != nil {
			return err
		}
	}
	return nil
}

func (e *scipyEdges) compressed(c *source.EdgeChunks, indptr, indices *array.Elements) error {
	last, err := indptr.ID()
	if err != nil {
		return err
	}
	if last != 0 {
		return source.ErrorAt(e.first.Name(), 0, "%d, where a sparse matrix starts with 0", last)
	}
	for major := range e.nodes {
		if major&0xffff == 0 && c.Ctx.Err() != nil {
			return c.Ctx.Err()
		}
		end, err := indptr.ID()
		if err != nil {
			return err
		}
		if end < last || end > e.count {
			return source.ErrorAt(e.first.Name(), major+1, "%d after %d, with %d entries in all", end, last, e.count)
		}
		for ; last < end; last++ {
			minor, err := e.number(indices, last)
			if err != nil {
				return err
			}
			if e.format == "csc" {
				err = c.Put(minor, major)
			} else {
				err = c.Put(major, minor)
			}
			if err != nil {
				return err
			}
		}
	}
	if last != e.count {
		return source.ErrorAt(e.first.Name(), e.nodes, "ends at %d, with %d entries in all", last, e.count)
	}
	return nil
}
