package inject

// A device that keeps data badly and says nothing: what is read is not what was
// written. It remembers what is written, so as to answer with what lay there before or
// lies elsewhere.

import (
	"bytes"
	"sync"

	"github.com/goagnes/goagnes/layout"
)

// Damage is a way in which a device answers a read wrongly without an error.
type Damage int

const (
	Sound     Damage = iota
	FlipBit          // one bit of the last page differs
	ZeroPage         // the first page has zeros
	Neighbour        // the first page is the one that follows it in the file
	Earlier          // all pages are as they were before the last write, or zeros where that was the first
	Elsewhere        // all pages are those that follow them in the file
	Unseen           // 33 bits at UnseenAt differ such that the CRC32C is the same, for controls
)

func (d Damage) String() string {
	return [...]string{"sound", "a flipped bit", "a page of zeros", "the neighbour of a page", "what was there before", "what lies elsewhere", "what CRC32C cannot see"}[d]
}

// Damages are all that must be found.
var Damages = []Damage{FlipBit, ZeroPage, Neighbour, Earlier, Elsewhere}

// unseen is the generator polynomial of CRC32C: added to bytes anywhere, it leaves their
// checksum as it is.
const unseen = 1 | 0x82F63B78<<1

// Damager damages the reads of some files; its Data is for Options.Data. Reads that its
// damage would leave as they are stay sound.
type Damager struct {
	UnseenAt int64 // place of Unseen's bits in a read

	mu struct {
		sync.Mutex
		kind  Damage
		wants func(op Op) bool
		files map[string]*image
		hits  int
	}
}

// image is what was written to a file, and what lay there before.
type image struct{ now, before []byte }

func (m *image) write(offset int64, b []byte) {
	if end := offset + int64(len(b)); end > int64(len(m.now)) {
		m.now = append(m.now, make([]byte, end-int64(len(m.now)))...)
		m.before = append(m.before, make([]byte, end-int64(len(m.before)))...)
	}
	copy(m.before[offset:], m.now[offset:offset+int64(len(b))])
	copy(m.now[offset:], b)
}

// Set damages the reads that wants accepts from now on; Hits begins at 0.
func (d *Damager) Set(kind Damage, wants func(op Op) bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.mu.kind, d.mu.wants, d.mu.hits = kind, wants, 0
}

// Hits returns the number of reads that were damaged.
func (d *Damager) Hits() int { d.mu.Lock(); defer d.mu.Unlock(); return d.mu.hits }

// Data implements Options.Data.
func (d *Damager) Data(op Op, b []byte) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.mu.files == nil {
		d.mu.files = map[string]*image{}
	}
	m := d.mu.files[op.Path]
	if m == nil {
		m = &image{}
		d.mu.files[op.Path] = m
	}
	if op.Name == "write" {
		m.write(op.Offset, b)
		return
	}
	if d.mu.kind == Sound || len(b) == 0 || !d.mu.wants(op) {
		return
	}
	n := int64(len(b))
	page := min(n, layout.PageSize)
	put := func(to, from []byte, at int64) { clear(to[copy(to, from[min(at, int64(len(from))):]):]) }
	was, crc := bytes.Clone(b), layout.CRC(b)
	switch d.mu.kind {
	case FlipBit:
		b[n-1-page/3] ^= 8
	case ZeroPage:
		clear(b[:page])
	case Neighbour:
		put(b[:page], m.now, op.Offset+page)
	case Earlier:
		put(b, m.before, op.Offset)
	case Elsewhere:
		put(b, m.now, op.Offset+n)
	case Unseen:
		for i := range min(5, max(n-d.UnseenAt, 0)) {
			b[d.UnseenAt+i] ^= byte(uint64(unseen) >> (8 * i))
		}
		if layout.CRC(b) != crc {
			panic("inject: the checksum sees what it should not")
		}
	}
	if !bytes.Equal(b, was) {
		d.mu.hits++
	}
}
