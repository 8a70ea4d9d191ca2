package source

// Sparse matrices that scipy.sparse.save_npz wrote, as adjacency matrices: entry
// (i, j) is the edge i → j. The edges come in the order of storage: row by row for
// csr, column by column for csc, as listed for coo. Column numbers within a row
// need no order; repeated entries are parallel edges and explicit zeros are edges.

import (
	"context"

	"github.com/goagnes/goagnes/layout/npy"
)

// scipyEdges are the entries of a matrix. In csr and csc the first array is indptr.
type scipyEdges struct {
	path   string
	first  *input // indptr, or the rows of coo
	second *input // indices, or the columns of coo
	format string
	nodes  int64
	count  int64
}

func (e *scipyEdges) Name() string         { return e.path }
func (e *scipyEdges) Count() (int64, bool) { return e.count, true }

func openSciPy(ctx context.Context, path string, _ Options) (*Dataset, error) {
	a, err := npy.OpenArchive(path)
	if err != nil {
		return nil, err
	}
	kind, err := a.Text("format")
	a.Close()
	if err != nil {
		return nil, err
	}
	m, err := listMembers(path)
	if err != nil {
		return nil, err
	}
	names := []string{"indptr", "indices"}
	switch kind {
	case "csr", "csc":
	case "coo":
		names = []string{"row", "col"}
	case "bsr", "dia", "lil", "dok":
		return nil, &UnsupportedError{path, "a scipy matrix of format " + kind + " is not read; save it after tocsr()"}
	default:
		return nil, inputError(path, "a matrix of format %s; csr, csc and coo are read", clip([]byte(kind)))
	}
	var in [4]*input
	for i, name := range append(names, "shape", "data") {
		if m.find(name) == "" {
			return nil, inputError(path, "member %s of a matrix of format %s is missing; %s", name, kind, m.list())
		}
		if in[i], err = m.input(name); err != nil {
			return nil, err
		}
	}
	shape, err := smallIDs(ctx, in[2], 2)
	if err != nil {
		return nil, err
	}
	if shape[0] != shape[1] {
		return nil, inputError(path, "a rectangular matrix of %d rows and %d columns is no graph on one set of nodes; only square ones are read", shape[0], shape[1])
	}
	e := &scipyEdges{path: path, first: in[0], second: in[1], format: kind, nodes: shape[0]}
	for _, x := range []*input{in[0], in[1], in[3]} {
		if len(x.header.Shape) != 1 {
			return nil, inputError(x.name(), "shape %s; it has one axis in a sparse matrix", shapeString(x.header.Shape))
		}
	}
	for _, x := range in[:2] {
		if err := checkIDType(x.name(), x.header.DType); err != nil {
			return nil, err
		}
	}
	e.count = e.second.header.Shape[0]
	due := e.count
	if kind != "coo" {
		due = e.nodes + 1
	}
	if n := e.first.header.Shape[0]; n != due {
		return nil, inputError(e.first.name(), "length %d, where %d is due", n, due)
	}
	if n := in[3].header.Shape[0]; n != e.count {
		return nil, inputError(in[3].name(), "%d values for %d entries", n, e.count)
	}
	d := newDataset("scipy")
	d.Edges, d.NumNodes = e, e.nodes
	d.note("%s: the %d values of the entries are not kept; an entry is an edge, whatever its value", path, e.count)
	if kind == "csc" {
		d.note("%s: edges are in the order of storage, column by column", path)
	}
	return d, nil
}

func (e *scipyEdges) Scan(ctx context.Context, f func(src, dst []int64) error) error {
	var s [2]*elementStream
	for i, in := range []*input{e.first, e.second} {
		o, err := in.open()
		if err != nil {
			return err
		}
		defer o.Close()
		r, err := o.stream(ctx, 0)
		if err != nil {
			return err
		}
		s[i] = &elementStream{o: o, r: r, size: int64(in.header.DType.Size()), left: in.header.Elements()}
	}
	c := newEdgeChunks(ctx, f)
	var err error
	if e.format == "coo" {
		err = e.pairs(&c, s[0], s[1])
	} else {
		err = e.compressed(&c, s[0], s[1])
	}
	if err != nil {
		return err
	}
	return c.flush()
}

func (e *scipyEdges) number(s *elementStream, at int64) (int64, error) {
	v, err := s.id()
	if err == nil && v >= e.nodes {
		err = indexError(s.o.in.name(), at, "%d, in a matrix of %d rows and columns", v, e.nodes)
	}
	return v, err
}

func (e *scipyEdges) pairs(c *edgeChunks, rows, columns *elementStream) error {
	for i := range e.count {
		row, err := e.number(rows, i)
		if err != nil {
			return err
		}
		column, err := e.number(columns, i)
		if err != nil {
			return err
		}
		if err := c.put(row, column); err != nil {
			return err
		}
	}
	return nil
}

func (e *scipyEdges) compressed(c *edgeChunks, indptr, indices *elementStream) error {
	last, err := indptr.id()
	if err != nil {
		return err
	}
	if last != 0 {
		return indexError(e.first.name(), 0, "%d, where a sparse matrix starts with 0", last)
	}
	for major := range e.nodes {
		if major&0xffff == 0 && c.ctx.Err() != nil {
			return c.ctx.Err()
		}
		end, err := indptr.id()
		if err != nil {
			return err
		}
		if end < last || end > e.count {
			return indexError(e.first.name(), major+1, "%d after %d, with %d entries in all", end, last, e.count)
		}
		for ; last < end; last++ {
			minor, err := e.number(indices, last)
			if err != nil {
				return err
			}
			if e.format == "csc" {
				err = c.put(minor, major)
			} else {
				err = c.put(major, minor)
			}
			if err != nil {
				return err
			}
		}
	}
	if last != e.count {
		return indexError(e.first.name(), e.nodes, "ends at %d, with %d entries in all", last, e.count)
	}
	return nil
}
