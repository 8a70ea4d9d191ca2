package storage

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/goagnes/goagnes/layout"
)

const (
	// DefaultChecksumCache bytes of checksum tables are kept unless told
	// otherwise: they cover 4 GiB of data.
	DefaultChecksumCache = 4 << 20

	// maxRootBytes bounds what an untrusted manifest can make OpenStore hold:
	// the root tables of 64 TiB of data.
	maxRootBytes = 64 << 20
)

// StoreOptions configure OpenStore; the zero value is the default.
type StoreOptions struct {
	Pool          *Pool    // nil = an own one, closed with the store
	FS            FS       // of an own pool; nil = OS
	ChecksumCache int64    // bytes of checksum tables to keep, 0 = DefaultChecksumCache
	Stripes       []string // where the stripe directories lie now, nil = where the manifest says
}

// Store is an open store: its manifest and its sections, each an open file
// whose pages are verified when they are read. Its methods may be called from
// several goroutines.
type Store struct {
	dir       string
	manifest  *layout.Manifest
	pool      *Pool
	ownPool   bool
	stripes   []string // directories over which sections are spread, nil for none
	sections  []Section
	byName    map[string]*Section
	checksums *File
	tables    *tableCache

	// use is held for reading while a checksum table is in use, for writing
	// by Close, which unmaps their memory when no request reads into it any more.
	use     sync.RWMutex
	closed  bool           // under use
	reading sync.WaitGroup // requests for checksum tables
	memory  []byte         // mapping that holds the root tables and the table cache
	roots   int64          // bytes of the root tables
}

// OpenStore opens the store in the directory dir. Checked are the manifest, the
// presence and exact size of every file and the root tables; the pages
// themselves are checked as they are read. Errors of the store are
// *layout.Error, those of the system *Error.
func OpenStore(dir string, o StoreOptions) (*Store, error) {
	s := &Store{dir: dir, pool: o.Pool, byName: map[string]*Section{}}
	if s.pool == nil {
		s.pool, s.ownPool = NewPool(PoolOptions{FS: o.FS}), true
	}
	if err := s.open(o); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

func (s *Store) open(o StoreOptions) error {
	var err error
	if s.manifest, err = ReadManifest(s.pool.options.FS, s.dir); err != nil {
		return err
	}
	if s.stripes, err = StripeDirs(s.pool.options.FS, s.manifest, o.Stripes); err != nil {
		return err
	}
	s.sections = make([]Section, len(s.manifest.Sections))
	end, roots := int64(0), int64(0)
	for i := range s.sections {
		c := &s.sections[i]
		c.Section, c.store, c.number = s.manifest.Sections[i], s, i
		if c.file, err = OpenSection(s.pool.options.FS, s.dir, s.stripes, s.manifest.Settings.StripeUnit, &c.Section, Flags{Buffered: s.pool.buffered()}); err != nil {
			return err
		}
		_, _, root, rootBytes := c.Checksums()
		end, roots = max(end, root+rootBytes), roots+rootBytes
		s.byName[c.Name] = c
	}
	if roots > maxRootBytes {
		return layout.Errorf(layout.Limits, layout.ChecksumFile, "root tables of %d bytes, at most %d are read", roots, int64(maxRootBytes))
	}
	if s.checksums, err = openWhole(s.pool.options.FS, s.dir, layout.ChecksumFile, end, Flags{Buffered: s.pool.buffered()}); err != nil {
		return err
	}
	s.checksums.role = roleChecksum
	cache := o.ChecksumCache
	if cache <= 0 {
		cache = DefaultChecksumCache
	}
	s.memory, err = unix.Mmap(-1, 0, int(roots+cacheBytes(cache)), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		return &Error{Path: s.dir, Offset: -1, Block: -1, Op: "map memory for the checksums of", Err: err}
	}
	s.roots = roots
	s.tables = newTableCache(s.memory[roots:])
	return s.readRoots(s.memory[:roots])
}

// StripeDirs returns the directories over which a store is striped, none where
// it is not: those given, or else those that its manifest names. Each must be
// the stripe directory of this store and in its place. Too many or too few given
// are a *StripesError.
func StripeDirs(fsys FS, m *layout.Manifest, given []string) ([]string, error) {
	dirs := given
	if len(dirs) == 0 {
		dirs = m.Stripes
	} else if len(dirs) != m.Settings.Stripes {
		return nil, &StripesError{Named: len(dirs), Striped: m.Settings.Stripes}
	}
	if len(dirs) == 0 && m.Settings.Stripes == 0 {
		return nil, nil
	}
	return dirs, CheckStripes(fsys, m, dirs)
}

// OpenSection opens the file of a section of the store in dir, or its parts in
// the directories over which the store is striped, in units of unit bytes. Each
// must be a regular file of the size that the manifest says.
func OpenSection(fsys FS, dir string, stripes []string, unit int64, s *layout.Section, flags Flags) (*File, error) {
	if len(stripes) == 0 {
		return openWhole(fsys, dir, s.File, s.FileBytes(), flags)
	}
	for i, part := range stripes {
		if err := checkWhole(fsys, part, s.File, layout.StripeBytes(s.FileBytes(), unit, len(stripes), layout.StripeFirst(s.File, len(stripes)), i)); err != nil {
			return nil, err
		}
	}
	return OpenStriped(fsys, stripes, s.File, unit, flags)
}

// openWhole opens a file of a store, which must be a regular one of that size.
func openWhole(fsys FS, dir, name string, size int64, flags Flags) (*File, error) {
	if err := checkWhole(fsys, dir, name, size); err != nil {
		return nil, err
	}
	return OpenFile(fsys, filepath.Join(dir, name), flags)
}

// checkWhole asks before the file is opened: opening a named pipe would hang.
func checkWhole(fsys FS, dir, name string, size int64) error {
	path := filepath.Join(dir, name)
	st, err := orOS(fsys).Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return layout.Errorf(layout.Corrupt, name, "the file is missing from %s: restore it or rebuild the store", dir)
	case err != nil:
		return (&File{path: path}).fail("stat", -1, err)
	case !st.Mode().IsRegular():
		return layout.Errorf(layout.Corrupt, name, "not a regular file in %s: restore it or rebuild the store", dir)
	case st.Size() != size:
		return layout.Errorf(layout.Checksum, name, "%d bytes in %s, the manifest says %d: restore it or rebuild the store", st.Size(), dir, size)
	}
	return nil
}

// ReadManifest reads the manifest of the store in dir; fsys nil is OS. A
// directory that holds no store, and a manifest that is not whole, give a
// *layout.Error.
func ReadManifest(fsys FS, dir string) (*layout.Manifest, error) {
	fsys = orOS(fsys)
	path := filepath.Join(dir, layout.ManifestFile)
	st, err := fsys.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR):
		return nil, layout.Errorf(layout.NotAStore, "", "%s has no file %s: never built, or its build did not end", dir, layout.ManifestFile)
	case err != nil:
		return nil, (&File{path: path}).fail("stat", -1, err)
	case !st.Mode().IsRegular():
		return nil, layout.Errorf(layout.NotAStore, layout.ManifestFile, "not a regular file")
	case st.Size() > layout.MaxManifest:
		return nil, layout.Errorf(layout.Limits, layout.ManifestFile, "%d bytes, at most %d are read", st.Size(), int64(layout.MaxManifest))
	}
	f, err := OpenFile(fsys, path, Flags{})
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b := make([]byte, st.Size())
	n, err := f.ReadAt(b, 0)
	if err != nil && err != io.EOF {
		return nil, err
	}
	return layout.DecodeManifest(b[:n])
}

// readRoots fills and verifies the root tables of all sections.
func (s *Store) readRoots(mem []byte) error {
	for i := range s.sections {
		c := &s.sections[i]
		_, tableBytes, root, rootBytes := c.Checksums()
		if rootBytes == 0 {
			continue
		}
		c.root, mem = mem[:rootBytes:rootBytes], mem[rootBytes:]
		r := Request{File: s.checksums, Offset: root, Buf: c.root}
		if err := s.pool.Do(&r); err != nil {
			return tableError(err)
		}
		if layout.CRC(c.root) != c.RootCRC {
			return &layout.Error{Kind: layout.Checksum, File: layout.ChecksumFile, Offset: root, Block: -1,
				Msg: fmt.Sprintf("the root table of section %q differs from what was written: rebuild the store", c.Name)}
		}
		c.root = c.root[:tableBytes/layout.PageSize*layout.TableEntry]
	}
	return nil
}

// tableError turns the end of the checksum file into an error of the store.
func tableError(err error) error {
	var e *Error
	if errors.As(err, &e) && errors.Is(err, io.ErrUnexpectedEOF) {
		return &layout.Error{Kind: layout.Checksum, File: layout.ChecksumFile, Offset: e.Offset, Block: -1, Msg: "the file ends here: truncated since the store was opened"}
	}
	return err
}

// Manifest returns the store's manifest, which must not be changed.
func (s *Store) Manifest() *layout.Manifest { return s.manifest }

// Section returns the section of that name, nil when there is none.
func (s *Store) Section(name string) *Section { return s.byName[name] }

// Dir returns the store's directory as given to OpenStore.
func (s *Store) Dir() string { return s.dir }

// Stripes returns the directories over which the store is striped, nil where it
// is not.
func (s *Store) Stripes() []string { return s.stripes }

// Pool returns the pool through which the store is read.
func (s *Store) Pool() *Pool { return s.pool }

// MemoryBytes returns the bytes that the store holds while it is open: root
// tables and checksum table cache.
func (s *Store) MemoryBytes() int64 { return int64(len(s.memory)) }

// MemoryFor returns what MemoryBytes would be with a ChecksumCache of that size.
func (s *Store) MemoryFor(cache int64) int64 { return s.roots + cacheBytes(cache) }

// cacheBytes returns the bytes of a table cache: whole chunks.
func cacheBytes(cache int64) int64 { return max(cache/tableChunk, minTableChunks) * tableChunk }

// TableBytes returns the bytes of all checksum tables: a ChecksumCache of that
// size is never read twice.
func (s *Store) TableBytes() int64 {
	n := int64(0)
	for i := range s.sections {
		_, t, _, _ := s.sections[i].Checksums()
		n += (t + tableChunk - 1) / tableChunk * tableChunk
	}
	return n
}

// Close closes the files. Requests in flight end normally or with ErrClosed.
// A second Close does nothing. It must not be called from a Done function.
func (s *Store) Close() error {
	s.use.Lock()
	closed := s.closed
	s.closed = true
	memory := s.memory
	s.memory, s.tables = nil, nil
	s.use.Unlock()
	if closed {
		return nil
	}
	var errs []error
	if s.ownPool {
		errs = append(errs, s.pool.Close())
	}
	s.reading.Wait()
	for i := range s.sections {
		if f := s.sections[i].file; f != nil {
			errs = append(errs, f.Close())
		}
	}
	if s.checksums != nil {
		errs = append(errs, s.checksums.Close())
	}
	if memory != nil {
		errs = append(errs, unix.Munmap(memory))
	}
	return errors.Join(errs...)
}
