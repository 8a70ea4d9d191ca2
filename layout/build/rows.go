package build

// Node arrays: rows stream from the source in original order and are written in
// internal order, through memory where they fit and through scratch otherwise.

import (
	"context"
	"encoding/binary"
	"fmt"
	"sync"

	"github.com/goagnes/goagnes/layout"
	"github.com/goagnes/goagnes/layout/build/source"
)

// rowJob is one node array on its way into the store.
type rowJob struct {
	section string
	rows    source.Rows
	dtype   layout.DType
	shape   []int64 // of one row
	stride  int64   // bytes of a row as stored

	// convert turns whole rows as read, the first of them row number first, into rows
	// as stored. It may use buf, which has room for them, or return its input.
	convert func(first int64, in, buf []byte) ([]byte, error)
}

func (j *rowJob) inStride() int64 { return rowBytes(j.rows) }

// rowBytes is the size of a row as read.
func rowBytes(r source.Rows) int64 {
	n := int64(r.DType().Size())
	for _, d := range r.RowShape() {
		n *= d
	}
	return n
}

// rowChunks is the number of chunks between the reader and the consumer of rows.
const rowChunks = 3

// scanRows passes the rows to f as they are stored, read ahead on another goroutine.
func (b *builder) scanRows(j *rowJob, stage string, f func(first int64, rows []byte) error) error {
	if j.stride == 0 || j.rows.Len() == 0 {
		return nil
	}
	in := j.inStride()
	most := max(source.ChunkBytes/in, 1)
	held := rowChunks*most*in + most*j.stride
	if err := b.mem.charge("rows read ahead", held); err != nil {
		return err
	}
	defer b.mem.discharge(held)
	type chunk struct {
		first int64
		rows  []byte
	}
	ctx, cancel := context.WithCancelCause(b.ctx)
	defer cancel(nil)
	free, full := make(chan *chunk, rowChunks), make(chan *chunk, rowChunks)
	for range rowChunks {
		free <- &chunk{rows: make([]byte, 0, most*in)}
	}
	total := j.rows.Len()
	var scanned error
	var reading sync.WaitGroup
	reading.Go(func() {
		defer close(full)
		next := int64(0)
		scanned = j.rows.Scan(ctx, func(first int64, rows []byte) error {
			n := int64(len(rows)) / in
			if first != next || n*in != int64(len(rows)) || first+n > total {
				return faultf(j.rows.Name(), first, "the input changed while it was read")
			}
			next += n
			for len(rows) > 0 {
				var c *chunk
				select {
				case c = <-free:
				case <-ctx.Done():
					return context.Cause(ctx)
				}
				k := min(int64(len(rows)), most*in)
				c.first, c.rows = first, append(c.rows[:0], rows[:k]...)
				full <- c
				first += k / in
				rows = rows[k:]
			}
			return nil
		})
		if scanned == nil && next != total {
			scanned = faultf(j.rows.Name(), next, "%d rows, where %d were announced; the input changed while it was read", next, total)
		}
	})
	out := make([]byte, most*j.stride)
	var failed error
	for c := range full {
		if failed == nil {
			rows, err := j.convert(c.first, c.rows, out)
			if err == nil {
				err = f(c.first, rows)
			}
			if failed = err; err != nil {
				cancel(err)
			}
			b.progress(stage, c.first+int64(len(c.rows))/in, total)
		}
		free <- c
	}
	reading.Wait()
	b.report.BytesRead += fileBytes(j.rows.Name(), total*in)
	if failed != nil {
		return failed
	}
	return scanned
}

// writeRows writes the section of a job. order nil or an identity copies straight
// through.
func (b *builder) writeRows(j *rowJob, r *order) error {
	if want := b.numNodes; j.rows.Len() != want {
		return faultf(j.rows.Name(), -1, "%d rows for %d nodes; there must be one row a node", j.rows.Len(), want)
	}
	w, err := b.create(layout.Section{Name: j.section, Kind: layout.KindArray, DType: j.dtype.String(), Rows: j.rows.Len(), RowShape: j.shape})
	if err != nil {
		return err
	}
	defer w.abort()
	stage := "write " + j.section
	switch {
	case j.stride == 0 || r.internal == nil:
		err = b.scanRows(j, stage, func(_ int64, rows []byte) error { return w.Write(rows) })
	default:
		err = b.permuteRows(j, r, w, stage)
	}
	if err != nil {
		return err
	}
	return w.close()
}

// permuteRows writes rows in internal order.
func (b *builder) permuteRows(j *rowJob, r *order, w *section, stage string) error {
	n, stride := j.rows.Len(), j.stride
	most := max(source.ChunkBytes/j.inStride(), 1)
	free := b.mem.free() - (rowChunks*most*j.inStride() + most*stride) - 4*layout.PageSize
	if b.tune.areaBytes > 0 {
		free = min(free, b.tune.areaBytes)
	}
	if n*stride <= free && !b.tune.onScratch {
		area, err := b.mem.region(j.section, n*stride)
		if err != nil {
			return err
		}
		defer area.close()
		err = b.scanRows(j, stage, func(first int64, rows []byte) error {
			for v := first; len(rows) > 0; v++ {
				copy(area.bytes[int64(r.internal[v])*stride:], rows[:stride])
				rows = rows[stride:]
			}
			return nil
		})
		if err != nil {
			return err
		}
		return b.writeArea(w, area.bytes)
	}

	streamBytes := min(max(free/8/spillUnit*spillUnit, 2*spillUnit), 2*spillRead)
	each := (free - streamBytes) / 2 / stride // rows of one partition
	if each < 1 {
		return &BudgetError{Consumer: "reordering " + j.section, Need: streamBytes + 2*stride + 64*layout.PageSize, Free: b.mem.free(), Total: b.mem.total}
	}
	each = min(each, n)
	parts := (n + each - 1) / each
	group := parts
	for group > 1 && int64(spillBuffers(int(group)))*spillUnit > free {
		group = (group + 1) / 2
	}
	for p := int64(0); p < parts; p += group {
		first := p * each
		end := min((p+group)*each, n)
		if err := b.permuteGroup(j, r, w, stage, first, end, each, streamBytes, free); err != nil {
			return err
		}
	}
	return nil
}

// writeArea writes a finished area, looking for cancellation on the way.
func (b *builder) writeArea(w *section, area []byte) error {
	for len(area) > 0 {
		if err := b.ctx.Err(); err != nil {
			return err
		}
		n := min(len(area), 8<<20)
		if err := w.Write(area[:n]); err != nil {
			return err
		}
		area = area[n:]
	}
	return nil
}

// permuteGroup writes the rows of internal ids [first, end), in partitions of each
// rows: one pass over the source, to scratch, then partition by partition.
func (b *builder) permuteGroup(j *rowJob, r *order, w *section, stage string, first, end, each, streamBytes, free int64) error {
	stride := j.stride
	record := 4 + stride
	var lengths []int64
	for at := first; at < end; at += each {
		lengths = append(lengths, min(each, end-at)*record)
	}
	nb := int64(spillBuffers(len(lengths)))
	buffers, err := b.mem.region("buffers of row partitions", nb*max(min(free/nb, 64*spillUnit)/spillUnit, 1)*spillUnit)
	if err != nil {
		return err
	}
	defer buffers.close()
	s, err := scratchSpill(j.rows.Name(), lengths, b.pool, b.scratch, j.section, buffers.bytes)
	if err != nil {
		return err
	}
	defer s.close()
	rec := make([]byte, record)
	err = b.scanRows(j, stage, func(v int64, rows []byte) error {
		for ; len(rows) > 0; v++ {
			if i := int64(r.internal[v]) - first; i >= 0 && i < end-first {
				p := i / each
				binary.LittleEndian.PutUint32(rec, uint32(i-p*each))
				copy(rec[4:], rows[:stride])
				if err := s.append(int(p), rec); err != nil {
					return err
				}
			}
			rows = rows[stride:]
		}
		return nil
	})
	if ferr := s.finish(); err == nil {
		err = ferr
	}
	if err != nil {
		return err
	}
	buffers.close()
	return b.placeParts(s, lengths, w, record, each, streamBytes)
}

// placeParts reads the partitions back, puts their rows in place and writes them:
// one partition is placed while the one before is written.
func (b *builder) placeParts(s *spill, lengths []int64, w *section, record, each, streamBytes int64) error {
	stride := record - 4
	areas, err := b.mem.region("rows of two partitions", 2*each*stride)
	if err != nil {
		return err
	}
	defer areas.close()
	stream, err := b.mem.region("rows read back", streamBytes)
	if err != nil {
		return err
	}
	defer stream.close()
	type placed struct {
		area []byte
		err  error
	}
	free, full := make(chan []byte, 2), make(chan placed, 2)
	free <- areas.bytes[:each*stride]
	free <- areas.bytes[each*stride:]
	stop := make(chan struct{})
	var placing sync.WaitGroup
	placing.Go(func() {
		defer close(full)
		cut := make([]byte, 0, record) // a record that two pieces share
		for p, size := range lengths {
			var area []byte
			select {
			case area = <-free:
			case <-stop:
				return
			}
			place := func(rec []byte) {
				copy(area[int64(binary.LittleEndian.Uint32(rec))*stride:], rec[4:record])
			}
			err := s.stream(p, stream.bytes, func(piece []byte) error {
				if len(cut) > 0 {
					n := min(int64(len(piece)), record-int64(len(cut)))
					cut = append(cut, piece[:n]...)
					piece = piece[n:]
					if int64(len(cut)) == record {
						place(cut)
						cut = cut[:0]
					}
				}
				for int64(len(piece)) >= record {
					place(piece)
					piece = piece[record:]
				}
				cut = append(cut, piece...)
				return b.ctx.Err()
			})
			if err == nil && len(cut) > 0 {
				panic(fmt.Sprintf("build: a partition ends %d bytes into a row", len(cut)))
			}
			full <- placed{area[:size/record*stride], err}
			if err != nil {
				return
			}
		}
	})
	defer placing.Wait()
	defer close(stop)
	for p := range full {
		if p.err != nil {
			return p.err
		}
		if err := b.writeArea(w, p.area); err != nil {
			return err
		}
		free <- p.area[:cap(p.area)][:each*stride]
	}
	return nil
}
