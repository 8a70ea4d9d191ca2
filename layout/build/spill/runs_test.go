package spill

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/goagnes/goagnes/layout"
	"github.com/goagnes/goagnes/layout/build/ledger"
	"github.com/goagnes/goagnes/tests/fixture/space"
)

// fillRun makes a run of ids, which it sorts, in the memory of the runs.
func fillRun(s *Runs, ids []uint64) error {
	slices.Sort(ids)
	ids = slices.Compact(ids)
	copy(ledger.View[uint64](s.memory), ids)
	return s.Add(len(ids))
}

// Merged runs are what sorting all ids at once gives, whether they are merged at once
// or some of them before the others.
func TestMerge(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, c := range []struct {
		pages, runs, most int
		below             uint64
	}{
		{MinRunPages, 0, 0, 10},
		{MinRunPages, 1, 5, 10},
		{MinRunPages, 1, 4 * idsPerPage, math.MaxUint64},
		{MinRunPages, 3, 4 * idsPerPage, 1 << 40},
		{MinRunPages, 4, 700, 900}, // one more than are merged at once; ids that many runs have
		{MinRunPages, 29, 4 * idsPerPage, 1 << 20},
		{5, 17, 1000, math.MaxUint64},
		{20, 50, 20 * idsPerPage, 60_000},
	} {
		w := space.New(t, 1<<20)
		s := NewRuns(w, space.Map(t, w, int64(c.pages)*layout.PageSize))
		var want []uint64
		for i := range c.runs {
			ids := make([]uint64, r.IntN(c.most+1))
			for k := range ids {
				ids[k] = r.Uint64N(c.below)
			}
			if i == c.runs-1 && len(ids) > 0 {
				ids[0] = c.below - 1
			}
			want = append(want, ids...)
			if err := fillRun(s, ids); err != nil {
				t.Fatal(err)
			}
		}
		slices.Sort(want)
		want = slices.Compact(want)
		var got []uint64
		if err := s.Merge(func(id uint64) error { got = append(got, id); return nil }); err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%+v: %d ids, want %d", c, len(got), len(want))
		}
		if s.Empty() != (c.runs == 0) {
			t.Errorf("%+v: empty is %v", c, s.Empty())
		}
		s.Close()
		if files := space.Files(t, w); slices.ContainsFunc(files, func(name string) bool { return name[:min(4, len(name))] == "ids-" }) || !s.Empty() {
			t.Errorf("%+v: left %q", c, files)
		}
	}
}

// The error of who takes the ids, and a cancellation, end a merger.
func TestMergeEnds(t *testing.T) {
	w := space.New(t, 1<<20)
	s := NewRuns(w, space.Map(t, w, MinRunPages*layout.PageSize))
	defer s.Close()
	for k := range uint64(7) {
		if err := fillRun(s, []uint64{k, k + 100}); err != nil {
			t.Fatal(err)
		}
	}
	full, n := errors.New("full"), 0
	if err := s.Merge(func(uint64) error {
		if n++; n == 3 {
			return full
		}
		return nil
	}); !errors.Is(err, full) || n != 3 {
		t.Errorf("%v after %d ids", err, n)
	}
	ctx, cancel := context.WithCancel(w.Ctx)
	cancel()
	w.Ctx = ctx
	if err := s.Merge(func(uint64) error { t.Error("an id"); return nil }); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// A parked table comes back word for word, whole and in pieces, and gives its memory
// back meanwhile.
func TestParked(t *testing.T) {
	for _, words := range []int64{1, 1023, 1024, 1025, 3 * ParkedBuffer / 4, 2_500_000} { // the last in several transfers
		w := space.New(t, 1<<26)
		r, err := w.Mem.Map("a table", 4*words)
		if err != nil {
			t.Fatal(err)
		}
		want := make([]uint32, words)
		for i := range want {
			want[i] = uint32(i)*2654435761 + 1
		}
		copy(ledger.View[uint32](r.Bytes), want)
		p, err := Park(w, "table", r)
		if err != nil {
			t.Fatal(err)
		}
		if w.Mem.Used != 0 {
			t.Errorf("%d words: %d bytes are held", words, w.Mem.Used)
		}
		back, err := w.Mem.Map("a table", 4*words)
		if err != nil {
			t.Fatal(err)
		}
		if err := p.Load(back); err != nil || !slices.Equal(ledger.View[uint32](back.Bytes), want) {
			t.Errorf("%d words: loaded others, %v", words, err)
		}
		back.Close()
		var got []uint32
		if err := p.Stream(space.Map(t, w, ParkedBuffer), func(first int, words []uint32) {
			if first != len(got) {
				t.Errorf("a piece from word %d on, after %d", first, len(got))
			}
			got = append(got, words...)
		}); err != nil || !slices.Equal(got, want) {
			t.Errorf("%d words: streamed others, %v", words, err)
		}
		p.Close()
	}
	(*Parked)(nil).Close()
}
