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

// fetch reads width bytes at each of n ascending byte offsets of a section and
// passes them to visit in order. Pages that lie close together are read in
// one. buf holds the pages, at least one item's.
func fetch(ctx context.Context, s *storage.Section, n int, offset func(i int) int64, width int64, buf []byte, visit func(i int, b []byte) error) error {
	type span struct {
		at         int64 // file offset
		buf        []byte
		first, end int // items
	}
	var spans [fetchReads]span
	done := make(chan error, fetchReads)
	for i := 0; i < n; {
		if err := ctx.Err(); err != nil {
			return err
		}
		used, count := int64(0), 0
		for i < n && count < fetchReads {
			at := offset(i) / layout.PageSize * layout.PageSize
			end := at
			first := i
			for i < n {
				o := offset(i)
				upto := roundUp(o+width, layout.PageSize)
				if i > first && (o-end > fetchGap || upto-at > fetchRead) || used+upto-at > int64(len(buf)) {
					break
				}
				end = max(end, upto)
				i++
			}
			if i == first {
				if count == 0 {
					panic("operation: fetch's buffer is smaller than one item")
				}
				break // the buffer is full
			}
			spans[count] = span{at, buf[used : used+end-at], first, i}
			s.Submit(at, spans[count].buf, 0, func(r *storage.Request) { done <- r.Err })
			used += end - at
			count++
		}
		var failed error
		for range count {
			if err := <-done; err != nil {
				failed = err
			}
		}
		if failed != nil {
			return failed
		}
		for _, sp := range spans[:count] {
			for k := sp.first; k < sp.end; k++ {
				o := offset(k) - sp.at
				if err := visit(k, sp.buf[o:o+width]); err != nil {
					return err
				}
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
