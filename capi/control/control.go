// Package control is the control plane behind the Python binding: stores and
// loaders by integer handle, long work as tasks that are polled, errors as text
// with a class.
//
// It provides what capi/bind exposes function by function and what the data
// plane in capi needs once a minibatch: Next. It knows the engine only through
// the interfaces in this file.
//
// Invariants:
//   - No panic leaves an exported function: it becomes an error of class
//     "internal". (A panic on a goroutine of the engine still ends the process.)
//   - No exported function blocks for longer than the timeout it was given (Abandon
//     for longer than a tenth of a second), except Close of a loader or store, which
//     waits for the engine to stop.
//   - A task that nobody waits for any more is cancelled, not cut off: Drain waits
//     for what it has to tidy up.
//   - A handle is never reused, and names one kind of object; a stale or foreign
//     one is an error that says which.
//   - A wait that is given up loses no minibatch.
//
// Limits: 64 tasks and 4096 open handles at a time; requests of 64 MiB.
package control

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"
	"strings"
	"syscall"
	"unsafe"

	"github.com/goagnes/goagnes/goagnes"
)

// Limits of the control plane, see the package comment.
const (
	MaxTasks        = 64
	MaxHandles      = 4096
	MaxRequestBytes = 64 << 20
)

// Version is the version of the library, set by the linker from the file
// VERSION; "dev" in a plain go build.
var Version = "dev"

// Progress is called by work that takes time. total is 0 where unknown.
type Progress func(stage string, done, total int64)

// Engine is what the control plane drives.
type Engine interface {
	// Open opens the store at path.
	Open(path string, request json.RawMessage) (Store, error)
	// Run does the work named kind; store is nil for work without an open store.
	Run(ctx context.Context, kind string, store Store, request json.RawMessage, report Progress) (any, error)
}

// Store is an open store.
type Store interface {
	// Info returns what is marshalled to JSON for store.info().
	Info() any
	NewLoader(request json.RawMessage) (Loader, error)
	Close() error
}

// Loader prepares the minibatches of one epoch after another.
type Loader interface {
	// Start begins the next epoch; its context ends it and gives its memory back.
	Start(ctx context.Context) error
	// Next returns the epoch's next minibatch, io.EOF at its end. A call whose
	// context ends returns at once, and the minibatch is the next call's.
	Next(ctx context.Context) (*Batch, error)
	Admin
}

// Admin is the part of a loader that does not deliver minibatches.
type Admin interface {
	SetEpoch(epoch uint32)
	// Describe returns what is marshalled for kind: "settings" (resolved when the
	// loader was made), "stats" or "explain".
	Describe(kind string) (any, error)
	Close() error
}

// Array is one array of a minibatch: C order, inside the minibatch's slab.
type Array = goagnes.Array

// Batch is one minibatch. Slab is the address of its slab's header, whose first
// word counts references; Release drops the minibatch's own.
type Batch struct {
	Index, BatchSize, NumNodes, NumEdges int64
	SampledNodes, SampledEdges           []int64
	Arrays                               []Array
	Slab                                 unsafe.Pointer
	Release                              func()
}

// Error is an error with one of the classes that package goagnes names.
type Error struct {
	class   string
	message string
}

func (e *Error) Error() string { return e.message }

// Class returns the class of the error, such as "usage".
func (e *Error) Class() string { return e.class }

func errorf(class, format string, args ...any) *Error {
	return &Error{class, fmt.Sprintf(format, args...)}
}

// Class returns the class that an error names itself, or the one its kind implies.
func Class(err error) string {
	var errno syscall.Errno
	class := goagnes.Class(err)
	if class == goagnes.ClassInternal && errors.As(err, &errno) {
		return goagnes.ClassIO
	}
	return class
}

// Text returns an error as the binding passes it on: "CLASS: message", valid
// UTF-8 without NUL.
func Text(err error) string {
	return clean(Class(err) + ": " + err.Error())
}

func clean(s string) string {
	return strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\x00", "\uFFFD")
}

// Guard makes an error of a panic that would otherwise reach Python. Defer it
// with the address of the named error result.
func Guard(err *error) {
	if r := recover(); r != nil {
		*err = errorf("internal", "panic: %v\n%s", r, debug.Stack())
	}
}

// guarded calls f with Guard.
func guarded[T any](f func() (T, error)) (value T, err error) {
	defer Guard(&err)
	return f()
}

// decode reads a JSON request strictly: an unknown field is an error.
func decode(request string) (json.RawMessage, error) {
	if len(request) > MaxRequestBytes {
		return nil, errorf("usage", "a request of %d bytes; at most %d are taken", len(request), MaxRequestBytes)
	}
	if !json.Valid([]byte(request)) {
		return nil, errorf("usage", "the request is not JSON")
	}
	return json.RawMessage(request), nil
}
