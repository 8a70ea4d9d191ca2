package storage

import (
	"errors"
	"fmt"
)

// ErrClosed is reported by requests to a pool or a store that is closed.
var ErrClosed = errors.New("closed")

// Error is a failure of a device or of the operating system.
type Error struct {
	Path   string
	Offset int64  // byte offset of the operation, -1 where it has none
	Block  int64  // of a store's section that was read, -1 where it is none, or one that is not known
	Op     string // "open", "read", "write", "sync", "allocate", …
	Err    error
}

func (e *Error) Error() string {
	if e.Block >= 0 {
		return fmt.Sprintf("%s %s at byte %d, block %d: %v", e.Op, e.Path, e.Offset, e.Block, e.Err)
	}
	if e.Offset >= 0 {
		return fmt.Sprintf("%s %s at byte %d: %v", e.Op, e.Path, e.Offset, e.Err)
	}
	return fmt.Sprintf("%s %s: %v", e.Op, e.Path, e.Err)
}

// Unwrap returns the system's error.
func (e *Error) Unwrap() error { return e.Err }

// Class returns the error class: "closed" after a Close, else "io".
func (e *Error) Class() string {
	if errors.Is(e.Err, ErrClosed) {
		return "closed"
	}
	return "io"
}

// StripesError is a refusal of stripe directories that are not as many as the store
// has.
type StripesError struct {
	Named, Striped int
}

func (e *StripesError) Error() string {
	if e.Striped == 0 {
		return fmt.Sprintf("stripes: %d directories are named, and the store is not striped: leave stripes out", e.Named)
	}
	return fmt.Sprintf("stripes: %d directories are named, and the store is striped over %d directories: name all of them, in their order", e.Named, e.Striped)
}

// Class returns the error class "usage".
func (e *StripesError) Class() string { return "usage" }

// ScratchError is a refusal to write more scratch than scratch_limit allows.
type ScratchError struct {
	Dir               string
	Need, Used, Limit int64 // bytes
}

func (e *ScratchError) Error() string {
	return fmt.Sprintf("%s: %d bytes of scratch are needed with %d of scratch_limit=%d in use: raise scratch_limit to at least %d or choose another scratch directory",
		e.Dir, e.Need, e.Used, e.Limit, e.Need+e.Used)
}

// Class returns the error class "budget".
func (e *ScratchError) Class() string { return "budget" }
