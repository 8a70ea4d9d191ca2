// Package spill keeps what does not fit into memory in scratch files: partitions that
// are appended to side by side and read back one by one, tables that wait, and sorted
// runs of ids that are merged.
//
// # Invariants
//
//   - Files are reserved in full before anything is written, so that a scratch limit or a
//     full disk is found early.
//   - A partition holds as many bytes as was said beforehand; where the input brings
//     others it has changed, which is an error.
//   - Buffers are the caller's; nothing is allocated with the size of the data.
package spill
