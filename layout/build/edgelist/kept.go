package edgelist

// What the build knows about its edges beyond their values: how much of them was
// read, and, where reading them again is dear, their values.

import (
	"context"
	"math"

	"github.com/goagnes/goagnes/layout/build/ledger"
	"github.com/goagnes/goagnes/layout/build/source"
	"github.com/goagnes/goagnes/layout/build/workspace"
)

// Counted adds what every pass reads to the report.
type Counted struct {
	source.Edges
	w *workspace.Space
}

// CountReads returns edges whose passes count as bytes read.
func CountReads(w *workspace.Space, e source.Edges) source.Edges { return Counted{e, w} }

func (c Counted) Scan(ctx context.Context, f func(src, dst []int64) error) error {
	edges := int64(0)
	err := c.Edges.Scan(ctx, func(src, dst []int64) error {
		edges += int64(len(src))
		return f(src, dst)
	})
	c.w.BytesRead += workspace.FileBytes(c.Name(), 16*edges)
	return err
}

// LineOf is that of the edges read: see source.Lines.
func (c Counted) LineOf(ctx context.Context, edge int64) int64 {
	return source.LineOf(ctx, c.Edges, edge)
}

// Kept keeps the edges of the first pass in memory if they fit and all ids are
// below 2^32, so that text is parsed once.
type Kept struct {
	source.Edges
	mem   *ledger.Region
	pairs []uint32 // source and target of each edge
	next  int      // words of pairs in use
	Whole bool     // pairs holds all edges
}

// KeepEdges returns edges that keep themselves in up to bytes of memory.
func KeepEdges(w *workspace.Space, e source.Edges, bytes int64) (*Kept, error) {
	m, err := w.Mem.Map("edges kept between passes", bytes/8*8)
	if err != nil {
		return nil, err
	}
	return &Kept{Edges: e, mem: m, pairs: ledger.View[uint32](m.Bytes)}, nil
}

// LineOf is that of the edges read: see source.Lines.
func (k *Kept) LineOf(ctx context.Context, edge int64) int64 {
	return source.LineOf(ctx, k.Edges, edge)
}

// Drop gives back the memory; later passes read the source.
func (k *Kept) Drop() {
	if k != nil {
		k.mem.Close()
		k.pairs, k.Whole = nil, false
	}
}

// Bytes is the memory in use.
func (k *Kept) Bytes() int64 { return k.mem.Size() }

func (k *Kept) Scan(ctx context.Context, f func(src, dst []int64) error) error {
	if k.Whole {
		return k.replay(ctx, f)
	}
	k.next = 0
	err := k.Edges.Scan(ctx, func(src, dst []int64) error {
		if k.pairs != nil && !k.put(src, dst) {
			k.Drop()
		}
		return f(src, dst)
	})
	if err != nil || k.pairs == nil {
		k.Drop()
		return err
	}
	k.mem.Shrink(4 * int64(k.next))
	k.pairs, k.Whole = ledger.View[uint32](k.mem.Bytes), true
	return nil
}

// put keeps edges and reports whether it could.
func (k *Kept) put(src, dst []int64) bool {
	if len(k.pairs)-k.next < 2*len(src) {
		return false
	}
	to := k.pairs[k.next : k.next+2*len(src)]
	for i, s := range src {
		d := dst[i]
		if uint64(s|d) > math.MaxUint32 {
			return false
		}
		to[2*i], to[2*i+1] = uint32(s), uint32(d)
	}
	k.next += len(to)
	return true
}

func (k *Kept) replay(ctx context.Context, f func(src, dst []int64) error) error {
	src, dst := make([]int64, source.ChunkEdges), make([]int64, source.ChunkEdges)
	for from := k.pairs; len(from) > 0; {
		if err := ctx.Err(); err != nil {
			return err
		}
		n := min(len(from)/2, source.ChunkEdges)
		for i := range n {
			src[i], dst[i] = int64(from[2*i]), int64(from[2*i+1])
		}
		from = from[2*n:]
		if err := f(src[:n], dst[:n]); err != nil {
			return err
		}
	}
	return nil
}
