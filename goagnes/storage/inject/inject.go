// Package inject makes a file system slower than it is, fail on purpose, or lose
// what a loss of power would: for tests of what must hold on other devices, and
// for measurements. A FS stands
// between storage's engines and another storage.FS; all of them pass through
// it, whether they read by descriptor or not.
//
// A transfer is delayed as a device delays it: transfers in flight together
// take their latency together, and share the bandwidth of their directory one
// after another. The delay keeps a transfer's place in the queue. A transfer
// takes at least what the underlying file system takes.
//
// A Recorder keeps the changes of files and names in their order and tells what a
// loss of power leaves of them.
//
// Nothing here changes what is read or written, but where a test asks for it:
// Options.Answer and Options.Data.
package inject

import (
	"io/fs"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/goagnes/goagnes/goagnes/storage"
)

// Options say what is injected; the zero value injects nothing.
type Options struct {
	ReadLatency  time.Duration // added to every read
	WriteLatency time.Duration // added to every write
	Bandwidth    int64         // bytes a second that the files of one directory move, reads and writes together; 0 = no limit

	// RefuseDirect makes opening with O_DIRECT fail with EINVAL, as file systems
	// without direct I/O do.
	RefuseDirect bool
	// Magic is what Statfs tells as the kind of file system, for instance
	// unix.TMPFS_MAGIC; 0 = the truth.
	Magic int64
	// Fail is asked before every operation; an error makes the operation fail
	// with it. It must be safe for use by several goroutines; nil = never.
	Fail func(op Op) error
	// Answer is told what the device has answered to a read or write and returns
	// the answer that counts: fewer bytes, another error. Of a read that is cut
	// short, the memory behind the bytes that count is overwritten. It must be safe
	// for use by several goroutines and not block; nil = the truth.
	Answer func(op Op, n int, err error) (int, error)
	// Data is shown the bytes of a write before the device gets them, which it leaves as
	// they are, and of a read when the device has answered, which it may alter. It must be
	// safe for use by several goroutines and not block; nil = nobody looks.
	Data func(op Op, b []byte)
	// Delay is added to the time that a read or write takes; nil = none.
	Delay func(op Op) time.Duration
}

// Op names an operation that is about to happen.
type Op struct {
	Name   string // "open", "mkdir", "rename", "remove", "removeall", "syncdir", "writable", "read", "write", "sync", "truncate", "allocate"
	Path   string
	Offset int64 // of a read or write, else 0
	Bytes  int   // likewise
}

// FS is a file system with injected faults. Its options may be changed by Set
// while files are open.
type FS struct {
	storage.FS

	mu struct {
		sync.Mutex
		options Options
		busy    map[string]time.Time // by directory: until when its device is busy
	}
}

// New returns a file system over base, nil for the operating system's.
func New(base storage.FS, o Options) *FS {
	if base == nil {
		base = storage.OS
	}
	f := &FS{FS: base}
	f.mu.busy = map[string]time.Time{}
	f.Set(o)
	return f
}

// Set changes what is injected from now on.
func (f *FS) Set(o Options) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.mu.options = o
}

func (f *FS) options() Options {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.mu.options
}

func (f *FS) fail(op Op) error {
	if fail := f.options().Fail; fail != nil {
		return fail(op)
	}
	return nil
}

// until reserves the device of a directory for a transfer that begins now and
// returns when it may end.
func (f *FS) until(dir string, write bool, n int) time.Time {
	f.mu.Lock()
	defer f.mu.Unlock()
	o := &f.mu.options
	latency := o.ReadLatency
	if write {
		latency = o.WriteLatency
	}
	if latency <= 0 && o.Bandwidth <= 0 {
		return time.Time{}
	}
	end := time.Now()
	if o.Bandwidth > 0 {
		if busy := f.mu.busy[dir]; busy.After(end) {
			end = busy
		}
		end = end.Add(time.Duration(float64(n) / float64(o.Bandwidth) * float64(time.Second)))
		f.mu.busy[dir] = end
	}
	return end.Add(latency)
}

// OpenFile implements storage.FS.
func (f *FS) OpenFile(path string, flags int, perm fs.FileMode) (storage.Handle, error) {
	if err := f.fail(Op{Name: "open", Path: path}); err != nil {
		return nil, &fs.PathError{Op: "open", Path: path, Err: err}
	}
	if flags&unix.O_DIRECT != 0 && f.options().RefuseDirect {
		return nil, &fs.PathError{Op: "open", Path: path, Err: unix.EINVAL}
	}
	h, err := f.FS.OpenFile(path, flags, perm)
	if err != nil {
		return nil, err
	}
	w, _ := h.(storage.Watcher)
	return &handle{Handle: h, below: w, fs: f, path: path, dir: filepath.Dir(path)}, nil
}

// Mkdir implements storage.FS.
func (f *FS) Mkdir(path string, perm fs.FileMode) error {
	if err := f.fail(Op{Name: "mkdir", Path: path}); err != nil {
		return &fs.PathError{Op: "mkdir", Path: path, Err: err}
	}
	return f.FS.Mkdir(path, perm)
}

// Rename implements storage.FS; the Op's path is the old name.
func (f *FS) Rename(from, to string, flags uint) error {
	if err := f.fail(Op{Name: "rename", Path: from}); err != nil {
		return &fs.PathError{Op: "rename", Path: from, Err: err}
	}
	return f.FS.Rename(from, to, flags)
}

// Remove implements storage.FS.
func (f *FS) Remove(path string) error {
	if err := f.fail(Op{Name: "remove", Path: path}); err != nil {
		return &fs.PathError{Op: "remove", Path: path, Err: err}
	}
	return f.FS.Remove(path)
}

// RemoveAll implements storage.FS.
func (f *FS) RemoveAll(path string) error {
	if err := f.fail(Op{Name: "removeall", Path: path}); err != nil {
		return &fs.PathError{Op: "removeall", Path: path, Err: err}
	}
	return f.FS.RemoveAll(path)
}

// Writable implements storage.FS.
func (f *FS) Writable(path string) error {
	if err := f.fail(Op{Name: "writable", Path: path}); err != nil {
		return &fs.PathError{Op: "write to", Path: path, Err: err}
	}
	return f.FS.Writable(path)
}

// SyncDir implements storage.FS.
func (f *FS) SyncDir(path string) error {
	if err := f.fail(Op{Name: "syncdir", Path: path}); err != nil {
		return &fs.PathError{Op: "sync", Path: path, Err: err}
	}
	return f.FS.SyncDir(path)
}

// Statfs implements storage.FS.
func (f *FS) Statfs(path string) (unix.Statfs_t, error) {
	st, err := f.FS.Statfs(path)
	if magic := f.options().Magic; magic != 0 {
		st.Type = magic
	}
	return st, err
}

// handle is an open file whose transfers are watched.
type handle struct {
	storage.Handle
	below     storage.Watcher // the handle's own, nil where it has none
	fs        *FS
	path, dir string
}

// Begin implements storage.Watcher.
func (h *handle) Begin(t storage.Transfer) (time.Time, error) {
	op := h.op(t)
	if err := h.fs.fail(op); err != nil {
		return time.Time{}, err
	}
	if data := h.fs.options().Data; data != nil && t.Write {
		data(op, t.Buf)
	}
	until := h.fs.until(h.dir, t.Write, len(t.Buf))
	if delay := h.fs.options().Delay; delay != nil {
		if d := delay(op); d > 0 && until.IsZero() {
			until = time.Now().Add(d)
		} else if d > 0 {
			until = until.Add(d)
		}
	}
	if h.below != nil {
		below, err := h.below.Begin(t)
		if err != nil {
			return time.Time{}, err
		}
		if below.After(until) {
			until = below
		}
	}
	return until, nil
}

// End implements storage.Watcher.
func (h *handle) End(t storage.Transfer, n int, err error) (int, error) {
	if h.below != nil {
		n, err = h.below.End(t, n, err)
	}
	if data := h.fs.options().Data; data != nil && !t.Write && n > 0 {
		data(h.op(t), t.Buf[:n])
	}
	answer := h.fs.options().Answer
	if answer == nil {
		return n, err
	}
	moved := n
	n, err = answer(h.op(t), n, err)
	if !t.Write && n < moved {
		for i := max(n, 0); i < moved; i++ {
			t.Buf[i] = 0xa5
		}
	}
	return n, err
}

// op names a transfer.
func (h *handle) op(t storage.Transfer) Op {
	name := "read"
	if t.Write {
		name = "write"
	}
	return Op{Name: name, Path: h.path, Offset: t.Offset, Bytes: len(t.Buf)}
}

// Sync implements storage.Handle.
func (h *handle) Sync() error {
	if err := h.fs.fail(Op{Name: "sync", Path: h.path}); err != nil {
		return err
	}
	return h.Handle.Sync()
}

// Truncate implements storage.Handle.
func (h *handle) Truncate(size int64) error {
	if err := h.fs.fail(Op{Name: "truncate", Path: h.path}); err != nil {
		return err
	}
	return h.Handle.Truncate(size)
}

// Allocate implements storage.Handle.
func (h *handle) Allocate(size int64) error {
	if err := h.fs.fail(Op{Name: "allocate", Path: h.path}); err != nil {
		return err
	}
	return h.Handle.Allocate(size)
}
