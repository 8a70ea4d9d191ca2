package operation

// Sampling ahead: while a hyperbatch is delivered, and its consumer works, the next
// one is sampled beside it where there is memory that nobody else has a use for. It is
// the same work at another time: minibatches, and the bytes that are moved for them,
// are those of sampling alone.

import (
	"context"
	"errors"
	"sync"
)

// errAhead ends a sampling ahead that would have to reserve memory.
var errAhead = errors.New("operation: there is no more memory to sample ahead")

// ahead is a hyperbatch that is sampled while the one before is delivered.
type ahead struct {
	h      *hyperbatch
	cancel context.CancelFunc
	done   chan struct{} // closed when sampling has ended
	err    error         // why, before done is closed
	lost   bool          // what was sampled was given up, under aheads.mu
}

// aheads is the one under way, if there is one, for whoever lacks the memory.
type aheads struct {
	mu  sync.Mutex
	now *ahead
	end func() // of the registration of giveUp
}

// giveUp breaks off what is sampled ahead, or drops what was, and returns its memory:
// it is sampled again in its turn. It is called where a reservation does not fit, on
// any goroutine but the one that samples, which reserves nothing.
func (a *aheads) giveUp() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.now == nil || a.now.lost {
		return
	}
	a.now.lost = true
	a.now.cancel()
	<-a.now.done
	a.now.h.release()
}

// besides divides what is free while a hyperbatch is delivered for sampling the next
// one; false where there is not enough, beside the minibatches in flight.
func (h *hyperbatch) besides(before *hyperbatch) (sampling, bool) {
	e := h.e
	free := e.Budget.Free()
	room := free - max(0, before.slabsHeld()-e.slabs.Counters().MappedBytes)
	return e.plan.ahead(h.sampling(free+before.bytes()), room, e.windowLeast(e.least), e.estimate(), h.count, e.keptGraph != nil)
}

// bytes returns the memory that the hyperbatch holds while it is delivered.
func (h *hyperbatch) bytes() int64 {
	n := h.residentBytes()
	for _, c := range []*claim{h.cached, h.delivery} {
		if c != nil {
			n += int64(len(c.mem))
		}
	}
	return n
}

// sampleAhead begins to sample a hyperbatch, nil for none, while the one before, whose
// delivery has its memory, is delivered. It returns nil where it is not to be. The
// consumer never waits for it: what a minibatch in flight lacks, giveUp returns.
func (e *Engine) sampleAhead(ctx context.Context, before, h *hyperbatch) *ahead {
	if h == nil || e.inTurn {
		return nil
	}
	s, ok := h.besides(before)
	if !ok || h.claimSampling(s) != nil {
		h.release()
		return nil
	}
	h.ahead, h.half = true, 1-before.half
	e.idleSamples(-1)
	ctx, cancel := context.WithCancel(ctx)
	a := &ahead{h: h, cancel: cancel, done: make(chan struct{})}
	e.ahead.mu.Lock()
	e.ahead.now = a
	e.ahead.mu.Unlock()
	go func() {
		defer close(a.done)
		defer caught(&a.err)
		a.err = h.sampleAll(ctx)
	}()
	return a
}

// finish waits until a hyperbatch is sampled whose predecessor was delivered, or was
// not: then it breaks off. An error of the sampling is that of the next minibatch,
// unless it comes of doing it ahead.
func (e *Engine) finish(a *ahead, before *hyperbatch, failed error) error {
	if a == nil {
		return failed
	}
	if failed != nil {
		a.cancel()
	}
	<-a.done
	a.cancel()
	e.ahead.mu.Lock()
	defer e.ahead.mu.Unlock()
	e.ahead.now = nil
	err := a.err
	if err == nil && !a.lost && failed == nil {
		a.h.sampled, a.h.ahead = true, false
		e.meter.sampledAhead.Add(1)
		e.idleSamples(before.half)
		return nil
	}
	a.h.release()
	e.idleSamples(a.h.half)
	a.h.half = before.half
	if failed != nil || a.lost || isSplit(err) || isFull(err) || errors.Is(err, errAhead) {
		return failed
	}
	return err
}
