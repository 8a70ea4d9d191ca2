package storage

// Memory that is registered with a ring: the kernel looks its pages up and pins
// them once, instead of for each request into it.

import (
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// From <linux/io_uring.h>.
const (
	ringRegisterBuffers2      = 15 // since Linux 5.13
	ringRegisterBuffersUpdate = 16
	ringRegisterSparse        = 1 << 0 // since Linux 5.19
)

const (
	fixedEntries = 64      // entries of the kernel's table of registered memory
	fixedBytes   = 1 << 30 // the kernel's limit for one entry
)

// fixedBuffers tells what memory is registered. It is under Pool.mu.
type fixedBuffers struct {
	made    bool // the kernel has a table
	refused bool // it has none to give
	closed  bool
	entries [fixedEntries][]byte // nil: free
	bytes   int64
}

// find returns the entry that a buffer lies in.
func (f *fixedBuffers) find(b []byte) (int, bool) {
	if f.bytes == 0 {
		return 0, false
	}
	at := uintptr(unsafe.Pointer(unsafe.SliceData(b)))
	for i, e := range f.entries {
		from := uintptr(unsafe.Pointer(unsafe.SliceData(e)))
		if len(e) > 0 && at >= from && at+uintptr(len(b)) <= from+uintptr(len(e)) {
			return i, true
		}
	}
	return 0, false
}

// add registers memory of at most fixedBytes; false where the kernel refuses.
func (f *fixedBuffers) add(r *ring, b []byte) (entry int, ok bool) {
	if f.refused || f.closed {
		return 0, false
	}
	if !f.made {
		if f.refused = r.makeFixed(fixedEntries) != nil; f.refused {
			return 0, false
		}
		f.made = true
	}
	for i, e := range f.entries {
		if e != nil {
			continue
		}
		if r.setFixed(i, b) != nil {
			return 0, false
		}
		f.entries[i] = b
		f.bytes += int64(len(b))
		return i, true
	}
	return 0, false
}

// remove takes an entry back.
func (f *fixedBuffers) remove(r *ring, i int) {
	if f.closed {
		return
	}
	if err := r.setFixed(i, nil); err != nil {
		panic("storage: registered memory cannot be given up: " + err.Error())
	}
	f.bytes -= int64(len(f.entries[i]))
	f.entries[i] = nil
}

// makeFixed gives the ring an empty table of registered memory.
func (r *ring) makeFixed(entries int) error {
	in := struct { // struct io_uring_rsrc_register
		entries, flags uint32
		_, data, tags  uint64
	}{entries: uint32(entries), flags: ringRegisterSparse}
	return r.register(ringRegisterBuffers2, unsafe.Pointer(&in), unsafe.Sizeof(in))
}

// setFixed registers memory as an entry of the table; none frees the entry.
func (r *ring) setFixed(entry int, b []byte) error {
	v := unix.Iovec{}
	if len(b) > 0 {
		v.Base = unsafe.SliceData(b)
		v.SetLen(len(b))
	}
	in := struct { // struct io_uring_rsrc_update2
		entry, _   uint32
		data, tags uint64
		entries, _ uint32
	}{entry: uint32(entry), data: uint64(uintptr(unsafe.Pointer(&v))), entries: 1}
	err := r.register(ringRegisterBuffersUpdate, unsafe.Pointer(&in), unsafe.Sizeof(in))
	runtime.KeepAlive(&v)
	return err
}

func (r *ring) register(op int, in unsafe.Pointer, size uintptr) error {
	for {
		_, _, errno := unix.Syscall6(unix.SYS_IO_URING_REGISTER, uintptr(r.fd), uintptr(op), uintptr(in), size, 0, 0)
		switch errno {
		case unix.EINTR:
		case 0:
			return nil
		default:
			return errno
		}
	}
}

// Register tells the pool of memory into which many requests will read, or from
// which they write: with a ring, the kernel then pins its pages once, which
// makes all of them resident, rather than for each request. It is ok where
// RLIMIT_MEMLOCK and the kernel (Linux 5.19) allow it, and counted in
// Counters.RegisteredBytes; everywhere else nothing changes. unregister must be
// called before the memory is unmapped, when no request into it is open; it is
// never nil and may be called on a closed pool.
func (p *Pool) Register(mem []byte) (unregister func(), ok bool) {
	if p.ring == nil || len(mem) == 0 {
		return func() {}, false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	var taken []int
	ok = true
	for rest := mem; len(rest) > 0 && ok; {
		n := min(len(rest), fixedBytes)
		var i int
		if i, ok = p.ring.fixed.add(p.ring.ring, rest[:n:n]); ok {
			taken, rest = append(taken, i), rest[n:]
		}
	}
	p.stats.registered(p.ring.fixed.bytes)
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		for _, i := range taken {
			p.ring.fixed.remove(p.ring.ring, i)
		}
		taken = nil
	}, len(taken) > 0
}
