package table

// Tables of numbers as text, without a header: one row a line, numbers separated by
// commas, plain or gzip.

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"math"
	"strconv"

	"github.com/goagnes/goagnes/layout"
	"github.com/goagnes/goagnes/layout/build/source"
	"github.com/goagnes/goagnes/layout/build/source/inflate"
)

// scanTable calls f with every line but blank ones at the end of the file, without its
// end; number counts from 1. The line is valid during the call only.
func scanTable(ctx context.Context, path string, f func(number int64, line []byte) error) error {
	r, err := inflate.Open(path)
	if err != nil {
		return err
	}
	defer r.Close()
	lines := bufio.NewReaderSize(r, source.MaxLineBytes)
	blank := int64(0) // a blank line that must be the last but for others
	for number := int64(1); ; number++ {
		if number%1024 == 0 {
			if err := ctx.Err(); err != nil {
				return err
			}
		}
		line, err := lines.ReadSlice('\n')
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			return source.ErrorAtLine(path, number, "a line of more than %d bytes", source.MaxLineBytes)
		case err != nil && err != io.EOF:
			return &source.Error{File: path, Line: number, Index: -1, Msg: "cannot be read from here on", Err: err}
		}
		if b := bytes.TrimSpace(line); len(b) == 0 {
			if blank == 0 {
				blank = number
			}
		} else if blank > 0 {
			return source.ErrorAtLine(path, blank, "an empty line between others")
		} else if err := f(number, b); err != nil {
			return err
		}
		if err == io.EOF {
			return ctx.Err()
		}
	}
}

// NumberRows is a table of known extent, of float32 or int64. Of int64, nan is -1.
type NumberRows struct {
	path  string
	rows  int64
	Width int64 // 0: one number a row, and rows without an axis
	dtype layout.DType
}

// NewRows opens a table with a given number of rows, -1 for as many as there are.
// A table of one column has rows without an axis where flat is set.
func NewRows(ctx context.Context, path string, rows int64, d layout.DType, flat bool) (*NumberRows, error) {
	r := &NumberRows{path: path, rows: 0, Width: 0, dtype: d}
	err := scanTable(ctx, path, func(number int64, line []byte) error {
		if number == 1 {
			r.Width = int64(bytes.Count(line, []byte{','})) + 1
			if rows >= 0 {
				return errEnough
			}
		}
		r.rows++
		return nil
	})
	if err != nil && !errors.Is(err, errEnough) {
		return nil, err
	}
	if rows >= 0 {
		r.rows = rows
	}
	if r.Width*int64(d.Size()) > source.MaxRowBytes {
		return nil, source.ErrorAtLine(path, 1, "rows of %d numbers; at most %d bytes are read", r.Width, source.MaxRowBytes)
	}
	if flat && r.Width <= 1 {
		r.Width = 0
	}
	return r, nil
}

// errEnough ends a scan of lines early.
var errEnough = errors.New("table: enough lines")

func (r *NumberRows) Len() int64          { return r.rows }
func (r *NumberRows) DType() layout.DType { return r.dtype }
func (r *NumberRows) Name() string        { return r.path }

func (r *NumberRows) RowShape() []int64 {
	if r.Width == 0 {
		return nil
	}
	return []int64{r.Width}
}

func (r *NumberRows) Scan(ctx context.Context, f func(first int64, rows []byte) error) error {
	columns := max(r.Width, 1)
	rowBytes := columns * int64(r.dtype.Size())
	per := source.RowsPerChunk(rowBytes)
	out := make([]byte, 0, per*rowBytes)
	first, row := int64(0), int64(0)
	flush := func() error {
		if len(out) == 0 {
			return nil
		}
		err := f(first, out)
		first, out = row, out[:0]
		return err
	}
	err := scanTable(ctx, r.path, func(number int64, line []byte) error {
		if row == r.rows {
			return source.ErrorAtLine(r.path, number, "a row more than the %d that there are nodes", r.rows)
		}
		for column := int64(0); ; column++ {
			field, rest, more := bytes.Cut(line, []byte{','})
			if column >= columns || !more && column != columns-1 {
				return source.ErrorAtLine(r.path, number, "%d numbers, the first line has %d", column+1+int64(bytes.Count(rest, []byte{','})), columns)
			}
			var ok bool
			if out, ok = r.number(out, bytes.TrimSpace(field)); !ok {
				return source.ErrorAtLine(r.path, number, "%s in column %d is no %s", source.Clip(field), column+1, r.dtype)
			}
			if !more {
				break
			}
			line = rest
		}
		if row++; int64(len(out)) == per*rowBytes {
			return flush()
		}
		return nil
	})
	if err != nil {
		return err
	}
	if row != r.rows {
		return source.Errorf(r.path, "%d rows, where %d are due", row, r.rows)
	}
	return flush()
}

// number appends a number to out.
func (r *NumberRows) number(out, field []byte) ([]byte, bool) {
	if r.dtype == layout.Float32 {
		v, err := strconv.ParseFloat(string(field), 32)
		if err != nil && !errors.Is(err, strconv.ErrRange) {
			return out, false
		}
		return binary.LittleEndian.AppendUint32(out, math.Float32bits(float32(v))), true
	}
	v, err := strconv.ParseInt(string(field), 10, 64)
	if err != nil {
		x, ferr := strconv.ParseFloat(string(field), 64)
		switch {
		case ferr != nil || x != math.Trunc(x) || math.Abs(x) > 1<<53:
			if ferr != nil || !math.IsNaN(x) {
				return out, false
			}
			v = -1
		default:
			v = int64(x)
		}
	}
	return binary.LittleEndian.AppendUint64(out, uint64(v)), true
}

// Numbers reads a file of at most most whole numbers, one a line.
func Numbers(ctx context.Context, path string, most int) ([]int64, error) {
	var out []int64
	err := scanTable(ctx, path, func(number int64, line []byte) error {
		if len(out) == most {
			return source.ErrorAtLine(path, number, "more than %d lines", most)
		}
		v, err := strconv.ParseInt(string(line), 10, 64)
		if err != nil || v < 0 {
			return source.ErrorAtLine(path, number, "%s is no number of nodes or edges", source.Clip(line))
		}
		out = append(out, v)
		return nil
	})
	return out, err
}
