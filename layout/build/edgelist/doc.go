// Package edgelist passes over the list of edges as a build does, several times: it
// checks and narrows ids, keeps what is dear to read again in memory or in scratch,
// counts degrees, and holds the edits of the list (reverses, self-loops, duplicates).
//
// # Invariants
//
//   - Every pass delivers the same edges in import order, whatever is kept.
//   - An id that is no node ends a pass with the edge named.
//
// # Limits
//
// Ids are below MaxNodes. A scan holds ScanBytes.
package edgelist
