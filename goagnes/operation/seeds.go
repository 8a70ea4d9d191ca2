package operation

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"unsafe"

	"github.com/goagnes/goagnes/goagnes/storage"
	"github.com/goagnes/goagnes/layout"
)

// AllSeeds are all nodes of a store in ascending original id.
type AllSeeds int64

// Len returns the number of nodes.
func (n AllSeeds) Len() int64 { return int64(n) }

// Lookup returns the places themselves.
func (n AllSeeds) Lookup(places []int64, ids []uint64) error {
	for i, p := range places {
		ids[i] = uint64(p)
	}
	return nil
}

// ListSeeds are original ids in memory. They must have been checked.
type ListSeeds []int64

// Len returns the number of ids.
func (l ListSeeds) Len() int64 { return int64(len(l)) }

// Lookup returns the ids at the places.
func (l ListSeeds) Lookup(places []int64, ids []uint64) error {
	for i, p := range places {
		ids[i] = uint64(l[p])
	}
	return nil
}

// SectionSeeds are the ids of a split, left in the store.
type SectionSeeds struct{ Section *storage.Section }

// Len returns the number of ids of the split.
func (s SectionSeeds) Len() int64 { return s.Section.Rows }

// lookupChunk bounds the memory of SectionSeeds.Lookup: places sorted at a time.
const lookupChunk = 1 << 16

// Lookup reads the ids at the places, a bounded number at a time.
func (s SectionSeeds) Lookup(places []int64, ids []uint64) error {
	raw := make([]byte, 256<<10+layout.PageSize)
	pages := raw[-uintptr(unsafe.Pointer(unsafe.SliceData(raw)))&(layout.PageSize-1):][:256<<10]
	order := make([]int32, min(len(places), lookupChunk))
	width := s.Section.Stride()
	for ; len(places) > 0; places, ids = places[min(lookupChunk, len(places)):], ids[min(lookupChunk, len(ids)):] {
		n := min(lookupChunk, len(places))
		order = order[:n]
		for i := range order {
			order[i] = int32(i)
		}
		slices.SortFunc(order, func(a, b int32) int { return cmp.Compare(places[a], places[b]) })
		err := fetch(context.Background(), s.Section, n, func(i int) int64 { return places[order[i]] * width }, width, pages, func(i int, b []byte) error {
			v := getID(b, width)
			if int64(v) < 0 {
				return layout.Errorf(layout.Corrupt, s.Section.File, "entry %d is %d", places[order[i]], int64(v))
			}
			ids[order[i]] = v
			return nil
		})
		if err != nil {
			return fmt.Errorf("split: %w", err)
		}
	}
	return nil
}
