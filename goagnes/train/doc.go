// Package train provides the training loop: it draws minibatches from a
// [Source], fits a network of package nn with Adam, chooses an epoch on the
// validation split, and measures that epoch once on the test split.
//
// # Invariants
//
//   - Equal options, seed and minibatches give weights of equal bits, for every
//     number of threads.
//   - The test split is opened once, after the weights are final; its labels
//     reach nothing but the reported accuracy.
//   - Presets depend on the model alone, never on the data.
//   - One minibatch is held at a time, and released before the next is asked for.
//   - All memory that grows with the model or the minibatch comes from
//     Options.Allocator.
//
// # Limits
//
// Node classification with one label a node. Features of
// float32 and float16 are read in place; other types are widened to float32, a
// minibatch at a time.
// Cancelling the context ends a run within 200 ms plus the time the Source takes
// to notice.
package train
