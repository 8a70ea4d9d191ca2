// Package storage moves whole pages between files and memory: a pool that
// keeps a queue of positioned reads and writes in flight past the page cache,
// the sections of an open store with the checksum of every page verified on
// arrival, streamed writing of new files, scratch files under a limit, counters
// of all of it, and the calibration of a device.
//
// # Units
//
// The unit of I/O is the page of layout.PageSize bytes: the buffers and the
// offsets of a Request are page-aligned and hold whole pages. Section.Read alone takes any
// range and reads the pages around it.
//
// # Direct I/O
//
// Files are opened with O_DIRECT, so that what is read once does not push the
// page cache about and a memory budget is not spent twice. Where the file
// system refuses (some network and memory file systems, or an alignment above
// one page according to statx), a file falls back to buffered I/O, drops each
// range from the page cache after reading it, says so by File.Direct and counts
// its bytes in Counters.FallbackBytes.
//
// # Concurrency, limits and why nothing deadlocks
//
// A Pool has a fixed number of workers, Depth, and so at most Depth requests at
// the device. The queue before them takes pointers only and never blocks;
// callers bound themselves by the buffers they own. A worker waits for nothing
// but the device: it holds no lock while it reads, and when the verification of
// a request needs a chunk of a checksum table, the worker reads that chunk by
// itself rather than queueing it, or waits for another thread that is at that
// moment reading it by itself. So every wait ends at a system call in progress,
// and the queue always drains. A Done function runs on the worker: it must
// not wait for another request of the same pool; it may submit more.
//
// Memory: a Store holds the root tables of its checksums (four bytes per 4 MiB
// of data, refused above 64 MiB) and a cache of checksum table chunks of fixed
// size; both are told by Store.MemoryBytes. A Writer holds two buffers. The
// rest belongs to the caller.
//
// # Errors
//
// What is the store's fault is a *layout.Error: a missing file, a wrong size,
// pages whose checksum differs. What is the device's or the system's is an
// *Error with the path, the offset and the operation. A misuse by our own code,
// such as an unaligned buffer, panics.
package storage
