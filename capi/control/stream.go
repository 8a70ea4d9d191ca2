package control

// stream: a loader's epochs, one at a time, read with timeouts.
//
// The engine's Next is called from one goroutine per epoch and only when a
// minibatch was asked for, so that giving up a wait neither disturbs the engine
// nor loses a minibatch: the next call finds it.

import (
	"context"
	"errors"
	"io"
	"sync"
	"time"
)

// ErrTimeout says that no minibatch came within the time given.
var ErrTimeout error = errorf("interrupted", "no minibatch yet")

type result struct {
	batch *Batch
	err   error
}

func (r result) drop() {
	if r.batch != nil {
		r.batch.Release()
	}
}

// epoch is one pass over a loader.
type epoch struct {
	number  int64
	ctx     context.Context
	cancel  context.CancelFunc
	asked   chan struct{} // one pending request
	results chan result   // and its answer
	ended   chan struct{} // its goroutine has returned

	waiting bool  // a request is pending; guarded by stream.turn
	over    error // what every later call gets; guarded by stream.turn
}

type stream struct {
	loader Loader
	turn   chan struct{} // held by whoever takes minibatches

	mu      sync.Mutex
	current *epoch
	count   int64
	closed  bool
	shut    chan struct{} // closed with the stream
}

func newStream(loader Loader) *stream {
	return &stream{loader: loader, turn: make(chan struct{}, 1), shut: make(chan struct{})}
}

var errLoaderClosed = errorf("closed", "the loader is closed")

func (s *stream) begin() (int64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return 0, errLoaderClosed
	}
	before := s.current
	if before != nil {
		before.cancel()
	}
	s.count++
	ctx, cancel := context.WithCancel(context.Background())
	e := &epoch{number: s.count, ctx: ctx, cancel: cancel, asked: make(chan struct{}, 1),
		results: make(chan result, 1), ended: make(chan struct{})}
	s.current = e
	go s.run(e, before)
	return e.number, nil
}

// run serves the requests of one epoch until it is left.
func (s *stream) run(e, before *epoch) {
	defer close(e.ended)
	if before != nil {
		<-before.ended
	}
	defer guarded(func() (any, error) { s.loader.Stop(); return nil, nil }) //nolint:errcheck // nobody is left to tell
	_, err := guarded(func() (any, error) { return nil, s.loader.Start(e.ctx) })
	for {
		select {
		case <-e.ctx.Done():
			// Either a call of next that runs at this moment takes what was
			// answered, or it is released here.
			select {
			case r := <-e.results:
				r.drop()
			default:
			}
			return
		case <-e.asked:
		}
		var batch *Batch
		if err == nil {
			batch, err = guarded(func() (*Batch, error) { return s.loader.Next(e.ctx) })
		}
		e.results <- result{batch, err}
	}
}

func (s *stream) next(number int64, timeout time.Duration) (*Batch, error) {
	timer := time.NewTimer(timeout)
	defer timer.Stop()
	select {
	case s.turn <- struct{}{}:
	case <-timer.C:
		return nil, ErrTimeout
	case <-s.shut:
		return nil, errLoaderClosed
	}
	defer func() { <-s.turn }()

	s.mu.Lock()
	e, closed := s.current, s.closed
	s.mu.Unlock()
	switch {
	case closed:
		return nil, errLoaderClosed
	case e == nil || e.number != number:
		return nil, errorf("closed", "a newer iterator of this loader was begun; one epoch runs at a time")
	case e.over != nil:
		return nil, e.over
	}
	if !e.waiting {
		e.waiting = true
		e.asked <- struct{}{}
	}
	select {
	case r := <-e.results:
		e.waiting = false
		if r.err != nil {
			e.over = r.err
			if !errors.Is(r.err, io.EOF) && e.ctx.Err() != nil {
				e.over = errorf("closed", "the iterator was closed")
			}
			e.cancel()
			return nil, e.over
		}
		return r.batch, nil
	case <-timer.C:
		return nil, ErrTimeout
	case <-e.ended:
		return nil, errorf("closed", "the iterator was closed")
	}
}

func (s *stream) leave(number int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.current != nil && s.current.number == number {
		s.current.cancel()
	}
}

func (s *stream) close() error {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return nil
	}
	s.closed = true
	e := s.current
	close(s.shut)
	s.mu.Unlock()
	if e != nil {
		e.cancel()
	}
	err := s.loader.Close()
	if e != nil {
		<-e.ended
	}
	return err
}
