package build

// What the build knows about its edges beyond their values: how much of them was
// read, and, where reading them again is dear, their values.

import (
	"context"
	"math"

	"github.com/goagnes/goagnes/layout/build/source"
)

// countedEdges adds what every pass reads to the report.
type countedEdges struct {
	source.Edges
	b *builder
}

func (c countedEdges) Scan(ctx context.Context, f func(src, dst []int64) error) error {
	edges := int64(0)
	err := c.Edges.Scan(ctx, func(src, dst []int64) error {
		edges += int64(len(src))
		return f(src, dst)
	})
	c.b.report.BytesRead += fileBytes(c.Name(), 16*edges)
	return err
}

// keptEdges keeps the edges of the first pass in memory if they fit and all ids are
// below 2^32, so that text is parsed once.
type keptEdges struct {
	source.Edges
	mem   *region
	pairs []uint32 // source and target of each edge
	next  int      // words of pairs in use
	whole bool     // pairs holds all edges
}

// keep returns edges that keep themselves in up to bytes of memory.
func (b *builder) keep(e source.Edges, bytes int64) (*keptEdges, error) {
	m, err := b.mem.region("edges kept between passes", bytes/8*8)
	if err != nil {
		return nil, err
	}
	return &keptEdges{Edges: e, mem: m, pairs: view[uint32](m.bytes)}, nil
}

// drop gives back the memory; later passes read the source.
func (k *keptEdges) drop() {
	if k != nil {
		k.mem.close()
		k.pairs, k.whole = nil, false
	}
}

// bytes is the memory in use.
func (k *keptEdges) bytes() int64 { return k.mem.size() }

func (k *keptEdges) Scan(ctx context.Context, f func(src, dst []int64) error) error {
	if k.whole {
		return k.replay(ctx, f)
	}
	k.next = 0
	err := k.Edges.Scan(ctx, func(src, dst []int64) error {
		if k.pairs != nil && !k.put(src, dst) {
			k.drop()
		}
		return f(src, dst)
	})
	if err != nil || k.pairs == nil {
		k.drop()
		return err
	}
	k.mem.shrink(4 * int64(k.next))
	k.pairs, k.whole = view[uint32](k.mem.bytes), true
	return nil
}

// put keeps edges and reports whether it could.
func (k *keptEdges) put(src, dst []int64) bool {
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

func (k *keptEdges) replay(ctx context.Context, f func(src, dst []int64) error) error {
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
