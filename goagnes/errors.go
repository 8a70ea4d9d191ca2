package goagnes

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"github.com/goagnes/goagnes/goagnes/operation"
)

// Error classes, as [Class] returns them.
const (
	ClassUsage       = "usage"       // an argument that cannot be meant
	ClassUnsupported = "unsupported" // an argument or input not supported
	ClassInput       = "input"       // raw data that is malformed
	ClassStore       = "store"       // a store that is damaged or of another version
	ClassBudget      = "budget"      // a memory budget or scratch limit too small
	ClassIO          = "io"          // the operating system refused to read or write
	ClassInterrupted = "interrupted" // the context was cancelled
	ClassClosed      = "closed"      // used after Close
	ClassInternal    = "internal"    // our own bug
)

// ArgumentError is an argument that cannot be meant.
type ArgumentError struct {
	Argument string // as Python and the shell name it, with underscores
	Msg      string
}

func (e *ArgumentError) Error() string { return e.Argument + ": " + e.Msg }

// Class returns "usage".
func (e *ArgumentError) Class() string { return ClassUsage }

func argumentf(argument, format string, a ...any) error {
	return &ArgumentError{argument, fmt.Sprintf(format, a...)}
}

// UnsupportedError is an argument whose value is not supported.
type UnsupportedError struct {
	Argument string
	Value    string
	Msg      string // what is supported
}

func (e *UnsupportedError) Error() string {
	return fmt.Sprintf("%s=%s is not supported: %s", e.Argument, e.Value, e.Msg)
}

// Class returns "unsupported".
func (e *UnsupportedError) Class() string { return ClassUnsupported }

// ErrClosed is returned by a loader, and by a store's methods, after Close.
var ErrClosed = operation.ErrClosed

// errStoreClosed is ErrClosed of a store, in words of its own.
var errStoreClosed error = storeClosedError{}

type storeClosedError struct{}

func (storeClosedError) Error() string        { return "the store is closed" }
func (storeClosedError) Is(target error) bool { return target == ErrClosed }
func (storeClosedError) Class() string        { return ClassClosed }

// Class tells what kind of failure err is; "" for nil. Errors that no other
// class fits are "internal".
func Class(err error) string {
	var classed interface{ Class() string }
	var path *fs.PathError
	switch {
	case err == nil:
		return ""
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return ClassInterrupted
	case errors.Is(err, ErrClosed):
		return ClassClosed
	case errors.As(err, &classed):
		return classed.Class()
	case errors.As(err, &path):
		return ClassIO
	}
	return ClassInternal
}
