// Package nodes writes what a store knows of its nodes beside the graph: node arrays
// (features, labels, others), splits, tables of ids.
//
// Rows stream from the source in original order and are written in internal order:
// through memory where they fit, through partitions in scratch where not. Labels become
// integers of which a negative one says that a node has none; features stay or become
// float32 or float16, rounded to nearest, ties to even. What is changed on the way is
// told by a note.
//
// # Limits
//
// A row has at most layout.MaxRowBytes, a label is below layout.MaxNodes. Splits are compared for
// overlaps where a bit a node for two of them is free.
package nodes
