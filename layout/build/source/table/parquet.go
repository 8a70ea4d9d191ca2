package table

// Edge lists in Parquet: two integer columns, found by the names of edgeColumns
// among the columns of the outermost level; other columns are not read. A directory
// of files is read in the order of their names.
//
// Pages are read one after the other. Before the library sees them, the footer and
// every page header are walked here: the footer has at most maxParquetFooter bytes,
// a page at most maxParquetPage bytes inflated and maxParquetValues values, and does not
// hold more than its header says (inflated.go). Two
// pages and two dictionaries are held at a time, so reading takes at most about 16
// times maxParquetPage, whatever the metadata claim.

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/goagnes/goagnes/layout/build/source"
	"github.com/parquet-go/parquet-go"
)

const (
	ParquetMagic     = "PAR1"
	maxParquetFooter = 16 << 20
	maxParquetPage   = 32 << 20
	maxParquetValues = maxParquetPage / 8
	// pageHeaderBytes bounds the header of a page.
	pageHeaderBytes = 64 << 10
	parquetBatch    = 4096
)

// parquetFile is one open file.
type parquetFile struct {
	path    string
	f       *os.File
	size    int64
	p       *parquet.File
	columns [2]*parquet.Column
	others  int // columns that are not read
}

// guarded runs what calls the library, whose panics are faults of the file.
func guarded(path string, call func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = source.Errorf(path, "broken Parquet file: %.200s", strings.ReplaceAll(fmt.Sprint(p), "\n", " "))
		}
	}()
	return call()
}

func openParquetFile(path string) (*parquetFile, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, source.ErrorFrom(path, "cannot be opened", err)
	}
	file := &parquetFile{path: path, f: f}
	if err := guarded(path, file.open); err != nil {
		f.Close()
		return nil, err
	}
	return file, nil
}

func (p *parquetFile) open() error {
	st, err := p.f.Stat()
	if err != nil {
		return source.ErrorFrom(p.path, "cannot be examined", err)
	}
	p.size = st.Size()
	var tail [8]byte
	if p.size < 12 {
		return source.Errorf(p.path, "%d bytes are no Parquet file", p.size)
	}
	if _, err := p.f.ReadAt(tail[:], p.size-8); err != nil {
		return source.ErrorFrom(p.path, "cannot be read", err)
	}
	if string(tail[4:]) != ParquetMagic {
		return source.Errorf(p.path, "no Parquet footer at the end; the file is cut, or encrypted")
	}
	n := int64(binary.LittleEndian.Uint32(tail[:]))
	if n > maxParquetFooter || n > p.size-12 {
		return source.Errorf(p.path, "a footer of %d bytes in a file of %d; at most %d are read", n, p.size, maxParquetFooter)
	}
	footer := make([]byte, n)
	if _, err := p.f.ReadAt(footer, p.size-8-n); err != nil {
		return source.ErrorFrom(p.path, "cannot be read", err)
	}
	if w := (&thriftWalk{b: footer}); !w.walk() {
		return source.Errorf(p.path, "broken Parquet footer, or one of more than %d parts", thriftElements)
	}
	if p.p, err = parquet.OpenFile(p.f, p.size, parquet.SkipPageIndex(true), parquet.SkipBloomFilters(true)); err != nil {
		return source.ErrorFrom(p.path, "broken Parquet file", err)
	}
	columns := p.p.Root().Columns()
	names := make([]string, len(columns))
	for i, c := range columns {
		names[i] = c.Name()
	}
	at, msg := findEdgeColumns(names)
	if msg != "" {
		return source.Errorf(p.path, "%s", msg)
	}
	p.others = len(columns) - 2
	for k := range at {
		c := columns[at[k]]
		if !c.Leaf() || c.Repeated() {
			return source.Errorf(p.path, "column %s holds lists or records, where ids are due", c.Name())
		}
		kind := c.Type().Kind()
		logical := c.Type().LogicalType()
		if kind != parquet.Int32 && kind != parquet.Int64 || logical != nil && !strings.HasPrefix(logical.String(), "INT(") {
			return source.Errorf(p.path, "column %s of type %s; ids are integers: number the nodes first, as pandas.factorize does", c.Name(), c.Type())
		}
		p.columns[k] = c
		for _, group := range p.p.Metadata().RowGroups {
			if codec := group.Columns[c.Index()].MetaData.Codec; !slices.Contains(parquetCodecs, codec) {
				return source.Unsupported(p.path, "column %s is compressed by %s; write it with snappy, gzip, zstd or no compression", c.Name(), codec)
			}
		}
	}
	return nil
}

// checkPages walks the headers of a chunk's pages.
func (p *parquetFile) checkPages(group, column int) error {
	m := p.p.Metadata().RowGroups[group].Columns[column].MetaData
	at := m.DataPageOffset
	if d := m.DictionaryPageOffset; d > 0 && d < at {
		at = d
	}
	end := at + m.TotalCompressedSize
	if at < 4 || m.TotalCompressedSize < 0 || end < at || end > p.size {
		return source.Errorf(p.path, "row group %d: a column chunk of bytes %d to %d in a file of %d", group, at, end, p.size)
	}
	buf := make([]byte, pageHeaderBytes)
	for at < end {
		b := buf[:min(pageHeaderBytes, end-at)]
		if _, err := p.f.ReadAt(b, at); err != nil {
			return source.ErrorFrom(p.path, "cannot be read", err)
		}
		var inflated, stored, values, levels, plain int64 = -1, -1, 0, 0, 0
		w := &thriftWalk{b: b, visit: func(parent, id int, v int64) {
			switch {
			case parent == 0 && id == 2:
				inflated = v
			case parent == 0 && id == 3:
				stored = v
			case (parent == 5 || parent == 7 || parent == 8) && id == 1:
				values = v
			case parent == 8 && (id == 5 || id == 6): // of the newer form of pages, before what is compressed
				levels += v
			case parent == 8 && id == 7:
				plain = 1 - v
			}
		}}
		switch {
		case !w.walk() || inflated < 0 || stored < 0:
			return source.Errorf(p.path, "row group %d: a broken page header at byte %d", group, at)
		case stored > end-at-int64(w.at) || inflated > maxParquetPage || values < 0 || values > maxParquetValues:
			return source.Errorf(p.path, "row group %d: a page of %d bytes (%d stored) and %d values at byte %d; at most %d bytes and %d values are read; write smaller pages",
				group, inflated, stored, values, at, maxParquetPage, maxParquetValues)
		}
		at += int64(w.at)
		if levels < 0 || levels > stored || levels > inflated {
			return source.Errorf(p.path, "row group %d: the page that ends at byte %d has %d bytes of levels in %d", group, at+stored, levels, stored)
		}
		if plain == 0 {
			body := io.NewSectionReader(p.f, at+levels, stored-levels)
			if err := checkInflated(m.Codec, body, inflated-levels); err != nil {
				return source.ErrorFrom(p.path, fmt.Sprintf("row group %d: the page of column %d at byte %d cannot be read", group, column, at), err)
			}
		}
		at += stored
	}
	return nil
}

// parquetColumn hands out the values of a chunk.
type parquetColumn struct {
	file     *parquetFile
	name     string
	unsigned bool
	narrow   bool
	pages    parquet.Pages
	values   parquet.ValueReader
	batch    [parquetBatch]parquet.Value
	have, at int
	row      int64 // in the file
}

func (c *parquetColumn) next() (int64, error) {
	for c.at == c.have {
		if err := guarded(c.file.path, c.fill); err != nil {
			return 0, err
		}
	}
	v := &c.batch[c.at]
	c.at++
	c.row++
	if v.IsNull() {
		return 0, source.ErrorAt(c.file.path, c.row-1, "null in column %s; drop such rows first", c.name)
	}
	var id int64
	switch {
	case c.narrow && c.unsigned:
		id = int64(uint32(v.Int32()))
	case c.narrow:
		id = int64(v.Int32())
	default:
		id = v.Int64()
	}
	if id < 0 && c.unsigned {
		return 0, source.ErrorAt(c.file.path, c.row-1, "id %d in column %s is too large; ids are below 2^63", uint64(id), c.name)
	}
	if id < 0 {
		return 0, source.ErrorAt(c.file.path, c.row-1, "negative id %d in column %s; ids are 0 or more", id, c.name)
	}
	return id, nil
}

func (c *parquetColumn) fill() error {
	for {
		if c.values == nil {
			page, err := c.pages.ReadPage()
			if err == io.EOF {
				return source.ErrorFrom(c.file.path, "column "+c.name+" ends early", io.ErrUnexpectedEOF)
			}
			if err != nil {
				return source.ErrorFrom(c.file.path, "column "+c.name+" cannot be read", err)
			}
			c.values = page.Values()
		}
		n, err := c.values.ReadValues(c.batch[:])
		if err != nil && err != io.EOF {
			return source.ErrorFrom(c.file.path, "column "+c.name+" cannot be read", err)
		}
		if err == io.EOF {
			c.values = nil
		}
		if n > 0 {
			c.at, c.have = 0, n
			return nil
		}
		if err == nil {
			return source.Errorf(c.file.path, "column %s gives no values", c.name)
		}
	}
}

func (p *parquetFile) scan(ctx context.Context, out *source.EdgeChunks) error {
	first := int64(0)
	for g, group := range p.p.RowGroups() {
		rows := group.NumRows()
		if rows < 0 || rows > math.MaxInt64-first {
			return source.Errorf(p.path, "row group %d has %d rows", g, rows)
		}
		var columns [2]*parquetColumn
		for k, c := range p.columns {
			if err := p.checkPages(g, c.Index()); err != nil {
				return err
			}
			column := &parquetColumn{file: p, name: c.Name(), row: first, narrow: c.Type().Kind() == parquet.Int32}
			if l := c.Type().LogicalType(); l != nil {
				column.unsigned = strings.HasSuffix(l.String(), "false)")
			}
			err := guarded(p.path, func() error {
				column.pages = group.ColumnChunks()[c.Index()].Pages()
				return nil
			})
			if err != nil {
				return err
			}
			defer column.pages.Close()
			columns[k] = column
		}
		for range rows {
			src, err := columns[0].next()
			if err != nil {
				return err
			}
			dst, err := columns[1].next()
			if err != nil {
				return err
			}
			if err := out.Put(src, dst); err != nil {
				return err
			}
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		first += rows
	}
	return nil
}

// parquetEdges are the edges of one file or several.
type parquetEdges struct {
	name  string
	parts []string
	count int64
}

func (e *parquetEdges) Name() string         { return e.name }
func (e *parquetEdges) Count() (int64, bool) { return e.count, true }

func (e *parquetEdges) Scan(ctx context.Context, f func(src, dst []int64) error) error {
	out := source.NewEdgeChunks(ctx, f)
	for _, path := range e.parts {
		p, err := openParquetFile(path)
		if err != nil {
			return err
		}
		err = p.scan(ctx, &out)
		p.f.Close()
		if err != nil {
			return err
		}
	}
	return out.Flush()
}

// ParquetParts lists the Parquet files of a directory by name. Names that start
// with '_' or '.' are marks of the programs that wrote it.
func ParquetParts(dir string) ([]string, error) {
	list, err := os.ReadDir(dir)
	if err != nil {
		return nil, source.ErrorFrom(dir, "cannot be listed", err)
	}
	var parts []string
	for _, e := range list {
		if strings.HasPrefix(e.Name(), "_") || strings.HasPrefix(e.Name(), ".") {
			continue
		}
		path := filepath.Join(dir, e.Name())
		if !isParquet(path) {
			return nil, source.Errorf(path, "no Parquet file, in a directory of Parquet parts; take it away, or name one file")
		}
		parts = append(parts, path)
	}
	if len(parts) == 0 {
		return nil, source.Errorf(dir, "no Parquet file in this directory")
	}
	return parts, nil
}

func isParquet(path string) bool {
	st, err := os.Stat(path)
	if err != nil || !st.Mode().IsRegular() {
		return false
	}
	f, err := os.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	var head [4]byte
	_, err = io.ReadFull(f, head[:])
	return err == nil && bytes.Equal(head[:], []byte(ParquetMagic))
}

// OpenParquet opens a Parquet file of edges, or a directory of such.
func OpenParquet(ctx context.Context, path string, _ source.Options) (*source.Dataset, error) {
	st, err := os.Stat(path)
	if err != nil {
		return nil, source.ErrorFrom(path, "cannot be opened", err)
	}
	e := &parquetEdges{name: path, parts: []string{path}}
	if st.IsDir() {
		if e.parts, err = ParquetParts(path); err != nil {
			return nil, err
		}
	}
	d := source.NewDataset("parquet")
	d.Edges = e
	for i, part := range e.parts {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		p, err := openParquetFile(part)
		if err != nil {
			return nil, err
		}
		rows := p.p.NumRows()
		p.f.Close()
		if rows < 0 || rows > math.MaxInt64-e.count {
			return nil, source.Errorf(part, "%d rows", rows)
		}
		e.count += rows
		if i == 0 && p.others > 0 {
			d.Note("%s: columns %s and %s are read; the %d others are not kept", part, p.columns[0].Name(), p.columns[1].Name(), p.others)
		}
	}
	return d, nil
}
