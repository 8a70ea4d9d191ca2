package array

// Sparse node features: the three arrays of a compressed sparse row matrix, read
// side by side and delivered as dense rows.

import (
	"context"
	"encoding/binary"
	"io"

	"github.com/goagnes/goagnes/layout"
	"github.com/goagnes/goagnes/layout/build/element"
	"github.com/goagnes/goagnes/layout/build/source"
)

// CSRRows streams a matrix given by members indptr, indices and data.
type CSRRows struct {
	name                  string
	indptr, indices, data *Input
	rows, columns         int64
}

// NewCSR checks that the three arrays form a matrix of the given shape.
func NewCSR(name string, indptr, indices, data *Input, rows, columns int64) (*CSRRows, error) {
	if rows < 0 || columns < 0 {
		return nil, source.Errorf(name, "shape (%d, %d) is negative", rows, columns)
	}
	size := int64(data.Header.DType.Size())
	if columns > source.MaxRowBytes/size {
		return nil, source.Errorf(name, "rows of %d columns; at most %d bytes are read", columns, source.MaxRowBytes)
	}
	for _, in := range []*Input{indptr, indices, data} {
		if len(in.Header.Shape) != 1 {
			return nil, source.Errorf(in.Name(), "shape %s; it has one axis in a sparse matrix", source.ShapeString(in.Header.Shape))
		}
	}
	for _, in := range []*Input{indptr, indices} {
		if err := source.CheckIDType(in.Name(), in.Header.DType); err != nil {
			return nil, err
		}
	}
	if n := indptr.Header.Shape[0]; n != rows+1 {
		return nil, source.Errorf(indptr.Name(), "length %d for %d rows; it is rows + 1", n, rows)
	}
	if a, b := indices.Header.Shape[0], data.Header.Shape[0]; a != b {
		return nil, source.Errorf(data.Name(), "%d values for %d column numbers", b, a)
	}
	return &CSRRows{name: name, indptr: indptr, indices: indices, data: data, rows: rows, columns: columns}, nil
}

func (c *CSRRows) Len() int64          { return c.rows }
func (c *CSRRows) RowShape() []int64   { return []int64{c.columns} }
func (c *CSRRows) DType() layout.DType { return c.data.Header.DType }
func (c *CSRRows) Name() string        { return c.name }

// Check reads the places of the values and returns the first that is none in the
// matrix, or is there a second time. It takes a bit for each column.
func (c *CSRRows) Check(ctx context.Context) error {
	if c.columns == 0 || c.rows == 0 {
		return ctx.Err()
	}
	indptr, err := c.indptr.Elements(ctx)
	if err != nil {
		return err
	}
	defer indptr.Close()
	indices, err := c.indices.Elements(ctx)
	if err != nil {
		return err
	}
	defer indices.Close()
	last, err := c.begin(indptr)
	if err != nil {
		return err
	}
	seen := make([]uint64, (c.columns+63)/64) // at most 8 MiB, by MaxRowBytes
	for r := range c.rows {
		if r&0xfff == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		end, err := c.end(indptr, r, last)
		if err != nil {
			return err
		}
		if last < end {
			clear(seen)
		}
		for ; last < end; last++ {
			col, err := c.column(indices, last)
			if err != nil {
				return err
			}
			if seen[col>>6]>>(col&63)&1 != 0 {
				return c.repeated(last, col, r)
			}
			seen[col>>6] |= 1 << (col & 63)
		}
	}
	return c.whole(last)
}

// begin reads the first row pointer.
func (c *CSRRows) begin(indptr *Elements) (int64, error) {
	first, err := indptr.ID()
	if err == nil && first != 0 {
		err = source.ErrorAt(c.indptr.Name(), 0, "%d, where a sparse matrix starts with 0", first)
	}
	return first, err
}

// end reads where row r ends, after the row before that ends at last.
func (c *CSRRows) end(indptr *Elements, r, last int64) (int64, error) {
	end, err := indptr.ID()
	if stored := c.indices.Header.Shape[0]; err == nil && (end < last || end > stored) {
		err = source.ErrorAt(c.indptr.Name(), r+1, "%d after %d, with %d values in all", end, last, stored)
	}
	return end, err
}

// column reads the column of value number at.
func (c *CSRRows) column(indices *Elements, at int64) (int64, error) {
	col, err := indices.ID()
	if err == nil && col >= c.columns {
		err = source.ErrorAt(c.indices.Name(), at, "column %d of a matrix of %d columns", col, c.columns)
	}
	return col, err
}

// repeated is the fault of value number at, the second of its column in row.
func (c *CSRRows) repeated(at, col, row int64) error {
	return source.ErrorAt(c.indices.Name(), at, "column %d a second time in row %d; sum duplicates first", col, row)
}

// whole checks that the rows end where the values do.
func (c *CSRRows) whole(last int64) error {
	if stored := c.indices.Header.Shape[0]; last != stored {
		return source.ErrorAt(c.indptr.Name(), c.rows, "ends at %d, with %d values in all", last, stored)
	}
	return nil
}

func (c *CSRRows) Scan(ctx context.Context, f func(first int64, rows []byte) error) error {
	size := int64(c.DType().Size())
	rowBytes := c.columns * size
	if rowBytes == 0 || c.rows == 0 {
		return ctx.Err()
	}
	var s [3]*Elements
	for i, in := range []*Input{c.indptr, c.indices, c.data} {
		var err error
		if s[i], err = in.Elements(ctx); err != nil {
			return err
		}
		defer s[i].Close()
	}
	indptr, indices, data := s[0], s[1], s[2]
	last, err := c.begin(indptr)
	if err != nil {
		return err
	}
	per := source.RowsPerChunk(rowBytes)
	buf := make([]byte, min(per, c.rows)*rowBytes)
	for first := int64(0); first < c.rows; first += per {
		if err := ctx.Err(); err != nil {
			return err
		}
		n := min(per, c.rows-first)
		clear(buf)
		for r := range n {
			end, err := c.end(indptr, first+r, last)
			if err != nil {
				return err
			}
			row := buf[r*rowBytes : (r+1)*rowBytes]
			for ; last < end; last++ {
				col, err := c.column(indices, last)
				if err != nil {
					return err
				}
				v, err := data.next()
				if err != nil {
					return err
				}
				cell := row[col*size : (col+1)*size]
				for _, x := range cell {
					if x != 0 {
						return c.repeated(last, col, first+r)
					}
				}
				copy(cell, v)
			}
		}
		b := buf[:n*rowBytes]
		if c.data.Header.BigEndian {
			element.SwapBytes(b, int(size))
		}
		if err := f(first, b); err != nil {
			return err
		}
	}
	return c.whole(last)
}

// Elements opens a 1-D input to read its elements one by one.
func (in *Input) Elements(ctx context.Context) (*Elements, error) {
	o, err := in.open()
	if err != nil {
		return nil, err
	}
	r, err := o.stream(ctx, 0)
	if err != nil {
		o.Close()
		return nil, err
	}
	return &Elements{o: o, r: r, size: int64(in.Header.DType.Size()), left: in.Header.Elements()}, nil
}

// Elements hands out the elements of a 1-D input one by one.
type Elements struct {
	o    *Reading
	r    io.Reader
	size int64
	left int64 // elements not read from r yet
	at   int64 // elements handed out
	buf  []byte
	rest []byte
	one  [1]int64
}

func (s *Elements) next() ([]byte, error) {
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

// Close closes the input.
func (s *Elements) Close() { s.o.Close() }

// Name is how messages call the input.
func (s *Elements) Name() string { return s.o.in.Name() }

// ID returns the next element as an id.
func (s *Elements) ID() (int64, error) {
	b, err := s.next()
	if err != nil {
		return 0, err
	}
	h := s.o.in.Header
	if h.DType == layout.Int64 && !h.BigEndian {
		if v := int64(binary.LittleEndian.Uint64(b)); v >= 0 {
			return v, nil
		}
	}
	if element.IDs(s.one[:], b, 0, s.size, h.DType, h.BigEndian) >= 0 {
		return 0, source.BadID(s.Name(), s.at-1, s.one[0], h.DType)
	}
	return s.one[0], nil
}

// SmallIDs reads all of a short array of n ids.
func SmallIDs(ctx context.Context, in *Input, n int64) ([]int64, error) {
	h := in.Header
	if err := source.CheckIDType(in.Name(), h.DType); err != nil {
		return nil, err
	}
	if h.Elements() != n {
		return nil, source.Errorf(in.Name(), "shape %s; %d numbers are due", source.ShapeString(h.Shape), n)
	}
	s, err := in.Elements(ctx)
	if err != nil {
		return nil, err
	}
	defer s.Close()
	out := make([]int64, n)
	for i := range out {
		if out[i], err = s.ID(); err != nil {
			return nil, err
		}
	}
	return out, nil
}
