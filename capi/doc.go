// Package capi is the data plane of the Python binding: a CPython extension
// module in C over a few exported Go functions, which hands minibatches over without
// copying them.
//
// It provides the module _goagnes_data: next(), the Tensor type (buffer protocol
// and DLPack, unversioned and 1.x), the Owner type (closes what nobody refers to any
// more) and counters for leak tests. It is linked into the same shared library as the control plane that gopy generates from capi/bind
// (module _goagnes), so that the process has one Go runtime.
//
// The C and cgo files carry the build tag goagnes_python and need Python.h; a
// plain go build of the module needs neither. capi/build.py generates, compiles
// and links.
//
// Invariants:
//   - Every minibatch lives in one slab: an anonymous mapping whose first 64 bytes
//     hold an atomic reference count (goagnes.h). Each Tensor and each exported
//     view holds one reference; dropping it needs neither Go nor the GIL.
//   - The GIL is released while a minibatch is waited for, in slices of at most
//     50 ms, between which pending signals are handled.
//   - What is collected is closed without a step of Python, in which Ctrl-C would be
//     swallowed.
//   - Every entry refuses to run in a forked child, with an error naming spawn.
//   - Only calls of CPython's stable ABI of 3.11 are used.
//   - Errors leave as RuntimeError with the text "CLASS: message".
//
// Limits: 32 arrays of at most 8 dimensions in a minibatch, and 64 hops; the main
// interpreter only; builds of CPython with the GIL; 64-bit little-endian Linux.
package capi
