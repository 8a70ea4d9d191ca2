// Package storage does direct, asynchronous block I/O, scratch files, I/O
// counters and device calibration.
package storage

import (
	"context"
	"io"

	"github.com/goagnes/goagnes/layout"
)

// Signatures; bodies follow file by file.

type PoolOptions struct {
	Depth    int  // requests in flight, 0 = 16
	Buffered bool // stores opened with this pool go through the page cache
}
type Pool struct{}

func NewPool(o PoolOptions) *Pool   { panic("storage: unfinished") }
func (p *Pool) Submit(r *Request)   { panic("storage: unfinished") }
func (p *Pool) Do(r *Request) error { panic("storage: unfinished") } // on the calling goroutine, counted; Done is not called
func (p *Pool) Close() error        { panic("storage: unfinished") }
func (p *Pool) Counters() Counters  { panic("storage: unfinished") }
func (p *Pool) Depth() int          { panic("storage: unfinished") }

type Request struct {
	File   *File
	Offset int64
	Buf    []byte // page-aligned, whole pages
	Write  bool
	Check  *Section // verify the pages after the read; nil = none
	Tag    int64
	Err    error
	Done   func(*Request) // called once, on a worker goroutine
}
type Histogram struct{ Buckets [32]int64 }
type Counters struct {
	Reads, Writes               int64
	BytesRead, BytesWritten     int64
	ScratchRead, ScratchWritten int64
	MaxInFlight                 int64
	ReadLatency, SizeHistogram  Histogram
	BusySeconds                 float64
}

func (c Counters) Sub(earlier Counters) Counters { panic("storage: unfinished") }

type Flags struct{ Write, Create, Scratch, Buffered bool }
type File struct{}

func OpenFile(path string, flags Flags) (*File, error)      { panic("storage: unfinished") }
func (f *File) ReadAt(b []byte, offset int64) (int, error)  { panic("storage: unfinished") }
func (f *File) WriteAt(b []byte, offset int64) (int, error) { panic("storage: unfinished") }
func (f *File) Size() (int64, error)                        { panic("storage: unfinished") }
func (f *File) Sync() error                                 { panic("storage: unfinished") }
func (f *File) Close() error                                { panic("storage: unfinished") }
func (f *File) Name() string                                { panic("storage: unfinished") } // the path it was opened by
func (f *File) Direct() bool                                { panic("storage: unfinished") }
func (f *File) Preallocate(n int64) error                   { panic("storage: unfinished") }
func (f *File) Truncate(n int64) error                      { panic("storage: unfinished") }

type StoreOptions struct {
	Pool          *Pool // nil = an own one, closed with the store
	ChecksumCache int64 // bytes, 0 = 4 MiB
}
type Store struct{}

func OpenStore(dir string, o StoreOptions) (*Store, error) { panic("storage: unfinished") }
func (s *Store) Manifest() *layout.Manifest                { panic("storage: unfinished") }
func (s *Store) Section(name string) *Section              { panic("storage: unfinished") } // nil if absent
func (s *Store) Dir() string                               { panic("storage: unfinished") }
func (s *Store) Pool() *Pool                               { panic("storage: unfinished") }
func (s *Store) MemoryBytes() int64                        { panic("storage: unfinished") } // root tables and checksum cache
func (s *Store) Close() error                              { panic("storage: unfinished") }

type Section struct{ layout.Section }

func (s *Section) Handle() *File { panic("storage: unfinished") }

// Read fills buf from any offset (aligned or not), verified.
func (s *Section) Read(offset int64, buf []byte) error { panic("storage: unfinished") }

// Submit reads whole pages asynchronously, verified.
func (s *Section) Submit(offset int64, buf []byte, tag int64, done func(*Request)) {
	panic("storage: unfinished")
}

type Error struct {
	Path   string
	Offset int64
	Op     string
	Err    error
}

func (e *Error) Error() string { return e.Op + " " + e.Path + ": " + e.Err.Error() }
func (e *Error) Unwrap() error { return e.Err }
func (e *Error) Class() string { return "io" }

type Scratch struct{}

func OpenScratch(parent string, limit int64) (*Scratch, error)   { panic("storage: unfinished") }
func (s *Scratch) Create(name string, size int64) (*File, error) { panic("storage: unfinished") }
func (s *Scratch) Extend(f *File, size int64) error              { panic("storage: unfinished") }
func (s *Scratch) Remove(f *File) error                          { panic("storage: unfinished") }
func (s *Scratch) Used() int64                                   { panic("storage: unfinished") }
func (s *Scratch) Limit() int64                                  { panic("storage: unfinished") }
func (s *Scratch) Dir() string                                   { panic("storage: unfinished") }
func (s *Scratch) Close() error                                  { panic("storage: unfinished") }

type CalibrateOptions struct {
	Path    string  // a file to read; "" = a temporary one in dir
	Bytes   int64   // size of the temporary file, 0 = 128 MiB
	Depth   int     // 0 = 16
	Seconds float64 // per size, 0 = 0.08
}
type CalibrationPoint struct {
	Size, Reads    int64
	Seconds        float64
	BytesPerSecond float64
}
type Calibration struct {
	SecondsPerRead float64
	BytesPerSecond float64
	Depth          int
	Direct         bool
	Points         []CalibrationPoint
}

func Calibrate(ctx context.Context, dir string, o CalibrateOptions) (Calibration, error) {
	panic("storage: unfinished")
}
func (c Calibration) Cost(bytes int64) float64 { panic("storage: unfinished") } // seconds of one read, amortised at queue depth

type Writer struct{}

// NewWriter creates path (it must not exist). The plain CRC32C of every page goes to sums as
// little-endian words, in order; nil = not wanted.
func NewWriter(pool *Pool, path string, bufBytes int, sums io.Writer) (*Writer, error) {
	panic("storage: unfinished")
}
func (w *Writer) Write(p []byte) (int, error) { panic("storage: unfinished") }
func (w *Writer) Bytes() int64                { panic("storage: unfinished") } // written so far, without padding
func (w *Writer) Close() error                { panic("storage: unfinished") } // pads to a page, syncs
func (w *Writer) Abort() error                { panic("storage: unfinished") } // closes and removes the file

// AlignedBytes returns n bytes on the Go heap, page-aligned.
func AlignedBytes(n int) []byte { panic("storage: unfinished") }
