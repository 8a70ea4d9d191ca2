package nodes

// Node arrays: rows stream from the source in original order and are written in
// internal order, through memory where they fit and through scratch otherwise.

import (
	"context"
	"encoding/binary"
	"fmt"
	"sync"

	"github.com/goagnes/goagnes/layout"
	"github.com/goagnes/goagnes/layout/build/ledger"
	"github.com/goagnes/goagnes/layout/build/source"
	"github.com/goagnes/goagnes/layout/build/spill"
	"github.com/goagnes/goagnes/layout/build/staging"
	"github.com/goagnes/goagnes/layout/build/workspace"
)

// rowJob is one node array on its way into the store.
type rowJob struct {
	section string
	rows    source.Rows
	dtype   layout.DType
	shape   []int64  // of one row
	stride  int64    // bytes of a row as stored
	notes   []string // what is changed on the way

	// convert turns whole rows as read, the first of them row number first, into rows
	// as stored. It may use buf, which has room for them, or return its input.
	convert func(first int64, in, buf []byte) ([]byte, error)
}

func (j *rowJob) inStride() int64 { return RowBytes(j.rows) }

// rowChunks is the number of chunks between the reader and the consumer of rows.
const rowChunks = 3

// scanRows passes the rows to f as they are stored, read ahead on another goroutine.
func (b *Writer) scanRows(j *rowJob, stage string, f func(first int64, rows []byte) error) error {
	if j.stride == 0 || j.rows.Len() == 0 {
		return nil
	}
	in := j.inStride()
	most := max(source.ChunkBytes/in, 1)
	held := rowChunks*most*in + most*j.stride
	if err := b.Mem.Charge("rows read ahead", held); err != nil {
		return err
	}
	defer b.Mem.Discharge(held)
	type chunk struct {
		first int64
		rows  []byte
	}
	ctx, cancel := context.WithCancelCause(b.Ctx)
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
				return source.ErrorAt(j.rows.Name(), first, "the input changed while it was read")
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
			scanned = source.ErrorAt(j.rows.Name(), next, "%d rows, where %d were announced; the input changed while it was read", next, total)
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
			b.Progress(stage, c.first+int64(len(c.rows))/in, total)
		}
		free <- c
	}
	reading.Wait()
	b.BytesRead += workspace.FileBytes(j.rows.Name(), total*in)
	if failed != nil {
		return failed
	}
	return scanned
}

// writeRows writes the section of a job.
func (b *Writer) writeRows(j *rowJob) error {
	if err := checkLen(j.rows, b.numNodes); err != nil {
		return err
	}
	w, err := b.Create(layout.Section{Name: j.section, Kind: layout.KindArray, DType: j.dtype.String(), Rows: j.rows.Len(), RowShape: j.shape})
	if err != nil {
		return err
	}
	defer w.Abort()
	stage := "write " + j.section
	switch {
	case j.stride == 0 || b.internal == nil:
		err = b.scanRows(j, stage, func(_ int64, rows []byte) error { return w.Write(rows) })
	default:
		err = b.permuteRows(j, w, stage)
	}
	if err != nil {
		return err
	}
	return w.Close()
}

// checkLen holds an array to the number of nodes.
func checkLen(rows source.Rows, numNodes int64) error {
	if rows.Len() != numNodes {
		return source.Errorf(rows.Name(), "%d rows for %d nodes; there must be one row a node", rows.Len(), numNodes)
	}
	return nil
}

// permuteRows writes rows in internal order.
func (b *Writer) permuteRows(j *rowJob, w *staging.Section, stage string) error {
	n, stride := j.rows.Len(), j.stride
	most := max(source.ChunkBytes/j.inStride(), 1)
	free := b.Mem.Free() - (rowChunks*most*j.inStride() + most*stride) - 4*layout.PageSize
	if b.Tune.AreaBytes > 0 {
		free = min(free, b.Tune.AreaBytes)
	}
	if n*stride <= free && !b.Tune.OnScratch {
		area, err := b.Mem.Map(j.section, n*stride)
		if err != nil {
			return err
		}
		defer area.Close()
		err = b.scanRows(j, stage, func(first int64, rows []byte) error {
			for v := first; len(rows) > 0; v++ {
				copy(area.Bytes[int64(b.internal[v])*stride:], rows[:stride])
				rows = rows[stride:]
			}
			return nil
		})
		if err != nil {
			return err
		}
		return b.WriteArea(w, area.Bytes)
	}

	streamBytes := min(max(free/8/spill.Unit*spill.Unit, 2*spill.Unit), 2*spill.ReadBytes)
	each := (free - streamBytes) / 2 / stride // rows of one partition
	if each < 1 {
		return &ledger.BudgetError{Consumer: "reordering " + j.section, Need: streamBytes + 2*stride + 64*layout.PageSize, Free: b.Mem.Free(), Total: b.Mem.Total}
	}
	each = min(each, n)
	parts := (n + each - 1) / each
	group := parts
	for group > 1 && int64(spill.Buffers(int(group)))*spill.Unit > free {
		group = (group + 1) / 2
	}
	for p := int64(0); p < parts; p += group {
		first := p * each
		end := min((p+group)*each, n)
		if err := b.permuteGroup(j, w, stage, first, end, each, streamBytes, free); err != nil {
			return err
		}
	}
	return nil
}

// permuteGroup writes the rows of internal ids [first, end), in partitions of each
// rows: one pass over the source, to scratch, then partition by partition.
func (b *Writer) permuteGroup(j *rowJob, w *staging.Section, stage string, first, end, each, streamBytes, free int64) error {
	stride := j.stride
	record := 4 + stride
	var lengths []int64
	for at := first; at < end; at += each {
		lengths = append(lengths, min(each, end-at)*record)
	}
	nb := int64(spill.Buffers(len(lengths)))
	buffers, err := b.Mem.Map("buffers of row partitions", nb*max(min(free/nb, 64*spill.Unit)/spill.Unit, 1)*spill.Unit)
	if err != nil {
		return err
	}
	defer buffers.Close()
	s, err := spill.InScratch(j.rows.Name(), lengths, b.Pool, b.Scratch, j.section, buffers.Bytes)
	if err != nil {
		return err
	}
	defer s.Close()
	rec := make([]byte, record)
	err = b.scanRows(j, stage, func(v int64, rows []byte) error {
		for ; len(rows) > 0; v++ {
			if i := int64(b.internal[v]) - first; i >= 0 && i < end-first {
				p := i / each
				binary.LittleEndian.PutUint32(rec, uint32(i-p*each))
				copy(rec[4:], rows[:stride])
				if err := s.Append(int(p), rec); err != nil {
					return err
				}
			}
			rows = rows[stride:]
		}
		return nil
	})
	if ferr := s.Finish(); err == nil {
		err = ferr
	}
	if err != nil {
		return err
	}
	buffers.Close()
	return b.placeParts(s, lengths, w, record, each, streamBytes)
}

// placeParts reads the partitions back, puts their rows in place and writes them:
// one partition is placed while the one before is written.
func (b *Writer) placeParts(s *spill.Partitions, lengths []int64, w *staging.Section, record, each, streamBytes int64) error {
	stride := record - 4
	areas, err := b.Mem.Map("rows of two partitions", 2*each*stride)
	if err != nil {
		return err
	}
	defer areas.Close()
	stream, err := b.Mem.Map("rows read back", streamBytes)
	if err != nil {
		return err
	}
	defer stream.Close()
	type placed struct {
		area []byte
		err  error
	}
	free, full := make(chan []byte, 2), make(chan placed, 2)
	free <- areas.Bytes[:each*stride]
	free <- areas.Bytes[each*stride:]
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
			err := s.Stream(p, stream.Bytes, func(piece []byte) error {
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
				return b.Ctx.Err()
			})
			if err == nil && len(cut) > 0 {
				panic(fmt.Sprintf("nodes: a partition ends %d bytes into a row", len(cut)))
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
		if err := b.WriteArea(w, p.area); err != nil {
			return err
		}
		free <- p.area[:cap(p.area)][:each*stride]
	}
	return nil
}

// RowBytes is the size of a row as read.
func RowBytes(r source.Rows) int64 {
	n := int64(r.DType().Size())
	for _, d := range r.RowShape() {
		n *= d
	}
	return n
}
