package operation

// Scratch that the device keeps badly and says nothing about.

import (
	"context"
	"errors"
	"fmt"
	"hash/crc64"
	"io"
	"path/filepath"
	"strings"
	"testing"

	"github.com/goagnes/goagnes/goagnes/storage"
	"github.com/goagnes/goagnes/goagnes/storage/inject"
)

// TestScratchDamaged has the device alter, lose and misplace what lies in each file of
// scratch, in the first read of it and in a later one: the epoch ends with an error that
// names the file, after minibatches that are right, nothing is left over, and the loader
// prepares the epoch when the device is sound again. A control, an alteration that leaves
// the checksums as they are, shows that nothing else would have found it.
func TestScratchDamaged(t *testing.T) {
	engines := []string{storage.IOPread}
	if storage.RingRefusal() == nil {
		engines = append(engines, storage.IOUring)
	}
	for _, engine := range engines {
		damager := &inject.Damager{}
		on := storage.PoolOptions{IO: engine, FS: inject.New(nil, inject.Options{Data: damager.Data})}
		f := newFixtureOn(t, fixtureDir, on, tight, func(o *Options) { o.FeatureBuffer = 11 << 18 })
		sums, err := digestsOf(f.Start(context.Background(), 4))
		if s := f.Stats(); err != nil || len(sums) != fixtureBatches || s.SpilledSampleBytes == 0 || s.SpilledRowBytes == 0 || s.Hyperbatches < 2 {
			t.Fatalf("%d minibatches, %v, %+v", len(sums), err, s)
		}
		for _, file := range []string{"samples", "rows"} {
			for _, damage := range inject.Damages {
				for _, nth := range []int{0, 25} {
					name := fmt.Sprintf("%s: %s, %v, read %d", engine, file, damage, nth)
					var got []uint64
					for range 5 { // an epoch may find room for all rows in memory
						reads := 0
						damager.Set(damage, func(op inject.Op) bool {
							if strings.HasPrefix(filepath.Base(op.Path), file) {
								reads++
							}
							return reads > nth && strings.HasPrefix(filepath.Base(op.Path), file)
						})
						run := f.Start(context.Background(), 4)
						got, err = digestsOf(run)
						run.Close()
						if damager.Hits() > 0 {
							break
						}
					}
					var e *storage.Error
					var d *storage.DamageError
					if !errors.As(err, &e) || !errors.As(err, &d) || e.Class() != "io" || !strings.HasPrefix(filepath.Base(e.Path), file) || e.Offset < 0 || !strings.Contains(err.Error(), "scratch=DIR") {
						t.Errorf("%s: %v, %d reads damaged", name, err, damager.Hits())
					}
					for i, sum := range got {
						if sum != sums[i] {
							t.Errorf("%s: minibatch %d differs", name, i)
						}
					}
					f.idle()
				}
			}
		}
		damager.Set(inject.Sound, nil)
		if got, err := digestsOf(f.Start(context.Background(), 4)); err != nil || fmt.Sprint(got) != fmt.Sprint(sums) {
			t.Errorf("%s: when the device is sound again: %v, the same: %v", engine, err, fmt.Sprint(got) == fmt.Sprint(sums))
		}
		damager.Set(inject.Unseen, func(op inject.Op) bool { return filepath.Base(op.Path) == "rows" })
		got, err := digestsOf(f.Start(context.Background(), 4))
		if err != nil || damager.Hits() == 0 || fmt.Sprint(got) == fmt.Sprint(sums) {
			t.Errorf("%s: the control: %v, %d reads damaged", engine, err, damager.Hits())
		}
		f.close()
	}
}

// TestSamplesDamagedControl is the control for samples: sources that are altered past the
// checksum reach minibatches.
func TestSamplesDamagedControl(t *testing.T) {
	var all [2]string
	for i, damage := range []inject.Damage{inject.Sound, inject.Unseen} {
		damager := &inject.Damager{UnseenAt: 16000} // among the sources of every body
		damager.Set(damage, func(op inject.Op) bool { return strings.HasPrefix(filepath.Base(op.Path), "samples") })
		on := storage.PoolOptions{FS: inject.New(nil, inject.Options{Data: damager.Data})}
		f := newFixtureOn(t, fixtureDir, on, 2<<20, func(o *Options) { o.Outputs = Outputs{EdgeIndex: true} })
		sums, err := digestsOf(f.Start(context.Background(), 4))
		if s := f.Stats(); err != nil || s.SpilledSampleBytes == 0 || (damager.Hits() > 0) != (damage == inject.Unseen) {
			t.Fatalf("%v: %v, %d bytes of samples were spilled, %d reads damaged", damage, err, s.SpilledSampleBytes, damager.Hits())
		}
		all[i] = fmt.Sprint(sums)
		f.close()
	}
	if all[0] == all[1] {
		t.Error("the alteration does not show")
	}
}

// digestsOf takes minibatches until an error, and returns the digest of each.
func digestsOf(r *Run) (sums []uint64, err error) {
	for {
		b, err := r.Next(context.Background())
		if err != nil {
			if errors.Is(err, io.EOF) {
				err = nil
			}
			return sums, err
		}
		sum := uint64(0)
		for _, a := range b.Arrays() {
			sum = crc64.Update(sum, digests, a.Bytes())
		}
		sums = append(sums, sum)
		b.Release()
	}
}
