package array

// Rows of .npy files and .npz members. Fortran order is turned into rows through
// a bounded window of positioned reads.

import (
	"context"
	"io"

	"github.com/goagnes/goagnes/layout"
	"github.com/goagnes/goagnes/layout/build/element"
	"github.com/goagnes/goagnes/layout/build/source"
)

// windowBytes bounds the rows gathered at once from an array in Fortran order; it
// makes the reads of one column long enough to be fast.
const windowBytes = 32 << 20

type FileRows struct {
	in       *Input
	scratch  string
	rowElems int64
	rowBytes int64
	columns  bool // elements of a row lie apart
}

// NewRows takes an array with one row a node.
func NewRows(in *Input, scratch string) (*FileRows, error) {
	h := in.Header
	if len(h.Shape) == 0 {
		return nil, source.Errorf(in.Name(), "a single value, where an array with one row a node is due")
	}
	r := &FileRows{in: in, scratch: scratch, rowElems: 1}
	for _, n := range h.Shape[1:] {
		r.rowElems *= n
	}
	r.rowBytes = r.rowElems * int64(h.DType.Size())
	if r.rowBytes > source.MaxRowBytes {
		return nil, source.Errorf(in.Name(), "rows of %d bytes; at most %d are read", r.rowBytes, source.MaxRowBytes)
	}
	long := 0
	for _, n := range h.Shape {
		if n > 1 {
			long++
		}
	}
	r.columns = h.Fortran && long > 1
	return r, nil
}

func (r *FileRows) Len() int64          { return r.in.Header.Shape[0] }
func (r *FileRows) RowShape() []int64   { return r.in.Header.Shape[1:] }
func (r *FileRows) DType() layout.DType { return r.in.Header.DType }
func (r *FileRows) Name() string        { return r.in.Name() }

func (r *FileRows) Scan(ctx context.Context, f func(first int64, rows []byte) error) error {
	if r.rowBytes == 0 || r.Len() == 0 {
		return ctx.Err()
	}
	o, err := r.in.open()
	if err != nil {
		return err
	}
	defer o.Close()
	per := source.RowsPerChunk(r.rowBytes)
	if r.columns {
		if err := o.spill(ctx, r.scratch); err != nil {
			return err
		}
		return r.scanColumns(ctx, o, per, f)
	}
	s, err := o.stream(ctx, 0)
	if err != nil {
		return err
	}
	buf := make([]byte, min(per, r.Len())*r.rowBytes)
	for first := int64(0); first < r.Len(); first += per {
		if err := ctx.Err(); err != nil {
			return err
		}
		b := buf[:min(per, r.Len()-first)*r.rowBytes]
		if _, err := io.ReadFull(s, b); err != nil {
			return o.fail(err)
		}
		if err := r.deliver(first, b, f); err != nil {
			return err
		}
	}
	return nil
}

func (r *FileRows) deliver(first int64, b []byte, f func(first int64, rows []byte) error) error {
	if r.in.Header.BigEndian {
		element.SwapBytes(b, r.DType().Size())
	}
	return f(first, b)
}

// scanColumns reads an array whose first axis varies fastest: element
// (row, j1, j2, …) is number row + N*(j1 + n1*(j2 + …)).
func (r *FileRows) scanColumns(ctx context.Context, o *Reading, per int64, f func(first int64, rows []byte) error) error {
	n := r.Len()
	size := int64(r.DType().Size())
	window := min(n, max(per, windowBytes/r.rowBytes))
	rows := make([]byte, window*r.rowBytes)
	column := make([]byte, window*size)
	inner := r.RowShape()
	for first := int64(0); first < n; first += window {
		have := min(window, n-first)
		index := make([]int64, len(inner))
		for k := range r.rowElems {
			if err := ctx.Err(); err != nil {
				return err
			}
			c := column[:have*size]
			if _, err := io.ReadFull(io.NewSectionReader(o.at, (k*n+first)*size, have*size), c); err != nil {
				return o.fail(err)
			}
			at := int64(0)
			for i, x := range index {
				at = at*inner[i] + x
			}
			scatter(rows[at*size:], c, size, r.rowBytes)
			for i := range index {
				index[i]++
				if index[i] < inner[i] {
					break
				}
				index[i] = 0
			}
		}
		for at := int64(0); at < have; at += per {
			m := min(per, have-at)
			if err := ctx.Err(); err != nil {
				return err
			}
			if err := r.deliver(first+at, rows[at*r.rowBytes:(at+m)*r.rowBytes], f); err != nil {
				return err
			}
		}
	}
	return nil
}

// scatter puts the elements of c at every stride-th byte of out.
func scatter(out, c []byte, size, stride int64) {
	at := int64(0)
	switch size {
	case 4:
		for ; len(c) >= 4; c = c[4:] {
			*(*[4]byte)(out[at:]) = [4]byte(c)
			at += stride
		}
	case 8:
		for ; len(c) >= 8; c = c[8:] {
			*(*[8]byte)(out[at:]) = [8]byte(c)
			at += stride
		}
	default:
		for ; len(c) > 0; c = c[size:] {
			copy(out[at:at+size], c[:size])
			at += stride
		}
	}
}
