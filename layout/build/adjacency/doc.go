// Package adjacency writes the graph sections of a store: edges are distributed over
// ranges of internal targets, each range is sorted by target, edited, and encoded into
// graph blocks beside edge ids and in-degrees.
//
// # Invariants
//
//   - Sorting is stable: the in-edges of a node keep the order of import, which is that
//     of their edge ids.
//   - What is written depends on the edges, their edits and the order of nodes alone,
//     not on memory, threads or partitions.
//   - Memory is what the ledger has free; what does not fit goes to scratch, and a range
//     that turns out too large is distributed again.
//
// # Limits
//
// A node has at most 2^32-1 in-edges. Duplicates of a node whose in-edges alone exceed
// the memory for sorting take a bit for every node.
package adjacency
