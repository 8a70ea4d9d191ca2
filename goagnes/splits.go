package goagnes

// Splits: those of the store, and those set on the open store alone.

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/goagnes/goagnes/goagnes/memory"
	"github.com/goagnes/goagnes/goagnes/operation"
	"github.com/goagnes/goagnes/layout"
	"github.com/goagnes/goagnes/layout/build/nodes"
)

// ownSplit is a split of an open store that is not in its files.
type ownSplit struct {
	ids   []int64
	lease *memory.Lease
}

// split returns the seeds of a split, nil where there is none.
func (s *Store) split(name string) operation.Seeds {
	s.splitting.Lock()
	own, ok := s.own[name]
	s.splitting.Unlock()
	if ok {
		return operation.ListSeeds(own.ids)
	}
	if section := s.files.Section(layout.SplitPrefix + name); section != nil {
		return operation.SectionSeeds{Section: section}
	}
	return nil
}

// Splits returns the number of nodes of each split.
func (s *Store) Splits() map[string]int64 {
	splits := map[string]int64{}
	for _, c := range s.files.Manifest().Sections {
		if name, ok := strings.CutPrefix(c.Name, layout.SplitPrefix); ok {
			splits[name] = c.Rows
		}
	}
	s.splitting.Lock()
	defer s.splitting.Unlock()
	for name, own := range s.own {
		splits[name] = int64(len(own.ids))
	}
	return splits
}

func (s *Store) splitNames() string {
	names := slices.Sorted(maps.Keys(s.Splits()))
	if names == nil {
		return "the store has no splits"
	}
	return "the store has " + strings.Join(names, ", ")
}

// ReadSplit writes the nodes of a split, in its order, to out, which must have
// room for all of them. See Splits.
func (s *Store) ReadSplit(ctx context.Context, name string, out []int64) error {
	seeds := s.split(name)
	if seeds == nil {
		return argumentf("split", "no split %q: %s", name, s.splitNames())
	}
	if int64(len(out)) != seeds.Len() {
		return argumentf("out", "room for %d nodes of %d", len(out), seeds.Len())
	}
	ctx, done, err := s.reading(ctx)
	if err != nil {
		return err
	}
	defer done()
	return s.eachOf(ctx, seeds, func(at int64, ids []uint64) {
		for i, v := range ids {
			out[at+int64(i)] = int64(v)
		}
	})
}

// eachOf calls f with the ids of a split, in order, some at a time.
func (s *Store) eachOf(ctx context.Context, seeds operation.Seeds, f func(at int64, ids []uint64)) error {
	const chunk = 1 << 14
	places, ids := make([]int64, 0, chunk), make([]uint64, chunk)
	n := s.files.Manifest().NumNodes
	for at := int64(0); at < seeds.Len(); at += chunk {
		if err := ctx.Err(); err != nil {
			return context.Cause(ctx)
		}
		places = places[:min(chunk, seeds.Len()-at)]
		for i := range places {
			places[i] = at + int64(i)
		}
		got := ids[:len(places)]
		if err := seeds.Lookup(ctx, places, got); err != nil {
			return err
		}
		for i, v := range got {
			if v >= uint64(n) {
				return fmt.Errorf("split: %w", layout.Errorf(layout.Corrupt, "", "entry %d is node %d, the store has %d nodes", at+int64(i), v, n))
			}
		}
		f(at, got)
	}
	return nil
}

// SplitReport says what a split came to.
type SplitReport struct {
	Nodes    int64            `json:"nodes"`    // entries
	Repeated int64            `json:"repeated"` // of them, nodes that are there already
	Overlaps map[string]int64 `json:"overlaps"` // nodes that are in another split too, by its name, where there are any
}

// SetSplit gives a split of the open store the nodes named by IDs, in their
// order, or by a mask, ascending; one of that name is replaced. The files of
// the store do not change. Loaders made from then on, training and prediction
// see it, loaders made before do not. An id that is none is refused; ids that
// are given again, and nodes that are in other splits too, are reported.
//
// It takes 8 bytes a node of the split from the budget until it is replaced or
// the store is closed, and for the check 1 bit for every node of the store.
func (s *Store) SetSplit(ctx context.Context, name string, members InputNodes) (report *SplitReport, err error) {
	if err := nodes.CheckName(name); err != nil {
		return nil, argumentf("name", "%v", err)
	}
	n := s.files.Manifest().NumNodes
	count := int64(len(members.IDs))
	switch {
	case members.Split != "", (members.IDs == nil) == (members.Mask == nil):
		return nil, argumentf("nodes", "ids or a mask must be given, and not both")
	case members.Mask != nil && int64(len(members.Mask)) != n:
		return nil, argumentf("nodes", "a mask of %d entries for %d nodes", len(members.Mask), n)
	case members.Mask != nil:
		for _, in := range members.Mask {
			if in {
				count++
			}
		}
	}
	if err := s.checkNodes("nodes", Nodes{IDs: members.IDs}); err != nil {
		return nil, err
	}
	ctx, done, err := s.reading(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	bits, err := s.budget.Reserve("comparing splits", (n+63)/64*8)
	if err != nil {
		return nil, err
	}
	defer bits.Release()
	lease, err := s.budget.Reserve("splits", 8*count)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			lease.Release()
		}
	}()
	ids, marked := make([]int64, 0, count), make([]uint64, (n+63)/64)
	report = &SplitReport{Nodes: count, Overlaps: map[string]int64{}}
	for _, v := range members.IDs {
		if marked[v>>6]>>(v&63)&1 == 1 {
			report.Repeated++
		}
		marked[v>>6] |= 1 << (v & 63)
		ids = append(ids, v)
	}
	for v, in := range members.Mask {
		if in {
			marked[v>>6] |= 1 << (v & 63)
			ids = append(ids, int64(v))
		}
	}
	for other := range s.Splits() {
		if other == name {
			continue
		}
		err := s.eachOf(ctx, s.split(other), func(_ int64, ids []uint64) {
			for _, v := range ids {
				if marked[v>>6]>>(v&63)&1 == 1 {
					report.Overlaps[other]++
				}
			}
		})
		if err != nil {
			return nil, err
		}
	}
	s.splitting.Lock()
	defer s.splitting.Unlock()
	if before, ok := s.own[name]; ok {
		before.lease.Release()
	}
	s.own[name] = ownSplit{ids, lease}
	return report, nil
}
