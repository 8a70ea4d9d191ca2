package storage

// A pool's requests through an io_uring. Whoever submits a request hands it to
// the kernel itself while a slot is free; one goroutine, the reaper, takes
// completions and hands over what waited for the slots. Verification and Done
// run on the pool's workers, so that checksums keep several cores busy.

import (
	"io"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// ringStop is the userData of the NOP that ends the reaper; slots are below.
const ringStop = 1 << 32

// flight is a request at the device, in a slot.
type flight struct {
	request *Request
	steps   steps
	now     Transfer  // the step at the kernel
	until   time.Time // no earlier end of it
	begun   time.Time
}

// ringPool is what a pool has more where it uses a ring. All is under Pool.mu
// but the completion side of the ring, which is the reaper's.
type ringPool struct {
	ring   *ring
	slots  []flight
	free   []int32
	reaper chan struct{} // closed when the reaper has ended
	fixed  fixedBuffers
}

func newRingPool(depth int) (*ringPool, error) {
	r, err := newRing(depth)
	if err != nil {
		return nil, err
	}
	q := &ringPool{ring: r, slots: make([]flight, depth), reaper: make(chan struct{})}
	for i := range depth {
		q.free = append(q.free, int32(depth-1-i))
	}
	return q, nil
}

// launchWaiting gives free slots to the requests that wait for one and hands
// them to the kernel.
func (p *Pool) launchWaiting() {
	q := p.ring
	for {
		p.mu.Lock()
		if p.mu.first == nil || len(q.free) == 0 {
			p.flushLocked()
			p.mu.Unlock()
			return
		}
		r := p.mu.queue.pop()
		if !r.File.enter() {
			r.Err = r.File.fail(opName(r.Write), r.Offset, ErrClosed)
			p.mu.ended.push(r)
			p.mu.work.Signal()
			p.mu.Unlock()
			continue
		}
		i := q.free[len(q.free)-1]
		q.free = q.free[:len(q.free)-1]
		p.mu.Unlock()
		q.slots[i] = flight{request: r, begun: p.stats.begin(), steps: steps{file: r.File, buf: r.Buf, offset: r.Offset, write: r.Write}}
		p.launch(i)
	}
}

// flushLocked hands over what was pushed to the ring.
func (p *Pool) flushLocked() {
	if err := p.ring.ring.flush(); err != nil {
		panic("storage: io_uring_enter: " + err.Error())
	}
}

// launch pushes the next step of slot i; flushLocked must follow.
func (p *Pool) launch(i int32) {
	s := &p.ring.slots[i]
	f := s.request.File
	s.now, s.until = s.steps.next(), time.Time{}
	if f.watcher != nil {
		var err error
		if s.until, err = f.watcher.Begin(s.now); err != nil {
			p.advance(i, 0, err)
			return
		}
	}
	e := sqe{opcode: ringOpRead, fd: int32(f.handle.Fd()), offset: uint64(s.now.Offset),
		addr: uint64(uintptr(unsafe.Pointer(unsafe.SliceData(s.now.Buf)))), length: uint32(min(len(s.now.Buf), maxRingBytes)), userData: uint64(i)}
	if s.now.Write {
		e.opcode = ringOpWrite
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if i, ok := p.ring.fixed.find(s.now.Buf[:e.length]); ok {
		e.bufIndex, e.opcode = uint16(i), ringOpReadFixed
		if s.now.Write {
			e.opcode = ringOpWriteFixed
		}
	}
	p.ring.ring.push(e)
}

// maxRingBytes is what one entry moves at most: its length has 32 bits, and the
// kernel moves less than 2 GiB at a time.
const maxRingBytes = 1 << 30

// advance takes the outcome of a step of slot i and launches the next one, or
// ends the request and frees the slot.
func (p *Pool) advance(i int32, n int, err error) {
	s := &p.ring.slots[i]
	more, pause, err := s.steps.advance(n, err)
	if more && pause > 0 {
		time.AfterFunc(pause, func() { p.launch(i); p.launchWaiting() })
		return
	}
	if more {
		p.launch(i)
		return
	}
	r := s.request
	if err == io.EOF {
		err = r.atEnd(int64(s.steps.done))
	}
	p.stats.end(s.begun, r.File, r.Write, int64(s.steps.done), err)
	r.File.leave()
	r.Err = r.located(err)
	*s = flight{}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ring.free = append(p.ring.free, i)
	p.mu.ended.push(r)
	p.mu.work.Signal()
}

// landed takes the kernel's answer for slot i.
func (p *Pool) landed(i int32, n int, err error) {
	s := &p.ring.slots[i]
	if w := s.request.File.watcher; w != nil {
		n, err = w.End(s.now, n, err)
	}
	p.advance(i, n, err)
}

// reap takes completions until the ring is stopped.
func (p *Pool) reap() {
	q := p.ring
	defer close(q.reaper)
	for {
		c, ok := q.ring.pop()
		if !ok {
			p.launchWaiting() // into the slots that were freed, before waiting
			if c, ok = q.ring.pop(); !ok {
				if err := q.ring.wait(); err != nil {
					panic("storage: io_uring_enter: " + err.Error())
				}
				continue
			}
		}
		if c.userData == ringStop {
			return
		}
		i, n, err := int32(c.userData), int(c.res), error(nil)
		if c.res < 0 {
			n, err = 0, unix.Errno(-c.res)
		}
		// The lock tells the race detector what the kernel keeps in order: this
		// answer follows the submission.
		p.mu.Lock()
		until := q.slots[i].until
		p.mu.Unlock()
		if wait := time.Until(until); !until.IsZero() && wait > 0 {
			time.AfterFunc(wait, func() { p.landed(i, n, err); p.launchWaiting() })
			continue
		}
		p.landed(i, n, err)
	}
}

// stopRing ends the reaper; no request is at the device any more.
func (p *Pool) stopRing() {
	p.mu.Lock()
	p.ring.fixed = fixedBuffers{closed: true}
	p.ring.ring.push(sqe{opcode: ringOpNop, userData: ringStop})
	p.flushLocked()
	p.mu.Unlock()
	<-p.ring.reaper
	p.ring.ring.close()
}
