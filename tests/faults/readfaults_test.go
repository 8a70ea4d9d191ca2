package faults

// Faults of devices under an open store, injected into completions of the ring
// and system calls alike: the minibatches are right, or a typed error names file
// and block, the loader works again when the fault is over, and nothing is
// leaked.

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/goagnes/goagnes/goagnes"
	"github.com/goagnes/goagnes/goagnes/storage"
	"github.com/goagnes/goagnes/goagnes/storage/inject"
	"github.com/goagnes/goagnes/layout"
	"github.com/goagnes/goagnes/tests/fixture/graph"
	"github.com/goagnes/goagnes/tests/fixture/life"
	"github.com/goagnes/goagnes/tests/fixture/sampler"
	"github.com/goagnes/goagnes/tests/fixture/tree"
)

// engines are the ways to the device that this system has.
func engines() []string {
	if storage.RingRefusal() != nil {
		return []string{"pread", "buffered"}
	}
	return []string{"uring", "pread", "buffered"}
}

// modes are those that are tried with a way to the device: the page cache is
// below all of them alike.
func modes(engine string) []string {
	if testing.Short() || engine == "buffered" && *moments > 0 {
		return []string{"agnes"}
	}
	return []string{"agnes", "agnes-no", "agnes-paper"}
}

// onEach runs f with a store of the graph, whose loaders spill, for every way to
// the device and mode.
func onEach(t *testing.T, stripes int, f func(t *testing.T, c *faulty)) {
	g := graph.Ring(3000)
	dir := t.TempDir()
	path := filepath.Join(dir, "store")
	o := goagnes.BuildOptions{BlockSize: 4096, Order: "degree"}
	for i := range stripes {
		part := filepath.Join(dir, fmt.Sprint("ssd", i))
		if err := os.Mkdir(part, 0o777); err != nil {
			t.Fatal(err)
		}
		o.Stripes = append(o.Stripes, part)
	}
	g.Build(t, path, o)
	seed := uint64(8)
	p := graph.Plan{Fanouts: []int{5, 4}, Input: goagnes.InputNodes{Split: "train"}, Batch: 24, Shuffle: true}
	want := [][]*sampler.Batch{g.Plain(p, seed).Epoch(0), g.Plain(p, seed).Epoch(1), g.Plain(p, seed).Epoch(2)}
	for _, engine := range engines() {
		for _, mode := range modes(engine) {
			t.Run(engine+"/"+mode, func(t *testing.T) {
				before := life.TakeCensus(t)
				c := &faulty{g: g, path: path, scratch: t.TempDir(), want: want, fs: inject.New(nil, inject.Options{})}
				c.s = life.Open(t, path, goagnes.OpenOptions{Memory: 7 << 19, NumThreads: 2, Scratch: c.scratch, IO: engine, FS: c.fs})
				c.o = p.Options(seed)
				c.o.Mode, c.o.HyperbatchSize = mode, 10
				c.l = life.Load(t, c.s, c.o)
				f(t, c)
				if err := c.s.Close(); err != nil {
					t.Error(err)
				}
				tree.Empty(t, c.scratch)
				before.Hold(t)
			})
		}
	}
}

// faulty is a store on a file system with faults, and a loader of it.
type faulty struct {
	g             *graph.Graph
	path, scratch string
	fs            *inject.FS
	s             *goagnes.Store
	o             goagnes.LoaderOptions
	l             *goagnes.Loader
	want          [][]*sampler.Batch // by epoch
}

// epoch runs an epoch and holds what it gives against the plain sampler; the
// error that ends it.
func (c *faulty) epoch(epoch uint32) error { return c.follow(c.l, epoch) }

// fresh takes another loader, with nothing in memory.
func (c *faulty) fresh(t *testing.T) {
	t.Helper()
	if err := c.l.Close(); err != nil {
		t.Error(err)
	}
	c.l = life.Load(t, c.s, c.o)
}

func (c *faulty) follow(l *goagnes.Loader, epoch uint32) error {
	l.SetEpoch(epoch)
	if err := l.Start(context.Background()); err != nil {
		return err
	}
	return c.g.Follow(l, c.o, 0, c.want[epoch])
}

// named reports whether an error is of the device, typed, and names a file, and
// of the store's files a block.
func named(err error) error {
	var e *storage.Error
	switch {
	case !errors.As(err, &e):
		return fmt.Errorf("%T is not typed: %w", err, err)
	case goagnes.Class(err) != goagnes.ClassIO:
		return fmt.Errorf("class %q of %w", goagnes.Class(err), err)
	case !strings.Contains(err.Error(), e.Path) || e.Offset < 0:
		return fmt.Errorf("no file or place in %w", err)
	}
	store := !strings.Contains(e.Path, "goagnes-scratch-") && filepath.Base(e.Path) != layout.ChecksumFile
	if store && (e.Block != e.Offset/4096 || !strings.Contains(err.Error(), fmt.Sprintf("block %d", e.Block))) {
		return fmt.Errorf("no block in %w", err)
	}
	return nil
}

// TestTransfersRepeated answers with fewer bytes, later, or to be asked again:
// no minibatch changes.
func TestTransfersRepeated(t *testing.T) {
	onEach(t, 0, func(t *testing.T, c *faulty) {
		var n, again, short, late atomic.Int64
		c.fs.Set(inject.Options{
			Fail: func(op inject.Op) error {
				switch k := n.Add(1); {
				case op.Name != "read" && op.Name != "write":
				case k%31 == 0:
					again.Add(1)
					return unix.EAGAIN
				case k%29 == 0:
					return unix.EINTR
				}
				return nil
			},
			Answer: func(op inject.Op, moved int, err error) (int, error) {
				switch k := n.Load(); {
				case moved <= 512:
				case k%7 == 0: // inside a page
					short.Add(1)
					return moved / 2 / 512 * 512, err
				case k%11 == 0 && moved > 4096:
					short.Add(1)
					return 4096, err
				case k%37 == 0: // nothing moved, ask again
					return 0, unix.EAGAIN
				}
				return moved, err
			},
			Delay: func(op inject.Op) time.Duration {
				if n.Load()%101 == 0 {
					late.Add(1)
					return 20 * time.Millisecond
				}
				return 0
			},
		})
		for epoch := range uint32(2) {
			if err := c.epoch(epoch); err != nil {
				t.Fatal(err)
			}
		}
		if again.Load() == 0 || short.Load() == 0 || late.Load() == 0 {
			t.Errorf("%d transfers were to be asked again, %d were short, %d late: each must occur", again.Load(), short.Load(), late.Load())
		}
	})
}

// TestTransfersFail fails the n-th read or write of an epoch, before it reaches
// the device or in its answer, also for ever with EAGAIN.
func TestTransfersFail(t *testing.T) {
	onEach(t, 0, func(t *testing.T, c *faulty) {
		var n atomic.Int64
		count := func(op inject.Op) bool { return op.Name == "read" || op.Name == "write" }
		c.fs.Set(inject.Options{Fail: func(op inject.Op) error {
			if count(op) {
				n.Add(1)
			}
			return nil
		}})
		if err := c.epoch(0); err != nil {
			t.Fatal(err)
		}
		if c.o.Mode != "agnes-no" && c.l.Stats().SpilledRowBytes == 0 {
			t.Error("nothing was spilled: scratch is not tried")
		}
		transfers, tries := int(n.Load()), 4
		if *moments <= 0 {
			tries = transfers
		}
		r := rand.New(rand.NewPCG(3, 3))
		failed, scratch := 0, 0
		for try := range tries {
			at := int64(r.IntN(transfers))
			if *moments <= 0 {
				at = int64(try)
			}
			n.Store(0)
			hit := func(op inject.Op) error {
				if count(op) && n.Add(1) == at+1 {
					return unix.EIO
				}
				return nil
			}
			o := inject.Options{Fail: hit}
			if try%2 == 1 {
				o = inject.Options{Answer: func(op inject.Op, moved int, err error) (int, error) {
					if e := hit(op); e != nil {
						return 0, e
					}
					return moved, err
				}}
			}
			c.fs.Set(o)
			err := c.epoch(0)
			c.fs.Set(inject.Options{})
			// Once rows and blocks are in memory there may be fewer transfers.
			if err != nil {
				failed++
				if e := named(err); e != nil || !errors.Is(err, unix.EIO) {
					t.Errorf("transfer %d of %d: %v (%v)", at, transfers, e, err)
				}
				if strings.Contains(err.Error(), "goagnes-scratch-") {
					scratch++
				}
			}
			if err := c.epoch(1); err != nil {
				t.Fatalf("after transfer %d of %d: %v", at, transfers, err)
			}
		}
		if failed == 0 {
			t.Error("no epoch failed")
		}
		t.Logf("%d of %d epochs failed, %d in scratch, of %d transfers", failed, tries, scratch, transfers)
		if testing.Short() {
			return
		}
		// A device that is busy for ever ends the epoch, too, in its time.
		c.fs.Set(inject.Options{Fail: func(op inject.Op) error {
			if op.Name == "read" && filepath.Base(op.Path) == layout.SectionX {
				return unix.EAGAIN
			}
			return nil
		}})
		c.fresh(t)
		if err := life.Epoch(t, c.l); !errors.Is(err, unix.EAGAIN) || named(err) != nil {
			t.Errorf("a device that is busy for ever: %v", err)
		}
		c.fs.Set(inject.Options{})
	})
}

// TestLateReads waits for seconds of latency, gives an epoch up meanwhile, and
// closes meanwhile.
func TestLateReads(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for seconds")
	}
	onEach(t, 0, func(t *testing.T, c *faulty) {
		var n atomic.Int64
		late := inject.Options{Delay: func(op inject.Op) time.Duration {
			if op.Name == "read" && n.Add(1) == 9 {
				return 1200 * time.Millisecond
			}
			return 0
		}}
		c.fs.Set(late)
		if err := c.epoch(0); err != nil {
			t.Fatal(err)
		}
		if n.Load() < 9 {
			t.Fatal("no read was late")
		}
		// An impatient consumer.
		c.fs.Set(inject.Options{ReadLatency: 300 * time.Millisecond})
		for _, give := range []func(){
			func() { c.l.Stop() },
			func() {
				if err := c.l.Start(context.Background()); err != nil {
					t.Error(err)
				}
			},
		} {
			ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
			c.fresh(t)
			if err := c.l.Start(context.Background()); err != nil {
				t.Fatal(err)
			}
			start := time.Now()
			if _, err := c.l.Next(ctx); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("Next of a slow device within 50 ms: %v", err)
			}
			if d := time.Since(start); d > 30*time.Second {
				t.Errorf("Next came back after %v", d)
			}
			cancel()
			give()
			if err := c.l.Close(); err != nil { // waits for what is at the device
				t.Error(err)
			}
		}
		c.fresh(t)
		c.fs.Set(inject.Options{})
		if err := c.epoch(1); err != nil {
			t.Error(err)
		}
	})
}

// TestAbandoned leaves epochs in the midst, in every mode and way.
func TestAbandoned(t *testing.T) {
	onEach(t, 0, func(t *testing.T, c *faulty) {
		ctx := context.Background()
		live := life.TakeCensus(t)
		for _, taken := range []int{0, 2} {
			for _, leave := range []string{"stop", "start again", "cancel", "close"} {
				l := life.Load(t, c.s, c.o)
				epoch, cancel := context.WithCancel(ctx)
				if err := l.Start(epoch); err != nil {
					t.Fatal(err)
				}
				for range taken {
					b, err := l.Next(epoch)
					if err != nil {
						t.Fatal(err)
					}
					b.Release()
				}
				switch leave {
				case "stop":
					l.Stop()
				case "cancel":
					cancel()
					for {
						b, err := l.Next(ctx) // one that was ready may come yet
						if err == nil {
							b.Release()
							continue
						}
						if goagnes.Class(err) != goagnes.ClassInterrupted {
							t.Errorf("Next of a cancelled epoch: %v", err)
						}
						break
					}
				}
				if leave != "close" {
					if err := c.follow(l, 1); err != nil {
						t.Errorf("%s after %d minibatches: %v", leave, taken, err)
					}
				}
				cancel()
				if err := l.Close(); err != nil {
					t.Error(err)
				}
				live.Hold(t)
			}
		}
	})
}

// TestReplacedWhileOpen removes and replaces a store, and its stripe directories,
// under a reader: what is open stays whole, what would have to be opened again is
// refused.
func TestReplacedWhileOpen(t *testing.T) {
	for _, stripes := range []int{0, 2} {
		onEach(t, stripes, func(t *testing.T, c *faulty) {
			if err := c.epoch(0); err != nil {
				t.Fatal(err)
			}
			// The store's place is taken by another of the same shape.
			aside := c.path + "-aside"
			if err := os.Rename(c.path, aside); err != nil {
				t.Fatal(err)
			}
			other := graph.Ring(3000)
			other.X[0] ^= 1
			other.Build(t, c.path, goagnes.BuildOptions{BlockSize: 4096, Order: "degree"})
			if err := errors.Join(c.epoch(1), c.epoch(0)); err != nil {
				t.Errorf("the files that are open are no longer there by name: %v", err)
			}
			way := map[string]string{"pread": "buffered"}[c.s.Info().Engine]
			if way == "" {
				way = "pread"
			}
			o := c.o
			o.IO = way
			_, err := goagnes.NewLoader(c.s, o)
			if goagnes.Class(err) != goagnes.ClassStore || !strings.Contains(err.Error(), "replaced") {
				t.Errorf("a loader that opens the files again: %v", err)
			}
			if err := os.RemoveAll(c.path); err != nil {
				t.Fatal(err)
			}
			if _, err := goagnes.NewLoader(c.s, o); goagnes.Class(err) != goagnes.ClassStore {
				t.Errorf("a loader that opens the files again when there is no store: %v", err)
			}
			if err := os.Rename(aside, c.path); err != nil {
				t.Fatal(err)
			}
			if stripes == 0 {
				return
			}
			// A stripe directory is missing.
			part := c.s.Info().Stripes[1]
			if err := os.Rename(part, part+"-aside"); err != nil {
				t.Fatal(err)
			}
			if err := c.epoch(1); err != nil {
				t.Error(err)
			}
			for _, open := range []func() error{
				func() error { _, err := goagnes.NewLoader(c.s, o); return err },
				func() error { _, err := goagnes.Open(c.path, goagnes.OpenOptions{}); return err },
			} {
				var damage *layout.Error
				if err := open(); !errors.As(err, &damage) || !strings.Contains(err.Error(), part) {
					t.Errorf("a stripe directory is missing: %v", err)
				}
			}
			if err := os.Rename(part+"-aside", part); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// TestStripesFail fails one of two stripe directories: for a build, for scratch
// and for reads.
func TestStripesFail(t *testing.T) {
	onEach(t, 2, func(t *testing.T, c *faulty) {
		bad := filepath.Dir(c.s.Info().Stripes[1])
		if err := c.epoch(0); err != nil {
			t.Fatal(err)
		}
		for _, failure := range []unix.Errno{unix.EIO, unix.ENOSPC, unix.EROFS} {
			c.fs.Set(inject.Options{Fail: func(op inject.Op) error {
				reads := op.Name == "read" || op.Name == "open" || op.Name == "writable" && failure == unix.ENOSPC
				if strings.HasPrefix(op.Path, bad) && (failure == unix.EIO || !reads) {
					return failure
				}
				return nil
			}})
			if failure == unix.EIO {
				c.fresh(t)
				if err := life.Epoch(t, c.l); !errors.Is(err, failure) || !strings.Contains(err.Error(), bad) || !strings.Contains(err.Error(), "block") {
					t.Errorf("reads of a broken stripe directory: %v", err)
				}
			}
			// Scratch beside the stripe directories.
			s, err := goagnes.Open(c.path, goagnes.OpenOptions{Memory: 7 << 19, NumThreads: 2, IO: c.s.Info().Engine, FS: c.fs})
			if failure == unix.EIO {
				if !errors.Is(err, failure) || !strings.Contains(err.Error(), bad) {
					t.Errorf("a broken stripe directory: %v", err)
				}
				c.fs.Set(inject.Options{})
				continue
			}
			if err != nil {
				t.Fatal(err)
			}
			l := life.Load(t, s, c.o)
			err = c.follow(l, 0)
			if moved := s.Info().ScratchMoved != ""; moved != (failure == unix.EROFS) {
				t.Errorf("%v: scratch was moved: %v", failure, moved)
			}
			if failure == unix.ENOSPC && err != nil && (!errors.Is(err, failure) || !strings.Contains(err.Error(), bad)) {
				t.Errorf("%v for scratch: %v", failure, err)
			}
			if failure == unix.ENOSPC && err == nil && c.o.Mode == "agnes" && l.Stats().Halved == 0 { // what needs no scratch alone does without
				t.Errorf("%v for scratch, and nothing was spilled", failure)
			}
			if failure == unix.EROFS && err != nil {
				t.Errorf("%v for scratch, which goes elsewhere: %v", failure, err)
			}
			c.fs.Set(inject.Options{})
			if err := s.Close(); err != nil {
				t.Error(err)
			}
			for _, dir := range []string{bad, filepath.Dir(c.s.Info().Stripes[0])} {
				if entries, err := os.ReadDir(dir); err != nil || len(entries) != 1 {
					t.Errorf("%v: %s holds %v, %v", failure, dir, entries, err)
				}
			}
		}
		if err := c.epoch(1); err != nil {
			t.Error(err)
		}
	})
}
