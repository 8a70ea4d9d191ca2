package fault

// Errors of a build that are not the input's: wrong options, too small a budget,
// inputs of a kind that a store does not hold yet.

import (
	"fmt"
)

// Error is a refusal or failure of a build or a verification that is neither a
// fault of an input (*source.Error) nor of a store (*layout.Error).
type Error struct {
	class string
	// Msg says what is wrong and what to do.
	Msg string
	// Err is the cause where there is one.
	Err error
}

// Error gives the message and its cause in one line.
func (e *Error) Error() string {
	if e.Err != nil {
		return e.Msg + ": " + e.Err.Error()
	}
	return e.Msg
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Class returns "usage", "unsupported", "budget" or "io".
func (e *Error) Class() string { return e.class }

// Usage is a wrong option.
func Usage(format string, a ...any) error {
	return &Error{class: "usage", Msg: fmt.Sprintf(format, a...)}
}

// Unsupported is an input of a kind that a store does not hold.
func Unsupported(format string, a ...any) error {
	return &Error{class: "unsupported", Msg: fmt.Sprintf(format, a...)}
}

// IO is a failure of the system.
func IO(err error, format string, a ...any) error {
	return &Error{class: "io", Msg: fmt.Sprintf(format, a...), Err: err}
}
