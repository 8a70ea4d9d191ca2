package operation

import (
	"context"
	"errors"
	"testing"

	"github.com/goagnes/goagnes/goagnes/memory"
)

// Every budget from the least that a refusal names is enough: buffers that grow with
// it by whole frames and pages take no more than there is.
func TestEveryBudgetAboveTheLeast(t *testing.T) {
	for name, set := range map[string]func(*Options){
		"agnes":                   nil,
		"published":               func(o *Options) { o.Published = true },
		"published, buffer given": func(o *Options) { o.Published, o.GraphBuffer = true, 300_000 },
		"one hop, held":           func(o *Options) { o.Fanouts, o.Held = []int{-1}, 3 },
		"alone":                   func(o *Options) { o.Hyperbatch = 1 },
	} {
		f := newFixture(t, 64<<20, set)
		_, want, err := drain(f.Start(context.Background(), 0))
		if err != nil {
			t.Fatal(name, err)
		}
		o := f.Options
		try := func(budget int64, epoch bool) (asked int64) {
			o.Budget = memory.NewBudget(budget)
			e, err := New(o)
			var refused *memory.BudgetError
			if errors.As(err, &refused) {
				return refused.Enough
			}
			if err != nil {
				t.Fatalf("%s: %d bytes: %v", name, budget, err)
			}
			if epoch {
				if n, got, err := drain(e.Start(context.Background(), 0)); err != nil || n != fixtureBatches || got != want {
					t.Errorf("%s: %d bytes: %d minibatches, others: %v, %v", name, budget, n, got != want, err)
				}
				if peak := o.Budget.Peak(); peak > budget {
					t.Errorf("%s: %d bytes are used of %d", name, peak, budget)
				}
			}
			if err := e.Close(); err != nil {
				t.Error(err)
			}
			return 0
		}
		least := try(1, false)
		if asked := try(least-1, false); asked != least {
			t.Errorf("%s: %d bytes are refused for %d, %d were asked for first", name, least-1, asked, least)
		}
		for i := range int64(300) {
			budget := least + i*i*37
			if asked := try(budget, i%50 == 0); asked != 0 {
				t.Errorf("%s: %d bytes are refused for %d, and %d are enough", name, budget, asked, least)
				break
			}
		}
		f.close()
	}
}
