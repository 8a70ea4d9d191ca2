// Package array gives edges and node arrays out of numpy arrays: in memory with any
// strides, in .npy files plain or compressed, in members of .npz archives, and sparse
// matrices of three arrays as dense rows.
//
// # Invariants
//
//   - The form of an array (type, byte order, shape) is known and checked when it is
//     opened, and proved unchanged at the start of every scan.
//   - Rows come out row-major and little-endian, whatever the array held.
//
// # Limits
//
// An array in Fortran order is read through a window of fixed size; where it is
// deflated it is spilled to the scratch directory first, with a checksum each 64 KiB in
// memory, which every read verifies. A row has at most source.MaxRowBytes.
package array
