package build

// What a build reports.

import (
	"fmt"
)

// tellEdits puts what was changed in the report.
func (b *builder) tellEdits() {
	e, r := &b.edits, &b.report
	r.EdgesListed = e.Listed
	note := func(format string, a ...any) { b.Note(fmt.Sprintf(format, a...)) }
	if e.Undirected {
		r.ReversesAdded = e.Listed - e.Loops
		note("undirected: %d reverse edges were added; the reverse of edge i has the edge id %d + i", r.ReversesAdded, e.Listed)
		if e.Loops > 0 && !e.DropLoops {
			note("undirected: %d self-loops are their own reverse and got none", e.Loops)
		}
	}
	if e.DropLoops {
		r.SelfLoopsDropped = e.Loops
		note("self_loops=drop: %d self-loops were dropped; their edge ids stay unused", e.Loops)
	}
	if e.DropDuplicates {
		r.DuplicatesDropped = e.Duplicates
		note("duplicates=drop: %d edges with the source and target of an earlier one were dropped; their edge ids stay unused", e.Duplicates)
	}
	if e.AddLoops {
		r.SelfLoopsAdded = e.Added
		note("self_loops=add: %d nodes without a self-loop got one; that of node v has the edge id %d + v", e.Added, e.LoopIDs())
	}
}

// EditCounts say what became of the imported list of edges.
type EditCounts struct {
	EdgesListed       int64 `json:"edges_listed"`       // of the imported list
	ReversesAdded     int64 `json:"reverses_added"`     // by undirected, duplicates counted
	SelfLoopsDropped  int64 `json:"self_loops_dropped"` // of the imported list
	SelfLoopsAdded    int64 `json:"self_loops_added"`
	DuplicatesDropped int64 `json:"duplicates_dropped"`
}

// Kind is the kind of a Report, by which its document is told from others.
const Kind = "build"

// Report says what was built. Bytes count what was moved between files and memory.
type Report struct {
	Kind     string `json:"kind"` // Kind
	NumNodes int64  `json:"num_nodes"`
	NumEdges int64  `json:"num_edges"` // kept and added
	EditCounts
	NumFeatures       int64              `json:"num_features"`
	FeaturesNaN       int64              `json:"features_nan"`      // values of x
	FeaturesInfinite  int64              `json:"features_infinite"` // values of x, those that became so included
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
