// Package sizes holds tests only: nodes, edges and files past the limits of 32 bits, up
// to those of the format, in stores whose files are mostly holes.
package sizes
