package spill

// Sorted runs of ids in scratch, and their merging.

import (
	"fmt"

	"github.com/goagnes/goagnes/goagnes/storage"
	"github.com/goagnes/goagnes/layout"
	"github.com/goagnes/goagnes/layout/build/ledger"
	"github.com/goagnes/goagnes/layout/build/workspace"
)

// MinRunPages is the smallest memory for sorting ids, in pages: two runs are merged
// into a third with a page each, at least.
const MinRunPages = 4

// MaxRunBytes bounds a run so that sorting it does not keep a cancellation waiting.
const MaxRunBytes = 16 << 20

// idsPerPage ids and a seal fill a page (storage.Seal): the buffers of a merger may be
// as small as that.
const (
	idsPerPage  = (layout.PageSize - storage.SealBytes) / 8
	wordsOfPage = layout.PageSize / 8
)

// idPages is the number of pages that so many ids take.
func idPages(ids int64) int64 { return (ids + idsPerPage - 1) / idsPerPage }

// Runs are ascending runs of distinct ids, each a scratch file. memory holds the
// run being written, or is cut into one buffer a run and one for their merger.
type Runs struct {
	w      *workspace.Space
	memory []byte
	runs   []*run
	made   int
}

type run struct {
	file *storage.File
	ids  int64

	mem  []byte
	read []byte   // pages of mem that are read and not yet merged
	buf  []uint64 // what is left of the page before
	next int64    // first id that was in neither
	page int64    // first page not yet read
}

// NewRuns makes runs with memory, MinRunPages pages or more, which holds the ids of
// the next one, Room at most.
func NewRuns(w *workspace.Space, memory []byte) *Runs { return &Runs{w: w, memory: memory} }

// Room is the number of ids of a run that is added.
func (s *Runs) Room() int { return len(s.memory) / layout.PageSize * idsPerPage }

// Empty reports whether no run was made.
func (s *Runs) Empty() bool { return len(s.runs) == 0 }

// Close removes the files.
func (s *Runs) Close() {
	for _, r := range s.runs {
		_ = s.w.Scratch.Remove(r.file) // scratch is removed as a whole later
	}
	s.runs = nil
}

// create makes the file of a run of at most ids ids.
func (s *Runs) create(ids int64) (*run, error) {
	f, err := s.w.Scratch.Create(fmt.Sprintf("ids-%d", s.made), idPages(ids)*layout.PageSize)
	if err != nil {
		return nil, err
	}
	s.made++
	return &run{file: f}, nil
}

// write appends so many ids to a run, idsPerPage in each page of b and, but for the last
// time, in all of them.
func (s *Runs) write(r *run, b []byte, ids int64) error {
	if ids == 0 {
		return nil
	}
	pages := idPages(ids)
	clear(ledger.View[uint64](b)[(pages-1)*wordsOfPage+ids-(pages-1)*idsPerPage : pages*wordsOfPage])
	q := storage.Request{File: r.file, Offset: idPages(r.ids) * layout.PageSize, Buf: b[:pages*layout.PageSize], Write: true, Seal: storage.Seal{Unit: layout.PageSize}}
	r.ids += ids
	return s.w.Pool.Do(&q)
}

// Add makes a run of the first n ids in memory, which lie close together; memory is
// free afterwards.
func (s *Runs) Add(n int) error {
	r, err := s.create(int64(n))
	if err != nil {
		return err
	}
	s.runs = append(s.runs, r)
	ids := ledger.View[uint64](s.memory)
	for p := (n - 1) / idsPerPage; p > 0; p-- { // from the last page on, for they overlap
		copy(ids[p*wordsOfPage:p*wordsOfPage+idsPerPage], ids[p*idsPerPage:min((p+1)*idsPerPage, n)])
	}
	return s.write(r, s.memory, int64(n))
}

// fill goes on to the next page of a run whose ids are merged, if there is one.
func (s *Runs) fill(r *run) error {
	if len(r.buf) > 0 || r.next == r.ids {
		return nil
	}
	if len(r.read) == 0 {
		n := min(int64(len(r.mem))/layout.PageSize, idPages(r.ids)-r.page) * layout.PageSize
		q := storage.Request{File: r.file, Offset: r.page * layout.PageSize, Buf: r.mem[:n], Seal: storage.Seal{Unit: layout.PageSize}}
		if err := s.w.Pool.Do(&q); err != nil {
			return err
		}
		r.read = r.mem[:n]
		r.page += n / layout.PageSize
	}
	n := min(idsPerPage, r.ids-r.next)
	r.buf, r.read = ledger.View[uint64](r.read[:layout.PageSize])[:n], r.read[layout.PageSize:]
	r.next += n
	return nil
}

// Merge passes the distinct ids of all runs to put in ascending order. Runs are
// merged into longer ones first while there are more than buffers.
func (s *Runs) Merge(put func(id uint64) error) error {
	fan := len(s.memory)/layout.PageSize - 1
	for len(s.runs) > fan {
		group := s.runs[:fan]
		total := int64(0)
		for _, r := range group {
			total += r.ids
		}
		out, err := s.create(total)
		if err != nil {
			return err
		}
		each := s.share(fan)
		mem := s.memory[fan*each : (fan+1)*each]
		buf, n, room := ledger.View[uint64](mem), 0, each/layout.PageSize*idsPerPage
		err = s.mergeGroup(group, func(id uint64) error {
			buf[n/idsPerPage*wordsOfPage+n%idsPerPage] = id
			if n++; n < room {
				return nil
			}
			n = 0
			return s.write(out, mem, int64(room))
		})
		if err == nil {
			err = s.write(out, mem, int64(n))
		}
		s.runs = append(s.runs[fan:], out)
		for _, r := range group {
			if rerr := s.w.Scratch.Remove(r.file); err == nil {
				err = rerr
			}
		}
		if err != nil {
			return err
		}
	}
	return s.mergeGroup(s.runs, put)
}

// share is the size of a buffer when n runs are merged.
func (s *Runs) share(n int) int {
	return len(s.memory) / (n + 1) / layout.PageSize * layout.PageSize
}

// mergeGroup merges by a heap of the runs, the one with the smallest next id on top.
func (s *Runs) mergeGroup(runs []*run, put func(id uint64) error) error {
	each := s.share(len(runs))
	var heap []*run
	for i, r := range runs {
		r.mem = s.memory[i*each : (i+1)*each]
		if err := s.fill(r); err != nil {
			return err
		}
		if len(r.buf) > 0 {
			heap = append(heap, r)
		}
	}
	down := func(i int) {
		for {
			c := 2*i + 1
			if c >= len(heap) {
				return
			}
			if c+1 < len(heap) && heap[c+1].buf[0] < heap[c].buf[0] {
				c++
			}
			if heap[i].buf[0] <= heap[c].buf[0] {
				return
			}
			heap[i], heap[c] = heap[c], heap[i]
			i = c
		}
	}
	for i := len(heap)/2 - 1; i >= 0; i-- {
		down(i)
	}
	last, first := uint64(0), true
	for count := 0; len(heap) > 0; count++ {
		if count&0xfffff == 0 && s.w.Ctx.Err() != nil {
			return s.w.Ctx.Err()
		}
		r := heap[0]
		if v := r.buf[0]; first || v != last {
			if err := put(v); err != nil {
				return err
			}
			last, first = v, false
		}
		r.buf = r.buf[1:]
		if err := s.fill(r); err != nil {
			return err
		}
		if len(r.buf) == 0 {
			heap[0] = heap[len(heap)-1]
			heap = heap[:len(heap)-1]
		}
		down(0)
	}
	return nil
}
