package memory

import (
	"math"
	"sync"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

// SlabHeader is the number of bytes before the contents of a slab.
const SlabHeader = 64

// slabHeader lies at the start of every slab's mapping. Code in other
// languages drops references by it, so its layout is fixed:
//
//	0   int32   references: one of the pool, one of each holder
//	4   int32   zero
//	8   uint64  bytes of the mapping, header included
//	16  uint64  address of the wake word, an int32 that is never unmapped
//	24  zero
//
// To drop a reference, subtract 1 atomically. Where 1 was left before, unmap
// the mapping. Where 2 were left, add 1 to the wake word atomically and wake
// all who wait on it (FUTEX_WAKE, not private): the pool may use the slab
// again.
type slabHeader struct {
	refs   int32
	_      int32
	length uint64
	wake   uint64
	_      [40]byte
}

const _ = uint(SlabHeader-unsafe.Sizeof(slabHeader{})) + uint(unsafe.Sizeof(slabHeader{})-SlabHeader) // equal

// Slab is the memory of one minibatch: a mapping of its own that lives until
// its last reference is dropped, here or in another language.
type Slab struct {
	base   unsafe.Pointer
	length int64
	pooled atomic.Bool // the pool holds its reference
}

// Base returns the address of the mapping, where the header lies.
func (s *Slab) Base() unsafe.Pointer { return s.base }

// Bytes returns the memory after the header, aligned to 64 bytes. Its contents
// are those of an earlier use.
func (s *Slab) Bytes() []byte {
	return unsafe.Slice((*byte)(unsafe.Add(s.base, SlabHeader)), s.length-SlabHeader)
}

func (s *Slab) header() *slabHeader { return (*slabHeader)(s.base) }

// Retain adds a reference. The caller must hold one.
func (s *Slab) Retain() {
	if atomic.AddInt32(&s.header().refs, 1) < 2 {
		panic("memory: Retain of a slab that nobody holds")
	}
}

// Release drops a reference, after which the caller must not touch the slab.
func (s *Slab) Release() {
	if invariants && atomic.LoadInt32(&s.header().refs) == 2 {
		// The pool and this holder alone are left, and the pool does not write
		// before the count is 1. (After the pool's Close two holders may be
		// left, of which one still reads: hence pooled.)
		if s.pooled.Load() {
			poison(s.Bytes())
		}
	}
	s.drop()
}

// drop is Release without poisoning: also the pool's own way to let go.
func (s *Slab) drop() {
	switch old := atomic.AddInt32(&s.header().refs, -1) + 1; {
	case old == 1:
		if err := unix.MunmapPtr(s.base, uintptr(s.length)); err != nil {
			panic("memory: a slab cannot be unmapped: " + err.Error())
		}
	case old == 2:
		wakeAll()
	case old < 1:
		panic("memory: Release of a slab that nobody holds")
	}
}

// poisonByte fills free slabs where invariants are checked.
const poisonByte = 0xDB

func poison(b []byte) {
	b[0] = poisonByte
	for n := 1; n < len(b); n *= 2 {
		copy(b[n:], b[:n])
	}
}

// Linux futex operations. They are not the private ones, whose waiters a
// plain FUTEX_WAKE from other code would not reach.
const (
	futexWait = 0
	futexWake = 1
)

// wakeWord counts releases of slabs in this process. It is mapped once and
// never unmapped, so that a release after the last pool is closed is safe.
var wakeWord = sync.OnceValue(func() *int32 {
	p, err := mapPages(hostPage)
	if err != nil {
		panic("memory: no page for the wake word: " + err.Error())
	}
	return (*int32)(p)
})

func wakeAll() {
	w := wakeWord()
	atomic.AddInt32(w, 1)
	unix.Syscall6(unix.SYS_FUTEX, uintptr(unsafe.Pointer(w)), futexWake, math.MaxInt32, 0, 0, 0)
}

// waitWake returns when the wake word differs from seen, when it changes, or
// after the time. It may return early.
func waitWake(seen int32, timeout unix.Timespec) {
	unix.Syscall6(unix.SYS_FUTEX, uintptr(unsafe.Pointer(wakeWord())), futexWait, uintptr(uint32(seen)),
		uintptr(unsafe.Pointer(&timeout)), 0, 0)
}

func wakeAddress() uint64 { return uint64(uintptr(unsafe.Pointer(wakeWord()))) }
