package memory

import (
	"context"
	"fmt"
	"sync"
	"unsafe"
)

// Buffer holds blocks in frames of equal size: the graph buffer and the
// feature buffer. Its index table T_buf finds the frame of a block. Frames are
// used again least recently used first; a frame that is pinned is not.
//
// A block is loaded by whoever acquires it first: Acquire then reports a miss,
// the caller fills Frame.Bytes and calls Ready. Others who acquire the block
// meanwhile share the frame and wait for it with Frame.Wait. Every Acquire that
// is ok is matched by one Unpin, also after a failure.
//
// A frame is pinned, from Acquire to Unpin, by its loader and its readers;
// loading, filled (in the index, wanted or not), or empty (a failed load leaves
// it so). Its methods may be called from several goroutines.
type Buffer struct {
	frameBytes int64

	mu struct {
		sync.Mutex
		frames   []Frame
		index    blockIndex
		head     int32 // unpinned frames in a list, the least recently used first
		tail     int32
		unpinned int
		waiters  int           // in WaitUnpinned
		freed    chan struct{} // closed and replaced when a frame is unpinned while somebody waits

		hits, misses, evictions int64
	}
}

// Frame is a place for one block.
type Frame struct {
	buffer *Buffer
	memory []byte
	number int32

	// Under the buffer's lock.
	block      int64 // -1: none
	pins       int32
	prev, next int32 // in the list of unpinned frames, -1 at its ends
	loading    bool
	ready      chan struct{} // closed by Ready
	err        error         // of the last load, valid once ready is closed
}

const noFrame = int32(-1)

// bufferBytesPerFrame is what a frame costs beside its contents: the Frame,
// its channel and up to four slots of the index.
const bufferBytesPerFrame = 88 + 96 + 4*4

const _ = uint(88 - unsafe.Sizeof(Frame{})) // a Frame is no larger

// BufferTableBytes returns the bytes of Go heap that a buffer of that many
// frames takes for its tables.
func BufferTableBytes(frames int64) int64 { return frames * bufferBytesPerFrame }

// NewBuffer makes frames of frameBytes out of mem; what is left over is not
// used. Page-aligned memory and a multiple of the page keep every frame fit
// for direct I/O.
func NewBuffer(mem []byte, frameBytes int64) *Buffer {
	if frameBytes <= 0 {
		panic(fmt.Sprintf("memory: frames of %d bytes", frameBytes))
	}
	n := int64(len(mem)) / frameBytes
	if n > 1<<30 {
		panic(fmt.Sprintf("memory: a buffer of %d frames", n))
	}
	b := &Buffer{frameBytes: frameBytes}
	b.mu.frames = make([]Frame, n)
	b.mu.index = newBlockIndex(int(n))
	b.mu.head, b.mu.tail = noFrame, noFrame
	b.mu.freed = make(chan struct{})
	for i := range b.mu.frames {
		f := &b.mu.frames[i]
		*f = Frame{buffer: b, number: int32(i), block: -1, memory: mem[int64(i)*frameBytes : int64(i+1)*frameBytes : int64(i+1)*frameBytes]}
		b.pushLocked(f)
	}
	return b
}

// Acquire returns the frame of a block, pinned. With hit the block is there or
// is being loaded by another: wait with Frame.Wait. Without hit the caller must
// load it and call Ready. ok is false where every frame is pinned.
func (b *Buffer) Acquire(block int64) (f *Frame, hit, ok bool) {
	if block < 0 {
		panic(fmt.Sprintf("memory: block %d", block))
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	defer b.checkLocked()
	if i := b.mu.index.find(b.mu.frames, block); i != noFrame {
		f = &b.mu.frames[i]
		if f.pins == 0 {
			b.removeLocked(f)
		}
		f.pins++
		b.mu.hits++
		return f, true, true
	}
	if b.mu.head == noFrame {
		return nil, false, false
	}
	f = &b.mu.frames[b.mu.head]
	b.removeLocked(f)
	if f.block >= 0 {
		b.mu.index.remove(b.mu.frames, f.block)
		b.mu.evictions++
	}
	f.block, f.pins, f.loading, f.err, f.ready = block, 1, true, nil, make(chan struct{})
	b.mu.index.insert(b.mu.frames, f.number)
	b.mu.misses++
	return f, false, true
}

// Contains reports whether the block is in a frame or on its way there,
// without touching its place in the order of use.
func (b *Buffer) Contains(block int64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.mu.index.find(b.mu.frames, block) != noFrame
}

// Ready tells that the caller, to whom Acquire reported a miss, has loaded the
// block, or with err that it could not: then the block loses its frame, and
// all who wait for it get err.
func (f *Frame) Ready(err error) {
	b := f.buffer
	b.mu.Lock()
	defer b.mu.Unlock()
	defer b.checkLocked()
	if !f.loading || f.pins == 0 {
		panic(fmt.Sprintf("memory: Ready of block %d, which is not being loaded", f.block))
	}
	f.loading, f.err = false, err
	if err != nil {
		b.mu.index.remove(b.mu.frames, f.block)
		f.block = -1
	}
	close(f.ready)
}

// Wait returns when the block is loaded, with the error of its loading, or
// when ctx ends. The frame stays pinned either way.
func (f *Frame) Wait(ctx context.Context) error {
	select {
	case <-f.ready:
		return f.err
	default:
	}
	select {
	case <-f.ready:
		return f.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Unpin gives up one Acquire. Nothing of the frame may be read afterwards.
func (f *Frame) Unpin() {
	b := f.buffer
	b.mu.Lock()
	defer b.mu.Unlock()
	defer b.checkLocked()
	if f.pins <= 0 {
		panic(fmt.Sprintf("memory: Unpin of block %d, which is not pinned", f.block))
	}
	if f.pins--; f.pins > 0 {
		return
	}
	if f.loading {
		panic(fmt.Sprintf("memory: block %d is unpinned by its loader before Ready", f.block))
	}
	b.pushLocked(f)
	if b.mu.waiters > 0 {
		close(b.mu.freed)
		b.mu.freed = make(chan struct{})
	}
}

// Bytes returns the frame's memory.
func (f *Frame) Bytes() []byte { return f.memory }

// Block returns the block that the frame was acquired for, -1 after its load
// failed.
func (f *Frame) Block() int64 {
	f.buffer.mu.Lock()
	defer f.buffer.mu.Unlock()
	return f.block
}

// WaitUnpinned returns when some frame is not pinned, which need not last, or
// when ctx ends.
func (b *Buffer) WaitUnpinned(ctx context.Context) error {
	b.mu.Lock()
	for b.mu.unpinned == 0 {
		b.mu.waiters++
		freed := b.mu.freed
		b.mu.Unlock()
		var err error
		select {
		case <-freed:
		case <-ctx.Done():
			err = ctx.Err()
		}
		b.mu.Lock()
		b.mu.waiters--
		if err != nil {
			b.mu.Unlock()
			return err
		}
	}
	b.mu.Unlock()
	return ctx.Err()
}

// Clear forgets every block that is not pinned, for instance before the
// buffer's memory is used for something else. It reports whether no block is
// left.
func (b *Buffer) Clear() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	defer b.checkLocked()
	for i := b.mu.head; i != noFrame; i = b.mu.frames[i].next {
		if f := &b.mu.frames[i]; f.block >= 0 {
			b.mu.index.remove(b.mu.frames, f.block)
			f.block = -1
		}
	}
	return b.mu.unpinned == len(b.mu.frames)
}

// pushLocked puts f at the end of the unpinned frames: at the front where it
// holds no block, as it is of no use.
func (b *Buffer) pushLocked(f *Frame) {
	f.prev, f.next = b.mu.tail, noFrame
	if f.block < 0 {
		f.prev, f.next = noFrame, b.mu.head
	}
	if f.prev == noFrame {
		b.mu.head = f.number
	} else {
		b.mu.frames[f.prev].next = f.number
	}
	if f.next == noFrame {
		b.mu.tail = f.number
	} else {
		b.mu.frames[f.next].prev = f.number
	}
	b.mu.unpinned++
}

func (b *Buffer) removeLocked(f *Frame) {
	if f.prev == noFrame {
		b.mu.head = f.next
	} else {
		b.mu.frames[f.prev].next = f.next
	}
	if f.next == noFrame {
		b.mu.tail = f.prev
	} else {
		b.mu.frames[f.next].prev = f.prev
	}
	f.prev, f.next = noFrame, noFrame
	b.mu.unpinned--
}

// Hits returns the acquisitions that found their block.
func (b *Buffer) Hits() int64 { b.mu.Lock(); defer b.mu.Unlock(); return b.mu.hits }

// Misses returns the acquisitions that had to load.
func (b *Buffer) Misses() int64 { b.mu.Lock(); defer b.mu.Unlock(); return b.mu.misses }

// Evictions returns the blocks that made room for others.
func (b *Buffer) Evictions() int64 { b.mu.Lock(); defer b.mu.Unlock(); return b.mu.evictions }

// Frames returns the number of frames.
func (b *Buffer) Frames() int { return len(b.mu.frames) }

// Pinned returns the number of frames that are pinned.
func (b *Buffer) Pinned() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.mu.frames) - b.mu.unpinned
}

// checkLocked panics where the buffer contradicts itself. It walks all frames
// and runs only with the build tag invariants.
func (b *Buffer) checkLocked() {
	if !invariants {
		return
	}
	listed, prev := 0, noFrame
	for i := b.mu.head; i != noFrame; i = b.mu.frames[i].next {
		f := &b.mu.frames[i]
		if f.pins != 0 || f.prev != prev || f.loading {
			panic(fmt.Sprintf("memory: frame %d is in the list with %d pins", i, f.pins))
		}
		prev = i
		listed++
	}
	labels := 0
	for i := range b.mu.frames {
		f := &b.mu.frames[i]
		if f.pins > 0 {
			listed++
		}
		if f.block >= 0 {
			labels++
			if b.mu.index.find(b.mu.frames, f.block) != int32(i) {
				panic(fmt.Sprintf("memory: the index does not find block %d in frame %d", f.block, i))
			}
		}
	}
	if listed != len(b.mu.frames) || b.mu.tail != prev || labels != b.mu.index.used {
		panic(fmt.Sprintf("memory: %d of %d frames are accounted for, %d labels, %d in the index", listed, len(b.mu.frames), labels, b.mu.index.used))
	}
}
