package operation

import (
	"context"
	"testing"
)

// What fits beside the steps of a hyperbatch is read once, however many epochs and
// hyperbatches follow; whoever lacks memory between epochs gets it; an epoch that
// lacks what it keeps itself goes on without. Minibatches are the same throughout.
func TestKept(t *testing.T) {
	epoch := func(f *fixture) (sum uint64, graph, rows int64) {
		t.Helper()
		before := f.Stats()
		n, sum, err := drain(f.Start(context.Background(), 0))
		if err != nil || n != fixtureBatches {
			t.Fatalf("%d minibatches, %v", n, err)
		}
		f.idle()
		s := f.Stats()
		return sum, s.GraphBlocksRead - before.GraphBlocksRead, s.FeatureBlocksRead - before.FeatureBlocksRead
	}
	f := newFixture(t, 64<<20, nil)
	if !f.plan.keepsRows() {
		t.Fatal("the store is not small beside 64 MiB")
	}
	want, _, _ := epoch(f)
	f.close()

	for _, c := range []struct {
		mib  int64
		kept bool
		what string
	}{
		{20, true, "rows"}, {20, true, "no rows"}, {6, false, "rows"},
	} {
		f := newFixture(t, c.mib<<20, func(o *Options) {
			if c.what == "no rows" {
				o.Outputs.X, o.Outputs.Y, o.Outputs.NodeIDs = false, false, false
			}
		})
		if f.plan.rows && f.plan.keepsRows() {
			t.Fatal("the rows are small beside the budget")
		}
		sum, graph, rows := epoch(f)
		if f.plan.rows && sum != want || graph == 0 || f.plan.rows && rows == 0 {
			t.Errorf("%d MiB, %s: %d and %d blocks read, other minibatches: %v", c.mib, c.what, graph, rows, sum != want)
		}
		again, graph, rows := epoch(f)
		if again != sum || (graph+rows == 0) != c.kept {
			t.Errorf("%d MiB, %s: %d and %d blocks read again, other minibatches: %v", c.mib, c.what, graph, rows, again != sum)
		}
		if x := f.Explain(); x.KeepsGraph != c.kept || x.KeepsRows != (c.kept && f.plan.rows) {
			t.Errorf("%d MiB, %s: the plan says that the graph is kept: %v, rows: %v", c.mib, c.what, x.KeepsGraph, x.KeepsRows)
		}
		if !c.kept {
			f.close()
			continue
		}
		// Somebody else lacks it.
		other, err := f.Budget.Reserve("others", f.Budget.Free()+1)
		if err != nil {
			t.Fatal(err)
		}
		if f.keptGraph != nil || f.keptRows != nil {
			t.Error("what was kept is still held")
		}
		other.Release()
		if again, graph, _ := epoch(f); again != sum || graph == 0 {
			t.Errorf("%d MiB, %s: %d blocks read after all was given back, other minibatches: %v", c.mib, c.what, graph, again != sum)
		}
		// The epoch itself lacks it, with less and less beside it.
		need, err := f.Need(f.Budget.Total())
		if err != nil {
			t.Fatal(err)
		}
		for room := need; !f.keeper.little && room > 0; room -= need / 16 {
			if again, _, _ := epoch(f); again != sum || f.keptGraph == nil {
				t.Fatalf("%d MiB, %s: nothing is kept, or other minibatches: %v", c.mib, c.what, again != sum)
			}
			f.slabs.Trim()
			if other, err = f.Budget.Reserve("others", max(f.Budget.Free()-room, 0)); err != nil {
				t.Fatal(err)
			}
			n, again, err := drain(f.Start(context.Background(), 0))
			if err != nil || n != fixtureBatches || again != sum {
				t.Errorf("%d MiB, %s: with %d bytes beside what was kept: %d minibatches, others: %v, %v", c.mib, c.what, room, n, again != sum, err)
			}
			other.Release()
		}
		if !f.keeper.little {
			t.Errorf("%d MiB, %s: memory was never short", c.mib, c.what)
		}
		if again, _, _ := epoch(f); again != sum {
			t.Errorf("%d MiB, %s: other minibatches after memory was short", c.mib, c.what)
		}
		f.close()
	}
}
