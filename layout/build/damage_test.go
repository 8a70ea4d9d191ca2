package build

// Scratch that the device keeps badly and says nothing about.

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/goagnes/goagnes/goagnes/storage"
	"github.com/goagnes/goagnes/goagnes/storage/inject"
	"github.com/goagnes/goagnes/layout"
	"github.com/goagnes/goagnes/layout/build/order"
	"github.com/goagnes/goagnes/layout/build/verify"
	"github.com/goagnes/goagnes/layout/build/workspace"
)

// TestScratchDamaged has the device alter, lose and misplace what lies in each file of a
// build's scratch: the build ends with an error that names the file, and leaves nothing.
func TestScratchDamaged(t *testing.T) {
	g := randomGraph(2, 3000, 20_000, 16)
	far := func(o *Options) { // ids past a bitmap, which are sorted
		var list [2][]int64
		for side, ids := range [2][]int64{g.src, g.dst} {
			for _, v := range ids {
				list[side] = append(list[side], v<<40)
			}
		}
		o.Edges, o.IDs, o.NumNodes, o.Arrays, o.Splits = edgesOf(list[0], list[1]), layout.IDsRank, 0, nil, nil
		o.Order = order.BFS
	}
	cut := workspace.Tuning{OnScratch: true, SortBytes: 8_000, Parts: 4, AreaBytes: 150_000}
	runs := workspace.Tuning{OnScratch: true, RunBytes: 1, BitmapBytes: 64}
	engines := []string{storage.IOPread}
	if storage.RingRefusal() == nil {
		engines = append(engines, storage.IOUring)
	}
	goroutines := runtime.NumGoroutine()
	t.Run("each", func(t *testing.T) {
		for _, c := range []struct {
			file string
			nth  int // read that is damaged, and all that follow
			tune workspace.Tuning
			set  func(o *Options)
		}{
			{"edges", 0, workspace.Tuning{OnScratch: true, SortBytes: 20_000}, nil},
			{"edges", 9, workspace.Tuning{OnScratch: true, SortBytes: 20_000, Wide: true}, nil},
			{"edges", 3, cut, nil},
			{"edges-1", 2, cut, nil},
			{layout.SectionX, 0, cut, nil},
			{layout.SectionX, 5, cut, nil},
			{layout.SectionY, 0, workspace.Tuning{OnScratch: true, AreaBytes: 50_000}, nil},
			{"in-degrees", 0, cut, func(o *Options) { o.Order = order.BFS }},
			{"in-degrees", 0, cut, nil},
			{"out-degrees", 0, cut, nil},
			{"visits", 0, cut, nil},
			{"ids-0", 0, runs, far},
			{"ids-4", 0, runs, far},
			{"edge-pairs", 0, runs, far},
			{"sums-" + layout.SectionGraph, 0, cut, nil},
			{"sums-" + layout.SectionX, 1, cut, nil},
			{"sums-" + layout.SectionIDs, 0, runs, far},
		} {
			for _, engine := range engines {
				name := fmt.Sprintf("%s/%s/%d", engine, c.file, c.nth)
				t.Run(name, func(t *testing.T) {
					t.Parallel()
					damager := &inject.Damager{}
					path := filepath.Join(t.TempDir(), "store")
					run := func() error {
						o := g.options()
						o.Order, o.BlockSize, o.IO, o.FS = order.Visit, 4<<10, engine, inject.New(nil, inject.Options{Data: damager.Data})
						if c.set != nil {
							c.set(&o)
						}
						_, err := build(context.Background(), path, o, c.tune)
						return err
					}
					damages := inject.Damages
					if engine != storage.IOPread {
						damages = []inject.Damage{inject.FlipBit, inject.Earlier}
					}
					for _, damage := range damages {
						reads := 0
						damager.Set(damage, func(op inject.Op) bool {
							if filepath.Base(op.Path) == c.file {
								reads++
							}
							return reads > c.nth && filepath.Base(op.Path) == c.file
						})
						err := run()
						var e *storage.Error
						if !errors.As(err, &e) || !errors.As(err, new(*storage.DamageError)) || e.Class() != "io" || filepath.Base(e.Path) != c.file || e.Offset < 0 || !strings.Contains(err.Error(), "scratch=DIR") {
							t.Fatalf("%v: %v; %d of %d reads damaged", damage, err, damager.Hits(), reads)
						}
						onlyStore(t, path)
					}
					damager.Set(inject.Sound, nil)
					if err := run(); err != nil {
						t.Error(err)
					}
					onlyStore(t, path, "store")
				})
			}
		}
	})
	for range 100 {
		if runtime.NumGoroutine() <= goroutines {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	if n := runtime.NumGoroutine(); n > goroutines {
		t.Errorf("%d goroutines are left, of %d", n, goroutines)
	}
}

// TestScratchDamagedControl shows that nothing but the checksums of scratch finds it: rows
// altered past them make a store that is in order but for its contents.
func TestScratchDamagedControl(t *testing.T) {
	g := randomGraph(2, 3000, 60_000, 16)
	damager := &inject.Damager{UnseenAt: 24} // in a row
	o := g.options()
	o.Order, o.BlockSize, o.FS = order.Visit, 4<<10, inject.New(nil, inject.Options{Data: damager.Data})
	damager.Set(inject.Unseen, func(op inject.Op) bool {
		return filepath.Base(op.Path) == layout.SectionX && strings.Contains(op.Path, "scratch")
	})
	path, _ := buildIn(t, o, workspace.Tuning{OnScratch: true, AreaBytes: 150_000})
	if err := readStore(t, path).compare(g, order.Visit); err == nil || damager.Hits() == 0 {
		t.Errorf("%v, %d reads damaged", err, damager.Hits())
	}
	if r, err := verify.Store(context.Background(), path, verify.Options{}); err != nil || len(r.Findings) > 0 {
		t.Errorf("%v, %d findings", err, len(r.Findings))
	}
}
