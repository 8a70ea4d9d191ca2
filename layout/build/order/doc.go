// Package order finds the order of nodes in a store: which orders there are, which of
// them a budget allows, and the tables that map original to internal ids. docs/orders.md
// says what the orders are.
//
// # Invariants
//
// An order depends on the edges, the train split and the name alone: threads, memory and
// processor are invisible in it. Memory is Bytes(name, nodes), known beforehand; tables
// that are not needed at the time wait in scratch.
package order
