package build

// Errors of a build that are not the input's: wrong options, too small a budget,
// inputs of a kind that a store does not hold yet.

import (
	"fmt"

	"github.com/goagnes/goagnes/layout/build/source"
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

func usage(format string, a ...any) error {
	return &Error{class: "usage", Msg: fmt.Sprintf(format, a...)}
}

func unsupported(format string, a ...any) error {
	return &Error{class: "unsupported", Msg: fmt.Sprintf(format, a...)}
}

func ioError(err error, format string, a ...any) error {
	return &Error{class: "io", Msg: fmt.Sprintf(format, a...), Err: err}
}

// BudgetError says that the memory budget is too small for a part of the build
// that cannot be made smaller.
type BudgetError struct {
	// Consumer is what needs the memory.
	Consumer string
	// Need and Free are bytes; Total is the whole budget.
	Need, Free, Total int64
}

// Error says how large the budget must be.
func (e *BudgetError) Error() string {
	return fmt.Sprintf("the memory budget of %d bytes is too small: %s needs %d bytes and %d are free; set memory to %d or more",
		e.Total, e.Consumer, e.Need, max(e.Free, 0), e.Total-e.Free+e.Need)
}

// Class returns "budget".
func (e *BudgetError) Class() string { return "budget" }

// faultf is a fault of an input at an index, -1 for none.
func faultf(file string, index int64, format string, a ...any) error {
	return &source.Error{File: file, Index: index, Msg: fmt.Sprintf(format, a...)}
}
