package order

// The order of nodes in a store: which there are, which the budget allows, and
// "degree". It puts the nodes that are sampled most first: the out-degree of a node
// is the number of in-edge lists it appears in. What is needed of an epoch's rows
// then lies in few pages, and the rows worth pinning lie together at the front.

import (
	"cmp"
	"context"
	"slices"

	"github.com/goagnes/goagnes/layout"
	"github.com/goagnes/goagnes/layout/build/edgelist"
	"github.com/goagnes/goagnes/layout/build/ledger"
	"github.com/goagnes/goagnes/layout/build/source"
	"github.com/goagnes/goagnes/layout/build/spill"
	"github.com/goagnes/goagnes/layout/build/workspace"
)

// Names of orders.
const (
	Auto   = "auto"   // visit where there is a train split, else degree; what the budget allows of it
	Degree = "degree" // descending out-degree; ties: train split first, then ascending original id
	BFS    = "bfs"    // breadth-first over edges in both directions; see orderbfs.go
	Visit  = "visit"  // descending probability of being reached from the train split; see ordervisit.go
)

// Names are the values of Options.Order.
var Names = []string{Auto, layout.OrderOriginal, Degree, BFS, Visit}

// hubDegree is the out-degree from which nodes are sorted one by one; the others
// are counted.
const hubDegree = 1 << 16

// Order maps original to internal ids and back. Both tables are nil where the ids
// are the same.
type Order struct {
	Name     string
	Internal []uint32 // by original id
	Original []uint32 // by internal id

	internalRegion, originalRegion *ledger.Region
}

// Close gives back the tables.
func (r *Order) Close() {
	r.internalRegion.Close()
	r.originalRegion.Close()
	r.Internal, r.Original = nil, nil
}

// CloseOriginal gives back the table by internal id.
func (r *Order) CloseOriginal() {
	r.originalRegion.Close()
	r.Original, r.originalRegion = nil, nil
}

// Bytes is the memory that bringing n nodes into an order takes: tables of 4
// bytes a node and a bit a node, and for an order of several passes the buffers of
// edges and tables in scratch.
func Bytes(name string, n int64) int64 {
	switch name {
	case layout.OrderOriginal:
		return 0
	case Degree:
		return 2*4*n + n/8 + layout.PageSize
	}
	return 3*(4*n+layout.PageSize) + n/8 + 2*layout.PageSize + edgelist.SpilledBytes + spill.ParkedBuffer
}

// ManyPasses reports whether an order passes over the edges by itself.
func ManyPasses(name string) bool { return name == BFS || name == Visit }

// Candidates are the orders that the one asked for stands for, the best first. The
// last is the one that needs no memory. train says that there is a train split.
func Candidates(asked string, train bool) []string {
	switch {
	case asked == layout.OrderOriginal:
		return []string{layout.OrderOriginal}
	case asked != Auto:
		return []string{asked, layout.OrderOriginal}
	case train:
		return []string{Visit, Degree, layout.OrderOriginal}
	}
	return []string{Degree, layout.OrderOriginal}
}

// Choose returns the best order of n nodes for which room bytes suffice.
func Choose(among []string, n, room int64) string {
	for _, name := range among {
		if Bytes(name, n) <= room {
			return name
		}
	}
	return layout.OrderOriginal
}

// DegreeTables returns for how many nodes degrees are counted, 0 for none: for known
// nodes where an order of them fits, for as many as fit where known is -1.
func DegreeTables(among []string, known, room int64) int64 {
	least := ""
	for _, name := range among {
		if name != layout.OrderOriginal {
			least = name // the later the less
		}
	}
	switch {
	case least == "":
		return 0
	case known >= 0 && Bytes(least, known) <= room:
		return known
	case known >= 0:
		return 0
	}
	// orderBytes is linear but for rounding.
	fixed := Bytes(least, 0) + 8
	each := Bytes(least, 8<<20) - Bytes(least, 0) // of 2^23 nodes
	return max(min(int64(float64(room-fixed)/float64(each)*(8<<20)), edgelist.MaxNodes), 0)
}

// Find finds the order of that name, one of those that chooseOrder returns, of n
// nodes. The degrees of c are used up. train has a bit for each node of the train
// split, nil where the order does not ask for it (wantsTrain).
func Find(w *workspace.Space, e source.Edges, c *edgelist.Census, name string, n int64, undirected bool, train []uint64) (*Order, error) {
	switch {
	case name == layout.OrderOriginal:
		return &Order{Name: layout.OrderOriginal}, nil
	case n == 0:
		return &Order{Name: name}, nil
	}
	f := &finder{Space: w, numNodes: n, undirected: undirected}
	var r *Order
	var err error
	switch name {
	case Degree:
		r, err = degreeOrder(w.Ctx, c, n, train)
	case BFS:
		r, err = f.bfsOrder(e, c)
	case Visit:
		r, err = f.visitOrder(e, c, train)
	default:
		panic("order: no order " + name)
	}
	if err != nil {
		return nil, err
	}
	r.Name = name
	return r, nil
}

// WantsTrain reports whether an order goes by the train split.
func WantsTrain(name string) bool { return name == Degree || name == Visit }

// finder finds one order.
type finder struct {
	*workspace.Space
	numNodes   int64
	undirected bool // edges count in both directions
}

// recount makes c.targets count internal targets.
func recount(ctx context.Context, c *edgelist.Census, internal, indegree []uint32) error {
	t := c.Targets
	clear(t.Count)
	t.Shift = 0
	t.Cover(uint32(len(internal) - 1))
	return inSteps(ctx, len(internal), func(low, high int) {
		for v := low; v < high; v++ {
			t.Count[internal[v]>>t.Shift] += uint64(indegree[v])
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
func degreeOrder(ctx context.Context, c *edgelist.Census, numNodes int64, train []uint64) (*Order, error) {
	degree := ledger.View[uint32](c.Out.Bytes)[:numNodes]
	indegree := ledger.View[uint32](c.In.Bytes)[:numNodes]
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

	if err := recount(ctx, c, internal, indegree); err != nil {
		return nil, err
	}
	original := indegree
	if err := invert(ctx, internal, original); err != nil {
		return nil, err
	}
	r := &Order{Internal: internal, Original: original, internalRegion: c.Out, originalRegion: c.In}
	c.Out, c.In = nil, nil
	return r, nil
}
