package synthetic

// The edges of both kinds, each a function of its index.

import (
	"context"
	"math"
	"math/bits"

	"github.com/goagnes/goagnes/layout/build/source"
)

// edgeStream delivers edges that draw makes.
type edgeStream struct {
	g    *graph
	draw func(first int64, src, dst []int64)
}

func (e *edgeStream) Name() string         { return e.g.name("edges") }
func (e *edgeStream) Count() (int64, bool) { return e.g.edges, true }

func (e *edgeStream) Scan(ctx context.Context, f func(src, dst []int64) error) error {
	type chunk struct{ src, dst []int64 }
	size := func(k int64) int64 { return min(source.ChunkEdges, e.g.edges-k*source.ChunkEdges) }
	return ordered(ctx, (e.g.edges+source.ChunkEdges-1)/source.ChunkEdges, e.g.Threads,
		func() chunk { return chunk{make([]int64, source.ChunkEdges), make([]int64, source.ChunkEdges)} },
		func(k int64, c chunk) { e.draw(k*source.ChunkEdges, c.src[:size(k)], c.dst[:size(k)]) },
		func(k int64, c chunk) error { return f(c.src[:size(k)], c.dst[:size(k)]) })
}

// edgeStep is the part of the edges' stream that belongs to one edge: eight words.
const edgeStep = 8 * golden & (1<<64 - 1)

// The borders of the quadrants in 1/65536: a below ab, then b, c and d.
const (
	rmatA   = 37355 // 0.57
	rmatAB  = 49807 // 0.76
	rmatABC = 62259 // 0.95
)

func newRMAT(g *graph) *edgeStream {
	key := stream(g.Seed, streamEdges)
	levels := bits.Len64(uint64(g.NumNodes - 1))
	n := uint64(g.NumNodes)
	return &edgeStream{g, func(first int64, src, dst []int64) {
		for i := range src {
			at := key + uint64(first+int64(i))*edgeStep
			var u, v uint64
			for {
				u, v = rmatDraw(at, levels)
				if u < n && v < n {
					break
				}
				at = mix(at) // elsewhere in the stream
			}
			src[i], dst[i] = int64(g.ids.at(u)), int64(g.ids.at(v))
		}
	}}
}

// rmatDraw descends levels of the matrix, at most 32, with 16 bits each.
func rmatDraw(at uint64, levels int) (u, v uint64) {
	for left := levels; left > 0; left -= 4 {
		at += golden
		w := mix(at)
		for range min(left, 4) {
			x := uint32(w & 0xffff)
			w >>= 16
			// Each is 1 where x lies at or past the border.
			a := (rmatA - 1 - x) >> 31
			ab := (rmatAB - 1 - x) >> 31
			abc := (rmatABC - 1 - x) >> 31
			u = u<<1 | uint64(ab)
			v = v<<1 | uint64(a-ab+abc)
		}
	}
	return u, v
}

// communities divides the order inside into classes and groups: class c is
// [ceil(c*N/C), ceil((c+1)*N/C)), and so are the groups within a class.
type communities struct{ nodes, classes uint64 }

// groupNodes is about the size of a group.
const groupNodes = 1024

func ceilDiv(a, b uint64) uint64 { return (a + b - 1) / b }

func (c communities) class(node uint64) uint64 { return node * c.classes / c.nodes }

// classRange returns the first node and the size of a class.
func (c communities) classRange(class uint64) (first, size uint64) {
	first = ceilDiv(class*c.nodes, c.classes)
	return first, ceilDiv((class+1)*c.nodes, c.classes) - first
}

// group returns the first node and the size of the group of a node of a class.
func group(node, first, size uint64) (start, nodes uint64) {
	groups := max(1, size/groupNodes)
	k := (node - first) * groups / size
	start = ceilDiv(k*size, groups)
	return first + start, ceilDiv((k+1)*size, groups) - start
}

// skewed draws a place in a group of n with density proportional to p^(-1/3).
func skewed(w, n uint64) uint64 {
	u := unit(w)
	return min(uint64(u*math.Sqrt(u)*float64(n)), n-1)
}

// Shares of the sources of a node's in-edges, in 1/65536.
const (
	shareGroup = 39322 // 0.60: its own group
	shareClass = 55706 // 0.85: that, or its class; the rest is from anywhere
)

func newCommunity(g *graph) *edgeStream {
	key := stream(g.Seed, streamEdges)
	c := communities{uint64(g.NumNodes), uint64(g.NumClasses)}
	return &edgeStream{g, func(first int64, src, dst []int64) {
		for i := range src {
			at := key + uint64(first+int64(i))*edgeStep
			next := func() uint64 {
				at += golden
				return mix(at)
			}
			// A node selects a group, a second word the place in it.
			node := below(next(), c.nodes)
			start, size := c.classRange(c.class(node))
			home, n := group(node, start, size)
			target := home + skewed(next(), n)

			sourceHome, sourceN := home, n
			switch share := next() & 0xffff; {
			case share < shareGroup:
			case share < shareClass:
				sourceHome, sourceN = group(start+below(next(), size), start, size)
			default:
				far := below(next(), c.nodes)
				start, size := c.classRange(c.class(far))
				sourceHome, sourceN = group(far, start, size)
			}
			s := sourceHome + skewed(next(), sourceN)
			if s == target && sourceN > 1 {
				if s++; s == sourceHome+sourceN {
					s = sourceHome
				}
			}
			src[i], dst[i] = int64(g.ids.at(s)), int64(g.ids.at(target))
		}
	}}
}
