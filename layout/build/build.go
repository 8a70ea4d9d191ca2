// Package build makes stores: it reads edges, node arrays and splits as streams,
// orders the nodes, sorts the edges out of core, writes the sections and seals them;
// and it verifies stores.
//
// # What a build guarantees
//
//   - Bounded memory. Everything the build holds is counted against one budget,
//     Options.Memory: tables of 8 bytes a node where nodes are ordered by degree, 12
//     in the other orders, none where they keep their order, buffers, and the part of the edges and rows that is worked
//     on. What does not fit goes to scratch files. A budget below what cannot be made
//     smaller is refused with the number needed.
//   - Nothing half-written. A store grows in a locked directory beside its final
//     name, every file is synced, the manifest comes last, and the directory is
//     renamed into place. A failure or a cancellation removes it; what a killed
//     build leaves is removed by the next.
//   - Reproducibility. The bytes of a store depend on its input and on the settings
//     that shape it (order, block size, ids, feature type), not on memory, threads,
//     scratch, paths or time.
//   - Import order. The in-edges of a node keep the order in which they were read,
//     and edge ids are positions in that order.
//
// # The passes
//
// Edges that are parsed from text are kept after the first pass if an eighth of the
// budget holds them. Where ids are ranked, a pass over the edges finds the distinct
// ids. The next pass
// checks every id and counts edges, degrees and how targets spread. The order
// "degree" follows from the degrees alone; "visit" takes 3 more passes, "bfs" 2 to 65
// (docs/orders.md says what they compute). Where an order takes passes of its own
// and the edges are parsed from text, or ranked, and not kept in memory, the first pass
// appends them to a scratch file, 8 bytes an edge, which the later passes read. The last
// pass appends every edge to a
// partition, a range of internal targets that can be sorted in memory; partitions
// stay in memory where the budget allows it and go to one scratch file otherwise. A
// partition is sorted by counting, which is stable, so that edges of a target stay in
// import order, while the one before it is encoded. A range that turns out too large
// is partitioned again; a single target that is too large needs no sorting and is
// passed on in pieces. Node arrays are read once: straight through where the order is
// kept, else placed in memory, or in partitions through scratch.
//
// # Edits of the edge list
//
// Undirected, SelfLoops and Duplicates change the list, in this order:
//
//  1. Reverses: edge i = (u, v) of the E imported ones keeps the id i, and (v, u) with
//     the id E+i is added. A self-loop is its own reverse and gets none.
//  2. Self-loops: "drop" takes out every (v, v).
//  3. Duplicates: "drop" keeps, of the edges with one source and one target, that of
//     the smallest id.
//  4. Self-loops: "add" gives every node v that has none a loop, with the id E+v, or
//     2E+v with reverses. (A loop of the list is kept with its own id.)
//
// Edge ids stay positions in the list so extended, whatever is dropped: they have gaps
// then, and num_edges counts the edges that are there. So edge_index[:, e_id] holds
// for the array that was imported, or for it, its reverse and (v, v) for every v side
// by side. PyG numbers edges anew instead. Its to_undirected merges duplicates, which
// here takes Duplicates too; its add_remaining_self_loops moves the loops that were
// there to the end, and add_self_loops adds a second one.
//
// Duplicates are found, and loops added, where the in-edges of a node lie together,
// after sorting. The degree order goes by the edges before that. Duplicates of a node
// whose in-edges alone exceed the memory for sorting take a bit for every node.
//
// # Limits
//
// Up to 2^32-2 nodes, layout.MaxEdges edges. The table of ranks takes up to 8 bytes
// for each distinct id where ids are sparse beyond a bitmap of a quarter of the
// budget.
package build

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/goagnes/goagnes/goagnes/storage"
	"github.com/goagnes/goagnes/layout"
	"github.com/goagnes/goagnes/layout/build/source"
)

// DefaultMemory is the budget of a build, in bytes, where none is given.
const DefaultMemory = 2 << 30

// baseMemory is what readers, chunks in flight and small tables take.
const baseMemory = 8<<20 + scanBytes

// Values of Options.IDs.
const (
	IDsAuto  = "auto"  // rank where Options.RankIDs says that the source's ids may be sparse, and nothing else goes by id
	IDsDense = "dense" // ids are 0 to nodes-1
	IDsRank  = "rank"  // the distinct ids of the edges, ascending, become 0, 1, 2, …
)

// Options are the inputs and settings of a build. Zero values are the defaults.
type Options struct {
	// Edges are the edges; required.
	Edges source.Edges
	// Arrays are the node arrays by name, one row a node: "x" the features, "y" the
	// labels, others as they are.
	Arrays map[string]source.Rows
	// Splits are node sets by name: dense ids, or a bool mask with a row a node.
	Splits map[string]source.Rows
	// NumNodes is the number of nodes; 0 = the rows of x, else of another array, else
	// the number of distinct ids where they are ranked, else the largest id + 1.
	NumNodes int64
	// IDs says what the ids of the edges are; "" = IDsAuto.
	IDs string
	// RankIDs says that the source's ids may be sparse. IDsAuto then ranks them, unless
	// NumNodes, Arrays or Splits show that they are dense: ranking would move rows to
	// other nodes wherever one is isolated.
	RankIDs bool
	// NodeIDs lists the ids of all nodes, each once; nil = the edges show them. Ids
	// are ranked then, whatever IDs and RankIDs say but for IDsDense, which is refused.
	NodeIDs source.IDs
	// Undirected adds the reverse of every edge but self-loops; see "Edits of the edge
	// list" in the package comment, as for the next two.
	Undirected bool
	// SelfLoops is EdgesKeep (also ""), EdgesDrop or EdgesAdd.
	SelfLoops string
	// Duplicates is EdgesKeep (also "") or EdgesDrop.
	Duplicates string
	// Order is the order of nodes in the store; "" = OrderAuto.
	Order string
	// BlockSize in bytes, a power of two from 4 KiB to 64 MiB; 0 = 1 MiB.
	BlockSize int64
	// Compression of graph blocks: "" or "none", "zstd" or "zstd:LEVEL".
	Compression string
	level       int // of it, 0 for none
	// FeatureDType converts features to float32 or float16; 0 = as given.
	FeatureDType layout.DType
	// Memory is the budget in bytes; 0 = DefaultMemory.
	Memory int64
	// Scratch is the directory for scratch files; "" = beside the store.
	Scratch string
	// ScratchLimit bounds scratch files, in bytes; 0 = half the free space.
	ScratchLimit int64
	// Stripes are directories, each on an SSD of its own, over which the sections of
	// the store are spread; none = all of it lies at the path.
	Stripes []string
	// Overwrite replaces a store at the path.
	Overwrite bool
	// SourceRecord is kept in the store for people: what was read, how. It does not
	// enter the build id.
	SourceRecord json.RawMessage
	// Notes are put before the build's own notes in the report.
	Notes []string
	// Threads is the number of threads that passes over the edges may use; 0 = 2. With
	// 1 a pass stays on the thread of the reader. Sorting beside encoding, and reading
	// rows ahead, take a second thread always.
	Threads int
	// IO is the way to the device, as storage.PoolOptions.IO.
	IO string
	// FS is the file system through which the store and scratch are reached; nil =
	// the operating system's. For tests and measurement.
	FS storage.FS
	// Progress is told of a stage's progress, at most 20 times a second; total is 0
	// where it is not known. It is called on several goroutines, one at a time.
	Progress func(stage string, done, total int64)
}

// Kind is the kind of a Report, by which its document is told from others.
const Kind = "build"

// Report says what was built. Bytes count what was moved between files and memory.
type Report struct {
	Kind              string             `json:"kind"` // Kind
	NumNodes          int64              `json:"num_nodes"`
	NumEdges          int64              `json:"num_edges"`          // kept and added
	EdgesListed       int64              `json:"edges_listed"`       // of the imported list
	ReversesAdded     int64              `json:"reverses_added"`     // by undirected, duplicates counted
	SelfLoopsDropped  int64              `json:"self_loops_dropped"` // of the imported list
	SelfLoopsAdded    int64              `json:"self_loops_added"`
	DuplicatesDropped int64              `json:"duplicates_dropped"`
	NumFeatures       int64              `json:"num_features"`
	NumClasses        int64              `json:"num_classes"`
	Order             string             `json:"order"`
	IDs               string             `json:"ids"`
	BlockSize         int64              `json:"block_size"`
	InputBytes        int64              `json:"input_bytes"` // size of the inputs, once
	StoreBytes        int64              `json:"store_bytes"`
	BytesRead         int64              `json:"bytes_read"`    // inputs as often as they were read, and scratch
	BytesWritten      int64              `json:"bytes_written"` // scratch and store
	ScratchBytes      int64              `json:"scratch_bytes"` // most scratch at one time
	Seconds           float64            `json:"seconds"`
	StageSeconds      map[string]float64 `json:"stage_seconds"`
	PeakMemoryPlanned int64              `json:"peak_memory_planned"` // bytes charged to the budget at one time
	Notes             []string           `json:"notes"`
	BuildID           string             `json:"build_id"`
}

// tuning makes small inputs take the ways of large ones, for tests.
type tuning struct {
	onScratch   bool  // keep no partition in memory
	wide        bool  // edge ids of 8 bytes
	sortBytes   int64 // memory for sorting edges
	parts       int64 // most partitions of one distribution
	areaBytes   int64 // memory for reordering rows
	bitmapBytes int64 // memory for the bitmap of ids
	runBytes    int64 // memory for sorting ids
}

func (t tuning) sortLimit(n int64) int64 {
	if t.sortBytes > 0 {
		return min(n, t.sortBytes)
	}
	return n
}

func (t tuning) partsLimit(n int64) int64 {
	if t.parts > 0 {
		n = min(n, t.parts)
	}
	return max(n, 4)
}

// builder is the state of one build. Its methods run on one goroutine unless they
// say otherwise.
type builder struct {
	listed  int64 // ids of Options.NodeIDs
	ctx     context.Context
	o       Options
	tune    tuning
	mem     ledger
	pool    *storage.Pool
	scratch *storage.Scratch
	stage   *staging
	stripes *stripeStage
	report  Report

	writeBuffer int
	sections    []layout.Section
	keeps       bool // edges were kept between passes, or were to be
	edits       edits
	numNodes    int64
	classes     int64
	unlabelled  int64 // labels that were NaN
	infinite    int64 // features that became infinite

	tell struct {
		sync.Mutex
		stage string
		at    time.Time
	}
}

// Build makes a store at path.
func Build(ctx context.Context, path string, o Options) (*Report, error) {
	return build(ctx, path, o, tuning{})
}

func build(ctx context.Context, path string, o Options, t tuning) (report *Report, err error) {
	start := time.Now()
	if err := o.complete(); err != nil {
		return nil, err
	}
	b := &builder{ctx: ctx, o: o, tune: t, mem: ledger{total: o.Memory}}
	if b.edits, err = newEdits(&o); err != nil {
		return nil, err
	}
	b.report = Report{Kind: Kind, StageSeconds: map[string]float64{}, BlockSize: o.BlockSize, Notes: append([]string{}, o.Notes...)}
	b.writeBuffer = int(min(max(o.Memory/128, 64<<10), 4<<20) &^ (layout.PageSize - 1))
	if err := b.mem.charge("readers", baseMemory); err != nil { // what comes next is due too
		return nil, &BudgetError{Consumer: "the build", Need: b.enough(baseMemory + b.workMemory()), Free: b.mem.free(), Total: b.mem.total}
	}
	if err := b.roomToWork(); err != nil {
		return nil, err
	}
	if b.stage, err = stage(o.FS, path, o.Overwrite); err != nil {
		return nil, err
	}
	defer func() {
		if derr := b.stage.discard(); err == nil {
			err = derr
		}
	}()
	if b.stripes, err = stageStripes(o.FS, o.Stripes, b.stage.final, b.note); err != nil {
		return nil, err
	}
	defer func() {
		if derr := b.stripes.discard(); err == nil {
			err = derr
		}
	}()
	scratch := []string{o.Scratch}
	if o.Scratch == "" {
		scratch = []string{b.stage.parent}
		if len(o.Stripes) > 0 {
			scratch = b.stripes.parents
		}
	}
	b.pool = storage.NewPool(storage.PoolOptions{FS: o.FS, IO: o.IO})
	defer b.pool.Close()
	if b.scratch, err = storage.OpenScratch(o.FS, scratch, o.ScratchLimit); err != nil {
		return nil, err
	}
	if b.scratch.InMemory() {
		held := int64(0)
		b.scratch.CountMemory(func(used int64) error {
			if used > held {
				if err := b.mem.charge("scratch in memory", used-held); err != nil {
					return err
				}
			} else {
				b.mem.discharge(held - used)
			}
			held = used
			return nil
		})
	}
	defer func() {
		if cerr := b.scratch.Close(); err == nil {
			err = cerr
		}
	}()
	m, err := b.write()
	if err != nil {
		if cause := context.Cause(ctx); cause != nil {
			err = cause // what failed after it followed from it
		}
		return nil, err
	}
	timed := b.stopwatch("seal")
	if err := b.seal(m); err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	size := int64(0)
	for _, dir := range append([]string{b.stage.dir}, b.stripes.dirs...) {
		n, err := directoryBytes(b.o.FS, dir)
		if err != nil {
			return nil, err
		}
		size += n
	}
	if err := b.stage.commit(o.Overwrite, b.note); err != nil {
		if b.stage.done { // the store is in place, and names them
			b.stripes.commit()
		}
		return nil, err
	}
	b.stripes.commit()
	timed()
	r := &b.report
	c := b.pool.Counters()
	r.BytesRead += c.BytesRead
	r.BytesWritten += c.BytesWritten
	if c.FallbackFile != "" {
		r.Notes = append(r.Notes, fmt.Sprintf("the file system of %s refuses direct I/O: files went through the page cache, which memory does not bound", filepath.Dir(c.FallbackFile)))
	}
	r.StoreBytes = size
	r.NumNodes, r.NumEdges, r.NumClasses = m.NumNodes, m.NumEdges, m.NumClasses
	if x := m.Section(layout.SectionX); x != nil {
		r.NumFeatures = x.RowElements()
	}
	r.Order, r.IDs = m.Settings.Order, m.Settings.IDs
	r.BuildID = fmt.Sprintf("%x", m.ID)
	r.ScratchBytes = b.scratch.Peak()
	r.PeakMemoryPlanned = b.mem.peak
	r.Seconds = time.Since(start).Seconds()
	return r, nil
}

// complete fills in defaults and refuses what cannot be.
func (o *Options) complete() error {
	if o.Edges == nil {
		return usage("edges are missing")
	}
	if o.IDs == "" {
		o.IDs = IDsAuto
	}
	if !slices.Contains([]string{IDsAuto, IDsDense, IDsRank}, o.IDs) {
		return usage("ids=%q: it is one of %q, %q, %q", o.IDs, IDsAuto, IDsDense, IDsRank)
	}
	if o.NodeIDs != nil && o.IDs == IDsDense {
		return usage("ids=%q with the list of ids in %s; such ids are ranked, and dense ones keep their values then", o.IDs, o.NodeIDs.Name())
	}
	if o.Order == "" {
		o.Order = OrderAuto
	}
	if !slices.Contains(orderNames, o.Order) {
		return usage("order=%q: it is one of %q", o.Order, orderNames)
	}
	if o.Order == OrderVisit && o.Splits[TrainSplit] == nil {
		return usage("order=%q follows samples from the split %q, and there is none: give it, or order=%q", OrderVisit, TrainSplit, OrderDegree)
	}
	if o.BlockSize == 0 {
		o.BlockSize = layout.DefaultBlockSize
	}
	if bs := o.BlockSize; bs < layout.MinBlockSize || bs > layout.MaxBlockSize || bs&(bs-1) != 0 {
		return usage("block_size=%d: it is a power of two from %d to %d bytes", bs, layout.MinBlockSize, layout.MaxBlockSize)
	}
	level, canonical, err := layout.ParseCompression(o.Compression)
	if err != nil {
		return unsupported("compression=%s: %v", o.Compression, err)
	}
	o.level, o.Compression = level, canonical
	if d := o.FeatureDType; d != 0 && d != layout.Float32 && d != layout.Float16 {
		return unsupported("feature_dtype=%s: features are kept as float32 or float16", d)
	}
	if o.FS == nil {
		o.FS = storage.OS
	}
	if o.Memory == 0 {
		o.Memory = DefaultMemory
	}
	if o.Memory < 0 || o.ScratchLimit < 0 || o.Threads < 0 || o.NumNodes < 0 {
		return usage("memory, scratch_limit, threads and num_nodes are not negative")
	}
	if o.NumNodes > maxNodes {
		return tooManyNodes("num_nodes")
	}
	if o.Threads == 0 {
		o.Threads = 2
	}
	if len(o.SourceRecord) > 0 && !json.Valid(o.SourceRecord) {
		return usage("the source record is no JSON")
	}
	return nil
}

// stripeUnit returns the bytes that lie together in a stripe directory.
func (b *builder) stripeUnit() int64 { return max(b.o.BlockSize, stripeUnit) }

// workMemory is what the phases need beside tables of nodes: four sections being
// written, blocks being encoded, and a small share of edges.
func (b *builder) workMemory() int64 {
	return 4*(2*int64(b.writeBuffer)+4*layout.PageSize) + b.encoderMemory() + 4<<20
}

// enough returns the budget in which need bytes beyond what is taken now find room:
// write buffers grow with the budget, 8 of them by 1/128 each.
func (b *builder) enough(need int64) int64 {
	n := b.mem.total + max(need-b.mem.free(), 0)*16/15 + 64<<10
	if b.keeps {
		n += n / 7 // the eighth in which edges are kept
	}
	return n
}

// roomToWork refuses a budget that leaves too little for workMemory.
func (b *builder) roomToWork() error {
	if need := b.workMemory(); need > b.mem.free() {
		return &BudgetError{Consumer: "buffers of the build", Need: b.enough(need) - b.mem.used, Free: b.mem.free(), Total: b.mem.total}
	}
	return nil
}

// write writes all sections.
func (b *builder) write() (*layout.Manifest, error) {
	var edges source.Edges = countedEdges{b.o.Edges, b}
	var kept *keptEdges
	n, counted := edges.Count()
	if counted && n > layout.MaxEdges { // before the first of them is read
		return nil, unsupported("%s: %d edges; a store holds up to %d", edges.Name(), n, int64(layout.MaxEdges))
	}
	if !counted { // it takes parsing to know the edges
		var err error
		if kept, err = b.keep(edges, (b.mem.free()-b.workMemory())/8); err != nil {
			return nil, err
		}
		defer kept.drop()
		edges, b.keeps = kept, true
	}
	known := int64(-1)
	if b.o.NumNodes > 0 {
		known = b.o.NumNodes
	} else if x := b.o.Arrays["x"]; x != nil {
		known = x.Len()
	} else {
		for _, name := range slices.Sorted(maps.Keys(b.o.Arrays)) {
			known = max(known, b.o.Arrays[name].Len())
		}
	}
	if known > maxNodes {
		return nil, tooManyNodes("the node arrays")
	}
	settings := layout.Settings{BlockSize: b.o.BlockSize, Compression: b.o.Compression, IDs: IDsDense}
	var ranks *ranker
	if b.o.NodeIDs != nil || b.o.IDs == IDsRank || b.o.IDs == IDsAuto && b.o.RankIDs && known < 0 && len(b.o.Splits) == 0 {
		settings.IDs = IDsRank
		timed := b.stopwatch("rank ids")
		var err error
		if ranks, err = b.rankIDs(edges); err != nil {
			return nil, err
		}
		defer ranks.close()
		if known >= 0 && ranks.distinct > known {
			return nil, faultf(edges.Name(), -1, "%d distinct ids for %d nodes; give a larger num_nodes", ranks.distinct, known)
		}
		if known < 0 {
			known = ranks.distinct
		}
		edges = &rankedEdges{edges, ranks, b.o.NodeIDs, b.o.Edges}
		timed()
	}

	timed := b.stopwatch("count edges")
	best := b.candidates()[0]
	if known > 0 && kept != nil && b.chooseOrder(known, b.mem.free()-b.workMemory()) != best {
		kept.drop() // an order is worth more than a pass
	}
	tables := b.degreeTables(known)
	var spilled *spilledEdges
	if manyPasses(best) && tables > 0 && (kept != nil || ranks != nil) {
		var err error
		if spilled, err = b.spillOnce(edges); err != nil {
			return nil, err
		}
		defer spilled.drop()
		edges = spilled
	}
	c, err := b.count(edges, known, tables)
	if err != nil {
		return nil, err
	}
	defer c.close()
	b.numNodes = known
	if known < 0 {
		b.numNodes = c.maxID + 1
	}
	if n := b.edits.idRange(b.numNodes); n > layout.MaxEdges {
		return nil, unsupported("%s: %d edges; a store holds up to %d", edges.Name(), n, int64(layout.MaxEdges))
	}
	if b.numNodes > 0 {
		c.targets.cover(uint32(b.numNodes - 1))
	}
	timed()
	b.report.InputBytes = b.inputBytes(b.edits.listed)

	timed = b.stopwatch("order nodes")
	c.shrink(b.numNodes)
	name := OrderOriginal
	if b.numNodes == 0 {
		name = best
	} else if c.out != nil {
		room := b.mem.free() + c.tableBytes() + spilled.buffers() - b.workMemory()
		if name = b.chooseOrder(b.numNodes, room); name != best && kept != nil && kept.whole {
			if better := b.chooseOrder(b.numNodes, room+kept.bytes()); better != name {
				kept.drop()
				name = better
			}
		}
	}
	if !manyPasses(name) || kept != nil && kept.whole {
		spilled.drop()
	}
	r, err := b.orderNodes(edges, c, name)
	if err != nil {
		return nil, err
	}
	defer r.close()
	settings.Order = r.name
	timed()

	timed = b.stopwatch("write graph")
	if b.scratch.Limit()-b.scratch.Used() < b.edits.streamed()*wideRecord+maxParts*layout.PageSize {
		spilled.drop() // partitions need the room more
	}
	numEdges, err := b.writeAdjacency(edges, r, b.numNodes, c.targets)
	if err != nil {
		return nil, err
	}
	b.edits.tell(&b.report)
	r.closeOriginal()
	ranks.close()
	kept.drop()
	timed()

	timed = b.stopwatch("write arrays")
	for _, name := range slices.Sorted(maps.Keys(b.o.Arrays)) {
		j, err := b.job(name, b.o.Arrays[name])
		if err != nil {
			return nil, err
		}
		if err := b.writeRows(j, r); err != nil {
			return nil, err
		}
	}
	if b.unlabelled > 0 {
		b.note(fmt.Sprintf("%d labels are NaN and kept as -1: no label", b.unlabelled))
	}
	if b.infinite > 0 {
		b.note(fmt.Sprintf("%d features are past the range of %s and became infinite", b.infinite, b.o.FeatureDType))
	}
	timed()
	m := &layout.Manifest{NumNodes: b.numNodes, NumEdges: numEdges, NumClasses: b.classes, Settings: settings, Source: b.o.SourceRecord}
	if k := len(b.stripes.dirs); k > 0 {
		m.Settings.Stripes, m.Settings.StripeUnit, m.Stripes = k, b.stripeUnit(), b.stripes.dirs
	}
	if n := b.edits.idRange(b.numNodes); n > numEdges {
		m.EdgeIDs = n
	}
	return m, nil
}

// writeIDTables writes node.internal and node.original.
func (b *builder) writeIDTables(r *order) error {
	for _, t := range []struct {
		name  string
		table []uint32
	}{{layout.SectionInternal, r.internal}, {layout.SectionOriginal, r.original}} {
		w, err := b.create(layout.Section{Name: t.name, Kind: layout.KindArray, Required: true, DType: layout.IDType(b.numNodes).String(), Rows: b.numNodes})
		if err != nil {
			return err
		}
		if err := b.writeArea(w, raw(t.table)); err != nil {
			w.abort()
			return err
		}
		if err := w.close(); err != nil {
			return err
		}
	}
	return nil
}

// readBack reads a finished section's file into buf, whole pages.
func (b *builder) readBack(name string, buf []byte) error {
	i := slices.IndexFunc(b.sections, func(s layout.Section) bool { return s.Name == name })
	f, err := storage.OpenSection(b.o.FS, b.stage.dir, b.stripes.dirs, b.stripeUnit(), &b.sections[i], storage.Flags{})
	if err != nil {
		return err
	}
	defer f.Close()
	for at := 0; at < len(buf); at += 4 << 20 {
		r := storage.Request{File: f, Offset: int64(at), Buf: buf[at:min(at+4<<20, len(buf))]}
		if err := b.pool.Do(&r); err != nil {
			return err
		}
	}
	return nil
}

func (b *builder) note(s string) { b.report.Notes = append(b.report.Notes, s) }

// stopwatch begins a stage; the function it returns ends it.
func (b *builder) stopwatch(stage string) func() {
	start := time.Now()
	return func() { b.report.StageSeconds[stage] += time.Since(start).Seconds() }
}

// progress passes on a stage's progress, now and then. It may be called on any
// goroutine.
func (b *builder) progress(stage string, done, total int64) {
	if b.o.Progress == nil {
		return
	}
	b.tell.Lock()
	defer b.tell.Unlock()
	if now := time.Now(); stage != b.tell.stage || done == total || now.Sub(b.tell.at) >= 50*time.Millisecond {
		b.tell.stage, b.tell.at = stage, now
		b.o.Progress(stage, done, total)
	}
}

func (b *builder) edgeProgress(stage string, e source.Edges) func(done int64) {
	total, _ := e.Count()
	return func(done int64) { b.progress(stage, done, total) }
}

// fileBytes is the size of the file of that name, or else what a source's values
// take in memory.
func fileBytes(name string, values int64) int64 {
	if fi, err := os.Stat(name); err == nil && fi.Mode().IsRegular() {
		return fi.Size()
	}
	return values
}

func (b *builder) inputBytes(edges int64) int64 {
	n := fileBytes(b.o.Edges.Name(), 16*edges)
	for _, group := range []map[string]source.Rows{b.o.Arrays, b.o.Splits} {
		for _, r := range group {
			n += fileBytes(r.Name(), r.Len()*rowBytes(r))
		}
	}
	return n
}

// directoryBytes adds up the files of a directory.
func directoryBytes(fsys storage.FS, dir string) (int64, error) {
	entries, err := fsys.ReadDir(dir)
	if err != nil {
		return 0, ioError(err, "listing the finished store")
	}
	n := int64(0)
	for _, e := range entries {
		fi, err := e.Info()
		if err != nil {
			return 0, ioError(err, "looking at the finished store")
		}
		n += fi.Size()
	}
	return n, nil
}
