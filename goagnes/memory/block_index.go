package memory

import "math/bits"

// blockIndex is the index table T_buf of a Buffer: an open-addressing hash
// table with linear probing from the block of a frame to the frame's number.
// It stores numbers only; the keys lie in the frames. At most half of its slots
// are taken, and removal closes gaps, so that searches stay short for ever.
type blockIndex struct {
	slots []int32 // frame number + 1, 0 = free
	shift uint
	used  int
}

func newBlockIndex(frames int) blockIndex {
	n := bits.Len(uint(max(2*frames-1, 1)))
	return blockIndex{slots: make([]int32, 1<<n), shift: uint(64 - n)}
}

// home returns the slot where the search for a block begins (Fibonacci
// hashing: neighbouring blocks spread evenly).
func (x *blockIndex) home(block int64) int {
	return int(uint64(block) * 0x9E3779B97F4A7C15 >> x.shift)
}

// slot returns the slot that holds the block, or the free one where the search
// for it ends.
func (x *blockIndex) slot(frames []Frame, block int64) int {
	mask := len(x.slots) - 1
	i := x.home(block)
	for x.slots[i] != 0 && frames[x.slots[i]-1].block != block {
		i = (i + 1) & mask
	}
	return i
}

func (x *blockIndex) find(frames []Frame, block int64) int32 {
	return x.slots[x.slot(frames, block)] - 1
}

// insert adds a frame, whose block must not be in the table.
func (x *blockIndex) insert(frames []Frame, frame int32) {
	x.slots[x.slot(frames, frames[frame].block)] = frame + 1
	x.used++
}

// remove takes a block out and moves back the entries that its slot had
// pushed aside.
func (x *blockIndex) remove(frames []Frame, block int64) {
	mask := len(x.slots) - 1
	gap := x.slot(frames, block)
	if x.slots[gap] == 0 {
		panic("memory: a block to remove is not in the index")
	}
	for i := (gap + 1) & mask; x.slots[i] != 0; i = (i + 1) & mask {
		// The entry may fill the gap unless its home lies after the gap.
		if h := x.home(frames[x.slots[i]-1].block); (i-h)&mask >= (i-gap)&mask {
			x.slots[gap] = x.slots[i]
			gap = i
		}
	}
	x.slots[gap] = 0
	x.used--
}
