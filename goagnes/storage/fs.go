package storage

// The file system under everything that this package, layout/build and export
// open: an interface small enough to stand a test double or a slow device in
// the way of every engine.

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// FS is the file system through which every file of a store, of scratch and of
// an export is reached; nil stands for OS wherever one is asked for. Errors are
// those of package os: errors.Is finds fs.ErrNotExist, unix.EINVAL and so on in
// them. Its methods may be called from several goroutines.
type FS interface {
	// OpenFile opens a file with the flags of open(2), among them unix.O_DIRECT,
	// which it may refuse with unix.EINVAL.
	OpenFile(path string, flags int, perm fs.FileMode) (Handle, error)
	// Mkdir makes a directory in one that exists.
	Mkdir(path string, perm fs.FileMode) error
	// Rename is renameat2(2): flags are 0, unix.RENAME_NOREPLACE or
	// unix.RENAME_EXCHANGE, the latter two refused with unix.EINVAL where the
	// file system lacks them.
	Rename(from, to string, flags uint) error
	// Remove removes a file or an empty directory.
	Remove(path string) error
	// RemoveAll removes a directory and what it holds; one that is not there is
	// no error.
	RemoveAll(path string) error
	// Stat describes a file, following symbolic links; Lstat the link itself.
	Stat(path string) (fs.FileInfo, error)
	Lstat(path string) (fs.FileInfo, error)
	// ReadDir lists a directory, sorted by name.
	ReadDir(path string) ([]fs.DirEntry, error)
	// Statfs tells the kind of file system and its free space.
	Statfs(path string) (unix.Statfs_t, error)
	// Writable tells whether names can be made in a directory: nil, or why not
	// (unix.EROFS, unix.EACCES and so on).
	Writable(path string) error
	// SyncDir makes the entries of a directory durable.
	SyncDir(path string) error
	// LockDir locks a directory until the lock is closed or the process ends;
	// nil where another holds the lock or the directory is no longer at its
	// place.
	LockDir(path string) (io.Closer, error)
}

// Handle is an open file of an FS. Its methods may be called from several
// goroutines, Close after all others have returned.
type Handle interface {
	// ReadAt and WriteAt are pread(2) and pwrite(2), with the contracts of
	// io.ReaderAt and io.WriterAt.
	io.ReaderAt
	io.WriterAt
	// Sync makes the file's contents and size durable.
	Sync() error
	// Truncate sets the file's size in bytes.
	Truncate(size int64) error
	// Allocate reserves space for the first size bytes and makes the file at
	// least that large; unix.EOPNOTSUPP where the file system cannot.
	Allocate(size int64) error
	// Size returns the file's size in bytes.
	Size() (int64, error)
	// Fd returns the descriptor of a file of the operating system, which an
	// engine may read and write without ReadAt and WriteAt; -1 makes every
	// engine use those.
	Fd() int
	Close() error
}

// Transfer is one positioned read or write as it goes to the device: one system
// call, or one entry of a ring.
type Transfer struct {
	Write  bool
	Offset int64
	Buf    []byte
}

// Watcher is what a Handle implements beside to stand between every engine and
// the device: to delay, to fail, to record. Each transfer is surrounded by a
// Begin and an End, whether it takes ReadAt, WriteAt or the descriptor.
type Watcher interface {
	// Begin is called before a transfer goes to the device. It has its place in
	// the queue until the time that Begin returns, however early the device
	// answers; the zero time is no delay. After an error the transfer neither
	// reaches the device nor End.
	Begin(t Transfer) (until time.Time, err error)
	// End is called when the transfer has its answer, and returns the one that
	// counts. It must not block.
	End(t Transfer, n int, err error) (int, error)
}

// OS is the operating system's own file system.
var OS FS = osFS{}

func orOS(fsys FS) FS {
	if fsys == nil {
		return OS
	}
	return fsys
}

type osFS struct{}

func (osFS) OpenFile(path string, flags int, perm fs.FileMode) (Handle, error) {
	f, err := os.OpenFile(path, flags, perm)
	if err != nil {
		return nil, err
	}
	return osFile{f, int(f.Fd())}, nil
}

func (osFS) Mkdir(path string, perm fs.FileMode) error  { return os.Mkdir(path, perm) }
func (osFS) Remove(path string) error                   { return os.Remove(path) }
func (osFS) RemoveAll(path string) error                { return os.RemoveAll(path) }
func (osFS) Stat(path string) (fs.FileInfo, error)      { return os.Stat(path) }
func (osFS) Lstat(path string) (fs.FileInfo, error)     { return os.Lstat(path) }
func (osFS) ReadDir(path string) ([]fs.DirEntry, error) { return os.ReadDir(path) }

func (osFS) Rename(from, to string, flags uint) error {
	if flags == 0 {
		return os.Rename(from, to)
	}
	err := unix.Renameat2(unix.AT_FDCWD, from, unix.AT_FDCWD, to, flags)
	if errors.Is(err, unix.ENOSYS) {
		err = unix.EINVAL
	}
	if err != nil {
		return &os.LinkError{Op: "rename", Old: from, New: to, Err: err}
	}
	return nil
}

func (osFS) Statfs(path string) (unix.Statfs_t, error) {
	var st unix.Statfs_t
	return st, retryInterrupted(func() error { return unix.Statfs(path, &st) })
}

func (osFS) Writable(path string) error {
	err := retryInterrupted(func() error {
		return unix.Faccessat(unix.AT_FDCWD, path, unix.W_OK|unix.X_OK, unix.AT_EACCESS)
	})
	if err != nil {
		return &os.PathError{Op: "write to", Path: path, Err: err}
	}
	return nil
}

func (osFS) SyncDir(path string) error {
	d, err := os.Open(filepath.Clean(path))
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}

func (osFS) LockDir(path string) (io.Closer, error) {
	d, err := os.OpenFile(path, os.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	err = retryInterrupted(func() error { return unix.Flock(int(d.Fd()), unix.LOCK_EX|unix.LOCK_NB) })
	if err == nil {
		var here, there os.FileInfo
		if here, err = d.Stat(); err == nil {
			there, err = os.Lstat(path)
			if err == nil && os.SameFile(here, there) {
				return d, nil
			}
		}
	}
	d.Close()
	if err == nil || errors.Is(err, unix.EWOULDBLOCK) || errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	return nil, err
}

// osFile is an open file of the operating system.
type osFile struct {
	*os.File
	fd int
}

func (f osFile) Fd() int { return f.fd }

func (f osFile) Size() (int64, error) {
	st, err := f.Stat()
	if err != nil {
		return 0, err
	}
	return st.Size(), nil
}

func (f osFile) Allocate(size int64) error {
	return retryInterrupted(func() error { return unix.Fallocate(f.fd, 0, 0, size) })
}

func retryInterrupted(do func() error) error {
	for {
		if err := do(); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}
