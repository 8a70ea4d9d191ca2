package storage

import (
	"errors"
	"io"
	"os"
	"path/filepath"
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
	file     *os.File
	role     role
	buffered bool        // on purpose
	direct   atomic.Bool // bypasses the page cache
	stripe   int         // 1 + its number among the parts of a striped file, 0 for others
	striped  *stripes    // parts, where the file is striped; file is nil then
}

// OpenFile opens a file past the page cache where the file system allows it.
func OpenFile(path string, flags Flags) (*File, error) {
	mode := os.O_RDONLY
	if flags.Write || flags.Create {
		mode = os.O_RDWR
	}
	if flags.Create {
		mode |= os.O_CREATE | os.O_EXCL
	}
	f := &File{path: path, buffered: flags.Buffered}
	if flags.Scratch {
		f.role = roleScratch
	}
	var err error
	if !flags.Buffered {
		f.file, err = directio.OpenFile(path, mode, 0o644)
		if err == nil && !alignsToPages(f.file) {
			err = dropDirect(f.file)
			if err != nil {
				f.file.Close()
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
		f.file, err = os.OpenFile(path, mode, 0o644)
	}
	if err != nil {
		return nil, f.fail("open", -1, err)
	}
	return f, nil
}

// alignsToPages asks statx whether direct I/O on the file works in units of a
// page. Kernels that do not know the question (before 6.1) leave the answer
// out; then a page is taken for enough, and transfer falls back if it is not.
func alignsToPages(file *os.File) bool {
	ok := true
	control(file, func(fd int) {
		var st unix.Statx_t
		if unix.Statx(fd, "", unix.AT_EMPTY_PATH, unix.STATX_DIOALIGN, &st) != nil || st.Mask&unix.STATX_DIOALIGN == 0 {
			return
		}
		fits := func(align uint32) bool { return align > 0 && align <= layout.PageSize }
		ok = fits(st.Dio_mem_align) && fits(st.Dio_offset_align)
	})
	return ok
}

// dropDirect turns direct I/O off for an open file.
func dropDirect(file *os.File) error {
	var err error
	cerr := control(file, func(fd int) {
		var fl int
		if fl, err = unix.FcntlInt(uintptr(fd), unix.F_GETFL, 0); err == nil {
			_, err = unix.FcntlInt(uintptr(fd), unix.F_SETFL, fl&^unix.O_DIRECT)
		}
	})
	return errors.Join(cerr, err)
}

// control runs do with the file's descriptor, which stays open meanwhile.
func control(file *os.File, do func(fd int)) error {
	c, err := file.SyscallConn()
	if err != nil {
		return err
	}
	return c.Control(func(fd uintptr) { do(int(fd)) })
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
	return &Error{Path: f.path, Offset: offset, Op: op, Err: err}
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
	done, again := 0, 0
	for done < len(b) {
		var n int
		var err error
		if write {
			n, err = f.file.WriteAt(b[done:], offset+int64(done))
		} else {
			n, err = f.file.ReadAt(b[done:], offset+int64(done))
		}
		done += n
		switch {
		case err == nil:
		case errors.Is(err, unix.EAGAIN) && again < againAttempts:
			again++
			done = done / layout.PageSize * layout.PageSize
			time.Sleep(againPause)
		case errors.Is(err, unix.EINVAL) && done%layout.PageSize != 0:
			// A short transfer ended inside a page and its rest is no longer
			// aligned: repeat the page.
			done = done / layout.PageSize * layout.PageSize
			if again++; again > againAttempts {
				return done, f.fail(opName(write), offset+int64(done), err)
			}
		case errors.Is(err, unix.EINVAL) && f.direct.Load():
			// The file system took O_DIRECT at open and refuses it now.
			if derr := dropDirect(f.file); derr != nil {
				return done, f.fail(opName(write), offset+int64(done), err)
			}
			f.direct.Store(false)
		case err == io.EOF:
			f.forget(offset, int64(done))
			return done, io.EOF
		default:
			return done, f.fail(opName(write), offset+int64(done), err)
		}
	}
	if !write {
		f.forget(offset, int64(done))
	}
	return done, nil
}

func opName(write bool) string {
	if write {
		return "write"
	}
	return "read"
}

// forget drops a range from the page cache where direct I/O was refused.
func (f *File) forget(offset, n int64) {
	if f.fellBack() && n > 0 {
		// Advice: a failure only leaves pages cached.
		_ = control(f.file, func(fd int) { _ = unix.Fadvise(fd, offset, n, unix.FADV_DONTNEED) })
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

// WriteAt is io.WriterAt for page-aligned memory, offset and length; it panics
// on others. No pool counts it.
func (f *File) WriteAt(b []byte, offset int64) (int, error) {
	if !aligned(b, offset) {
		panic("storage: File.WriteAt of memory that is not page-aligned")
	}
	return f.transfer(b, offset, true)
}

// Size returns the file's size in bytes.
func (f *File) Size() (int64, error) {
	if f.striped != nil {
		return f.striped.size()
	}
	st, err := f.file.Stat()
	if err != nil {
		return 0, f.fail("stat", -1, err)
	}
	return st.Size(), nil
}

// Sync makes what was written durable.
func (f *File) Sync() error {
	if f.striped != nil {
		return f.striped.all(0, func(part *File, _ int64) error { return part.Sync() })
	}
	if err := f.file.Sync(); err != nil {
		return f.fail("sync", -1, err)
	}
	if f.fellBack() {
		_ = control(f.file, func(fd int) { _ = unix.Fadvise(fd, 0, 0, unix.FADV_DONTNEED) })
	}
	return nil
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
	var err error
	for {
		cerr := control(f.file, func(fd int) { err = unix.Fallocate(fd, 0, 0, n) })
		if err = errors.Join(cerr, err); !errors.Is(err, unix.EINTR) {
			break
		}
	}
	if errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.ENOSYS) {
		return f.Truncate(n)
	}
	return f.fail("allocate", -1, err)
}

// Truncate sets the file's size in bytes.
func (f *File) Truncate(n int64) error {
	if f.striped != nil {
		return f.striped.all(n, (*File).Truncate)
	}
	return f.fail("truncate", -1, f.file.Truncate(n))
}

// Close closes the file; requests at the device end first.
func (f *File) Close() error {
	if f.striped != nil {
		return f.striped.all(0, func(part *File, _ int64) error { return part.Close() })
	}
	return f.fail("close", -1, f.file.Close())
}

// remove removes the file's names; it may be open.
func (f *File) remove() error {
	if f.striped != nil {
		return f.striped.all(0, func(part *File, _ int64) error { return part.remove() })
	}
	if err := os.Remove(f.path); err != nil && !errors.Is(err, os.ErrNotExist) {
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

// SyncDir makes the entries of a directory durable.
func SyncDir(dir string) error {
	d, err := os.Open(filepath.Clean(dir))
	if err != nil {
		return (&File{path: dir}).fail("open", -1, err)
	}
	defer d.Close()
	return (&File{path: dir}).fail("sync", -1, d.Sync())
}

func roundUpPage(n int64) int64 { return (n + layout.PageSize - 1) / layout.PageSize * layout.PageSize }
