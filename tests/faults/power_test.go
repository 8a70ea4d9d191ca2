package faults

// The power goes at any moment of each deed: what a disk may hold then is replayed.

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/goagnes/goagnes/goagnes/storage"
	"github.com/goagnes/goagnes/goagnes/storage/inject"
)

func TestPowerLoss(t *testing.T) {
	for _, d := range deeds(t, true) {
		t.Run(strings.ReplaceAll(d.name, " ", "-"), func(t *testing.T) {
			root, err := filepath.EvalSymlinks(t.TempDir())
			if err != nil {
				t.Fatal(err)
			}
			if d.before != nil {
				d.before(t, root)
			}
			r, err := inject.Record(unsynced{storage.OS}, root)
			if err != nil {
				t.Fatal(err)
			}
			if err := d.run(root, r); err != nil {
				t.Fatal(err)
			}
			n := r.Moments()
			tried, openable := 0, 0
			for _, m := range chosen(n, 1) {
				for loss, seeds := range map[inject.Loss]int{inject.LoseNothing: 1, inject.LoseAll: 1, inject.LoseSome: 2, inject.LoseLatest: 1} {
					for seed := range seeds {
						clearDir(t, root)
						if err := r.Survivor(m, loss, uint64(seed), root); err != nil {
							t.Fatal(err)
						}
						if s, _ := d.state(root); s != "" {
							openable++
						}
						if err := d.check(root, m == n-1); err != nil {
							t.Errorf("power lost before %q (moment %d of %d, loss %d, seed %d): %v", r.Moment(m), m, n, loss, seed, err)
						}
						tried++
					}
				}
				if t.Failed() && *moments > 0 {
					break
				}
			}
			t.Logf("%d disks at %d of %d moments; %d held a whole one", tried, len(chosen(n, 1)), n, openable)
		})
	}
}
