package source

// Edge indices in .npy files and .npz members, in all four element layouts: the
// sources before the targets, or pair after pair.

import (
	"context"
	"io"
)

type arrayEdges struct {
	in    *input
	count int64
	pairs bool // source and target of an edge lie side by side
}

// newArrayEdges takes an array of shape (2, E) or (E, 2) for an edge index.
func newArrayEdges(in *input) (*arrayEdges, error) {
	h := in.header
	if err := checkIDType(in.name(), h.DType); err != nil {
		return nil, err
	}
	rows, err := edgeIndexLayout(in.name(), h.Shape)
	if err != nil {
		return nil, err
	}
	e := &arrayEdges{in: in, count: h.Shape[0], pairs: !h.Fortran}
	if rows {
		e.count, e.pairs = h.Shape[1], h.Fortran
	}
	return e, nil
}

func (e *arrayEdges) Name() string         { return e.in.name() }
func (e *arrayEdges) Count() (int64, bool) { return e.count, true }

func (e *arrayEdges) Scan(ctx context.Context, f func(src, dst []int64) error) error {
	if e.count == 0 {
		return ctx.Err()
	}
	o, err := e.in.open()
	if err != nil {
		return err
	}
	defer o.Close()
	h := e.in.header
	size := int64(h.DType.Size())
	first, err := o.stream(ctx, 0)
	if err != nil {
		return err
	}
	var second io.Reader
	if !e.pairs {
		// A deflated member is inflated twice rather than spilled: it needs no
		// space, and inflating is not the slowest part of a build.
		if second, err = o.stream(ctx, e.count*size); err != nil {
			return err
		}
	}
	most := min(e.count, ChunkEdges)
	buf := make([]byte, 2*most*size)
	src, dst := make([]int64, most), make([]int64, most)
	for at := int64(0); at < e.count; at += most {
		if err := ctx.Err(); err != nil {
			return err
		}
		n := min(most, e.count-at)
		stride, target := 2*size, size
		if e.pairs {
			if _, err := io.ReadFull(first, buf[:2*n*size]); err != nil {
				return o.fail(err)
			}
		} else {
			stride, target = size, n*size
			if _, err := io.ReadFull(first, buf[:n*size]); err != nil {
				return o.fail(err)
			}
			if _, err := io.ReadFull(second, buf[n*size:2*n*size]); err != nil {
				return o.fail(err)
			}
		}
		for i, out := range [][]int64{src[:n], dst[:n]} {
			if bad := decodeIDs(out, buf, int64(i)*target, stride, h.DType, h.BigEndian); bad >= 0 {
				return idError(e.in.name(), at+int64(bad), out[bad], h.DType)
			}
		}
		if err := f(src[:n], dst[:n]); err != nil {
			return err
		}
	}
	return nil
}
