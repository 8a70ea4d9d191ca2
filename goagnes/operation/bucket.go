package operation

import (
	"unsafe"

	"github.com/goagnes/goagnes/goagnes/memory"
)

// request asks for the neighbours of one frontier node.
type request struct {
	node  uint32 // internal id
	batch uint32 // minibatch, counted within the window
	slot  uint32 // place among all the window's frontier nodes
}

// bucket is Bck of the paper, sparse: row i holds the requests, of all
// minibatches of the window, for nodes that live in graph block i. Its memory
// is proportional to the requests and the blocks, not to their product with
// the minibatches. Requests of a row stand in (minibatch, slot) order.
type bucket struct {
	ends     []uint32 // row i is requests[ends[i-1]:ends[i]]
	requests []request
}

// fillBucket buckets the frontiers of a window's minibatches.
func fillBucket(mem *twoEnded, index *memory.ObjectIndex, frontiers [][]uint32) (*bucket, error) {
	total := 0
	for _, f := range frontiers {
		total += len(f)
	}
	ends, err := mem.highWords(index.Blocks() + 1)
	if err != nil {
		return nil, err
	}
	raw, err := mem.takeHigh(int64(total) * int64(unsafe.Sizeof(request{})))
	if err != nil {
		return nil, err
	}
	b := &bucket{ends: ends}
	if total > 0 {
		b.requests = unsafe.Slice((*request)(unsafe.Pointer(unsafe.SliceData(raw))), total)
	}
	clear(ends)
	for _, f := range frontiers {
		for _, v := range f {
			block, _ := index.Find(uint64(v))
			ends[block]++
		}
	}
	sum := uint32(0)
	for i, n := range ends {
		ends[i] = sum
		sum += n
	}
	slot := uint32(0)
	for j, f := range frontiers {
		for _, v := range f {
			block, _ := index.Find(uint64(v))
			b.requests[ends[block]] = request{v, uint32(j), slot}
			ends[block]++
			slot++
		}
	}
	return b, nil
}

// row returns the requests of a block.
func (b *bucket) row(block int) []request {
	first := uint32(0)
	if block > 0 {
		first = b.ends[block-1]
	}
	return b.requests[first:b.ends[block]]
}
