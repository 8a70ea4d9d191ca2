package goagnes

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"sync"

	"github.com/goagnes/goagnes/goagnes/memory"
	"github.com/goagnes/goagnes/goagnes/storage"
	"github.com/goagnes/goagnes/layout"
)

// DefaultMemory is the memory budget of a store, in bytes, where none is given.
const DefaultMemory = 2 << 30

// OpenOptions configure [Open]; the zero value is the default.
type OpenOptions struct {
	Memory     int64 // budget in bytes for everything that uses the store, default 2 GiB
	NumThreads int   // workers, default GOMAXPROCS
	// Scratch is the directory for what does not fit; default beside the store, or
	// beside each of its stripe directories. Where that cannot be written to, the
	// default is the system's temporary directory, as Info says.
	Scratch      string
	ScratchLimit int64    // bytes of scratch of all loaders together at most, default half the space that is free when the first needs some
	Stripes      []string // the store's stripe directories (NAME.stripe-…) where they lie now, in their order, default where they were made
	// IO is the way to the device: "uring" (io_uring; refused where the system
	// lacks or forbids it), "pread" (system calls from a pool of threads),
	// "buffered" (likewise, through the page cache) or "auto", the default: uring
	// where it can be used, else pread. Results do not depend on it.
	IO string
	// FS is the file system through which the store and scratch are reached,
	// default the operating system's. For tests and measurement.
	FS storage.FS
}

// Store is an open store. Its methods may be called from any goroutine.
type Store struct {
	path    string
	beside  string   // the directory that holds the store
	spill   []string // directories for scratch
	unspilt string   // why spill is not beside the store, "" where it is
	scratch *storage.ScratchLimit
	options OpenOptions
	budget  *memory.Budget
	pool    *storage.Pool
	files   *storage.Store
	index   *memory.ObjectIndex
	leases  []*memory.Lease
	mapped  [][]byte

	mu      sync.Mutex
	closed  bool
	loaders map[*Loader]struct{}

	// Reads of single nodes: see nodes.go.
	life  context.Context // ends when the store is closed
	end   context.CancelFunc
	turns chan struct{}  // held by a read under way
	reads sync.WaitGroup // added to under mu

	splitting sync.Mutex
	own       map[string]ownSplit // splits set on the open store

	closing  sync.Once
	closeErr error
}

// Open opens the store at path. A store that is damaged where it is read here,
// of a newer version or none at all gives a *layout.Error; a budget too small
// for the tables that every use needs a *memory.BudgetError.
func Open(path string, o OpenOptions) (*Store, error) {
	switch {
	case o.Memory < 0:
		return nil, argumentf("memory", "%d bytes", o.Memory)
	case o.NumThreads < 0:
		return nil, argumentf("num_threads", "%d", o.NumThreads)
	case o.ScratchLimit < 0:
		return nil, argumentf("scratch_limit", "%d bytes", o.ScratchLimit)
	}
	if o.Memory == 0 {
		o.Memory = DefaultMemory
	}
	if o.NumThreads == 0 {
		o.NumThreads = runtime.GOMAXPROCS(0)
	}
	abs, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	s := &Store{path: path, beside: filepath.Dir(abs), options: o, budget: memory.NewBudget(o.Memory), loaders: map[*Loader]struct{}{},
		turns: make(chan struct{}, readers), own: map[string]ownSplit{}, scratch: storage.NewScratchLimit(o.ScratchLimit)}
	s.life, s.end = context.WithCancel(context.Background())
	if s.pool, err = newPool(o.IO, o.FS); err != nil {
		return nil, err
	}
	if err := s.open(); err != nil {
		return nil, errors.Join(err, s.release())
	}
	return s, nil
}

// newPool starts a pool with that way to the device.
func newPool(io string, fsys storage.FS) (*storage.Pool, error) {
	if err := checkIO(io); err != nil {
		return nil, err
	}
	p := storage.NewPool(storage.PoolOptions{IO: io, FS: fsys})
	if io == storage.IOUring && p.Refusal() != nil {
		err := refuseRing(p.Refusal())
		p.Close()
		return nil, err
	}
	return p, nil
}

// checkIO refuses what is no way to the device, and the ring where the system
// forbids it.
func checkIO(io string) error {
	switch io {
	case "", storage.IOAuto, storage.IOPread, storage.IOBuffered:
		return nil
	case storage.IOUring:
		if refusal := storage.RingRefusal(); refusal != nil {
			return refuseRing(refusal)
		}
		return nil
	}
	return &UnsupportedError{"io", io, `"auto", "uring", "pread" and "buffered" are`}
}

func refuseRing(why error) error {
	return &UnsupportedError{"io", storage.IOUring, `"auto" and "pread" are; ` + why.Error()}
}

// checksumCache returns the bytes of checksum tables that are kept under a budget.
func checksumCache(memory int64) int64 { return min(int64(4<<20), max(memory/64, 256<<10)) }

// tablesBytes returns the memory of what the store itself holds while it is open,
// under a budget of that many bytes.
func (s *Store) tablesBytes(memory int64) int64 {
	n := s.files.MemoryFor(checksumCache(memory))
	table := s.files.Section(layout.SectionIndex)
	n += table.FileBytes() + memoryOfIndex(table)
	if places := s.files.Section(layout.SectionPlaces); places != nil {
		n += places.FileBytes()
	}
	return n
}

func memoryOfIndex(table *storage.Section) int64 {
	return memory.ObjectIndexBytes(table.Bytes/layout.IndexEntryBytes - 1)
}

// others returns a function of what is in use now, and extra bytes more, under a
// budget of so many bytes.
func (s *Store) others(extra int64) func(total int64) int64 {
	rest := s.budget.Used() - s.tablesBytes(s.options.Memory) + extra
	return func(total int64) int64 { return rest + s.tablesBytes(total) }
}

func (s *Store) open() error {
	var err error
	if s.files, err = storage.OpenStore(s.path, storage.StoreOptions{Pool: s.pool, ChecksumCache: checksumCache(s.options.Memory), Stripes: s.options.Stripes}); err != nil {
		return err
	}
	// All tables at once, so that a refusal names what all of them need.
	if err := memory.Refusal("the tables of the store", s.options.Memory, 0, s.tablesBytes); err != nil {
		return err
	}
	s.chooseScratch()
	storage.RemoveAbandoned(s.options.FS, s.spill) // of those that were killed, also where nothing is spilled now
	if err := s.reserve("checksums", s.files.MemoryBytes()); err != nil {
		return err
	}
	table := s.files.Section(layout.SectionIndex)
	blocks := table.Bytes/layout.IndexEntryBytes - 1
	directory := memoryOfIndex(table)
	if err := s.reserve("object index table", table.FileBytes()+directory); err != nil {
		return err
	}
	entries, err := s.mapFor("object index table", table.FileBytes())
	if err != nil {
		return err
	}
	if err := table.Read(0, entries); err != nil {
		return err
	}
	dir, err := s.mapFor("object index table", max(directory, 1))
	if err != nil {
		return err
	}
	m := s.files.Manifest()
	if s.index, err = memory.NewObjectIndex(entries[:table.Bytes], dir[:directory], m.NumNodes, m.NumEdges); err != nil {
		return err
	}
	graph := s.files.Section(layout.SectionGraph)
	if places := s.files.Section(layout.SectionPlaces); places != nil {
		if err := s.reserve("places of graph blocks", places.FileBytes()); err != nil {
			return err
		}
		pages, err := s.mapFor("places of graph blocks", places.FileBytes())
		if err != nil {
			return err
		}
		if err := places.Read(0, pages); err != nil {
			return err
		}
		if err := s.index.SetPlaces(pages[:places.Bytes], m.Settings.BlockSize, graph.Bytes); err != nil {
			return err
		}
		s.locateBlocks(s.files)
	} else if graph.Bytes != blocks*m.Settings.BlockSize {
		return layout.Errorf(layout.Corrupt, graph.File, "%d bytes, the object index table lists %d blocks of %d", graph.Bytes, blocks, m.Settings.BlockSize)
	}
	return s.index.CheckHubs(layout.HubCapacity(m.Settings.BlockSize, layout.NodeBits(m.NumNodes)))
}

// locateBlocks lets errors of reading the graph name blocks that are compressed.
func (s *Store) locateBlocks(files *storage.Store) {
	if m := files.Manifest(); s.index.Compressed() {
		files.Section(layout.SectionGraph).LocateBlocks(func(offset int64) int64 { return s.index.BlockAt(offset, m.Settings.BlockSize) })
	}
}

// chooseScratch decides which directories hold what memory has no room for.
func (s *Store) chooseScratch() {
	if s.options.Scratch != "" {
		s.spill = []string{s.options.Scratch}
		return
	}
	s.spill = []string{s.beside}
	if stripes := s.files.Stripes(); len(stripes) > 0 {
		s.spill = s.spill[:0]
		for _, dir := range stripes {
			s.spill = append(s.spill, filepath.Dir(filepath.Clean(dir)))
		}
	}
	for _, dir := range s.spill {
		if err := s.pool.FS().Writable(dir); err != nil {
			s.spill, s.unspilt = []string{os.TempDir()}, err.Error()
			return
		}
	}
}

// openScratch opens scratch for one loader, whose budget it counts against where
// it lies in memory.
func (s *Store) openScratch(budget *memory.Budget) (*storage.Scratch, error) {
	sc, err := storage.OpenScratchWithin(s.options.FS, s.spill, s.scratch)
	if err != nil || !sc.InMemory() {
		return sc, err
	}
	lease, err := budget.Reserve("scratch in memory", 0)
	if err != nil {
		return nil, errors.Join(err, sc.Close())
	}
	sc.CountMemory(lease.Resize)
	return sc, nil
}

func (s *Store) reserve(consumer string, n int64) error {
	l, err := s.budget.Reserve(consumer, n)
	if err == nil {
		s.leases = append(s.leases, l)
	}
	return err
}

func (s *Store) mapFor(purpose string, n int64) ([]byte, error) {
	b, err := memory.MapFor(purpose, n)
	if err == nil {
		s.mapped = append(s.mapped, b)
	}
	return b, err
}

// Close closes the store and every loader of it. Batches that were handed out
// stay valid until they are released. Close may be called again, and from
// several goroutines: every call returns when the store is closed.
func (s *Store) Close() error {
	s.closing.Do(func() { s.closeErr = s.close() })
	return s.closeErr
}

func (s *Store) close() error {
	s.mu.Lock()
	s.closed = true
	s.end()
	var open []*Loader
	for l := range s.loaders {
		open = append(open, l)
	}
	s.mu.Unlock()
	var err error
	for _, l := range open {
		err = errors.Join(err, l.Close())
	}
	s.reads.Wait()
	return errors.Join(err, s.release())
}

func (s *Store) release() error {
	s.end()
	for _, own := range s.own {
		own.lease.Release()
	}
	var err error
	if s.files != nil {
		err = s.files.Close()
	}
	err = errors.Join(err, s.pool.Close())
	for _, b := range s.mapped {
		err = errors.Join(err, memory.Unmap(b))
	}
	for _, l := range s.leases {
		l.Release()
	}
	s.mapped, s.leases = nil, nil
	return err
}

// Info describes a store.
type Info struct {
	Path          string               `json:"path"`
	NumNodes      int64                `json:"num_nodes"`
	NumEdges      int64                `json:"num_edges"`
	EdgeIDRange   int64                `json:"edge_id_range"` // edge ids are below it; more than num_edges where edges were dropped
	NumFeatures   int64                `json:"num_features"`  // elements of a row of x
	FeatureDType  string               `json:"feature_dtype"`
	FeatureShape  []int64              `json:"feature_shape"` // of a row
	NumClasses    int64                `json:"num_classes"`
	LabelDType    string               `json:"label_dtype"`
	Splits        map[string]int64     `json:"splits"`      // nodes by split
	NodeArrays    map[string]ArrayInfo `json:"node_arrays"` // x, y and others
	Order         string               `json:"order"`
	IDs           string               `json:"ids"`
	BlockSize     int64                `json:"block_size"`
	Stripes       []string             `json:"stripes,omitempty"` // directories over which the sections are spread
	GraphBlocks   int64                `json:"graph_blocks"`
	Bytes         int64                `json:"bytes"` // of all files but the manifest and checksums
	Sections      map[string]int64     `json:"sections"`
	FormatVersion int                  `json:"format_version"`
	BuildID       string               `json:"build_id"`
	Compression   string               `json:"compression,omitempty"` // of graph blocks, "" for none
	Source        json.RawMessage      `json:"source,omitempty"`      // what was read and how, what was dropped or added: a record for people, as the build kept it
	Memory        int64                `json:"memory"`                // budget
	NumThreads    int                  `json:"num_threads"`
	MemoryByUse   map[string]int64     `json:"memory_by_use"` // bytes reserved now
	Engine        string               `json:"engine"`        // the way to the device: "uring", "pread" or "buffered"
	Direct        bool                 `json:"direct"`        // the page cache is bypassed
	// DirectRefused names the first file that goes through the page cache because
	// its file system refuses direct I/O: memory that the budget does not bound.
	DirectRefused string `json:"direct_refused,omitempty"`
	// Scratch are the directories for what does not fit the budget. ScratchMoved
	// says why they are not beside the store, as they would be by default, because
	// that cannot be written to.
	Scratch      []string `json:"scratch"`
	ScratchMoved string   `json:"scratch_moved,omitempty"`
}

// Info returns the store's description.
func (s *Store) Info() Info {
	m := s.files.Manifest()
	i := Info{Path: s.path, NumNodes: m.NumNodes, NumEdges: m.NumEdges, EdgeIDRange: m.EdgeIDRange(), NumClasses: m.NumClasses, Splits: s.Splits(), NodeArrays: s.NodeArrays(),
		Stripes: s.files.Stripes(), Order: m.Settings.Order, IDs: m.Settings.IDs, BlockSize: m.Settings.BlockSize, GraphBlocks: int64(s.index.Blocks()),
		FormatVersion: m.FormatVersion(), Compression: m.Settings.Compression, Source: m.Source, BuildID: fmt.Sprintf("%x", m.ID), Sections: map[string]int64{},
		Memory: s.options.Memory, NumThreads: s.options.NumThreads, MemoryByUse: s.budget.Consumers()}
	counters := s.pool.Counters()
	i.Scratch, i.ScratchMoved = s.spill, s.unspilt
	i.Engine, i.Direct, i.DirectRefused = counters.Engine, counters.Direct, counters.FallbackFile
	for _, c := range m.Sections {
		i.Bytes += c.Bytes
		i.Sections[c.Name] = c.Bytes
	}
	if x := m.Section(layout.SectionX); x != nil {
		i.NumFeatures, i.FeatureDType, i.FeatureShape = x.RowElements(), x.DType, x.RowShape
	}
	if y := m.Section(layout.SectionY); y != nil {
		i.LabelDType = y.DType
	}
	return i
}

// Calibration is the model of a device's reads: what one costs, and the bandwidth.
type Calibration = storage.Calibration

// Calibrate measures the device by direct reads of the store's largest file, of
// several sizes at random places; of a striped store, that of its first stripe
// directory. The reads take the store's way to the device, at the depth of its
// queue; of a store opened "buffered", "pread". It takes about a second.
func (s *Store) Calibrate(ctx context.Context) (Calibration, error) {
	largest := &s.files.Manifest().Sections[0]
	for i := range s.files.Manifest().Sections {
		if c := &s.files.Manifest().Sections[i]; c.Bytes > largest.Bytes {
			largest = c
		}
	}
	dir := s.path
	if stripes := s.files.Stripes(); len(stripes) > 0 {
		dir = stripes[0]
	}
	io := s.pool.Engine()
	if io == storage.IOBuffered { // the device is asked for, not the page cache
		io = storage.IOPread
	}
	return storage.Calibrate(ctx, dir, storage.CalibrateOptions{FS: s.options.FS, IO: io, Depth: s.pool.Depth(), Path: filepath.Join(dir, largest.File)})
}

// Counters returns what was read and written so far by everything that uses
// the store.
func (s *Store) Counters() storage.Counters { return s.pool.Counters() }
