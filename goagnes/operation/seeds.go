package operation

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sort"

	"github.com/goagnes/goagnes/goagnes/storage"
	"github.com/goagnes/goagnes/layout"
)

// AllSeeds are all nodes of a store in ascending original id.
type AllSeeds int64

// Len returns the number of nodes.
func (n AllSeeds) Len() int64 { return int64(n) }

// Lookup returns the places themselves.
func (n AllSeeds) Lookup(_ context.Context, places []int64, ids []uint64) error {
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
func (l ListSeeds) Lookup(_ context.Context, places []int64, ids []uint64) error {
	for i, p := range places {
		ids[i] = uint64(l[p])
	}
	return nil
}

// MaskSeeds are the nodes that a mask marks, ascending. The mask is the caller's
// and must stay as it is; beside it there are 4 bytes for every maskStride nodes.
type MaskSeeds struct {
	mask   []bool
	before []uint32 // marked before entry i*maskStride; the last, before the end
}

const maskStride = 512

// NewMaskSeeds counts the entries of a mask of fewer than 2^32.
func NewMaskSeeds(mask []bool) *MaskSeeds {
	m := &MaskSeeds{mask: mask, before: make([]uint32, 0, len(mask)/maskStride+2)}
	n := uint32(0)
	for i, marked := range mask {
		if i%maskStride == 0 {
			m.before = append(m.before, n)
		}
		if marked {
			n++
		}
	}
	m.before = append(m.before, n)
	return m
}

// Len returns the number of marked nodes.
func (m *MaskSeeds) Len() int64 { return int64(m.before[len(m.before)-1]) }

// Lookup finds the marked nodes by their number.
func (m *MaskSeeds) Lookup(_ context.Context, places []int64, ids []uint64) error {
	for i, p := range places {
		stride := sort.Search(len(m.before), func(k int) bool { return int64(m.before[k]) > p }) - 1
		left := p - int64(m.before[stride])
		at := stride * maskStride
		for ; left > 0 || !m.mask[at]; at++ {
			if m.mask[at] {
				left--
			}
		}
		ids[i] = uint64(at)
	}
	return nil
}

// SectionSeeds are the ids of a split, left in the store.
type SectionSeeds struct{ Section *storage.Section }

// Len returns the number of ids of the split.
func (s SectionSeeds) Len() int64 { return s.Section.Rows }

// What bounds the memory of SectionSeeds.Lookup, 2 MiB: places sorted at a time,
// and the bytes of pages that are read meanwhile.
const (
	lookupChunk = 1 << 18
	lookupPages = 1 << 20
)

// Lookup reads the ids at the places, a bounded number at a time.
func (s SectionSeeds) Lookup(ctx context.Context, places []int64, ids []uint64) error {
	size := min(lookupPages, max(2*int64(len(places))*layout.PageSize, 4*layout.PageSize))
	pages := storage.AlignedBytes(int(size))
	order := make([]int32, min(len(places), lookupChunk))
	width := s.Section.Stride()
	for ; len(places) > 0; places, ids = places[min(lookupChunk, len(places)):], ids[min(lookupChunk, len(ids)):] {
		n := min(lookupChunk, len(places))
		order = order[:n]
		for i := range order {
			order[i] = int32(i)
		}
		slices.SortFunc(order, func(a, b int32) int { return cmp.Compare(places[a], places[b]) })
		err := fetch(ctx, s.Section, n, func(i int) int64 { return places[order[i]] * width }, width, pages, func(i int, b []byte) error {
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
