// Package element reads and converts single elements of arrays: integers of every type,
// ids, floats, byte orders.
//
// It knows bytes and types alone, neither files nor graphs. A type that is not an
// integer where one is due is a fault of the caller and panics.
package element
