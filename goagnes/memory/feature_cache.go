package memory

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/bits"
	"sync/atomic"
	"unsafe"
)

// FeatureCache is the feature cache C_f: the feature rows of the nodes whose
// access count in the running hyperbatch passes a threshold. Its index table
// T_ch maps a node to its slot. All memory is the caller's.
//
// T_ch is a bit a node with the number of earlier bits interleaved: 16 bytes
// cover 96 nodes, 96 bits and a 32-bit rank, so that a look-up touches one
// cache line.
//
// Slots ascend with the node id. Filling is the caller's: Row gives the memory
// of a slot. Slot and Row may be called from several goroutines.
type FeatureCache struct {
	index  []uint64 // pairs: nodes 0-63 | nodes 64-95 and the rank above them
	data   []byte
	stride int64
	nodes  uint64
	rows   int

	hits, misses atomic.Int64
}

const (
	nodesPerGroup = 96
	groupBytes    = 16
)

// FeatureCacheBytes returns the bytes of a cache's index, a sixth of a byte a
// node, and of its rows, each at a stride of bytes.
func FeatureCacheBytes(numNodes, rows, stride int64) (index, data int64) {
	return (numNodes + nodesPerGroup - 1) / nodesPerGroup * groupBytes, rows * stride
}

// NewFeatureCache makes a cache of the rows nodes counted t or more, as
// Threshold gave them; where more nodes are, it takes those of lowest id, where
// fewer are, fewer. index and data are as FeatureCacheBytes says, index aligned
// to 8 bytes. The counter is not needed afterwards.
func NewFeatureCache(c *AccessCounter, t uint8, rows int64, index, data []byte, stride int64) *FeatureCache {
	n := c.NumNodes()
	indexBytes, dataBytes := FeatureCacheBytes(n, rows, stride)
	p := unsafe.Pointer(unsafe.SliceData(index))
	if t == 0 || rows < 0 || rows > math.MaxInt32 || stride < 0 ||
		int64(len(index)) < indexBytes || int64(len(data)) < dataBytes || uintptr(p)%8 != 0 {
		panic(fmt.Sprintf("memory: a feature cache of %d nodes counted %d or more at a stride of %d, in %d and %d bytes", rows, t, stride, len(index), len(data)))
	}
	f := &FeatureCache{index: unsafe.Slice((*uint64)(p), indexBytes/8), data: data, stride: stride, nodes: uint64(n)}
	left := rows
	for g := int64(0); g < n; g += nodesPerGroup {
		group := c.counts[g:min(g+nodesPerGroup, n)]
		words := [2]uint64{0, uint64(rows-left) << 32}
		for i := 0; i < len(group) && left > 0; {
			// Eight nodes that nobody needs are passed over at once.
			if i+8 <= len(group) && binary.LittleEndian.Uint64(group[i:]) == 0 {
				i += 8
				continue
			}
			if group[i] >= t {
				words[i>>6] |= 1 << (i & 63)
				left--
			}
			i++
		}
		k := g / nodesPerGroup * 2
		f.index[k], f.index[k+1] = words[0], words[1]
	}
	f.rows = int(rows - left)
	return f
}

// Slot returns the slot of a node's row, and whether it has one.
func (f *FeatureCache) Slot(node uint64) (slot int, ok bool) {
	if node >= f.nodes {
		panic(fmt.Sprintf("memory: node %d of %d", node, f.nodes))
	}
	g, i := node/nodesPerGroup, node%nodesPerGroup
	lo, hi := f.index[2*g], f.index[2*g+1]
	rank := int(hi >> 32)
	if i < 64 {
		return rank + bits.OnesCount64(lo&(1<<i-1)), lo>>i&1 != 0
	}
	i -= 64
	return rank + bits.OnesCount64(lo) + bits.OnesCount64(hi&(1<<i-1)), hi>>i&1 != 0
}

// Row returns the memory of a slot.
func (f *FeatureCache) Row(slot int) []byte {
	at := int64(slot) * f.stride
	return f.data[at : at+f.stride : at+f.stride]
}

// Nodes calls fn for the node of every slot in order, until it returns false.
func (f *FeatureCache) Nodes(fn func(slot int, node uint64) bool) {
	slot := 0
	for k, w := range f.index {
		base := uint64(k/2*nodesPerGroup + k%2*64)
		if k%2 == 1 {
			w &= math.MaxUint32
		}
		for ; w != 0; w &= w - 1 {
			if !fn(slot, base+uint64(bits.TrailingZeros64(w))) {
				return
			}
			slot++
		}
	}
}

// Rows returns the number of slots.
func (f *FeatureCache) Rows() int { return f.rows }

// Note adds to the counts of hits and misses. Look-ups do not count by
// themselves: an atomic add for each would cost more than the look-up.
func (f *FeatureCache) Note(hits, misses int64) {
	f.hits.Add(hits)
	f.misses.Add(misses)
}

// Hits returns the hits noted.
func (f *FeatureCache) Hits() int64 { return f.hits.Load() }

// Misses returns the misses noted.
func (f *FeatureCache) Misses() int64 { return f.misses.Load() }
