package build

// Partitioned intermediate data: records appended to partitions whose sizes are
// known beforehand, kept in memory or in one scratch file.

import (
	"fmt"
	"sync"

	"github.com/goagnes/goagnes/goagnes/storage"
	"github.com/goagnes/goagnes/layout"
	"github.com/goagnes/goagnes/layout/build/source"
)

// spillUnit is a multiple of the page and of every fixed record's size (12 and 16
// bytes), so that full buffers hold whole records and whole pages.
const spillUnit = 3 * layout.PageSize

// spillRead is the size of one read of a partition.
const spillRead = 64 * spillUnit // 768 KiB

// spill holds bytes in partitions. Each partition is appended to in order and read
// back once it is finished.
type spill struct {
	input string // what is partitioned, for messages
	parts []spillPart
	mem   *region // all contents; nil where they lie in file
	file  *storage.File
	pool  *storage.Pool
	owner *storage.Scratch

	buffers []byte      // write buffers, the caller's memory
	spares  chan []byte // buffers free to use
	all     int         // number of buffers
	mu      struct {
		sync.Mutex
		err error
	}
}

type spillPart struct {
	offset int64  // in the file or memory
	size   int64  // bytes that will be appended
	put    int64  // bytes appended and no longer in buf
	buf    []byte // buffer being filled
	pos    int
}

// spillBytes is the room that partitions of those sizes take, each beginning on a
// page.
func spillBytes(sizes []int64) int64 {
	n := int64(0)
	for _, s := range sizes {
		n += layout.Pages(s) * layout.PageSize
	}
	return n
}

func placeParts(sizes []int64) ([]spillPart, int64) {
	parts := make([]spillPart, len(sizes))
	at := int64(0)
	for i, s := range sizes {
		parts[i] = spillPart{offset: at, size: s}
		at += layout.Pages(s) * layout.PageSize
	}
	return parts, at
}

// memorySpill keeps all partitions in mem, which must hold spillBytes(sizes).
func memorySpill(input string, sizes []int64, mem *region) *spill {
	s := &spill{input: input, mem: mem}
	s.parts, _ = placeParts(sizes)
	for i := range s.parts {
		p := &s.parts[i]
		p.buf = mem.bytes[p.offset : p.offset+p.size : p.offset+p.size]
	}
	return s
}

// scratchSpill keeps the partitions in a scratch file. buffers is page-aligned and
// is cut into one buffer a partition and some spares; it is free again after
// finish.
func scratchSpill(input string, sizes []int64, pool *storage.Pool, scratch *storage.Scratch, name string, buffers []byte) (*spill, error) {
	s := &spill{input: input, pool: pool, owner: scratch, buffers: buffers}
	var total int64
	s.parts, total = placeParts(sizes)
	n := spillBuffers(len(sizes))
	each := len(buffers) / n / spillUnit * spillUnit
	if each == 0 {
		panic(fmt.Sprintf("build: %d bytes for %d spill buffers", len(buffers), n))
	}
	s.all = n
	s.spares = make(chan []byte, n)
	for i := range n {
		s.spares <- buffers[i*each : (i+1)*each : (i+1)*each]
	}
	f, err := scratch.Create(name, total)
	if err != nil {
		return nil, err
	}
	s.file = f
	return s, nil
}

// spillBuffers is the number of buffers for n partitions: one each and enough
// spares to keep writes in flight.
func spillBuffers(n int) int { return n + min(max(n/2, 4), 16) }

// next gives partition p a buffer with room for at least one byte.
func (s *spill) next(p int) error {
	part := &s.parts[p]
	if part.put+int64(part.pos) >= part.size {
		return s.changed()
	}
	if s.mem != nil {
		panic("build: a partition in memory ends before its size")
	}
	if part.buf != nil {
		if err := s.flush(part); err != nil {
			return err
		}
	}
	part.buf, part.pos = <-s.spares, 0
	return nil
}

// flush writes a partition's buffer in the background.
func (s *spill) flush(part *spillPart) error {
	if err := s.failed(); err != nil {
		return err
	}
	n := layout.Pages(int64(part.pos)) * layout.PageSize
	if part.put+int64(part.pos) > part.size {
		return s.changed()
	}
	buf := part.buf
	clear(buf[part.pos:n])
	at := part.offset + part.put
	part.put += int64(part.pos)
	part.buf, part.pos = nil, 0
	s.pool.Submit(&storage.Request{File: s.file, Offset: at, Buf: buf[:n], Write: true, Done: func(r *storage.Request) {
		if r.Err != nil {
			s.mu.Lock()
			if s.mu.err == nil {
				s.mu.err = r.Err
			}
			s.mu.Unlock()
		}
		s.spares <- buf
	}})
	return nil
}

func (s *spill) failed() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mu.err
}

// append adds bytes to partition p; they may end in the next buffer.
func (s *spill) append(p int, b []byte) error {
	part := &s.parts[p]
	for len(b) > 0 {
		if part.pos == len(part.buf) {
			if err := s.next(p); err != nil {
				return err
			}
		}
		n := copy(part.buf[part.pos:], b)
		part.pos += n
		b = b[n:]
	}
	return nil
}

// finish writes what is buffered, waits for it, and checks that every partition
// has its size.
func (s *spill) finish() error {
	var err error
	if s.mem == nil {
		for i := range s.parts {
			if s.parts[i].buf != nil && err == nil {
				err = s.flush(&s.parts[i])
			}
		}
		s.wait()
		if err == nil {
			err = s.failed()
		}
	}
	for i := range s.parts {
		p := &s.parts[i]
		if err == nil && p.put+int64(p.pos) != p.size {
			err = s.changed()
		}
	}
	return err
}

// wait takes all buffers back from the writes in flight.
func (s *spill) wait() {
	held := 0
	for i := range s.parts {
		if s.parts[i].buf != nil {
			held++
			s.parts[i].buf = nil
		}
	}
	for ; held < s.all; held++ {
		<-s.spares
	}
	s.all, s.buffers = 0, nil
}

func (s *spill) changed() error {
	return &source.Error{File: s.input, Index: -1, Msg: "the input changed between two readings; build again when nothing writes to it"}
}

// close waits for writes in flight and removes the scratch file.
func (s *spill) close() error {
	if s == nil || s.file == nil {
		return nil
	}
	s.wait()
	f := s.file
	s.file = nil
	return s.owner.Remove(f)
}

// load returns the bytes of partition p, read into buf where they are not in
// memory; buf is page-aligned and holds the partition rounded up to a page.
func (s *spill) load(p int, buf []byte) ([]byte, error) {
	part := &s.parts[p]
	if s.mem != nil {
		return s.mem.bytes[part.offset : part.offset+part.size], nil
	}
	total := layout.Pages(part.size) * layout.PageSize
	reads := int((total + spillRead - 1) / spillRead)
	errs := make(chan error, reads)
	for at := int64(0); at < total; at += spillRead {
		s.pool.Submit(&storage.Request{File: s.file, Offset: part.offset + at, Buf: buf[at:min(at+spillRead, total)],
			Done: func(r *storage.Request) { errs <- r.Err }})
	}
	var first error
	for range reads {
		if err := <-errs; err != nil && first == nil {
			first = err
		}
	}
	return buf[:part.size], first
}

// stream passes the bytes of partition p to f in order, in pieces that are whole
// multiples of spillUnit but for the last. buf is page-aligned and holds two pieces:
// one is read while the other is used.
func (s *spill) stream(p int, buf []byte, f func(b []byte) error) error {
	part := &s.parts[p]
	if s.mem != nil {
		return f(s.mem.bytes[part.offset : part.offset+part.size])
	}
	each := int64(len(buf)) / 2 / spillUnit * spillUnit
	if each == 0 {
		panic("build: too small a buffer to read a partition")
	}
	done := make(chan error, 1)
	read := func(at int64) {
		b := buf[at/each%2*each:]
		n := min(each, layout.Pages(part.size-at)*layout.PageSize)
		s.pool.Submit(&storage.Request{File: s.file, Offset: part.offset + at, Buf: b[:n], Done: func(r *storage.Request) { done <- r.Err }})
	}
	if part.size > 0 {
		read(0)
	}
	for at := int64(0); at < part.size; at += each {
		if err := <-done; err != nil {
			return err
		}
		more := at+each < part.size
		if more {
			read(at + each)
		}
		if err := f(buf[at/each%2*each:][:min(each, part.size-at)]); err != nil {
			if more {
				<-done
			}
			return err
		}
	}
	return nil
}
