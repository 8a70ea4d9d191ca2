package source

// Sparse node features: the three arrays of a compressed sparse row matrix, read
// side by side and delivered as dense rows.

import (
	"context"
	"encoding/binary"
	"io"

	"github.com/goagnes/goagnes/layout"
)

// csrRows streams a matrix given by members indptr, indices and data.
type csrRows struct {
	name                  string
	indptr, indices, data *input
	rows, columns         int64
}

// newCSRRows checks that the three arrays form a matrix of the given shape.
func newCSRRows(name string, indptr, indices, data *input, rows, columns int64) (*csrRows, error) {
	if rows < 0 || columns < 0 {
		return nil, inputError(name, "shape (%d, %d) is negative", rows, columns)
	}
	size := int64(data.header.DType.Size())
	if columns > MaxRowBytes/size {
		return nil, inputError(name, "rows of %d columns; at most %d bytes are read", columns, MaxRowBytes)
	}
	for _, in := range []*input{indptr, indices, data} {
		if len(in.header.Shape) != 1 {
			return nil, inputError(in.name(), "shape %s; it has one axis in a sparse matrix", shapeString(in.header.Shape))
		}
	}
	for _, in := range []*input{indptr, indices} {
		if err := checkIDType(in.name(), in.header.DType); err != nil {
			return nil, err
		}
	}
	if n := indptr.header.Shape[0]; n != rows+1 {
		return nil, inputError(indptr.name(), "length %d for %d rows; it is rows + 1", n, rows)
	}
	if a, b := indices.header.Shape[0], data.header.Shape[0]; a != b {
		return nil, inputError(data.name(), "%d values for %d column numbers", b, a)
	}
	return &csrRows{name: name, indptr: indptr, indices: indices, data: data, rows: rows, columns: columns}, nil
}

func (c *csrRows) Len() int64          { return c.rows }
func (c *csrRows) RowShape() []int64   { return []int64{c.columns} }
func (c *csrRows) DType() layout.DType { return c.data.header.DType }
func (c *csrRows) Name() string        { return c.name }

func (c *csrRows) Scan(ctx context.Context, f func(first int64, rows []byte) error) error {
	size := int64(c.DType().Size())
	rowBytes := c.columns * size
	if rowBytes == 0 || c.rows == 0 {
		return ctx.Err()
	}
	var s [3]*elementStream
	for i, in := range []*input{c.indptr, c.indices, c.data} {
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
	indptr, indices, data := s[0], s[1], s[2]
	last, err := indptr.id()
	if err != nil {
		return err
	}
	if last != 0 {
		return indexError(c.indptr.name(), 0, "%d, where a sparse matrix starts with 0", last)
	}
	stored := c.indices.header.Shape[0]
	per := rowsPerChunk(rowBytes)
	buf := make([]byte, min(per, c.rows)*rowBytes)
	for first := int64(0); first < c.rows; first += per {
		if err := ctx.Err(); err != nil {
			return err
		}
		n := min(per, c.rows-first)
		clear(buf)
		for r := range n {
			end, err := indptr.id()
			if err != nil {
				return err
			}
			if end < last || end > stored {
				return indexError(c.indptr.name(), first+r+1, "%d after %d, with %d values in all", end, last, stored)
			}
			row := buf[r*rowBytes : (r+1)*rowBytes]
			for ; last < end; last++ {
				col, err := indices.id()
				if err != nil {
					return err
				}
				if col >= c.columns {
					return indexError(c.indices.name(), last, "column %d of a matrix of %d columns", col, c.columns)
				}
				v, err := data.next()
				if err != nil {
					return err
				}
				cell := row[col*size : (col+1)*size]
				for _, x := range cell {
					if x != 0 {
						return indexError(c.indices.name(), last, "column %d a second time in row %d; sum duplicates first", col, first+r)
					}
				}
				copy(cell, v)
			}
		}
		b := buf[:n*rowBytes]
		if c.data.header.BigEndian {
			swapBytes(b, int(size))
		}
		if err := f(first, b); err != nil {
			return err
		}
	}
	if last != stored {
		return indexError(c.indptr.name(), c.rows, "ends at %d, with %d values in all", last, stored)
	}
	return nil
}

// elementStream hands out the elements of a 1-D input one by one.
type elementStream struct {
	o    *opened
	r    io.Reader
	size int64
	left int64 // elements not read from r yet
	at   int64 // elements handed out
	buf  []byte
	rest []byte
	one  [1]int64
}

func (s *elementStream) next() ([]byte, error) {
	if len(s.rest) == 0 {
		n := min(s.left, (64<<10)/s.size)
		if n == 0 {
			return nil, s.o.fail(io.ErrUnexpectedEOF)
		}
		if s.buf == nil {
			s.buf = make([]byte, n*s.size)
		}
		s.rest = s.buf[:n*s.size]
		if _, err := io.ReadFull(s.r, s.rest); err != nil {
			return nil, s.o.fail(err)
		}
		s.left -= n
	}
	b := s.rest[:s.size]
	s.rest = s.rest[s.size:]
	s.at++
	return b, nil
}

func (s *elementStream) id() (int64, error) {
	b, err := s.next()
	if err != nil {
		return 0, err
	}
	h := s.o.in.header
	if h.DType == layout.Int64 && !h.BigEndian {
		if v := int64(binary.LittleEndian.Uint64(b)); v >= 0 {
			return v, nil
		}
	}
	if decodeIDs(s.one[:], b, 0, s.size, h.DType, h.BigEndian) >= 0 {
		return 0, idError(s.o.in.name(), s.at-1, s.one[0], h.DType)
	}
	return s.one[0], nil
}
