package operation

// Scratch with less room than a hyperbatch would take.

import (
	"context"
	"errors"
	"testing"

	"github.com/goagnes/goagnes/goagnes/storage"
)

// Hyperbatches that scratch has no room for become smaller, once and for all, with the
// same minibatches; what one minibatch alone takes is refused with a number that is
// enough.
func TestScratchHalves(t *testing.T) {
	for _, published := range []bool{false, true} {
		epochs := func(limit int64) (f *fixture, sums [2]uint64, err error) {
			f = newFixture(t, tight, func(o *Options) { o.Hyperbatch, o.Published = fixtureBatches, published })
			f.Scratch = func() (*storage.Scratch, error) { return storage.OpenScratch(nil, []string{f.scratch}, limit) }
			for i := range sums {
				n := 0
				if n, sums[i], err = drain(f.Start(context.Background(), uint32(i))); err != nil {
					return f, sums, err
				}
				if n != fixtureBatches {
					t.Errorf("within %d bytes of scratch: %d minibatches", limit, n)
				}
			}
			return f, sums, nil
		}
		f, want, err := epochs(1 << 30)
		if err != nil {
			t.Fatal(err)
		}
		if f.Stats().SpilledRowBytes == 0 || f.Stats().Halved != 0 {
			t.Fatalf("a fixture that spills: %+v", f.Stats())
		}
		all := f.grown["rows"] + f.grown[samplesNames[0]] + f.grown[samplesNames[1]] // in steps
		spilled := f.Stats().SpilledRowBytes / 2
		f.close()

		var limit *storage.ScratchError
		halved := int64(0)
		for most := min(all, 2*spilled); ; most = most * 2 / 3 {
			f, got, err := epochs(most)
			if err != nil {
				if !errors.As(err, &limit) || limit.Limit != most || f.Stats().Halved < 4 { // 20, 10, 5, 3, 2, 1
					t.Errorf("within %d bytes: %v, %+v", most, err, f.Stats())
				}
				f.close()
				break
			}
			if got != want {
				t.Errorf("within %d bytes: other minibatches", most)
			}
			if peak := f.Engine.scratch.Peak(); peak > most {
				t.Errorf("within %d bytes: %d were used", most, peak)
			}
			if n := f.Stats().Halved; n < halved || n > 5 {
				t.Errorf("within %d bytes: halved %d times, within more %d times", most, n, halved)
			} else {
				halved = n
			}
			f.close()
		}
		if halved == 0 {
			t.Errorf("published %v: no limit made hyperbatches smaller", published)
		}
	}
}
