// Package rank replaces sparse ids: the distinct ids of the edges, or of a list of all
// nodes, become 0, 1, 2, … in ascending order, and are kept as the section "ids".
//
// The distinct ids are found in a bitmap where a quarter of the free memory holds it,
// else by sorting runs in scratch. Finding a rank takes that bitmap, or a table of 8
// bytes for each distinct id, which is the one thing that cannot be made smaller.
package rank
