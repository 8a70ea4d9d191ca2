package memory

import (
	"errors"
	"maps"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync"
	"testing"
)

func TestBudget(t *testing.T) {
	b := NewBudget(1000)
	l, err := b.Reserve("tables", 600)
	if err != nil {
		t.Fatal(err)
	}
	var e *BudgetError
	_, err = b.Reserve("cache", 401)
	if !errors.As(err, &e) || *e != (BudgetError{Consumer: "cache", Need: 401, Free: 400, Total: 1000}) || e.Class() != "budget" ||
		!strings.Contains(err.Error(), "cache") || !strings.Contains(err.Error(), "1001 or more") {
		t.Fatalf("%v", err)
	}
	if err := l.Resize(1001); !errors.As(err, &e) || l.Bytes() != 600 || b.Used() != 600 {
		t.Fatalf("%v, %d", err, b.Used())
	}
	m, err := b.Reserve("cache", 400)
	if err != nil || b.Free() != 0 || b.Peak() != 1000 || b.Total() != 1000 {
		t.Fatal(err)
	}
	if got, want := b.Consumers(), map[string]int64{"tables": 600, "cache": 400}; !maps.Equal(got, want) {
		t.Fatalf("%v", got)
	}
	if err := l.Resize(100); err != nil || b.Free() != 500 {
		t.Fatal(err)
	}
	m.Release()
	m.Release()
	mustPanic(t, func() { m.Resize(1) })
	mustPanic(t, func() { l.Resize(-1) })
	l.Release()
	if b.Used() != 0 || len(b.Consumers()) != 0 || b.Peak() != 1000 {
		t.Fatalf("%d used by %v", b.Used(), b.Consumers())
	}
}

// What is kept without need makes room for a reservation that does not fit, and is
// left alone by others.
func TestBudgetOnShortage(t *testing.T) {
	b := NewBudget(1000)
	var kept *Lease
	calls := 0
	end := b.OnShortage(func() { calls++; kept.Release() })
	keep := func(n int64) {
		var err error
		if kept, err = b.Reserve("kept", n); err != nil {
			t.Fatal(err)
		}
	}
	keep(600)
	small, err := b.Reserve("fits", 400)
	if err != nil || calls != 0 || b.Used() != 1000 {
		t.Fatalf("%v after %d calls, %d in use", err, calls, b.Used())
	}
	if err := small.Resize(900); err != nil || calls != 1 || b.Used() != 900 {
		t.Fatalf("%v after %d calls, %d in use", err, calls, b.Used())
	}
	var e *BudgetError
	if _, err := b.Reserve("too much", 101); !errors.As(err, &e) || e.Free != 100 || calls != 2 {
		t.Fatalf("%v after %d calls", err, calls)
	}
	keep(50)
	b.Reclaim()
	if b.Used() != 900 || calls != 3 {
		t.Fatalf("%d in use after %d calls", b.Used(), calls)
	}
	keep(50)
	end()
	if _, err := b.Reserve("too much", 60); !errors.As(err, &e) || calls != 3 {
		t.Fatalf("%v after %d calls", err, calls)
	}
	b.Reclaim()
	if calls != 3 {
		t.Fatal("asked after its end")
	}
}

// Whoever lacks what a brief lease holds waits for its end, and no brief lease is
// given meanwhile.
func TestBudgetBrief(t *testing.T) {
	b := NewBudget(100)
	kept, err := b.Reserve("kept", 40)
	if err != nil {
		t.Fatal(err)
	}
	brief, err := b.ReserveBriefly("read", 50)
	if err != nil {
		t.Fatal(err)
	}
	if b.Used() != 90 || b.Free() != 60 {
		t.Errorf("%d bytes are used, %d free", b.Used(), b.Free())
	}
	var refused *BudgetError
	if _, err := b.ReserveBriefly("read", 11); !errors.As(err, &refused) {
		t.Errorf("a brief lease waits, or passes the budget: %v", err)
	}
	if _, err := b.Reserve("large", 61); !errors.As(err, &refused) || refused.Free != 60 {
		t.Errorf("more than will ever be free: %v", err)
	}
	got := make(chan error)
	go func() { got <- kept.Resize(100) }()
	for waiting := false; !waiting; runtime.Gosched() {
		b.mu.Lock()
		waiting = b.mu.waiting > 0
		b.mu.Unlock()
	}
	if _, err := b.ReserveBriefly("read", 1); !errors.As(err, &refused) {
		t.Errorf("a brief lease is given while others wait: %v", err)
	}
	select {
	case err := <-got:
		t.Fatalf("a lease grew beyond the budget: %v", err)
	default:
	}
	brief.Release()
	if err := <-got; err != nil {
		t.Errorf("the brief lease has ended: %v", err)
	}
	if err := kept.Resize(10); err != nil {
		t.Fatal(err)
	}
	if brief, err = b.ReserveBriefly("read", 90); err != nil {
		t.Fatal(err)
	}
	brief.Release()
	if b.Used() != 10 || b.Free() != 90 || b.Peak() != 100 {
		t.Errorf("%d bytes are used, %d free, %d at most", b.Used(), b.Free(), b.Peak())
	}
}

func TestBudgetShare(t *testing.T) {
	b := NewBudget(100)
	s, err := b.Sub(60)
	if err != nil || b.Free() != 40 || s.Total() != 60 {
		t.Fatal(err)
	}
	if _, err := b.Sub(41); err == nil {
		t.Fatal("a share too large")
	}
	l, err := s.Reserve("x", 50)
	if err != nil {
		t.Fatal(err)
	}
	mustPanic(t, s.Close)
	l.Release()
	s.Close()
	s.Close()
	b.Close()
	if b.Used() != 0 {
		t.Fatalf("%d used", b.Used())
	}
}

// Many consumers at once never hold more than the total, and the sum by
// consumer is what is used.
func TestBudgetConcurrent(t *testing.T) {
	b := NewBudget(1000)
	var wg sync.WaitGroup
	for g := range 4 {
		wg.Add(1)
		go func() {
			defer wg.Done()
			random := rand.New(rand.NewPCG(1, uint64(g)))
			for range 2000 {
				l, err := b.Reserve(string(rune('a'+g)), random.Int64N(500))
				if err != nil {
					continue
				}
				_ = l.Resize(random.Int64N(500)) // refused or not
				if b.Used() > b.Total() {
					t.Error("above the total")
				}
				l.Release()
			}
		}()
	}
	wg.Wait()
	if b.Used() != 0 || b.Peak() > 1000 || b.Peak() == 0 || len(b.Consumers()) != 0 {
		t.Fatalf("used %d, peak %d", b.Used(), b.Peak())
	}
}

func TestSizeText(t *testing.T) {
	for n, want := range map[int64]string{0: "0 bytes", 1023: "1023 bytes", 1024: "1 KiB", 1536: "1.5 KiB", 5 << 20: "5 MiB", 3 << 40: "3 TiB", 1 << 60: "1.049e+06 TiB"} {
		if got := size(n); got != want {
			t.Errorf("%d: %q, %q is due", n, got, want)
		}
	}
}

func mustPanic(t *testing.T, f func()) {
	t.Helper()
	defer func() {
		if recover() == nil {
			t.Error("no panic")
		}
	}()
	f()
}
