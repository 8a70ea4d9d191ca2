package goagnes

// The trainer's memory: model, optimiser and activations, out of the store's budget.

import (
	"sync"
	"unsafe"

	"github.com/goagnes/goagnes/goagnes/memory"
)

// budgetAllocator serves the trainer from the budget. What the trainer takes for
// its minibatches is set aside by the loaders that prepare them (see consumer), and
// what it gives back stays aside for the next minibatch: in between, sampling
// would take whatever is free.
type budgetAllocator struct {
	mu    sync.Mutex
	lease *memory.Lease
	used  int64 // bytes of the lease that are out
	fixed int64 // of those, what was taken before the first minibatch and is kept
	begun bool  // a loader has set memory aside
	out   map[*float32][]byte
}

const (
	trainingPurpose = "training"
	leastArray      = 64             // bytes of an array, however short
	leastModel      = 8 * leastArray // of a model of few parameters
)

func newAllocator(b *memory.Budget) *budgetAllocator {
	lease, err := b.Reserve(trainingPurpose, 0)
	if err != nil {
		panic("goagnes: a lease of nothing is refused: " + err.Error())
	}
	return &budgetAllocator{lease: lease, out: map[*float32][]byte{}}
}

// Allocate returns n floats, aligned to a page. Once minibatches are prepared it
// takes no more of the budget than was set aside.
func (b *budgetAllocator) Allocate(n int) ([]float32, error) {
	size := max(int64(n)*4, leastArray)
	b.mu.Lock()
	defer b.mu.Unlock()
	if room := b.lease.Bytes() - b.used; size > room {
		if b.begun {
			return nil, &memory.BudgetError{Consumer: trainingPurpose, Need: size, Free: room, Total: b.lease.Total()}
		}
		if err := b.lease.Resize(b.used + size); err != nil {
			return nil, err
		}
	}
	mem, err := memory.MapFor(trainingPurpose, size)
	if err != nil {
		return nil, err
	}
	f := viewAs[float32](mem)[:n:n]
	b.used += size
	b.out[unsafe.SliceData(f)] = mem
	if !b.begun {
		b.fixed = b.used
	}
	return f, nil
}

// Free takes floats back, whose bytes stay aside.
func (b *budgetAllocator) Free(f []float32) {
	b.mu.Lock()
	defer b.mu.Unlock()
	key := unsafe.SliceData(f)
	mem, ok := b.out[key]
	if !ok {
		panic("goagnes: floats that were not allocated here are freed")
	}
	delete(b.out, key)
	b.used -= int64(len(mem))
	unmap(mem)
}

func unmap(mem []byte) {
	if err := memory.Unmap(mem); err != nil {
		panic("goagnes: " + err.Error())
	}
}

// close gives everything back.
func (b *budgetAllocator) close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for key, mem := range b.out {
		delete(b.out, key)
		unmap(mem)
	}
	b.used = 0
	b.lease.Release()
}

// consumer is the trainer as a loader sees it.
type consumer struct {
	*budgetAllocator
	needs func(nodes, edges []int64) int64
}

func (c consumer) Needs(nodes, edges []int64) int64 { return max(c.needs(nodes, edges), leastArray) }

// Aside returns what is set aside for minibatches.
func (b *budgetAllocator) Aside() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.lease.Bytes() - b.fixed
}

// SetAside sets n bytes aside for minibatches.
func (b *budgetAllocator) SetAside(n int64) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.begun = true
	if b.fixed+n <= b.lease.Bytes() {
		return nil
	}
	return b.lease.Resize(b.fixed + n)
}
