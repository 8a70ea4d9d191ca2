package build

// The first pass over the edges: how many there are, which ids occur, how often
// each node is a source and a target, and how targets spread over the ids.

import (
	"math"

	"github.com/goagnes/goagnes/layout/build/source"
)

// coarseBuckets is the number of buckets of a coarse histogram.
const coarseBuckets = 1 << 16

// coarse counts ids in equal ranges of 2^shift ids. The ranges double when an id
// lies past the last one, so that the largest id need not be known.
type coarse struct {
	shift uint
	count []uint64
}

func newCoarse() *coarse { return &coarse{count: make([]uint64, coarseBuckets)} }

// cover makes the ranges wide enough for id.
func (h *coarse) cover(id uint32) {
	for int(id>>h.shift) >= len(h.count) {
		half := len(h.count) / 2
		for i := range half {
			h.count[i] = h.count[2*i] + h.count[2*i+1]
		}
		clear(h.count[half:])
		h.shift++
	}
}

// census is the outcome of the first pass.
type census struct {
	maxID int64 // -1 without edges

	targets *coarse // by original id

	// Degrees by original id of the edges that stream by (duplicates counted),
	// saturating; nil where they were not counted, or where
	// an id lies past their end.
	out, in *region
}

func (c *census) close() {
	c.out.close()
	c.in.close()
	c.out, c.in = nil, nil
}

// tableBytes is the memory of the degrees.
func (c *census) tableBytes() int64 { return c.out.size() + c.in.size() }

// shrink leaves the degrees of the first n nodes.
func (c *census) shrink(n int64) {
	if c.out != nil {
		c.out.shrink(4 * n)
		c.in.shrink(4 * n)
	}
}

// count passes over the edges. tables is the number of nodes for which degrees are
// counted, 0 for none.
func (b *builder) count(e source.Edges, numNodes, tables int64) (*census, error) {
	c := &census{targets: newCoarse()}
	var err error
	if tables > 0 {
		if c.out, err = b.mem.region("out-degrees", 4*tables); err != nil {
			return nil, err
		}
		if c.in, err = b.mem.region("in-degrees", 4*tables); err != nil {
			c.close()
			return nil, err
		}
	}
	limit, known := numNodes, numNodes >= 0
	if !known {
		limit = maxNodes
	}
	var out, in []uint32
	if tables > 0 {
		out, in = view[uint32](c.out.bytes), view[uint32](c.in.bytes)
	}
	progress := b.edgeProgress("count edges", e)
	edits := &b.edits
	edits.listed, c.maxID, err = scan(b.ctx, e, limit, known, b.o.Threads, progress,
		func(k *edgeChunk) error {
			if edits.streams() {
				edits.countLoops(k)
			}
			if tables > 0 {
				tally(out, k.src)
				if edits.undirected {
					eachReverse(k, func(_, source uint32) { tallyOne(out, source) })
				}
			}
			return nil
		},
		func(k *edgeChunk) error {
			if tables > 0 {
				tally(in, k.dst)
				if edits.undirected {
					eachReverse(k, func(target, _ uint32) { tallyOne(in, target) })
				}
			}
			top := uint32(0)
			for _, v := range k.dst {
				top = max(top, v)
			}
			if edits.undirected {
				eachReverse(k, func(target, _ uint32) { top = max(top, target) })
			}
			c.targets.cover(top)
			shift, count := c.targets.shift, c.targets.count
			for _, v := range k.dst {
				count[v>>shift]++
			}
			if edits.undirected {
				eachReverse(k, func(target, _ uint32) { count[target>>shift]++ })
			}
			return nil
		})
	if err != nil {
		c.close()
		return nil, err
	}
	if c.maxID >= tables {
		c.close() // the degrees of some nodes are missing
	}
	return c, nil
}

// tally counts ids, saturating; ids past the end are left out.
func tally(count []uint32, ids []uint32) {
	for _, v := range ids {
		tallyOne(count, v)
	}
}

func tallyOne(count []uint32, v uint32) {
	if int(v) < len(count) && count[v] != math.MaxUint32 {
		count[v]++
	}
}
