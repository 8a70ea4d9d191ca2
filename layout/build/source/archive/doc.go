// Package archive reads graphs that lie in one .npz archive: numpy members by the
// names that the repackaged Planetoid, Amazon and Coauthor graphs use, the graphs of
// the GNN benchmark, the heterophilous graphs, and sparse matrices of scipy.
//
// # Invariants
//
//   - Every array that is taken has its shape and type checked when the archive is
//     opened; values are checked as they are read.
//   - Members that are not read are told by a note.
//
// # Limits
//
// Formats whose edges are sorted (gnn, heterophilous) hold 16 bytes an edge and refuse
// more than 2^23 of them; the others stream.
package archive
