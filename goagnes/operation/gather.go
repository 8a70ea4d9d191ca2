package operation

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/goagnes/goagnes/goagnes/memory"
	"github.com/goagnes/goagnes/goagnes/storage"
	"github.com/goagnes/goagnes/layout"
)

// The gathering step reads each needed feature block once per hyperbatch, in
// ascending order (G-1). A row whose access count in the hyperbatch reaches a
// threshold goes to the feature cache; the threshold is the smallest that the
// cache has room for. A colder row is written to the run of every minibatch
// that needs it: a stretch of scratch that holds the minibatch's cold rows in
// ascending order, to be read back when the minibatch is put together (G-2). A run
// consists of chunks, which are read one by one: rows, and a seal at the end of the
// last page (storage.Seal).
//
// A row record is a row of every wanted array of nodes: features, label,
// original id, degree.

// primary returns the column by whose blocks rows are swept: the widest.
func (e *Engine) primary() *column {
	p := &e.columns[0]
	for i := range e.columns {
		if e.columns[i].stride > p.stride {
			p = &e.columns[i]
		}
	}
	return p
}

// gather moves the rows of all the hyperbatch's minibatches out of the store.
func (h *hyperbatch) gather(ctx context.Context) error {
	e := h.e
	if e.stride == 0 || len(h.records) == 0 {
		h.readAhead = h.settleGraph(0).records
		return nil
	}
	start := time.Now()
	defer e.meter.addSeconds(&e.meter.gatherSeconds, start)
	h.bound.needRows(e, h.counter)
	if e.keptRows != nil {
		h.settleGraph(0)
		d := h.drawn()
		h.readAhead = h.recordsFor(e.Budget.Free(), d)
		if e.Budget.Free() >= d.held+e.plan.deliveryBytes(d, h.readAhead) {
			h.cache, h.cacheRows = e.keptCache, e.keptRows.mem[e.keptIndex:]
			return nil
		}
		e.dropKept()
		e.keeper.little = true
	}
	g := &gatherer{h: h}
	_, touched := h.counter.Threshold(1 << 62)
	p := h.settleGraph(touched)
	h.readAhead = p.records
	keep := p.keep && h.wantsRows()
	if keep { // as if every row were needed, so that every row is cached
		for i := range h.counts.mem {
			h.counts.mem[i] = 1
		}
		_, touched = h.counter.Threshold(1 << 62)
	}
	threshold, rows := h.counter.Threshold(min(p.room/e.stride, touched))
	indexBytes, dataBytes := memory.FeatureCacheBytes(e.manifest.NumNodes, rows, e.stride)
	if body := h.longestBody(); body > 0 { // half of what the cache has no rows for
		more := min(e.plan.depth, int64(len(h.records)), p.records+(p.room-rows*e.stride)/2/body)
		h.readAhead = max(p.records, more)
	}
	var err error
	if h.cached, err = e.claim("feature cache", max(indexBytes+dataBytes, 64)); err != nil {
		return err
	}
	h.cacheRows = h.cached.mem[indexBytes : indexBytes+dataBytes]
	h.cache = memory.NewFeatureCache(h.counter, threshold, rows, h.cached.mem[:indexBytes], h.cacheRows, e.stride)
	e.meter.threshold.Store(int64(threshold))
	lists := int64(0)
	if rows < touched {
		lists = min(p.lists, 4*h.coldBound())
	}

	buffer, frames, err := e.featureBuffer(p.frames)
	if err != nil {
		return err
	}
	defer frames.release()
	g.buffer = buffer
	hits, misses := buffer.Hits(), buffer.Misses()
	defer func() {
		e.meter.featureHits.Add(buffer.Hits() - hits)
		e.meter.featureMisses.Add(buffer.Misses() - misses)
	}()
	writes, err := e.claim("write buffers", p.buffers*e.plan.writeBytes)
	if err != nil {
		return err
	}
	defer writes.release()
	g.free = make(chan []byte, p.buffers)
	for i := range p.buffers {
		g.free <- writes.mem[i*e.plan.writeBytes : (i+1)*e.plan.writeBytes]
	}
	g.needed = make([]bool, e.plan.featureBlocks)
	if frames != nil {
		g.frames = frames.mem
	}

	e.spilt++
	h.generation = e.spilt
	runEnd := int64(0)
	for from := 0; from < len(h.records); {
		n, err := g.window(ctx, from, lists, &runEnd)
		if err != nil {
			return err
		}
		e.meter.featureSweeps.Add(1)
		from += n
	}
	if keep && rows == e.manifest.NumNodes {
		e.keptRows, e.keptCache, e.keptIndex = h.cached, h.cache, indexBytes
		h.cached = nil
	}
	return nil
}

// coldBound returns at least the number of cold rows of all minibatches: the
// cache's share of them is counted up to 255 a row.
func (h *hyperbatch) coldBound() int64 {
	n := h.nodes()
	for v := range h.e.manifest.NumNodes {
		if _, ok := h.cache.Slot(uint64(v)); ok {
			n -= int64(h.counter.Count(uint64(v)))
		}
	}
	return n
}

// drawn returns what dividing memory for gathering needs to know.
func (h *hyperbatch) drawn() drawn {
	return drawn{count: len(h.records), longest: h.longest(), nodes: h.nodes(), body: h.longestBody(), held: h.held(), next: h.next()}
}

// longest returns the largest number of nodes of a minibatch.
func (h *hyperbatch) longest() int64 {
	n := 0
	for i := range h.records {
		n = max(n, h.records[i].nodes)
	}
	return int64(n)
}

// nodes returns the number of nodes of all minibatches.
func (h *hyperbatch) nodes() int64 {
	n := int64(0)
	for i := range h.records {
		n += int64(h.records[i].nodes)
	}
	return n
}

// gatherer distributes the rows of a group of minibatches in one sweep.
type gatherer struct {
	h      *hyperbatch
	buffer *memory.Buffer
	needed []bool      // feature blocks to be read
	free   chan []byte // write buffers
	filled bool        // the feature cache has its rows
	frames []byte      // memory of the buffer, through which lists of nodes are read; nil where it is kept

	runs   []run
	failed atomic.Pointer[error]
	writes sync.WaitGroup
	file   *storage.File
}

// run is the destination of one minibatch's cold rows. Rows arrive in
// ascending order and are appended; whole pages are written as they fill up.
type run struct {
	rows  []uint32 // cold rows, ascending
	next  int      // first row that has not arrived
	carry []byte   // bytes of the last page that is not full
	tail  int      // how many
	at    int64    // where carry belongs in the runs file
	chunk int64    // where the chunk begins that is being written
	crc   uint32   // of its bytes before carry
}

// window distributes rows to the minibatches from number from on, as many as
// the lists of cold rows leave room for, and returns how many.
func (g *gatherer) window(ctx context.Context, from int, listBytes int64, runEnd *int64) (int, error) {
	h, e := g.h, g.h.e
	lists, err := e.claim("cold-row lists", listBytes+int64(len(h.records)-from)*layout.PageSize)
	if err != nil {
		return 0, err
	}
	defer lists.release()
	n, err := g.list(ctx, from, listBytes, lists.mem, runEnd)
	if err != nil {
		return 0, err
	}
	clear(g.needed)
	if err := g.markNeeded(); err != nil {
		return 0, err
	}
	cold := false
	for i := range g.runs {
		cold = cold || len(g.runs[i].rows) > 0
	}
	if cold {
		if g.file, err = e.runsFile(*runEnd); err != nil {
			return 0, err
		}
	}
	err = g.sweep(ctx)
	g.writes.Wait()
	if p := g.failed.Load(); err == nil && p != nil {
		err = *p
	}
	g.filled = true
	return n, err
}

// list makes the runs of minibatches from number from on.
func (g *gatherer) list(ctx context.Context, from int, listBytes int64, mem []byte, runEnd *int64) (int, error) {
	h, e := g.h, g.h.e
	longest := h.longest()
	scratch, err := e.claim("sorting cold rows", scratchBytes(longest))
	if err != nil {
		return 0, err
	}
	defer scratch.release()
	g.runs = g.runs[:0]
	used := int64(0)
	if g.frames != nil {
		g.buffer.Clear() // a sweep that ascends has no use for the last blocks of the one before
	}
	bodies := h.bodies(from, scratch.mem[16*longest:], g.frames)
	defer bodies.close()
	for i := from; i < len(h.records); i++ {
		if err := ctx.Err(); err != nil {
			return 0, err
		}
		r := &h.records[i]
		nodes, err := bodies.next()
		if err != nil {
			return 0, err
		}
		ids, _ := h.coldRows(nodes, words(scratch.mem[:16*longest]))
		if i > from && used+4*int64(len(ids)) > listBytes {
			break
		}
		r.cold = len(ids)
		r.runAt = *runEnd
		*runEnd += e.plan.run(int64(r.cold))
		rows := words(mem[used : used+4*int64(len(ids))])
		copy(rows, ids)
		used += 4 * int64(len(ids))
		g.runs = append(g.runs, run{rows: rows, at: r.runAt, chunk: r.runAt})
	}
	carry := mem[listBytes:]
	for i := range g.runs {
		g.runs[i].carry = carry[int64(i)*layout.PageSize:][:layout.PageSize]
	}
	return len(g.runs), nil
}

// scratchBytes returns the memory for sorting the cold rows of a minibatch of
// n nodes and for reading the nodes of one.
func scratchBytes(n int64) int64 {
	return 16*n + roundUp(4*n, layout.PageSize) + layout.PageSize
}

// coldRows returns the rows of a minibatch that the feature cache does not
// hold, ascending, and the local ids that they belong to. mem has four words
// per node.
func (h *hyperbatch) coldRows(nodes, mem []uint32) (ids, locals []uint32) {
	n := len(nodes)
	ids, locals = mem[:n], mem[n:2*n]
	k := 0
	for i, v := range nodes {
		if _, ok := h.cache.Slot(uint64(v)); !ok {
			ids[k], locals[k] = v, uint32(i)
			k++
		}
	}
	ids, locals = ids[:k], locals[:k]
	sortPairs(ids, locals, mem[2*n:2*n+k], mem[3*n:3*n+k])
	return ids, locals
}

// markNeeded finds the blocks that hold a cold row of the window or, in the
// first, a row of the cache.
func (g *gatherer) markNeeded() error {
	h, e := g.h, g.h.e
	p := e.primary()
	size := e.manifest.Settings.BlockSize
	for i := range g.runs {
		block, end := int64(-1), int64(-1)
		for _, v := range g.runs[i].rows {
			if int64(v) >= end {
				block = p.section.RowBlock(size, int64(v))
				_, end = p.section.BlockRows(size, block)
				g.needed[block] = true
			}
		}
	}
	if g.filled || h.cache.Rows() == 0 {
		return nil
	}
	for b := range g.needed {
		first, end := p.section.BlockRows(size, int64(b))
		for v := first; v < end && !g.needed[b]; v++ {
			if _, ok := h.cache.Slot(uint64(v)); ok {
				g.needed[b] = true
			}
		}
	}
	return nil
}

// featureUnit is a feature block under way.
type featureUnit struct {
	frame      *memory.Frame
	first, end int64 // rows
}

// sweep reads the needed blocks in ascending order, as many at a time as there
// are frames, and distributes their rows a group at a time: with all frames in
// the device's queue at first, and half of them while the other half is distributed.
func (g *gatherer) sweep(ctx context.Context) error {
	e := g.h.e
	p := e.primary()
	size := e.manifest.Settings.BlockSize
	group := max(1, min(sweepBlocks, g.buffer.Frames()/2))
	most := g.buffer.Frames()
	if e.plan.published { // the next group is read while one is distributed
		most = min(most, 2*group)
	}
	var reading []featureUnit // in ascending order
	next := 0
	issue := func() {
		for ; next < len(g.needed) && len(reading) < most; next++ {
			if !g.needed[next] {
				continue
			}
			u := featureUnit{}
			u.first, u.end = p.section.BlockRows(size, int64(next))
			f, hit, ok := g.buffer.Acquire(int64(next))
			if !ok {
				panic("operation: no frame is free for the next feature block")
			}
			u.frame = f
			if !hit {
				g.load(u)
			}
			reading = append(reading, u)
		}
	}
	defer func() { // after an error
		for _, u := range reading {
			_ = u.frame.Wait(context.Background())
			u.frame.Unpin()
		}
	}()
	for issue(); len(reading) > 0; issue() {
		if err := ctx.Err(); err != nil {
			return err
		}
		ready := reading[:min(group, len(reading))]
		waited := time.Now()
		for _, u := range ready {
			if err := u.frame.Wait(context.Background()); err != nil {
				return err
			}
		}
		e.meter.addSeconds(&e.meter.gatherWaitSeconds, waited)
		if err := g.distribute(ready); err != nil {
			return err
		}
		for _, u := range ready {
			u.frame.Unpin()
		}
		reading = reading[len(ready):]
	}
	return nil
}

// load begins to read a block's rows of every column into its frame.
func (g *gatherer) load(u featureUnit) {
	e := g.h.e
	left := new(atomic.Int32)
	for i := range e.columns {
		if e.columns[i].stride > 0 { // rows without elements have no pages
			left.Add(1)
		}
	}
	failed := new(atomic.Pointer[error])
	e.meter.featureBlocks.Add(1)
	for i, c := range e.columns {
		if c.stride == 0 {
			continue
		}
		at, length := c.section.RowPages(u.first, u.end)
		c.section.Submit(at, u.frame.Bytes()[e.plan.areas[i]:e.plan.areas[i]+length], 0, func(r *storage.Request) {
			if r.Err != nil {
				err := r.Err
				failed.CompareAndSwap(nil, &err)
			}
			if left.Add(-1) == 0 {
				var err error
				if p := failed.Load(); p != nil {
					err = *p
				}
				u.frame.Ready(err)
			}
		})
	}
}

// copyRow writes the row record of row v of a loaded block to dst.
func (g *gatherer) copyRow(dst []byte, u *featureUnit, v int64) {
	e, mem := g.h.e, u.frame.Bytes()
	for i := range e.columns {
		c := &e.columns[i]
		at := e.plan.areas[i] + v*c.stride - u.first*c.stride/layout.PageSize*layout.PageSize
		copy(dst[c.at:c.at+c.stride], mem[at:at+c.stride])
	}
}

// distribute copies the rows of a group of blocks to the cache and the runs.
// Workers take whole blocks for the cache, then whole minibatches, so that no
// two write to one place and every run gets its rows in order.
func (g *gatherer) distribute(units []featureUnit) error {
	h, e := g.h, g.h.e
	var nextBlock, nextRun atomic.Int64
	return parallel(e.Threads, func(int) error {
		for !g.filled {
			i := int(nextBlock.Add(1)) - 1
			if i >= len(units) {
				break
			}
			u := &units[i]
			for v := u.first; v < u.end; v++ {
				if slot, ok := h.cache.Slot(uint64(v)); ok {
					g.copyRow(h.cache.Row(slot), u, v)
				}
			}
		}
		for {
			i := int(nextRun.Add(1)) - 1
			if i >= len(g.runs) {
				return nil
			}
			if g.failed.Load() != nil {
				return nil // window reports it
			}
			g.append(&g.runs[i], units)
		}
	})
}

// append copies the rows of r that lie in the group and writes the pages that
// are full.
func (g *gatherer) append(r *run, units []featureUnit) {
	stride, chunk := int(g.h.e.stride), int(g.h.e.plan.chunkRows)
	var buf []byte
	used, summed := 0, 0 // bytes of buf; those that are in a seal or in r.crc
	seal := func() {
		end := int(roundUp(int64(used+storage.SealBytes), layout.PageSize))
		clear(buf[used:end])
		g.file.PutSeal(buf[summed:end], r.crc, r.chunk, g.h.generation)
		used, summed, r.crc, r.chunk = end, end, 0, r.at+int64(end)
	}
	flush := func() {
		if buf == nil {
			return
		}
		whole := used / layout.PageSize * layout.PageSize
		r.crc = layout.AppendCRC(r.crc, buf[summed:whole])
		r.tail = copy(r.carry, buf[whole:used])
		if whole == 0 {
			g.free <- buf
		} else {
			g.write(buf, whole, r.at)
			r.at += int64(whole)
		}
		buf = nil
	}
	for k := range units {
		u := &units[k]
		for r.next < len(r.rows) && int64(r.rows[r.next]) < u.end {
			if buf != nil && used+stride+storage.SealBytes > len(buf) {
				flush()
			}
			if buf == nil {
				buf = <-g.free
				used, summed = copy(buf, r.carry[:r.tail]), 0
			}
			g.copyRow(buf[used:used+stride], u, int64(r.rows[r.next]))
			used += stride
			r.next++
			if r.next%chunk == 0 || r.next == len(r.rows) {
				seal()
			}
		}
	}
	flush()
}

// write writes buf[:n] to the runs file and returns buf to the free ones.
func (g *gatherer) write(buf []byte, n int, at int64) {
	g.h.e.meter.spilledRows.Add(int64(n))
	g.writes.Add(1)
	g.h.e.Store.Pool().Submit(&storage.Request{File: g.file, Offset: at, Buf: buf[:n], Write: true, Seal: storage.Seal{Put: true}, Done: func(q *storage.Request) {
		if q.Err != nil {
			err := q.Err
			g.failed.CompareAndSwap(nil, &err)
		}
		g.free <- buf
		g.writes.Done()
	}})
}
