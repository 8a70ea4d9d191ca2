package source

// Edges collected one by one and handed on in chunks, for readers that find them so.

import (
	"context"
)

// EdgeChunks collects edges and hands them on in chunks.
type EdgeChunks struct {
	Ctx      context.Context
	f        func(src, dst []int64) error
	Src, Dst []int64
	N        int
}

// NewEdgeChunks hands chunks of up to ChunkEdges on to f.
func NewEdgeChunks(ctx context.Context, f func(src, dst []int64) error) EdgeChunks {
	return NewEdgeChunksOf(ctx, ChunkEdges, f)
}

// NewEdgeChunksOf collects up to size edges a chunk.
func NewEdgeChunksOf(ctx context.Context, size int, f func(src, dst []int64) error) EdgeChunks {
	return EdgeChunks{Ctx: ctx, f: f, Src: make([]int64, size), Dst: make([]int64, size)}
}

// Flush hands on what was collected, unless the context is cancelled.
func (c *EdgeChunks) Flush() error {
	if err := c.Ctx.Err(); err != nil || c.N == 0 {
		return err
	}
	n := c.N
	c.N = 0
	return c.f(c.Src[:n], c.Dst[:n])
}

// Put adds an edge.
func (c *EdgeChunks) Put(src, dst int64) error {
	if c.N == len(c.Src) {
		if err := c.Flush(); err != nil {
			return err
		}
	}
	c.Src[c.N], c.Dst[c.N] = src, dst
	c.N++
	return nil
}
