package operation

import (
	"context"
	"encoding/binary"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/goagnes/goagnes/goagnes/memory"
	"github.com/goagnes/goagnes/goagnes/storage"
	"github.com/goagnes/goagnes/kernels"
	"github.com/goagnes/goagnes/layout"
)

// Delivery puts the minibatches of a hyperbatch together, one after the other
// in order (G-2 and G-3): ids from the record, rows from the feature cache and
// from the minibatch's run. Records and runs are read ahead, in order, through
// a ring of chunks, so that the device is busy while rows are copied and while
// the consumer works.

// longestBody returns the bytes of the longest record in scratch.
func (h *hyperbatch) longestBody() int64 {
	n := int64(0)
	for i := range h.records {
		if h.records[i].body == nil {
			n = max(n, h.records[i].bytes)
		}
	}
	return roundUp(n, layout.PageSize)
}

// slabsHeld returns the bytes of batches in flight: the one being put together
// and those that the consumer still holds.
func (h *hyperbatch) slabsHeld() int64 {
	most := int64(0)
	for i := range h.records {
		most = max(most, h.e.slabBytes(&h.records[i]))
	}
	return int64(h.e.Held+1) * memory.SlabBytes(most)
}

// needs returns what the consumer takes for a minibatch at most, 0 without one.
func (h *hyperbatch) needs() int64 {
	n := int64(0)
	if h.e.Consumer != nil {
		for i := range h.records {
			n = max(n, h.e.Consumer.Needs(h.records[i].hopNodes, h.records[i].hopEdges))
		}
	}
	return n
}

// asideSlack is the part, one in so many, by which more is set aside than is
// needed, so that growing ends soon.
const asideSlack = 8

// held returns the bytes that batches in flight need yet, and what has to be set
// aside yet to use one. Those of an earlier hyperbatch that the consumer still holds,
// or has released since, are among the ones that it may hold, and have their memory.
func (h *hyperbatch) held() int64 {
	n := h.slabsHeld()
	n -= min(h.e.slabs.Counters().MappedBytes, n/int64(h.e.Held+1)*int64(h.e.Held))
	if needs := h.needs(); needs > 0 {
		n += max(0, needs+needs/asideSlack-h.e.Consumer.Aside())
	}
	return n
}

// setAside sets aside what the consumer needs for the hyperbatch's minibatches,
// and the slack where the batches in flight leave room for it. It stays so while
// the next hyperbatch is sampled: the consumer works on the last minibatch then.
func (h *hyperbatch) setAside() error {
	needs := h.needs()
	if needs == 0 || needs <= h.e.Consumer.Aside() {
		return nil
	}
	most := h.e.Consumer.Aside() + h.e.Budget.Free() - max(0, h.slabsHeld()-h.e.slabs.Counters().MappedBytes)
	provided := max(h.e.NeedAside(), needs+h.e.spare()/2)
	return h.e.Consumer.SetAside(max(needs, min(needs+needs/asideSlack, most, provided)))
}

// chunk is a piece of a run, or a record's body, on its way from scratch.
type chunk struct {
	buf   []byte
	rows  int64
	ready chan error
}

// reader reads ahead the chunks of all minibatches in order.
type reader struct {
	h      *hyperbatch
	bodies chan *chunk // one for each record in scratch
	runs   chan *chunk
	freeB  chan []byte
	freeR  chan []byte
	stop   context.CancelFunc
	done   chan struct{}

	bodiesErr, runsErr error // why reading ended early, set before the channels are closed
}

// take returns the next chunk, loaded. Its buffer goes back to free after use,
// also after an error with a chunk.
func (r *reader) take(ctx context.Context, from <-chan *chunk, ended *error) (*chunk, error) {
	c, err := r.next(ctx, from, ended)
	if err != nil {
		return nil, err
	}
	return c, <-c.ready
}

// next returns the next chunk, which may be under way.
func (r *reader) next(ctx context.Context, from <-chan *chunk, ended *error) (*chunk, error) {
	select {
	case c := <-from:
		if c != nil {
			return c, nil
		}
		// Reading ahead stops where the context ends, and the select takes any
		// of two that are ready.
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if *ended != nil {
			return nil, *ended
		}
		panic("operation: more chunks are taken than were read")
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (h *hyperbatch) startReader(ctx context.Context, mem []byte) *reader {
	e := h.e
	ctx, cancel := context.WithCancel(ctx)
	r := &reader{h: h, stop: cancel, done: make(chan struct{}),
		bodies: make(chan *chunk, h.readAhead), runs: make(chan *chunk, e.plan.ringChunks),
		freeB: make(chan []byte, h.readAhead), freeR: make(chan []byte, e.plan.ringChunks)}
	body, size := h.longestBody(), e.plan.chunkBytes
	for range h.readAhead {
		r.freeB <- mem[:body:body]
		mem = mem[body:]
	}
	if h.anyCold() {
		for range e.plan.ringChunks {
			r.freeR <- mem[:size:size]
			mem = mem[size:]
		}
	}
	inBodies := make(chan struct{})
	go func() {
		defer close(inBodies)
		defer close(r.bodies)
		defer caught(&r.bodiesErr)
		for i := range h.records {
			if rec := &h.records[i]; rec.body == nil {
				n := roundUp(rec.bytes, layout.PageSize)
				if !r.read(ctx, e.samples[h.half], rec.at, n, 0, rec.seal(), r.freeB, r.bodies) {
					return
				}
			}
		}
	}()
	go func() {
		defer close(r.done)
		defer func() { <-inBodies }()
		defer close(r.runs)
		defer caught(&r.runsErr)
		for i := range h.records {
			rec := &h.records[i]
			at := rec.runAt
			for left := int64(rec.cold); left > 0; left -= e.plan.chunkRows {
				rows := min(e.plan.chunkRows, left)
				n := e.plan.chunk(rows)
				if !r.read(ctx, e.runs, at, n, rows, storage.Seal{Generation: h.generation}, r.freeR, r.runs) {
					return
				}
				at += n
			}
		}
	}()
	return r
}

// read issues one read and passes its chunk on; false means stop.
func (r *reader) read(ctx context.Context, f *storage.File, at, n, rows int64, seal storage.Seal, free chan []byte, to chan<- *chunk) bool {
	select {
	case buf := <-free:
		c := &chunk{buf[:n:cap(buf)], rows, make(chan error, 1)}
		r.h.read.Add(n)
		r.h.e.Store.Pool().Submit(&storage.Request{File: f, Offset: at, Buf: c.buf, Seal: seal, Done: func(q *storage.Request) { c.ready <- q.Err }})
		to <- c // has room for every buffer
		return true
	case <-ctx.Done():
		return false
	}
}

// close stops reading ahead and waits for reads under way to end.
func (r *reader) close() {
	r.stop()
	<-r.done
	for c := range r.bodies {
		<-c.ready
	}
	for c := range r.runs {
		<-c.ready
	}
}

func (h *hyperbatch) anyCold() bool {
	for i := range h.records {
		if h.records[i].cold > 0 {
			return true
		}
	}
	return false
}

// claimDelivery takes the memory for delivery, and sets aside what the consumer needs.
func (h *hyperbatch) claimDelivery() (err error) {
	e := h.e
	h.counts.release() // the cache knows by itself which rows it holds
	h.counter = nil
	size := h.readAhead*h.longestBody() + 3*layout.PageSize
	h.sortAt = size
	if h.anyCold() {
		size += e.plan.ringChunks * e.plan.chunkBytes
		h.sortAt = size
		size += 16 * h.longest()
	}
	if h.delivery, err = e.claim("delivery", size); err != nil {
		return err
	}
	if err = h.setAside(); err != nil {
		h.delivery.release()
	}
	return err
}

// deliver hands every minibatch to emit, in order.
func (h *hyperbatch) deliver(ctx context.Context, emit func(*Batch) error) (err error) {
	defer caught(&err) // what goes on beside it must end too
	mem := h.delivery.mem
	r := h.startReader(ctx, mem)
	defer r.close()
	for i := range h.records {
		if err := h.deliverOne(ctx, r, &h.records[i], words(mem[h.sortAt:]), emit); err != nil {
			return err
		}
	}
	return nil
}

func (h *hyperbatch) deliverOne(ctx context.Context, rd *reader, r *record, sort []uint32, emit func(*Batch) error) error {
	e := h.e
	waited := time.Now()
	slab, err := e.slabs.Get(ctx, e.slabBytes(r))
	if err != nil {
		return err
	}
	e.meter.addSeconds(&e.meter.consumerSeconds, waited)
	start := time.Now()
	body := r.body
	if body == nil {
		c, err := rd.take(ctx, rd.bodies, &rd.bodiesErr)
		if c != nil {
			defer func() { rd.freeB <- c.buf[:cap(c.buf)] }()
		}
		if err != nil {
			slab.Release()
			return err
		}
		e.meter.addSeconds(&e.meter.deliverWaitSeconds, start)
		body = c.buf
	}
	b := e.newBatch(r, slab)
	if err := h.fill(ctx, rd, r, b, body, sort); err != nil {
		b.Release()
		return err
	}
	e.meter.addSeconds(&e.meter.deliverSeconds, start)
	e.meter.minibatches.Add(1)
	e.meter.deliveredNodes.Add(int64(r.nodes))
	e.meter.deliveredEdges.Add(int64(r.edges))
	waited = time.Now()
	err = emit(b)
	e.meter.addSeconds(&e.meter.consumerSeconds, waited)
	if err != nil {
		b.Release()
	}
	return err
}

// part is what a row record's column becomes in a batch.
type part struct {
	at, stride int64
	dst        []byte
	wide       bool // widened to int64
}

// int64s views b as int64s.
func int64s(b []byte) []int64 {
	if len(b) == 0 {
		return nil
	}
	return unsafe.Slice((*int64)(unsafe.Pointer(unsafe.SliceData(b))), len(b)/8)
}

// fill writes all arrays of a batch.
func (h *hyperbatch) fill(ctx context.Context, rd *reader, r *record, b *Batch, body []byte, sort []uint32) error {
	e := h.e
	endsAt, srcAt, eidsAt, length := r.offsets(e.edgeWide)
	nodes, ends, src, eids := words(body[:endsAt]), words(body[endsAt:srcAt]), words(body[srcAt:srcAt+4*int64(r.edges)]), body[eidsAt:length]
	get := func(name string) []byte { a, _ := b.Array(name); return a.data }
	var parts []part
	for _, c := range e.columns {
		p := part{at: c.at, stride: c.stride}
		switch c.section.Name {
		case layout.SectionX:
			p.dst = get("x")
		case layout.SectionY:
			p.dst = get("y")
		case layout.SectionDegree:
			p.dst = get("degree")
		case layout.SectionOriginal:
			p.dst, p.wide = get("n_id"), true
		}
		parts = append(parts, p)
	}
	// Work is cut into pieces that any worker takes; the first finds out where the
	// run's rows belong, and all workers end with copying them.
	const piece = 8192
	nodePieces, edgePieces := (r.nodes+piece-1)/piece, (r.edges+piece-1)/piece
	targetPieces := 0
	if e.Outputs.EdgeIndex || e.Outputs.CSC {
		targetPieces = (r.targets + piece - 1) / piece
	}
	if a, ok := b.Array("ptr"); ok {
		words(a.data)[0] = 0 // a reused slab holds old bytes, and there may be no target
	}
	var next atomic.Int64
	cold := &coldFill{h: h, rd: rd, r: r, parts: parts, sorted: make(chan struct{})}
	err := parallel(e.Threads, func(int) error {
		for {
			i := int(next.Add(1)) - 1
			switch {
			case i == 0:
				cold.sort(nodes, sort)
				if err := e.fillSeeds(ctx, h.epoch, r, b); err != nil {
					return err
				}
			case i <= nodePieces:
				lo := (i - 1) * piece
				hi := min(lo+piece, r.nodes)
				h.fillCached(nodes, lo, hi, parts)
				if e.Outputs.NodeIDs && e.internal == nil {
					ids := int64s(get("n_id"))
					for k := lo; k < hi; k++ {
						ids[k] = int64(nodes[k])
					}
				}
			case i <= nodePieces+edgePieces:
				lo := (i - nodePieces - 1) * piece
				e.fillEdges(b, src, eids, lo, min(lo+piece, r.edges))
			case i <= nodePieces+edgePieces+targetPieces:
				lo := (i - nodePieces - edgePieces - 1) * piece
				e.fillTargets(b, ends, lo, min(lo+piece, r.targets))
			default:
				return cold.copy(ctx)
			}
		}
	})
	if err == nil {
		e.nameSeeds(b)
	}
	if h.cache != nil {
		hits := int64(r.nodes - r.cold)
		h.cache.Note(hits, int64(r.cold))
		e.meter.cacheHits.Add(hits)
		e.meter.cacheMisses.Add(int64(r.cold))
	}
	return err
}

// rowGroup is how many rows are copied at a time: few enough that the lines of
// a row record that its narrow columns share are still in cache.
const rowGroup = 256

// copyRows copies n row records of src, those at from or all in turn where from
// is nil, to the local nodes at to.
func copyRows(src []byte, stride int64, from, to []uint32, parts []part) {
	for lo := 0; lo < len(to); lo += rowGroup {
		hi := min(lo+rowGroup, len(to))
		group, rows := to[lo:hi], src
		var at []uint32
		if from != nil {
			at = from[lo:hi]
		} else {
			rows = src[int64(lo)*stride:]
		}
		for k := range parts {
			p := &parts[k]
			if !p.wide {
				kernels.CopyRows(p.dst, group, rows[p.at:], int(stride), at, int(p.stride), hi-lo)
				continue
			}
			for i, local := range group {
				row := int64(i)
				if at != nil {
					row = int64(at[i])
				}
				binary.LittleEndian.PutUint64(p.dst[8*int64(local):], getID(rows[row*stride+p.at:], p.stride))
			}
		}
	}
}

// fillCached copies the rows that the feature cache holds.
func (h *hyperbatch) fillCached(nodes []uint32, lo, hi int, parts []part) {
	if h.cache == nil || h.cache.Rows() == 0 {
		return
	}
	var slots, locals [rowGroup]uint32
	n := 0
	for i := lo; i < hi; i++ {
		if slot, ok := h.cache.Slot(uint64(nodes[i])); ok {
			slots[n], locals[n] = uint32(slot), uint32(i)
			n++
		}
		if n == rowGroup || i == hi-1 {
			copyRows(h.cacheRows, h.e.stride, slots[:n], locals[:n], parts)
			n = 0
		}
	}
}

// coldFill is the copying of a minibatch's run, whose chunks come from the device in
// order, by any number of workers.
type coldFill struct {
	h      *hyperbatch
	rd     *reader
	r      *record
	parts  []part
	sorted chan struct{} // closed when locals are known
	locals []uint32      // local ids of the run's rows, nil where sorting failed

	mu   sync.Mutex
	next int64 // first row that nobody has taken
}

// sort finds out where the run's rows belong.
func (f *coldFill) sort(nodes, mem []uint32) {
	defer close(f.sorted)
	if f.r.cold == 0 {
		return
	}
	ids, locals := f.h.coldRows(nodes, mem)
	if len(ids) != f.r.cold {
		panic("operation: a run holds other rows than its minibatch needs")
	}
	f.locals = locals
}

// copy copies chunks until none is left.
func (f *coldFill) copy(ctx context.Context) error {
	<-f.sorted
	for {
		f.mu.Lock()
		at := f.next
		if at == int64(len(f.locals)) {
			f.mu.Unlock()
			return nil
		}
		c, err := f.rd.next(ctx, f.rd.runs, &f.rd.runsErr)
		if c != nil {
			f.next += c.rows
		}
		f.mu.Unlock()
		if err != nil {
			return err
		}
		if err = <-c.ready; err == nil {
			copyRows(c.buf, f.h.e.stride, nil, f.locals[at:at+c.rows], f.parts)
		}
		f.rd.freeR <- c.buf[:cap(c.buf)]
		if err != nil {
			return err
		}
	}
}

// fillSeeds writes what the seeds were named by.
func (e *Engine) fillSeeds(ctx context.Context, epoch uint32, r *record, b *Batch) error {
	a, ok := b.Array("input_id")
	if !ok {
		return nil
	}
	named := int64s(a.data)
	if _, ids := b.Array("n_id"); e.InputIsID && ids {
		return nil // nameSeeds copies them
	}
	e.places(epoch, r.index, named)
	if !e.InputIsID || len(named) == 0 {
		return nil
	}
	// In place: seeds that are named by their ids are looked up one after another.
	return e.Seeds.Lookup(ctx, named, unsafe.Slice((*uint64)(unsafe.Pointer(unsafe.SliceData(named))), len(named)))
}

// nameSeeds writes what the seeds were named by where it is their ids and those
// are there already: seeds are a minibatch's first nodes.
func (e *Engine) nameSeeds(b *Batch) {
	a, ok := b.Array("input_id")
	ids, known := b.Array("n_id")
	if ok && known && e.InputIsID {
		copy(a.data, ids.data)
	}
}

// fillEdges writes edge_index's sources, e_id and src of the edges [lo, hi).
func (e *Engine) fillEdges(b *Batch, src []uint32, eids []byte, lo, hi int) {
	if a, ok := b.Array("edge_index"); ok {
		dst := int64s(a.data)
		for i := lo; i < hi; i++ {
			dst[i] = int64(src[i])
		}
	}
	if a, ok := b.Array("e_id"); ok {
		dst := int64s(a.data)
		if e.edgeWide == 4 {
			from := words(eids)
			for i := lo; i < hi; i++ {
				dst[i] = int64(from[i])
			}
		} else {
			copy(dst[lo:hi], int64s(eids)[lo:hi])
		}
	}
	if a, ok := b.Array("src"); ok {
		copy(words(a.data)[lo:hi], src[lo:hi])
	}
}

// fillTargets writes edge_index's targets and ptr of the targets [lo, hi).
func (e *Engine) fillTargets(b *Batch, ends []uint32, lo, hi int) {
	if a, ok := b.Array("edge_index"); ok {
		dst := int64s(a.data)[len(a.data)/16:]
		from := uint32(0)
		if lo > 0 {
			from = ends[lo-1]
		}
		for t := lo; t < hi; t++ {
			for k := from; k < ends[t]; k++ {
				dst[k] = int64(t)
			}
			from = ends[t]
		}
	}
	if a, ok := b.Array("ptr"); ok {
		copy(words(a.data)[1+lo:], ends[lo:hi])
	}
}
