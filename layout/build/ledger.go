package build

// The build's memory: mappings outside the Go heap, counted against one budget.

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// ledger counts the memory of a build against its budget. It is used from one
// goroutine.
type ledger struct {
	total, used, peak int64
}

// free is what can still be taken.
func (l *ledger) free() int64 { return l.total - l.used }

// charge counts n bytes that are held on the Go heap or by another package.
func (l *ledger) charge(consumer string, n int64) error {
	if n > l.free() {
		return &BudgetError{Consumer: consumer, Need: n, Free: l.free(), Total: l.total}
	}
	l.used += n
	l.peak = max(l.peak, l.used)
	return nil
}

// discharge gives back n charged bytes.
func (l *ledger) discharge(n int64) {
	l.used -= n
	if l.used < 0 {
		panic("build: more memory given back than was taken")
	}
}

// region is a mapping of zeros. Pages take memory once they are touched.
type region struct {
	ledger *ledger
	bytes  []byte
	mapped []byte
}

// region maps n bytes, page-aligned.
func (l *ledger) region(consumer string, n int64) (*region, error) {
	if n < 0 {
		panic("build: a region of negative size")
	}
	size := (n + 4095) &^ 4095
	if err := l.charge(consumer, size); err != nil {
		return nil, err
	}
	r := &region{ledger: l}
	if size == 0 {
		return r, nil
	}
	m, err := unix.Mmap(-1, 0, int(size), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON|unix.MAP_NORESERVE)
	if err != nil {
		l.discharge(size)
		return nil, ioError(err, "mapping %d bytes for %s", size, consumer)
	}
	if size >= 4<<20 {
		// Huge pages save page faults and TLB misses; refusal costs speed only.
		_ = unix.Madvise(m, unix.MADV_HUGEPAGE)
	}
	r.mapped, r.bytes = m, m[:n]
	return r, nil
}

// size is what the region counts for in the ledger.
func (r *region) size() int64 {
	if r == nil {
		return 0
	}
	return int64(len(r.mapped))
}

// close unmaps the region; a second call, or one on nil, does nothing.
func (r *region) close() {
	if r == nil || r.mapped == nil {
		return
	}
	if err := unix.Munmap(r.mapped); err != nil {
		panic("build: munmap: " + err.Error())
	}
	r.ledger.discharge(int64(len(r.mapped)))
	r.mapped, r.bytes = nil, nil
}

// shrink returns the pages past the first n bytes to the system.
func (r *region) shrink(n int64) {
	size := (n + 4095) &^ 4095
	if size == 0 {
		r.close()
		return
	}
	if size >= int64(len(r.mapped)) {
		return
	}
	m, err := unix.Mremap(r.mapped, int(size), 0)
	if err != nil {
		return // the larger mapping stays, and stays counted
	}
	r.ledger.discharge(int64(len(r.mapped)) - size)
	r.mapped, r.bytes = m, m[:n]
}

// word is an element of a table.
type word interface {
	~uint32 | ~uint64 | ~int64 | ~float32
}

// view shows the bytes of b, which are aligned to 8, as words.
func view[T word](b []byte) []T {
	if len(b) == 0 {
		return nil
	}
	var t T
	return unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(b))), len(b)/int(unsafe.Sizeof(t)))
}

// raw shows words as the bytes they are stored in. The format is little-endian,
// and so are the machines this is built for (see the constraint in endian.go).
func raw[T word](w []T) []byte {
	if len(w) == 0 {
		return nil
	}
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(w))), len(w)*int(unsafe.Sizeof(w[0])))
}
