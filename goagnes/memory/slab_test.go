package memory

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// releaseOutside drops a reference as the code of another language does: by
// the header's documented offsets alone.
func releaseOutside(base unsafe.Pointer) {
	length := *(*uint64)(unsafe.Add(base, 8))
	wake := *(**int32)(unsafe.Add(base, 16))
	switch old := atomic.AddInt32((*int32)(base), -1) + 1; old {
	case 1:
		if err := unix.MunmapPtr(base, uintptr(length)); err != nil {
			panic(err)
		}
	case 2:
		atomic.AddInt32(wake, 1)
		unix.Syscall6(unix.SYS_FUTEX, uintptr(unsafe.Pointer(wake)), 1, 1<<31-1, 0, 0, 0)
	}
}

// mapped reports whether an address is in a mapping of this process.
func mapped(t *testing.T, p unsafe.Pointer) bool {
	t.Helper()
	f, err := os.Open("/proc/self/maps")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		var lo, hi uintptr
		if _, err := fmt.Sscanf(lines.Text(), "%x-%x", &lo, &hi); err != nil {
			t.Fatal(err)
		}
		if lo <= uintptr(p) && uintptr(p) < hi {
			return true
		}
	}
	return false
}

func get(t *testing.T, p *SlabPool, n int64) *Slab {
	t.Helper()
	s, err := p.Get(context.Background(), n)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestSlabReuse(t *testing.T) {
	budget := NewBudget(4 << 20)
	p := NewSlabPool(budget, 0)
	s := get(t, p, 100)
	base := s.Base()
	if len(s.Bytes()) != slabUnit-SlabHeader || address(s.Bytes())%64 != 0 || budget.Used() != slabUnit {
		t.Fatalf("%d bytes, %d leased", len(s.Bytes()), budget.Used())
	}
	if refs := *(*int32)(base); refs != 2 {
		t.Fatalf("%d references", refs)
	}
	s.Retain()
	s.Release()
	if other := get(t, p, 100); other.Base() == base {
		t.Fatal("a slab in use is handed out")
	} else {
		other.Release()
	}
	releaseOutside(base)
	// Best fit: the smallest that is large enough and not far too large.
	large := get(t, p, 7*slabUnit)
	large.Release()
	if s = get(t, p, slabUnit+1); s.length != 2*slabUnit {
		t.Fatalf("%d bytes", s.length)
	}
	small := get(t, p, slabUnit-SlabHeader)
	if small.length != slabUnit {
		t.Fatalf("%d bytes", small.length)
	}
	if got := get(t, p, 7*slabUnit); got.Base() != large.Base() {
		t.Fatal("a free slab that fits is not used")
	} else {
		got.Release()
	}
	s.Release()
	small.Release()
	p.Trim()
	if c := p.Counters(); c.MappedBytes != 0 || c.InUse != 0 || c.Gets != 6 || c.Unmapped != c.Mapped || c.Reused != 2 || budget.Used() != 0 {
		t.Fatalf("%+v, %d leased", c, budget.Used())
	}
	if err := errors.Join(p.Close(), p.Close()); err != nil {
		t.Fatal(err)
	}
	if _, err := p.Get(context.Background(), 1); err != ErrClosed {
		t.Fatal(err)
	}
}

// Free slabs of the wrong size make room for one that is needed.
func TestSlabRoom(t *testing.T) {
	p := NewSlabPool(nil, 8*slabUnit)
	defer p.Close()
	for range 8 {
		get(t, p, 1)
	}
	c := p.Counters()
	if c.MappedBytes != 8*slabUnit || c.InUse != 8 {
		t.Fatalf("%+v", c)
	}
	for _, s := range p.mu.slabs {
		s.Release()
	}
	s := get(t, p, 8*slabUnit-SlabHeader)
	if c = p.Counters(); c.MappedBytes != 8*slabUnit || c.PeakBytes != 8*slabUnit || c.Unmapped != 8 {
		t.Fatalf("%+v", c)
	}
	s.Release()
}

func TestSlabRefusals(t *testing.T) {
	ctx := context.Background()
	p := NewSlabPool(NewBudget(2*slabUnit), 4*slabUnit)
	defer p.Close()
	var e *PoolError
	if _, err := p.Get(ctx, 4*slabUnit); !errors.As(err, &e) || e.Need != 5*slabUnit || e.Waited != 0 || e.Class() != "budget" {
		t.Fatalf("above the limit: %v", err)
	}
	// Within the limit, above the budget, and nobody to wait for.
	if _, err := p.Get(ctx, 3*slabUnit-SlabHeader); !errors.As(err, new(*BudgetError)) {
		t.Fatalf("above the budget: %v", err)
	}
	s := get(t, p, 2*slabUnit-SlabHeader)
	p.Wait = 80 * time.Millisecond
	start := time.Now()
	if _, err := p.Get(ctx, 1); !errors.As(err, &e) || e.Held != 1 || e.HeldBytes != 2*slabUnit || e.Waited < p.Wait ||
		!strings.Contains(err.Error(), "holds 1 minibatches") || time.Since(start) > 5*time.Second {
		t.Fatalf("a consumer that releases nothing: %v", err)
	}
	short, cancel := context.WithTimeout(ctx, 30*time.Millisecond)
	defer cancel()
	p.Wait = time.Hour
	if _, err := p.Get(short, 1); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatal(err)
	}
	s.Release()
}

// Memory that an idle minibatch takes is no want of memory: it is given back and what
// lacked it runs again, also where the consumer asks and holds what it may.
func TestSlabRetryWithoutIdle(t *testing.T) {
	for _, holds := range []int64{0, 1} {
		budget := NewBudget((holds + 1) * slabUnit)
		p := NewSlabPool(budget, 0)
		var held []*Slab
		for range holds + 1 {
			s, err := p.Get(context.Background(), 1)
			if err != nil {
				t.Fatal(err)
			}
			held = append(held, s)
		}
		held[0].Release()
		tries := 0
		var lease *Lease
		err := p.Retry(context.Background(), holds, func() (err error) {
			tries++
			lease, err = budget.Reserve("a step", slabUnit)
			return err
		})
		if err != nil || tries != 2 {
			t.Errorf("%d held: %d tries, %v", holds, tries, err)
		}
		lease.Release()
		var refused *BudgetError
		if err := p.Retry(context.Background(), holds, func() error { _, err := budget.Reserve("a step", 2*slabUnit); return err }); !errors.As(err, &refused) {
			t.Errorf("%d held: more than the budget has: %v", holds, err)
		}
		for _, s := range held[1:] {
			s.Release()
		}
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	}
}

// A waiting Get goes on when another language drops the last reference, well
// before its own slices of waiting would let it look again.
func TestSlabWakes(t *testing.T) {
	p := NewSlabPool(nil, slabUnit)
	defer p.Close()
	fast := 0
	for range 20 {
		s := get(t, p, 1)
		got := make(chan time.Time)
		go func() {
			s, err := p.Get(context.Background(), 1)
			if err != nil {
				t.Error(err)
			}
			got <- time.Now()
			s.Release()
		}()
		time.Sleep(3 * time.Millisecond)
		released := time.Now()
		releaseOutside(s.Base())
		if (<-got).Sub(released) < 20*time.Millisecond {
			fast++
		}
	}
	if fast < 15 { // by chance alone the wait would end within 20 ms in 8 of 20
		t.Fatalf("only %d of 20 waits ended within 20 ms of the release", fast)
	}
	if c := p.Counters(); c.Waited == 0 {
		t.Fatal("nothing waited")
	}
}

// Close lets go of slabs in use; they stay until their consumer drops them,
// here by the header alone, and waiting Gets end.
func TestSlabOutlivesPool(t *testing.T) {
	budget := NewBudget(slabUnit)
	p := NewSlabPool(budget, 0)
	s := get(t, p, 10)
	base := s.Base()
	failed := make(chan error)
	go func() { _, err := p.Get(context.Background(), 1); failed <- err }()
	time.Sleep(5 * time.Millisecond)
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-failed; err != ErrClosed {
		t.Fatal(err)
	}
	if c := p.Counters(); c.Orphaned != 1 || budget.Used() != 0 {
		t.Fatalf("%+v", c)
	}
	s.Retain()
	s.Bytes()[0] = 42
	s.Release()
	if s.Bytes()[0] != 42 || !mapped(t, base) {
		t.Fatal("a slab in use is gone")
	}
	releaseOutside(base)
	if mapped(t, base) {
		t.Fatal("a slab that nobody holds is still mapped")
	}
}

// Producers and consumers under a limit: every slab is exclusive while held,
// gets equal releases, and nothing is left mapped.
func TestSlabConcurrent(t *testing.T) {
	budget := NewBudget(6 * slabUnit)
	p := NewSlabPool(budget, 0)
	batches := make(chan *Slab, 2)
	var producers, consumers sync.WaitGroup
	const each = 300
	for g := range 2 {
		producers.Add(1)
		go func() {
			defer producers.Done()
			random := rand.New(rand.NewPCG(3, uint64(g)))
			for range each {
				s, err := p.Get(context.Background(), random.Int64N(2*slabUnit))
				if err != nil {
					t.Error(err)
					return
				}
				b := s.Bytes()
				b[0], b[len(b)-1] = byte(g), byte(g+100)
				if b[0] != byte(g) || b[len(b)-1] != byte(g+100) {
					t.Error("a slab is shared")
				}
				batches <- s
			}
		}()
		consumers.Add(1)
		go func() {
			defer consumers.Done()
			for s := range batches {
				b := s.Bytes()
				if b[len(b)-1] != b[0]+100 {
					t.Error("contents differ")
				}
				s.Retain() // a second tensor over the same memory
				s.Release()
				releaseOutside(s.Base())
			}
		}()
	}
	producers.Wait()
	close(batches)
	consumers.Wait()
	c := p.Counters()
	if c.Gets != 2*each || c.InUse != 0 || c.PeakBytes > 6*slabUnit || budget.Used() != c.MappedBytes {
		t.Fatalf("%+v", c)
	}
	p.Close()
	if c = p.Counters(); c.Mapped != c.Unmapped || c.Orphaned != 0 || budget.Used() != 0 {
		t.Fatalf("%+v", c)
	}
}

func TestSlabPoison(t *testing.T) {
	if !invariants {
		t.Skip("needs the build tag invariants")
	}
	p := NewSlabPool(nil, 0)
	defer p.Close()
	s := get(t, p, 10)
	b := s.Bytes()
	b[0] = 1
	s.Release()
	if b[0] != poisonByte || b[len(b)-1] != poisonByte {
		t.Fatal("a free slab keeps its contents")
	}
	s = get(t, p, 10)
	s.Bytes()[5] = 1
	releaseOutside(s.Base())
	if s = get(t, p, 10); s.Bytes()[5] != poisonByte {
		t.Fatal("a slab freed outside comes back with its contents")
	}
	s.Release()
}

func TestSlabMisuse(t *testing.T) {
	s := &Slab{base: unsafe.Pointer(&slabHeader{}), length: SlabHeader}
	mustPanic(t, s.Release)
	s.header().refs = 0
	mustPanic(t, s.Retain)
}
