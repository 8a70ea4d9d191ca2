// Package memory holds everything that occupies memory in proportion to a
// store or a minibatch, all of it counted against one Budget:
//
//   - Budget and Lease: the number that bounds everything, and shares of it;
//   - Map, Unmap: off-heap memory, counted by purpose;
//   - SlabPool and Slab: the memory of minibatches handed to consumers, which
//     drop it from any thread and any language by an atomic in its header;
//   - Buffer: the frames of the graph buffer and of the feature buffer with
//     their index table T_buf, least recently used, pinned while in use;
//   - ObjectIndex: T_obj, which finds the graph block of a node;
//   - AccessCounter and FeatureCache: the counts of a hyperbatch, the threshold
//     on them, and the cache of feature rows C_f with its index table T_ch.
//
// # Invariants
//
// Used never exceeds Total: what does not fit is refused with the number that
// is needed, never granted and hoped for. A mapping is made after its lease and
// undone before the lease is released. A pinned frame keeps its block. A slab
// is used again only when its reference count says that the pool alone holds
// it.
//
// # Why nothing deadlocks
//
// Every lock here is held for a bounded number of instructions and never
// while another lock is taken, but that a SlabPool calls into its Budget, whose
// lock is the innermost. Three calls wait for others: SlabPool.Get ends with an
// error after SlabPool.Wait; Frame.Wait ends when the loader calls Ready, which
// it must whatever happens; Buffer.WaitUnpinned ends when a frame is unpinned,
// so a caller that holds pins must not wait there unless others, who do not
// wait, hold some, too.
//
// # Limits
//
// Nothing allocates in proportion to untrusted input: sizes come from the
// caller, who reserves them first. The tables of a Buffer (BufferTableBytes)
// are on the Go heap; all else that is large is the caller's or mapped.
//
// The build tag invariants turns on poisoning of free slabs and the checks of
// Buffer after every change.
package memory
