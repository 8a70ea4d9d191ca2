package memory

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"
)

const (
	hugePage     = 2 << 20
	hugeFrom     = 4 << 20 // mappings of this size on are aligned for huge pages
	maxMapping   = 1 << 46
	otherPurpose = "other"
)

// MapError is a refusal of the system to map memory.
type MapError struct {
	Bytes int64
	Err   error
}

func (e *MapError) Error() string {
	return fmt.Sprintf("the system refuses %s of memory: %v", size(e.Bytes), e.Err)
}

// Unwrap returns the system's error.
func (e *MapError) Unwrap() error { return e.Err }

// Class returns the error class "budget".
func (e *MapError) Class() string { return "budget" }

type mapping struct {
	bytes   int64 // of the mapping: whole pages
	purpose string
}

// mappings knows every mapping by its address.
var mappings struct {
	sync.Mutex
	byAddress map[uintptr]mapping
	live      map[string]int64
}

// Map returns n bytes of zeroed memory outside the Go heap, page-aligned, from
// 4 MiB on aligned to 2 MiB and open to huge pages. Unmap must follow: the
// collector does not know the memory. It must hold no Go pointers.
func Map(n int64) ([]byte, error) { return MapFor(otherPurpose, n) }

// MapFor is Map, counted under a purpose in Live.
func MapFor(purpose string, n int64) ([]byte, error) {
	if n < 0 || n > maxMapping {
		panic(fmt.Sprintf("memory: a mapping of %d bytes", n))
	}
	if n == 0 {
		return []byte{}, nil
	}
	whole := roundUp(n, hostPage)
	base, err := mapPages(whole)
	if err != nil {
		return nil, &MapError{Bytes: n, Err: err}
	}
	mappings.Lock()
	defer mappings.Unlock()
	if mappings.byAddress == nil {
		mappings.byAddress, mappings.live = map[uintptr]mapping{}, map[string]int64{}
	}
	mappings.byAddress[uintptr(base)] = mapping{whole, purpose}
	mappings.live[purpose] += whole
	return unsafe.Slice((*byte)(base), n), nil
}

// Unmap gives memory of Map back; b must begin where Map's result began.
func Unmap(b []byte) error {
	if cap(b) == 0 {
		return nil
	}
	base := unsafe.Pointer(unsafe.SliceData(b))
	mappings.Lock()
	m, ok := mappings.byAddress[uintptr(base)]
	if ok {
		delete(mappings.byAddress, uintptr(base))
		if mappings.live[m.purpose] -= m.bytes; mappings.live[m.purpose] == 0 {
			delete(mappings.live, m.purpose)
		}
	}
	mappings.Unlock()
	if !ok {
		panic("memory: Unmap of memory that Map did not return, or twice")
	}
	return unix.MunmapPtr(base, uintptr(m.bytes))
}

// Live returns the bytes that are mapped, by purpose. Slabs are not among
// them: they are counted by their pool, and the last reference may be dropped
// outside Go.
func Live() map[string]int64 {
	mappings.Lock()
	defer mappings.Unlock()
	return maps.Clone(mappings.live)
}

// mapPages maps whole bytes, which must be whole pages.
func mapPages(whole int64) (unsafe.Pointer, error) {
	n := uintptr(whole)
	anonymous := func(n uintptr) (unsafe.Pointer, error) {
		return unix.MmapPtr(-1, 0, nil, n, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	}
	if whole < hugeFrom {
		return anonymous(n)
	}
	// Map more than is needed and cut off what lies outside the aligned part.
	base, err := anonymous(n + hugePage)
	if err != nil {
		return nil, err
	}
	before := -uintptr(base) & (hugePage - 1)
	aligned := unsafe.Add(base, before)
	rest, left := base, n+hugePage // what is still mapped
	if before > 0 {
		if err = unix.MunmapPtr(base, before); err == nil {
			rest, left = aligned, left-before
		}
	}
	if err == nil { // before is below hugePage
		err = unix.MunmapPtr(unsafe.Add(aligned, n), hugePage-before)
	}
	if err != nil { // too many mappings
		return nil, errors.Join(err, unix.MunmapPtr(rest, left))
	}
	// Advice: without huge pages all is only slower.
	_ = unix.Madvise(unsafe.Slice((*byte)(aligned), n), unix.MADV_HUGEPAGE)
	return aligned, nil
}

func roundUp(n, to int64) int64 { return (n + to - 1) / to * to }

// hostPage is the unit of mappings in bytes.
var hostPage = int64(os.Getpagesize())
