// Package operation is the operation layer: it prepares minibatches, a
// hyperbatch of them together, by Algorithm 1 of the AGNES paper.
//
// # The way of a minibatch
//
//	seeds        engine.places, Seeds    keyed permutation; original ids -> internal ids
//	per hop  S-1 fillBucket, visitBlocks frontiers of all minibatches of a window, by graph block;
//	                                     each needed block is loaded once, one hop
//	                                     ascending, the next descending
//	         S-2 sampleBlock, sampleHub  positions drawn, neighbours and edge ids copied out
//	         S-3 collect                 local ids; after the last hop a record, in memory or scratch
//	rows     G-1 gatherer.sweep          each needed feature block is loaded once, in ascending order
//	             gatherer.distribute     hot rows to the feature cache, cold ones to runs in scratch
//	         G-2 deliverOne, fill        record + cache + run -> arrays of one slab
//	         G-3 Run.Next                handed out, in order
//
// A hyperbatch is sampled in windows: all of it at once where the samples of
// its minibatches fit in memory, else as many minibatches at a time as fit. A
// sweep of the graph blocks serves a window; a sweep of the feature blocks
// serves the hyperbatch. The first hyperbatches of an epoch are smaller where that
// costs little (grow.go), and what fits beside these steps is kept from one
// hyperbatch to the next (kept.go).
//
// # What is at the device meanwhile
//
// Blocks are read ahead by as many frames as there are, and a worker takes them as
// they come; pages of ids, seeds and hubs by as much as their buffer holds; node lists,
// records and runs in their order, while rows are sorted and copied. Checksum tables
// are read beside the pages that need them (package storage). Steps of a hyperbatch
// follow one another, since each needs all of the one before: between two hops,
// while local ids are given, nothing is at the device. The next hyperbatch is sampled
// while one is delivered, where memory holds both (ahead.go).
//
// # Policies
//
// How blocks are read and memory is divided is one struct, plan, filled in by New
// and asked by every step. Options.Published selects Algorithm 1 as published:
// whole blocks alone, also of hubs, always in ascending order, through a graph buffer and a feature buffer
// that last as long as the engine and give up frames by LRU, nothing else kept
// between hyperbatches. Explain prints the plan. Policies differ in what is read,
// never in what is handed out.
//
// # Invariants
//
//   - A minibatch is a pure function of the loader's seed, the epoch, its number,
//     the input nodes and the imported graph. Nothing else reaches a draw: draws
//     are made from a counter (docs/sampling.md), results are put in their place
//     by (minibatch, slot), and a window that is split for want of memory has
//     counted nothing yet.
//   - Everything that grows with the graph, the hyperbatch or a minibatch is
//     claimed from the budget before it is mapped.
//   - Each of a hyperbatch's steps returns what it claimed before the next one
//     divides what is free; what stays for delivery is computed before gathering.
//   - Ids read from a store are checked before they are used as an index.
//   - Scratch is read back in the units in which it was sealed (storage.Seal): records as
//     node list and rest, runs by chunk, with the hyperbatch as generation.
//
// # Why nothing waits for ever
//
// One goroutine runs an epoch; it, or the one that samples ahead for it, is the only
// one to acquire frames of a buffer, so frames
// are never held while waiting for others but by workers, which need nothing
// else to finish. What is sampled ahead has its memory before it begins and waits for
// the device alone; whoever lacks that memory breaks it off. Write buffers are returned by the I/O pool alone, which waits
// for nobody. Delivery waits for a slab with a time limit, and for the consumer
// until the context is cancelled or the epoch closed.
//
// # Limits
//
// Fewer than 2^32-1 nodes; 2^32-1 draws of a window; node degrees below 2^32.
package operation
