// Package ledger counts the memory of a build or a verification against its budget, and
// maps the large parts of it outside the Go heap.
//
// # Invariants
//
//   - What is taken never exceeds the total: a charge that would is a BudgetError with
//     the budget that would do.
//   - Giving back more than was taken is a bug and panics.
//
// # Limits
//
// A ledger serves one goroutine. Tables are read and written as they lie in memory,
// which is right on little-endian machines only; on others the package does not compile.
package ledger
