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
// after sorting. Where duplicates are dropped the order "degree" takes a sort of its own,
// to go by the edges that stay; added self-loops count for no order. Duplicates of a node
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
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/goagnes/goagnes/goagnes/storage"
	"github.com/goagnes/goagnes/layout"
	"github.com/goagnes/goagnes/layout/build/adjacency"
	"github.com/goagnes/goagnes/layout/build/edgelist"
	"github.com/goagnes/goagnes/layout/build/fault"
	"github.com/goagnes/goagnes/layout/build/ledger"
	"github.com/goagnes/goagnes/layout/build/nodes"
	"github.com/goagnes/goagnes/layout/build/order"
	"github.com/goagnes/goagnes/layout/build/rank"
	"github.com/goagnes/goagnes/layout/build/source"
	"github.com/goagnes/goagnes/layout/build/staging"
	"github.com/goagnes/goagnes/layout/build/workspace"
)

// baseMemory is what readers, chunks in flight and small tables take.
const baseMemory = 8<<20 + edgelist.ScanBytes

// builder is the state of one build.
type builder struct {
	*workspace.Space
	o      Options
	store  *staging.Store
	report Report

	keeps    bool // edges were kept between passes, or were to be
	edits    edgelist.Edits
	numNodes int64
}

// Build makes a store at path.
func Build(ctx context.Context, path string, o Options) (*Report, error) {
	return build(ctx, path, o, workspace.Tuning{})
}

func build(ctx context.Context, path string, o Options, t workspace.Tuning) (report *Report, err error) {
	start := time.Now()
	if err := o.complete(); err != nil {
		return nil, err
	}
	w := &workspace.Space{Ctx: ctx, Mem: ledger.New(o.Memory), FS: o.FS, Threads: o.Threads, Tune: t, Tell: o.Progress, Notes: append([]string{}, o.Notes...)}
	b := &builder{Space: w, o: o}
	if b.edits, err = edgelist.NewEdits(o.Undirected, o.SelfLoops, o.Duplicates); err != nil {
		return nil, err
	}
	b.report = Report{Kind: Kind, StageSeconds: map[string]float64{}, BlockSize: o.BlockSize}
	if err := o.refuse(); err != nil {
		return nil, err
	}
	if err := b.Mem.Charge("readers", baseMemory); err != nil {
		return nil, err
	}
	known := o.knownNodes()
	if known > edgelist.MaxNodes {
		return nil, edgelist.TooManyNodes("the node arrays")
	}
	if err := nodes.Check(ctx, o.Arrays, o.Splits, known, o.FeatureDType); err != nil {
		return nil, err
	}
	scratch := o.ScratchDirs(path)
	storage.RemoveAbandoned(o.FS, scratch) // also where the path is refused
	if b.store, err = staging.Open(w, path, o.Overwrite, o.Stripes, o.BlockSize, o.writeBuffer()); err != nil {
		return nil, err
	}
	defer func() {
		err = errors.Join(err, b.store.Discard())
	}()
	w.Pool = storage.NewPool(storage.PoolOptions{FS: o.FS, IO: o.IO})
	defer w.Pool.Close()
	if w.Scratch, err = storage.OpenScratch(o.FS, scratch, o.ScratchLimit); err != nil {
		return nil, err
	}
	if w.Scratch.InMemory() {
		held := int64(0)
		w.Scratch.CountMemory(func(used int64) error {
			if used > held {
				if err := w.Mem.Charge("scratch in memory", used-held); err != nil {
					return err
				}
			} else {
				w.Mem.Discharge(held - used)
			}
			held = used
			return nil
		})
	}
	defer func() {
		err = errors.Join(err, w.Scratch.Close())
	}()
	m, err := b.write()
	if err != nil {
		if cause := context.Cause(ctx); cause != nil {
			err = cause // what failed after it followed from it
		}
		return nil, err
	}
	timed := b.stopwatch("seal")
	if err := b.store.Seal(m); err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	r := &b.report
	if r.StoreBytes, err = b.store.Size(); err != nil {
		return nil, err
	}
	// What is beside the store is removed first: a process that is killed after the
	// commit leaves the store and nothing else.
	left := w.Scratch.Close()
	if err := b.store.Commit(o.Overwrite); err != nil {
		return nil, errors.Join(err, left)
	}
	if left != nil {
		w.Note(fmt.Sprintf("scratch is left over, the next build removes it: %v", left))
	}
	timed()
	c := w.Pool.Counters()
	r.BytesRead, r.BytesWritten = w.BytesRead+c.BytesRead, w.BytesWritten+c.BytesWritten
	if c.FallbackFile != "" {
		w.Note(fmt.Sprintf("the file system of %s refuses direct I/O: files went through the page cache, which memory does not bound", filepath.Dir(c.FallbackFile)))
	}
	r.NumNodes, r.NumEdges, r.NumClasses = m.NumNodes, m.NumEdges, m.NumClasses
	if x := m.Section(layout.SectionX); x != nil {
		r.NumFeatures = x.RowElements()
	}
	r.Order, r.IDs = m.Settings.Order, m.Settings.IDs
	r.BuildID = fmt.Sprintf("%x", m.ID)
	r.ScratchBytes = w.Scratch.Peak()
	r.PeakMemoryPlanned = w.Mem.Peak
	r.Notes = w.Notes
	r.Seconds = time.Since(start).Seconds()
	return r, nil
}

// write writes all sections.
func (b *builder) write() (*layout.Manifest, error) {
	edges := edgelist.CountReads(b.Space, b.o.Edges)
	var kept *edgelist.Kept
	n, counted := edges.Count()
	if counted && n > layout.MaxEdges { // before the first of them is read
		return nil, fault.Unsupported("%s: %d edges; a store holds up to %d", edges.Name(), n, int64(layout.MaxEdges))
	}
	if !counted { // it takes parsing to know the edges
		var err error
		if kept, err = edgelist.KeepEdges(b.Space, edges, (b.Mem.Free()-b.workMemory())/8); err != nil {
			return nil, err
		}
		defer kept.Drop()
		edges, b.keeps = kept, true
	}
	known := b.o.knownNodes()
	settings := layout.Settings{BlockSize: b.o.BlockSize, Compression: b.o.Compression, IDs: layout.IDsDense}
	var ranks *rank.Ranks
	if b.o.NodeIDs != nil || b.o.IDs == layout.IDsRank || b.o.IDs == IDsAuto && b.o.RankIDs && known < 0 && len(b.o.Splits) == 0 {
		settings.IDs = layout.IDsRank
		timed := b.stopwatch("rank ids")
		var err error
		if ranks, err = rank.Find(b.store, edges, b.o.NodeIDs); err != nil {
			return nil, err
		}
		defer ranks.Close()
		if known >= 0 && ranks.Distinct > known {
			return nil, source.ErrorAt(edges.Name(), -1, "%d distinct ids for %d nodes; give a larger num_nodes", ranks.Distinct, known)
		}
		if known < 0 {
			known = ranks.Distinct
		}
		edges = ranks.Replace(edges, b.o.NodeIDs)
		timed()
	}

	timed := b.stopwatch("count edges")
	among := order.Candidates(b.o.Order, b.o.Splits[nodes.TrainSplit] != nil)
	best := among[0]
	if known > 0 && kept != nil && order.Choose(among, known, b.Mem.Free()-b.workMemory()) != best {
		kept.Drop() // an order is worth more than a pass
	}
	tables := order.DegreeTables(among, known, b.Mem.Free()-b.workMemory())
	var spilled *edgelist.Spilled
	if order.ManyPasses(best) && tables > 0 && (kept != nil || ranks != nil) {
		var err error
		if spilled, err = edgelist.SpillOnce(b.Space, edges); err != nil {
			return nil, err
		}
		defer spilled.Drop()
		edges = spilled
	}
	c, err := edgelist.Count(b.Space, edges, &b.edits, known, tables)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	b.numNodes = known
	if known < 0 {
		b.numNodes = c.MaxID + 1
	}
	if n := b.edits.IDRange(b.numNodes); n > layout.MaxEdges {
		return nil, fault.Unsupported("%s: %d edges; a store holds up to %d", edges.Name(), n, int64(layout.MaxEdges))
	}
	if b.numNodes > 0 {
		c.Targets.Cover(uint32(b.numNodes - 1))
	}
	timed()
	b.report.InputBytes = b.inputBytes(b.edits.Listed)

	timed = b.stopwatch("order nodes")
	c.Shrink(b.numNodes)
	name := layout.OrderOriginal
	if b.numNodes == 0 {
		name = best
	} else if c.Out != nil {
		room := b.Mem.Free() + c.TableBytes() + spilled.Buffers() - b.workMemory()
		if name = order.Choose(among, b.numNodes, room); name != best && kept != nil && kept.Whole {
			if better := order.Choose(among, b.numNodes, room+kept.Bytes()); better != name {
				kept.Drop()
				name = better
			}
		}
	}
	if !order.ManyPasses(name) || kept != nil && kept.Whole {
		spilled.Drop()
	}
	if name == order.Degree && b.edits.DropDuplicates && b.numNodes > 0 {
		degrees := ledger.View[uint32](c.Out.Bytes)[:b.numNodes]
		if err := adjacency.OutDegrees(b.store, edges, &b.edits, b.numNodes, c.Targets, degrees); err != nil {
			return nil, err
		}
	}
	to := nodes.New(b.store, b.numNodes, b.o.FeatureDType)
	r, err := b.orderNodes(to, edges, c, name, best)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	settings.Order = r.Name
	timed()

	timed = b.stopwatch("write graph")
	if b.Scratch.Limit()-b.Scratch.Used() < adjacency.PartitionBytes(b.edits.Streamed()) {
		spilled.Drop() // partitions need the room more
	}
	numEdges, err := adjacency.Write(b.store, edges, &b.edits, r, b.numNodes, c.Targets, b.o.BlockSize, b.o.level)
	if err != nil {
		return nil, err
	}
	b.tellEdits()
	if b.edits.Listed == 0 {
		b.Note(edges.Name() + ": no edges")
	}
	r.CloseOriginal()
	ranks.Close()
	kept.Drop()
	timed()

	timed = b.stopwatch("write arrays")
	classes, err := to.WriteArrays(b.o.Arrays, r.Internal)
	if err != nil {
		return nil, err
	}
	b.report.FeaturesNaN, b.report.FeaturesInfinite = to.OddFeatures()
	timed()
	m := &layout.Manifest{NumNodes: b.numNodes, NumEdges: numEdges, NumClasses: classes, Settings: settings}
	if b.o.SourceRecord != nil {
		if m.Source = b.o.SourceRecord(b.report.EditCounts); !json.Valid(m.Source) {
			panic("build: a source record that is no JSON")
		}
	}
	if n := b.edits.IDRange(b.numNodes); n > numEdges {
		m.EdgeIDs = n
	}
	return m, nil
}

// orderNodes writes the splits, orders the nodes and writes the tables of ids. best is
// the order that a larger budget would give.
func (b *builder) orderNodes(to *nodes.Writer, e source.Edges, c *edgelist.Census, name, best string) (*order.Order, error) {
	if name != best {
		instead := "nodes keep their original order"
		if name != layout.OrderOriginal {
			instead = "nodes are ordered by " + name
		}
		need := b.workMemory() + order.Bytes(best, b.numNodes) - c.TableBytes()
		b.Note(fmt.Sprintf("%s: ordering %d nodes by %s needs memory=%d, and %d were given",
			instead, b.numNodes, best, b.enough(need), b.Mem.Total))
	}
	train, err := to.WriteSplits(b.o.Splits, order.WantsTrain(name))
	if err != nil {
		return nil, err
	}
	defer train.Close()
	var bits []uint64
	if train != nil {
		bits = ledger.View[uint64](train.Bytes)
	}
	r, err := order.Find(b.Space, e, c, name, b.numNodes, b.edits.Undirected, bits)
	if err != nil || name == layout.OrderOriginal {
		return r, err
	}
	if err := to.WriteIDs(r.Internal, r.Original); err != nil {
		r.Close()
		return nil, err
	}
	return r, nil
}

// stopwatch begins a stage; the function it returns ends it.
func (b *builder) stopwatch(stage string) func() {
	start := time.Now()
	return func() { b.report.StageSeconds[stage] += time.Since(start).Seconds() }
}

func (b *builder) inputBytes(edges int64) int64 {
	n := workspace.FileBytes(b.o.Edges.Name(), 16*edges)
	for _, group := range []map[string]source.Rows{b.o.Arrays, b.o.Splits} {
		for _, r := range group {
			n += workspace.FileBytes(r.Name(), r.Len()*nodes.RowBytes(r))
		}
	}
	return n
}
