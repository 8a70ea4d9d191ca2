package operation

import (
	"context"
	"testing"
)

// What an idle engine keeps stays where another of the same budget begins an epoch with
// most of the memory free, and is given back where it is not.
func TestOthersKeep(t *testing.T) {
	for _, c := range []struct {
		bytes int64 // that somebody else has
		stays bool
	}{{0, true}, {20 << 20, false}} {
		f := newFixture(t, 64<<20, nil)
		lease, err := f.Budget.Reserve("somebody else", c.bytes)
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := drain(f.Start(context.Background(), 0)); err != nil || f.keptRows == nil {
			t.Fatalf("%d bytes: %v, or no rows are kept", c.bytes, err)
		}
		other, err := New(f.Options)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range []*Engine{other, f.Engine} {
			before := e.Stats().FeatureBlocksRead
			if n, _, err := drain(e.Start(context.Background(), 0)); err != nil || n != fixtureBatches {
				t.Fatalf("%d bytes: %d minibatches, %v", c.bytes, n, err)
			}
			if read := e.Stats().FeatureBlocksRead - before; before > 0 && (read == 0) != c.stays {
				t.Errorf("%d bytes: %d feature blocks are read again after the other's epoch", c.bytes, read)
			}
		}
		if err := other.Close(); err != nil {
			t.Error(err)
		}
		lease.Release()
		f.close()
	}
}
