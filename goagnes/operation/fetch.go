package operation

import (
	"context"
	"encoding/binary"

	"github.com/goagnes/goagnes/goagnes/storage"
	"github.com/goagnes/goagnes/layout"
)

const (
	fetchGap   = 64 << 10  // bytes that are read rather than skipped between two needed pages
	fetchRead  = 512 << 10 // bytes of one read at most
	fetchReads = 64        // reads in flight at most
)

// span is a stretch of pages on its way to fetch.
type span struct {
	at         int64 // file offset
	n          int64 // bytes
	first, end int   // items
	place      int64 // in the buffer
	done       chan error
}

// spans are those under way, in order, in a buffer that they take in turn.
type spans struct {
	buf   []byte
	ring  [fetchReads]span
	first int // of ring
	count int
}

// place returns where n bytes are free in one piece, behind the newest span.
func (r *spans) place(n int64) (int64, bool) {
	if r.count == 0 {
		return 0, n <= int64(len(r.buf))
	}
	oldest, newest := &r.ring[r.first], &r.ring[(r.first+r.count-1)%fetchReads]
	head, upto := newest.place+newest.n, int64(len(r.buf))
	if newest.place < oldest.place {
		upto = oldest.place
	} else if head+n > upto {
		head, upto = 0, oldest.place
	}
	return head, head+n <= upto
}

// fetch reads width bytes at each of n ascending byte offsets of a section and
// passes them to visit in order. Pages that lie close together are read in
// one, and further ones meanwhile. buf holds the pages, at least one item's.
func fetch(ctx context.Context, s *storage.Section, n int, offset func(i int) int64, width int64, buf []byte, visit func(i int, b []byte) error) error {
	r := spans{buf: buf}
	defer func() {
		for ; r.count > 0; r.count-- {
			<-r.ring[r.first].done
			r.first = (r.first + 1) % fetchReads
		}
	}()
	most := min(fetchRead, int64(len(buf)/2)) // so that one is read while another is visited
	next := span{}                            // the first that is not under way; n is 0 before it is known
	for i := 0; i < n || next.n > 0 || r.count > 0; {
		if err := ctx.Err(); err != nil {
			return err
		}
		for r.count < fetchReads {
			if next.n == 0 && i < n {
				next = span{at: offset(i) / layout.PageSize * layout.PageSize, first: i}
				for i < n {
					o := offset(i)
					upto := roundUp(o+width, layout.PageSize)
					if i > next.first && (o-next.at-next.n > fetchGap || upto-next.at > most) {
						break
					}
					next.n = max(next.n, upto-next.at)
					i++
				}
				next.end = i
			}
			place, ok := r.place(next.n)
			if !ok || next.n == 0 {
				break
			}
			slot := &r.ring[(r.first+r.count)%fetchReads]
			if next.done = slot.done; next.done == nil {
				next.done = make(chan error, 1)
			}
			next.place = place
			*slot = next
			r.count++
			done := next.done
			s.Submit(next.at, buf[place:place+next.n], 0, func(q *storage.Request) { done <- q.Err })
			next = span{}
		}
		if r.count == 0 {
			panic("operation: fetch's buffer is smaller than one item")
		}
		sp := &r.ring[r.first]
		err := <-sp.done
		r.first, r.count = (r.first+1)%fetchReads, r.count-1
		if err != nil {
			return err
		}
		for k := sp.first; k < sp.end; k++ {
			o := sp.place + offset(k) - sp.at
			if err := visit(k, buf[o:o+width]); err != nil {
				return err
			}
		}
	}
	return nil
}

// getID reads an id of 4 or 8 bytes.
func getID(b []byte, width int64) uint64 {
	if width == 8 {
		return binary.LittleEndian.Uint64(b)
	}
	return uint64(binary.LittleEndian.Uint32(b))
}
