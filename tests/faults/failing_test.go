package faults

// Operations that fail while a store or an export is made: the error is typed,
// what was there before still is, and what is left over is named.

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/goagnes/goagnes/goagnes"
	"github.com/goagnes/goagnes/goagnes/storage"
	"github.com/goagnes/goagnes/goagnes/storage/inject"
)

// takesSpace tells operations that a full disk refuses.
func takesSpace(op inject.Op) bool {
	return op.Name == "write" || op.Name == "allocate" || op.Name == "mkdir"
}

// TestFailing fails the n-th operation of each deed, alone or with all that
// follow, with an error of the device or a full disk; or cuts writes short.
func TestFailing(t *testing.T) {
	for _, d := range deeds(t, true) {
		t.Run(strings.ReplaceAll(d.name, " ", "-"), func(t *testing.T) {
			root := t.TempDir()
			begin := func() {
				clearDir(t, root)
				if d.before != nil {
					d.before(t, root)
				}
			}
			begin()
			operations := 0
			// Of one goroutine at a time: the ring's reaper and workers take turns.
			var counted atomic.Int64
			if err := d.run(root, inject.New(unsynced{storage.OS}, inject.Options{Fail: func(inject.Op) error { counted.Add(1); return nil }})); err != nil {
				t.Fatal(err)
			}
			operations = int(counted.Load())
			tried, failed, leftovers := 0, 0, 0
			for _, way := range []string{"once", "from then on", "full", "short"} {
				for _, at := range chosen(operations, uint64(len(way))) {
					begin()
					var n atomic.Int64
					o := inject.Options{}
					switch way {
					case "once":
						o.Fail = func(inject.Op) error {
							if n.Add(1) == int64(at)+1 {
								return unix.EIO
							}
							return nil
						}
					case "from then on":
						o.Fail = func(op inject.Op) error {
							if n.Add(1) > int64(at) && op.Name != "read" && op.Name != "open" {
								return unix.EROFS
							}
							return nil
						}
					case "full":
						o.Fail = func(op inject.Op) error {
							if n.Add(1) > int64(at) && takesSpace(op) {
								return unix.ENOSPC
							}
							return nil
						}
					case "short":
						o.Answer = func(op inject.Op, moved int, err error) (int, error) {
							if n.Add(1) > int64(at) && op.Bytes > 4096 && moved == op.Bytes {
								return moved / 2 &^ 511, err
							}
							return moved, err
						}
					}
					err := d.run(root, inject.New(unsynced{storage.OS}, o))
					tried++
					what := fmt.Sprintf("%s, operation %d of %d", way, at, operations)
					if way == "short" && err != nil {
						t.Errorf("%s: writes and reads that are cut short are gone on with: %v", what, err)
					}
					if err != nil {
						failed++
						if class := goagnes.Class(err); class != goagnes.ClassIO {
							t.Errorf("%s: class %q of %v", what, class, err)
						}
						leftovers += d.named(t, what, root, err)
					}
					if err := d.check(root, err == nil); err != nil {
						t.Errorf("%s: %v", what, err)
					}
				}
				if t.Failed() && *moments > 0 {
					break
				}
			}
			t.Logf("%d runs of %d operations, %d failed, %d left something and named it", tried, operations, failed, leftovers)
		})
	}
}

// named reports what a failed deed has left beside what may be there without
// saying so; it returns how much it has left.
func (d *deed) named(t *testing.T, what, root string, failure error) int {
	t.Helper()
	entries, err := os.ReadDir(root)
	if err != nil {
		t.Fatal(err)
	}
	left := 0
	look := func(name string, patterns []string) {
		if slices.ContainsFunc(patterns, func(p string) bool { ok, _ := filepath.Match(p, filepath.Base(name)); return ok }) {
			return
		}
		left++
		if !strings.Contains(failure.Error(), filepath.Base(name)) {
			t.Errorf("%s: %s is left over and not named by: %v", what, name, failure)
		}
	}
	for _, e := range entries {
		look(e.Name(), d.left)
		if d.inside == nil || !slices.Contains(d.left, e.Name()) || e.Name() == "store" {
			continue
		}
		parts, err := os.ReadDir(filepath.Join(root, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		held := map[string]bool{}
		if s, err := goagnes.Open(filepath.Join(root, "store"), goagnes.OpenOptions{}); err == nil {
			for _, dir := range s.Info().Stripes {
				held[dir] = true
			}
			s.Close()
		}
		for _, part := range parts {
			if dir := filepath.Join(root, e.Name(), part.Name()); !held[dir] {
				look(part.Name(), nil)
			}
		}
	}
	return left
}
