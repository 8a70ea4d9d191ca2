// Package source says what a build reads: [Edges], [Rows] and lists of ids as
// restartable streams, the [Dataset] that a reader makes of its input, and the errors of
// inputs. The readers are the packages below it (array, text, table, archive, planetoid,
// folder); package formats opens an input by its format.
//
// An Edges or a Rows holds no open file between scans; each Scan opens its input,
// delivers all of it in import order in bounded chunks, and closes it. Two scans of
// unchanged input deliver the same values, so that a build may pass over the edges
// several times instead of keeping them.
//
// # Invariants of every reader
//
//   - Memory is bounded by a few chunks, whatever the size of the input. Readers that
//     hold their graph (the raw Planetoid files, the graphs whose edges are sorted)
//     refuse what is past a fixed size first.
//   - The shape and the type of every array are checked when a source is opened.
//   - Values are delivered as they will be kept: ids are non-negative int64,
//     rows are little-endian and row-major whatever the file held.
//   - Nothing is dropped or changed silently; [Dataset].Notes says what was.
//   - Nothing in an input is executed; no input makes a reader allocate more than
//     the input's own size or a fixed limit.
//
// # Limits
//
// Ids are below 2^63 here; a build limits them further. A row of an array is at
// most [MaxRowBytes]. Text lines are at most [MaxLineBytes].
//
// # Errors
//
// A bad input gives an [*Error] naming file and line or index; a format known but
// not read gives an [*UnsupportedError]. The error of a caller's own function is
// returned from Scan as it is.
package source

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"

	"github.com/goagnes/goagnes/layout"
)

// Limits of every reader.
const (
	// ChunkEdges is the most edges handed to one call of a scan's function.
	ChunkEdges = 65536
	// ChunkBytes is the most bytes of rows handed to one call, unless one row
	// alone is larger.
	ChunkBytes = 1 << 20
	// MaxRowBytes bounds one row of an array.
	MaxRowBytes = 64 << 20
	// MaxLineBytes bounds one line of text; longer ones may be refused.
	MaxLineBytes = 1 << 20
)

// Edges is a list of directed edges in import order.
type Edges interface {
	// Scan calls f with all edges in import order, at most ChunkEdges a call.
	// The slices have equal length and are valid during the call only. Scan may
	// be called again, also from several goroutines. An error of f ends the scan
	// and is returned as it is; so is ctx.Err().
	Scan(ctx context.Context, f func(src, dst []int64) error) error
	// Count is the number of edges, where it is known without reading them.
	Count() (int64, bool)
	// Name is the file or array the edges come from, for messages.
	Name() string
}

// Lines are edges that come from lines of text.
type Lines interface {
	Edges
	// LineOf returns the line, from 1, that an edge (from 0) came from, for
	// messages; 0 where it cannot be found. It reads the file up to there.
	LineOf(ctx context.Context, edge int64) int64
}

// LineOf is LineOf of edges that may be Lines; 0 where they are not.
func LineOf(ctx context.Context, e Edges, edge int64) int64 {
	if lines, ok := e.(Lines); ok {
		return lines.LineOf(ctx, edge)
	}
	return 0
}

// IDs is a list of node ids.
type IDs interface {
	// Scan calls f with all ids, at most ChunkEdges a call. The rules are those of
	// Edges.Scan.
	Scan(ctx context.Context, f func(ids []int64) error) error
	// Name is the file the ids come from, for messages.
	Name() string
}

// Rows is an array of equal rows, one a node (or one an id of a split).
type Rows interface {
	// Len is the number of rows.
	Len() int64
	// RowShape is the shape of one row: empty for a 1-D array.
	RowShape() []int64
	// DType is the element type.
	DType() layout.DType
	// Scan calls f with all rows ascending: rows holds whole rows, row-major and
	// little-endian, the first of them row number first. A call brings at most
	// ChunkBytes or one row. The slice is valid during the call only. Scan may be
	// called again, also from several goroutines. An array whose rows have no
	// bytes brings no call at all.
	Scan(ctx context.Context, f func(first int64, rows []byte) error) error
	// Name is the file or array the rows come from, for messages.
	Name() string
}

// Checker is an array whose form shows only when it is read: a sparse matrix.
type Checker interface {
	Rows
	// Check reads the array and returns what is wrong with its form.
	Check(ctx context.Context) error
}

// Dataset is what one source holds.
type Dataset struct {
	// Format is the name of the format that was read.
	Format string
	// Edges is the edge list; never nil.
	Edges Edges
	// NumNodes is the number of nodes, -1 where the source does not say.
	NumNodes int64
	// RankIDs says that ids="auto" means ranking the distinct ids here: the ids
	// of the source may be sparse.
	RankIDs bool
	// NodeIDs lists the ids of all nodes, each once, where the source has such a
	// list: they are ranked, and every edge is between two of them. Else nil.
	NodeIDs IDs
	// Arrays holds the node arrays by name: "x" the features, "y" the labels
	// (int64, -1 for a node without one), others as named by the source.
	Arrays map[string]Rows
	// Splits holds the splits by name ("train", "val", "test", others): int64 ids,
	// or a bool mask with one row a node.
	Splits map[string]Rows
	// SplitIndexed says that Options.SplitIndex chose the splits among several.
	SplitIndexed bool
	// Notes says in sentences what was dropped, changed or passed over.
	Notes []string
}

// Error is a fault of an input.
type Error struct {
	// File is the file or array at fault.
	File string
	// Line counts from 1; 0 where lines do not apply.
	Line int64
	// Index counts elements (edges, rows, values) from 0; -1 where it does not
	// apply.
	Index int64
	// Msg says what is wrong and what to do.
	Msg string
	// Err is the cause where there is one, such as an error of the file system.
	Err error
}

// Error gives the place and the fault in one line.
func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString(e.File)
	if e.Line > 0 {
		fmt.Fprintf(&b, ":%d", e.Line)
	}
	if e.Index >= 0 {
		fmt.Fprintf(&b, "[%d]", e.Index)
	}
	b.WriteString(": ")
	b.WriteString(e.Msg)
	if e.Err != nil {
		if e.Msg != "" {
			b.WriteString(": ")
		}
		// The file is named already.
		var pe *fs.PathError
		if errors.As(e.Err, &pe) && pe.Path == e.File {
			b.WriteString(pe.Err.Error())
		} else {
			b.WriteString(e.Err.Error())
		}
	}
	return b.String()
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Class returns "input".
func (e *Error) Class() string { return "input" }

// UnsupportedError is an input in a form that is known but not read.
type UnsupportedError struct {
	// File is the input.
	File string
	// Msg says what it is and what to bring instead.
	Msg string
}

// Error gives the file and the reason in one line.
func (e *UnsupportedError) Error() string { return e.File + ": " + e.Msg }

// Class returns "unsupported".
func (e *UnsupportedError) Class() string { return "unsupported" }

// Unsupported is an input in a form that is known but not read.
func Unsupported(file string, format string, args ...any) *UnsupportedError {
	return &UnsupportedError{File: file, Msg: fmt.Sprintf(format, args...)}
}

// Errorf is a fault of a file as a whole.
func Errorf(file string, format string, args ...any) *Error {
	return &Error{File: file, Index: -1, Msg: fmt.Sprintf(format, args...)}
}

// ErrorAt is a fault of an element, counted from 0; -1 for none.
func ErrorAt(file string, index int64, format string, args ...any) *Error {
	return &Error{File: file, Index: index, Msg: fmt.Sprintf(format, args...)}
}

// ErrorAtLine is a fault of a line, counted from 1.
func ErrorAtLine(file string, line int64, format string, args ...any) *Error {
	return &Error{File: file, Line: line, Index: -1, Msg: fmt.Sprintf(format, args...)}
}

// ErrorAtEdge is a fault of an edge, counted from 0: of the line that it came from, where
// it came from one, and otherwise of the element.
func ErrorAtEdge(ctx context.Context, e Edges, edge int64, format string, args ...any) *Error {
	if line := LineOf(ctx, e, edge); line > 0 {
		return ErrorAtLine(e.Name(), line, format, args...)
	}
	return ErrorAt(e.Name(), edge, format, args...)
}

// ErrorFrom is a fault with a cause, such as an error of the file system.
func ErrorFrom(file string, msg string, err error) error {
	return &Error{File: file, Index: -1, Msg: msg, Err: err}
}

// Clip quotes a field for a message.
func Clip(b []byte) string {
	if len(b) > 40 {
		return strconv.Quote(string(b[:40])) + "…"
	}
	return strconv.Quote(string(b))
}
