package build

// The order of nodes in a store. "degree" puts the nodes that are sampled most
// first: the out-degree of a node is the number of in-edge lists it appears in.
// What is needed of an epoch's rows then lies in few pages, and the rows worth
// pinning lie together at the front.

import (
	"cmp"
	"context"
	"slices"

	"github.com/goagnes/goagnes/layout"
)

// Names of orders.
const (
	OrderAuto     = "auto"     // the best order that the budget allows; at present degree
	OrderOriginal = "original" // internal id = original id
	OrderDegree   = "degree"   // descending out-degree; ties: train split first, then ascending original id
)

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

// orderBytes is the memory that ordering n nodes by degree takes.
func orderBytes(n int64) int64 { return 8*n + n/8 + layout.PageSize }

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
// split. targets is recounted over internal ids.
func degreeOrder(ctx context.Context, c *census, numNodes int64, train []uint64, targets *coarse) (*order, error) {
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

	clear(targets.count)
	targets.shift = 0
	targets.cover(uint32(numNodes - 1))
	err = inSteps(ctx, len(internal), func(low, high int) {
		for v := low; v < high; v++ {
			targets.count[internal[v]>>targets.shift] += uint64(indegree[v])
		}
	})
	if err != nil {
		return nil, err
	}
	original := indegree
	err = inSteps(ctx, len(internal), func(low, high int) {
		for v := low; v < high; v++ {
			original[internal[v]] = uint32(v)
		}
	})
	if err != nil {
		return nil, err
	}
	r := &order{name: OrderDegree, internal: internal, original: original, internalRegion: c.out, originalRegion: c.in}
	c.out, c.in = nil, nil
	return r, nil
}
