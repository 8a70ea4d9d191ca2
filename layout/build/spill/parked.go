package spill

// Tables of nodes that wait in scratch while an order needs the memory for others.

import (
	"github.com/goagnes/goagnes/goagnes/storage"
	"github.com/goagnes/goagnes/layout"
	"github.com/goagnes/goagnes/layout/build/ledger"
	"github.com/goagnes/goagnes/layout/build/workspace"
)

// ParkedBuffer is the buffer through which a parked table is read in order, in bytes,
// and the unit of its seals, which stay in memory: a table fills its pages.
const ParkedBuffer = 1 << 20

// parkedTransfer bounds one request, so that a cancellation need not wait for long.
const parkedTransfer = 4 << 20

// Parked is a table in a scratch file.
type Parked struct {
	w    *workspace.Space
	file *storage.File
	n    int64    // bytes
	sums []uint32 // seals, one each ParkedBuffer bytes
}

// Park writes a table to scratch and gives its memory back.
func Park(w *workspace.Space, name string, r *ledger.Region) (*Parked, error) {
	f, err := w.Scratch.Create(name, r.Size())
	if err != nil {
		return nil, err
	}
	p := &Parked{w: w, file: f, n: int64(len(r.Bytes)), sums: make([]uint32, (r.Size()+ParkedBuffer-1)/ParkedBuffer)}
	if err := p.move(r.Mapped, 0, true); err != nil {
		p.Close()
		return nil, err
	}
	r.Close()
	return p, nil
}

// move transfers whole pages from offset on, a multiple of ParkedBuffer.
func (p *Parked) move(pages []byte, offset int64, write bool) error {
	for len(pages) > 0 {
		if err := p.w.Ctx.Err(); err != nil {
			return err
		}
		n := min(len(pages), parkedTransfer)
		q := storage.Request{File: p.file, Offset: offset, Buf: pages[:n], Write: write,
			Seal: storage.Seal{Unit: ParkedBuffer, Sums: p.sums[offset/ParkedBuffer:]}}
		if err := p.w.Pool.Do(&q); err != nil {
			return err
		}
		pages, offset = pages[n:], offset+int64(n)
	}
	return nil
}

// Load reads the table into a region of its size.
func (p *Parked) Load(r *ledger.Region) error { return p.move(r.Mapped, 0, false) }

// Stream passes the table to f in order, in pieces of up to ParkedBuffer bytes, which
// buf holds. first is the number of the piece's first word.
func (p *Parked) Stream(buf []byte, f func(first int, words []uint32)) error {
	for at := int64(0); at < p.n; at += ParkedBuffer {
		n := min(p.n-at, ParkedBuffer)
		if err := p.move(buf[:layout.Pages(n)*layout.PageSize], at, false); err != nil {
			return err
		}
		f(int(at/4), ledger.View[uint32](buf[:n]))
	}
	return nil
}

// Close removes the file; on nil it does nothing.
func (p *Parked) Close() {
	if p != nil {
		_ = p.w.Scratch.Remove(p.file) // scratch is removed as a whole later
	}
}
