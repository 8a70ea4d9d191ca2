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
	reading    bool             // by a request of the pool, whose workers must not wait for it
	waiting    []*Request       // read meanwhile; verified when the chunk is there
	prev, next *tableChunkFrame // least recently used last
}

// tableCache keeps the chunks of page tables used last in a fixed number of
// frames. A chunk is read when a request for pages that it covers is submitted
// (ahead, landed), so that both are at the device together; pages that come first
// are left with the chunk, and no worker waits. A chunk that was not read ahead, or
// has left its frame since, is read by the goroutine that verifies; others that
// need it wait for that system call. When every frame is in use, it is read into
// memory of its own, so that nobody waits for a frame.
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

// later is what tableCache.get returns for a chunk that a request is reading.
type later struct{ ready <-chan struct{} }

func (*later) Error() string { return "the checksum table is being read" }

// get returns the chunk, pinned, loading it where it is not there. put must
// follow unless get fails. Where a request of the pool is reading the chunk, get
// leaves r with it, unless that is nil, and returns a *later.
func (c *tableCache) get(key tableKey, r *Request, load func(mem []byte) error) (*tableChunkFrame, error) {
	c.mu.Lock()
	f := c.mu.index[key]
	if f != nil && f.reading {
		if r != nil {
			f.waiting = append(f.waiting, r)
		}
		ready := f.ready
		c.mu.Unlock()
		return nil, &later{ready}
	}
	if f != nil {
		f.pins++
		c.touchLocked(f)
		c.mu.Unlock()
		<-f.ready
	} else {
		if f = c.frameLocked(); f == nil {
			f = &tableChunkFrame{memory: AlignedBytes(tableChunk)}
		}
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

// ahead returns a frame, pinned, for a chunk that is to be read by a request; landed
// must follow. It returns nil where the chunk is there or on its way, or no frame is
// free for it.
func (c *tableCache) ahead(key tableKey) *tableChunkFrame {
	c.mu.Lock()
	defer c.mu.Unlock()
	if f := c.mu.index[key]; f != nil {
		c.touchLocked(f)
		return nil
	}
	f := c.frameLocked()
	if f == nil {
		return nil
	}
	f.pins, f.err, f.ready, f.key, f.labelled, f.reading = 1, nil, make(chan struct{}), key, true, true
	c.mu.index[key] = f
	c.touchLocked(f)
	return f
}

// landed tells that the frame of ahead holds its chunk, or with err that it could
// not be read, and returns the requests that were left with it.
func (c *tableCache) landed(f *tableChunkFrame, err error) []*Request {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err != nil {
		c.unlabelLocked(f)
	}
	waiting := f.waiting
	f.err, f.reading, f.waiting = err, false, nil
	f.pins--
	close(f.ready)
	return waiting
}

func (c *tableCache) put(f *tableChunkFrame) {
	c.mu.Lock()
	f.pins--
	c.mu.Unlock()
}

// frameLocked returns an unpinned frame without a label, nil where all are pinned.
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
	return nil
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
