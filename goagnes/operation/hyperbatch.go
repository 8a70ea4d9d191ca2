package operation

import (
	"context"
	"errors"
	"fmt"
	"sync"
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

	mu           sync.Mutex
	resident     *claim // memory for records, nil where all are spilled
	residentUsed int64
	samplesEnd   int64 // bytes used of the samples file

	counts    *claim
	cache     *memory.FeatureCache
	cacheRows []byte // the cache's rows, by slot
	cached    *claim
	readAhead int64 // records in scratch that delivery reads ahead

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
	h.cached.release()
	h.resident.release()
	h.graph.release()
	*h = hyperbatch{e: h.e, epoch: h.epoch, first: h.first, count: h.count, bound: h.bound}
}

// sampleAll samples every minibatch (S-1 to S-3) in as few windows as memory
// allows. A window that runs out of memory is tried again with more memory,
// and where the budget has none, as a smaller one: what is drawn does not
// depend on it.
func (h *hyperbatch) sampleAll(ctx context.Context) (err error) {
	e := h.e
	start := time.Now()
	defer e.meter.addSeconds(&e.meter.sampleSeconds, start)
	if e.stride > 0 {
		if h.counts, err = e.claim("access counts", e.plan.counts); err != nil {
			return err
		}
		h.counter = memory.NewAccessCounter(h.counts.mem)
	}
	estimate := e.estimate()
	if n := e.plan.residentBytes(e.Budget.Free(), e.spare(), estimate, h.count); n > 0 {
		if h.resident, err = e.claim("samples", n); err != nil {
			return err
		}
	}
	buffer, graph, err := e.graphBuffer(h.residentBytes())
	if err != nil {
		return err
	}
	hits, misses := buffer.Hits(), buffer.Misses()
	count := func() {
		e.meter.graphHits.Add(buffer.Hits() - hits)
		e.meter.graphMisses.Add(buffer.Misses() - misses)
	}
	defer func() {
		count()
		if err == nil && graph != nil && int64(buffer.Frames()) >= e.plan.graphBlocks {
			h.graph, h.graphBuffer = graph, buffer
			return
		}
		graph.release()
	}()
	restore, columns, err := e.decompressors()
	if err != nil {
		return err
	}
	defer columns.release()

	if err := h.claimSeeds(); err != nil {
		return err
	}
	defer h.dropSeeds()
	leastWindow := e.windowLeast(e.least)
	size, at := e.plan.windowBytes(e.Budget.Free(), leastWindow, estimate, h.count)
	memoryOf, err := e.claim("sampling window", size)
	if err != nil {
		return err
	}
	defer func() { memoryOf.release() }()
	w := &window{h: h, buffer: buffer, restore: restore, mem: newTwoEnded(memoryOf.mem)}
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
				if least, _ := e.plan.leastFrames(); graph != nil && int64(buffer.Frames()) > least { // a sweep makes do with fewer
					count()
					graph.release()
					if graph, err = e.frames("graph buffer", least*e.plan.graphFrame); err != nil {
						return err
					}
					buffer, hits, misses = memory.NewBuffer(graph.mem, e.plan.graphFrame), 0, 0
					w.buffer = buffer
				}
			}
			if more := min(2*size, size+e.Budget.Free()); more >= size+least {
				memoryOf.release()
				size = roundUp(more-layout.PageSize, layout.PageSize)
				if memoryOf, err = e.claim("sampling window", size); err != nil {
					return err
				}
				w.mem = newTwoEnded(memoryOf.mem)
				most = h.count
				continue
			}
			if n == 1 {
				need := max(size+windowStep, min(2*size, e.windowLeast(e.largest())))
				if err := e.refuse("sampling one minibatch", e.least, need); err != nil {
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
	if _, _, err := e.graphBuffer(0); err != nil || !e.plan.rows {
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

// samplesFile returns the scratch file of records, at least size bytes long.
func (e *Engine) samplesFile(size int64) (*storage.File, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.grow(&e.samples, "samples", size)
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
	if e.scratch == nil {
		s, err := e.Scratch()
		if err != nil {
			return nil, spillError(err)
		}
		e.scratch = s
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
	var limit *storage.ScratchError
	var budget *memory.BudgetError // scratch that lies in memory
	if errors.As(err, &limit) || errors.As(err, &budget) || errors.Is(err, unix.ENOSPC) {
		err = to(roundUp(size, layout.PageSize))
	}
	if err != nil {
		return nil, spillError(err)
	}
	return *f, nil
}

func spillError(err error) error {
	return fmt.Errorf("what does not fit the memory budget must be spilled, raise memory or choose another scratch directory: %w", err)
}
