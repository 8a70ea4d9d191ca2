package control

// stream: a loader's epochs, one at a time, read with timeouts.
//
// The engine's Start may wait for the epoch before to end, so it runs on a
// goroutine of its own. Next is called on the caller's thread: a goroutine in
// between would cost more than the rest of the call.

import (
	"context"
	"errors"
	"sync"
	"time"
)

// ErrTimeout says that no minibatch came within the time given.
var ErrTimeout error = errorf("interrupted", "no minibatch yet")

var (
	errLoaderClosed = errorf("closed", "the loader is closed")
	errLeft         = errorf("closed", "the iterator was closed")
	errSuperseded   = errorf("closed", "a newer iterator of this loader was begun; one epoch runs at a time")
)

// epoch is one pass over a loader.
type epoch struct {
	number  int64
	ctx     context.Context
	cancel  context.CancelFunc
	started chan struct{} // closed once the engine's Start has returned
	over    error         // what every later call gets; guarded by stream.mu
}

type stream struct {
	loader Loader
	turn   chan struct{} // held by whoever calls the loader's Start or Next

	mu      sync.Mutex
	current *epoch
	count   int64
	closed  bool
}

func newStream(loader Loader) *stream {
	return &stream{loader: loader, turn: make(chan struct{}, 1)}
}

// begin ends the current epoch and starts the next one.
func (s *stream) begin() (int64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return 0, errLoaderClosed
	}
	if s.current != nil {
		s.current.cancel()
	}
	s.count++
	ctx, cancel := context.WithCancel(context.Background())
	e := &epoch{number: s.count, ctx: ctx, cancel: cancel, started: make(chan struct{})}
	s.current = e
	go func() {
		defer close(e.started)
		s.turn <- struct{}{}
		defer func() { <-s.turn }()
		if ctx.Err() != nil {
			return // left before it began: the loader need not know
		}
		if _, err := guarded(func() (any, error) { return nil, s.loader.Start(ctx) }); err != nil {
			s.end(e, err)
		}
	}()
	return e.number, nil
}

// end makes err the answer of every later call, unless there is one already.
func (s *stream) end(e *epoch, err error) {
	s.mu.Lock()
	if e.over == nil {
		e.over = err
	}
	s.mu.Unlock()
	e.cancel()
}

// find returns the epoch, or why it gives no minibatch any more.
func (s *stream) find(number int64) (*epoch, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.current
	switch {
	case s.closed:
		return nil, errLoaderClosed
	case e == nil || e.number != number:
		return nil, errSuperseded
	case e.over != nil:
		return nil, e.over
	case e.ctx.Err() != nil:
		return nil, errLeft
	}
	return e, nil
}

// next returns the next minibatch. Giving up after the timeout loses nothing.
func (s *stream) next(number int64, timeout time.Duration) (*Batch, error) {
	e, err := s.find(number)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(e.ctx, timeout)
	defer cancel()
	select {
	case <-e.started:
	case <-ctx.Done():
		return nil, s.gaveUp(number)
	}
	select {
	case s.turn <- struct{}{}:
	case <-ctx.Done():
		return nil, s.gaveUp(number)
	}
	defer func() { <-s.turn }()
	// The epoch may have ended while another thread had its turn.
	if _, err := s.find(number); err != nil {
		return nil, err
	}
	batch, err := guarded(func() (*Batch, error) { return s.loader.Next(ctx) })
	switch {
	case err == nil:
		return batch, nil
	case e.ctx.Err() != nil, ctx.Err() != nil && errors.Is(err, ctx.Err()):
		return nil, s.gaveUp(number)
	}
	s.end(e, err)
	return nil, err
}

// gaveUp says why a wait ended without a minibatch.
func (s *stream) gaveUp(number int64) error {
	if _, err := s.find(number); err != nil {
		return err
	}
	return ErrTimeout
}

// leave ends an epoch that nobody reads any more.
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
	if s.current != nil {
		s.current.cancel()
	}
	s.mu.Unlock()
	return s.loader.Close()
}
