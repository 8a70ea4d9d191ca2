package operation

// Reader: between original ids and the ids of the source.

import (
	"cmp"
	"context"
	"encoding/binary"
	"slices"
	"sort"
	"unsafe"

	"github.com/goagnes/goagnes/layout"
)

const (
	denseItem  = 8 + 4*4 // bytes of memory for each id looked up: a value, its slot, two ends, a place among those still open
	idsInAPage = layout.PageSize / 8
)

// DenseBytes returns the memory with which n ids of the source can be looked up.
func DenseBytes(n int64) int64 { return denseItem*min(n, readChunk) + leastPages + 2*layout.PageSize }

// SourceIDs writes the ids that the source gave to nodes.
func (r *Reader) SourceIDs(ctx context.Context, nodes Nodes, out []int64, mem []byte) error {
	if r.ids == nil {
		for i := range out {
			out[i] = nodes.at(int64(i))
		}
		return nil
	}
	return r.Rows(ctx, r.ids, nodes, unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(out))), 8*len(out)), mem)
}

// DenseIDs writes the original ids of nodes that the source named by ids. It
// returns the place of the first id that the source did not have, else -1; then
// out is not whole.
func (r *Reader) DenseIDs(ctx context.Context, ids, out []int64, mem []byte) (missing int, err error) {
	if r.ids == nil {
		for i, v := range ids {
			if v < 0 || v >= r.manifest.NumNodes {
				return i, nil
			}
			out[i] = v
		}
		return -1, nil
	}
	if r.ids.Rows == 0 {
		return min(len(ids), 1) - 1, nil // the first is missing, if there is one
	}
	for at := 0; at < len(ids); at += readChunk {
		to := min(at+readChunk, len(ids))
		if missing, err := r.search(ctx, ids[at:to], out[at:to], mem); err != nil || missing >= 0 {
			return at + missing, err
		}
	}
	return -1, nil
}

// search looks up a chunk of ids at once: sorted, so that in each round of the
// binary search over pages the pages in the middle ascend and are read together.
func (r *Reader) search(ctx context.Context, ids, out []int64, mem []byte) (missing int, err error) {
	n := len(ids)
	values := int64s(mem[:8*n])
	w := words(mem[8*n : denseItem*n])
	slots, low, high, open := w[:n], w[n:2*n], w[2*n:3*n], w[3*n:]
	pages := mem[roundUp(int64(denseItem*n), layout.PageSize):]
	pages = pages[:len(pages)/layout.PageSize*layout.PageSize]
	for i := range slots {
		slots[i] = uint32(i)
	}
	slices.SortFunc(slots, func(a, b uint32) int { return cmp.Compare(ids[a], ids[b]) })
	last := uint32(layout.Pages(r.ids.Bytes))
	for i, slot := range slots {
		values[i], low[i], high[i] = ids[slot], 0, last
	}
	for { // low is the last page that may hold a value, high past it
		open = open[:0]
		for i := range slots {
			if high[i]-low[i] > 1 {
				open = append(open, uint32(i))
			}
		}
		if len(open) == 0 {
			break
		}
		middle := func(k int) int64 { i := open[k]; return int64(low[i]+(high[i]-low[i])/2) * layout.PageSize }
		err := fetch(ctx, r.ids, len(open), middle, 8, pages, func(k int, b []byte) error {
			i, m := open[k], uint32(middle(k)/layout.PageSize)
			if int64(binary.LittleEndian.Uint64(b)) <= values[i] {
				low[i] = m
			} else {
				high[i] = m
			}
			return nil
		})
		if err != nil {
			return 0, err
		}
	}
	missing = -1
	err = fetch(ctx, r.ids, n, func(i int) int64 { return int64(low[i]) * layout.PageSize }, layout.PageSize, pages, func(i int, b []byte) error {
		first := int64(low[i]) * idsInAPage
		count := int(min(idsInAPage, r.ids.Rows-first))
		k := sort.Search(count, func(k int) bool { return int64(binary.LittleEndian.Uint64(b[8*k:])) >= values[i] })
		slot := int(slots[i])
		if k == count || int64(binary.LittleEndian.Uint64(b[8*k:])) != values[i] {
			if missing < 0 || slot < missing {
				missing = slot
			}
			return nil
		}
		out[slot] = first + int64(k)
		return nil
	})
	return missing, err
}
