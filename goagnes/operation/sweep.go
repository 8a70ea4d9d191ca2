package operation

// A sweep of the graph blocks for one hop of a window: the blocks that hold
// something of the frontiers are loaded once each and passed on to the workers.

import (
	"context"
	"sync"

	"github.com/goagnes/goagnes/goagnes/memory"
)

// unit is a graph block on its way to a worker; frame is nil for a hub.
type unit struct {
	block  int
	pieces int // of the object
	frame  *memory.Frame
	first  int // of a piece of a hub that is read whole: the hub's first block
}

// sweep carries the units of one hop from the goroutine that loads blocks to the
// workers that sample from them.
type sweep struct {
	units   chan unit // with frames; has room for all, as whoever ends a read must not wait
	hubs    chan unit
	loading sync.WaitGroup // reads whose units are still to come
}

// next returns a unit to be worked on, as long as there are any.
func (s *sweep) next() (unit, bool) {
	units, hubs := s.units, s.hubs
	for units != nil || hubs != nil {
		select {
		case u, ok := <-units:
			if ok {
				return u, true
			}
			units = nil
		case u, ok := <-hubs:
			if ok {
				return u, true
			}
			hubs = nil
		}
	}
	return unit{}, false
}

// visitBlocks loads each needed block once, ahead of the workers by as many
// frames as there are, and lets the workers sample from blocks as they arrive. One
// sweep ascends, the next descends, so that it begins with the blocks that the
// buffer still holds; as published, all ascend, and blocks are worked on in that
// order. A worker that fails goes on taking units, to unpin them.
func (w *window) visitBlocks(ctx context.Context) error {
	e := w.h.e
	ended, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	s := &sweep{units: make(chan unit, w.buffer.Frames()), hubs: make(chan unit)}
	errs := make(chan error, 1)
	go func() {
		err := parallel(e.Threads, func(worker int) error {
			var failed error
			for u, ok := s.next(); ok; u, ok = s.next() {
				if err := w.visit(ended, &w.workers[worker], u, failed != nil); failed == nil && err != nil {
					failed = err
					cancel(err)
				}
			}
			return failed
		})
		if err != nil {
			cancel(err)
			for u, ok := s.next(); ok; u, ok = s.next() { // left by a worker that broke off
				if u.frame != nil {
					_ = u.frame.Wait(context.Background())
					u.frame.Unpin()
				}
			}
		}
		errs <- err
	}()
	err := w.loadBlocks(ended, s)
	s.loading.Wait()
	close(s.units)
	close(s.hubs)
	failed := <-errs
	switch {
	case ctx.Err() != nil:
		return ctx.Err() // then workers passed over what they were given last
	case ended.Err() != nil:
		return context.Cause(ended) // what failed first, not what was broken off by it
	case failed != nil:
		return failed
	}
	return err
}

// visit samples for the requests of a unit, unless skip or the context says
// that nothing is to be done but to give its frame back.
func (w *window) visit(ctx context.Context, s *sampler, u unit, skip bool) error {
	if u.frame == nil {
		if skip || ctx.Err() != nil {
			return nil
		}
		return w.sampleHub(ctx, s, u)
	}
	defer u.frame.Unpin()
	err := u.frame.Wait(context.Background()) // a read in flight must end before its frame is reused
	if err != nil || skip || ctx.Err() != nil {
		return err
	}
	if u.pieces > 1 {
		return w.samplePiece(s, u)
	}
	return w.sampleBlock(s, u)
}

func (w *window) loadBlocks(ctx context.Context, s *sweep) error {
	e := w.h.e
	blocks, down := e.Index.Blocks(), w.down
	w.down = !e.plan.published && !down
	for i := range blocks {
		block := i
		if down {
			block = blocks - 1 - i
		}
		row := w.bucket.row(block)
		if len(row) == 0 {
			continue
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		if _, pieces := e.Index.Find(uint64(row[0].node)); pieces > 1 {
			e.meter.hubVisits.Add(1)
			if e.plan.published {
				if err := w.loadHub(ctx, block, pieces, s); err != nil {
					return err
				}
				continue
			}
			s.hubs <- unit{block: block, pieces: pieces}
			continue
		}
		if err := w.load(ctx, s, unit{block: block, pieces: 1}); err != nil {
			return err
		}
	}
	return nil
}

// load pins the frame of a unit's block, begins to load it where the buffer does not
// hold it, and passes the unit on when it is there; as published, at once.
func (w *window) load(ctx context.Context, s *sweep, u unit) error {
	e := w.h.e
	for {
		f, hit, ok := w.buffer.Acquire(int64(u.block))
		if !ok {
			if err := w.buffer.WaitUnpinned(ctx); err != nil {
				return err
			}
			continue
		}
		u.frame = f
		if hit {
			s.units <- u
			return nil
		}
		e.meter.graphBlocks.Add(1)
		if e.plan.published {
			s.units <- u
			e.load(u.block, f.Bytes(), f.Ready)
			return nil
		}
		s.loading.Add(1)
		e.load(u.block, f.Bytes(), func(err error) {
			defer s.loading.Done()
			f.Ready(err)
			s.units <- u
		})
		return nil
	}
}
