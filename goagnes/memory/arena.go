package memory

import (
	"fmt"
	"unsafe"

	"github.com/goagnes/goagnes/layout"
)

// arenaAlign is the alignment of what an Arena hands out: a cache line, and
// the widest vector register.
const arenaAlign = 64

// Arena hands out pieces of one block of memory and takes them back all at
// once, down to a Mark, so that each phase of a hyperbatch carves the same
// mapping anew: mapping and unmapping per phase would cost more than the work.
// It is used by one goroutine at a time; the pieces by any. Pieces are not
// zeroed. What does not fit gives nil, never a failure: the caller splits its
// work.
type Arena struct {
	memory []byte
	used   int64
	peak   int64
	lease  *Lease
	mapped bool
}

// Mark is a level of an Arena to go back to.
type Mark int64

// Plain are the types that Slice hands out: numbers, which hold no pointers.
type Plain interface {
	~int8 | ~int16 | ~int32 | ~int64 | ~int | ~uint8 | ~uint16 | ~uint32 | ~uint64 | ~uint | ~uintptr | ~float32 | ~float64
}

// NewArena reserves size bytes for the consumer in b, which may be nil, and
// maps them. Close must follow.
func NewArena(b *Budget, consumer string, size int64) (*Arena, error) {
	a := &Arena{mapped: true}
	var err error
	if b != nil {
		if a.lease, err = b.Reserve(consumer, size); err != nil {
			return nil, err
		}
	}
	if a.memory, err = MapFor(consumer, size); err != nil {
		if a.lease != nil {
			a.lease.Release()
		}
		return nil, err
	}
	return a, nil
}

// ArenaOver returns an arena over memory of the caller's.
func ArenaOver(mem []byte) *Arena { return &Arena{memory: mem} }

// Bytes returns n bytes, aligned to 64, or nil when they do not fit.
func (a *Arena) Bytes(n int64) []byte { return a.take(n, arenaAlign) }

// Pages returns n bytes, aligned to layout.PageSize as direct I/O needs, or
// nil when they do not fit.
func (a *Arena) Pages(n int64) []byte { return a.take(n, layout.PageSize) }

// Slice returns n numbers, aligned to 64 bytes, or nil when they do not fit.
func Slice[T Plain](a *Arena, n int) []T {
	var zero T
	width := int64(unsafe.Sizeof(zero))
	if int64(n) > a.Size()/width {
		return nil
	}
	b := a.take(int64(n)*width, arenaAlign)
	if b == nil {
		return nil
	}
	return unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(b))), n)
}

func (a *Arena) take(n, align int64) []byte {
	if n < 0 {
		panic(fmt.Sprintf("memory: %d bytes of an arena", n))
	}
	at := a.used + a.padding(align)
	if at > a.Size() || n > a.Size()-at {
		if n == 0 {
			return []byte{}
		}
		return nil
	}
	a.used = at + n
	a.peak = max(a.peak, a.used)
	return a.memory[at:a.used:a.used]
}

// padding returns the bytes to skip so that the next piece is aligned.
func (a *Arena) padding(align int64) int64 {
	base := int64(uintptr(unsafe.Pointer(unsafe.SliceData(a.memory))) & uintptr(align-1))
	return -(base + a.used) & (align - 1)
}

// Mark returns the present level.
func (a *Arena) Mark() Mark { return Mark(a.used) }

// Reset takes back everything handed out since the mark; the zero Mark takes
// back all.
func (a *Arena) Reset(m Mark) {
	if int64(m) < 0 || int64(m) > a.used {
		panic(fmt.Sprintf("memory: an arena at %d bytes is reset to %d", a.used, m))
	}
	a.used = int64(m)
}

// Remaining returns the largest n for which Bytes(n) succeeds.
func (a *Arena) Remaining() int64 { return max(a.Size()-a.used-a.padding(arenaAlign), 0) }

// Size returns the bytes of the arena.
func (a *Arena) Size() int64 { return int64(len(a.memory)) }

// Peak returns the highest level so far.
func (a *Arena) Peak() int64 { return a.peak }

// Close unmaps an arena of NewArena and releases its lease. Nothing that it
// handed out may be used afterwards. A second Close does nothing.
func (a *Arena) Close() error {
	var err error
	if a.mapped {
		err = Unmap(a.memory)
	}
	if a.lease != nil {
		a.lease.Release()
	}
	*a = Arena{}
	return err
}
