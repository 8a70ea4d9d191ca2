package text

// The scanner that every text format shares: a file in blocks of whole lines.

import (
	"bytes"
	"context"
	"io"

	"github.com/goagnes/goagnes/layout/build/source"
	"github.com/goagnes/goagnes/layout/build/source/inflate"
)

// ScanLines passes all of a file, inflated, to lines: whole lines, each with its
// '\n' (the last one gets it where it lacks it), and never none. A UTF-8 byte order
// mark is passed over. finished counts the lines that are done, for messages.
func ScanLines(ctx context.Context, path string, finished *int64, lines func(b []byte) error) error {
	file, err := inflate.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	var r io.Reader = file
	if z, ok := file.(*inflate.Reader); ok {
		a := inflate.NewReadAhead(z)
		defer a.Close()
		r = a
	}
	buf := make([]byte, 2*textBuffer+1)
	have := 0 // bytes of an unfinished line at the start of buf
	for first := true; ; {
		if err := ctx.Err(); err != nil {
			return err
		}
		n, err := readSome(r, buf[have:have+textBuffer])
		end := have + n
		if err != nil && err != io.EOF {
			// The lines that did come are judged first: a reader of a header must
			// not hide behind a cut file, and the place named is the right one.
			if cut := bytes.LastIndexByte(buf[:end], '\n') + 1; cut > 0 {
				if err := lines(TrimBOM(buf[:cut], first)); err != nil {
					return err
				}
			}
			return &source.Error{File: path, Line: *finished + 1, Index: -1, Msg: "cannot be read from here on", Err: err}
		}
		b := TrimBOM(buf[:end], first)
		first = false
		if err == io.EOF {
			if len(b) == 0 {
				return nil
			}
			if b[len(b)-1] != '\n' {
				b = append(b, '\n')
			}
			return lines(b)
		}
		if cut := bytes.LastIndexByte(b, '\n') + 1; cut > 0 {
			if err := lines(b[:cut]); err != nil {
				return err
			}
			b = b[cut:]
		}
		have = copy(buf, b)
		if have >= textBuffer {
			return source.ErrorAtLine(path, *finished+1, "a line of more than %d bytes", source.MaxLineBytes)
		}
	}
}

// TrimBOM takes the UTF-8 byte order mark off the first bytes of a file.
func TrimBOM(b []byte, first bool) []byte {
	if first {
		return bytes.TrimPrefix(b, []byte(utf8BOM))
	}
	return b
}

// readSome fills b unless the input ends, which it reports as io.EOF.
func readSome(r io.Reader, b []byte) (int, error) {
	n, err := io.ReadFull(r, b)
	if err == io.ErrUnexpectedEOF {
		// A cut compressed stream gives the same error; only a second read tells.
		if _, again := r.Read(b[n:]); again != nil && again != io.EOF {
			return n, again
		}
		err = io.EOF
	}
	return n, err
}

// CutLine returns the first line of b without its end, LF or CRLF, and the rest.
func CutLine(b []byte) (line, rest []byte) {
	i := bytes.IndexByte(b, '\n')
	return bytes.TrimSuffix(b[:i], []byte("\r")), b[i+1:]
}
