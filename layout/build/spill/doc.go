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
//   - Every read is verified (storage.Seal) before what it read is looked at. Partitions
//     and runs carry their seals, so that a budget need not know of them; those of parked
//     tables, 4 bytes a MiB, are the only memory with the size of the data.
//   - Buffers are the caller's.
package spill
