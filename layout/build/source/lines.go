package source

// The scanner that every text format shares: a file in blocks of whole lines.

import (
	"bytes"
	"context"
	"io"
)

// scanLines passes all of a file, inflated, to lines: whole lines, each with its
// '\n' (the last one gets it where it lacks it), and never none. A UTF-8 byte order
// mark is passed over. finished counts the lines that are done, for messages.
func scanLines(ctx context.Context, path string, finished *int64, lines func(b []byte) error) error {
	file, err := openText(path)
	if err != nil {
		return err
	}
	defer file.Close()
	var r io.Reader = file
	if z, ok := file.(*inflated); ok {
		a := newReadAhead(z)
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
				if err := lines(trimBOM(buf[:cut], first)); err != nil {
					return err
				}
			}
			return &Error{File: path, Line: *finished + 1, Index: -1, Msg: "cannot be read from here on", Err: err}
		}
		b := trimBOM(buf[:end], first)
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
			return lineError(path, *finished+1, "a line of more than %d bytes", MaxLineBytes)
		}
	}
}

func trimBOM(b []byte, first bool) []byte {
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

// cutLine returns the first line of b without its end, LF or CRLF, and the rest.
func cutLine(b []byte) (line, rest []byte) {
	i := bytes.IndexByte(b, '\n')
	return bytes.TrimSuffix(b[:i], []byte("\r")), b[i+1:]
}

// edgeChunks collects edges and hands them on in chunks.
type edgeChunks struct {
	ctx      context.Context
	f        func(src, dst []int64) error
	src, dst []int64
	n        int
}

func newEdgeChunks(ctx context.Context, f func(src, dst []int64) error) edgeChunks {
	return edgeChunks{ctx: ctx, f: f, src: make([]int64, ChunkEdges), dst: make([]int64, ChunkEdges)}
}

func (c *edgeChunks) flush() error {
	if err := c.ctx.Err(); err != nil || c.n == 0 {
		return err
	}
	n := c.n
	c.n = 0
	return c.f(c.src[:n], c.dst[:n])
}

// put adds an edge.
func (c *edgeChunks) put(src, dst int64) error {
	if c.n == len(c.src) {
		if err := c.flush(); err != nil {
			return err
		}
	}
	c.src[c.n], c.dst[c.n] = src, dst
	c.n++
	return nil
}
