package operation

// The lists of nodes of sampled minibatches, read back in order for gathering.

import (
	"unsafe"

	"github.com/goagnes/goagnes/goagnes/storage"
	"github.com/goagnes/goagnes/layout"
)

// bodies reads the node lists of records in turn, and ahead as many of those in
// scratch as its memory holds.
type bodies struct {
	h       *hyperbatch
	at      int         // record whose list next returns
	upto    int         // record up to which lists are being read
	free    [][]byte    // each holds the longest list, in whole pages
	reading []chan body // of the records in scratch from at on
	last    []byte      // what next returned, nil where it was in memory
}

// body is a list on its way from scratch.
type body struct {
	buf []byte
	err error
}

// bodies returns a reader that begins with a record. mem holds at least one list
// of the longest minibatch in whole pages, and what aligning it takes; more, of
// whole pages, may be empty.
func (h *hyperbatch) bodies(from int, mem, more []byte) *bodies {
	b := &bodies{h: h, at: from, upto: from}
	mem = mem[int(-uintptr(unsafe.Pointer(unsafe.SliceData(mem)))&(layout.PageSize-1)):]
	size := max(roundUp(4*h.longest(), layout.PageSize), layout.PageSize)
	for _, m := range [][]byte{more, mem} {
		for ; int64(len(m)) >= size; m = m[size:] {
			b.free = append(b.free, m[:size:size])
		}
	}
	return b
}

// next returns the next record's nodes, valid until the next call.
func (b *bodies) next() ([]uint32, error) {
	if b.last != nil {
		b.free, b.last = append(b.free, b.last), nil
	}
	for ; b.upto < len(b.h.records) && len(b.free) > 0; b.upto++ {
		r := &b.h.records[b.upto]
		if r.body != nil {
			continue
		}
		buf := b.free[len(b.free)-1]
		b.free = b.free[:len(b.free)-1]
		done := make(chan body, 1)
		b.reading = append(b.reading, done)
		page := buf[:roundUp(4*int64(r.nodes), layout.PageSize)]
		b.h.e.Store.Pool().Submit(&storage.Request{File: b.h.e.samples[b.h.half], Offset: r.at, Buf: page, Seal: r.seal(),
			Done: func(q *storage.Request) { done <- body{buf, q.Err} }})
	}
	r := &b.h.records[b.at]
	b.at++
	n := 4 * int64(r.nodes)
	if r.body != nil {
		return words(r.body[:n]), nil
	}
	got := <-b.reading[0]
	b.reading = b.reading[1:]
	b.last = got.buf
	return words(got.buf[:n]), got.err
}

// close waits for what is still being read.
func (b *bodies) close() {
	for _, done := range b.reading {
		<-done
	}
}
