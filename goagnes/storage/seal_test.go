package storage_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/goagnes/goagnes/goagnes/storage"
	"github.com/goagnes/goagnes/goagnes/storage/inject"
	"github.com/goagnes/goagnes/layout"
)

const page = layout.PageSize

// Every way to seal, on one device and striped over three, through either engine: what was
// written is read, and whatever the device makes of it without an error is found and
// named. A control shows that nothing but the seal stands in its way.
func TestSealedScratch(t *testing.T) {
	engines := []string{storage.IOPread, storage.IOBuffered}
	if storage.RingRefusal() == nil {
		engines = append(engines, storage.IOUring)
	}
	// Two units of the same form follow each other, and were written before.
	const n = 2 * 130 * page
	forms := map[string]struct {
		seal   storage.Seal
		read   int64 // bytes of a read
		pieces bool
	}{
		"whole requests":       {storage.Seal{}, 130 * page, false},
		"units":                {storage.Seal{Unit: 3 * page}, 130 * page, false},
		"written in pieces":    {storage.Seal{}, 130 * page, true},
		"pages":                {storage.Seal{Unit: page}, 2 * page, false},
		"sums kept in memory":  {storage.Seal{Unit: 65 * page, Sums: make([]uint32, n/page)}, 130 * page, false},
		"one sum for requests": {storage.Seal{Sums: make([]uint32, n/page)}, 130 * page, false},
	}
	for _, engine := range engines {
		for _, folders := range []int{1, 3} {
			for name, form := range forms {
				t.Run(fmt.Sprintf("%s/%d/%s", engine, folders, name), func(t *testing.T) {
					damager := &inject.Damager{}
					fsys := inject.New(nil, inject.Options{Data: damager.Data})
					pool := storage.NewPool(storage.PoolOptions{IO: engine, FS: fsys})
					defer pool.Close()
					var parents []string
					for range folders {
						parents = append(parents, t.TempDir())
					}
					scratch, err := storage.OpenScratch(fsys, parents, 0)
					if err != nil {
						t.Fatal(err)
					}
					defer scratch.Close()
					f, err := scratch.Create("spill", n)
					if err != nil {
						t.Fatal(err)
					}
					sums := func(at int64) []uint32 {
						if form.seal.Sums == nil {
							return nil
						}
						return form.seal.Sums[at/page:]
					}
					rng := rand.New(rand.NewPCG(1, 1))
					want := storage.AlignedBytes(n)
					write := func(generation uint64) {
						t.Helper()
						for i := range want {
							want[i] = byte(rng.Uint32())
						}
						for at := int64(0); at < n; at += form.read {
							q := storage.Request{File: f, Offset: at, Buf: want[at : at+form.read], Write: true, Seal: form.seal}
							q.Seal.Generation, q.Seal.Sums = generation, sums(at)
							if !form.pieces {
								if err := pool.Do(&q); err != nil {
									t.Fatal(err)
								}
								continue
							}
							q.Seal.Put = true
							whole, crc := q.Buf, uint32(0)
							for len(whole) > 0 {
								q.Buf = whole[:min(50*page, len(whole))]
								if whole = whole[len(q.Buf):]; len(whole) == 0 {
									f.PutSeal(q.Buf, crc, at, generation)
								}
								crc = layout.AppendCRC(crc, q.Buf)
								if err := pool.Do(&q); err != nil {
									t.Fatal(err)
								}
								q.Offset += int64(len(q.Buf))
							}
						}
					}
					got := storage.AlignedBytes(int(form.read))
					read := func(generation uint64, submit bool) error {
						q := storage.Request{File: f, Buf: got, Seal: form.seal}
						q.Seal.Generation, q.Seal.Sums = generation, sums(0)
						if !submit {
							return pool.Do(&q)
						}
						done := make(chan error, 1)
						q.Done = func(q *storage.Request) { done <- q.Err }
						pool.Submit(&q)
						return <-done
					}
					write(1)
					write(2)
					for _, submit := range []bool{false, true} {
						for _, damage := range append([]inject.Damage{inject.Sound, inject.Unseen}, inject.Damages...) {
							hit := false // one transfer of a read
							damager.Set(damage, func(op inject.Op) bool {
								ok := !hit && filepath.Base(op.Path) == "spill"
								hit = true
								return ok
							})
							err := read(2, submit)
							same := string(got) == string(want[:form.read])
							if h := damager.Hits(); (h == 1) != (damage != inject.Sound) {
								t.Fatalf("%v: %d hits", damage, h)
							}
							var e *storage.Error
							var d *storage.DamageError
							switch {
							case damage == inject.Sound && (err != nil || !same):
								t.Fatalf("%v: %v", damage, err)
							case damage == inject.Unseen && (err != nil || same):
								t.Errorf("%v: %v, the same bytes: %v", damage, err, same)
							case damage == inject.Sound || damage == inject.Unseen:
							case !errors.As(err, &e) || !errors.As(err, &d) || e.Class() != "io" || d.Class() != "io" || e.Op != "verify" || e.Offset%page != 0 || e.Offset >= form.read:
								t.Errorf("%v: %v", damage, err)
							case !slices.ContainsFunc(parents, func(dir string) bool { return strings.Contains(err.Error(), dir) }) || !strings.Contains(err.Error(), "scratch=DIR"):
								t.Errorf("%v: %v", damage, err)
							case folders == 1 && form.seal.Sums == nil && d.Displaced != (damage == inject.Earlier || damage == inject.Elsewhere || damage == inject.Neighbour && form.seal.Unit == page):
								t.Errorf("%v: displaced is %v", damage, d.Displaced)
							}
						}
						damager.Set(inject.Sound, nil)
						if form.seal.Sums == nil {
							if err := read(1, submit); !errors.As(err, new(*storage.DamageError)) {
								t.Errorf("another generation: %v", err)
							}
						}
						if err := read(2, submit); err != nil {
							t.Errorf("when the device is sound again: %v", err)
						}
					}
					if c := pool.Counters(); c.PagesVerified == 0 || c.Failures == 0 {
						t.Errorf("%+v", c)
					}
				})
			}
		}
	}
}

// What a removed file left on the device is not taken for what another holds.
func TestSealNamesFile(t *testing.T) {
	scratch, err := storage.OpenScratch(nil, []string{t.TempDir()}, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer scratch.Close()
	pool := storage.NewPool(storage.PoolOptions{IO: storage.IOPread})
	defer pool.Close()
	var files [2]*storage.File
	for i := range files {
		if files[i], err = scratch.Create("spill", page); err != nil {
			t.Fatal(err)
		}
		if i == 0 {
			if err := scratch.Remove(files[i]); err != nil {
				t.Fatal(err)
			}
		}
	}
	b := storage.AlignedBytes(page)
	files[0].PutSeal(b, 0, 0, 0) // as the removed file had it
	if err := pool.Do(&storage.Request{File: files[1], Buf: b, Write: true, Seal: storage.Seal{Put: true}}); err != nil {
		t.Fatal(err)
	}
	var damage *storage.DamageError
	if err := pool.Do(&storage.Request{File: files[1], Buf: b}); !errors.As(err, &damage) || !damage.Displaced {
		t.Fatal(err)
	}
	files[1].PutSeal(b, 0, 0, 0)
	if err := pool.Do(&storage.Request{File: files[1], Buf: b, Write: true, Seal: storage.Seal{Put: true}}); err != nil {
		t.Fatal(err)
	}
	if err := pool.Do(&storage.Request{File: files[1], Buf: b}); err != nil {
		t.Fatal(err)
	}
}

func TestSealPanics(t *testing.T) {
	scratch, err := storage.OpenScratch(nil, []string{t.TempDir()}, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer scratch.Close()
	f, err := scratch.Create("spill", 4*page)
	if err != nil {
		t.Fatal(err)
	}
	pool := storage.NewPool(storage.PoolOptions{IO: storage.IOPread})
	defer pool.Close()
	for name, seal := range map[string]storage.Seal{
		"part of a page":  {Unit: 100},
		"negative":        {Unit: -page},
		"too few sums":    {Unit: page, Sums: make([]uint32, 3)},
		"no sums at all":  {Unit: 3 * page, Sums: []uint32{}},
		"none for a unit": {Sums: []uint32{}},
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: no panic", name)
				}
			}()
			pool.Do(&storage.Request{File: f, Buf: storage.AlignedBytes(4 * page), Seal: seal})
		}()
	}
}
