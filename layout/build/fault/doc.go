// Package fault has the errors of a build that are not the input's (those are
// source.Error), nor the store's (layout.Error): wrong options, inputs of a kind that a
// store does not hold, failures of the system. A budget that is too small is a
// ledger.BudgetError.
package fault
