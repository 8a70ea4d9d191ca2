package goagnes

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/goagnes/goagnes/goagnes/storage"
	"github.com/goagnes/goagnes/layout"
	"github.com/goagnes/goagnes/layout/build"
	"github.com/goagnes/goagnes/layout/build/edgelist"
	"github.com/goagnes/goagnes/layout/build/source"
	"github.com/goagnes/goagnes/layout/build/source/array"
	"github.com/goagnes/goagnes/layout/build/source/formats"
)

// Memory is an array in memory that a build reads: shape, element type,
// strides. It must stay unchanged until the build has ended.
type Memory = array.Array

// Input is an array that a build reads: a file or memory, not both.
type Input struct {
	File   string  // .npy, or for edges also what [Import] reads as snap, csv, mtx or scipy
	Memory *Memory // an array of the process
}

func (i Input) given() bool { return i.File != "" || i.Memory != nil }

func (i Input) String() string {
	if i.File != "" {
		return i.File
	}
	return fmt.Sprintf("memory %s %v", i.Memory.DType, i.Memory.Shape)
}

// BuildOptions configure [Build] and [Import]. The zero value of each field is
// its default. Edges that are dropped leave gaps in the edge ids, which stay
// positions in the imported list: see package build, "Edits of the edge list".
// [Import] takes edges, arrays and splits from its source; those
// given here replace or add to them.
type BuildOptions struct {
	EdgeIndex    Input            // (2, E) or (E, 2) integers, or a text edge list: sources and targets
	X            Input            // (N, ...) features: float32, float16, or any float with FeatureDType
	Y            Input            // (N,) integer labels, negative for none; floats with NaN for none
	Splits       map[string]Input // node sets: ids, or bool masks of length N
	Split        string           // "per-class:TRAIN,VAL": draw splits train and val with so many nodes of each class, test of the other labelled ones; they replace the source's
	SplitSeed    uint64           // of Split
	NumNodes     int64            // default: rows of X, else what a matrix of edges states, else the number of ranked ids, else the largest id + 1
	IDs          string           // "auto", "dense" or "rank"; auto ranks the ids of a text edge list that comes alone
	Undirected   bool             // add the reverse of every edge, with the edge id E + i; self-loops get none
	SelfLoops    string           // "keep", "drop", or "add": every node without one gets one, with the last edge ids
	Duplicates   string           // "keep", or "drop": the first edge of each source and target is kept, reverses included
	Order        string           // of nodes in the store: "original", "degree", "bfs", "visit" or "auto": visit where there is a train split, else degree
	BlockSize    int64            // bytes, default 1 MiB
	FeatureDType string           // "float32" or "float16", default as given
	Compression  string           // of graph blocks: "none", "zstd" (level 3) or "zstd:LEVEL", 1 to 9; default "none"
	Memory       int64            // bytes that the build may use, default 2 GiB
	Scratch      string           // directory for scratch files, default beside the store
	ScratchLimit int64            // bytes, default half the free space
	NumThreads   int              // default 2
	IO           string           // the way to the device, as OpenOptions.IO
	Stripes      []string         // directories over which the store is spread, each on an SSD of its own; default none
	Overwrite    bool             // replace a store at path
	Format       string           // of Import's source, default "auto"
	SplitIndex   int              // of Import: which split of a source that has several, from 0
	Progress     Progress         // called at most 20 times a second
	FS           storage.FS       // of the store and scratch, default the operating system's; for tests and measurement
}

// Progress is told how far a stage is; total is 0 where it is not known.
type Progress func(stage string, done, total int64)

// BuildReport says what was built.
type BuildReport = build.Report

// KindBuild is the kind of a BuildReport.
const KindBuild = build.Kind

// Build makes a store at path from arrays and edge lists, out of core. Bad
// input gives a *source.Error with file and line or index, and leaves no store.
func Build(ctx context.Context, path string, o BuildOptions) (*BuildReport, error) {
	if !o.EdgeIndex.given() {
		return nil, argumentf("edge_index", "is missing")
	}
	return withUnpacked(path, o, func(u *unpacked) (*BuildReport, error) {
		return buildStore(ctx, path, "", &source.Dataset{NumNodes: -1}, o, u)
	})
}

// Import makes a store at path from a data set in a known format: see
// [Formats].
func Import(ctx context.Context, path, from string, o BuildOptions) (*BuildReport, error) {
	format := o.Format
	if format == "" {
		format = "auto"
	}
	if o.SplitIndex < 0 {
		return nil, argumentf("split_index", "%d is negative; splits count from 0", o.SplitIndex)
	}
	return withUnpacked(path, o, func(u *unpacked) (*BuildReport, error) {
		file, err := u.file(ctx, from)
		if err != nil {
			return nil, err
		}
		d, err := formats.Open(ctx, file, format, source.Options{Scratch: o.Scratch, SplitIndex: o.SplitIndex})
		if err != nil {
			return nil, err
		}
		if o.SplitIndex > 0 && !d.SplitIndexed {
			return nil, argumentf("split_index", "%d: %s has no several splits to choose from", o.SplitIndex, from)
		}
		for i, note := range d.Notes {
			d.Notes[i] = u.called(note)
		}
		return buildStore(ctx, path, from, d, o, u)
	})
}

// Formats returns the names of the formats that [Import] reads.
func Formats() []string { return formats.Names() }

// sourceRecord is what a store keeps for people about its source.
type sourceRecord struct {
	Source     string            `json:"source,omitempty"`
	Format     string            `json:"format,omitempty"`
	Inputs     map[string]string `json:"inputs,omitempty"`
	Undirected bool              `json:"undirected,omitempty"`
	SelfLoops  string            `json:"self_loops,omitempty"`
	Duplicates string            `json:"duplicates,omitempty"`
	Edits      *build.EditCounts `json:"edits,omitempty"` // what these three came to; nil where none was asked for
	Split      string            `json:"split,omitempty"`
	SplitSeed  uint64            `json:"split_seed,omitempty"`
	Notes      []string          `json:"notes,omitempty"`
}

func buildStore(ctx context.Context, path, from string, d *source.Dataset, o BuildOptions, u *unpacked) (*BuildReport, error) {
	if _, _, err := layout.ParseCompression(o.Compression); err != nil {
		return nil, &UnsupportedError{"compression", o.Compression, `"none", "zstd" and "zstd:1" to "zstd:9" are`}
	}
	if err := checkIO(o.IO); err != nil {
		return nil, err
	}
	so := source.Options{Scratch: o.Scratch}
	record := sourceRecord{Source: from, Format: d.Format, Notes: d.Notes, Inputs: map[string]string{},
		Undirected: o.Undirected, SelfLoops: o.SelfLoops, Duplicates: o.Duplicates, Split: o.Split, SplitSeed: o.SplitSeed}
	options := build.Options{
		Edges: d.Edges, Arrays: maps.Clone(d.Arrays), Splits: maps.Clone(d.Splits), NumNodes: max(d.NumNodes, 0),
		IDs: o.IDs, RankIDs: d.RankIDs, NodeIDs: d.NodeIDs, Undirected: o.Undirected, SelfLoops: o.SelfLoops, Duplicates: o.Duplicates,
		Order: o.Order, BlockSize: o.BlockSize, Compression: o.Compression, Memory: o.Memory,
		Scratch: o.Scratch, ScratchLimit: o.ScratchLimit, Stripes: o.Stripes, Overwrite: o.Overwrite, Notes: d.Notes,
		Threads: o.NumThreads, Progress: o.Progress, IO: o.IO, FS: o.FS,
	}
	if options.Arrays == nil {
		options.Arrays = map[string]source.Rows{}
	}
	if options.Splits == nil {
		options.Splits = map[string]source.Rows{}
	}
	if o.NumNodes != 0 {
		options.NumNodes = o.NumNodes
	}
	var err error
	if o.FeatureDType != "" {
		if options.FeatureDType, err = layout.ParseDType(o.FeatureDType); err != nil {
			return nil, &UnsupportedError{"feature_dtype", o.FeatureDType, `"float32" and "float16" are`}
		}
		if t := options.FeatureDType; t != layout.Float32 && t != layout.Float16 {
			return nil, &UnsupportedError{"feature_dtype", o.FeatureDType, `"float32" and "float16" are`}
		}
	}
	if e := o.EdgeIndex; e.given() {
		record.Inputs["edge_index"] = e.String()
		options.NodeIDs = nil
		if e.Memory != nil {
			options.Edges, err = array.EdgesFromMemory(*e.Memory)
		} else {
			err = edgesFromFile(ctx, &options, &record, e.File, d.NumNodes, o, so, u)
		}
		if err != nil {
			return nil, err
		}
	}
	rows := func(argument string, in Input) (source.Rows, error) {
		record.Inputs[argument] = in.String()
		if in.Memory != nil {
			return array.RowsFromMemory(*in.Memory)
		}
		file, err := u.file(ctx, in.File)
		if err != nil {
			return nil, err
		}
		return formats.RowsFromFile(file, so)
	}
	for _, a := range []struct {
		name string
		in   Input
	}{{"x", o.X}, {"y", o.Y}} {
		if a.in.given() {
			if options.Arrays[a.name], err = rows(a.name, a.in); err != nil {
				return nil, err
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(o.Splits)) {
		if options.Splits[name], err = rows("split "+name, o.Splits[name]); err != nil {
			return nil, err
		}
	}
	if o.Split != "" {
		notes, err := drawSplits(ctx, o, options.Arrays["y"], options.Splits)
		if err != nil {
			return nil, err
		}
		options.Notes = slices.Concat(options.Notes, notes)
		record.Notes = options.Notes
	} else if o.SplitSeed != 0 {
		return nil, argumentf("split_seed", "%d without a split to draw", o.SplitSeed)
	}
	options.SourceRecord = func(counts build.EditCounts) json.RawMessage {
		if o.Undirected || o.SelfLoops == edgelist.Drop || o.SelfLoops == edgelist.Add || o.Duplicates == edgelist.Drop {
			record.Edits = &counts
		}
		b, err := json.Marshal(record)
		if err != nil {
			panic("goagnes: a source record cannot be marshalled: " + err.Error())
		}
		return b
	}
	u.rest(&o)
	options.ScratchLimit, options.Memory = o.ScratchLimit, o.Memory
	return build.Build(ctx, path, options)
}

// edgesFromFile makes the edges of a file those of a build: with the number of nodes
// that the file states, unless the caller gives one, and what is not kept of it told.
// known is the number of nodes of the source that is imported otherwise, -1 for none.
func edgesFromFile(ctx context.Context, to *build.Options, record *sourceRecord, path string, known int64, o BuildOptions, so source.Options, u *unpacked) error {
	file, err := u.file(ctx, path)
	if err != nil {
		return err
	}
	d, err := formats.OpenEdges(file, so)
	if err != nil {
		return err
	}
	for i, note := range d.Notes {
		d.Notes[i] = u.called(note)
	}
	to.Edges, to.RankIDs = d.Edges, d.RankIDs
	if d.NumNodes >= 0 && o.NumNodes == 0 {
		if known >= 0 && known != d.NumNodes {
			return argumentf("edge_index", "%s is of %d nodes, the source of %d; give num_nodes", path, d.NumNodes, known)
		}
		to.NumNodes = d.NumNodes
	}
	to.Notes = slices.Concat(to.Notes, d.Notes)
	record.Notes = to.Notes
	return nil
}
