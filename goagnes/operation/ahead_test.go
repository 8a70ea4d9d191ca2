package operation

// Sampling ahead changes when minibatches are sampled and nothing else; what ends it
// early, and who lacks its memory.

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/goagnes/goagnes/goagnes/storage"
	"github.com/goagnes/goagnes/goagnes/storage/inject"
	"github.com/goagnes/goagnes/layout"
)

// Minibatches, blocks read and bytes moved are those of sampling each hyperbatch in
// its turn, under every policy and budget; where there is room every hyperbatch but
// the first is sampled ahead, which the plan foretells.
func TestAhead(t *testing.T) {
	type outcome struct {
		sum                           uint64
		graph, rows, samples, spilled int64
		read, written                 int64
	}
	var want uint64
	for _, c := range []struct {
		name       string
		bytes      int64
		hyperbatch int
		published  bool
		norows     bool
		ahead      int64 // hyperbatches of the second epoch
	}{
		{"all in memory", 64 << 20, 8, false, false, 2},
		{"alone", 64 << 20, 1, false, false, fixtureBatches - 1},
		{"alone, nothing small", 20 << 20, 1, false, false, fixtureBatches - 1},
		{"published", 64 << 20, 4, true, false, 4},
		{"published, alone", 24 << 20, 1, true, false, fixtureBatches - 1},
		{"kept beside the steps", 20 << 20, 3, false, false, 6},
		{"no rows", 20 << 20, 3, false, true, 6},
		{"one hyperbatch", 64 << 20, 1000, false, false, 0},
		{"no room", tight, 10, false, false, 0},
	} {
		var outcomes [2][2]outcome
		for i, inTurn := range []bool{true, false} {
			f := newFixture(t, c.bytes, func(o *Options) {
				o.Hyperbatch, o.Published = c.hyperbatch, c.published
				if c.norows {
					o.Outputs.X, o.Outputs.Y, o.Outputs.NodeIDs = false, false, false
				}
			})
			f.inTurn = inTurn
			for epoch := range 2 {
				s, io := f.Stats(), f.Store.Pool().Counters()
				n, sum, err := drain(f.Start(context.Background(), 0))
				if err != nil || n != fixtureBatches {
					t.Fatalf("%s: %d minibatches, %v", c.name, n, err)
				}
				now, moved := f.Stats(), f.Store.Pool().Counters().Sub(io)
				if c.bytes == tight { // how many rows are cached depends on what the consumer holds meanwhile
					now.SpilledRowBytes, moved = s.SpilledRowBytes, storage.Counters{}
				}
				outcomes[i][epoch] = outcome{sum, now.GraphBlocksRead - s.GraphBlocksRead, now.FeatureBlocksRead - s.FeatureBlocksRead,
					now.SpilledSampleBytes - s.SpilledSampleBytes, now.SpilledRowBytes - s.SpilledRowBytes, moved.BytesRead - moved.ChecksumRead, moved.BytesWritten}
				ahead := now.SampledAhead - s.SampledAhead
				if inTurn && ahead != 0 || !inTurn && epoch == 1 && ahead != c.ahead {
					t.Errorf("%s: %d hyperbatches were sampled ahead in epoch %d, in turn: %v", c.name, ahead, epoch, inTurn)
				}
				if now.SampledNodes != f.meter.deliveredNodes.Load() || now.Minibatches != int64(epoch+1)*fixtureBatches {
					t.Errorf("%s: %+v", c.name, now)
				}
				if !c.published {
					f.idle()
				}
			}
			if x := f.Explain(); !inTurn && x.SamplesAhead != (c.ahead > 0) {
				t.Errorf("%s: the plan says that hyperbatches are sampled ahead: %v", c.name, x.SamplesAhead)
			}
			read := int64(0)
			for _, p := range f.Explain().Phases {
				read += p.ActualRead
			}
			if all := f.Store.Pool().Counters().BytesRead; read > all/2+fixtureBatches || read < all/2-all/8 { // of two epochs; tables are read before
				t.Errorf("%s: %d bytes are told of an epoch, %d were read in two", c.name, read, all)
			}
			f.close()
		}
		if outcomes[0] != outcomes[1] {
			t.Errorf("%s: in turn %+v, ahead %+v", c.name, outcomes[0], outcomes[1])
		}
		if want == 0 {
			want = outcomes[0][0].sum
		}
		if got := outcomes[1][1].sum; got != want && !c.norows {
			t.Errorf("%s: other minibatches", c.name)
		}
	}
}

// Between too little memory for sampling ahead and enough, whatever is done comes to
// the same minibatches within the budget, also where the consumer keeps some.
func TestAheadBudgets(t *testing.T) {
	r := rand.New(rand.NewPCG(4, 11))
	var want uint64
	some := int64(0)
	for mib := 5.5; mib < 40; mib *= 1.2 {
		f := newFixture(t, int64(mib*(1<<20)), func(o *Options) {
			o.Hyperbatch = 1 + r.IntN(9)
			o.Grow = r.IntN(2) == 0
		})
		f.slabs.Wait = time.Minute
		for range 2 {
			n, sum, err := drain(f.Start(context.Background(), 0))
			if err != nil || n != fixtureBatches {
				t.Fatalf("%.1f MiB, hyperbatches of %d: %d minibatches, %v", mib, f.Hyperbatch, n, err)
			}
			if want == 0 {
				want = sum
			}
			if sum != want {
				t.Errorf("%.1f MiB, hyperbatches of %d: other minibatches", mib, f.Hyperbatch)
			}
			f.idle()
		}
		if peak := f.Budget.Peak(); peak > f.Budget.Total() {
			t.Errorf("%.1f MiB: %d bytes were used", mib, peak)
		}
		some += f.Stats().SampledAhead
		f.close()
	}
	if some == 0 {
		t.Error("nothing was sampled ahead")
	}
}

// gatedSeeds has one Lookup wait until it may go on or its context ends.
type gatedSeeds struct {
	AllSeeds
	calls  atomic.Int32
	at     int32
	inside chan struct{} // closed when that Lookup has begun
	open   chan struct{} // closed when it may go on
	fail   func() error  // what it comes to then
}

func newGate(at int32, fail func() error) *gatedSeeds {
	return &gatedSeeds{AllSeeds: 1000, at: at, inside: make(chan struct{}), open: make(chan struct{}), fail: fail}
}

func (s *gatedSeeds) Lookup(ctx context.Context, places []int64, ids []uint64) error {
	if s.calls.Add(1) == s.at {
		close(s.inside)
		select {
		case <-s.open:
			if err := s.fail(); err != nil {
				return err
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return s.AllSeeds.Lookup(ctx, places, ids)
}

// gated is a fixture whose second hyperbatch waits at its gate while it is sampled.
func gated(t *testing.T, fail func() error) (*fixture, *gatedSeeds) {
	gate := newGate(2, fail)
	return newFixture(t, 64<<20, func(o *Options) { o.Seeds = gate }), gate
}

// take takes n minibatches.
func take(t *testing.T, r *Run, n int) {
	t.Helper()
	for i := range n {
		b, err := r.Next(context.Background())
		if err != nil {
			t.Fatalf("minibatch %d: %v", i, err)
		}
		b.Release()
	}
}

// A failure of what is sampled ahead is told after the minibatches before it.
func TestAheadFails(t *testing.T) {
	refused := errors.New("refused")
	for _, c := range []struct {
		name string
		fail func() error
		is   func(error) bool
	}{
		{"error", func() error { return refused }, func(err error) bool { return errors.Is(err, refused) }},
		{"panic", func() error { panic("a bug") }, func(err error) bool {
			var bug *BugError
			return errors.As(err, &bug) && bug.Value == "a bug"
		}},
	} {
		f, gate := gated(t, c.fail)
		run := f.Start(context.Background(), 0)
		take(t, run, 1)
		<-gate.inside
		close(gate.open) // it fails while the first hyperbatch is delivered
		take(t, run, f.Hyperbatch-1)
		if _, err := run.Next(context.Background()); !c.is(err) {
			t.Errorf("%s: after the first hyperbatch: %v", c.name, err)
		}
		f.idle()
		if n, _, err := drain(f.Start(context.Background(), 0)); err != nil || n != fixtureBatches {
			t.Errorf("%s: then %d minibatches, %v", c.name, n, err)
		}
		f.close()
	}
}

// The device fails the reads of one hyperbatch's sampling, for whichever: as many
// minibatches come as lie before it, and they are right.
func TestAheadDeviceFails(t *testing.T) {
	f := newFixture(t, 64<<20, nil)
	var sums [fixtureBatches + 1]uint64
	run := f.Start(context.Background(), 0)
	for i := range fixtureBatches {
		b, err := run.Next(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		sums[i+1] = b.digest(sums[i])
		b.Release()
	}
	f.close()
	for fails := range int64(4) {
		var reads atomic.Int64
		fsys := inject.New(nil, inject.Options{Fail: func(op inject.Op) error {
			if op.Name == "read" && filepath.Base(op.Path) == layout.SectionInternal && reads.Add(1) == fails+1 {
				return unix.EIO
			}
			return nil
		}})
		f := newFixtureOn(t, fixtureDir, storage.PoolOptions{FS: fsys}, 64<<20, nil)
		reads.Store(0)
		n, sum, err := drain(f.Start(context.Background(), 0))
		switch {
		case reads.Load() <= fails:
			if err != nil || n != fixtureBatches {
				t.Errorf("nothing failed: %d minibatches, %v", n, err)
			}
		case !errors.Is(err, unix.EIO) || n%f.Hyperbatch != 0 || n > int(fails)*f.Hyperbatch || n == 0 && fails > 0 && reads.Load() > 2:
			t.Errorf("read %d fails: %d minibatches, %v", fails, n, err)
		}
		if sum != sums[n] {
			t.Errorf("read %d fails: the %d minibatches before it are others", fails, n)
		}
		f.idle()
		f.close()
	}
}

// An epoch that is closed, or cancelled, in the midst of sampling ahead ends at once;
// minibatches that are there come before, however long the sampling takes.
func TestAheadClosed(t *testing.T) {
	for _, taken := range []int{1, 3, 8} {
		for _, cancels := range []bool{false, true} {
			f, gate := gated(t, func() error { return nil })
			ctx, cancel := context.WithCancel(context.Background())
			run := f.Start(ctx, 0)
			take(t, run, taken)
			<-gate.inside
			if cancels {
				cancel()
				if _, _, err := drain(run); !errors.Is(err, context.Canceled) {
					t.Errorf("cancelled after %d: %v", taken, err)
				}
			}
			run.Close()
			cancel()
			f.idle()
			if n, _, err := drain(f.Start(context.Background(), 0)); err != nil || n != fixtureBatches {
				t.Errorf("after closing: %d minibatches, %v", n, err)
			}
			f.close()
		}
	}
}

// Whoever lacks memory gets that of the hyperbatch which is sampled ahead, before it
// is sampled and after: it is sampled again in its turn.
func TestAheadGivenUp(t *testing.T) {
	want := uint64(0)
	for _, when := range []string{"never", "while it is sampled", "when it is sampled"} {
		f, gate := gated(t, func() error { return nil })
		run := f.Start(context.Background(), 0)
		first, err := run.Next(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		sum := first.digest(0)
		first.Release()
		<-gate.inside
		if when != "while it is sampled" {
			close(gate.open)
		}
		if when == "when it is sampled" {
			for f.Stats().SampledNodes < 16*50 || f.Budget.Consumers()["sampling window"] > 0 {
				time.Sleep(time.Millisecond)
			}
		}
		if when != "never" {
			if f.Budget.Consumers()["access counts"] == 0 {
				t.Fatalf("%s: nothing is sampled ahead", when)
			}
			other, err := f.Budget.Reserve("others", f.Budget.Free()+1)
			if err != nil {
				t.Fatalf("%s: %v", when, err)
			}
			if n := f.Budget.Consumers()["access counts"]; n != 0 {
				t.Errorf("%s: %d bytes of it are left", when, n)
			}
			other.Release()
		}
		for range fixtureBatches - 1 {
			b, err := run.Next(context.Background())
			if err != nil {
				t.Fatalf("%s: %v", when, err)
			}
			sum = b.digest(sum)
			b.Release()
		}
		if want == 0 {
			want = sum
		}
		if ahead := f.Stats().SampledAhead; sum != want || (ahead == 2) != (when == "never") || ahead == 0 {
			t.Errorf("%s: %d hyperbatches were sampled ahead, other minibatches: %v", when, ahead, sum != want)
		}
		if _, _, err := drain(run); err != nil {
			t.Error(err)
		}
		f.idle()
		f.close()
	}
}

// Records go to the other one of two files while those of the hyperbatch before are
// read, and to none that lies in memory.
func TestAheadScratch(t *testing.T) {
	f := newFixture(t, 64<<20, nil)
	h := &hyperbatch{e: f.Engine, half: 1, ahead: true}
	if file, err := h.samplesFile(1 << 20); err != nil || file != f.samples[1] || f.samples[0] != nil {
		t.Errorf("%v, files %v", err, f.samples)
	}
	f.close()
	f = newFixture(t, 64<<20, nil)
	f.Scratch = func() (*storage.Scratch, error) {
		return storage.OpenScratch(inject.New(nil, inject.Options{Magic: unix.TMPFS_MAGIC}), []string{f.scratch}, 0)
	}
	if _, err := (&hyperbatch{e: f.Engine, ahead: true}).samplesFile(1 << 20); !errors.Is(err, errAhead) {
		t.Errorf("in memory: %v", err)
	}
	if _, err := (&hyperbatch{e: f.Engine}).samplesFile(1 << 20); err != nil {
		t.Errorf("in memory, in turn: %v", err)
	}
	if _, err := (&hyperbatch{e: f.Engine, ahead: true}).samplesFile(1 << 20); err != nil {
		t.Errorf("in memory, without growing: %v", err)
	}
	f.close()
}

// The plan divides alike for sampling ahead and alone where there is room for it, and
// never beyond the room.
func TestAheadPlan(t *testing.T) {
	each := estimate{window: 1 << 20, fixed: 1 << 18, record: 1 << 16}
	p := plan{rows: true, counts: 1 << 20, graphBlocks: 10, graphFrame: 1 << 20, total: 1 << 30, columns: 1 << 16}
	const least = 1 << 20
	var seen [3]int
	for free := int64(8 << 20); free < 400<<20; free += free / 7 {
		for share := int64(1); share <= 8; share++ {
			room := free * share / 8
			for _, held := range []bool{false, true} {
				alone := p.sampling(free, free/2, least, each, 40, 1000, held)
				if alone.total() > max(free, least+alone.total()-alone.window) {
					t.Fatalf("%d bytes are divided into %+v", free, alone)
				}
				s, ok := p.ahead(alone, room, least, each, 40, held)
				switch {
				case !ok:
					seen[0]++
					if alone.total() <= room {
						t.Errorf("%+v is not sampled in %d bytes", alone, room)
					}
				case s == alone:
					seen[1]++
				default:
					seen[2]++
				}
				if ok && (s.total() > room || s.fit < 1 || s.graph != alone.graph || s.resident != alone.resident) {
					t.Errorf("%d bytes, alone %+v, ahead %+v", room, alone, s)
				}
			}
		}
	}
	if strings.Contains(fmt.Sprint(seen), " 0") || seen[0] == 0 {
		t.Errorf("divisions that were seen: %v", seen)
	}
}
