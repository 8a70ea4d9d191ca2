package operation

import (
	"context"
	"testing"
)

// TestHubPicksInGroups samples a hub for many minibatches together: however few
// picks are sorted and read at a time, the minibatches are the same.
func TestHubPicksInGroups(t *testing.T) {
	standard := hubPicks
	defer func() { hubPicks = standard }()
	var want uint64
	for i, picks := range []int{standard, 1, 25, 64} {
		hubPicks = picks
		f := newFixture(t, 64<<20, func(o *Options) { o.Fanouts = []int{10, 8}; o.Hyperbatch = 20 })
		r := f.Start(context.Background(), 0)
		n, sum, err := drain(r)
		if err != nil || int64(n) != f.Minibatches() {
			t.Fatalf("%d picks: %d minibatches, %v", picks, n, err)
		}
		r.Close()
		if f.Stats().HubPicks == 0 {
			t.Fatal("no neighbour of a hub was picked")
		}
		if i == 0 {
			want = sum
		} else if sum != want {
			t.Errorf("%d picks at a time give other minibatches", picks)
		}
		f.close()
	}
}
