package spill

// Partitioned intermediate data: records appended to partitions whose sizes are
// known beforehand, kept in memory or in one scratch file.

import (
	"fmt"
	"iter"
	"sync"

	"github.com/goagnes/goagnes/goagnes/storage"
	"github.com/goagnes/goagnes/layout"
	"github.com/goagnes/goagnes/layout/build/ledger"
	"github.com/goagnes/goagnes/layout/build/source"
)

// Unit is what is sealed: a whole number of pages, which hold Payload bytes and a seal
// (storage.Seal).
const Unit = 3 * layout.PageSize

// Payload is a multiple of every fixed record's size (12 and 16 bytes), so that full
// units hold whole records.
const Payload = Unit - 48

// ReadBytes is the size of one read of a partition.
const ReadBytes = 64 * Unit // 768 KiB

// Partitions holds bytes in partitions. Each partition is appended to in order and read
// back once it is finished.
type Partitions struct {
	Input string // what is partitioned, for messages
	Parts []Part
	mem   *ledger.Region // all contents; nil where they lie in file
	file  *storage.File  // units of Unit bytes, of which a partition's last may be shorter
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
	put    int64  // bytes appended and no longer in Buf
	Buf    []byte // being filled: the payload of a unit of frame
	Pos    int
	frame  []byte // what is written at once; nil in memory
	done   int64  // bytes of frame before the unit of Buf
	at     int64  // where frame belongs in the file
}

// Bytes is the memory that partitions of those sizes take, each beginning on a page.
func Bytes(sizes []int64) int64 {
	n := int64(0)
	for _, s := range sizes {
		n += layout.Pages(s) * layout.PageSize
	}
	return n
}

// Stored is the room in scratch of a partition of size bytes: its units, in whole pages.
func Stored(size int64) int64 {
	n := size / Payload * Unit
	if rest := size % Payload; rest > 0 {
		n += layout.Pages(rest+storage.SealBytes) * layout.PageSize
	}
	return n
}

// MostStored bounds the room in scratch of parts partitions of size bytes together.
func MostStored(size, parts int64) int64 {
	return (size/Payload+1)*Unit + parts*2*layout.PageSize
}

func placeParts(sizes []int64, room func(size int64) int64) ([]Part, int64) {
	parts := make([]Part, len(sizes))
	at := int64(0)
	for i, s := range sizes {
		parts[i] = Part{offset: at, at: at, size: s}
		at += room(s)
	}
	return parts, at
}

// InMemory keeps all partitions in mem, which must hold Bytes(sizes).
func InMemory(input string, sizes []int64, mem *ledger.Region) *Partitions {
	s := &Partitions{Input: input, mem: mem}
	s.Parts, _ = placeParts(sizes, func(size int64) int64 { return layout.Pages(size) * layout.PageSize })
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
	s.Parts, total = placeParts(sizes, Stored)
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
	if part.frame != nil {
		part.endUnit()
		if part.done+Unit <= int64(len(part.frame)) {
			part.beginUnit()
			return nil
		}
		if err := s.flush(part); err != nil {
			return err
		}
	}
	part.frame, part.done = <-s.spares, 0
	part.beginUnit()
	return nil
}

// beginUnit makes the payload of the frame's next unit Buf.
func (p *Part) beginUnit() {
	p.Buf, p.Pos = p.frame[p.done:p.done+Payload:p.done+Payload], 0
}

// endUnit clears what the unit of Buf leaves free.
func (p *Part) endUnit() {
	end := p.done + Stored(int64(p.Pos))
	clear(p.frame[p.done+int64(p.Pos) : end])
	p.put += int64(p.Pos)
	p.Buf, p.Pos, p.done = nil, 0, end
}

// flush writes a partition's frame in the background.
func (s *Partitions) flush(part *Part) error {
	if err := s.failed(); err != nil {
		return err
	}
	if part.put > part.size {
		return s.Changed()
	}
	frame, n, at := part.frame, part.done, part.at
	part.frame, part.done, part.at = nil, 0, at+n
	if n == 0 {
		s.spares <- frame
		return nil
	}
	s.pool.Submit(&storage.Request{File: s.file, Offset: at, Buf: frame[:n], Write: true, Seal: storage.Seal{Unit: Unit}, Done: func(r *storage.Request) {
		if r.Err != nil {
			s.mu.Lock()
			if s.mu.err == nil {
				s.mu.err = r.Err
			}
			s.mu.Unlock()
		}
		s.spares <- frame
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
			if p := &s.Parts[i]; p.frame != nil && err == nil {
				p.endUnit()
				err = s.flush(p)
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
		if s.Parts[i].frame != nil {
			held++
			s.Parts[i].frame, s.Parts[i].Buf = nil, nil
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

// Records are the bytes of a partition in order, in pieces that hold whole fixed records.
type Records = iter.Seq[[]byte]

// Whole is Records of one piece.
func Whole(b []byte) Records { return func(yield func([]byte) bool) { yield(b) } }

// payloads are those of the units in pages, of which the last belongs to size bytes.
func payloads(pages []byte, size int64) Records {
	return func(yield func([]byte) bool) {
		for at, left := int64(0), size; left > 0; at += Unit {
			n := min(left, Payload)
			if !yield(pages[at : at+n : at+n]) {
				return
			}
			left -= n
		}
	}
}

// Load returns the bytes of partition p, read into buf where they are not in memory; buf
// is page-aligned and holds Stored of its size. They are valid as long as buf is left alone.
func (s *Partitions) Load(p int, buf []byte) (Records, error) {
	part := &s.Parts[p]
	if s.mem != nil {
		return Whole(s.mem.Bytes[part.offset : part.offset+part.size]), nil
	}
	total := Stored(part.size)
	reads := int((total + ReadBytes - 1) / ReadBytes)
	errs := make(chan error, reads)
	for at := int64(0); at < total; at += ReadBytes {
		s.pool.Submit(&storage.Request{File: s.file, Offset: part.offset + at, Buf: buf[at:min(at+ReadBytes, total)], Seal: storage.Seal{Unit: Unit},
			Done: func(r *storage.Request) { errs <- r.Err }})
	}
	var first error
	for range reads {
		if err := <-errs; err != nil && first == nil {
			first = err
		}
	}
	return payloads(buf, part.size), first
}

// Stream passes the bytes of partition p to f in order, in pieces that are whole
// multiples of every fixed record's size. buf is page-aligned and holds two transfers:
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
	total, left := Stored(part.size), part.size
	done := make(chan error, 1)
	read := func(at int64) {
		b := buf[at/each%2*each:]
		n := min(each, total-at)
		s.pool.Submit(&storage.Request{File: s.file, Offset: part.offset + at, Buf: b[:n], Seal: storage.Seal{Unit: Unit}, Done: func(r *storage.Request) { done <- r.Err }})
	}
	if total > 0 {
		read(0)
	}
	for at := int64(0); at < total; at += each {
		if err := <-done; err != nil {
			return err
		}
		more := at+each < total
		if more {
			read(at + each)
		}
		n := min(left, each/Unit*Payload)
		for b := range payloads(buf[at/each%2*each:], n) {
			if err := f(b); err != nil {
				if more {
					<-done
				}
				return err
			}
		}
		left -= n
	}
	return nil
}
