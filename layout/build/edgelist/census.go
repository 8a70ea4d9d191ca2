package edgelist

// The first pass over the edges: how many there are, which ids occur, how often
// each node is a source and a target, and how targets spread over the ids.

import (
	"math"

	"github.com/goagnes/goagnes/layout/build/ledger"
	"github.com/goagnes/goagnes/layout/build/source"
	"github.com/goagnes/goagnes/layout/build/workspace"
)

// coarseBuckets is the number of buckets of a coarse histogram.
const coarseBuckets = 1 << 16

// Coarse counts ids in equal ranges of 2^shift ids. The ranges double when an id
// lies past the last one, so that the largest id need not be known.
type Coarse struct {
	Shift uint
	Count []uint64
}

// NewCoarse is a histogram that counts nothing yet.
func NewCoarse() *Coarse { return &Coarse{Count: make([]uint64, coarseBuckets)} }

// Cover makes the ranges wide enough for id.
func (h *Coarse) Cover(id uint32) {
	for int(id>>h.Shift) >= len(h.Count) {
		half := len(h.Count) / 2
		for i := range half {
			h.Count[i] = h.Count[2*i] + h.Count[2*i+1]
		}
		clear(h.Count[half:])
		h.Shift++
	}
}

// Census is the outcome of the first pass.
type Census struct {
	MaxID int64 // -1 without edges

	Targets *Coarse // by original id

	// Degrees by original id of the edges that stream by (duplicates counted),
	// saturating; nil where they were not counted, or where
	// an id lies past their end.
	Out, In *ledger.Region
}

// Close gives back the degrees.
func (c *Census) Close() {
	c.Out.Close()
	c.In.Close()
	c.Out, c.In = nil, nil
}

// TableBytes is the memory of the degrees.
func (c *Census) TableBytes() int64 { return c.Out.Size() + c.In.Size() }

// Shrink leaves the degrees of the first n nodes.
func (c *Census) Shrink(n int64) {
	if c.Out != nil {
		c.Out.Shrink(4 * n)
		c.In.Shrink(4 * n)
	}
}

// Count passes over the edges. tables is the number of nodes for which degrees are
// counted, 0 for none.
func Count(w *workspace.Space, e source.Edges, edits *Edits, numNodes, tables int64) (*Census, error) {
	c := &Census{Targets: NewCoarse()}
	var err error
	if tables > 0 {
		if c.Out, err = w.Mem.Map("out-degrees", 4*tables); err != nil {
			return nil, err
		}
		if c.In, err = w.Mem.Map("in-degrees", 4*tables); err != nil {
			c.Close()
			return nil, err
		}
	}
	limit, known := numNodes, numNodes >= 0
	if !known {
		limit = MaxNodes
	}
	var out, in []uint32
	if tables > 0 {
		out, in = ledger.View[uint32](c.Out.Bytes), ledger.View[uint32](c.In.Bytes)
	}
	progress := w.EdgeProgress("count edges", e)
	edits.Listed, c.MaxID, err = Scan(w.Ctx, e, limit, known, w.Threads, progress,
		func(k *Chunk) error {
			if edits.Streams() {
				edits.countLoops(k)
			}
			if tables > 0 {
				tally(out, k.Src)
				if edits.Undirected {
					eachReverse(k, func(_, source uint32) { tallyOne(out, source) })
				}
			}
			return nil
		},
		func(k *Chunk) error {
			if tables > 0 {
				tally(in, k.Dst)
				if edits.Undirected {
					eachReverse(k, func(target, _ uint32) { tallyOne(in, target) })
				}
			}
			top := uint32(0)
			for _, v := range k.Dst {
				top = max(top, v)
			}
			if edits.Undirected {
				eachReverse(k, func(target, _ uint32) { top = max(top, target) })
			}
			c.Targets.Cover(top)
			shift, count := c.Targets.Shift, c.Targets.Count
			for _, v := range k.Dst {
				count[v>>shift]++
			}
			if edits.Undirected {
				eachReverse(k, func(target, _ uint32) { count[target>>shift]++ })
			}
			return nil
		})
	if err != nil {
		c.Close()
		return nil, err
	}
	if c.MaxID >= tables {
		c.Close() // the degrees of some nodes are missing
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
