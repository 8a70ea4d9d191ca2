package storage

import (
	"io"
	"sync"
	"time"

	"github.com/goagnes/goagnes/layout"
)

// DefaultDepth is the number of requests that a pool keeps in flight unless
// told otherwise: enough to saturate the devices measured from 256 KiB on.
const DefaultDepth = 16

// MaxDepth bounds PoolOptions.Depth; every request in flight occupies a thread.
const MaxDepth = 1024

// PoolOptions configure a Pool; the zero value is the default.
type PoolOptions struct {
	Depth    int  // requests in flight, 0 = DefaultDepth, at most MaxDepth
	Buffered bool // stores and writers that use the pool go through the page cache
	FS       FS   // of stores and writers that use the pool; nil = OS
}

// Pool keeps up to Depth positioned reads and writes in flight. Requests are
// started in the order of Submit and finish in any order.
type Pool struct {
	options PoolOptions
	stats   recorder
	workers sync.WaitGroup

	mu struct {
		sync.Mutex
		work        sync.Cond
		first, last *Request // queue, linked through Request.next
		closed      bool
	}
}

// Request is one positioned read or write. It belongs to the pool from Submit
// until Done is called, and may be used again afterwards.
type Request struct {
	File   *File
	Offset int64
	Buf    []byte         // page-aligned, whole pages
	Write  bool           // else a read
	Check  *Section       // verify the pages after the read; nil = no
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

// NewPool starts a pool. Close stops it.
func NewPool(o PoolOptions) *Pool {
	if o.Depth <= 0 {
		o.Depth = DefaultDepth
	}
	o.Depth = min(o.Depth, MaxDepth)
	o.FS = orOS(o.FS)
	p := &Pool{options: o}
	p.mu.work.L = &p.mu
	p.workers.Add(o.Depth)
	for range o.Depth {
		go p.worker()
	}
	return p
}

// Depth returns the number of requests that the pool keeps in flight.
func (p *Pool) Depth() int { return p.options.Depth }

// FS returns the file system of the stores and writers that use the pool.
func (p *Pool) FS() FS { return p.options.FS }

// Counters returns what the pool has moved so far, checksum tables included.
func (p *Pool) Counters() Counters { return p.stats.counters() }

// Submit queues a request and returns at once. After Close, requests end with
// ErrClosed.
func (p *Pool) Submit(r *Request) {
	if r.Done == nil {
		panic("storage: Submit of a request without Done")
	}
	r.validate()
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
	r.next = nil
	p.mu.Lock()
	if p.mu.closed {
		p.mu.Unlock()
		r.Err = r.File.fail(opName(r.Write), r.Offset, ErrClosed)
		go p.finish(r)
		return
	}
	if p.mu.last == nil {
		p.mu.first = r
	} else {
		p.mu.last.next = r
	}
	p.mu.last = r
	p.mu.Unlock()
	p.mu.work.Signal()
}

// Do performs a request on the calling goroutine, beside the workers, and
// counts it. Done is not called; the result is also r.Err. It works on a
// closed pool, too.
func (p *Pool) Do(r *Request) error {
	r.validate()
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
	p.check(r)
	return r.Err
}

// Close refuses new requests, waits until those submitted are done, and stops
// the workers. Files stay open. It must not be called from a Done function.
func (p *Pool) Close() error {
	p.mu.Lock()
	p.mu.closed = true
	p.mu.Unlock()
	p.mu.work.Broadcast()
	p.workers.Wait()
	return nil
}

func (p *Pool) worker() {
	defer p.workers.Done()
	for {
		p.mu.Lock()
		for p.mu.first == nil && !p.mu.closed {
			p.mu.work.Wait()
		}
		r := p.mu.first
		if r == nil {
			p.mu.Unlock()
			return
		}
		if p.mu.first = r.next; p.mu.first == nil {
			p.mu.last = nil
		}
		p.mu.Unlock()
		r.next = nil
		p.move(r)
		p.finish(r)
	}
}

func (r *Request) validate() {
	if r.File == nil || r.Offset < 0 || len(r.Buf) == 0 || !aligned(r.Buf, r.Offset) {
		panic("storage: a request needs a file and a page-aligned offset, buffer and length")
	}
	if r.Check != nil && (r.Write || r.Check.file != r.File || r.Offset+int64(len(r.Buf)) > r.Check.FileBytes()) {
		panic("storage: only a read within the section's own file can be checked against it")
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
	r.Err = err
}

// check verifies what a request has read.
func (p *Pool) check(r *Request) {
	if r.Err != nil || r.Check == nil {
		return
	}
	since := time.Now()
	r.Err = r.Check.verify(r.Buf, r.Offset)
	p.stats.verified(int64(len(r.Buf))/layout.PageSize, since, r.Err)
}

// finish ends a request that was moved or refused: it is verified and handed
// back, for the part of a striped one when all other parts have ended.
func (p *Pool) finish(r *Request) {
	if top := r.parent; top != nil {
		if !top.ended() {
			return
		}
		r = top
	}
	p.check(r)
	r.Done(r)
}
