// Package verify reads a whole store and tells everything that is wrong with it: the
// manifest, the size of every file, the checksum of every page, and what sections say
// about each other.
//
// # Invariants
//
//   - A finding names file and block or byte. A section with damaged pages is left out
//     of the comparison of contents, so that one fault is one finding.
//   - Memory is bounded by a budget; tables that exceed it are compared in several passes.
//
// # Limits
//
// The first 10,000 findings are listed, the others counted.
package verify
