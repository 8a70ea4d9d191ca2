package operation

import (
	"context"
	"errors"
	"testing"

	"github.com/goagnes/goagnes/goagnes/memory"
	"github.com/goagnes/goagnes/layout"
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

// The bound of what is drawn of all nodes is no less than the drawn, and no more than
// all edges or k of each node.
func TestMostDrawn(t *testing.T) {
	f := newFixture(t, 64<<20, nil)
	defer f.close()
	section := f.files.Section(layout.SectionDegree)
	width := int64(section.Type().Size())
	raw := make([]byte, section.Bytes)
	if err := section.Read(0, raw); err != nil {
		t.Fatal(err)
	}
	for _, k := range []int64{0, 1, 3, 10, 1000, 1 << 24} {
		drawn := int64(0)
		for at := int64(0); at < section.Bytes; at += width {
			drawn += min(int64(getID(raw[at:], width)), k)
		}
		got := f.mostDrawn(k)
		if got < drawn || got > min(f.manifest.NumEdges, k*f.manifest.NumNodes) {
			t.Errorf("%d of each node: at most %d; they have %d", k, got, drawn)
		}
		if k == 1<<24 && got != f.manifest.NumEdges {
			t.Errorf("all of each node: %d, there are %d edges", got, f.manifest.NumEdges)
		}
	}
}
