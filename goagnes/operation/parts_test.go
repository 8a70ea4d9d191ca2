package operation

// The engine's small parts, each against a plain oracle.

import (
	"context"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"slices"
	"testing"
	"unsafe"

	"github.com/goagnes/goagnes/goagnes/memory"
	"github.com/goagnes/goagnes/goagnes/storage"
	"github.com/goagnes/goagnes/layout"
)

// TestTake meets the moment at which reading ahead has ended with the context:
// a closed channel and a context that is done, of which select takes either.
func TestTake(t *testing.T) {
	done, cancel := context.WithCancel(context.Background())
	cancel()
	closed := make(chan *chunk)
	close(closed)
	r := &reader{}
	var ended error
	for range 64 {
		if c, err := r.take(done, closed, &ended); c != nil || !errors.Is(err, context.Canceled) {
			t.Fatalf("cancelled: %v, %v", c, err)
		}
	}
	ended = &BugError{Value: "a bug"}
	if c, err := r.take(context.Background(), closed, &ended); c != nil || err != ended {
		t.Errorf("reading ended with a bug: %v, %v", c, err)
	}
	one := make(chan *chunk, 1)
	refused := errors.New("refused")
	c := &chunk{ready: make(chan error, 1)}
	c.ready <- refused
	one <- c
	if got, err := r.take(context.Background(), one, &ended); got != c || err != refused {
		t.Errorf("a failed chunk: %v, %v", got, err)
	}
}

// TestTable holds the table against a map, at its fullest.
func TestTable(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	var mem []uint64
	for _, n := range []int{1, 2, 511, 512, 513, 5000, 3} {
		if need := int(tableBytes(n) / 8); need > len(mem) {
			mem = make([]uint64, need)
		}
		var x table
		x.reset(mem[:tableBytes(n)/8])
		if 2*n > len(x.slots) {
			t.Fatalf("%d ids in %d slots", n, len(x.slots))
		}
		want := map[uint32]uint32{}
		for i := 0; len(want) < n; i++ {
			id := uint32(r.Uint64N(uint64(3*n) + 1))
			if i%7 == 0 {
				id = 1<<32 - 2 - id // the largest ids
			}
			local, known := want[id]
			if !known {
				local = uint32(len(want))
				want[id] = local
			}
			if got, added := x.add(id, uint32(len(want)-1)); got != local || added == known {
				t.Fatalf("n=%d: id %d has the local id %d, added %v; want %d", n, id, got, added, local)
			}
		}
	}
}

// TestTwoEnded fills memory from both ends and looks for overlaps.
func TestTwoEnded(t *testing.T) {
	mem, err := memory.Map(10 * 4096)
	if err != nil {
		t.Fatal(err)
	}
	defer memory.Unmap(mem)
	r := rand.New(rand.NewPCG(4, 4))
	m := newTwoEnded(mem)
	for range 200 {
		m.reset()
		owner := make([]int, len(mem))
		refused := 0
		for id := 1; refused < 5; id++ {
			n := r.Int64N(9000)
			if id%9 == 0 {
				n = 0
			}
			room := m.room()
			take, name := m.takeLow, "low"
			if r.IntN(2) == 0 {
				take, name = m.takeHigh, "high"
			}
			b, err := take(n)
			if err != nil {
				if !isSplit(err) || n+4096 <= room-4096 {
					t.Fatalf("%d bytes of the %s end are refused with %d free: %v", n, name, room, err)
				}
				refused++
				continue
			}
			if int64(len(b)) != n || int64(cap(b)) != n {
				t.Fatalf("%d bytes were taken, cap %d, for %d", len(b), cap(b), n)
			}
			if n == 0 {
				continue
			}
			at := int(uintptr(unsafe.Pointer(unsafe.SliceData(b))) - uintptr(unsafe.Pointer(unsafe.SliceData(mem))))
			if align := map[string]int{"low": 8, "high": 4096}[name]; at%align != 0 {
				t.Fatalf("memory of the %s end at %d", name, at)
			}
			for i := at; i < at+len(b); i++ {
				if owner[i] != 0 {
					t.Fatalf("byte %d is handed out twice", i)
				}
				owner[i] = id
			}
		}
		if m.peak > int64(len(mem)) {
			t.Fatalf("the peak is %d of %d", m.peak, len(mem))
		}
	}
}

// TestBucket holds the rows of a bucket against their definition, and its
// memory to the requests and blocks alone: it does not grow with minibatches.
func TestBucket(t *testing.T) {
	f := newFixture(t, 64<<20, nil)
	defer f.close()
	mem, err := memory.Map(4 << 20)
	if err != nil {
		t.Fatal(err)
	}
	defer memory.Unmap(mem)
	r := rand.New(rand.NewPCG(2, 2))
	peaks := map[int]int64{}
	for _, minibatches := range []int{1, 7, 500} {
		for _, requests := range []int{0, 1, 1000, 20000} {
			frontiers := make([][]uint32, minibatches)
			for range requests {
				j := r.IntN(minibatches)
				frontiers[j] = append(frontiers[j], uint32(r.IntN(fixtureNodes)))
			}
			m := newTwoEnded(mem)
			b, err := fillBucket(m, f.Index, frontiers)
			if err != nil {
				t.Fatal(err)
			}
			want := map[int][]request{}
			slot := uint32(0)
			for j, frontier := range frontiers {
				for _, v := range frontier {
					block := 0
					for block+1 < f.Index.Blocks() && f.Index.Entry(block+1).FirstNode <= uint64(v) && f.Index.Entry(block).FirstNode != uint64(v) {
						block++
					}
					want[block] = append(want[block], request{v, uint32(j), slot})
					slot++
				}
			}
			for block := range f.Index.Blocks() {
				if !slices.Equal(b.row(block), want[block]) {
					t.Fatalf("%d minibatches, %d requests: row %d is %v, want %v", minibatches, requests, block, b.row(block), want[block])
				}
			}
			if before, ok := peaks[requests]; ok && before != m.peak {
				t.Errorf("%d requests take %d bytes in %d minibatches, %d bytes in fewer", requests, m.peak, minibatches, before)
			}
			peaks[requests] = m.peak
			if most := roundUp(4*int64(f.Index.Blocks()+1), 4096) + roundUp(12*int64(requests), 4096) + 4096; m.peak > most {
				t.Errorf("%d requests take %d bytes, more than %d", requests, m.peak, most)
			}
		}
	}
	small := newTwoEnded(mem[:8192])
	if _, err := fillBucket(small, f.Index, [][]uint32{make([]uint32, 10000)}); !isSplit(err) {
		t.Errorf("a bucket that does not fit: %v", err)
	}
}

// TestFetch reads items at random ascending places through buffers of all
// sizes, down to the smallest.
func TestFetch(t *testing.T) {
	f := newFixture(t, 64<<20, nil)
	defer f.close()
	s := f.files.Section(layout.SectionX)
	want := make([]byte, s.Bytes)
	if err := s.Read(0, want); err != nil {
		t.Fatal(err)
	}
	r := rand.New(rand.NewPCG(7, 7))
	for _, pages := range []int64{2, 3, 40, 256} {
		buf, err := memory.Map(pages * layout.PageSize)
		if err != nil {
			t.Fatal(err)
		}
		for _, width := range []int64{1, 8, 520} {
			for _, n := range []int{0, 1, 3, 3000} {
				places := make([]int64, n)
				for i := range places {
					places[i] = r.Int64N(s.Bytes - width + 1)
					if i%3 == 1 {
						places[i] = places[i-1] // twice, and a neighbour across a page
					} else if i%3 == 2 {
						places[i] = min(places[i-1]/layout.PageSize*layout.PageSize+layout.PageSize-1, s.Bytes-width)
					}
				}
				slices.Sort(places)
				next := 0
				before := f.pool.Counters()
				err := fetch(context.Background(), s, n, func(i int) int64 { return places[i] }, width, buf, func(i int, b []byte) error {
					if i != next || int64(len(b)) != width || !slices.Equal(b, want[places[i]:places[i]+width]) {
						t.Fatalf("%d items of %d bytes: item %d in turn %d has wrong bytes", n, width, i, next)
					}
					next++
					return nil
				})
				if err != nil || next != n {
					t.Fatalf("%d items of %d bytes in %d pages: %d visited, %v", n, width, pages, next, err)
				}
				if d := f.pool.Counters().Sub(before); n > 0 && pages == 256 && d.BytesRead-d.ChecksumRead > s.FileBytes()*2 {
					t.Errorf("%d items: %d bytes are read of a section of %d", n, d.BytesRead, s.FileBytes())
				}
			}
		}
		refused := errors.New("refused")
		err = fetch(context.Background(), s, 5, func(i int) int64 { return int64(i) * 5000 }, 8, buf, func(i int, _ []byte) error {
			if i == 2 {
				return refused
			}
			return nil
		})
		if err != refused {
			t.Errorf("an error of visit: %v", err)
		}
		ctx, cancel := context.WithCancel(context.Background())
		visits := 0
		err = fetch(ctx, s, 2000, func(i int) int64 { return int64(i) * 1000 }, 8, buf, func(int, []byte) error { visits++; cancel(); return nil })
		if pages < 40 && (!errors.Is(err, context.Canceled) || visits >= 2000) {
			t.Errorf("a cancelled fetch made %d visits: %v", visits, err)
		}
		cancel()
		if err := memory.Unmap(buf); err != nil {
			t.Error(err)
		}
	}
}

// TestSectionSeeds looks up more places than one chunk, unsorted and repeated.
func TestSectionSeeds(t *testing.T) {
	f := newFixture(t, 64<<20, nil)
	defer f.close()
	// node.internal holds an id for every node, as a split does but for its width.
	s := f.files.Section(layout.SectionInternal)
	raw := make([]byte, s.Bytes)
	if err := s.Read(0, raw); err != nil {
		t.Fatal(err)
	}
	r := rand.New(rand.NewPCG(1, 2))
	for _, n := range []int{0, 1, 1000, lookupChunk, lookupChunk + 1, 2*lookupChunk + 5} {
		places, ids := make([]int64, n), make([]uint64, n)
		for i := range places {
			places[i] = r.Int64N(fixtureNodes)
		}
		if err := (SectionSeeds{s}).Lookup(t.Context(), places, ids); err != nil {
			t.Fatal(err)
		}
		for i, p := range places {
			if want := uint64(binary.LittleEndian.Uint32(raw[4*p:])); ids[i] != want {
				t.Fatalf("place %d of %d holds %d, want %d", i, n, ids[i], want)
			}
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := (SectionSeeds{s}).Lookup(ctx, make([]int64, 1), make([]uint64, 1)); !errors.Is(err, context.Canceled) {
		t.Errorf("a lookup under a cancelled context gives %v", err)
	}
}

// TestParallel returns the first error, turns panics into errors on any
// worker, and waits for all.
func TestParallel(t *testing.T) {
	refused := errors.New("refused")
	for workers := 1; workers < 5; workers++ {
		ended := make([]bool, workers)
		if err := parallel(workers, func(w int) error { ended[w] = true; return nil }); err != nil || slices.Contains(ended, false) {
			t.Errorf("%d workers: %v, %v", workers, ended, err)
		}
		for bad := range workers {
			err := parallel(workers, func(w int) error {
				if w == bad {
					panic(w)
				}
				return nil
			})
			var bug *BugError
			if !errors.As(err, &bug) || bug.Value != bad || len(bug.Stack) == 0 {
				t.Errorf("worker %d of %d panics: %v", bad, workers, err)
			}
			if err := parallel(workers, func(w int) error {
				if w == bad {
					return refused
				}
				return nil
			}); err != refused {
				t.Errorf("worker %d of %d fails: %v", bad, workers, err)
			}
		}
	}
}

// TestScratchStep grows a scratch file by less than a step where the limit has
// no room for one, and refuses by name what does not fit at all.
func TestScratchStep(t *testing.T) {
	f := newFixture(t, 64<<20, nil)
	defer f.close()
	f.Scratch = func() (*storage.Scratch, error) { return storage.OpenScratch(nil, []string{f.scratch}, 3<<20) }
	h, next := &hyperbatch{e: f.Engine}, &hyperbatch{e: f.Engine, half: 1}
	for _, size := range []int64{1, 1 << 20, 1<<20 + 1} {
		file, err := h.samplesFile(size)
		if err != nil || f.grown["samples"] < size || file != f.samples[0] {
			t.Fatalf("%d bytes: %v, grown to %d", size, err, f.grown["samples"])
		}
	}
	if _, err := f.runsFile(1 << 20); err != nil {
		t.Fatal(err)
	}
	var limit *storage.ScratchError
	if _, err := h.samplesFile(3 << 20); !errors.As(err, &limit) || limit.Limit != 3<<20 {
		t.Errorf("above the limit: %v", err)
	}
	// What nobody reads any more makes room; what is read does not.
	if _, err := next.samplesFile(1 << 20); !errors.As(err, &limit) {
		t.Errorf("beside the records that are read: %v", err)
	}
	f.idleSamples(0)
	if file, err := next.samplesFile(3 << 19); err != nil || file != f.samples[1] || f.samples[0] != nil || f.grown["samples"] != 0 {
		t.Errorf("beside records that nobody reads: %v, files %v", err, f.samples)
	}
}
