package array

// Edge indices in .npy files and .npz members, in all four element layouts: the
// sources before the targets, or pair after pair.

import (
	"context"
	"io"

	"github.com/goagnes/goagnes/layout/build/element"
	"github.com/goagnes/goagnes/layout/build/source"
)

type FileEdges struct {
	in       *Input
	NumEdges int64
	pairs    bool // source and target of an edge lie side by side
}

// NewEdges takes an array of shape (2, E) or (E, 2) for an edge index.
func NewEdges(in *Input) (*FileEdges, error) {
	h := in.Header
	if err := source.CheckIDType(in.Name(), h.DType); err != nil {
		return nil, err
	}
	rows, err := edgeIndexLayout(in.Name(), h.Shape)
	if err != nil {
		return nil, err
	}
	e := &FileEdges{in: in, NumEdges: h.Shape[0], pairs: !h.Fortran}
	if rows {
		e.NumEdges, e.pairs = h.Shape[1], h.Fortran
	}
	return e, nil
}

func (e *FileEdges) Name() string         { return e.in.Name() }
func (e *FileEdges) Count() (int64, bool) { return e.NumEdges, true }

func (e *FileEdges) Scan(ctx context.Context, f func(src, dst []int64) error) error {
	if e.NumEdges == 0 {
		return ctx.Err()
	}
	o, err := e.in.open()
	if err != nil {
		return err
	}
	defer o.Close()
	h := e.in.Header
	size := int64(h.DType.Size())
	first, err := o.stream(ctx, 0)
	if err != nil {
		return err
	}
	var second io.Reader
	if !e.pairs {
		// A deflated member is inflated twice rather than spilled: it needs no
		// space, and inflating is not the slowest part of a build.
		if second, err = o.stream(ctx, e.NumEdges*size); err != nil {
			return err
		}
	}
	most := min(e.NumEdges, source.ChunkEdges)
	buf := make([]byte, 2*most*size)
	src, dst := make([]int64, most), make([]int64, most)
	for at := int64(0); at < e.NumEdges; at += most {
		if err := ctx.Err(); err != nil {
			return err
		}
		n := min(most, e.NumEdges-at)
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
			if bad := element.IDs(out, buf, int64(i)*target, stride, h.DType, h.BigEndian); bad >= 0 {
				return source.BadID(e.in.Name(), at+int64(bad), out[bad], h.DType)
			}
		}
		if err := f(src[:n], dst[:n]); err != nil {
			return err
		}
	}
	return nil
}
