package build

// Tables of nodes that wait in scratch while an order needs the memory for others.

import (
	"github.com/goagnes/goagnes/goagnes/storage"
	"github.com/goagnes/goagnes/layout"
)

// parkedBuffer is the buffer through which a parked table is read in order, in bytes.
const parkedBuffer = 1 << 20

// parkedTransfer bounds one request, so that a cancellation need not wait for long.
const parkedTransfer = 4 << 20

// parked is a table in a scratch file.
type parked struct {
	b    *builder
	file *storage.File
	n    int64 // bytes
}

// park writes a table to scratch and gives its memory back.
func (b *builder) park(name string, r *region) (*parked, error) {
	f, err := b.scratch.Create(name, r.size())
	if err != nil {
		return nil, err
	}
	p := &parked{b: b, file: f, n: int64(len(r.bytes))}
	if err := p.move(r.mapped, 0, true); err != nil {
		p.close()
		return nil, err
	}
	r.close()
	return p, nil
}

// move transfers whole pages from offset on.
func (p *parked) move(pages []byte, offset int64, write bool) error {
	for len(pages) > 0 {
		if err := p.b.ctx.Err(); err != nil {
			return err
		}
		n := min(len(pages), parkedTransfer)
		q := storage.Request{File: p.file, Offset: offset, Buf: pages[:n], Write: write}
		if err := p.b.pool.Do(&q); err != nil {
			return err
		}
		pages, offset = pages[n:], offset+int64(n)
	}
	return nil
}

// load reads the table into a region of its size.
func (p *parked) load(r *region) error { return p.move(r.mapped, 0, false) }

// stream passes the table to f in order, in pieces of up to len(buf) bytes; buf is
// whole pages. first is the number of the piece's first word.
func (p *parked) stream(buf []byte, f func(first int, words []uint32)) error {
	for at := int64(0); at < p.n; at += int64(len(buf)) {
		n := min(p.n-at, int64(len(buf)))
		if err := p.move(buf[:layout.Pages(n)*layout.PageSize], at, false); err != nil {
			return err
		}
		f(int(at/4), view[uint32](buf[:n]))
	}
	return nil
}

// close removes the file; on nil it does nothing.
func (p *parked) close() {
	if p != nil {
		_ = p.b.scratch.Remove(p.file) // scratch is removed as a whole later
	}
}
