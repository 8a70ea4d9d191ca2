package storage

import (
	"encoding/binary"
	"io"

	"golang.org/x/sys/unix"

	"github.com/goagnes/goagnes/layout"
)

// Writer writes a new file from front to back in large aligned pieces: while
// one buffer is written the other is filled. It also hands out the plain
// CRC32C of every page, from which the builder of a store makes the checksum
// tables. A Writer is used by one goroutine.
type Writer struct {
	pool   *Pool
	file   *File
	sums   io.Writer
	memory []byte // mapping that holds both buffers

	request [2]Request
	flying  [2]bool
	done    [2]chan struct{}
	current int // buffer that is filled
	filled  int // bytes in it

	bytes  int64 // given to Write
	offset int64 // of the current buffer in the file
	sumBuf []byte
	err    error // the first failure; every later call returns it
	closed bool
}

// DefaultWriterBuffer is the size of each of a Writer's two buffers where
// NewWriter is given 0.
const DefaultWriterBuffer = 4 << 20

// NewWriter makes the file path, which must not exist, or a striped one from
// parts in several directories. Each of its two buffers takes bufBytes, rounded
// up to pages, 0 = DefaultWriterBuffer. The plain CRC32C of every page goes to
// sums as a little-endian word, in order; sums may be nil.
func NewWriter(pool *Pool, path string, bufBytes int, sums io.Writer) (*Writer, error) {
	f, err := OpenFile(pool.options.FS, path, Flags{Create: true, Buffered: pool.buffered()})
	if err != nil {
		return nil, err
	}
	return newWriter(pool, f, bufBytes, sums)
}

// NewStripedWriter is NewWriter for a file with parts of that name in each of
// the directories, in units of unit bytes.
func NewStripedWriter(pool *Pool, dirs []string, name string, unit int64, bufBytes int, sums io.Writer) (*Writer, error) {
	f, err := OpenStriped(pool.options.FS, dirs, name, unit, Flags{Create: true, Buffered: pool.buffered()})
	if err != nil {
		return nil, err
	}
	return newWriter(pool, f, bufBytes, sums)
}

func newWriter(pool *Pool, f *File, bufBytes int, sums io.Writer) (*Writer, error) {
	if bufBytes <= 0 {
		bufBytes = DefaultWriterBuffer
	}
	n := int(roundUpPage(int64(bufBytes)))
	var err error
	w := &Writer{pool: pool, file: f, sums: sums}
	if w.memory, err = unix.Mmap(-1, 0, 2*n, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON); err != nil {
		f.Close()
		f.remove()
		return nil, f.fail("map memory to write", -1, err)
	}
	for i := range w.request {
		done := make(chan struct{}, 1)
		w.done[i] = done
		w.request[i] = Request{File: f, Write: true, Buf: w.memory[i*n : (i+1)*n : (i+1)*n], Done: func(*Request) { done <- struct{}{} }}
	}
	if sums != nil {
		w.sumBuf = make([]byte, n/layout.PageSize*layout.TableEntry)
	}
	return w, nil
}

// Preallocate reserves the file's space ahead of writing; Close cuts off what
// was not used.
func (w *Writer) Preallocate(n int64) error {
	if err := w.usable(); err != nil {
		return err
	}
	return w.keep(w.file.Preallocate(roundUpPage(n)))
}

// Write appends p.
func (w *Writer) Write(p []byte) (int, error) {
	if err := w.usable(); err != nil {
		return 0, err
	}
	total := len(p)
	for len(p) > 0 {
		buf := w.request[w.current].Buf
		n := copy(buf[w.filled:], p)
		w.filled += n
		w.bytes += int64(n)
		p = p[n:]
		if w.filled == len(buf) {
			if err := w.flush(); err != nil {
				return total - len(p), err
			}
		}
	}
	return total, nil
}

// Bytes returns the bytes given to Write so far.
func (w *Writer) Bytes() int64 { return w.bytes }

func (w *Writer) usable() error {
	if w.err == nil && w.closed {
		return w.file.fail("write", -1, ErrClosed)
	}
	return w.err
}

func (w *Writer) keep(err error) error {
	if w.err == nil {
		w.err = err
	}
	return w.err
}

// flush sends the pages of the current buffer and waits for the other one.
func (w *Writer) flush() error {
	r := &w.request[w.current]
	whole := r.Buf
	pages := whole[:roundUpPage(int64(w.filled))]
	clear(pages[w.filled:])
	if w.sums != nil {
		s := w.sumBuf[:0]
		for b := pages; len(b) > 0; b = b[layout.PageSize:] {
			s = binary.LittleEndian.AppendUint32(s, layout.CRC(b[:layout.PageSize]))
		}
		if _, err := w.sums.Write(s); err != nil {
			return w.keep(err)
		}
	}
	r.Buf, r.Offset = pages, w.offset
	w.flying[w.current] = true
	w.pool.Submit(r)
	w.offset += int64(len(pages))
	w.current, w.filled = 1-w.current, 0
	return w.wait(w.current)
}

// wait ends the request of buffer i, if there is one.
func (w *Writer) wait(i int) error {
	if !w.flying[i] {
		return w.err
	}
	<-w.done[i]
	w.flying[i] = false
	r := &w.request[i]
	r.Buf = r.Buf[:cap(r.Buf)]
	return w.keep(r.Err)
}

// Close writes what is left, padded with zeros to a whole page, cuts the file
// to that size, syncs and closes it. After a failure it only closes the file,
// and returns the failure; Abort removes it.
func (w *Writer) Close() error {
	if w.closed {
		return w.err
	}
	if w.err == nil && w.filled > 0 {
		w.flush()
	}
	w.wait(0)
	w.wait(1)
	if w.err == nil {
		size, err := w.file.Size()
		if err == nil && size != w.offset {
			err = w.file.Truncate(w.offset)
		}
		w.keep(err)
	}
	if w.err == nil {
		w.keep(w.file.Sync())
	}
	w.release()
	return w.err
}

// Abort stops writing, closes and removes the file. After a successful Close
// it does nothing.
func (w *Writer) Abort() error {
	if w.closed && w.err == nil {
		return nil
	}
	if !w.closed {
		w.wait(0)
		w.wait(1)
		w.release()
	}
	w.keep(w.file.fail("write", -1, ErrClosed))
	return w.file.remove()
}

func (w *Writer) release() {
	w.closed = true
	w.keep(w.file.Close())
	if err := unix.Munmap(w.memory); err != nil {
		panic("storage: a writer's memory cannot be unmapped: " + err.Error())
	}
	w.memory = nil
	for i := range w.request {
		w.request[i].Buf = nil
	}
}
