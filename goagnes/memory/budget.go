package memory

import (
	"fmt"
	"maps"
	"slices"
	"sync"
)

// Budget is a number of bytes that consumers share by leases. Its methods may
// be called from several goroutines.
type Budget struct {
	total int64
	share *Lease // of the parent, nil at the root

	mu struct {
		sync.Mutex
		used      int64
		peak      int64
		consumers map[string]int64
		peaks     map[string]int64 // most bytes of each consumer at one time
		givers    []*func()

		brief   int64 // of used, what comes free by itself
		waiting int   // reservations that wait for it
		ended   *sync.Cond
	}
}

// Lease is a part of a budget held by one consumer.
type Lease struct {
	budget   *Budget
	consumer string
	brief    bool
	bytes    int64 // under budget.mu; -1 once released
}

// BudgetError refuses memory that the budget does not have.
type BudgetError struct {
	Consumer string
	Need     int64 // bytes asked for
	Free     int64
	Total    int64
	Enough   int64 // budget that would do; 0: that with Need-Free bytes more
}

func (e *BudgetError) Error() string {
	enough := e.Enough
	if enough == 0 {
		enough = e.Total - e.Free + e.Need
	}
	return fmt.Sprintf("%s needs %s, %s of the memory budget of %s are free: set memory to %d or more",
		e.Consumer, size(e.Need), size(e.Free), size(e.Total), enough)
}

// Class returns the error class "budget".
func (e *BudgetError) Class() string { return "budget" }

// size writes a number of bytes for people: exactly, and rounded up in the
// largest unit that leaves three digits.
func size(n int64) string {
	units := []string{"KiB", "MiB", "GiB", "TiB"}
	if n < 1<<10 {
		return fmt.Sprintf("%d bytes", n)
	}
	v, u := float64(n)/1024, 0
	for v >= 1024 && u < len(units)-1 {
		v, u = v/1024, u+1
	}
	return fmt.Sprintf("%.4g %s", v, units[u])
}

// Refusal returns a *BudgetError where a budget of total bytes, of which others use
// some, is below what is needed. need tells what a budget of so many bytes must
// hold, others included: parts of it may be fractions of the budget, so it ascends
// with the budget, slower than the budget itself. The error names the least budget
// that is enough for its own need.
func Refusal(consumer string, total, others int64, need func(total int64) int64) error {
	needed := need(total)
	if needed <= total {
		return nil
	}
	enough := total
	for n := needed; n > enough; n = need(enough) {
		enough = n
	}
	return &BudgetError{Consumer: consumer, Need: needed - others, Free: max(0, total-others), Total: total, Enough: enough}
}

// NewBudget returns a budget of that many bytes.
func NewBudget(total int64) *Budget {
	b := &Budget{total: max(total, 0)}
	b.mu.consumers, b.mu.peaks = map[string]int64{}, map[string]int64{}
	b.mu.ended = sync.NewCond(&b.mu)
	return b
}

// Reserve takes n bytes for a consumer, whose name is what people read, or
// fails with a *BudgetError.
func (b *Budget) Reserve(consumer string, n int64) (*Lease, error) {
	l := &Lease{budget: b, consumer: consumer}
	if err := l.Resize(n); err != nil {
		return nil, err
	}
	return l, nil
}

// ReserveBriefly is Reserve for work that ends by itself, whoever else waits: a read,
// not what a consumer keeps. Other reservations wait for its end where they lack its
// bytes, which count as free, and it fails while one waits. So such work can be done
// at any time without anybody failing for it who has reckoned with what is free.
func (b *Budget) ReserveBriefly(consumer string, n int64) (*Lease, error) {
	l := &Lease{budget: b, consumer: consumer, brief: true}
	if err := l.Resize(n); err != nil {
		return nil, err
	}
	return l, nil
}

// Resize changes the lease to n bytes. When it fails, with a *BudgetError,
// the lease is as before. It waits for the end of leases that are brief.
func (l *Lease) Resize(n int64) error {
	if n < 0 {
		panic(fmt.Sprintf("memory: %s reserves %d bytes", l.consumer, n))
	}
	err := l.tryResize(n)
	if err != nil {
		l.budget.Reclaim()
		err = l.tryResize(n)
	}
	return err
}

func (l *Lease) tryResize(n int64) error {
	b := l.budget
	b.mu.Lock()
	defer b.mu.Unlock()
	if l.bytes < 0 {
		panic("memory: " + l.consumer + " resizes a released lease")
	}
	for {
		more, free := n-l.bytes, b.total-b.mu.used
		switch {
		case more <= 0, more <= free && !(l.brief && b.mu.waiting > 0):
			l.setLocked(n)
			return nil
		case l.brief, more > free+b.mu.brief:
			return &BudgetError{Consumer: l.consumer, Need: more, Free: free + b.mu.brief, Total: b.total}
		}
		b.mu.waiting++
		b.mu.ended.Wait()
		b.mu.waiting--
	}
}

// OnShortage registers a function that gives back what its caller keeps without
// need: it is called when a reservation does not fit, which is then tried again,
// and by Reclaim. It must not reserve. The returned function, to be called once,
// ends that; give may be running then on another goroutine.
func (b *Budget) OnShortage(give func()) (end func()) {
	p := &give
	b.mu.Lock()
	defer b.mu.Unlock()
	b.mu.givers = append(b.mu.givers, p)
	return func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.mu.givers = slices.DeleteFunc(slices.Clone(b.mu.givers), func(g *func()) bool { return g == p })
	}
}

// Reclaim has everybody give back what is kept without need.
func (b *Budget) Reclaim() {
	b.mu.Lock()
	givers := b.mu.givers
	b.mu.Unlock()
	for _, give := range givers {
		(*give)()
	}
}

func (l *Lease) setLocked(n int64) {
	b := l.budget
	if l.brief {
		b.mu.brief += n - l.bytes
	}
	if n < l.bytes && b.mu.waiting > 0 {
		b.mu.ended.Broadcast()
	}
	b.mu.used += n - l.bytes
	b.mu.peak = max(b.mu.peak, b.mu.used)
	b.mu.consumers[l.consumer] += n - l.bytes
	b.mu.peaks[l.consumer] = max(b.mu.peaks[l.consumer], b.mu.consumers[l.consumer])
	if b.mu.consumers[l.consumer] == 0 {
		delete(b.mu.consumers, l.consumer)
	}
	l.bytes = n
}

// Bytes returns the size of the lease, 0 once released.
func (l *Lease) Bytes() int64 {
	l.budget.mu.Lock()
	defer l.budget.mu.Unlock()
	return max(l.bytes, 0)
}

// Total returns the bytes of the budget that the lease is a part of.
func (l *Lease) Total() int64 { return l.budget.total }

// Release gives the lease's bytes back. A second Release does nothing.
func (l *Lease) Release() {
	l.budget.mu.Lock()
	defer l.budget.mu.Unlock()
	if l.bytes >= 0 {
		l.setLocked(0)
		l.bytes = -1
	}
}

// Sub returns a budget of n bytes that are reserved in b under "share" until
// the Close of the new one.
func (b *Budget) Sub(n int64) (*Budget, error) {
	l, err := b.Reserve("share", n)
	if err != nil {
		return nil, err
	}
	s := NewBudget(n)
	s.share = l
	return s, nil
}

// Close gives a share back to the budget it was taken from. It panics where
// leases of the share are not released. For other budgets it does nothing.
func (b *Budget) Close() {
	if b.share == nil {
		return
	}
	if used := b.Used(); used != 0 {
		panic(fmt.Sprintf("memory: a share is closed with %d bytes in use: %v", used, b.Consumers()))
	}
	b.share.Release()
}

// Total returns the bytes of the budget.
func (b *Budget) Total() int64 { return b.total }

// Used returns the bytes under lease.
func (b *Budget) Used() int64 { b.mu.Lock(); defer b.mu.Unlock(); return b.mu.used }

// Free returns the bytes that can still be reserved, those of brief leases included.
func (b *Budget) Free() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.total - b.mu.used + b.mu.brief
}

// Peak returns the most bytes that were under lease at one time.
func (b *Budget) Peak() int64 { b.mu.Lock(); defer b.mu.Unlock(); return b.mu.peak }

// Consumers returns the bytes under lease by consumer.
func (b *Budget) Consumers() map[string]int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return maps.Clone(b.mu.consumers)
}

// Peaks returns the most bytes that each consumer had under lease at one time;
// consumers reach them at different times.
func (b *Budget) Peaks() map[string]int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return maps.Clone(b.mu.peaks)
}
