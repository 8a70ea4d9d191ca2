package operation

import "math/bits"

// table maps internal ids to local ids within one minibatch: open addressing
// in memory that is kept from minibatch to minibatch.
type table struct {
	slots []uint64 // (id+1)<<32 | local id, 0 when free
	shift uint
	n     int
}

// tableBytes returns the memory of a table of n ids: at most half full.
func tableBytes(n int) int64 { return 8 << bits.Len(uint(max(2*n, 1024)-1)) }

// reset empties the table and makes room for n ids; slots must have
// tableBytes(n) of memory.
func (t *table) reset(slots []uint64) {
	t.slots = slots
	t.shift = 64 - uint(bits.Len(uint(len(slots)-1)))
	t.n = 0
	clear(slots)
}

// add returns the local id of id, giving it local if it has none yet.
func (t *table) add(id, local uint32) (got uint32, added bool) {
	key := uint64(id) + 1
	mask := uint64(len(t.slots) - 1)
	for i := key * 0x9E3779B97F4A7C15 >> t.shift; ; i = (i + 1) & mask {
		switch s := t.slots[i]; {
		case s == 0:
			t.slots[i] = key<<32 | uint64(local)
			t.n++
			return local, true
		case s>>32 == key:
			return uint32(s), false
		}
	}
}
