package ledger

// The refusal of a budget.

import (
	"fmt"
)

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
