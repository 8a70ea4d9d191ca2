// Package export is the form in which prepared minibatches lie in a folder of
// .npy files: it writes such a folder minibatch by minibatch, goes on with one
// that was left unfinished, and reads a finished one.
//
//	OUT/export.json              the index: settings, arrays, epochs, totals; renamed into place last
//	OUT/export.partial.json      while it is being written, instead: the settings alone
//	OUT/epoch-0/x.npy …          one file for each array, the minibatches' one after another
//	OUT/epoch-0/minibatches.jsonl  a line for each minibatch: shapes, offsets, CRC32C
//	OUT/epoch-0/{seed,node,edge}_offsets.npy  int64, minibatches+1: where each begins
//
// docs/export.md is the specification, and says why.
//
// # Invariants
//
//   - Without export.json there is no export; it appears after all else is synced.
//   - Equal settings and store give equal bytes, however often writing was cut off.
//   - A line of minibatches.jsonl carries a checksum salted with the settings, so
//     that it never passes for one of another export.
//   - Nothing is held in memory but the minibatch at hand: lines are written as
//     they come, and read back by their places (8 bytes a minibatch).
//
// # Limits
//
// Array names are those of a batch. A line is at most [MaxLine] bytes, an index
// [MaxIndex]. A mapped file that is cut short while it is read ends the process,
// as with any mapping; what is cut short before is found.
package export

import (
	"fmt"

	"github.com/goagnes/goagnes/layout"
)

// Names of files, and limits of what is read.
const (
	IndexFile   = "export.json"
	PartialFile = "export.partial.json"
	LinesFile   = "minibatches.jsonl"

	MaxIndex = 64 << 20
	MaxLine  = 1 << 20

	// Format and Version name the format in an index.
	Format  = "goagnes-export"
	Version = 1
)

// offsetNames are the files of offsets for readers that know numpy only.
var offsetNames = [3]string{"seed_offsets.npy", "node_offsets.npy", "edge_offsets.npy"}

// Settings are what the bytes of an export depend on beside the store.
type Settings struct {
	NumNeighbors []int      `json:"num_neighbors"`
	InputNodes   InputNodes `json:"input_nodes"`
	BatchSize    int        `json:"batch_size"`
	Shuffle      bool       `json:"shuffle"`
	DropLast     bool       `json:"drop_last"`
	Seed         uint64     `json:"seed"`
	FirstEpoch   uint32     `json:"first_epoch"`
	Epochs       int        `json:"epochs"`
	Minibatches  int64      `json:"minibatches"` // of each epoch
}

// InputNodes names the seeds of an epoch: all nodes, a split, or a digest of
// ids or of a mask.
type InputNodes struct {
	Kind   string `json:"kind"` // "all", "split", "ids" or "mask"
	Split  string `json:"split,omitempty"`
	Count  int64  `json:"count"`
	SHA256 string `json:"sha256,omitempty"` // of ids as little-endian int64, or of mask bytes
}

// Store names the store that an export was made of.
type Store struct {
	BuildID  string `json:"build_id"`
	NumNodes int64  `json:"num_nodes"`
	NumEdges int64  `json:"num_edges"`
}

// Array says how one array of the minibatches is stored: as rows of one file.
type Array struct {
	Name   string  `json:"name"`
	DType  string  `json:"dtype"`  // of the minibatch
	Stored string  `json:"stored"` // of the file: uint16 for bfloat16, else dtype
	Row    []int64 `json:"row"`    // shape of a row of the file
	// Flat says that the file has no shape but its length: an element is a row,
	// and the minibatch's array is to be given its shape.
	Flat bool `json:"flat"`
}

// NewArray describes an array of minibatches from its form in one without nodes
// and edges.
func NewArray(name string, d layout.DType, shape []int64) Array {
	a := Array{Name: name, DType: d.String(), Stored: d.String(), Row: []int64{}}
	if d == layout.BFloat16 {
		a.Stored = layout.Uint16.String()
	}
	// The extent that grows comes first, or the array lies flat.
	if a.Flat = len(shape) > 1 && shape[0] != 0; !a.Flat && len(shape) > 1 {
		a.Row = append(a.Row, shape[1:]...)
	}
	return a
}

func (a *Array) file() string { return a.Name + ".npy" }

// types returns the element types of minibatch and file.
func (a *Array) types() (d, stored layout.DType, err error) {
	if d, err = layout.ParseDType(a.DType); err == nil {
		stored, err = layout.ParseDType(a.Stored)
	}
	return d, stored, err
}

// Index is the document that makes a folder an export.
type Index struct {
	Format   string   `json:"format"`
	Version  int      `json:"version"`
	ID       string   `json:"id"` // digest of store, settings and arrays
	Store    Store    `json:"store"`
	Settings Settings `json:"settings"`
	Arrays   []Array  `json:"arrays"`
	Epochs   []Epoch  `json:"epochs,omitempty"`
	Totals   *Totals  `json:"totals,omitempty"`
}

// Epoch is one folder of an export.
type Epoch struct {
	Epoch  uint32 `json:"epoch"`
	Folder string `json:"folder"`
	Totals
	Files []File `json:"files"`
}

// Totals are counts over minibatches.
type Totals struct {
	Minibatches int64 `json:"minibatches"`
	Seeds       int64 `json:"seeds"`
	Nodes       int64 `json:"nodes"`
	Edges       int64 `json:"edges"`
	Bytes       int64 `json:"bytes"` // of all files but the index
}

func (t *Totals) add(o Totals) {
	t.Minibatches += o.Minibatches
	t.Seeds += o.Seeds
	t.Nodes += o.Nodes
	t.Edges += o.Edges
	t.Bytes += o.Bytes
}

// File is one file of an epoch. The elements of an array's file are covered by
// the checksums of the minibatches, the other files by one of their own.
type File struct {
	Name   string  `json:"name"`
	Bytes  int64   `json:"bytes"`
	Rows   int64   `json:"rows"`
	CRC32C *uint32 `json:"crc32c,omitempty"`
}

// Line is what the index keeps of a minibatch.
type Line struct {
	Minibatch       int64   `json:"minibatch"`
	NumSampledNodes []int64 `json:"num_sampled_nodes"`
	NumSampledEdges []int64 `json:"num_sampled_edges"`
	Arrays          []Piece `json:"arrays"` // as Index.Arrays lists them
}

// Piece is a minibatch's part of one array's file.
type Piece struct {
	Offset int64   `json:"offset"` // rows of the file before it
	Shape  []int64 `json:"shape"`  // of the minibatch's array
	CRC32C uint32  `json:"crc32c"`
}

func (l *Line) seeds() int64 { return l.NumSampledNodes[0] }
func (l *Line) nodes() int64 { return sum(l.NumSampledNodes) }
func (l *Line) edges() int64 { return sum(l.NumSampledEdges) }

func sum(list []int64) (n int64) {
	for _, v := range list {
		n += v
	}
	return n
}

// Error is a fault of a folder that should hold an export.
type Error struct {
	File      string // path, or the folder's
	Minibatch int64  // -1: none is meant
	Msg       string // what is wrong, and what to do
}

func (e *Error) Error() string {
	if e.Minibatch >= 0 {
		return fmt.Sprintf("%s, minibatch %d: %s", e.File, e.Minibatch, e.Msg)
	}
	return e.File + ": " + e.Msg
}

// Class returns "store".
func (e *Error) Class() string { return "store" }

func faultf(file, format string, a ...any) *Error {
	return &Error{file, -1, fmt.Sprintf(format, a...)}
}

// MismatchError refuses to go on with, or to replace, what lies in a folder.
type MismatchError struct {
	Dir string
	Msg string
}

func (e *MismatchError) Error() string { return e.Dir + ": " + e.Msg }

// Class returns "usage".
func (e *MismatchError) Class() string { return "usage" }
