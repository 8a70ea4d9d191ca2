package rank_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/goagnes/goagnes/layout"
	"github.com/goagnes/goagnes/layout/build/rank"
	"github.com/goagnes/goagnes/layout/build/source"
	"github.com/goagnes/goagnes/layout/build/staging"
	"github.com/goagnes/goagnes/layout/build/workspace"
	"github.com/goagnes/goagnes/tests/fixture/space"
)

// edges are edges in memory, handed over in pieces.
type edges struct{ src, dst []int64 }

func (e edges) Name() string         { return "edges.txt" }
func (e edges) Count() (int64, bool) { return int64(len(e.src)), true }
func (e edges) Scan(ctx context.Context, f func(src, dst []int64) error) error {
	for at := 0; at < len(e.src); at += 700 {
		end := min(at+700, len(e.src))
		if err := f(e.src[at:end], e.dst[at:end]); err != nil {
			return err
		}
	}
	return nil
}

// list is a list of node ids in memory.
type list []int64

func (l list) Name() string                                            { return "nodes.v" }
func (l list) Scan(_ context.Context, f func(ids []int64) error) error { return f(l) }

// begin begins a store within a budget, with a tuning.
func begin(t *testing.T, memory int64, tune workspace.Tuning) *staging.Store {
	t.Helper()
	w := space.New(t, memory)
	w.Tune = tune
	st, err := staging.Open(w, filepath.Join(t.TempDir(), "store"), false, nil, 1<<20, 64<<10)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := st.Discard(); err != nil {
			t.Error(err)
		}
	})
	return st
}

// TestRanks holds ranks, and the section "ids", against sorting all ids in memory, where
// a bitmap holds them, where they are sorted at once, and in runs of a few pages.
func TestRanks(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 8))
	for name, c := range map[string]struct {
		below int64 // ids are below
		count int
		tune  workspace.Tuning
	}{
		"bitmap":           {90_000, 5000, workspace.Tuning{}},
		"dense":            {300, 5000, workspace.Tuning{}},
		"one word":         {60, 10, workspace.Tuning{}},
		"a small bitmap":   {90_000, 5000, workspace.Tuning{BitmapBytes: 14_000}},
		"sorted at once":   {1 << 62, 5000, workspace.Tuning{}},
		"sorted in runs":   {1 << 62, 9000, workspace.Tuning{RunBytes: 1}},
		"equals in runs":   {1 << 40, 20_000, workspace.Tuning{RunBytes: 1}},
		"no bitmap at all": {90_000, 5000, workspace.Tuning{BitmapBytes: 64}},
		"nothing":          {1, 0, workspace.Tuning{}},
	} {
		var e edges
		step := max(c.below/40_000, 1) // so that ids repeat
		for range c.count {
			e.src = append(e.src, r.Int64N((c.below+step-1)/step)*step)
			e.dst = append(e.dst, e.src[r.IntN(len(e.src))])
		}
		if c.count > 0 {
			e.dst[c.count/2] = c.below - 1
		}
		want := slices.Sorted(slices.Values(append(slices.Clone(e.src), e.dst...)))
		want = slices.Compact(want)

		st := begin(t, 24<<20, c.tune)
		ranks, err := rank.Find(st, e, nil)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if ranks.Distinct != int64(len(want)) {
			t.Errorf("%s: %d distinct ids, want %d", name, ranks.Distinct, len(want))
		}
		stored := space.Map(t, st.Space, layout.Pages(8*ranks.Distinct+1)*layout.PageSize)
		if err := st.ReadBack(layout.SectionIDs, stored[:layout.Pages(8*ranks.Distinct)*layout.PageSize]); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		for i, id := range want {
			if got := int64(binary.LittleEndian.Uint64(stored[8*i:])); got != id {
				t.Fatalf("%s: the id of rank %d is %d, want %d", name, i, got, id)
			}
		}
		at := 0
		err = ranks.Replace(e, nil).Scan(context.Background(), func(src, dst []int64) error {
			for i := range src {
				s, _ := slices.BinarySearch(want, e.src[at])
				d, _ := slices.BinarySearch(want, e.dst[at])
				if src[i] != int64(s) || dst[i] != int64(d) {
					return fmt.Errorf("edge %d is %d → %d, want %d → %d", at, src[i], dst[i], s, d)
				}
				at++
			}
			return nil
		})
		if err != nil || at != len(e.src) {
			t.Errorf("%s: %d edges, %v", name, at, err)
		}
		ranks.Close()
	}
}

// TestRanksOfList takes the nodes from a list: those without edges have ranks as well,
// each is listed once, and an edge to another is refused.
func TestRanksOfList(t *testing.T) {
	e := edges{[]int64{7, 30, 7}, []int64{30, 500, 7}}
	for name, c := range map[string]struct {
		nodes list
		tune  workspace.Tuning
		want  string
	}{
		"in a bitmap":       {list{500, 3, 30, 7, 41}, workspace.Tuning{}, ""},
		"sorted":            {list{500, 3, 30, 7, 41}, workspace.Tuning{BitmapBytes: 64}, ""},
		"listed twice":      {list{500, 30, 7, 30}, workspace.Tuning{}, "nodes.v: 4 lines for 3 distinct ids"},
		"twice, sorted":     {list{500, 30, 7, 30}, workspace.Tuning{BitmapBytes: 64}, "nodes.v: 4 lines for 3 distinct ids"},
		"not listed":        {list{30, 7, 9}, workspace.Tuning{}, "edges.txt[1]: id 500 is not in nodes.v"},
		"not in the table":  {list{30, 7, 5000}, workspace.Tuning{BitmapBytes: 64}, "edges.txt[1]: id 500 is not in nodes.v"},
		"beyond the bitmap": {list{7, 30}, workspace.Tuning{}, "edges.txt[1]: id 500 is not in nodes.v"},
	} {
		st := begin(t, 24<<20, c.tune)
		ranks, err := rank.Find(st, e, c.nodes)
		var got []int64
		if err == nil {
			err = ranks.Replace(e, c.nodes).Scan(context.Background(), func(src, dst []int64) error {
				got = append(append(got, src...), dst...)
				return nil
			})
		}
		if c.want == "" && (err != nil || !slices.Equal(got, []int64{1, 2, 1, 2, 4, 1})) { // 3, 7, 30, 41, 500
			t.Errorf("%s: %v, %v", name, got, err)
		}
		var bad *source.Error
		if c.want != "" && (!errors.As(err, &bad) || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
		ranks.Close()
	}
}
