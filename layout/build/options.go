package build

// The settings of a build and their defaults.

import (
	"encoding/json"
	"slices"

	"github.com/goagnes/goagnes/goagnes/storage"
	"github.com/goagnes/goagnes/layout"
	"github.com/goagnes/goagnes/layout/build/edgelist"
	"github.com/goagnes/goagnes/layout/build/fault"
	"github.com/goagnes/goagnes/layout/build/nodes"
	"github.com/goagnes/goagnes/layout/build/order"
	"github.com/goagnes/goagnes/layout/build/source"
	"github.com/goagnes/goagnes/layout/build/staging"
)

// DefaultMemory is the budget of a build, in bytes, where none is given.
const DefaultMemory = 2 << 30

// Values of Options.IDs.
const (
	IDsAuto = "auto" // rank where Options.RankIDs says that the source's ids may be sparse, and nothing else goes by id
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
	// are ranked then, whatever IDs and RankIDs say but for layout.IDsDense, which is refused.
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
	// SourceRecord makes the record that is kept in the store for people: what was read,
	// how, and, from the counts, what became of the edges. It does not enter the build id.
	// nil = no record.
	SourceRecord func(EditCounts) json.RawMessage
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

// complete fills in defaults and refuses what cannot be.
func (o *Options) complete() error {
	if o.Edges == nil {
		return fault.Usage("edges are missing")
	}
	if o.IDs == "" {
		o.IDs = IDsAuto
	}
	if !slices.Contains([]string{IDsAuto, layout.IDsDense, layout.IDsRank}, o.IDs) {
		return fault.Usage("ids=%q: it is one of %q, %q, %q", o.IDs, IDsAuto, layout.IDsDense, layout.IDsRank)
	}
	if o.NodeIDs != nil && o.IDs == layout.IDsDense {
		return fault.Usage("ids=%q with the list of ids in %s; such ids are ranked, and dense ones keep their values then", o.IDs, o.NodeIDs.Name())
	}
	if o.Order == "" {
		o.Order = order.Auto
	}
	if !slices.Contains(order.Names, o.Order) {
		return fault.Usage("order=%q: it is one of %q", o.Order, order.Names)
	}
	if o.Order == order.Visit && o.Splits[nodes.TrainSplit] == nil {
		return fault.Usage("order=%q follows samples from the split %q, and there is none: give it, or order=%q", order.Visit, nodes.TrainSplit, order.Degree)
	}
	if o.BlockSize == 0 {
		o.BlockSize = layout.DefaultBlockSize
	}
	if bs := o.BlockSize; bs < layout.MinBlockSize || bs > layout.MaxBlockSize || bs&(bs-1) != 0 {
		return fault.Usage("block_size=%d: it is a power of two from %d to %d bytes", bs, layout.MinBlockSize, layout.MaxBlockSize)
	}
	level, canonical, err := layout.ParseCompression(o.Compression)
	if err != nil {
		return fault.Unsupported("compression=%s: %v", o.Compression, err)
	}
	o.level, o.Compression = level, canonical
	if d := o.FeatureDType; d != 0 && d != layout.Float32 && d != layout.Float16 {
		return fault.Unsupported("feature_dtype=%s: features are kept as float32 or float16", d)
	}
	if o.FS == nil {
		o.FS = storage.OS
	}
	if o.Memory == 0 {
		o.Memory = DefaultMemory
	}
	for _, n := range []struct {
		name  string
		value int64
	}{{"memory", o.Memory}, {"scratch_limit", o.ScratchLimit}, {"num_threads", int64(o.Threads)}, {"num_nodes", o.NumNodes}} {
		if n.value < 0 {
			return fault.Usage("%s=%d: it is not negative", n.name, n.value)
		}
	}
	if o.NumNodes > edgelist.MaxNodes {
		return edgelist.TooManyNodes("num_nodes")
	}
	if o.Threads == 0 {
		o.Threads = 2
	}
	return nil
}

// knownNodes is the number of nodes that the options tell, -1 where the edges have to.
func (o *Options) knownNodes() int64 {
	if o.NumNodes > 0 {
		return o.NumNodes
	}
	if x := o.Arrays["x"]; x != nil {
		return x.Len()
	}
	known := int64(-1)
	for _, rows := range o.Arrays {
		known = max(known, rows.Len())
	}
	return known
}

// ScratchDirs are the folders in which a build at path has its scratch.
func (o *Options) ScratchDirs(path string) []string {
	if o.Scratch != "" {
		return []string{o.Scratch}
	}
	return staging.ScratchDirs(path, o.Stripes)
}
