package build

// The order of nodes in a store: which there are, which the budget allows, and
// "degree". It puts the nodes that are sampled most first: the out-degree of a node
// is the number of in-edge lists it appears in. What is needed of an epoch's rows
// then lies in few pages, and the rows worth pinning lie together at the front.

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/goagnes/goagnes/layout"
	"github.com/goagnes/goagnes/layout/build/source"
)

// Names of orders.
const (
	OrderAuto     = "auto"     // visit where there is a train split, else degree; what the budget allows of it
	OrderOriginal = "original" // internal id = original id
	OrderDegree   = "degree"   // descending out-degree; ties: train split first, then ascending original id
	OrderBFS      = "bfs"      // breadth-first over edges in both directions; see orderbfs.go
	OrderVisit    = "visit"    // descending probability of being reached from the train split; see ordervisit.go
)

// orderNames are the values of Options.Order.
var orderNames = []string{OrderAuto, OrderOriginal, OrderDegree, OrderBFS, OrderVisit}

// hubDegree is the out-degree from which nodes are sorted one by one; the others
// are counted.
const hubDegree = 1 << 16

// order maps original to internal ids and back. Both tables are nil where the ids
// are the same.
type order struct {
	name     string
	internal []uint32 // by original id
	original []uint32 // by internal id

	internalRegion, originalRegion *region
}

func (r *order) close() {
	r.internalRegion.close()
	r.originalRegion.close()
	r.internal, r.original = nil, nil
}

// closeOriginal gives back the table by internal id.
func (r *order) closeOriginal() {
	r.originalRegion.close()
	r.original, r.originalRegion = nil, nil
}

// orderBytes is the memory that bringing n nodes into an order takes: tables of 4
// bytes a node and a bit a node, and for an order of several passes the buffers of
// edges and tables in scratch.
func orderBytes(name string, n int64) int64 {
	switch name {
	case OrderOriginal:
		return 0
	case OrderDegree:
		return 2*4*n + n/8 + layout.PageSize
	}
	return 3*(4*n+layout.PageSize) + n/8 + 2*layout.PageSize + spilledBytes + parkedBuffer
}

// manyPasses reports whether an order passes over the edges by itself.
func manyPasses(name string) bool { return name == OrderBFS || name == OrderVisit }

// candidates are the orders that Options.Order stands for, the best first. The last is
// the one that needs no memory.
func (b *builder) candidates() []string {
	switch {
	case b.o.Order == OrderOriginal:
		return []string{OrderOriginal}
	case b.o.Order != OrderAuto:
		return []string{b.o.Order, OrderOriginal}
	case b.o.Splits[TrainSplit] != nil:
		return []string{OrderVisit, OrderDegree, OrderOriginal}
	}
	return []string{OrderDegree, OrderOriginal}
}

// chooseOrder returns the best order of n nodes for which room bytes suffice.
func (b *builder) chooseOrder(n, room int64) string {
	for _, name := range b.candidates() {
		if orderBytes(name, n) <= room {
			return name
		}
	}
	return OrderOriginal
}

// degreeTables returns for how many nodes degrees are counted, 0 for none: for known
// nodes where an order of them fits, for as many as fit where known is -1.
func (b *builder) degreeTables(known int64) int64 {
	least := ""
	for _, name := range b.candidates() {
		if name != OrderOriginal {
			least = name // the later the less
		}
	}
	room := b.mem.free() - b.workMemory()
	switch {
	case least == "":
		return 0
	case known >= 0 && orderBytes(least, known) <= room:
		return known
	case known >= 0:
		return 0
	}
	// orderBytes is linear but for rounding.
	fixed := orderBytes(least, 0) + 8
	each := orderBytes(least, 8<<20) - orderBytes(least, 0) // of 2^23 nodes
	return max(min(int64(float64(room-fixed)/float64(each)*(8<<20)), maxNodes), 0)
}

// orderNodes writes the splits, orders the nodes and writes the tables of ids.
func (b *builder) orderNodes(e source.Edges, c *census, name string) (*order, error) {
	if best := b.candidates()[0]; name != best {
		instead := "nodes keep their original order"
		if name != OrderOriginal {
			instead = "nodes are ordered by " + name
		}
		need := b.workMemory() + orderBytes(best, b.numNodes) - c.tableBytes()
		b.note(fmt.Sprintf("%s: ordering %d nodes by %s needs memory=%d, and %d were given",
			instead, b.numNodes, best, b.enough(need), b.mem.total))
	}
	train, err := b.writeSplits(b.o.Splits, name == OrderDegree || name == OrderVisit)
	defer train.close()
	if err != nil {
		return nil, err
	}
	var r *order
	switch {
	case name == OrderOriginal:
		return &order{name: OrderOriginal}, nil
	case b.numNodes == 0:
		r = &order{}
	case name == OrderDegree:
		r, err = degreeOrder(b.ctx, c, b.numNodes, view[uint64](train.bytes))
	case name == OrderBFS:
		r, err = b.bfsOrder(e, c)
	case name == OrderVisit:
		r, err = b.visitOrder(e, c, view[uint64](train.bytes))
	}
	if err != nil {
		return nil, err
	}
	r.name = name
	if err := b.writeIDTables(r); err != nil {
		r.close()
		return nil, err
	}
	return r, nil
}

// recount makes c.targets count internal targets.
func (c *census) recount(ctx context.Context, internal, indegree []uint32) error {
	t := c.targets
	clear(t.count)
	t.shift = 0
	t.cover(uint32(len(internal) - 1))
	return inSteps(ctx, len(internal), func(low, high int) {
		for v := low; v < high; v++ {
			t.count[internal[v]>>t.shift] += uint64(indegree[v])
		}
	})
}

// invert fills original, the table by internal id, from internal.
func invert(ctx context.Context, internal, original []uint32) error {
	return inSteps(ctx, len(internal), func(low, high int) {
		for v := low; v < high; v++ {
			original[internal[v]] = uint32(v)
		}
	})
}

// inSteps passes the ranges of [0, n) to f and looks for cancellation between them.
func inSteps(ctx context.Context, n int, f func(low, high int)) error {
	const step = 1 << 20
	for low := 0; low < n; low += step {
		if err := ctx.Err(); err != nil {
			return err
		}
		f(low, min(low+step, n))
	}
	return nil
}

// degreeOrder turns the degrees of c into the order, in place: the tables of c
// belong to the order afterwards. train has a bit for each node of the train
// split.
func degreeOrder(ctx context.Context, c *census, numNodes int64, train []uint64) (*order, error) {
	degree := view[uint32](c.out.bytes)[:numNodes]
	indegree := view[uint32](c.in.bytes)[:numNodes]
	rest := func(v int) uint32 { return uint32(^train[v>>6] >> (uint(v) & 63) & 1) } // 0: in the train split

	type hub struct{ degree, rest, id uint32 }
	var hubs []hub
	// place[2d+t] counts, then locates, the nodes of out-degree d; t is 0 for
	// the train split and 1 for the others.
	place := make([]uint32, 2*hubDegree)
	err := inSteps(ctx, len(degree), func(low, high int) {
		for v := low; v < high; v++ {
			if d := degree[v]; d < hubDegree {
				place[2*d+rest(v)]++
			} else {
				hubs = append(hubs, hub{d, rest(v), uint32(v)})
			}
		}
	})
	if err != nil {
		return nil, err
	}
	slices.SortFunc(hubs, func(a, b hub) int {
		return cmp.Or(cmp.Compare(b.degree, a.degree), cmp.Compare(a.rest, b.rest), cmp.Compare(a.id, b.id))
	})
	next := uint32(len(hubs))
	for d := hubDegree - 1; d >= 0; d-- {
		for t := range 2 {
			n := place[2*d+t]
			place[2*d+t] = next
			next += n
		}
	}
	err = inSteps(ctx, len(degree), func(low, high int) {
		for v := low; v < high; v++ {
			if d := degree[v]; d < hubDegree {
				p := &place[2*d+rest(v)]
				degree[v] = *p
				*p++
			}
		}
	})
	if err != nil {
		return nil, err
	}
	for i, h := range hubs {
		degree[h.id] = uint32(i)
	}
	internal := degree

	if err := c.recount(ctx, internal, indegree); err != nil {
		return nil, err
	}
	original := indegree
	if err := invert(ctx, internal, original); err != nil {
		return nil, err
	}
	r := &order{internal: internal, original: original, internalRegion: c.out, originalRegion: c.in}
	c.out, c.in = nil, nil
	return r, nil
}
