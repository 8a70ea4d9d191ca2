package operation

import (
	"context"
	"errors"
	"io"
	"sync"
	"sync/atomic"
	"time"
)

// Run is one epoch under way.
type Run struct {
	e       *Engine
	batches chan *Batch
	cancel  context.CancelFunc
	done    chan struct{}
	err     error // set before done is closed

	mu     sync.Mutex
	closed bool

	asking atomic.Int32 // calls of Next under way
}

// Start begins an epoch; an epoch that still runs is closed first. A goroutine
// prepares minibatches ahead of Next, as many as the memory for batches holds.
func (e *Engine) Start(ctx context.Context, epoch uint32) *Run {
	return e.StartRange(ctx, epoch, 0, e.Minibatches())
}

// StartRange is Start for the minibatches [first, end) of an epoch alone: those
// before first are not prepared, and nothing beyond end is.
func (e *Engine) StartRange(ctx context.Context, epoch uint32, first, end int64) *Run {
	if first < 0 || end > e.Minibatches() {
		panic("operation: StartRange beyond the epoch")
	}
	e.mu.Lock()
	before := e.running
	e.mu.Unlock()
	if before != nil {
		before.Close()
	}
	ctx, cancel := context.WithCancel(ctx)
	r := &Run{e: e, batches: make(chan *Batch), cancel: cancel, done: make(chan struct{})}
	e.mu.Lock()
	e.running = r
	e.mu.Unlock()
	e.asking.Store(&r.asking)
	e.meter.begin()
	e.keeper.begin()
	go func() {
		defer close(r.done)
		defer e.meter.end()
		defer e.keeper.finish()
		defer caught(&r.err)
		r.err = e.epoch(ctx, epoch, first, end, r)
		e.trimSlabs()
	}()
	return r
}

// reclaimShare is the part of the budget, one in so many, that is left to others when an
// epoch begins: small graphs stay in memory while training and evaluation take turns.
const reclaimShare = 4

// epoch runs Algorithm 1: hyperbatch by hyperbatch, sample, gather, hand out.
func (e *Engine) epoch(ctx context.Context, epoch uint32, from, end int64, r *Run) error {
	var bound *bound
	err := e.retry(ctx, func() (err error) {
		if e.Budget.Free() < e.Budget.Total()-e.Budget.Total()/reclaimShare {
			e.Budget.Reclaim() // what others keep while they are idle
		}
		if bound, err = e.newBound(); err != nil {
			return err
		}
		if err = e.holdBuffers(); err != nil {
			bound.mem.release()
		}
		return err
	})
	if err != nil {
		return err
	}
	defer bound.mem.release()
	defer func() { e.meter.bound.Store(bound.bytes()) }()
	x := e.Explain()
	size := e.firstSize(e.grows(end-from, &x, x.KeepsGraph || e.keptGraph != nil, x.KeepsRows || e.keptRows != nil))
	next := func(first int64) *hyperbatch {
		if first == end {
			return nil
		}
		h := &hyperbatch{e: e, epoch: epoch, first: first, count: int(min(int64(size), int64(e.scratchFits), end-first)), bound: bound}
		size = e.sizeAfter(size)
		return h
	}
	for h := next(from); h != nil; {
		if h, err = e.one(ctx, h, next, r); err != nil {
			return err
		}
	}
	return nil
}

// one prepares a hyperbatch and hands it out, and meanwhile samples the one after it
// where there is memory for both. It returns that one, nil for none.
func (e *Engine) one(ctx context.Context, h *hyperbatch, next func(first int64) *hyperbatch, r *Run) (*hyperbatch, error) {
	defer h.release() // also when a bug ends the epoch
	e.trimSlabs()     // sampling needs the memory that idle batches hold
	e.meter.hyperbatches.Add(1)
	prepare := func() error {
		err := e.prepare(ctx, h)
		if err != nil && e.withoutKept(h, err) {
			err = e.prepare(ctx, h)
		}
		for err != nil && h.halve(err) {
			err = e.prepare(ctx, h)
		}
		return err
	}
	err := e.retry(ctx, prepare)
	if err == nil {
		e.meter.bound.Store(h.bound.bytes())
		err = e.retry(ctx, h.claimDelivery)
	}
	if err != nil {
		return nil, h.explain(err)
	}
	after := next(h.first + int64(h.count))
	if after != nil {
		after.half = h.half
	}
	before := e.Store.Pool().Counters()
	ahead := e.sampleAhead(ctx, h, after)
	err = e.finish(ahead, h, h.explain(h.deliver(ctx, func(b *Batch) error {
		select {
		case r.batches <- b:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	})))
	d := e.Store.Pool().Counters().Sub(before)
	delivered := d.BytesRead
	if ahead != nil {
		delivered = h.read.Load()
	}
	e.meter.phases[2].read.Add(delivered)
	e.meter.phases[0].read.Add(d.BytesRead - delivered)
	e.meter.phases[0].written.Add(d.BytesWritten)
	return after, err
}

// halve makes the hyperbatch, which failed with err, one of half as many minibatches,
// to be prepared anew, where it was scratch that had no room for it: what is spilled
// grows with it, minibatches do not depend on it. No later one is larger.
func (h *hyperbatch) halve(err error) bool {
	if h.count == 1 || !errors.Is(err, errSpill) || !isFull(err) {
		return false
	}
	h.release()

	if h.e.DropScratch() != nil { // files as large as before would leave no room for others
		return false
	}
	h.count = (h.count + 1) / 2
	h.e.scratchFits = h.count
	h.e.meter.halved.Add(1)
	return true
}

// retry runs f again where it lacks memory while the consumer works on minibatches,
// or holds more than it may: each release may be what is missing.
func (e *Engine) retry(ctx context.Context, f func() error) error {
	return e.slabs.Retry(ctx, int64(e.Held), f)
}

// prepare samples a hyperbatch and gathers its rows. After an error it may be called
// again, and then does not repeat what was done.
func (e *Engine) prepare(ctx context.Context, h *hyperbatch) error {
	if !h.sampled {
		h.release()
		err := e.phase(0, func() error {
			if err := h.claimSampling(h.sampling(e.Budget.Free())); err != nil {
				return err
			}
			return h.sampleAll(ctx)
		})
		if err != nil {
			return err
		}
		h.sampled = true
	}
	h.cached.release()
	e.trimSlabs() // those that the consumer has released since
	return e.phase(1, func() error { return h.gather(ctx) })
}

// trimSlabs unmaps idle slabs, unless they are so small beside the budget that
// mapping them again costs more than the memory is worth.
func (e *Engine) trimSlabs() {
	if e.slabs.Counters().MappedBytes > min(e.Budget.Total()/keptShare, e.keeps/idleShare) {
		e.slabs.Trim()
	}
}

// Next returns the next minibatch, io.EOF after the last, ErrClosed after
// Close. The caller must Release it.
func (r *Run) Next(ctx context.Context) (*Batch, error) {
	start := time.Now()
	defer r.e.meter.addSeconds(&r.e.meter.nextSeconds, start)
	r.asking.Add(1)
	defer r.asking.Add(-1)
	select {
	case b := <-r.batches:
		return b, nil
	case <-r.done:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	r.mu.Lock()
	closed := r.closed
	r.mu.Unlock()
	switch {
	case r.err == nil:
		return nil, io.EOF
	case closed && errors.Is(r.err, context.Canceled):
		return nil, ErrClosed
	}
	return nil, r.err
}

// Close ends the epoch and waits until its goroutines have ended. It may be
// called again, and while another goroutine is in Next.
func (r *Run) Close() {
	r.mu.Lock()
	r.closed = true
	r.mu.Unlock()
	r.cancel()
	<-r.done
	r.e.trimSlabs() // what idle batches hold is for others who share the budget
}
