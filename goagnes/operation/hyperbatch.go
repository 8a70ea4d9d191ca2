package operation

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/goagnes/goagnes/goagnes/memory"
	"github.com/goagnes/goagnes/goagnes/storage"
	"github.com/goagnes/goagnes/layout"
)

// hyperbatch is the group of minibatches that is prepared together.
type hyperbatch struct {
	e     *Engine
	epoch uint32
	first int64 // minibatch of the epoch
	count int
	bound *bound

	sampled bool // records are those of all minibatches
	records []record
	seeds   *claim                // internal ids of all seeds while sampling, nil where windows look up theirs
	counter *memory.AccessCounter // nil where no rows are gathered

	room  *room // memory to sample in
	ahead bool  // sampled while the hyperbatch before is delivered

	mu           sync.Mutex
	resident     *claim // memory for records, nil where all are spilled
	residentUsed int64
	half         int    // which of the two samples files has the records that are spilled
	samplesEnd   int64  // bytes used of it
	generation   uint64 // of the runs, in their seals

	counts    *claim
	cache     *memory.FeatureCache
	cacheRows []byte // the cache's rows, by slot
	cached    *claim
	readAhead int64 // records in scratch that delivery reads ahead

	delivery *claim
	sortAt   int64        // where in it cold rows are sorted
	read     atomic.Int64 // bytes that delivery has read from scratch

	// The graph buffer after sampling, where it holds all blocks and it is not
	// decided yet whether it stays.
	graph       *claim
	graphBuffer *memory.Buffer
}

// residentBytes returns the memory that holds records.
func (h *hyperbatch) residentBytes() int64 {
	if h.resident == nil {
		return 0
	}
	return int64(len(h.resident.mem))
}

// release returns what the hyperbatch holds.
func (h *hyperbatch) release() {
	h.counts.release()
	h.dropSeeds()
	h.room.release()
	h.cached.release()
	h.resident.release()
	h.graph.release()
	h.delivery.release()
	*h = hyperbatch{e: h.e, epoch: h.epoch, first: h.first, count: h.count, half: h.half, bound: h.bound}
}

// room is the memory that a hyperbatch is sampled in, but for what lasts longer.
type room struct {
	buffer  *memory.Buffer
	graph   *claim // of the buffer, nil where it stays whatever comes
	kept    bool   // from an earlier hyperbatch
	restore []decompressor
	columns *claim // of the decompressors
	window  *claim
	fit     int // minibatches that it is expected to do for
}

func (r *room) release() {
	if r == nil {
		return
	}
	r.graph.release()
	r.columns.release()
	r.window.release()
}

// sampling divides what is free for sampling.
func (h *hyperbatch) sampling(free int64) sampling {
	e := h.e
	seeds := int64(0)
	for i := range h.count {
		seeds += int64(e.seedsOf(h.first + int64(i)))
	}
	return e.plan.sampling(free, e.spare(), e.windowLeast(e.least), e.estimate(), h.count, seeds, e.keptGraph != nil)
}

// claimSampling takes the memory for sampling.
func (h *hyperbatch) claimSampling(s sampling) (err error) {
	e := h.e
	defer func() {
		if err != nil {
			h.leaveRoom()
		}
	}()
	if s.counts > 0 {
		if h.counts, err = e.claim("access counts", s.counts); err != nil {
			return err
		}
		h.counter = memory.NewAccessCounter(h.counts.mem)
	}
	if s.resident > 0 {
		if h.resident, err = e.claim("samples", s.resident); err != nil {
			return err
		}
	}
	r := &room{fit: s.fit, kept: e.keptGraph != nil}
	h.room = r
	if r.buffer, r.graph, err = e.graphBuffer(s.graph, s.keep); err != nil {
		return err
	}
	if r.restore, r.columns, err = e.decompressors(); err != nil {
		return err
	}
	if s.seeds > 0 {
		if h.seeds, err = e.claim("seeds", s.seeds); err != nil {
			return err
		}
	}
	r.window, err = e.claim("sampling window", s.window)
	return err
}

// leaveRoom returns the memory that the hyperbatch was sampled in, but a graph buffer
// that is not settled yet.
func (h *hyperbatch) leaveRoom() {
	h.dropSeeds()
	h.room.release()
	h.room = nil
}

// sampleAll samples every minibatch (S-1 to S-3) in as few windows as the memory
// that was claimed allows. A window that runs out of memory is tried again with more
// memory, and where there is none as a smaller one: what is drawn does not depend on
// it. Ahead there is no more than was claimed, and it fails where one minibatch does
// not fit.
func (h *hyperbatch) sampleAll(ctx context.Context) (err error) {
	e, room, alone := h.e, h.room, !h.ahead
	start := time.Now()
	defer e.meter.addSeconds(&e.meter.sampleSeconds, start)
	hits, misses := room.buffer.Hits(), room.buffer.Misses()
	count := func() {
		e.meter.graphHits.Add(room.buffer.Hits() - hits)
		e.meter.graphMisses.Add(room.buffer.Misses() - misses)
	}
	defer func() {
		count()
		switch all := room.graph != nil && int64(room.buffer.Frames()) >= e.plan.graphBlocks; {
		case all && err == nil:
			h.graph, h.graphBuffer, room.graph = room.graph, room.buffer, nil
		case all && room.kept && !alone: // it will be tried again
			e.keptGraph, e.keptBuffer, room.graph = room.graph, room.buffer, nil
		}
		h.leaveRoom()
	}()
	size, at := int64(len(room.window.mem)), room.fit
	w := &window{h: h, buffer: room.buffer, restore: room.restore, mem: newTwoEnded(room.window.mem)}
	if err := w.readAllSeeds(ctx); err != nil {
		return err
	}
	h.records = make([]record, 0, h.count)
	most := h.count // more do not fit
	for done := 0; done < h.count; {
		if err := ctx.Err(); err != nil {
			return err
		}
		n := min(at, h.count-done)
		err := w.sample(ctx, done, n)
		if isSplit(err) {
			e.meter.splits.Add(1)
			least := max(size/8, windowStep)
			if n == 1 {
				h.dropSeeds()
				least = 2 * layout.PageSize
				if least, _ := e.plan.leastFrames(); alone && room.graph != nil && int64(room.buffer.Frames()) > least { // a sweep makes do with fewer
					count()
					room.graph.release()
					if room.graph, err = e.frames("graph buffer", least*e.plan.graphFrame); err != nil {
						return err
					}
					room.buffer, hits, misses = memory.NewBuffer(room.graph.mem, e.plan.graphFrame), 0, 0
					w.buffer = room.buffer
				}
			}
			if more := min(2*size, size+e.Budget.Free()); alone && more >= size+least {
				room.window.release()
				size = roundUp(more-layout.PageSize, layout.PageSize)
				if room.window, err = e.claim("sampling window", size); err != nil {
					return err
				}
				w.mem = newTwoEnded(room.window.mem)
				most = h.count
				continue
			}
			if n == 1 {
				if !alone {
					return err
				}
				need := max(size+windowStep, min(2*size, e.windowLeast(e.largest())))
				if err := e.refuseDrawn("sampling one minibatch", e.least, need); err != nil {
					return err
				}
				return &memory.BudgetError{Consumer: "sampling one minibatch", Need: need, Free: size, Total: e.Budget.Total()}
			}
			most = n - 1
			at = (n + 1) / 2
			continue
		}
		if err != nil {
			return err
		}
		for j := range w.batches {
			h.records = append(h.records, w.batches[j].rec)
		}
		e.meter.windows.Add(1)
		e.learn(w, n)
		done += n
		if fit := e.estimate().fit(size); fit > at {
			at = min(fit, h.count, most)
		}
	}
	for i := range h.records {
		e.meter.sampledNodes.Add(int64(h.records[i].nodes))
		e.meter.sampledEdges.Add(int64(h.records[i].edges))
	}
	return nil
}

// estimate is what a minibatch is expected to take, in bytes.
type estimate struct {
	window int64 // of a sampling window
	fixed  int64 // of a sampling window, however many minibatches are in it
	record int64
}

// fit returns for how many minibatches a window is expected to do. They differ: a
// sixteenth is left, since a window that is too small has been sampled in vain.
func (x estimate) fit(size int64) int {
	return int(max(1, (size-x.fixed)/max(x.window+x.window/16, 1)))
}

// estimate returns what minibatches took so far, or before the first what the
// fanouts and the mean degree suggest.
func (e *Engine) estimate() estimate {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.learned.window > 0 {
		return e.learned
	}
	degree := int64(1)
	if e.manifest.NumNodes > 0 {
		degree += 2 * e.manifest.NumEdges / e.manifest.NumNodes
	}
	frontier := int64(e.BatchSize)
	nodes, edges, most := frontier, int64(0), frontier*64
	for _, k := range e.Fanouts {
		n := degree
		if k >= 0 {
			n = min(n, int64(k))
		}
		drawn := frontier * n
		most = max(most, frontier*20+drawn*int64(4+e.edgeWide))
		edges += drawn
		frontier = min(drawn, e.manifest.NumNodes)
		nodes += frontier
	}
	r := 4*nodes + 8*edges + int64(e.edgeWide)*edges
	return estimate{window: most + r/4 + 4096, record: r + 4096}
}

// learn keeps what the minibatches of a window took.
func (e *Engine) learn(w *window, n int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	bodies := int64(0)
	for j := range w.batches {
		bodies += w.batches[j].rec.bytes
	}
	e.learned = estimate{window: (w.mem.peak-w.mem.peakFixed)/int64(n) + 4096, fixed: w.mem.peakFixed, record: bodies/int64(n) + 4096}
}

// holdBuffers makes the buffers that the published policy holds for the
// engine's life.
func (e *Engine) holdBuffers() error {
	if !e.plan.published {
		return nil
	}
	if _, _, err := e.graphBuffer(e.plan.graphFrames*e.plan.graphFrame, true); err != nil || !e.plan.rows {
		return err
	}
	_, _, err := e.featureBuffer(e.plan.featureFrames)
	return err
}

// featureBuffer returns the feature buffer, kept from before or made anew, and what
// must be released after use, nil where it is kept.
func (e *Engine) featureBuffer(frames int64) (*memory.Buffer, *claim, error) {
	if e.keptFeature != nil {
		return e.keptFeatureBuffer, nil, nil
	}
	c, err := e.frames("feature buffer", frames*e.plan.featureFrame)
	if err != nil {
		return nil, nil, err
	}
	b := memory.NewBuffer(c.mem, e.plan.featureFrame)
	if e.plan.published {
		e.keptFeature, e.keptFeatureBuffer = c, b
		return b, nil, nil
	}
	return b, c, nil
}

// decompressors returns one for each worker, and the memory that they work in.
func (e *Engine) decompressors() ([]decompressor, *claim, error) {
	all := make([]decompressor, e.Threads)
	each := e.plan.columns / int64(e.Threads)
	if each == 0 {
		return all, nil, nil
	}
	c, err := e.claim("compressed graph blocks", e.plan.columns)
	if err != nil {
		return nil, nil, err
	}
	for i := range all {
		all[i].columns = c.mem[int64(i)*each : int64(i+1)*each]
	}
	return all, c, nil
}

// samplesFile returns the scratch file of the hyperbatch's records, at least size bytes
// long: one of two, as the records of the hyperbatch before may still be read. Files
// that lie in memory do not grow for a hyperbatch that is sampled ahead.
func (h *hyperbatch) samplesFile(size int64) (*storage.File, error) {
	e := h.e
	e.mu.Lock()
	defer e.mu.Unlock()
	if h.ahead {
		if err := e.openScratch(); err != nil {
			return nil, err
		}
		if e.scratch.InMemory() && e.grown[samplesNames[h.half]] < size {
			return nil, errAhead
		}
	}
	return e.grow(&e.samples[h.half], samplesNames[h.half], size)
}

var samplesNames = [2]string{"samples", "samples of the next hyperbatch"}

// idleSamples tells that nobody reads one of the samples files any more, so that its
// space is for others; -1: both may be in use.
func (e *Engine) idleSamples(half int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.idle = half + 1
}

// dropIdle removes the samples file that is idle, if there is one.
func (e *Engine) dropIdle() (dropped bool, err error) {
	half := e.idle - 1
	if half < 0 || e.samples[half] == nil {
		return false, nil
	}
	f := e.samples[half]
	e.samples[half], e.idle = nil, 0
	delete(e.grown, samplesNames[half])
	return true, e.scratch.Remove(f)
}

// runsFile returns the scratch file of rows, at least size bytes long.
func (e *Engine) runsFile(size int64) (*storage.File, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.grow(&e.runs, "rows", size)
}

// grow makes a scratch file at least size bytes long: in large steps, or by just
// what is needed where scratch_limit or the device leaves no room for a step.
func (e *Engine) grow(f **storage.File, name string, size int64) (*storage.File, error) {
	const step = 64 << 20
	if *f != nil && e.grown[name] >= size {
		return *f, nil
	}
	if err := e.openScratch(); err != nil {
		return nil, err
	}
	to := func(bytes int64) error {
		var err error
		if *f == nil {
			*f, err = e.scratch.Create(name, bytes)
		} else {
			err = e.scratch.Extend(*f, bytes)
		}
		if err == nil {
			e.grown[name] = bytes
		}
		return err
	}
	err := to(roundUp(size, step))
	if isFull(err) {
		err = to(roundUp(size, layout.PageSize))
	}
	if isFull(err) {
		if dropped, failed := e.dropIdle(); failed != nil {
			err = failed
		} else if dropped {
			err = to(roundUp(size, layout.PageSize))
		}
	}
	if err != nil {
		return nil, spillError(err)
	}
	return *f, nil
}

func (e *Engine) openScratch() error {
	if e.scratch != nil {
		return nil
	}
	s, err := e.Scratch()
	if err != nil {
		return spillError(err)
	}
	e.scratch = s
	return nil
}

// isFull reports whether there is no room in scratch.
func isFull(err error) bool {
	var limit *storage.ScratchError
	var budget *memory.BudgetError // scratch that lies in memory
	return errors.As(err, &limit) || errors.As(err, &budget) || errors.Is(err, unix.ENOSPC)
}

// errSpill is wrapped by errors of making room in scratch.
var errSpill = errors.New("what does not fit the memory budget must be spilled, raise memory or choose another scratch directory")

func spillError(err error) error { return fmt.Errorf("%w: %w", errSpill, err) }
