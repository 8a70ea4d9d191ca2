package export

// Reading a finished export: everything but the arrays' elements is checked when
// it is opened, the elements minibatch by minibatch on first touch.

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"path/filepath"
	"sync"

	"github.com/goagnes/goagnes/goagnes/operation"
	"github.com/goagnes/goagnes/goagnes/storage"
	"github.com/goagnes/goagnes/layout"
	"github.com/goagnes/goagnes/layout/npy"
)

// Reader is an open export. Its methods may be called from any goroutine, Close
// when no array of it is used any more.
type Reader struct {
	dir    string
	index  *Index
	epochs []*epochReader
}

type epochReader struct {
	Epoch
	dir    string
	lines  *storage.MappedFile // nil where there are none
	places []int64             // of the lines, minibatches+1
	bulk   []mapped

	mu      sync.Mutex
	checked []bool
}

type mapped struct {
	Array
	*storage.MappedFile
	dtype    layout.DType
	size     int64 // bytes of an element
	rowBytes int64
	start    int64
	rows     int64
}

// ReadBatch is one minibatch of an export. Its arrays are the mapped file's
// bytes: they must not be written to, and are valid until the Reader is closed.
type ReadBatch struct {
	Index           int64 // of the epoch
	Epoch           uint32
	BatchSize       int // seeds
	NumNodes        int
	NumTargets      int // nodes that were expanded: the first NumTargets
	NumEdges        int
	NumSampledNodes []int64
	NumSampledEdges []int64
	arrays          []operation.Array
}

// Arrays returns the batch's arrays, as a loader's batch has them.
func (b *ReadBatch) Arrays() []operation.Array { return b.arrays }

// Array returns the array of that name.
func (b *ReadBatch) Array(name string) (operation.Array, bool) {
	for _, a := range b.arrays {
		if a.Name == name {
			return a, true
		}
	}
	return operation.Array{}, false
}

// Open opens a finished export. It checks the index, every header and size, and
// the checksums of all but the arrays' elements. Faults are of type *Error.
func Open(dir string) (r *Reader, err error) {
	x, finished, err := Peek(storage.OS, dir)
	var mismatch *MismatchError
	switch {
	case errors.As(err, &mismatch):
		return nil, faultf(dir, "is no folder: an export is one")
	case err != nil:
		return nil, err
	case x == nil:
		if _, err := storage.OS.Stat(dir); err != nil {
			return nil, faultf(dir, "no such export: %v", errors.Unwrap(err))
		}
		return nil, faultf(dir, "holds no export")
	case !finished:
		return nil, faultf(dir, "the export is unfinished: run the same export to this folder again, which goes on where it ended")
	}
	r = &Reader{dir: dir, index: x}
	defer func() {
		if err != nil {
			err = errors.Join(err, r.Close())
			r = nil
		}
	}()
	path := filepath.Join(dir, IndexFile)
	if len(x.Epochs) != x.Settings.Epochs || x.Totals == nil {
		return r, faultf(path, "%d epochs of %d", len(x.Epochs), x.Settings.Epochs)
	}
	var totals Totals
	for i := range x.Epochs {
		p := &x.Epochs[i]
		if p.Epoch != x.Settings.FirstEpoch+uint32(i) || p.Folder != folder(p.Epoch) || p.Minibatches != x.Settings.Minibatches {
			return r, faultf(path, "epoch %d is not as the settings say", p.Epoch)
		}
		e := &epochReader{Epoch: *p, dir: filepath.Join(dir, p.Folder)}
		r.epochs = append(r.epochs, e)
		if err := e.open(x); err != nil {
			return r, err
		}
		totals.add(p.Totals)
	}
	if totals != *x.Totals {
		return r, faultf(path, "the totals are not those of the epochs")
	}
	return r, nil
}

// open checks and maps the files of an epoch.
func (e *epochReader) open(x *Index) error {
	if len(e.Files) != len(x.Arrays)+1+len(offsetNames) {
		return faultf(filepath.Join(e.dir, "..", IndexFile), "epoch %d has %d files", e.Epoch.Epoch, len(e.Files))
	}
	for i := range x.Arrays {
		f := &e.Files[i]
		path := filepath.Join(e.dir, x.Arrays[i].file())
		m, err := mapWhole(path, f, x.Arrays[i].file())
		if err != nil {
			return err
		}
		b := mapped{Array: x.Arrays[i], MappedFile: m, rowBytes: x.Arrays[i].rowBytes(), rows: f.Rows}
		e.bulk = append(e.bulk, b)
		d, stored, err := b.types()
		if err != nil {
			return err
		}
		head, err := npy.ReadHeader(bytes.NewReader(m.Bytes()))
		if err != nil {
			return faultf(path, "no array as it was exported: %v; export again with overwrite", err)
		}
		shape := append([]int64{f.Rows}, b.Row...)
		if head.DType != stored || head.BigEndian || head.Fortran || !equal(head.Shape, shape) || f.Rows > f.Bytes/b.rowBytes || head.DataOffset+f.Rows*b.rowBytes != f.Bytes {
			return faultf(path, "an array of %s %v, exported as %s %v; export again with overwrite", head.DType, head.Shape, stored, shape)
		}
		last := &e.bulk[i]
		last.dtype, last.size, last.start = d, int64(d.Size()), head.DataOffset
	}
	for i, name := range offsetNames {
		f := &e.Files[len(x.Arrays)+1+i]
		m, err := mapWhole(filepath.Join(e.dir, name), f, name)
		if err != nil {
			return err
		}
		if err := m.Close(); err != nil {
			return err
		}
	}
	f := &e.Files[len(x.Arrays)]
	path := filepath.Join(e.dir, LinesFile)
	if f.Bytes > 0 {
		var err error
		if e.lines, err = mapWhole(path, f, LinesFile); err != nil {
			return err
		}
	} else if st, err := storage.OS.Stat(path); err != nil || st.Size() != 0 || f.Name != LinesFile {
		return faultf(path, "the file was replaced; export again with overwrite")
	}
	return e.walk(x, path)
}

// mapWhole maps a file and holds its size, and its checksum where it has one of
// its own, against the index.
func mapWhole(path string, f *File, name string) (*storage.MappedFile, error) {
	if f.Name != name || f.Bytes <= 0 || f.Rows < 0 || f.Rows > f.Bytes {
		return nil, faultf(path, "the index lists %q in its place", f.Name)
	}
	m, err := storage.MapFile(nil, path)
	if err != nil {
		if st, serr := storage.OS.Stat(path); serr == nil && st.Mode().IsRegular() && st.Size() == 0 || errors.Is(err, fs.ErrNotExist) {
			return nil, faultf(path, "the file is missing or empty; export again with overwrite")
		}
		return nil, err
	}
	switch {
	case int64(len(m.Bytes())) != f.Bytes:
		err = faultf(path, "%d bytes, exported with %d; export again with overwrite", len(m.Bytes()), f.Bytes)
	case f.CRC32C != nil && layout.CRC(m.Bytes()) != *f.CRC32C:
		err = faultf(path, "the checksum does not match: the file was changed; export again with overwrite")
	}
	if err != nil {
		return nil, errors.Join(err, m.Close())
	}
	return m, nil
}

// walk finds the lines' places and holds them against files and totals.
func (e *epochReader) walk(x *Index, path string) error {
	var all []byte
	if e.lines != nil {
		all = e.lines.Bytes()
	}
	if e.Minibatches > int64(len(all)) {
		return faultf(path, "%d minibatches in %d bytes", e.Minibatches, len(all))
	}
	w := &epochWriter{salt: salt(x.ID, e.Epoch.Epoch)}
	for i := range e.bulk {
		w.bulk = append(w.bulk, bulk{Array: e.bulk[i].Array})
	}
	e.places = make([]int64, 1, e.Minibatches+1)
	e.checked = make([]bool, e.Minibatches)
	for m := range e.Minibatches {
		at := e.places[m]
		n := int64(bytes.IndexByte(all[at:], '\n') + 1)
		line := w.decode(all[at : at+n])
		if line == nil {
			return &Error{path, m, "the line is not the one that was exported; export again with overwrite"}
		}
		w.count(line, n)
		e.places = append(e.places, at+n)
	}
	t := e.Totals
	t.Bytes = 0
	if w.lineAt != int64(len(all)) || w.Totals != t {
		return faultf(path, "the lines do not add up to the index's totals")
	}
	for i := range e.bulk {
		if w.bulk[i].rows != e.bulk[i].rows {
			return faultf(path, "the lines do not add up to the rows of %s", e.bulk[i].file())
		}
	}
	return nil
}

func equal(a, b []int64) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i] != b[i] {
			return false
		}
	}
	return true
}

// Index returns the export's index. It must not be changed.
func (r *Reader) Index() *Index { return r.index }

// Len returns the number of minibatches of each epoch.
func (r *Reader) Len() int { return int(r.index.Settings.Minibatches) }

// Batch returns a minibatch of an epoch. Its checksums are verified when it is
// asked for the first time.
func (r *Reader) Batch(epoch uint32, minibatch int64) (*ReadBatch, error) {
	i := int64(epoch) - int64(r.index.Settings.FirstEpoch)
	if i < 0 || i >= int64(len(r.epochs)) {
		return nil, &MismatchError{r.dir, "the export has no such epoch; it has those from first_epoch on, as many as epochs says"}
	}
	e := r.epochs[i]
	if minibatch < 0 || minibatch >= e.Minibatches {
		return nil, &MismatchError{r.dir, "the epoch has no such minibatch"}
	}
	return e.batch(minibatch)
}

func (e *epochReader) batch(m int64) (*ReadBatch, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.places == nil {
		panic("export: a Reader is used after Close")
	}
	path := filepath.Join(e.dir, LinesFile)
	if !e.lines.Holds() {
		return nil, faultf(path, "the file was cut short; export again with overwrite")
	}
	line := &Line{}
	if err := strict(withoutSeal(e.lines.Bytes()[e.places[m]:e.places[m+1]]), line); err != nil || len(line.Arrays) != len(e.bulk) || len(line.NumSampledNodes) == 0 {
		return nil, &Error{path, m, "the line was changed while the export was open; export again with overwrite"}
	}
	b := &ReadBatch{
		Index: m, Epoch: e.Epoch.Epoch, BatchSize: int(line.seeds()), NumNodes: int(line.nodes()), NumEdges: int(line.edges()),
		NumSampledNodes: line.NumSampledNodes, NumSampledEdges: line.NumSampledEdges,
	}
	b.NumTargets = b.NumNodes - int(line.NumSampledNodes[len(line.NumSampledNodes)-1])
	for i := range e.bulk {
		f, p := &e.bulk[i], &line.Arrays[i]
		rows := f.pieceRows(p.Shape)
		if rows < 0 || p.Offset < 0 || p.Offset > f.rows-rows {
			return nil, &Error{path, m, "the line was changed while the export was open; export again with overwrite"}
		}
		from := f.start + p.Offset*f.rowBytes
		n := rows * f.rowBytes
		if !f.Holds() {
			return nil, &Error{filepath.Join(e.dir, f.file()), m, "the file was cut short; export again with overwrite"}
		}
		data := f.Bytes()[from : from+n : from+n]
		if !e.checked[m] && layout.CRC(data) != p.CRC32C {
			return nil, &Error{filepath.Join(e.dir, f.file()), m, "the checksum does not match: the file was changed; export again with overwrite"}
		}
		b.arrays = append(b.arrays, operation.NewArray(f.Name, f.dtype, p.Shape, data))
	}
	e.checked[m] = true
	return b, nil
}

// withoutSeal returns a line's object without its checksum, which was verified
// when the export was opened.
func withoutSeal(raw []byte) []byte {
	if at := bytes.LastIndex(raw, []byte(","+sealKey)); at >= 0 {
		return append(bytes.Clone(raw[:at]), '}')
	}
	return raw
}

// FilePiece is a minibatch's part of one file.
type FilePiece struct {
	Path      string `json:"path"`
	Minibatch int64  `json:"minibatch"`
	Offset    int64  `json:"offset"` // in bytes
	Bytes     int64  `json:"bytes"`
	CRC32C    uint32 `json:"crc32c"`
}

// Check reads pieces and verifies their checksums.
func Check(pieces []FilePiece) error {
	buf := make([]byte, 1<<20)
	for _, p := range pieces {
		f, err := storage.OpenFile(storage.OS, p.Path, storage.Flags{Buffered: true})
		if errors.Is(err, fs.ErrNotExist) {
			return &Error{p.Path, p.Minibatch, "the file is missing; export again with overwrite"}
		}
		if err != nil {
			return err
		}
		crc, err := crcOf(f, p.Offset, p.Bytes, buf)
		f.Close() // nothing was written
		switch {
		case errors.Is(err, io.EOF):
			return &Error{p.Path, p.Minibatch, "the file was cut short; export again with overwrite"}
		case err != nil:
			return err
		case crc != p.CRC32C:
			return &Error{p.Path, p.Minibatch, "the checksum does not match: the file was changed; export again with overwrite"}
		}
	}
	return nil
}

// Verify checks every minibatch.
func (r *Reader) Verify(ctx context.Context, report func(epoch uint32, done int64)) error {
	for _, e := range r.epochs {
		for m := range e.Minibatches {
			if err := ctx.Err(); err != nil {
				return err
			}
			if _, err := e.batch(m); err != nil {
				return err
			}
			if report != nil {
				report(e.Epoch.Epoch, m+1)
			}
		}
	}
	return nil
}

// Close unmaps all files. Closing twice does nothing.
func (r *Reader) Close() error {
	var err error
	for _, e := range r.epochs {
		e.mu.Lock()
		e.places = nil
		if e.lines != nil {
			err = errors.Join(err, e.lines.Close())
		}
		for i := range e.bulk {
			err = errors.Join(err, e.bulk[i].MappedFile.Close())
		}
		e.mu.Unlock()
	}
	return err
}
