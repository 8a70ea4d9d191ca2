package export

// Writing one epoch: what is on disk already is checked byte for byte, what
// lies beyond is cut off, and minibatches are appended.

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"strings"

	"github.com/sbinet/npyio"

	"github.com/goagnes/goagnes/goagnes/operation"
	"github.com/goagnes/goagnes/goagnes/storage"
	"github.com/goagnes/goagnes/layout"
	"github.com/goagnes/goagnes/layout/npy"
)

// Minibatch is what is written of a batch.
type Minibatch struct {
	NumSampledNodes []int64
	NumSampledEdges []int64
	Arrays          []operation.Array
}

type epochWriter struct {
	Epoch
	dir    string
	salt   string
	bulk   []bulk
	lines  *storage.File
	lineAt int64
}

// bulk is the file of one array.
type bulk struct {
	Array
	*storage.File
	stored   layout.DType
	rowBytes int64
	start    int64 // of the first row
	rows     int64
}

func (b *bulk) header(rows int64) ([]byte, error) {
	var out bytes.Buffer
	_, err := npy.WriteGrowingHeader(&out, b.stored, append([]int64{rows}, b.Row...))
	return out.Bytes(), err
}

// Begin takes up the next epoch and returns how many of its minibatches are
// whole on disk: Add goes on with the one after. report may be nil.
func (w *Writer) Begin(ctx context.Context, report func(done int64)) (int64, error) {
	x := &w.index
	number := x.Settings.FirstEpoch + uint32(len(x.Epochs))
	e := &epochWriter{Epoch: Epoch{Epoch: number, Folder: folder(number)}}
	e.dir, e.salt = filepath.Join(w.dir, e.Folder), salt(x.ID, number)
	w.open = e
	if err := w.fsys.Mkdir(e.dir, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return 0, err
	}
	if err := e.tidy(w.fsys, x); err != nil {
		return 0, err
	}
	var err error
	for _, a := range x.Arrays {
		b := bulk{Array: a, rowBytes: a.rowBytes()}
		if _, b.stored, err = a.types(); err != nil || b.rowBytes == 0 {
			panic("export: an array outside the format's limits: " + a.Name)
		}
		if b.File, err = openOrMake(w.fsys, filepath.Join(e.dir, a.file())); err != nil {
			return 0, err
		}
		e.bulk = append(e.bulk, b)
		// Until the epoch is complete the file says that it has no rows.
		head, err := b.header(0)
		if err != nil {
			return 0, err
		}
		e.bulk[len(e.bulk)-1].start = int64(len(head))
		if _, err := b.WriteAt(head, 0); err != nil {
			return 0, err
		}
	}
	if e.lines, err = openOrMake(w.fsys, filepath.Join(e.dir, LinesFile)); err != nil {
		return 0, err
	}
	return e.takeUp(ctx, x.Settings.Minibatches, report)
}

// salt keeps the lines of one export and epoch apart from those of all others.
func salt(id string, epoch uint32) string { return fmt.Sprintf("%s/%d", id, epoch) }

// tidy removes what an export of other arrays left in the epoch's folder.
func (e *epochWriter) tidy(fsys storage.FS, x *Index) error {
	ours := map[string]bool{LinesFile: true}
	for i := range x.Arrays {
		ours[x.Arrays[i].file()] = true
	}
	for _, name := range offsetNames {
		ours[name] = true
	}
	entries, err := fsys.ReadDir(e.dir)
	if err != nil {
		return err
	}
	for _, entry := range entries {
		if name := entry.Name(); !ours[name] && (strings.HasSuffix(name, ".npy") || strings.HasSuffix(name, ".new")) {
			if err := fsys.Remove(filepath.Join(e.dir, name)); err != nil {
				return err
			}
		}
	}
	return nil
}

// takeUp counts the leading minibatches whose line and bytes are on disk, and
// cuts off all that lies behind them.
func (e *epochWriter) takeUp(ctx context.Context, most int64, report func(int64)) (int64, error) {
	buf := make([]byte, 1<<20)
	in := newLineReader(e.lines)
	for e.Minibatches < most {
		if err := ctx.Err(); err != nil {
			return 0, err
		}
		raw, err := in.next()
		if err != nil {
			return 0, err
		}
		line := e.decode(raw)
		if line == nil {
			break
		}
		whole := true
		for i := range e.bulk {
			b, p := &e.bulk[i], &line.Arrays[i]
			crc, err := crcOf(b, b.start+p.Offset*b.rowBytes, elements(p.Shape)*int64(b.stored.Size()), buf)
			if err != nil && err != io.EOF && !errors.Is(err, io.ErrUnexpectedEOF) {
				return 0, err
			}
			if whole = err == nil && crc == p.CRC32C; !whole {
				break
			}
		}
		if !whole {
			break
		}
		e.count(line, int64(len(raw)))
		if report != nil {
			report(e.Minibatches)
		}
	}
	if err := e.lines.Truncate(e.lineAt); err != nil {
		return 0, err
	}
	for i := range e.bulk {
		b := &e.bulk[i]
		if err := b.Truncate(b.start + b.rows*b.rowBytes); err != nil {
			return 0, err
		}
	}
	return e.Minibatches, nil
}

// decode returns the next line where it is one of this epoch and follows on what
// is counted; nil where it is not.
func (e *epochWriter) decode(raw []byte) *Line {
	body, ok := unseal(raw, e.salt)
	if !ok {
		return nil
	}
	line := &Line{}
	if strict(body, line) != nil || line.Minibatch != e.Minibatches || len(line.Arrays) != len(e.bulk) || len(line.NumSampledNodes) == 0 {
		return nil
	}
	for i := range e.bulk {
		if p := &line.Arrays[i]; p.Offset != e.bulk[i].rows || e.bulk[i].pieceRows(p.Shape) < 0 {
			return nil
		}
	}
	return line
}

// elements is the product of a shape.
func elements(shape []int64) int64 {
	n := int64(1)
	for _, d := range shape {
		n *= d
	}
	return n
}

// pieceRows returns the rows of the file that an array of that shape takes; -1
// where the shape is not one of the array's.
func (a *Array) pieceRows(shape []int64) int64 {
	n := int64(1)
	for _, d := range shape {
		if d < 0 || d > 0 && n > (1<<48)/d {
			return -1
		}
		n *= d
	}
	if a.Flat {
		return n
	}
	if len(shape) != len(a.Row)+1 {
		return -1
	}
	for i, d := range a.Row {
		if shape[i+1] != d {
			return -1
		}
	}
	return shape[0]
}

// count moves on by a line.
func (e *epochWriter) count(line *Line, bytes int64) {
	for i := range e.bulk {
		e.bulk[i].rows += e.bulk[i].pieceRows(line.Arrays[i].Shape)
	}
	e.lineAt += bytes
	e.add(Totals{Minibatches: 1, Seeds: line.seeds(), Nodes: line.nodes(), Edges: line.edges()})
}

// Add appends the next minibatch of the epoch. After an error the Writer can
// only be closed; what was added before is kept.
func (w *Writer) Add(m Minibatch) error {
	e := w.open
	line := &Line{Minibatch: e.Minibatches, NumSampledNodes: m.NumSampledNodes, NumSampledEdges: m.NumSampledEdges}
	if line.NumSampledEdges == nil {
		line.NumSampledEdges = []int64{}
	}
	if len(m.Arrays) != len(e.bulk) {
		panic("export: a minibatch of other arrays")
	}
	for i := range m.Arrays {
		a, b := &m.Arrays[i], &e.bulk[i]
		if a.Name != b.Array.Name || b.pieceRows(a.Shape)*b.rowBytes != int64(len(a.Bytes())) {
			panic("export: a minibatch's array " + a.Name + " is not as described")
		}
		if len(a.Bytes()) > 0 {
			if _, err := b.WriteAt(a.Bytes(), b.start+b.rows*b.rowBytes); err != nil {
				return err
			}
		}
		line.Arrays = append(line.Arrays, Piece{b.rows, a.Shape, layout.CRC(a.Bytes())})
	}
	raw, err := json.Marshal(line)
	if err != nil {
		panic("export: a line cannot be marshalled: " + err.Error())
	}
	raw = seal(raw, e.salt)
	if _, err := e.lines.WriteAt(raw, e.lineAt); err != nil {
		return err
	}
	e.count(line, int64(len(raw)))
	return nil
}

// End completes the epoch: headers with the final lengths, files of offsets, all
// of it synced.
func (w *Writer) End() error {
	e, x := w.open, &w.index
	if e.Minibatches != x.Settings.Minibatches {
		panic("export: End before the last minibatch")
	}
	for i := range e.bulk {
		b := &e.bulk[i]
		head, err := b.header(b.rows)
		if err != nil {
			return err
		}
		if _, err := b.WriteAt(head, 0); err != nil {
			return err
		}
		if err := b.Sync(); err != nil {
			return err
		}
		e.Files = append(e.Files, File{Name: b.file(), Bytes: b.start + b.rows*b.rowBytes, Rows: b.rows})
	}
	if err := e.lines.Sync(); err != nil {
		return err
	}
	crc, err := crcOf(e.lines, 0, e.lineAt, make([]byte, 1<<20))
	if err != nil {
		return err
	}
	e.Files = append(e.Files, File{Name: LinesFile, Bytes: e.lineAt, Rows: e.Minibatches, CRC32C: &crc})
	if err := e.offsets(w.fsys); err != nil {
		return err
	}
	if err := errors.Join(w.fsys.SyncDir(e.dir), w.fsys.SyncDir(w.dir)); err != nil {
		return err
	}
	for i := range e.Files {
		e.Bytes += e.Files[i].Bytes
	}
	w.open = nil
	if err := e.close(); err != nil {
		return err
	}
	x.Epochs = append(x.Epochs, e.Epoch)
	return nil
}

// offsets writes where each minibatch's seeds, nodes and edges begin, one small
// array at a time.
func (e *epochWriter) offsets(fsys storage.FS) error {
	for k, name := range offsetNames {
		list := make([]int64, 1, e.Minibatches+1)
		in := newLineReader(e.lines)
		for range e.Minibatches {
			raw, err := in.next()
			if err != nil {
				return err
			}
			var line Line
			if json.Unmarshal(raw, &line) != nil || len(line.NumSampledNodes) == 0 {
				return faultf(filepath.Join(e.dir, LinesFile), "the file was changed while it was written; export again with overwrite")
			}
			list = append(list, list[len(list)-1]+[3]int64{line.seeds(), line.nodes(), line.edges()}[k])
		}
		var out bytes.Buffer
		if err := npyio.Write(&out, list); err != nil {
			return err
		}
		if err := publish(fsys, filepath.Join(e.dir, name), out.Bytes()); err != nil {
			return err
		}
		crc := layout.CRC(out.Bytes())
		e.Files = append(e.Files, File{Name: name, Bytes: int64(out.Len()), Rows: int64(len(list)), CRC32C: &crc})
	}
	return nil
}

func (e *epochWriter) close() error {
	var err error
	for i := range e.bulk {
		err = errors.Join(err, e.bulk[i].Close())
	}
	e.bulk = nil
	if e.lines != nil {
		err = errors.Join(err, e.lines.Close())
		e.lines = nil
	}
	return err
}

// lineReader reads lines of bounded length from the start of a file.
type lineReader struct{ r *bufio.Reader }

func newLineReader(f io.ReaderAt) *lineReader {
	return &lineReader{bufio.NewReaderSize(io.NewSectionReader(f, 0, 1<<62), MaxLine)}
}

// next returns the next line with its newline, valid until the next call; what
// is there of one that is too long or ends with the file.
func (l *lineReader) next() ([]byte, error) {
	raw, err := l.r.ReadSlice('\n')
	if errors.Is(err, io.EOF) || errors.Is(err, bufio.ErrBufferFull) {
		err = nil
	}
	return raw, err
}
