// Package kernels provides the dense and sparse float32 operations a graph
// neural network is trained with, on plain slices: matrix product, neighbourhood
// aggregation, bias, ReLU, dropout, softmax cross-entropy and Adam.
//
// An [Engine] carries a backend and a number of threads. Two backends exist:
// "portable", plain Go that also builds without cgo, and "avx2", C compiled for
// AVX2, FMA and F16C on amd64 and used only where the processor has all three.
//
// # Invariants
//
//   - An operation's result has the same bits for every number of threads: each
//     output element is computed by one thread in one fixed order. Backends
//     differ from each other by rounding only; dropout masks are the same.
//   - No operation keeps, frees or grows an argument. Engine scratch is
//     [Engine.ScratchBytes], taken at [New].
//   - Node features may be float16: they are widened tile by tile, so a widened
//     matrix never exists.
//   - A wrong shape is a programming error and panics with "kernels: …" before
//     any element is written.
//
// # Limits
//
// Dimensions are below 2^31, an aggregation has below 2^32 edges. One Engine
// runs one operation at a time; use one Engine per concurrent caller.
// [Engine.Stop] may be called from any goroutine: the running operation and all
// later ones return within some milliseconds, leaving their output unspecified.
package kernels
