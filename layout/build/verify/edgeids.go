package verify

// Edge ids: each within its range, and none twice.

import (
	"cmp"
	"slices"
	"unsafe"

	"github.com/goagnes/goagnes/layout"
	"github.com/goagnes/goagnes/layout/build/ledger"
)

// edgeIDs checks that edge ids are within their range, each once at most, or exactly
// once where there are as many ids as edges: a bit an id, in as many passes as the
// budget asks for. Where the ids are so few in their range that bits would be more
// than the ids themselves, these are sorted.
func (v *verifier) edgeIDs() error {
	if !v.intact(layout.SectionEdgeID) {
		return nil
	}
	n, rows := v.m.EdgeIDRange(), v.m.NumEdges
	if n/8 > keyBytes*rows {
		return v.sparseEdgeIDs()
	}
	window := max(min(n, (v.mem.Free()-2*cursorBytes)/2*8)/64*64, 64)
	mem, err := v.mem.Map("edge ids seen", window/8+8)
	if err != nil {
		return err
	}
	defer mem.Close()
	seen := ledger.View[uint64](mem.Bytes)
	for low := int64(0); low < n; low += window {
		clear(seen)
		cs, buf, err := v.cursors(layout.SectionEdgeID)
		if err != nil {
			return err
		}
		c := cs[0]
		count := int64(0)
		size := int64(c.s.Type().Size())
		for range rows {
			id, err := c.next()
			if err != nil {
				buf.Close()
				return err
			}
			k := id - low
			switch {
			case id < 0 || id >= n:
				if low == 0 {
					v.found(c.s.File, -1, c.offset(size), "edge id %d, there are %d edge ids", uint64(id), n)
				}
			case k < 0 || k >= window:
			case seen[k>>6]>>(k&63)&1 != 0:
				v.found(c.s.File, -1, c.offset(size), "edge id %d a second time", id)
			default:
				seen[k>>6] |= 1 << (k & 63)
				count++
			}
		}
		buf.Close()
		if want := min(window, n-low); n == rows && count != want {
			v.found(c.s.File, -1, -1, "%d of the edge ids from %d to %d are missing", want-count, low, low+want-1)
		}
	}
	return nil
}

// key is an edge id and the byte at which it lies.
type key struct{ id, at int64 }

const keyBytes = 16

// sparseEdgeIDs is edgeIDs by sorting: a pass for as many ids as half the memory
// holds, the smallest of those that are left, whatever their range.
func (v *verifier) sparseEdgeIDs() error {
	n, rows := v.m.EdgeIDRange(), v.m.NumEdges
	room := max(min(rows, (v.mem.Free()-2*cursorBytes)/2/keyBytes), 4)
	mem, err := v.mem.Map("edge ids sorted", room*keyBytes)
	if err != nil {
		return err
	}
	defer mem.Close()
	all := unsafe.Slice((*key)(unsafe.Pointer(unsafe.SliceData(mem.Bytes))), room) // page-aligned
	for low := int64(0); low < n; {
		cs, buf, err := v.cursors(layout.SectionEdgeID)
		if err != nil {
			return err
		}
		high, err := v.smallest(cs[0], all[:0:room], low)
		buf.Close()
		if err != nil {
			return err
		}
		low = high
	}
	return nil
}

// smallest takes the ids from low on, and returns the id below which it has
// compared all; what has no room for is left to the next pass.
func (v *verifier) smallest(c *cursor, keys []key, low int64) (high int64, err error) {
	n, size := v.m.EdgeIDRange(), int64(c.s.Type().Size())
	high = n
	for range v.m.NumEdges {
		id, err := c.next()
		if err != nil {
			return 0, err
		}
		switch {
		case id < 0 || id >= n:
			if low == 0 {
				v.found(c.s.File, -1, c.offset(size), "edge id %d, there are %d edge ids", uint64(id), n)
			}
			continue
		case id < low || id >= high:
			continue
		}
		keys = append(keys, key{id, c.offset(size)})
		if len(keys) < cap(keys) {
			continue
		}
		if keys = pairs(keys); len(keys) > cap(keys)/2 {
			// The upper half is left to the next pass. No id is there three times, so
			// that the lower one is never empty.
			high = keys[cap(keys)/2].id
			at, _ := slices.BinarySearchFunc(keys, high, func(k key, id int64) int { return cmp.Compare(k.id, id) })
			keys = keys[:at]
		}
	}
	for i, k := range pairs(keys)[min(1, len(keys)):] {
		if k.id == keys[i].id {
			v.found(c.s.File, -1, k.at, "edge id %d a second time", k.id)
		}
	}
	return high, nil
}

// pairs sorts keys and keeps the first two of each id.
func pairs(keys []key) []key {
	slices.SortFunc(keys, func(a, b key) int { return cmp.Or(cmp.Compare(a.id, b.id), cmp.Compare(a.at, b.at)) })
	n := 0
	for _, k := range keys {
		if n < 2 || keys[n-2].id != k.id {
			keys[n] = k
			n++
		}
	}
	return keys[:n]
}
