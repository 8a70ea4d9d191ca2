package rank

// Ranking of sparse ids: the distinct ids of the edges in ascending order become the
// dense ids 0, 1, 2, …

import (
	"context"
	"errors"
	"fmt"
	"math/bits"
	"slices"

	"github.com/goagnes/goagnes/layout"
	"github.com/goagnes/goagnes/layout/build/edgelist"
	"github.com/goagnes/goagnes/layout/build/ledger"
	"github.com/goagnes/goagnes/layout/build/source"
	"github.com/goagnes/goagnes/layout/build/spill"
	"github.com/goagnes/goagnes/layout/build/staging"
)

// Ranks finds the rank of an id among the distinct ids: in a bitmap with a count
// every 512 bits where the largest id allows it, else in a sorted table.
type Ranks struct {
	Distinct int64

	bitmap []uint64
	before []uint32 // ids before each 8 words of bitmap

	sorted []uint64
	shift  uint
	head   []uint32 // first index in sorted of each value of id >> shift

	regions []*ledger.Region
}

// Close gives back the memory; on nil it does nothing.
func (r *Ranks) Close() {
	if r == nil {
		return
	}
	for _, g := range r.regions {
		g.Close()
	}
	*r = Ranks{}
}

// rank returns the rank of id, and whether it is among the ids.
func (r *Ranks) rank(id uint64) (uint32, bool) {
	if r.sorted == nil {
		w := id >> 6
		if w >= uint64(len(r.bitmap)) || r.bitmap[w]>>(id&63)&1 == 0 {
			return 0, false
		}
		n := r.before[w>>3]
		for _, v := range r.bitmap[w&^7 : w] {
			n += uint32(bits.OnesCount64(v))
		}
		return n + uint32(bits.OnesCount64(r.bitmap[w]&(1<<(id&63)-1))), true
	}
	k := id >> r.shift
	if k+1 >= uint64(len(r.head)) {
		return 0, false
	}
	lo, hi := r.head[k], r.head[k+1]
	i, ok := slices.BinarySearch(r.sorted[lo:hi], id)
	return lo + uint32(i), ok
}

// errSparse says that ids are too large for a bitmap within the budget.
var errSparse = errors.New("rank: ids too sparse for a bitmap")

// ranking is one ranking of ids.
type ranking struct {
	*staging.Store
	list   source.IDs // of all nodes; nil = the edges show them
	listed int64      // ids of it
}

// Find passes over the edges, writes the distinct ids ascending as the section
// "ids", and returns their ranker.
func Find(st *staging.Store, e source.Edges, list source.IDs) (*Ranks, error) {
	b := &ranking{Store: st, list: list}
	r, err := b.rankBitmap(e)
	if errors.Is(err, errSparse) {
		r, err = b.rankSorted(e)
	}
	if err == nil && list != nil && b.listed != r.Distinct {
		err = source.ErrorAt(list.Name(), -1, "%d lines for %d distinct ids; list each node once", b.listed, r.Distinct)
		r.Close()
		return nil, err
	}
	return r, err
}

// scanIDs passes the ids of both ends of all edges to f, or those of a list.
func (b *ranking) scanIDs(e source.Edges, f func(ids []int64) error) error {
	if b.list != nil {
		b.listed = 0
		return b.list.Scan(b.Ctx, func(ids []int64) error {
			b.listed += int64(len(ids))
			if err := f(ids); err != nil {
				return err
			}
			return b.Ctx.Err()
		})
	}
	done := int64(0)
	progress := b.EdgeProgress("rank ids", e)
	return e.Scan(b.Ctx, func(src, dst []int64) error {
		for i := range src {
			if src[i]|dst[i] < 0 {
				return source.ErrorAt(e.Name(), done+int64(i), "edge %d → %d: negative id; ids are 0 or more", src[i], dst[i])
			}
		}
		if err := f(src); err != nil {
			return err
		}
		if err := f(dst); err != nil {
			return err
		}
		done += int64(len(src))
		progress(done)
		return b.Ctx.Err()
	})
}

func (b *ranking) rankBitmap(e source.Edges) (*Ranks, error) {
	share := b.Mem.Free() / 4
	if b.Tune.BitmapBytes > 0 {
		share = min(share, b.Tune.BitmapBytes)
	}
	share = share / 64 * 64
	m, err := b.Mem.Map("distinct ids", share)
	if err != nil {
		return nil, err
	}
	r := &Ranks{regions: []*ledger.Region{m}}
	words := ledger.View[uint64](m.Bytes)
	limit, top := int64(len(words))*64, int64(-1)
	err = b.scanIDs(e, func(ids []int64) error {
		for _, v := range ids {
			if v >= limit {
				return errSparse
			}
			words[v>>6] |= 1 << (uint(v) & 63)
			top = max(top, v)
		}
		return nil
	})
	if err != nil {
		r.Close()
		return nil, err
	}
	used := ledger.RoundUp(top/64+1, 8)
	m.Shrink(8 * used)
	r.bitmap = ledger.View[uint64](m.Bytes)
	counts, err := b.Mem.Map("ranks of ids", 4*(used/8))
	if err != nil {
		r.Close()
		return nil, err
	}
	r.regions = append(r.regions, counts)
	r.before = ledger.View[uint32](counts.Bytes)
	w, err := b.createIDs()
	if err != nil {
		r.Close()
		return nil, err
	}
	defer w.Abort()
	for i, word := range r.bitmap {
		if i&0xffff == 0 && b.Ctx.Err() != nil {
			r.Close()
			return nil, b.Ctx.Err()
		}
		if i&7 == 0 {
			r.before[i>>3] = uint32(r.Distinct)
		}
		for ; word != 0; word &= word - 1 {
			if r.Distinct >= edgelist.MaxNodes {
				r.Close()
				return nil, edgelist.TooManyNodes(e.Name())
			}
			r.Distinct++
			if err := w.put(uint64(i)*64 + uint64(bits.TrailingZeros64(word))); err != nil {
				r.Close()
				return nil, err
			}
		}
	}
	if err := w.finish(); err != nil {
		r.Close()
		return nil, err
	}
	return r, nil
}

// idWriter writes the section "ids".
type idWriter struct {
	*staging.Section
	ids []uint64
}

func (b *ranking) createIDs() (*idWriter, error) {
	s, err := b.Create(layout.Section{Name: layout.SectionIDs, Kind: layout.KindArray, DType: layout.Int64.String()})
	return &idWriter{s, make([]uint64, 0, 8192)}, err
}

func (w *idWriter) put(id uint64) error {
	w.ids = append(w.ids, id)
	w.Sec.Rows++
	if len(w.ids) < cap(w.ids) {
		return nil
	}
	return w.flush()
}

func (w *idWriter) flush() error {
	err := w.Write(ledger.Raw(w.ids))
	w.ids = w.ids[:0]
	return err
}

func (w *idWriter) finish() error {
	if err := w.flush(); err != nil {
		return err
	}
	return w.Close()
}

// rankSorted sorts the ids in runs, merges these, and keeps the merged ids.
func (b *ranking) rankSorted(e source.Edges) (*Ranks, error) {
	size := min(b.Mem.Free()/2, spill.MaxRunBytes)
	if b.Tune.RunBytes > 0 {
		size = min(size, b.Tune.RunBytes)
	}
	m, err := b.Mem.Map("ids to sort", max(size/layout.PageSize, spill.MinRunPages)*layout.PageSize)
	if err != nil {
		return nil, err
	}
	defer m.Close()
	runs := spill.NewRuns(b.Space, m.Bytes)
	defer runs.Close()
	buf, n := ledger.View[uint64](m.Bytes)[:runs.Room()], 0
	err = b.scanIDs(e, func(ids []int64) error {
		for len(ids) > 0 {
			k := min(len(ids), len(buf)-n)
			for _, v := range ids[:k] {
				buf[n] = uint64(v)
				n++
			}
			ids = ids[k:]
			if n < len(buf) {
				continue
			}
			slices.Sort(buf)
			if n = len(slices.Compact(buf)); n > len(buf)/2 {
				if err := runs.Add(n); err != nil {
					return err
				}
				n = 0
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	slices.Sort(buf[:n])
	n = len(slices.Compact(buf[:n]))
	w, err := b.createIDs()
	if err != nil {
		return nil, err
	}
	defer w.Abort()
	put := func(id uint64) error {
		if w.Sec.Rows >= edgelist.MaxNodes {
			return edgelist.TooManyNodes(e.Name())
		}
		return w.put(id)
	}
	if runs.Empty() {
		for _, v := range buf[:n] {
			if err := put(v); err != nil {
				return nil, err
			}
		}
	} else {
		if err := runs.Add(n); err != nil {
			return nil, err
		}
		if err := runs.Merge(put); err != nil {
			return nil, err
		}
	}
	distinct := w.Sec.Rows
	if err := w.finish(); err != nil {
		return nil, err
	}
	m.Close()
	return b.loadRanks(distinct)
}

// loadRanks reads the section "ids" back as a sorted table.
func (b *ranking) loadRanks(distinct int64) (*Ranks, error) {
	r := &Ranks{Distinct: distinct}
	m, err := b.Mem.Map(fmt.Sprintf("a table of the %d distinct ids", distinct), layout.Pages(8*distinct)*layout.PageSize)
	if err != nil {
		return nil, err
	}
	r.regions = append(r.regions, m)
	if err := b.ReadBack(layout.SectionIDs, m.Bytes); err != nil {
		r.Close()
		return nil, err
	}
	r.sorted = ledger.View[uint64](m.Bytes)[:distinct:distinct]
	if distinct == 0 {
		r.sorted = []uint64{}
		return r, nil
	}
	top := r.sorted[distinct-1]
	r.shift = uint(max(bits.Len64(top)-16, 0))
	r.head = make([]uint32, top>>r.shift+2)
	k := uint64(0)
	for i, v := range r.sorted {
		for ; k <= v>>r.shift; k++ {
			r.head[k] = uint32(i)
		}
	}
	for ; k < uint64(len(r.head)); k++ {
		r.head[k] = uint32(distinct)
	}
	return r, nil
}

// rankedEdges are edges whose ids are replaced by their ranks.
type rankedEdges struct {
	source.Edges
	ranks *Ranks
	list  source.IDs // where the ids come from, if not from the edges
}

// Replace returns the edges with ranks for ids. list is where the ids come from, if not
// from the edges.
func (r *Ranks) Replace(e source.Edges, list source.IDs) source.Edges {
	return &rankedEdges{e, r, list}
}

func (r *rankedEdges) Scan(ctx context.Context, f func(src, dst []int64) error) error {
	var buf [2][]int64
	done := int64(0)
	return r.Edges.Scan(ctx, func(src, dst []int64) error {
		for side, ids := range [2][]int64{src, dst} {
			buf[side] = slices.Grow(buf[side][:0], len(ids))[:len(ids)]
			for i, v := range ids {
				rank, ok := r.ranks.rank(uint64(v))
				if !ok && r.list != nil {
					return r.unlisted(ctx, done+int64(i), v)
				}
				if !ok {
					return source.ErrorAt(r.Name(), done+int64(i), "the input changed between two readings; build again when nothing writes to it")
				}
				buf[side][i] = int64(rank)
			}
		}
		done += int64(len(src))
		return f(buf[0], buf[1])
	})
}

// unlisted is the fault of an edge that names a node which the list lacks.
func (r *rankedEdges) unlisted(ctx context.Context, edge, id int64) error {
	return source.ErrorAtEdge(ctx, r.Edges, edge, "id %d is not in %s, which lists the nodes", id, r.list.Name())
}
