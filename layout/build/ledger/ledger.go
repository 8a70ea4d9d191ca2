package ledger

// The build's memory: mappings outside the Go heap, counted against one budget.

import (
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/goagnes/goagnes/layout/build/fault"
)

// Ledger counts the memory of a build against its budget. It is used from one
// goroutine.
type Ledger struct {
	Total, Used, Peak int64
}

// New is a budget of total bytes, all of it free.
func New(total int64) *Ledger { return &Ledger{Total: total} }

// Free is what can still be taken.
func (l *Ledger) Free() int64 { return l.Total - l.Used }

// Charge counts n bytes that are held on the Go heap or by another package.
func (l *Ledger) Charge(consumer string, n int64) error {
	if n > l.Free() {
		return &BudgetError{Consumer: consumer, Need: n, Free: l.Free(), Total: l.Total}
	}
	l.Used += n
	l.Peak = max(l.Peak, l.Used)
	return nil
}

// Discharge gives back n charged bytes.
func (l *Ledger) Discharge(n int64) {
	l.Used -= n
	if l.Used < 0 {
		panic("ledger: more memory given back than was taken")
	}
}

// Region is a mapping of zeros. Pages take memory once they are touched.
type Region struct {
	ledger *Ledger
	Bytes  []byte
	Mapped []byte
}

// Map maps n bytes, page-aligned.
func (l *Ledger) Map(consumer string, n int64) (*Region, error) {
	if n < 0 {
		panic("ledger: a region of negative size")
	}
	size := (n + 4095) &^ 4095
	if err := l.Charge(consumer, size); err != nil {
		return nil, err
	}
	r := &Region{ledger: l}
	if size == 0 {
		return r, nil
	}
	m, err := unix.Mmap(-1, 0, int(size), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON|unix.MAP_NORESERVE)
	if err != nil {
		l.Discharge(size)
		return nil, fault.IO(err, "mapping %d bytes for %s", size, consumer)
	}
	if size >= 4<<20 {
		// Huge pages save page faults and TLB misses; refusal costs speed only.
		_ = unix.Madvise(m, unix.MADV_HUGEPAGE)
	}
	r.Mapped, r.Bytes = m, m[:n]
	return r, nil
}

// Size is what the region counts for in the ledger.
func (r *Region) Size() int64 {
	if r == nil {
		return 0
	}
	return int64(len(r.Mapped))
}

// Close unmaps the region; a second call, or one on nil, does nothing.
func (r *Region) Close() {
	if r == nil || r.Mapped == nil {
		return
	}
	if err := unix.Munmap(r.Mapped); err != nil {
		panic("ledger: munmap: " + err.Error())
	}
	r.ledger.Discharge(int64(len(r.Mapped)))
	r.Mapped, r.Bytes = nil, nil
}

// Shrink leaves the first n bytes, and returns the pages past them to the system; a
// region of fewer bytes stays as it is.
func (r *Region) Shrink(n int64) {
	if n >= int64(len(r.Bytes)) {
		return
	}
	size := (n + 4095) &^ 4095
	if size == 0 {
		r.Close()
		return
	}
	r.Bytes = r.Bytes[:n:n]
	if size == int64(len(r.Mapped)) {
		return
	}
	m, err := unix.Mremap(r.Mapped, int(size), 0)
	if err != nil {
		return // the larger mapping stays, and stays counted
	}
	r.ledger.Discharge(int64(len(r.Mapped)) - size)
	r.Mapped, r.Bytes = m, m[:n:n]
}

// word is an element of a table.
type word interface {
	~uint32 | ~uint64 | ~int64 | ~float32
}

// View shows the bytes of b, which are aligned to 8, as words.
func View[T word](b []byte) []T {
	if len(b) == 0 {
		return nil
	}
	var t T
	return unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(b))), len(b)/int(unsafe.Sizeof(t)))
}

// What follows is right on little-endian machines only; see endian.go.
var _ = littleEndian

// Raw shows words as the bytes they are stored in. The format is little-endian,
// and so are the machines this is built for.
func Raw[T word](w []T) []byte {
	if len(w) == 0 {
		return nil
	}
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(w))), len(w)*int(unsafe.Sizeof(w[0])))
}

// RoundUp returns the least multiple of to that is n or more.
func RoundUp(n, to int64) int64 { return (n + to - 1) / to * to }
