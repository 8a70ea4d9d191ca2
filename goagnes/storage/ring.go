package storage

// The io_uring of the kernel by raw system calls over <linux/io_uring.h>: a
// queue of submissions, a queue of completions, both shared with the kernel.
// What is done with it is in ring_pool.go.

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

// From <linux/io_uring.h>.
const (
	ringOpNop        = 0
	ringOpReadFixed  = 4
	ringOpWriteFixed = 5
	ringOpRead       = 22 // since Linux 5.6
	ringOpWrite      = 23

	ringOffSQ   = 0
	ringOffSQEs = 0x10000000

	ringFeatSingleMmap = 1 << 0
	ringFeatNoDrop     = 1 << 1

	ringEnterGetEvents = 1 << 0
	ringRegisterProbe  = 8
	ringOpSupported    = 1 << 0
)

type ringParams struct {
	sqEntries, cqEntries, flags, sqThreadCPU, sqThreadIdle, features, wqFD uint32
	_                                                                      [3]uint32
	sq, cq                                                                 ringOffsets
}

// ringOffsets are struct io_sqring_offsets and struct io_cqring_offsets, which
// differ in what the fields from the fifth on mean.
type ringOffsets struct {
	head, tail, ringMask, ringEntries uint32
	flags                             uint32 // cq: overflow
	dropped                           uint32 // cq: cqes
	array                             uint32 // cq: flags
	_                                 uint32
	_                                 uint64
}

// sqe is struct io_uring_sqe.
type sqe struct {
	opcode, flags uint8
	ioprio        uint16
	fd            int32
	offset, addr  uint64
	length        uint32
	rwFlags       uint32
	userData      uint64
	bufIndex      uint16
	_             [3]uint16
	_             [2]uint64
}

// cqe is struct io_uring_cqe.
type cqe struct {
	userData uint64
	res      int32
	flags    uint32
}

// The kernel fixes these sizes.
const (
	_ = uint(120 - unsafe.Sizeof(ringParams{}))
	_ = uint(unsafe.Sizeof(ringParams{}) - 120)
	_ = uint(64 - unsafe.Sizeof(sqe{}))
	_ = uint(unsafe.Sizeof(sqe{}) - 64)
	_ = uint(16 - unsafe.Sizeof(cqe{}))
	_ = uint(unsafe.Sizeof(cqe{}) - 16)
)

// ring is an io_uring. push and flush are called by one goroutine at a time;
// so are pop and wait, by another.
type ring struct {
	fd              int
	queues, entries []byte // mappings
	sqHead, sqTail  *uint32
	sqMask          uint32
	sqArray         []uint32
	sqes            []sqe
	cqHead, cqTail  *uint32
	cqMask          uint32
	cqes            []cqe
}

// newRing makes a ring for that many requests in flight.
func newRing(depth int) (_ *ring, err error) {
	var p ringParams
	fd, _, errno := unix.Syscall(unix.SYS_IO_URING_SETUP, uintptr(depth), uintptr(unsafe.Pointer(&p)), 0)
	switch errno {
	case 0:
	case unix.ENOSYS:
		return nil, errors.New("the kernel has no io_uring")
	case unix.EPERM, unix.EACCES:
		return nil, fmt.Errorf("the system forbids io_uring (sysctl kernel.io_uring_disabled, or a seccomp filter such as a container's): %w", errno)
	default:
		return nil, fmt.Errorf("io_uring cannot be set up: %w", errno)
	}
	r := &ring{fd: int(fd)}
	unix.CloseOnExec(r.fd)
	defer func() {
		if err != nil {
			r.close()
		}
	}()
	if p.features&(ringFeatSingleMmap|ringFeatNoDrop) != ringFeatSingleMmap|ringFeatNoDrop {
		return nil, errors.New("the kernel's io_uring is too old: Linux 5.6 or later is needed")
	}
	if err := r.supports(ringOpRead, ringOpWrite); err != nil {
		return nil, err
	}
	size := max(p.sq.array+4*p.sqEntries, p.cq.dropped+p.cqEntries*uint32(unsafe.Sizeof(cqe{})))
	const prot, flags = unix.PROT_READ | unix.PROT_WRITE, unix.MAP_SHARED | unix.MAP_POPULATE
	if r.queues, err = unix.Mmap(r.fd, ringOffSQ, int(size), prot, flags); err != nil {
		return nil, fmt.Errorf("io_uring cannot be mapped: %w", err)
	}
	if r.entries, err = unix.Mmap(r.fd, ringOffSQEs, int(p.sqEntries)*int(unsafe.Sizeof(sqe{})), prot, flags); err != nil {
		return nil, fmt.Errorf("io_uring cannot be mapped: %w", err)
	}
	word := func(at uint32) *uint32 { return (*uint32)(unsafe.Pointer(&r.queues[at])) }
	r.sqHead, r.sqTail, r.sqMask = word(p.sq.head), word(p.sq.tail), *word(p.sq.ringMask)
	r.sqArray = unsafe.Slice(word(p.sq.array), p.sqEntries)
	r.sqes = unsafe.Slice((*sqe)(unsafe.Pointer(unsafe.SliceData(r.entries))), p.sqEntries)
	r.cqHead, r.cqTail, r.cqMask = word(p.cq.head), word(p.cq.tail), *word(p.cq.ringMask)
	r.cqes = unsafe.Slice((*cqe)(unsafe.Pointer(word(p.cq.dropped))), p.cqEntries)
	// One round trip: a filter may allow the set-up and forbid the use.
	r.push(sqe{opcode: ringOpNop})
	if err := r.flush(); err != nil {
		return nil, fmt.Errorf("io_uring cannot be used: %w", err)
	}
	for {
		if _, ok := r.pop(); ok {
			return r, nil
		}
		if err := r.wait(); err != nil {
			return nil, fmt.Errorf("io_uring cannot be used: %w", err)
		}
	}
}

// supports asks the kernel for operations.
func (r *ring) supports(ops ...int) error {
	var probe struct {
		last, length uint8
		_            uint16
		_            [3]uint32
		ops          [256]struct {
			op, _ uint8
			flags uint16
			_     uint32
		}
	}
	_, _, errno := unix.Syscall6(unix.SYS_IO_URING_REGISTER, uintptr(r.fd), ringRegisterProbe, uintptr(unsafe.Pointer(&probe)), 256, 0, 0)
	if errno != 0 {
		return fmt.Errorf("io_uring does not tell what it can do: %w", errno)
	}
	for _, op := range ops {
		if probe.ops[op].flags&ringOpSupported == 0 {
			return fmt.Errorf("the kernel's io_uring lacks operation %d", op)
		}
	}
	return nil
}

// push appends a submission, which flush hands to the kernel. There is room for
// as many as the ring was made for between two calls of flush.
func (r *ring) push(e sqe) {
	tail := *r.sqTail
	if tail-atomic.LoadUint32(r.sqHead) >= uint32(len(r.sqes)) {
		panic("storage: more submissions than the ring has entries")
	}
	i := tail & r.sqMask
	r.sqes[i] = e
	r.sqArray[i] = i
	atomic.StoreUint32(r.sqTail, tail+1)
}

// flush hands over what was pushed.
func (r *ring) flush() error {
	for {
		n := *r.sqTail - atomic.LoadUint32(r.sqHead)
		if n == 0 {
			return nil
		}
		_, _, errno := unix.Syscall6(unix.SYS_IO_URING_ENTER, uintptr(r.fd), uintptr(n), 0, 0, 0, 0)
		switch errno {
		case 0, unix.EINTR:
		case unix.EAGAIN, unix.EBUSY: // the kernel is short of memory for requests
			unix.Nanosleep(&unix.Timespec{Nsec: int64(againPause)}, nil)
		default:
			return errno
		}
	}
}

// pop takes a completion, if there is one.
func (r *ring) pop() (cqe, bool) {
	head := *r.cqHead
	if head == atomic.LoadUint32(r.cqTail) {
		return cqe{}, false
	}
	c := r.cqes[head&r.cqMask]
	atomic.StoreUint32(r.cqHead, head+1)
	return c, true
}

// wait returns when there may be a completion.
func (r *ring) wait() error {
	_, _, errno := unix.Syscall6(unix.SYS_IO_URING_ENTER, uintptr(r.fd), 0, 1, ringEnterGetEvents, 0, 0)
	switch errno {
	case 0, unix.EINTR, unix.EAGAIN, unix.EBUSY:
		return nil
	}
	return errno
}

func (r *ring) close() {
	for _, m := range [][]byte{r.entries, r.queues} {
		if m == nil {
			continue
		}
		if err := unix.Munmap(m); err != nil {
			panic("storage: a ring cannot be unmapped: " + err.Error())
		}
	}
	unix.Close(r.fd)
}

// RingRefusal returns why io_uring cannot be used in this process, nil where it
// can.
var RingRefusal = sync.OnceValue(func() error {
	r, err := newRing(1)
	if err == nil {
		r.close()
	}
	return err
})
