package storage

import (
	"sync"

	"github.com/goagnes/goagnes/layout"
)

const (
	tableChunk     = 64 << 10                       // bytes of a page table that are read at once
	chunkPages     = tableChunk / layout.TableEntry // data pages that a chunk covers: 64 MiB
	minTableChunks = 4
)

// tableKey names a chunk of a section's page table.
type tableKey struct {
	section int
	chunk   int64
}

// tableChunkFrame is a place for one chunk.
type tableChunkFrame struct {
	memory     []byte
	key        tableKey
	labelled   bool // found through the index under key
	pins       int  // users; a pinned frame keeps its chunk
	ready      chan struct{}
	err        error            // valid once ready is closed
	prev, next *tableChunkFrame // least recently used last
}

// tableCache keeps the chunks of page tables used last in a fixed number of
// frames. A chunk that is needed by several goroutines at once is read by the
// first; the others wait for it. When every frame is in use, a chunk is read
// into memory of its own, so that nobody waits for a frame.
type tableCache struct {
	mu struct {
		sync.Mutex
		index map[tableKey]*tableChunkFrame
		lru   tableChunkFrame // ring through prev and next
		spare []byte          // memory not yet given to a frame
	}
}

func newTableCache(mem []byte) *tableCache {
	c := &tableCache{}
	c.mu.index = map[tableKey]*tableChunkFrame{}
	c.mu.lru.prev, c.mu.lru.next = &c.mu.lru, &c.mu.lru
	c.mu.spare = mem
	return c
}

// get returns the chunk, pinned, loading it where it is not there. put must
// follow unless get fails.
func (c *tableCache) get(key tableKey, load func(mem []byte) error) (*tableChunkFrame, error) {
	c.mu.Lock()
	f := c.mu.index[key]
	if f != nil {
		f.pins++
		c.touchLocked(f)
		c.mu.Unlock()
		<-f.ready
	} else {
		f = c.frameLocked()
		f.pins, f.err, f.ready, f.key = 1, nil, make(chan struct{}), key
		if f.next != nil {
			f.labelled = true
			c.mu.index[key] = f
			c.touchLocked(f)
		}
		c.mu.Unlock()
		f.err = load(f.memory)
		if f.err != nil {
			c.mu.Lock()
			c.unlabelLocked(f)
			c.mu.Unlock()
		}
		close(f.ready)
	}
	if err := f.err; err != nil {
		c.put(f)
		return nil, err
	}
	return f, nil
}

func (c *tableCache) put(f *tableChunkFrame) {
	c.mu.Lock()
	f.pins--
	c.mu.Unlock()
}

// frameLocked returns an unpinned frame without a label, in the ring; or one
// outside the ring where all are pinned.
func (c *tableCache) frameLocked() *tableChunkFrame {
	if len(c.mu.spare) >= tableChunk {
		f := &tableChunkFrame{memory: c.mu.spare[:tableChunk:tableChunk]}
		c.mu.spare = c.mu.spare[tableChunk:]
		f.prev, f.next = f, f
		return f
	}
	for f := c.mu.lru.prev; f != &c.mu.lru; f = f.prev {
		if f.pins == 0 {
			c.unlabelLocked(f)
			return f
		}
	}
	return &tableChunkFrame{memory: AlignedBytes(tableChunk)}
}

func (c *tableCache) unlabelLocked(f *tableChunkFrame) {
	if f.labelled {
		delete(c.mu.index, f.key)
		f.labelled = false
	}
}

// touchLocked makes f the most recently used.
func (c *tableCache) touchLocked(f *tableChunkFrame) {
	f.prev.next, f.next.prev = f.next, f.prev
	f.prev, f.next = &c.mu.lru, c.mu.lru.next
	f.prev.next, f.next.prev = f, f
}
