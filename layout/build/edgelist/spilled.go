package edgelist

// Edges that are dear to read again, parsed from text or ranked, in a scratch file of
// 8 bytes an edge: an order of several passes reads these.

import (
	"context"
	"encoding/binary"
	"errors"

	"github.com/goagnes/goagnes/goagnes/storage"
	"github.com/goagnes/goagnes/layout"
	"github.com/goagnes/goagnes/layout/build/ledger"
	"github.com/goagnes/goagnes/layout/build/source"
	"github.com/goagnes/goagnes/layout/build/workspace"
)

const (
	spilledPair  = 8                                // bytes of an edge: source and target
	spilledChunk = spilledPair * source.ChunkEdges  // bytes of one transfer
	spilledPairs = spilledChunk - storage.SealBytes // of them, those of edges
	SpilledBytes = 2 * spilledChunk                 // memory: one transfer beside the chunk at hand
	spilledGrow  = spilledPair * (1 << 20)          // bytes by which the file grows at first
)

// Spilled writes what the first scan delivers to scratch and reads it from there
// in later ones. Scratch that is too small is no failure: the source is read again.
type Spilled struct {
	source.Edges
	w     *workspace.Space
	mem   *ledger.Region
	file  *storage.File
	room  int64 // bytes reserved in file
	edges int64
	whole bool // file holds all edges
}

// SpillOnce returns edges that go to scratch in their first scan. All their ids are
// below 2^32, or that scan fails.
func SpillOnce(w *workspace.Space, e source.Edges) (*Spilled, error) {
	m, err := w.Mem.Map("buffers of edges in scratch", SpilledBytes)
	if err != nil {
		return nil, err
	}
	return &Spilled{Edges: e, w: w, mem: m}, nil
}

// Buffers is the memory in use; on nil it is 0.
func (s *Spilled) Buffers() int64 {
	if s == nil {
		return 0
	}
	return s.mem.Size()
}

// LineOf is that of the edges read: see source.Lines.
func (s *Spilled) LineOf(ctx context.Context, edge int64) int64 {
	return source.LineOf(ctx, s.Edges, edge)
}

// Drop removes the file; later scans read the source. On nil it does nothing.
func (s *Spilled) Drop() {
	if s == nil {
		return
	}
	if s.file != nil {
		_ = s.w.Scratch.Remove(s.file) // scratch is removed as a whole later
	}
	s.mem.Close()
	s.file, s.whole = nil, false
}

func (s *Spilled) Scan(ctx context.Context, f func(src, dst []int64) error) error {
	switch {
	case s.whole:
		return s.replay(ctx, f)
	case s.mem.Size() == 0:
		return s.Edges.Scan(ctx, f)
	}
	w := &spillWriter{s: s, done: make(chan error, 1)}
	err := s.Edges.Scan(ctx, func(src, dst []int64) error {
		if err := f(src, dst); err != nil { // ids are checked there
			return err
		}
		return w.put(src, dst)
	})
	if ferr := w.finish(); err == nil {
		err = ferr
	}
	if err != nil || w.gone {
		s.Drop()
		return err
	}
	s.whole = true
	return nil
}

// spillWriter fills one half of the buffer while the other is written.
type spillWriter struct {
	s       *Spilled
	half    int
	fill    int // bytes in the half at hand
	at      int64
	done    chan error
	pending bool
	gone    bool // scratch has no room
}

func (w *spillWriter) put(src, dst []int64) error {
	for len(src) > 0 && !w.gone {
		buf := w.s.mem.Bytes[w.half*spilledChunk : (w.half+1)*spilledChunk]
		n := min(len(src), (spilledPairs-w.fill)/spilledPair)
		for i, v := range src[:n] {
			p := buf[w.fill+spilledPair*i:]
			binary.LittleEndian.PutUint32(p, uint32(v))
			binary.LittleEndian.PutUint32(p[4:], uint32(dst[i]))
		}
		w.fill += n * spilledPair
		w.s.edges += int64(n)
		src, dst = src[n:], dst[n:]
		if w.fill == spilledPairs {
			if err := w.flush(); err != nil {
				return err
			}
		}
	}
	return nil
}

// grow reserves room for n bytes.
func (w *spillWriter) grow(n int64) error {
	s := w.s
	if n <= s.room {
		return nil
	}
	most := s.room + s.w.Scratch.Limit() - s.w.Scratch.Used() - s.w.Scratch.Limit()/4 // tables of nodes go there too
	for _, room := range []int64{max(2*s.room, spilledGrow), n} {                     // far ahead, or just enough
		if room > most {
			continue
		}
		var err error
		if s.file == nil {
			s.file, err = s.w.Scratch.Create("edge-pairs", room)
		} else {
			err = s.w.Scratch.Extend(s.file, room)
		}
		var full *storage.ScratchError
		switch {
		case err == nil:
			s.room = room
			return nil
		case !errors.As(err, &full):
			return err
		}
	}
	w.gone = true
	return nil
}

// flush writes the half at hand in the background.
func (w *spillWriter) flush() error {
	if err := w.wait(); err != nil || w.fill == 0 {
		return err
	}
	n := layout.Pages(int64(w.fill+storage.SealBytes)) * layout.PageSize
	if err := w.grow(w.at + n); err != nil || w.gone {
		return err
	}
	buf := w.s.mem.Bytes[w.half*spilledChunk:][:n]
	clear(buf[w.fill:])
	w.pending = true
	w.s.w.Pool.Submit(&storage.Request{File: w.s.file, Offset: w.at, Buf: buf, Write: true, Done: func(r *storage.Request) { w.done <- r.Err }})
	w.at += n
	w.half, w.fill = 1-w.half, 0
	return nil
}

func (w *spillWriter) wait() error {
	if !w.pending {
		return nil
	}
	w.pending = false
	return <-w.done
}

func (w *spillWriter) finish() error {
	err := w.flush()
	return errors.Join(err, w.wait())
}

// replay reads the file, one transfer ahead.
func (s *Spilled) replay(ctx context.Context, f func(src, dst []int64) error) error {
	src, dst := make([]int64, source.ChunkEdges), make([]int64, source.ChunkEdges)
	total := s.edges * spilledPair
	done := make(chan error, 1)
	// Transfer k has the edges' bytes from k*spilledPairs on.
	half := func(k int64) []byte { return s.mem.Bytes[k%2*spilledChunk:] }
	bytes := func(k int64) int64 { return min(spilledPairs, total-k*spilledPairs) }
	read := func(k int64) {
		buf := half(k)[:layout.Pages(bytes(k)+storage.SealBytes)*layout.PageSize]
		s.w.Pool.Submit(&storage.Request{File: s.file, Offset: k * spilledChunk, Buf: buf, Done: func(r *storage.Request) { done <- r.Err }})
	}
	if total > 0 {
		read(0)
	}
	for k := int64(0); k*spilledPairs < total; k++ {
		if err := <-done; err != nil {
			return err
		}
		more := (k+1)*spilledPairs < total
		if more {
			read(k + 1)
		}
		err := ctx.Err()
		if err == nil {
			from := half(k)[:bytes(k)]
			n := len(from) / spilledPair
			for i := range n {
				src[i] = int64(binary.LittleEndian.Uint32(from[spilledPair*i:]))
				dst[i] = int64(binary.LittleEndian.Uint32(from[spilledPair*i+4:]))
			}
			err = f(src[:n], dst[:n])
		}
		if err != nil {
			if more {
				<-done
			}
			return err
		}
	}
	return nil
}
