package goagnes

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/goagnes/goagnes/goagnes/memory"
	"github.com/goagnes/goagnes/goagnes/operation"
	"github.com/goagnes/goagnes/goagnes/storage"
	"github.com/goagnes/goagnes/layout"
)

// MaxHyperbatch is the hyperbatch size where none is given: minibatches that
// are prepared together at most (paper, section 5.1).
const MaxHyperbatch = 1024

// MaxHops bounds len(NumNeighbors).
const MaxHops = 32

// InputNodes names the nodes whose minibatches a loader prepares, one of:
// a split, ids in the given order, or a mask over all nodes. The zero value
// means all nodes. IDs and Mask must stay unchanged while the loader lives.
type InputNodes struct {
	Split string
	IDs   []int64
	Mask  []bool
}

// LoaderOptions configure [NewLoader]. The zero value of each field is its
// default. Names and meaning are those of PyG's NeighborLoader.
type LoaderOptions struct {
	NumNeighbors   []int      // neighbours drawn without replacement per node, from the seeds outwards; -1 takes all; empty: seeds only
	InputNodes     InputNodes // default all nodes
	BatchSize      int        // seeds of a minibatch, default 1
	Shuffle        bool       // a new seed order each epoch
	DropLast       bool       // leave out a last minibatch that is not full
	Seed           *uint64    // of all draws; default drawn, see Loader.Seed
	HyperbatchSize int        // minibatches prepared together at most, default 1024
	// FixedHyperbatch makes an epoch's first hyperbatches as large as the others. By
	// default they are smaller where that costs little, so that the first minibatches
	// come early: 8 minibatches, then four times as many each time.
	FixedHyperbatch bool
	Memory          int64  // share of the store's budget in bytes, default all that is free
	IO              string // the way to the device, as OpenOptions.IO; "auto", the default, is the store's own
	// Mode is "agnes"; "agnes-no": every minibatch alone; or "agnes-paper":
	// Algorithm 1 as published, whole blocks through two LRU buffers.
	Mode string
	// GraphBuffer and FeatureBuffer are the bytes of frames for graph blocks and
	// feature blocks, part of the memory; at least one frame each. Default: divided
	// out of what is free, or in "agnes-paper" an eighth of the memory each.
	GraphBuffer, FeatureBuffer int64
	NoEdgeIDs                  bool // leave out e_id
	Compact                    bool // "ptr" and "src" instead of "edge_index", for consumers in Go
	Degree                     bool // add "degree": the in-degree in the whole graph, loops left out, of every local node
	NoFeatures                 bool // leave out x
	// Consumer takes memory of the loader's budget for each minibatch, which the
	// loader sets aside for it. Default none.
	Consumer      Consumer
	ReleasesFirst bool // the consumer releases each batch before it asks for the next, so that one is in memory at a time

	// Whoever makes several loaders compares their need with the budget, and what is
	// taken beside them.
	unchecked bool
	beside    int64
}

// Consumer takes memory of a loader's budget for each minibatch it is handed.
type Consumer = operation.Consumer

// Array is one array of a batch.
type Array = operation.Array

// Batch is one minibatch. Its arrays are x, y, n_id, edge_index, e_id and
// input_id, as far as the store and the options have them.
type Batch = operation.Batch

// Loader prepares the minibatches of a store, epoch by epoch. One goroutine
// may call Start and Next at a time; Close may be called from any.
type Loader struct {
	store  *Store
	o      LoaderOptions
	seed   uint64
	engine *operation.Engine
	share  *memory.Budget // nil where the store's own is used
	before storage.Counters
	files  *storage.Store // the store's, or own ones with another way to the device
	lease  *memory.Lease  // of own files, else nil

	mu     sync.Mutex
	epoch  uint32 // of the next Start
	starts uint32
	run    *operation.Run
	closed bool

	closing  sync.Once
	closeErr error
}

// NewLoader returns a loader. Nothing is sampled before Start.
func NewLoader(s *Store, o LoaderOptions) (*Loader, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, errStoreClosed
	}
	seeds, byID, err := s.seeds(o.InputNodes)
	if err != nil {
		return nil, err
	}
	if err := o.check(); err != nil {
		return nil, err
	}
	o.NumNeighbors = slices.Clone(o.NumNeighbors)
	l := &Loader{store: s, o: o, files: s.files}
	if o.Seed != nil {
		l.seed = *o.Seed
	} else {
		var b [8]byte
		if _, err := rand.Read(b[:]); err != nil {
			return nil, err
		}
		l.seed = binary.LittleEndian.Uint64(b[:])
	}
	budget := s.budget
	if o.Memory > 0 {
		if l.share, err = budget.Sub(o.Memory); err != nil {
			return nil, err
		}
		budget = l.share
	}
	if err := l.open(budget); err != nil {
		return nil, errors.Join(err, l.release())
	}
	l.before = l.files.Pool().Counters()
	others := s.others(o.beside)
	if l.share != nil {
		used := budget.Used()
		others = func(int64) int64 { return used }
	}
	held := 1
	if o.ReleasesFirst {
		held = 0
	}
	hyperbatch := o.HyperbatchSize
	if hyperbatch == 0 {
		hyperbatch = MaxHyperbatch
	}
	if o.Mode == "agnes-no" {
		hyperbatch = 1
	}
	l.engine, err = operation.New(operation.Options{
		Store: l.files, Index: s.index, Budget: budget, Threads: s.options.NumThreads,
		Scratch: func() (*storage.Scratch, error) { return s.openScratch(budget) },
		Seeds:   seeds, InputIsID: byID, BatchSize: max(o.BatchSize, 1), DropLast: o.DropLast, Shuffle: o.Shuffle,
		Fanouts: o.NumNeighbors, Seed: l.seed, Hyperbatch: hyperbatch, Grow: !o.FixedHyperbatch && (o.Mode == "" || o.Mode == "agnes"), Published: o.Mode == "agnes-paper",
		GraphBuffer: o.GraphBuffer, FeatureBuffer: o.FeatureBuffer, Held: held, Consumer: o.Consumer,
		Others: others, Unchecked: o.unchecked,
		Outputs: operation.Outputs{
			X: !o.NoFeatures, Y: true, NodeIDs: true, InputIDs: true, EdgeIDs: !o.NoEdgeIDs && len(o.NumNeighbors) > 0,
			EdgeIndex: !o.Compact, CSC: o.Compact, Degree: o.Degree,
		},
	})
	if err != nil {
		if errors.Is(err, operation.ErrNoRows) {
			err = &UnsupportedError{"feature_buffer", fmt.Sprint(o.FeatureBuffer), err.Error()}
		}
		return nil, errors.Join(err, l.release())
	}
	s.loaders[l] = struct{}{}
	return l, nil
}

// open opens the store's files once more where the loader reads them another
// way.
func (l *Loader) open(budget *memory.Budget) error {
	s := l.store
	if l.o.IO == "" || l.o.IO == storage.IOAuto || l.o.IO == s.pool.Engine() {
		return nil
	}
	pool, err := newPool(l.o.IO, s.options.FS)
	if err != nil {
		return err
	}
	if err := s.still(); err != nil {
		return errors.Join(err, pool.Close())
	}
	files, err := storage.OpenStore(s.path, storage.StoreOptions{Pool: pool, ChecksumCache: checksumCache(s.options.Memory), Stripes: s.files.Stripes()})
	if err != nil {
		return errors.Join(err, pool.Close())
	}
	l.files = files
	s.locateBlocks(files)
	if err := s.still(); err != nil { // nor while its files were opened
		return err
	}
	l.lease, err = budget.Reserve("checksums", files.MemoryBytes())
	return err
}

// still refuses to open files again of a store that was replaced since it was
// opened.
func (s *Store) still() error {
	m, err := storage.ReadManifest(s.options.FS, s.path)
	if err == nil && m.ID != s.files.Manifest().ID {
		err = layout.Errorf(layout.Corrupt, layout.ManifestFile, "%s was replaced since it was opened, by build %x: open it again, or leave io to the store", s.path, m.ID)
	}
	return err
}

// release closes own files and gives back what the loader has reserved.
func (l *Loader) release() error {
	var err error
	if l.files != l.store.files {
		err = errors.Join(l.files.Pool().Close(), l.files.Close())
	}
	if l.lease != nil {
		l.lease.Release()
	}
	if l.share != nil {
		l.share.Close()
	}
	return err
}

func (o *LoaderOptions) check() error {
	if len(o.NumNeighbors) > MaxHops {
		return argumentf("num_neighbors", "%d hops, at most %d are allowed", len(o.NumNeighbors), MaxHops)
	}
	for i, k := range o.NumNeighbors {
		if k < -1 || k > 1<<24 {
			return argumentf("num_neighbors", "%d at hop %d: it must be -1 (all) or from 0 to %d", k, i, 1<<24)
		}
	}
	switch {
	case o.BatchSize < 0 || o.BatchSize > 1<<26:
		return argumentf("batch_size", "%d: it must be from 1 to %d", o.BatchSize, 1<<26)
	case o.HyperbatchSize < 0 || o.HyperbatchSize > 1<<20:
		return argumentf("hyperbatch_size", "%d: it must be from 1 to %d", o.HyperbatchSize, 1<<20)
	case o.Memory < 0:
		return argumentf("memory", "%d bytes", o.Memory)
	case o.GraphBuffer < 0:
		return argumentf("graph_buffer", "%d bytes", o.GraphBuffer)
	case o.FeatureBuffer < 0:
		return argumentf("feature_buffer", "%d bytes", o.FeatureBuffer)
	case o.GraphBuffer > 0 && len(o.NumNeighbors) == 0:
		return &UnsupportedError{"graph_buffer", fmt.Sprint(o.GraphBuffer), "without num_neighbors no graph block is read"}
	}
	switch o.Mode {
	case "", "agnes", "agnes-no", "agnes-paper":
	default:
		return &UnsupportedError{"mode", o.Mode, `"agnes", "agnes-no" and "agnes-paper" are`}
	}
	return nil
}

// seeds resolves input nodes; byID says that input_id holds node ids.
func (s *Store) seeds(in InputNodes) (seeds operation.Seeds, byID bool, err error) {
	n := s.files.Manifest().NumNodes
	switch {
	case in.Split != "" && (in.IDs != nil || in.Mask != nil), in.IDs != nil && in.Mask != nil:
		return nil, false, argumentf("input_nodes", "a split, ids or a mask, not several of them")
	case in.Split != "":
		if seeds = s.split(in.Split); seeds == nil {
			return nil, false, argumentf("input_nodes", "no split %q: %s", in.Split, s.splitNames())
		}
		return seeds, false, nil
	case in.IDs != nil:
		for i, v := range in.IDs {
			if v < 0 || v >= n {
				return nil, false, argumentf("input_nodes", "%d at position %d: ids are from 0 to %d", v, i, n-1)
			}
		}
		return operation.ListSeeds(in.IDs), false, nil
	case in.Mask != nil:
		if int64(len(in.Mask)) != n {
			return nil, false, argumentf("input_nodes", "a mask of %d entries for %d nodes", len(in.Mask), n)
		}
		return operation.NewMaskSeeds(in.Mask), true, nil
	}
	return operation.AllSeeds(n), true, nil
}

// Len returns the number of minibatches of an epoch.
func (l *Loader) Len() int { return int(l.engine.Minibatches()) }

// Seed returns the seed of all draws.
func (l *Loader) Seed() uint64 { return l.seed }

// SetEpoch sets the epoch that the next Start begins.
func (l *Loader) SetEpoch(epoch uint32) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.epoch = epoch
}

// Start begins the next epoch: 0 at the first call, unless SetEpoch said
// otherwise. An epoch still under way is given up.
func (l *Loader) Start(ctx context.Context) error {
	return l.StartRange(ctx, 0, l.engine.Minibatches())
}

// StartRange is Start for the minibatches [first, end) of the epoch alone. They
// are those that Start gives; the ones before are not prepared.
func (l *Loader) StartRange(ctx context.Context, first, end int64) error {
	if first < 0 || end < first || end > l.engine.Minibatches() {
		return argumentf("range", "minibatches %d to %d of %d", first, end, l.engine.Minibatches())
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return ErrClosed
	}
	l.run = l.engine.StartRange(ctx, l.epoch, first, end)
	l.epoch++
	l.starts++
	return nil
}

// Next returns the next minibatch of the epoch, or io.EOF after the last. The
// caller must Release it. After Close, also one from another goroutine, it
// returns ErrClosed.
func (l *Loader) Next(ctx context.Context) (*Batch, error) {
	l.mu.Lock()
	run, closed := l.run, l.closed
	l.mu.Unlock()
	switch {
	case closed:
		return nil, ErrClosed
	case run == nil:
		return nil, argumentf("loader", "Next is called before Start")
	}
	return run.Next(ctx)
}

// Stop gives up the epoch under way and returns the memory it holds.
func (l *Loader) Stop() {
	l.mu.Lock()
	run := l.run
	l.mu.Unlock()
	if run != nil {
		run.Close()
	}
}

// Close ends the loader. Batches that were handed out stay valid until they
// are released. It may be called again, and from several goroutines: every call
// returns when the loader has ended.
func (l *Loader) Close() error {
	l.closing.Do(func() { l.closeErr = l.close() })
	return l.closeErr
}

func (l *Loader) close() error {
	l.mu.Lock()
	l.closed = true
	l.mu.Unlock()
	err := errors.Join(l.engine.Close(), l.release())
	l.store.mu.Lock()
	delete(l.store.loaders, l)
	l.store.mu.Unlock()
	return err
}

// Stats are a loader's counts since it was made.
type Stats struct {
	operation.Stats
	IO             storage.Counters `json:"io"` // of the store, or of a loader with an own way to the device, since the loader was made
	BytesRead      int64            `json:"bytes_read"`
	BytesWritten   int64            `json:"bytes_written"`
	IORatio        float64          `json:"io_ratio"` // bytes moved / LB of the epochs run, 0 before the first
	Seed           uint64           `json:"seed"`
	Epochs         uint32           `json:"epochs"` // epochs started
	HyperbatchSize int              `json:"hyperbatch_size"`
}

// Stats returns the loader's counts.
func (l *Loader) Stats() Stats {
	l.mu.Lock()
	epochs := l.starts
	l.mu.Unlock()
	s := Stats{Stats: l.engine.Stats(), IO: l.files.Pool().Counters().Sub(l.before), Seed: l.seed, Epochs: epochs, HyperbatchSize: l.engine.Hyperbatch}
	s.BytesRead, s.BytesWritten = s.IO.BytesRead, s.IO.BytesWritten
	if n := l.Len(); s.LowerBoundBytes > 0 && n > 0 {
		s.IORatio = float64(s.BytesRead+s.BytesWritten) / (float64(s.LowerBoundBytes) * float64(s.Minibatches) / float64(n))
	}
	return s
}
