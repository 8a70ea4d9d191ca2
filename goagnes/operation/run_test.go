package operation

// Ways in which an epoch ends: at its end, by cancelling, by Close, by a
// consumer that keeps what it is given, by a bug.

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/goagnes/goagnes/goagnes/memory"
)

// tight is a budget that keeps neither the graph nor the samples in memory.
const tight = 43 << 17

// TestCancel cancels epochs at random moments, with and without memory enough:
// Next ends at once with the context's error, the engine holds nothing, and in
// the end prepares the same epoch as if nothing had been.
func TestCancel(t *testing.T) {
	for _, bytes := range []int64{tight, 64 << 20} {
		f := newFixture(t, bytes, nil)
		if bytes == tight {
			f.slabs.Wait = 5 * time.Second
		}
		start := time.Now()
		n, want, err := drain(f.Start(context.Background(), 4))
		if err != nil || n != fixtureBatches {
			t.Fatalf("%d minibatches, %v", n, err)
		}
		whole := time.Since(start)
		s := f.Stats()
		if spilled := s.SpilledSampleBytes > 0 && s.SpilledRowBytes > 0; spilled != (bytes == tight) {
			t.Fatalf("%d bytes: %d bytes of samples and %d of rows were spilled", bytes, s.SpilledSampleBytes, s.SpilledRowBytes)
		}
		r := rand.New(rand.NewPCG(1, uint64(bytes)))
		tries, ended := 40, 0
		if testing.Short() {
			tries = 8
		}
		for range tries {
			ctx, cancel := context.WithCancel(context.Background())
			run := f.Start(ctx, 4)
			stop := time.AfterFunc(time.Duration(r.Float64()*1.2*float64(whole)), cancel)
			_, _, err := drain(run)
			stop.Stop()
			cancel()
			switch {
			case err == nil:
				ended++
			case !errors.Is(err, context.Canceled):
				t.Fatalf("a cancelled epoch ended with %v", err)
			}
			run.Close()
			f.idle()
			if t.Failed() {
				break
			}
		}
		if ended == tries {
			t.Error("no epoch was cancelled before its end")
		}
		if n, sum, err := drain(f.Start(context.Background(), 4)); n != fixtureBatches || sum != want || err != nil {
			t.Errorf("after %d cancelled epochs: %d minibatches, digest %x, %v; want %x", tries, n, sum, err, want)
		}
		f.close()
	}
}

// TestCancelUndelivered cancels while a minibatch waits for the consumer and
// the reader has read ahead: the error is the context's, each time.
func TestCancelUndelivered(t *testing.T) {
	f := newFixture(t, tight, nil)
	tries := 20
	if testing.Short() {
		tries = 7
	}
	for try := range tries {
		ctx, cancel := context.WithCancel(context.Background())
		run := f.Start(ctx, 0)
		for range try % 7 {
			b, err := run.Next(context.Background())
			if err != nil {
				t.Fatal(err)
			}
			b.Release()
		}
		cancel()
		if _, _, err := drain(run); !errors.Is(err, context.Canceled) {
			t.Fatalf("a cancelled epoch ended with %v", err)
		}
		f.idle()
	}
	f.close()
}

// TestCloseDuringNext closes while another goroutine is in Next.
func TestCloseDuringNext(t *testing.T) {
	f := newFixture(t, tight, nil)
	r := rand.New(rand.NewPCG(8, 8))
	for range 25 {
		run := f.Start(context.Background(), 0)
		ended := make(chan error)
		go func() {
			_, _, err := drain(run)
			ended <- err
		}()
		time.Sleep(time.Duration(r.Int64N(int64(20 * time.Millisecond))))
		run.Close()
		select {
		case err := <-ended:
			if err != nil && !errors.Is(err, ErrClosed) {
				t.Fatalf("Next during Close: %v", err)
			}
		case <-time.After(20 * time.Second):
			t.Fatal("Next does not return after Close")
		}
		run.Close()
		f.idle()
	}
	f.close()
}

// TestNextContext ends one Next without ending the epoch.
func TestNextContext(t *testing.T) {
	f := newFixture(t, 64<<20, nil)
	run := f.Start(context.Background(), 0)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	refused := 0
	taken := 0
	for range 10 {
		b, err := run.Next(ctx)
		if err == nil { // a batch that is ready may win
			taken++
			b.Release()
			continue
		}
		if !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
		refused++
	}
	n, _, err := drain(run)
	if err != nil || n+taken != fixtureBatches || refused == 0 {
		t.Errorf("%d refused, then %d and %d minibatches, %v", refused, taken, n, err)
	}
	f.close()
}

// TestConsumerKeeps holds a consumer that releases nothing to an error that says
// so and how much it holds, after the pool's patience and not never, whichever step
// lacks the memory; then the epoch is prepared again.
func TestConsumerKeeps(t *testing.T) {
	for _, hyperbatch := range []int{8, 1} { // minibatches wait for memory; sampling does
		f := newFixture(t, 6<<20, func(o *Options) { o.Hyperbatch = hyperbatch })
		f.slabs.Wait = 100 * time.Millisecond
		run := f.Start(context.Background(), 0)
		var kept []*Batch
		var err error
		for {
			var b *Batch
			if b, err = run.Next(context.Background()); err != nil {
				break
			}
			kept = append(kept, b)
		}
		var pool *memory.PoolError
		if !errors.As(err, &pool) || pool.Held != int64(len(kept)) || pool.Waited < f.slabs.Wait || !strings.Contains(err.Error(), "release them") {
			t.Fatalf("after %d minibatches that were kept: %v", len(kept), err)
		}
		if f.Budget.Used() > f.Budget.Total() {
			t.Errorf("%d of %d bytes are used", f.Budget.Used(), f.Budget.Total())
		}
		for _, b := range kept {
			b.Release()
		}
		f.idle()
		if n, _, err := drain(f.Start(context.Background(), 0)); n != fixtureBatches || err != nil {
			t.Errorf("%d minibatches, %v", n, err)
		}
		f.close()
	}
}

// A consumer may work on what it holds for longer than the pool's patience, as often
// as it likes, and may keep more than it should for a while: time counts only while
// it asks, and what it releases meanwhile is enough.
func TestConsumerWorks(t *testing.T) {
	for _, hyperbatch := range []int{8, 1} {
		f := newFixture(t, tight, func(o *Options) { o.Hyperbatch = hyperbatch })
		f.slabs.Wait = 2 * time.Second // of asking, on a machine however busy
		run := f.Start(context.Background(), 0)
		n := 0
		var held []*Batch
		for {
			b, err := run.Next(context.Background())
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatalf("hyperbatches of %d, after %d minibatches: %v", hyperbatch, n, err)
			}
			n++
			held = append(held, b)
			if n%10 == 5 {
				time.Sleep(f.slabs.Wait + f.slabs.Wait/2)
			}
			for keep := 1; len(held) > keep; held = held[1:] {
				held[0].Release()
			}
		}
		for _, b := range held {
			b.Release()
		}
		if n != fixtureBatches {
			t.Errorf("hyperbatches of %d: %d minibatches", hyperbatch, n)
		}
		f.close()
	}
}

// faultySeeds fails in one Lookup.
type faultySeeds struct {
	AllSeeds
	calls *int
	at    int
	fail  func() error
}

func (s faultySeeds) Lookup(ctx context.Context, places []int64, ids []uint64) error {
	if *s.calls++; *s.calls == s.at {
		return s.fail()
	}
	return s.AllSeeds.Lookup(ctx, places, ids)
}

// TestBug panics within an epoch: the epoch ends with a BugError, nothing stays
// held, and the next epoch runs.
func TestBug(t *testing.T) {
	refused := errors.New("refused")
	for _, c := range []struct {
		name string
		fail func() error
	}{
		{"panic", func() error { panic("a bug") }},
		{"error", func() error { return refused }},
	} {
		for _, at := range []int{1, 4, 9} { // while seeds are sampled, and while batches are filled
			if testing.Short() && at == 4 {
				continue
			}
			calls := 0
			f := newFixture(t, tight, func(o *Options) {
				o.Seeds = faultySeeds{AllSeeds(1000), &calls, at, c.fail}
				o.InputIsID = true
				o.Outputs.NodeIDs = false // else they need no looking up
			})
			_, _, err := drain(f.Start(context.Background(), 0))
			var bug *BugError
			if c.name == "panic" && (!errors.As(err, &bug) || bug.Value != "a bug" || bug.Class() != "internal" || !strings.Contains(err.Error(), "Lookup")) {
				t.Errorf("%s at call %d: %v", c.name, at, err)
			}
			if c.name == "error" && !errors.Is(err, refused) {
				t.Errorf("%s at call %d: %v", c.name, at, err)
			}
			f.idle()
			if n, _, err := drain(f.Start(context.Background(), 0)); n != fixtureBatches || err != nil {
				t.Errorf("%s at call %d, then: %d minibatches, %v", c.name, at, n, err)
			}
			f.close()
		}
	}
}

// TestStartAgain gives up an epoch half-way.
func TestStartAgain(t *testing.T) {
	f := newFixture(t, tight, nil)
	_, want, err := drain(f.Start(context.Background(), 0))
	if err != nil {
		t.Fatal(err)
	}
	for _, taken := range []int{0, 1, 8, 9, fixtureBatches - 1} {
		run := f.Start(context.Background(), 0)
		for range taken {
			b, err := run.Next(context.Background())
			if err != nil {
				t.Fatal(err)
			}
			b.Release()
		}
		again := f.Start(context.Background(), 0)
		if _, err := run.Next(context.Background()); !errors.Is(err, ErrClosed) {
			t.Errorf("Next of an epoch that was given up: %v", err)
		}
		if _, sum, err := drain(again); sum != want || err != nil {
			t.Errorf("given up after %d minibatches: digest %x, want %x, %v", taken, sum, want, err)
		}
		if _, err := again.Next(context.Background()); !errors.Is(err, io.EOF) {
			t.Errorf("after the end: %v", err)
		}
	}
	f.close()
}

// TestReleaseTwice is a misuse that would free another holder's reference.
func TestReleaseTwice(t *testing.T) {
	f := newFixture(t, 64<<20, nil)
	run := f.Start(context.Background(), 0)
	b, err := run.Next(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	b.Release()
	func() {
		defer func() {
			if recover() == nil {
				t.Error("a second Release is accepted")
			}
		}()
		b.Release()
	}()
	f.close()
}
