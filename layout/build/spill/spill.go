package spill

// Partitioned intermediate data: records appended to partitions whose sizes are
// known beforehand, kept in memory or in one scratch file.

import (
	"fmt"
	"sync"

	"github.com/goagnes/goagnes/goagnes/storage"
	"github.com/goagnes/goagnes/layout"
	"github.com/goagnes/goagnes/layout/build/ledger"
	"github.com/goagnes/goagnes/layout/build/source"
)

// Unit is a multiple of the page and of every fixed record's size (12 and 16
// bytes), so that full buffers hold whole records and whole pages.
const Unit = 3 * layout.PageSize

// ReadBytes is the size of one read of a partition.
const ReadBytes = 64 * Unit // 768 KiB

// Partitions holds bytes in partitions. Each partition is appended to in order and read
// back once it is finished.
type Partitions struct {
	Input string // what is partitioned, for messages
	Parts []Part
	mem   *ledger.Region // all contents; nil where they lie in file
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

// Part is one partition. Who appends fixed records writes them to Buf from Pos on, and
// asks Next for another buffer where it is full.
type Part struct {
	offset int64  // in the file or memory
	size   int64  // bytes that will be appended
	put    int64  // bytes appended and no longer in buf
	Buf    []byte // buffer being filled
	Pos    int
}

// Bytes is the room that partitions of those sizes take, each beginning on a
// page.
func Bytes(sizes []int64) int64 {
	n := int64(0)
	for _, s := range sizes {
		n += layout.Pages(s) * layout.PageSize
	}
	return n
}

func placeParts(sizes []int64) ([]Part, int64) {
	parts := make([]Part, len(sizes))
	at := int64(0)
	for i, s := range sizes {
		parts[i] = Part{offset: at, size: s}
		at += layout.Pages(s) * layout.PageSize
	}
	return parts, at
}

// InMemory keeps all partitions in mem, which must hold spillBytes(sizes).
func InMemory(input string, sizes []int64, mem *ledger.Region) *Partitions {
	s := &Partitions{Input: input, mem: mem}
	s.Parts, _ = placeParts(sizes)
	for i := range s.Parts {
		p := &s.Parts[i]
		p.Buf = mem.Bytes[p.offset : p.offset+p.size : p.offset+p.size]
	}
	return s
}

// InScratch keeps the partitions in a scratch file. buffers is page-aligned and
// is cut into one buffer a partition and some spares; it is free again after
// finish.
func InScratch(input string, sizes []int64, pool *storage.Pool, scratch *storage.Scratch, name string, buffers []byte) (*Partitions, error) {
	s := &Partitions{Input: input, pool: pool, owner: scratch, buffers: buffers}
	var total int64
	s.Parts, total = placeParts(sizes)
	n := Buffers(len(sizes))
	each := len(buffers) / n / Unit * Unit
	if each == 0 {
		panic(fmt.Sprintf("spill: %d bytes for %d spill buffers", len(buffers), n))
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

// InMemory reports whether nothing lies in scratch.
func (s *Partitions) InMemory() bool { return s.mem != nil }

// Buffers is the number of buffers for n partitions: one each and enough
// spares to keep writes in flight.
func Buffers(n int) int { return n + min(max(n/2, 4), 16) }

// Next gives partition p a buffer with room for at least one byte.
func (s *Partitions) Next(p int) error {
	part := &s.Parts[p]
	if part.put+int64(part.Pos) >= part.size {
		return s.Changed()
	}
	if s.mem != nil {
		panic("spill: a partition in memory ends before its size")
	}
	if part.Buf != nil {
		if err := s.flush(part); err != nil {
			return err
		}
	}
	part.Buf, part.Pos = <-s.spares, 0
	return nil
}

// flush writes a partition's buffer in the background.
func (s *Partitions) flush(part *Part) error {
	if err := s.failed(); err != nil {
		return err
	}
	n := layout.Pages(int64(part.Pos)) * layout.PageSize
	if part.put+int64(part.Pos) > part.size {
		return s.Changed()
	}
	buf := part.Buf
	clear(buf[part.Pos:n])
	at := part.offset + part.put
	part.put += int64(part.Pos)
	part.Buf, part.Pos = nil, 0
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

func (s *Partitions) failed() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mu.err
}

// Append adds bytes to partition p; they may end in the next buffer.
func (s *Partitions) Append(p int, b []byte) error {
	part := &s.Parts[p]
	for len(b) > 0 {
		if part.Pos == len(part.Buf) {
			if err := s.Next(p); err != nil {
				return err
			}
		}
		n := copy(part.Buf[part.Pos:], b)
		part.Pos += n
		b = b[n:]
	}
	return nil
}

// Finish writes what is buffered, waits for it, and checks that every partition
// has its size.
func (s *Partitions) Finish() error {
	var err error
	if s.mem == nil {
		for i := range s.Parts {
			if s.Parts[i].Buf != nil && err == nil {
				err = s.flush(&s.Parts[i])
			}
		}
		s.wait()
		if err == nil {
			err = s.failed()
		}
	}
	for i := range s.Parts {
		p := &s.Parts[i]
		if err == nil && p.put+int64(p.Pos) != p.size {
			err = s.Changed()
		}
	}
	return err
}

// wait takes all buffers back from the writes in flight.
func (s *Partitions) wait() {
	held := 0
	for i := range s.Parts {
		if s.Parts[i].Buf != nil {
			held++
			s.Parts[i].Buf = nil
		}
	}
	for ; held < s.all; held++ {
		<-s.spares
	}
	s.all, s.buffers = 0, nil
}

// Changed is the fault of an input that differs from what the sizes were counted in.
func (s *Partitions) Changed() error {
	return &source.Error{File: s.Input, Index: -1, Msg: "the input changed between two readings; build again when nothing writes to it"}
}

// Close waits for writes in flight and removes the scratch file.
func (s *Partitions) Close() error {
	if s == nil || s.file == nil {
		return nil
	}
	s.wait()
	f := s.file
	s.file = nil
	return s.owner.Remove(f)
}

// Load returns the bytes of partition p, read into buf where they are not in
// memory; buf is page-aligned and holds the partition rounded up to a page.
func (s *Partitions) Load(p int, buf []byte) ([]byte, error) {
	part := &s.Parts[p]
	if s.mem != nil {
		return s.mem.Bytes[part.offset : part.offset+part.size], nil
	}
	total := layout.Pages(part.size) * layout.PageSize
	reads := int((total + ReadBytes - 1) / ReadBytes)
	errs := make(chan error, reads)
	for at := int64(0); at < total; at += ReadBytes {
		s.pool.Submit(&storage.Request{File: s.file, Offset: part.offset + at, Buf: buf[at:min(at+ReadBytes, total)],
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

// Stream passes the bytes of partition p to f in order, in pieces that are whole
// multiples of spillUnit but for the last. buf is page-aligned and holds two pieces:
// one is read while the other is used.
func (s *Partitions) Stream(p int, buf []byte, f func(b []byte) error) error {
	part := &s.Parts[p]
	if s.mem != nil {
		return f(s.mem.Bytes[part.offset : part.offset+part.size])
	}
	each := int64(len(buf)) / 2 / Unit * Unit
	if each == 0 {
		panic("spill: too small a buffer to read a partition")
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
