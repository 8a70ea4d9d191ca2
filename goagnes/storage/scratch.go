package storage

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// Scratch is a folder of temporary files under a limit. The folder is locked
// while its owner lives; a folder whose lock is free was left by a process
// that was killed, and the next Scratch in the same parent removes it.
//
// With several parents it has a folder in each, and its files are striped over
// them.
type Scratch struct {
	fsys  FS
	dirs  []string
	locks []io.Closer // of the folders
	inRAM bool        // a file system among them keeps files in memory
	limit *ScratchLimit

	mu struct {
		sync.Mutex
		files  map[*File]int64 // bytes charged
		used   int64
		peak   int64
		closed bool
		memory func(used int64) error // see CountMemory
	}
}

// scratchUnit is the unit of files striped over several folders.
const scratchUnit = 256 << 10

const scratchPrefix = "goagnes-scratch-"

var scratchName = regexp.MustCompile(`^` + scratchPrefix + `[0-9]+-[0-9a-f]{16}$`)

// ScratchLimit bounds the bytes of the files of every Scratch that is opened
// with it, together.
type ScratchLimit struct {
	mu struct {
		sync.Mutex
		most int64 // 0 until the first Scratch is opened, where half of the free space is meant
		used int64
	}
}

// NewScratchLimit returns a limit of so many bytes; 0 = half of the space that is
// free when the first Scratch is opened with it, where files can be as large as
// the fullest of several parents allows.
func NewScratchLimit(most int64) *ScratchLimit {
	l := &ScratchLimit{}
	l.mu.most = max(most, 0)
	return l
}

// settle makes half of the free space the limit where none was given.
func (l *ScratchLimit) settle(half int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.mu.most == 0 {
		l.mu.most = max(half, 1)
	}
}

// use adds n bytes, which may be negative; false where the limit is reached.
func (l *ScratchLimit) use(n int64) (used, most int64, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	used, most = l.mu.used, l.mu.most
	if n > most-used {
		return used, most, false
	}
	l.mu.used += n
	return used, most, true
}

// OpenScratch makes a scratch folder in each of the parents, which must exist,
// under a limit of its own: see NewScratchLimit. fsys nil is OS.
func OpenScratch(fsys FS, parents []string, limit int64) (*Scratch, error) {
	return OpenScratchWithin(fsys, parents, NewScratchLimit(limit))
}

// OpenScratchWithin is OpenScratch under a limit that others share.
func OpenScratchWithin(fsys FS, parents []string, limit *ScratchLimit) (*Scratch, error) {
	if len(parents) == 0 {
		panic("storage: a scratch folder without a parent")
	}
	fsys = orOS(fsys)
	s := &Scratch{fsys: fsys, limit: limit}
	s.mu.files = map[*File]int64{}
	half := int64(-1)
	for _, parent := range parents {
		RemoveAbandoned(fsys, []string{parent})
		st, err := fsys.Statfs(parent)
		if err != nil {
			return nil, (&File{path: parent}).fail("find room for a scratch folder in", -1, err)
		}
		s.inRAM = s.inRAM || st.Type == unix.TMPFS_MAGIC || st.Type == unix.RAMFS_MAGIC
		if free := int64(st.Bavail) * int64(st.Bsize) / 2; half < 0 || free < half {
			half = free
		}
	}
	limit.settle(half * int64(len(parents)))
	for _, parent := range parents {
		dir, lock, err := makeScratch(fsys, parent)
		if err != nil {
			return nil, errors.Join(err, s.Close())
		}
		s.dirs, s.locks = append(s.dirs, dir), append(s.locks, lock)
	}
	return s, nil
}

// makeScratch makes one folder and locks it.
func makeScratch(fsys FS, parent string) (string, io.Closer, error) {
	at := &File{path: parent}
	for {
		var random [8]byte
		rand.Read(random[:]) // never fails
		dir := filepath.Join(parent, fmt.Sprintf("%s%d-%s", scratchPrefix, os.Getpid(), hex.EncodeToString(random[:])))
		if err := fsys.Mkdir(dir, 0o700); err != nil {
			return "", nil, at.fail("make a scratch folder in", -1, err)
		}
		lock, err := fsys.LockDir(dir)
		if err != nil {
			return "", nil, errors.Join((&File{path: dir}).fail("lock", -1, err), fsys.Remove(dir))
		}
		// Another process may have taken the folder for an abandoned one
		// between its making and its locking: then take another.
		if lock != nil {
			return dir, lock, nil
		}
	}
}

// RemoveAbandoned removes the scratch folders in the parents whose lock is free, as
// opening one there does. Failing to is no error: the folder may be another user's.
func RemoveAbandoned(fsys FS, parents []string) {
	fsys = orOS(fsys)
	for _, parent := range parents {
		entries, err := fsys.ReadDir(parent)
		if err != nil {
			continue
		}
		for _, e := range entries {
			if !e.IsDir() || !scratchName.MatchString(e.Name()) {
				continue
			}
			dir := filepath.Join(parent, e.Name())
			if lock, err := fsys.LockDir(dir); err == nil && lock != nil {
				fsys.RemoveAll(dir)
				lock.Close()
			}
		}
	}
}

// Dir returns the folder, the first where there are several.
func (s *Scratch) Dir() string { return s.dirs[0] }

// InMemory reports whether the folder lies on a file system that keeps files in
// memory (tmpfs, ramfs): then they count against a memory budget.
func (s *Scratch) InMemory() bool { return s.inRAM }

// CountMemory has resize called with the bytes of all files before they grow and
// after they shrink, one call at a time; an error refuses the growth.
func (s *Scratch) CountMemory(resize func(used int64) error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.memory = resize
}

// useLocked sets the bytes of all files, of which the limit knows.
func (s *Scratch) useLocked(n int64) error {
	if s.mu.memory != nil {
		if err := s.mu.memory(n); err != nil && n > s.mu.used {
			return fmt.Errorf("%s lies in memory (tmpfs), so that scratch there counts against the memory budget; set scratch=DIR to a folder on a disk: %w", s.Dir(), err)
		}
	}
	s.mu.used = n
	s.mu.peak = max(s.mu.peak, n)
	return nil
}

// Limit returns the bytes that all files together may have, also those of others
// that share the limit.
func (s *Scratch) Limit() int64 {
	s.limit.mu.Lock()
	defer s.limit.mu.Unlock()
	return s.limit.mu.most
}

// Used returns the bytes of all files.
func (s *Scratch) Used() int64 { s.mu.Lock(); defer s.mu.Unlock(); return s.mu.used }

// Peak returns the most bytes that were used at one time.
func (s *Scratch) Peak() int64 { s.mu.Lock(); defer s.mu.Unlock(); return s.mu.peak }

// Create makes a file of size bytes, rounded up to a page, with its space
// reserved. The name must be free and no path. A *ScratchError says that the
// limit is reached.
func (s *Scratch) Create(name string, size int64) (*File, error) {
	if name == "" || name == "." || name == ".." || strings.ContainsRune(name, filepath.Separator) || size < 0 {
		panic(fmt.Sprintf("storage: scratch file %q of %d bytes", name, size))
	}
	size = roundUpPage(size)
	if err := s.charge(size); err != nil {
		return nil, err
	}
	var f *File
	var err error
	if flags := (Flags{Create: true, Scratch: true}); len(s.dirs) == 1 {
		f, err = OpenFile(s.fsys, filepath.Join(s.dirs[0], name), flags)
	} else {
		f, err = OpenStriped(s.fsys, s.dirs, name, scratchUnit, flags)
	}
	if err != nil {
		s.credit(size)
		return nil, err
	}
	if err := f.Preallocate(size); err != nil {
		f.Close()
		f.remove()
		s.credit(size)
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.closed { // Close has removed the folder meanwhile
		f.Close()
		return nil, f.fail("create", -1, ErrClosed)
	}
	s.mu.files[f] = size
	return f, nil
}

// Extend makes a file size bytes large, rounded up to a page; it never
// shrinks one.
func (s *Scratch) Extend(f *File, size int64) error {
	size = roundUpPage(size)
	s.mu.Lock()
	old, ok := s.mu.files[f]
	var err error
	switch {
	case !ok:
		err = f.fail("extend", -1, ErrClosed)
	case size > old:
		if err = s.chargeLocked(size - old); err == nil {
			s.mu.files[f] = size
		}
	}
	s.mu.Unlock()
	if err != nil || size <= old {
		return err
	}
	if err = f.Preallocate(size); err != nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.creditLocked(size - old)
		if _, ok := s.mu.files[f]; ok {
			s.mu.files[f] -= size - old
		}
	}
	return err
}

// Remove closes and removes a file of this scratch folder.
func (s *Scratch) Remove(f *File) error {
	s.mu.Lock()
	size, ok := s.mu.files[f]
	delete(s.mu.files, f)
	s.mu.Unlock()
	if !ok {
		return nil
	}
	err := errors.Join(f.Close(), f.remove())
	s.credit(size)
	return err
}

func (s *Scratch) charge(n int64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.chargeLocked(n)
}

func (s *Scratch) chargeLocked(n int64) error {
	if s.mu.closed {
		return (&File{path: s.Dir()}).fail("create a file in", -1, ErrClosed)
	}
	if used, most, ok := s.limit.use(n); !ok {
		return &ScratchError{Dir: s.Dir(), Need: n, Used: used, Limit: most}
	}
	err := s.useLocked(s.mu.used + n)
	if err != nil {
		s.limit.use(-n)
	}
	return err
}

func (s *Scratch) credit(n int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.creditLocked(n)
}

func (s *Scratch) creditLocked(n int64) {
	s.useLocked(s.mu.used - n)
	s.limit.use(-n)
}

// Close closes all files and removes the folder. Requests on them must have
// ended. A second Close does nothing.
func (s *Scratch) Close() error {
	s.mu.Lock()
	if s.mu.closed {
		s.mu.Unlock()
		return nil
	}
	s.mu.closed = true
	files := s.mu.files
	s.mu.files = map[*File]int64{}
	s.creditLocked(s.mu.used)
	s.mu.Unlock()
	var errs []error
	for f := range files {
		errs = append(errs, f.Close())
	}
	for i, dir := range s.dirs {
		errs = append(errs, (&File{path: dir}).fail("remove", -1, s.fsys.RemoveAll(dir)))
		errs = append(errs, s.locks[i].Close()) // last: the lock guards the folder until it is gone
	}
	return errors.Join(errs...)
}
