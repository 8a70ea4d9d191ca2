package storage

import (
	"errors"
	"io"
	"runtime"
	"sync"
	"time"

	"github.com/goagnes/goagnes/layout"
)

// The number of requests that a pool keeps in flight unless told otherwise:
// DefaultDepth with system calls, where each occupies a thread and the devices
// measured are saturated from 256 KiB on; DefaultRingDepth with io_uring, where
// 4 KiB reads profit from more.
const (
	DefaultDepth     = 16
	DefaultRingDepth = 64
)

// MaxDepth bounds PoolOptions.Depth.
const MaxDepth = 1024

// The ways to the device, as PoolOptions.IO and Pool.Engine name them.
const (
	IOAuto     = "auto"     // IOUring where it can be used, else IOPread
	IOUring    = "uring"    // io_uring, direct
	IOPread    = "pread"    // system calls from a pool of threads, direct
	IOBuffered = "buffered" // likewise, through the page cache
)

// PoolOptions configure a Pool; the zero value is the default.
type PoolOptions struct {
	Depth int    // requests in flight, at most MaxDepth; 0 = DefaultDepth or DefaultRingDepth
	IO    string // "" = IOAuto; IOUring falls back too, as Pool.Engine and Pool.Refusal tell
	FS    FS     // of stores and writers that use the pool; nil = OS
}

// Pool keeps up to Depth positioned reads and writes in flight. Requests are
// started about in the order of Submit and finish in any order.
type Pool struct {
	options PoolOptions
	engine  string
	refusal error     // why there is no ring, where one was wanted
	ring    *ringPool // nil without
	stats   recorder
	workers sync.WaitGroup

	mu struct {
		sync.Mutex
		work    sync.Cond
		queue         // requests that wait for a worker, or a slot of the ring
		ended   queue // requests that came back from the ring, or from waiting for a checksum table
		pending int   // requests that were queued and are not finished
		idle    sync.Cond
		closed  bool // no more requests
		stopped bool // no more work
	}
}

// queue is a list of requests, linked through Request.next.
type queue struct{ first, last *Request }

func (q *queue) push(r *Request) {
	r.next = nil
	if q.last == nil {
		q.first = r
	} else {
		q.last.next = r
	}
	q.last = r
}

// pop returns the first request, nil where there is none.
func (q *queue) pop() *Request {
	r := q.first
	if r == nil {
		return nil
	}
	if q.first = r.next; q.first == nil {
		q.last = nil
	}
	r.next = nil
	return r
}

// Request is one positioned read or write. It belongs to the pool from Submit
// until Done is called, and may be used again afterwards.
type Request struct {
	File   *File
	Offset int64
	Buf    []byte         // page-aligned, whole pages
	Write  bool           // else a read
	Check  *Section       // verify the pages after the read; nil = no
	Seal   Seal           // of a file of scratch
	Tag    int64          // the caller's
	Err    error          // set before Done: an *Error or a *layout.Error
	Done   func(*Request) // called once, on a worker goroutine

	next *Request

	// Of requests on a striped file and on its parts.
	parts  []Request // on the parts of File
	open   int32     // of them, those that have not ended; atomic
	parent *Request  // whose part this is
	at     int64     // place of Buf in the parent's
}

// ringWorkers is the number of workers that verify and finish what a ring has
// read: a few more than processors, as some may be reading checksum tables.
func ringWorkers() int { return runtime.GOMAXPROCS(0) + 2 }

// NewPool starts a pool. Close stops it.
func NewPool(o PoolOptions) *Pool {
	o.FS = orOS(o.FS)
	p := &Pool{options: o, engine: IOPread}
	switch o.IO {
	case "", IOAuto, IOUring:
		depth := o.Depth
		if depth <= 0 {
			depth = DefaultRingDepth
		}
		if p.refusal = RingRefusal(); p.refusal == nil {
			p.ring, p.refusal = newRingPool(min(depth, MaxDepth))
		}
		if p.refusal == nil {
			p.engine, p.options.Depth = IOUring, depth
		}
	case IOPread:
	case IOBuffered:
		p.engine = IOBuffered
	default:
		panic("storage: no way to the device is called " + o.IO)
	}
	if p.options.Depth <= 0 {
		p.options.Depth = DefaultDepth
	}
	p.options.Depth = min(p.options.Depth, MaxDepth)
	p.mu.work.L, p.mu.idle.L = &p.mu, &p.mu
	workers := p.options.Depth
	if p.ring != nil {
		workers = ringWorkers()
		go p.reap()
	}
	p.workers.Add(workers)
	for range workers {
		go p.worker()
	}
	return p
}

// Engine returns the way to the device that is used: IOUring, IOPread or
// IOBuffered.
func (p *Pool) Engine() string { return p.engine }

// Refusal returns why IOUring is not used where it was wanted, else nil.
func (p *Pool) Refusal() error { return p.refusal }

// buffered tells that files are opened to go through the page cache.
func (p *Pool) buffered() bool { return p.engine == IOBuffered }

// Depth returns the number of requests that the pool keeps in flight.
func (p *Pool) Depth() int { return p.options.Depth }

// FS returns the file system of the stores and writers that use the pool.
func (p *Pool) FS() FS { return p.options.FS }

// Counters returns what the pool has moved so far, checksum tables included.
func (p *Pool) Counters() Counters {
	c := p.stats.counters()
	c.Engine, c.Direct = p.engine, !p.buffered() && c.FallbackBytes == 0
	if p.refusal != nil {
		c.Reason = p.refusal.Error()
	}
	return c
}

// Submit queues a request and returns at once. After Close, requests end with
// ErrClosed.
func (p *Pool) Submit(r *Request) {
	if r.Done == nil {
		panic("storage: Submit of a request without Done")
	}
	r.validate()
	r.seal()
	r.Err = nil
	if r.File.striped == nil {
		p.enqueue(r)
		return
	}
	parts := r.split()
	for i := range parts { // not parts itself once the last is under way
		p.enqueue(&parts[i])
	}
}

func (p *Pool) enqueue(r *Request) {
	p.mu.Lock()
	if p.mu.closed {
		p.mu.Unlock()
		r.Err = r.File.fail(opName(r.Write), r.Offset, ErrClosed)
		go p.finish(r)
		return
	}
	p.mu.pending++
	byRing := p.ring != nil && r.File.handle.Fd() >= 0
	switch {
	case p.ring == nil || byRing:
		p.mu.push(r)
	default: // no descriptor: a worker moves it
		r.Err = errNotMoved
		p.mu.ended.push(r)
	}
	p.mu.Unlock()
	if byRing {
		p.launchWaiting()
	} else {
		p.mu.work.Signal()
	}
}

// errNotMoved marks a request that a worker of a pool with a ring has to move.
var errNotMoved = errors.New("not moved yet")

// Do performs a request on the calling goroutine, beside the workers, and
// counts it. Done is not called; the result is also r.Err. It works on a
// closed pool, too.
func (p *Pool) Do(r *Request) error {
	r.validate()
	r.seal()
	r.Err = nil
	if r.File.striped == nil {
		p.move(r)
	} else {
		parts := r.split()
		for i := range parts {
			p.move(&parts[i])
			r.ended()
		}
	}
	p.check(r, true)
	return r.Err
}

// Close refuses new requests, waits until those submitted are done, and stops
// the workers. Files stay open. It must not be called from a Done function.
func (p *Pool) Close() error {
	p.mu.Lock()
	p.mu.closed = true
	for p.mu.pending > 0 {
		p.mu.idle.Wait()
	}
	stopped := p.mu.stopped
	p.mu.stopped = true
	p.mu.Unlock()
	p.mu.work.Broadcast()
	p.workers.Wait()
	if p.ring != nil && !stopped {
		p.stopRing()
	}
	return nil
}

// worker moves requests and finishes them or, beside a ring, finishes what it
// moved.
func (p *Pool) worker() {
	defer p.workers.Done()
	p.mu.Lock()
	defer p.mu.Unlock()
	for {
		r := p.mu.ended.pop()
		move := r != nil && r.Err == errNotMoved
		if r == nil && p.ring == nil {
			r = p.mu.queue.pop()
			move = r != nil
		}
		if r == nil && p.mu.stopped {
			return
		}
		if r == nil {
			p.mu.work.Wait()
			continue
		}
		p.mu.Unlock()
		if move {
			p.move(r)
		}
		finished := p.finish(r)
		p.mu.Lock()
		if !finished {
			continue
		}
		if p.mu.pending--; p.mu.pending == 0 && p.mu.closed {
			p.mu.idle.Broadcast()
		}
	}
}

// resume goes on with a request that finish left with a checksum table, which has
// come or, with err, has not.
func (p *Pool) resume(r *Request, err error) {
	r.Err = err
	p.mu.Lock()
	p.mu.ended.push(r)
	p.mu.Unlock()
	p.mu.work.Signal()
}

func (r *Request) validate() {
	if r.File == nil || r.Offset < 0 || len(r.Buf) == 0 || !aligned(r.Buf, r.Offset) {
		panic("storage: a request needs a file and a page-aligned offset, buffer and length")
	}
	if r.Check != nil && (r.Write || r.Check.file != r.File || r.Offset+int64(len(r.Buf)) > r.Check.FileBytes()) {
		panic("storage: only a read within the section's own file can be checked against it")
	}
	if s := &r.Seal; s.Unit < 0 || s.Unit%layout.PageSize != 0 || s.Sums != nil && int64(len(s.Sums)) < s.Units(int64(len(r.Buf))) {
		panic("storage: a seal needs units of whole pages, and a sum for each where they are kept in memory")
	}
}

// move transfers the bytes of a request on one file.
func (p *Pool) move(r *Request) {
	start := p.stats.begin()
	n, err := r.File.transfer(r.Buf, r.Offset, r.Write)
	if err == io.EOF {
		err = r.atEnd(int64(n))
	}
	p.stats.end(start, r.File, r.Write, int64(n), err)
	r.Err = r.located(err)
}

// located adds the block of the section to what failed in reading it.
func (r *Request) located(err error) error {
	top := r
	if r.parent != nil {
		top = r.parent
	}
	var e *Error
	if top.Check != nil && errors.As(err, &e) && e.Offset >= 0 {
		e.Block = top.Check.block(top.Offset + r.at + e.Offset - r.Offset)
	}
	return err
}

// check verifies what a request has read and reports whether that is done: else
// the request waits for a checksum table, and is resumed. With wait, the calling
// goroutine waits.
func (p *Pool) check(r *Request, wait bool) bool {
	scratch := r.File.role == roleScratch && !r.Write
	if r.Err != nil || r.Check == nil && !scratch {
		return true
	}
	since, pages := time.Now(), int64(len(r.Buf))/layout.PageSize
	if scratch {
		r.Err = r.sealed()
		p.stats.verified(pages, since, r.Err)
		return true
	}
	left := r
	if wait {
		left = nil
	}
	err := r.Check.verify(r.Buf, r.Offset, left)
	for l, ok := err.(*later); ok; l, ok = err.(*later) {
		if !wait {
			return false // r may be another worker's already
		}
		<-l.ready // outside verify's lock, for which the workers may wait
		err = r.Check.verify(r.Buf, r.Offset, nil)
	}
	r.Err = err
	p.stats.verified(pages, since, err)
	return true
}

// finish ends a request that was moved or refused: it is verified and handed
// back, for the part of a striped one when all other parts have ended. It
// reports false where the request is left with a checksum table.
func (p *Pool) finish(r *Request) bool {
	if top := r.parent; top != nil {
		if !top.ended() {
			return true
		}
		r = top
	}
	if !p.check(r, false) {
		return false
	}
	r.Done(r)
	return true
}
