package storage

import (
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/ncw/directio"
	"golang.org/x/sys/unix"

	"github.com/goagnes/goagnes/layout"
)

// Flags say how OpenFile opens a file; the zero value opens an existing one
// for direct reading.
type Flags struct {
	Write    bool // for reading and writing
	Create   bool // make the file, which must not exist yet; implies Write
	Scratch  bool // counted as scratch
	Buffered bool // through the page cache on purpose
}

// role tells which of the pool's counters a file belongs to.
type role uint8

const (
	roleData role = iota
	roleScratch
	roleChecksum
)

// File is an open file. Its methods may be called from several goroutines.
type File struct {
	path     string
	fsys     FS
	handle   Handle
	watcher  Watcher // nil: nobody watches
	role     role
	key      uint64      // of scratch: in the seals of its units
	buffered bool        // on purpose
	direct   atomic.Bool // bypasses the page cache
	stripe   int         // 1 + its number among the parts of a striped file, 0 for others
	striped  *stripes    // parts, where the file is striped; file is nil then

	mu struct {
		sync.Mutex
		users  int // transfers under way
		closed bool
		idle   chan struct{} // closed when the last user of a closed file leaves
	}
}

// OpenFile opens a file past the page cache where the file system allows it;
// fsys nil is OS.
func OpenFile(fsys FS, path string, flags Flags) (*File, error) {
	mode := os.O_RDONLY
	if flags.Write || flags.Create {
		mode = os.O_RDWR
	}
	if flags.Create {
		mode |= os.O_CREATE | os.O_EXCL
	}
	f := &File{path: path, fsys: orOS(fsys), buffered: flags.Buffered}
	if flags.Scratch {
		f.role, f.key = roleScratch, rand.Uint64()
	}
	var err error
	if !flags.Buffered {
		f.handle, err = f.fsys.OpenFile(path, mode|unix.O_DIRECT, 0o644)
		if err == nil && !alignsToPages(f.handle) {
			err = dropDirect(f.handle)
			if err != nil {
				f.handle.Close()
			}
		} else if err == nil {
			f.direct.Store(true)
		}
	}
	// A file system without direct I/O refuses it with EINVAL, some after the
	// file has been made: the second attempt must not insist on making it.
	if flags.Buffered || errors.Is(err, unix.EINVAL) {
		if !flags.Buffered {
			mode &^= os.O_EXCL
		}
		f.handle, err = f.fsys.OpenFile(path, mode, 0o644)
	}
	if err != nil {
		return nil, f.fail("open", -1, err)
	}
	f.watcher, _ = f.handle.(Watcher)
	return f, nil
}

// alignsToPages asks statx whether direct I/O on the file works in units of a
// page. Kernels that do not know the question (before 6.1) leave the answer
// out; then a page is taken for enough, and transfers fall back if it is not.
func alignsToPages(h Handle) bool {
	var st unix.Statx_t
	if h.Fd() < 0 || unix.Statx(h.Fd(), "", unix.AT_EMPTY_PATH, unix.STATX_DIOALIGN, &st) != nil || st.Mask&unix.STATX_DIOALIGN == 0 {
		return true
	}
	fits := func(align uint32) bool { return align > 0 && align <= layout.PageSize }
	return fits(st.Dio_mem_align) && fits(st.Dio_offset_align)
}

// dropDirect turns direct I/O off for an open file.
func dropDirect(h Handle) error {
	if h.Fd() < 0 {
		return unix.EINVAL
	}
	fl, err := unix.FcntlInt(uintptr(h.Fd()), unix.F_GETFL, 0)
	if err == nil {
		_, err = unix.FcntlInt(uintptr(h.Fd()), unix.F_SETFL, fl&^unix.O_DIRECT)
	}
	return err
}

// enter keeps the handle open until leave; false after Close.
func (f *File) enter() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.mu.closed {
		return false
	}
	f.mu.users++
	return true
}

func (f *File) leave() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.mu.users--; f.mu.users == 0 && f.mu.closed {
		close(f.mu.idle)
	}
}

// using runs do while the handle is open.
func (f *File) using(op string, do func() error) error {
	if !f.enter() {
		return f.fail(op, -1, ErrClosed)
	}
	defer f.leave()
	return f.fail(op, -1, do())
}

func (f *File) fail(op string, offset int64, err error) error {
	if err == nil {
		return nil
	}
	if errors.Is(err, os.ErrClosed) {
		err = ErrClosed
	}
	var p *os.PathError
	if errors.As(err, &p) { // the path is in Error already
		err = p.Err
	}
	return &Error{Path: f.path, Offset: offset, Block: -1, Op: op, Err: err}
}

// Name returns the path by which the file was opened.
func (f *File) Name() string { return f.path }

// Direct reports whether the file's I/O bypasses the page cache.
func (f *File) Direct() bool {
	if f.striped != nil {
		return !slices.ContainsFunc(f.striped.parts, func(part *File) bool { return !part.Direct() })
	}
	return f.direct.Load()
}

func (f *File) fellBack() bool { return !f.buffered && !f.Direct() }

// aligned reports whether b and offset can be given to a direct transfer.
func aligned(b []byte, offset int64) bool {
	const mask = layout.PageSize - 1
	return len(b)&mask == 0 && offset&mask == 0 && uintptr(unsafe.Pointer(unsafe.SliceData(b)))&mask == 0
}

// How long a transfer that the system asks to repeat is repeated.
const (
	againAttempts = 200
	againPause    = 5 * time.Millisecond
)

// transfer reads or writes all of b, which must be aligned. At the end of the
// file a read returns what there is and io.EOF. Interrupted, short and refused
// (EAGAIN) transfers are continued.
func (f *File) transfer(b []byte, offset int64, write bool) (int, error) {
	if f.striped != nil {
		return f.striped.transfer(b, offset, write)
	}
	if !f.enter() {
		return 0, f.fail(opName(write), offset, ErrClosed)
	}
	defer f.leave()
	s := steps{file: f, buf: b, offset: offset, write: write}
	for {
		more, pause, err := s.advance(f.step(s.next()))
		if !more {
			return s.done, err
		}
		if pause > 0 {
			time.Sleep(pause)
		}
	}
}

// step is one transfer by ReadAt or WriteAt.
func (f *File) step(t Transfer) (n int, err error) {
	until := time.Time{}
	if f.watcher != nil {
		if until, err = f.watcher.Begin(t); err != nil {
			return 0, err
		}
	}
	if t.Write {
		n, err = f.handle.WriteAt(t.Buf, t.Offset)
	} else {
		n, err = f.handle.ReadAt(t.Buf, t.Offset)
	}
	if !until.IsZero() {
		time.Sleep(time.Until(until))
	}
	if f.watcher != nil {
		n, err = f.watcher.End(t, n, err)
	}
	return n, err
}

// steps are the transfers that a request takes: one, unless it is cut short,
// interrupted or refused for now. The engines share its rules.
type steps struct {
	file   *File
	buf    []byte
	offset int64
	write  bool
	done   int // bytes
	again  int // steps that were repeated
}

// next returns the transfer that is due.
func (s *steps) next() Transfer {
	return Transfer{Write: s.write, Offset: s.offset + int64(s.done), Buf: s.buf[s.done:]}
}

// advance takes the outcome of a step. With more, next is due after the pause;
// else the request has ended, with err. The end of a file is io.EOF.
func (s *steps) advance(n int, err error) (more bool, pause time.Duration, failed error) {
	f := s.file
	s.done += n
	if s.done >= len(s.buf) {
		if !s.write {
			f.forget(s.offset, int64(s.done))
		}
		return false, 0, nil
	}
	switch {
	case err == nil && n > 0, errors.Is(err, unix.EINTR):
		return true, 0, nil
	case err == nil && s.write:
		err = io.ErrShortWrite
	case err == nil, err == io.EOF:
		f.forget(s.offset, int64(s.done))
		return false, 0, io.EOF
	case errors.Is(err, unix.EAGAIN) && s.again < againAttempts:
		s.again++
		s.done = s.done / layout.PageSize * layout.PageSize
		return true, againPause, nil
	case errors.Is(err, unix.EINVAL) && s.done%layout.PageSize != 0 && s.again < againAttempts:
		// A short transfer ended inside a page and its rest is no longer
		// aligned: repeat the page.
		s.again++
		s.done = s.done / layout.PageSize * layout.PageSize
		return true, 0, nil
	case errors.Is(err, unix.EINVAL) && f.direct.Load():
		// The file system took O_DIRECT at open and refuses it now.
		if dropDirect(f.handle) == nil {
			f.direct.Store(false)
			return true, 0, nil
		}
	}
	return false, 0, f.fail(opName(s.write), s.offset+int64(s.done), err)
}

func opName(write bool) string {
	if write {
		return "write"
	}
	return "read"
}

// forget drops a range from the page cache where direct I/O was refused.
func (f *File) forget(offset, n int64) {
	if f.fellBack() && n > 0 && f.handle.Fd() >= 0 {
		// Advice: a failure only leaves pages cached.
		_ = unix.Fadvise(f.handle.Fd(), offset, n, unix.FADV_DONTNEED)
	}
}

const bounceBytes = 256 << 10

// bounce lends aligned memory to transfers whose own is not.
var bounce = sync.Pool{New: func() any { b := AlignedBytes(bounceBytes); return &b }}

// ReadAt is io.ReaderAt over any range; what is not page-aligned is read
// through a borrowed aligned buffer. No pool counts it.
func (f *File) ReadAt(b []byte, offset int64) (int, error) {
	if offset < 0 {
		return 0, f.fail("read", -1, errors.New("negative offset"))
	}
	if len(b) == 0 {
		return 0, nil
	}
	if aligned(b, offset) || !f.Direct() {
		return f.transfer(b, offset, false)
	}
	p := bounce.Get().(*[]byte)
	defer bounce.Put(p)
	done := 0
	for done < len(b) {
		at := offset + int64(done)
		skip := int(at % layout.PageSize)
		want := min(roundUpPage(int64(skip+len(b)-done)), bounceBytes)
		n, err := f.transfer((*p)[:want], at-int64(skip), false)
		if err != nil && err != io.EOF {
			return done, err
		}
		done += copy(b[done:], (*p)[min(skip, n):n])
		if err == io.EOF && done < len(b) {
			return done, io.EOF
		}
	}
	return done, nil
}

// WriteAt is io.WriterAt for page-aligned memory, offset and length, and for any
// where the file is buffered on purpose; it panics on others. No pool counts it.
func (f *File) WriteAt(b []byte, offset int64) (int, error) {
	if !f.buffered && !aligned(b, offset) {
		panic("storage: File.WriteAt of memory that is not page-aligned")
	}
	return f.transfer(b, offset, true)
}

// Size returns the file's size in bytes.
func (f *File) Size() (n int64, err error) {
	if f.striped != nil {
		return f.striped.size()
	}
	err = f.using("stat", func() error {
		n, err = f.handle.Size()
		return err
	})
	return n, err
}

// Sync makes what was written durable.
func (f *File) Sync() error {
	if f.striped != nil {
		return f.striped.all(0, func(part *File, _ int64) error { return part.Sync() })
	}
	return f.using("sync", func() error {
		if err := f.handle.Sync(); err != nil {
			return err
		}
		if f.fellBack() && f.handle.Fd() >= 0 {
			_ = unix.Fadvise(f.handle.Fd(), 0, 0, unix.FADV_DONTNEED)
		}
		return nil
	})
}

// Preallocate makes the file n bytes large with its space reserved, so that
// writing within it cannot run out of space. Where the file system cannot
// reserve, it only sets the size.
func (f *File) Preallocate(n int64) error {
	if n == 0 {
		return nil
	}
	if f.striped != nil {
		return f.striped.all(n, (*File).Preallocate)
	}
	return f.using("allocate", func() error {
		err := f.handle.Allocate(n)
		if errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.ENOSYS) {
			return f.handle.Truncate(n)
		}
		return err
	})
}

// Truncate sets the file's size in bytes.
func (f *File) Truncate(n int64) error {
	if f.striped != nil {
		return f.striped.all(n, (*File).Truncate)
	}
	return f.using("truncate", func() error { return f.handle.Truncate(n) })
}

// Close waits for transfers under way and closes the file; requests that come
// later end with ErrClosed, and so does a second Close.
func (f *File) Close() error {
	if f.striped != nil {
		return f.striped.all(0, func(part *File, _ int64) error { return part.Close() })
	}
	f.mu.Lock()
	if f.mu.closed {
		f.mu.Unlock()
		return f.fail("close", -1, ErrClosed)
	}
	f.mu.closed = true
	f.mu.idle = make(chan struct{})
	if f.mu.users == 0 {
		close(f.mu.idle)
	}
	f.mu.Unlock()
	<-f.mu.idle
	return f.fail("close", -1, f.handle.Close())
}

// remove removes the file's names; it may be open.
func (f *File) remove() error {
	if f.striped != nil {
		return f.striped.all(0, func(part *File, _ int64) error { return part.remove() })
	}
	if err := f.fsys.Remove(f.path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return f.fail("remove", -1, err)
	}
	return nil
}

// AlignedBytes returns n bytes of the Go heap, page-aligned.
func AlignedBytes(n int) []byte {
	if n == 0 {
		return []byte{}
	}
	return directio.AlignedBlock(n)
}

func roundUpPage(n int64) int64 { return (n + layout.PageSize - 1) / layout.PageSize * layout.PageSize }
