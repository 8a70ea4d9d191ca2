package build

// Ranking of sparse ids: the distinct ids of the edges in ascending order become the
// dense ids 0, 1, 2, …

import (
	"context"
	"errors"
	"fmt"
	"math/bits"
	"slices"

	"github.com/goagnes/goagnes/goagnes/storage"
	"github.com/goagnes/goagnes/layout"
	"github.com/goagnes/goagnes/layout/build/source"
)

// ranker finds the rank of an id among the distinct ids: in a bitmap with a count
// every 512 bits where the largest id allows it, else in a sorted table.
type ranker struct {
	distinct int64

	bitmap []uint64
	before []uint32 // ids before each 8 words of bitmap

	sorted []uint64
	shift  uint
	head   []uint32 // first index in sorted of each value of id >> shift

	regions []*region
}

func (r *ranker) close() {
	if r == nil {
		return
	}
	for _, g := range r.regions {
		g.close()
	}
	*r = ranker{}
}

// rank returns the rank of id, and whether it is among the ids.
func (r *ranker) rank(id uint64) (uint32, bool) {
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
var errSparse = errors.New("build: ids too sparse for a bitmap")

// rankIDs passes over the edges, writes the distinct ids ascending as the section
// "ids", and returns their ranker.
func (b *builder) rankIDs(e source.Edges) (*ranker, error) {
	r, err := b.rankBitmap(e)
	if errors.Is(err, errSparse) {
		r, err = b.rankSorted(e)
	}
	return r, err
}

// scanIDs passes the ids of both ends of all edges to f.
func (b *builder) scanIDs(e source.Edges, f func(ids []int64) error) error {
	done := int64(0)
	progress := b.edgeProgress("rank ids", e)
	err := e.Scan(b.ctx, func(src, dst []int64) error {
		for i := range src {
			if src[i]|dst[i] < 0 {
				return faultf(e.Name(), done+int64(i), "edge %d → %d: negative id; ids are 0 or more", src[i], dst[i])
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
		return b.ctx.Err()
	})
	b.readEdges(e, done)
	return err
}

func (b *builder) rankBitmap(e source.Edges) (*ranker, error) {
	share := b.mem.free() / 4
	if b.tune.bitmapBytes > 0 {
		share = min(share, b.tune.bitmapBytes)
	}
	share = share / 64 * 64
	m, err := b.mem.region("distinct ids", share)
	if err != nil {
		return nil, err
	}
	r := &ranker{regions: []*region{m}}
	words := view[uint64](m.bytes)
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
		r.close()
		return nil, err
	}
	used := roundUp(top/64+1, 8)
	m.shrink(8 * used)
	r.bitmap = view[uint64](m.bytes)
	counts, err := b.mem.region("ranks of ids", 4*(used/8))
	if err != nil {
		r.close()
		return nil, err
	}
	r.regions = append(r.regions, counts)
	r.before = view[uint32](counts.bytes)
	w, err := b.createIDs()
	if err != nil {
		r.close()
		return nil, err
	}
	defer w.abort()
	for i, word := range r.bitmap {
		if i&7 == 0 {
			r.before[i>>3] = uint32(r.distinct)
		}
		for ; word != 0; word &= word - 1 {
			if r.distinct >= maxNodes {
				r.close()
				return nil, tooManyNodes(e.Name())
			}
			r.distinct++
			if err := w.put(uint64(i)*64 + uint64(bits.TrailingZeros64(word))); err != nil {
				r.close()
				return nil, err
			}
		}
	}
	if err := w.finish(); err != nil {
		r.close()
		return nil, err
	}
	return r, nil
}

func tooManyNodes(name string) error {
	return unsupported("%s: more than %d nodes; this version builds stores of up to that many", name, int64(maxNodes))
}

// idWriter writes the section "ids".
type idWriter struct {
	*section
	ids []uint64
}

func (b *builder) createIDs() (*idWriter, error) {
	s, err := b.create(layout.Section{Name: layout.SectionIDs, Kind: layout.KindArray, DType: layout.Int64.String()})
	return &idWriter{s, make([]uint64, 0, 8192)}, err
}

func (w *idWriter) put(id uint64) error {
	w.ids = append(w.ids, id)
	w.sec.Rows++
	if len(w.ids) < cap(w.ids) {
		return nil
	}
	return w.flush()
}

func (w *idWriter) flush() error {
	err := w.Write(raw(w.ids))
	w.ids = w.ids[:0]
	return err
}

func (w *idWriter) finish() error {
	if err := w.flush(); err != nil {
		return err
	}
	return w.close()
}

// run is a sorted run of distinct ids in scratch.
type run struct {
	file *storage.File
	ids  int64

	buf  []uint64 // what is read and not yet merged
	mem  []byte
	next int64 // first id not yet read
}

// fill reads the next ids of the run, if there are any.
func (r *run) fill() error {
	if len(r.buf) > 0 || r.next == r.ids {
		return nil
	}
	n := min(int64(len(r.mem))/8, r.ids-r.next)
	b := r.mem[:layout.Pages(8*n)*layout.PageSize]
	if _, err := r.file.ReadAt(b, 8*r.next); err != nil {
		return err
	}
	r.buf = view[uint64](b)[:n]
	r.next += n
	return nil
}

// rankSorted sorts the ids in runs, merges these, and keeps the merged ids.
func (b *builder) rankSorted(e source.Edges) (r *ranker, err error) {
	size := b.mem.free() / 2
	if b.tune.runBytes > 0 {
		size = min(size, b.tune.runBytes)
	}
	m, err := b.mem.region("ids to sort", max(size/layout.PageSize, 2)*layout.PageSize)
	if err != nil {
		return nil, err
	}
	defer m.close()
	buf := view[uint64](m.bytes)
	n := 0 // ids in buf
	var runs []*run
	defer func() {
		for _, r := range runs {
			if rerr := b.scratch.Remove(r.file); err == nil {
				err = rerr
			}
		}
	}()
	sortBuf := func() {
		slices.Sort(buf[:n])
		n = len(slices.Compact(buf[:n]))
	}
	spillRun := func() error {
		f, err := b.scratch.Create(fmt.Sprintf("ids-%d", len(runs)), 8*int64(n))
		if err != nil {
			return err
		}
		runs = append(runs, &run{file: f, ids: int64(n)})
		if _, err := f.WriteAt(m.bytes[:layout.Pages(8*int64(n))*layout.PageSize], 0); err != nil {
			return err
		}
		n = 0
		return nil
	}
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
			if sortBuf(); n > len(buf)/2 {
				if err := spillRun(); err != nil {
					return err
				}
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	sortBuf()
	if len(runs) > 0 {
		if err := spillRun(); err != nil {
			return nil, err
		}
	}
	w, err := b.createIDs()
	if err != nil {
		return nil, err
	}
	defer w.abort()
	if len(runs) == 0 {
		for _, v := range buf[:n] {
			if err := w.put(v); err != nil {
				return nil, err
			}
		}
	} else if err := mergeRuns(b.ctx, runs, m.bytes, w.put); err != nil {
		return nil, err
	}
	distinct := w.sec.Rows
	if err := w.finish(); err != nil {
		return nil, err
	}
	if distinct > maxNodes {
		return nil, tooManyNodes(e.Name())
	}
	m.close()
	return b.loadRanks(distinct)
}

// mergeRuns passes the distinct ids of all runs to put in ascending order. memory
// is cut into a buffer a run.
func mergeRuns(ctx context.Context, runs []*run, memory []byte, put func(id uint64) error) error {
	each := len(memory) / len(runs) / layout.PageSize * layout.PageSize
	if each == 0 {
		return &BudgetError{Consumer: "merging sorted ids", Need: int64(len(runs)) * layout.PageSize, Free: int64(len(memory)), Total: int64(len(memory))}
	}
	var heap []*run
	for i, r := range runs {
		r.mem = memory[i*each : (i+1)*each]
		if err := r.fill(); err != nil {
			return err
		}
		if len(r.buf) > 0 {
			heap = append(heap, r)
		}
	}
	down := func(i int) {
		for {
			c := 2*i + 1
			if c >= len(heap) {
				return
			}
			if c+1 < len(heap) && heap[c+1].buf[0] < heap[c].buf[0] {
				c++
			}
			if heap[i].buf[0] <= heap[c].buf[0] {
				return
			}
			heap[i], heap[c] = heap[c], heap[i]
			i = c
		}
	}
	for i := len(heap)/2 - 1; i >= 0; i-- {
		down(i)
	}
	last, first := uint64(0), true
	for count := 0; len(heap) > 0; count++ {
		if count&0xfffff == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		r := heap[0]
		if v := r.buf[0]; first || v != last {
			if err := put(v); err != nil {
				return err
			}
			last, first = v, false
		}
		r.buf = r.buf[1:]
		if err := r.fill(); err != nil {
			return err
		}
		if len(r.buf) == 0 {
			heap[0] = heap[len(heap)-1]
			heap = heap[:len(heap)-1]
		}
		down(0)
	}
	return nil
}

// loadRanks reads the section "ids" back as a sorted table.
func (b *builder) loadRanks(distinct int64) (*ranker, error) {
	r := &ranker{distinct: distinct}
	m, err := b.mem.region(fmt.Sprintf("a table of the %d distinct ids", distinct), layout.Pages(8*distinct)*layout.PageSize)
	if err != nil {
		return nil, err
	}
	r.regions = append(r.regions, m)
	if err := b.readBack(layout.SectionIDs, m.bytes); err != nil {
		r.close()
		return nil, err
	}
	r.sorted = view[uint64](m.bytes)[:distinct:distinct]
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
	ranks *ranker
}

func (r *rankedEdges) Scan(ctx context.Context, f func(src, dst []int64) error) error {
	var buf [2][]int64
	done := int64(0)
	return r.Edges.Scan(ctx, func(src, dst []int64) error {
		for side, ids := range [2][]int64{src, dst} {
			buf[side] = slices.Grow(buf[side][:0], len(ids))[:len(ids)]
			for i, v := range ids {
				rank, ok := r.ranks.rank(uint64(v))
				if !ok {
					return faultf(r.Name(), done+int64(i), "the input changed between two readings; build again when nothing writes to it")
				}
				buf[side][i] = int64(rank)
			}
		}
		done += int64(len(src))
		return f(buf[0], buf[1])
	})
}
