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
// # The file system
//
// Every file is reached through an FS; OS is the operating system's. A Handle
// that is a Watcher sees each transfer of every engine before it starts and
// after it ends, whether it takes a system call or a ring entry. Package inject
// delays and fails them.
//
// # The ways to the device
//
// A Pool uses io_uring (IOUring), or system calls from as many threads as
// requests are in flight (IOPread), the latter also through the page cache on
// purpose (IOBuffered). IOAuto takes io_uring where a round trip through a ring
// works: kernels before 5.6, sysctl kernel.io_uring_disabled and seccomp filters
// stand in its way, and Pool.Refusal tells which. Short, interrupted and
// refused (EAGAIN) transfers are continued by the same rules everywhere.
//
// Memory into which many requests go may be registered (Pool.Register): with a
// ring, the kernel pins its pages once instead of at each request, where
// RLIMIT_MEMLOCK allows. Counters.RegisteredBytes tells how much is.
//
// # Scratch
//
// What is spilled to a Scratch is read back by the process that wrote it. It is written
// and read in units that carry their proof (Seal), with no table beside them, and a Pool
// verifies every read of such a file: what the device altered, lost or misplaced is an
// *Error around a *DamageError. A unit that a Seal names otherwise than it was written is
// taken for damaged, too. File.ReadAt and File.WriteAt pass the seals by.
//
// # Concurrency, limits and why nothing deadlocks
//
// A Pool has at most Depth requests at the device. The queue before them takes
// pointers only and never blocks; callers bound themselves by the buffers they
// own. With system calls a request is moved, verified and finished by one of
// Depth workers. With a ring, it is handed to the kernel by whoever submits it
// while one of Depth slots is free, else by the reaper, the one goroutine that
// takes completions; it goes from there to a few workers, which verify and
// finish. The ring has an entry for every slot, and the kernel's completion
// queue two, so that neither can run full. The reaper hands over what waits for
// slots before it waits for completions, and everybody else after each change
// that frees a slot or queues a request, so that no request waits beside a free
// slot. A file without a descriptor is moved by the workers.
//
// A worker waits for nothing but the device: it holds no lock while it reads.
// The chunks of checksum tables that a request is verified with are requested
// beside it, and a request whose pages come first is left with the chunk, without
// a worker. Where a chunk that is needed was not requested, or has had to make
// room, the worker reads it by itself rather than queueing it, or waits for
// another thread that is at that moment reading it by itself. So every wait ends
// at a system call in progress, and the queue always drains. A Done function
// runs on a worker: it must not wait for another request of the same pool; it
// may submit more. A File closes its descriptor when the last transfer on it has
// ended.
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
