package memory

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// ErrClosed is returned by Get of a closed SlabPool.
var ErrClosed error = closedError{}

type closedError struct{}

func (closedError) Error() string { return "memory: the pool of minibatches is closed" }

// Class returns the error class "closed".
func (closedError) Class() string { return "closed" }

const (
	slabUnit  = 256 << 10 // sizes of slabs are multiples of it
	waitSlice = 50 * time.Millisecond
)

// DefaultSlabWait is how long Get waits for a consumer to release a minibatch.
const DefaultSlabWait = 30 * time.Second

// PoolError says that no memory became free in time: the consumer holds too
// many minibatches. With Waited 0 the request alone exceeds the limit.
type PoolError struct {
	Purpose   string // what memory was wanted for, where not for a slab
	Need      int64  // bytes that were asked for
	Limit     int64  // bytes that the pool may map
	Held      int64  // slabs that consumers hold
	HeldBytes int64
	Waited    time.Duration
}

func (e *PoolError) Error() string {
	if e.Waited == 0 {
		return fmt.Sprintf("a minibatch needs %s, the memory for minibatches is limited to %s: raise memory or lower batch_size or num_neighbors", size(e.Need), size(e.Limit))
	}
	purpose := "a minibatch of " + size(e.Need)
	if e.Purpose != "" {
		purpose = e.Purpose + ", " + size(e.Need) + ","
	}
	return fmt.Sprintf("no memory for %s came free in %v: the consumer holds %d minibatches of together %s, of at most %s: release them sooner or raise memory",
		purpose, e.Waited.Round(time.Millisecond), e.Held, size(e.HeldBytes), size(e.Limit))
}

// Class returns the error class "budget".
func (e *PoolError) Class() string { return "budget" }

// SlabCounters tell what a SlabPool did and holds.
type SlabCounters struct {
	Gets        int64 `json:"gets"`
	Reused      int64 `json:"reused"`   // gets served by a slab used before
	Waited      int64 `json:"waited"`   // gets that waited for a consumer
	Mapped      int64 `json:"mapped"`   // slabs mapped
	Unmapped    int64 `json:"unmapped"` // slabs unmapped by the pool
	Orphaned    int64 `json:"orphaned"` // slabs that consumers still held when the pool was closed
	MappedBytes int64 `json:"mapped_bytes"`
	PeakBytes   int64 `json:"peak_bytes"`
	InUse       int64 `json:"in_use"` // slabs that consumers hold now
}

// SlabPool hands out slabs and uses them again once every reference but its
// own is dropped. What it maps, up to a limit, is leased from the budget; a
// Get beyond that waits for the consumers, which is the back-pressure on
// whoever fills the minibatches. Gets that wait are served in no order: a large
// one may be overtaken by smaller ones for as long as it waits.
type SlabPool struct {
	// Wait bounds the waiting of Get and Retry, 0 = DefaultSlabWait. Set it, and
	// Asking, before the first Get.
	Wait time.Duration
	// Asking tells whether the consumer waits for a minibatch; nil: always. Time
	// counts only while it does: a consumer that works on what it holds may take any.
	Asking func() bool

	limit int64
	lease *Lease

	mu struct {
		sync.Mutex
		slabs  []*Slab
		closed bool
		SlabCounters
	}
}

// NewSlabPool returns a pool that maps at most limit bytes, 0 = as the budget
// allows. b may be nil.
func NewSlabPool(b *Budget, limit int64) *SlabPool {
	if b == nil {
		b = NewBudget(math.MaxInt64)
	}
	if limit <= 0 {
		limit = b.Total()
	}
	lease, err := b.Reserve("minibatches", 0)
	if err != nil {
		panic("memory: a lease of nothing is refused: " + err.Error())
	}
	wakeWord() // before any slab names it
	return &SlabPool{limit: limit, lease: lease}
}

// SlabBytes returns the bytes of the mapping that Get(n) makes.
func SlabBytes(n int64) int64 { return roundUp(n+SlabHeader, slabUnit) }

// Get returns a slab with n bytes or more after its header; the reference it
// comes with is the caller's. It waits while the limit or the budget leaves no
// room and consumers hold slabs. It fails with the context's error, ErrClosed,
// a *PoolError, or a *BudgetError where waiting would not help.
func (p *SlabPool) Get(ctx context.Context, n int64) (*Slab, error) {
	if n < 0 || n > maxMapping {
		panic(fmt.Sprintf("memory: a slab of %d bytes", n))
	}
	need := SlabBytes(n)
	if need > p.limit {
		return nil, &PoolError{Need: need, Limit: p.limit}
	}
	w := p.patience()
	for first := true; ; first = false {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		seen := atomic.LoadInt32(wakeWord())
		s, held, err := p.try(need, first)
		if s != nil || err != nil {
			return s, err
		}
		if !w.wait(seen) {
			held.Waited = w.waited
			return nil, held
		}
	}
}

// patience is how long somebody has waited for a consumer that asks.
type patience struct {
	pool         *SlabPool
	left, waited time.Duration
}

func (p *SlabPool) patience() *patience {
	w := &patience{pool: p, left: p.Wait}
	if w.left <= 0 {
		w.left = DefaultSlabWait
	}
	return w
}

// wait returns after a slice of time or when a slab was released since seen was read;
// false where the patience is used up.
func (w *patience) wait(seen int32) bool {
	if w.left <= 0 {
		return false
	}
	slice, start := waitSlice, time.Now()
	asked := w.pool.asking()
	if asked {
		slice = min(slice, w.left)
	}
	waitWake(seen, unix.NsecToTimespec(int64(slice)))
	if d := time.Since(start); asked && w.pool.asking() {
		w.left, w.waited = w.left-d, w.waited+d
	}
	return true
}

func (p *SlabPool) asking() bool { return p.Asking == nil || p.Asking() }

// Retry runs f, and again whenever the consumer has released a minibatch, for as
// long as f fails for want of the budget's memory. It gives up with f's error where
// the consumer asks for a minibatch and holds no more than so many, as it may; and
// with a *PoolError where it holds more for too long.
func (p *SlabPool) Retry(ctx context.Context, mayHold int64, f func() error) error {
	for w := p.patience(); ; {
		err := f()
		var refused *BudgetError
		if err == nil || !errors.As(err, &refused) {
			return err
		}
		if p.Trim() { // what was released before or while f ran
			continue
		}
		before := p.Counters().InUse
		for held := before; held >= before; held = p.Counters().InUse {
			seen := atomic.LoadInt32(wakeWord())
			switch {
			case held == 0, held <= mayHold && p.asking():
				return err
			case ctx.Err() != nil:
				return ctx.Err()
			}
			if !w.wait(seen) {
				e := &PoolError{Purpose: refused.Consumer, Need: refused.Need, Limit: p.limit, Waited: w.waited}
				p.mu.Lock()
				e.Held, e.HeldBytes = p.heldLocked()
				p.mu.Unlock()
				return e
			}
		}
	}
}

// try returns a slab of need bytes; or no slab and no error where one may
// come free, and then what consumers hold.
func (p *SlabPool) try(need int64, first bool) (*Slab, *PoolError, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.mu.closed {
		return nil, nil, ErrClosed
	}
	if s := p.fitLocked(need); s != nil {
		p.mu.Reused++
		p.takeLocked(s)
		return s, nil, nil
	}
	// Free slabs that do not fit make room before others are asked for what they keep.
	var s *Slab
	var refused error
	for {
		if s, refused = p.mapLocked(need, (*Lease).tryResize); s != nil || !p.unmapFreeLocked() {
			break
		}
	}
	if s == nil {
		s, refused = p.mapLocked(need, (*Lease).Resize)
	}
	if s != nil {
		p.takeLocked(s)
		return s, nil, nil
	}
	if len(p.mu.slabs) == 0 { // nothing comes free, however long the wait
		if refused == nil {
			panic("memory: an empty pool is full")
		}
		return nil, nil, refused
	}
	held := &PoolError{Need: need, Limit: p.limit}
	held.Held, held.HeldBytes = p.heldLocked()
	if first {
		p.mu.Waited++
	}
	return nil, held, nil
}

func (p *SlabPool) takeLocked(s *Slab) {
	p.mu.Gets++
	if invariants {
		poison(s.Bytes()) // also what another language released
	}
	atomic.StoreInt32(&s.header().refs, 2)
}

// fitLocked returns the smallest free slab that is large enough, but none so
// large that it would be wasted.
func (p *SlabPool) fitLocked(need int64) *Slab {
	var best *Slab
	for _, s := range p.mu.slabs {
		if s.length >= need && s.length <= 2*need+slabUnit && s.free() && (best == nil || s.length < best.length) {
			best = s
		}
	}
	return best
}

// free reports whether the pool alone holds the slab; then nobody can take
// another reference.
func (s *Slab) free() bool { return atomic.LoadInt32(&s.header().refs) == 1 }

// mapLocked maps a new slab; nil and perhaps the reason where there is no room.
// resize is how the lease grows.
func (p *SlabPool) mapLocked(need int64, resize func(*Lease, int64) error) (*Slab, error) {
	if p.mu.MappedBytes+need > p.limit {
		return nil, nil
	}
	if err := resize(p.lease, p.mu.MappedBytes+need); err != nil {
		return nil, err
	}
	base, err := mapPages(need)
	if err != nil {
		p.shrinkLease()
		return nil, &MapError{Bytes: need, Err: err}
	}
	s := &Slab{base: base, length: need}
	s.pooled.Store(true)
	h := s.header()
	h.length, h.wake = uint64(need), wakeAddress()
	atomic.StoreInt32(&h.refs, 1)
	p.mu.slabs = append(p.mu.slabs, s)
	p.mu.Mapped++
	p.mu.MappedBytes += need
	p.mu.PeakBytes = max(p.mu.PeakBytes, p.mu.MappedBytes)
	return s, nil
}

// shrinkLease sets the lease to what is mapped, which never fails.
func (p *SlabPool) shrinkLease() {
	if err := p.lease.Resize(p.mu.MappedBytes); err != nil {
		panic("memory: a lease cannot shrink: " + err.Error())
	}
}

// unmapFreeLocked unmaps the smallest free slab; false where there is none.
func (p *SlabPool) unmapFreeLocked() bool {
	at := -1
	for i, s := range p.mu.slabs {
		if s.free() && (at < 0 || s.length < p.mu.slabs[at].length) {
			at = i
		}
	}
	if at < 0 {
		return false
	}
	s := p.mu.slabs[at]
	p.mu.slabs[at] = p.mu.slabs[len(p.mu.slabs)-1]
	p.mu.slabs = p.mu.slabs[:len(p.mu.slabs)-1]
	p.mu.Unmapped++
	p.mu.MappedBytes -= s.length
	s.pooled.Store(false)
	s.drop()
	p.shrinkLease()
	return true
}

func (p *SlabPool) heldLocked() (slabs, bytes int64) {
	for _, s := range p.mu.slabs {
		if !s.free() {
			slabs++
			bytes += s.length
		}
	}
	return slabs, bytes
}

// Counters returns the pool's counters.
func (p *SlabPool) Counters() SlabCounters {
	p.mu.Lock()
	defer p.mu.Unlock()
	c := p.mu.SlabCounters
	c.InUse, _ = p.heldLocked()
	return c
}

// Trim unmaps the slabs that nobody holds and returns their bytes to the
// budget; it tells whether there were some.
func (p *SlabPool) Trim() (some bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for p.unmapFreeLocked() {
		some = true
	}
	return some
}

// Close drops the pool's references and its lease. Slabs that consumers hold
// live on until released; from then on they are the consumers' memory, no
// longer counted by the budget. Gets that wait fail with ErrClosed. A second
// Close does nothing.
func (p *SlabPool) Close() error {
	p.mu.Lock()
	if p.mu.closed {
		p.mu.Unlock()
		return nil
	}
	p.mu.closed = true
	held, _ := p.heldLocked()
	p.mu.Orphaned = held
	p.mu.Unmapped += int64(len(p.mu.slabs)) - held
	for _, s := range p.mu.slabs {
		s.pooled.Store(false)
		s.drop()
	}
	p.mu.slabs, p.mu.MappedBytes = nil, 0
	p.mu.Unlock()
	p.lease.Release()
	wakeAll()
	return nil
}
