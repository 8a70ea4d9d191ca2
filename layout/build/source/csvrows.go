package source

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
)

// scanTable calls f with every line but blank ones at the end of the file, without its
// end; number counts from 1. The line is valid during the call only.
func scanTable(ctx context.Context, path string, f func(number int64, line []byte) error) error {
	r, err := openText(path)
	if err != nil {
		return err
	}
	defer r.Close()
	lines := bufio.NewReaderSize(r, MaxLineBytes)
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
			return lineError(path, number, "a line of more than %d bytes", MaxLineBytes)
		case err != nil && err != io.EOF:
			return &Error{File: path, Line: number, Index: -1, Msg: "cannot be read from here on", Err: err}
		}
		if b := bytes.TrimSpace(line); len(b) == 0 {
			if blank == 0 {
				blank = number
			}
		} else if blank > 0 {
			return lineError(path, blank, "an empty line between others")
		} else if err := f(number, b); err != nil {
			return err
		}
		if err == io.EOF {
			return ctx.Err()
		}
	}
}

// csvRows is a table of known extent, of float32 or int64. Of int64, nan is -1.
type csvRows struct {
	path  string
	rows  int64
	width int64 // 0: one number a row, and rows without an axis
	dtype layout.DType
}

// newCSVRows opens a table with a given number of rows, -1 for as many as there are.
// A table of one column has rows without an axis where flat is set.
func newCSVRows(ctx context.Context, path string, rows int64, d layout.DType, flat bool) (*csvRows, error) {
	r := &csvRows{path: path, rows: 0, width: 0, dtype: d}
	err := scanTable(ctx, path, func(number int64, line []byte) error {
		if number == 1 {
			r.width = int64(bytes.Count(line, []byte{','})) + 1
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
	if r.width*int64(d.Size()) > MaxRowBytes {
		return nil, lineError(path, 1, "rows of %d numbers; at most %d bytes are read", r.width, MaxRowBytes)
	}
	if flat && r.width <= 1 {
		r.width = 0
	}
	return r, nil
}

// errEnough ends a scan of lines early.
var errEnough = errors.New("source: enough lines")

func (r *csvRows) Len() int64          { return r.rows }
func (r *csvRows) DType() layout.DType { return r.dtype }
func (r *csvRows) Name() string        { return r.path }

func (r *csvRows) RowShape() []int64 {
	if r.width == 0 {
		return nil
	}
	return []int64{r.width}
}

func (r *csvRows) Scan(ctx context.Context, f func(first int64, rows []byte) error) error {
	columns := max(r.width, 1)
	rowBytes := columns * int64(r.dtype.Size())
	per := rowsPerChunk(rowBytes)
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
			return lineError(r.path, number, "a row more than the %d that there are nodes", r.rows)
		}
		for column := int64(0); ; column++ {
			field, rest, more := bytes.Cut(line, []byte{','})
			if column >= columns || !more && column != columns-1 {
				return lineError(r.path, number, "%d numbers, the first line has %d", column+1+int64(bytes.Count(rest, []byte{','})), columns)
			}
			var ok bool
			if out, ok = r.number(out, bytes.TrimSpace(field)); !ok {
				return lineError(r.path, number, "%s in column %d is no %s", clip(field), column+1, r.dtype)
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
		return inputError(r.path, "%d rows, where %d are due", row, r.rows)
	}
	return flush()
}

// number appends a number to out.
func (r *csvRows) number(out, field []byte) ([]byte, bool) {
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

// csvNumbers reads a file of at most most whole numbers, one a line.
func csvNumbers(ctx context.Context, path string, most int) ([]int64, error) {
	var out []int64
	err := scanTable(ctx, path, func(number int64, line []byte) error {
		if len(out) == most {
			return lineError(path, number, "more than %d lines", most)
		}
		v, err := strconv.ParseInt(string(line), 10, 64)
		if err != nil || v < 0 {
			return lineError(path, number, "%s is no number of nodes or edges", clip(line))
		}
		out = append(out, v)
		return nil
	})
	return out, err
}
