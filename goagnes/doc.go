// Package goagnes trains graph neural networks on graphs larger than memory,
// from the SSDs of one machine, and hands their prepared minibatches to other
// programs. It implements the AGNES system (Accelerating Storage-based Training
// for Graph Neural Networks, arXiv 2601.01473).
//
// [Build], [Import] and [Generate] write a store: a directory that holds
// topology, features and labels in blocks. [Open] opens one under a memory
// budget. [NewLoader] prepares minibatches of it as PyG's NeighborLoader would
// sample them; [Train] trains a model on them and [Predict] applies it;
// [Export] writes minibatches to .npy files and [OpenExport] reads them back;
// [Verify] checks every byte of a store. An open [Store] also reads what belongs
// to single nodes: rows, in-edges, splits, ids of the source.
//
// # Invariants
//
//   - What a minibatch holds depends on the loader's seed, the epoch and the
//     minibatch's number only: not on memory, threads, hyperbatch or block size,
//     nor on the order in which a store keeps its nodes.
//   - Ids are those of the imported data, 0..N-1.
//   - Memory that grows with the graph is taken from the store's budget; what
//     does not fit is spilled to scratch files. Results that a caller asks for, such
//     as rows, are the caller's memory, and refused where larger than the budget.
//   - Cancelling a context ends any call soon and leaves nothing half-written.
//
// # Limits
//
// Loaders take graphs of fewer than 2^32-1 nodes. One epoch of a loader runs at
// a time; loaders of one store share its budget.
package goagnes
