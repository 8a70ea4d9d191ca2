package edgelist

// Passing over the edges: chunks are checked, narrowed to 32 bits and handed from
// stage to stage, each stage on its own goroutine.

import (
	"context"
	"sync"

	"github.com/goagnes/goagnes/layout/build/fault"
	"github.com/goagnes/goagnes/layout/build/source"
)

// MaxNodes bounds the nodes of a store built by this version: internal ids are
// kept in 32 bits, and the largest is reserved.
const MaxNodes = 1<<32 - 2

// scanChunks is the number of chunks between the reader and the last stage.
const scanChunks = 4

// ScanBytes is what the chunks of a scan hold, the source's own included.
const ScanBytes = scanChunks*source.ChunkEdges*8 + source.ChunkEdges*16

// Chunk is a run of edges in import order.
type Chunk struct {
	First    int64    // edge id of the first
	Src, Dst []uint32 // original ids, or what a stage made of them
}

// Scan passes all edges through the stages in order. Every id must be below
// limit. It returns the number of edges and the largest id, -1 without edges.
func Scan(ctx context.Context, e source.Edges, limit int64, known bool, threads int, progress func(done int64), stages ...func(c *Chunk) error) (edges, maxID int64, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	free := make(chan *Chunk, scanChunks)
	for range scanChunks {
		free <- &Chunk{Src: make([]uint32, source.ChunkEdges), Dst: make([]uint32, source.ChunkEdges)}
	}
	run := func(c *Chunk, stage func(c *Chunk) error) {
		if ctx.Err() == nil {
			if err := stage(c); err != nil {
				cancel(err)
			}
		}
	}
	pass := func(c *Chunk) {
		for _, stage := range stages {
			run(c, stage)
		}
		free <- c
	}
	var wait sync.WaitGroup
	if threads > 1 && len(stages) > 0 {
		first := make(chan *Chunk, scanChunks)
		in := first
		for i, stage := range stages {
			out := free
			if i < len(stages)-1 {
				out = make(chan *Chunk, scanChunks)
			}
			from, last := in, i == len(stages)-1
			wait.Go(func() {
				for c := range from {
					run(c, stage)
					out <- c
				}
				if !last {
					close(out)
				}
			})
			in = out
		}
		pass = func(c *Chunk) { first <- c }
		defer wait.Wait()
		defer close(first)
	}
	top := int64(-1)
	err = e.Scan(ctx, func(src, dst []int64) error {
		for len(src) > 0 {
			n := min(len(src), source.ChunkEdges)
			c := <-free
			if err := ctx.Err(); err != nil {
				free <- c
				return err
			}
			c.First, c.Src, c.Dst = edges, c.Src[:n], c.Dst[:n]
			bad := false
			for i, s := range src[:n] {
				d := dst[i]
				bad = bad || uint64(s) >= uint64(limit) || uint64(d) >= uint64(limit)
				top = max(top, s, d)
				c.Src[i], c.Dst[i] = uint32(s), uint32(d)
			}
			if bad {
				free <- c
				return idFault(ctx, e, edges, src[:n], dst[:n], limit, known)
			}
			pass(c)
			edges += int64(n)
			src, dst = src[n:], dst[n:]
			if progress != nil {
				progress(edges)
			}
		}
		return nil
	})
	// All chunks come back once the stages are through with them.
	for range scanChunks {
		<-free
	}
	if cause := context.Cause(ctx); cause != nil {
		return edges, top, cause
	}
	return edges, top, err
}

// idFault names the first edge with an id that is no node.
func idFault(ctx context.Context, e source.Edges, first int64, src, dst []int64, limit int64, known bool) error {
	for i := range src {
		for _, v := range [2]int64{src[i], dst[i]} {
			if v < 0 {
				return source.ErrorAtEdge(ctx, e, first+int64(i), "edge %d → %d: negative id; ids are 0 or more", src[i], dst[i])
			}
			if v >= limit && known {
				return source.ErrorAtEdge(ctx, e, first+int64(i), "edge %d → %d: the graph has %d nodes, so ids end at %d; give a larger num_nodes, or ids=\"rank\" where ids are sparse", src[i], dst[i], limit, limit-1)
			}
			if v >= limit {
				return source.ErrorAtEdge(ctx, e, first+int64(i), "edge %d → %d: dense ids end at %d; give ids=\"rank\" where ids are sparse", src[i], dst[i], limit-1)
			}
		}
	}
	panic("edgelist: no edge of the chunk is at fault")
}

// TooManyNodes refuses what has more than MaxNodes nodes.
func TooManyNodes(name string) error {
	return fault.Unsupported("%s: more than %d nodes; this version builds stores of up to that many", name, int64(MaxNodes))
}
