package operation

import (
	"context"
	"errors"
	"io"
	"testing"
)

// What the consumer still holds of an earlier hyperbatch counts once: the next one's
// feature cache has room for as many rows as if it held nothing.
func TestHeldCountsOnce(t *testing.T) {
	f := newFixture(t, tight+(3<<19), func(o *Options) { o.Hyperbatch = fixtureBatches / 2 })
	defer f.close()
	run := f.Start(context.Background(), 0)
	var held *Batch
	for n := 0; ; n++ {
		b, err := run.Next(context.Background())
		if errors.Is(err, io.EOF) && n == fixtureBatches {
			break
		}
		if err != nil {
			t.Fatalf("minibatch %d: %v", n, err)
		}
		if held != nil {
			held.Release()
		}
		held = b
	}
	held.Release()
	if s := f.Stats(); s.Hyperbatches != 2 || s.SpilledRowBytes != 0 {
		t.Errorf("%d hyperbatches, %d bytes of rows were spilled", s.Hyperbatches, s.SpilledRowBytes)
	}
}
