package memory

import (
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"unsafe"
)

// AccessCounter counts, for every node of a store, how many minibatches of a
// hyperbatch need its feature row: one byte a node, which stays at 255.
type AccessCounter struct {
	counts []byte
	words  []uint32   // the same memory as whole words
	tail   sync.Mutex // in AddShared guards the counts outside words
}

// NewAccessCounter returns a counter over mem, one byte a node, and clears it.
// Memory that is not aligned to 4 bytes works, but slowly.
func NewAccessCounter(mem []byte) *AccessCounter {
	clear(mem)
	c := &AccessCounter{counts: mem}
	if p := unsafe.Pointer(unsafe.SliceData(mem)); uintptr(p)%4 == 0 {
		c.words = unsafe.Slice((*uint32)(p), len(mem)/4)
	}
	return c
}

// NumNodes returns the number of counts.
func (c *AccessCounter) NumNodes() int64 { return int64(len(c.counts)) }

// Add counts an access. It must not run at the same time as another Add or
// AddShared.
func (c *AccessCounter) Add(node uint64) {
	if v := c.counts[node]; v != math.MaxUint8 {
		c.counts[node] = v + 1
	}
}

// AddShared counts an access; it may run at the same time as other AddShared.
func (c *AccessCounter) AddShared(node uint64) {
	if node >= uint64(len(c.counts)) {
		panic(fmt.Sprintf("memory: node %d of %d", node, len(c.counts)))
	}
	w := node / 4
	if w >= uint64(len(c.words)) {
		c.tail.Lock()
		defer c.tail.Unlock()
		c.Add(node)
		return
	}
	shift := node % 4 * 8 // little-endian, as everything here
	for {
		v := atomic.LoadUint32(&c.words[w])
		if v>>shift&math.MaxUint8 == math.MaxUint8 || atomic.CompareAndSwapUint32(&c.words[w], v, v+1<<shift) {
			return
		}
	}
}

// Count returns the accesses of a node, 255 for as many or more.
func (c *AccessCounter) Count(node uint64) uint8 { return c.counts[node] }

// Reset sets all counts to 0.
func (c *AccessCounter) Reset() { clear(c.counts) }

// Histogram returns how many nodes have each count.
func (c *AccessCounter) Histogram() [256]int64 {
	// Two tables, so that equal neighbours do not wait for each other; runs of
	// nodes that nobody needs are skipped a word at a time.
	var even, odd [256]int64
	for _, w := range c.words {
		if w == 0 {
			even[0] += 4
			continue
		}
		even[w&255]++
		odd[w>>8&255]++
		even[w>>16&255]++
		odd[w>>24]++
	}
	for _, v := range c.counts[4*len(c.words):] {
		even[v]++
	}
	for i := range even {
		even[i] += odd[i]
	}
	return even
}

// Threshold returns the smallest count t of at least 1 such that no more than
// slots nodes are counted t or more, and how many nodes that is. Where even the
// nodes at 255 are more than that, t is 255 and rows is slots: the cache then
// takes those of lowest id, which is the most sampled in degree order.
func (c *AccessCounter) Threshold(slots int64) (t uint8, rows int64) {
	h := c.Histogram()
	if h[math.MaxUint8] > slots {
		return math.MaxUint8, max(slots, 0)
	}
	t, rows = math.MaxUint8, h[math.MaxUint8]
	for t > 1 && rows+h[t-1] <= slots {
		t--
		rows += h[t]
	}
	return t, rows
}
