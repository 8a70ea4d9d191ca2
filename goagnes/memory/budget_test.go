package memory

import (
	"errors"
	"maps"
	"math/rand/v2"
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
