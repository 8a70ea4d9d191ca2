package source

// Edge lists as text: two ids a line, as SNAP and most others publish them.
//
// A line holds two decimal ids, separated by spaces, tabs or one comma; what
// follows them is passed over. Blank lines and lines that start with '#' or '%'
// are skipped. Lines end in LF or CRLF, the last one may lack its end, and a
// UTF-8 byte order mark is passed over. Gzip and zstd are recognised by content.
//
// Two parsers read the same grammar: a fast one for plain lines, which hands
// every other line to parseLine, the one that decides and words the errors.

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"
)

const (
	textBuffer = MaxLineBytes
	utf8BOM    = "\xef\xbb\xbf"
)

type textEdges struct{ path string }

func (t *textEdges) Name() string         { return t.path }
func (t *textEdges) Count() (int64, bool) { return 0, false }

func (t *textEdges) Scan(ctx context.Context, f func(src, dst []int64) error) error {
	s := textScan{edgeChunks: newEdgeChunks(ctx, f), file: t.path, parse: parseLine}
	if err := scanLines(ctx, t.path, &s.line, s.lines); err != nil {
		return err
	}
	return s.flush()
}

// textScan reads lines whose first two fields are the ids.
type textScan struct {
	edgeChunks
	file  string
	parse func(b []byte) textLine // judges the lines that are not plain
	line  int64                   // lines finished
}

// fastDigits is the most digits that cannot exceed an int64.
const fastDigits = 18

// lines reads whole lines; b ends in '\n' or is empty.
func (s *textScan) lines(b []byte) error {
	src, dst := s.src, s.dst
	n, line := s.n, s.line
	for i := 0; i < len(b); {
		if n == len(src) || n == len(dst) {
			s.n, s.line = n, line
			if err := s.flush(); err != nil {
				return err
			}
			n = 0
		}
		line++
		start := i
		u, v := uint64(0), uint64(0)
		for i < len(b) {
			d := b[i] - '0'
			if d > 9 {
				break
			}
			u = u*10 + uint64(d)
			i++
		}
		digits := i - start
		if c := b[i]; digits == 0 || digits > fastDigits || (c != '\t' && c != ' ' && c != ',') {
			goto careful
		}
		i++
		digits = i
		for i < len(b) {
			d := b[i] - '0'
			if d > 9 {
				break
			}
			v = v*10 + uint64(d)
			i++
		}
		digits = i - digits
		if digits == 0 || digits > fastDigits {
			goto careful
		}
		switch b[i] {
		case '\n':
			i++
		case '\r':
			if b[i+1] != '\n' {
				goto careful
			}
			i += 2
		case ' ', '\t', ',':
			end := bytes.IndexByte(b[i:], '\n')
			rest := b[i : i+end]
			if k := bytes.IndexByte(rest, '\r'); k >= 0 && k != len(rest)-1 {
				goto careful
			}
			i += end + 1
		default:
			goto careful
		}
		src[n], dst[n] = int64(u), int64(v)
		n++
		continue
	careful:
		end := start + bytes.IndexByte(b[start:], '\n')
		l := s.parse(b[start:end])
		if l.fault != "" {
			s.n, s.line = n, line-1
			return lineError(s.file, line, "%s", l.fault)
		}
		if l.edge {
			src[n], dst[n] = l.src, l.dst
			n++
		}
		i = end + 1
	}
	s.n, s.line = n, line
	return nil
}

// textLine is what one line says.
type textLine struct {
	edge     bool // false for blank lines and comments
	src, dst int64
	more     bool   // something follows the second id
	fault    string // what is wrong, or ""
}

// parseLine reads one line without its '\n'.
func parseLine(b []byte) textLine {
	if n := len(b); n > 0 && b[n-1] == '\r' {
		b = b[:n-1]
	}
	i := skipBlanks(b, 0)
	if i == len(b) || b[i] == '#' || b[i] == '%' {
		return textLine{}
	}
	if bytes.IndexByte(b, '\r') >= 0 {
		return textLine{fault: "a carriage return within the line; end lines with LF or CRLF"}
	}
	src, i, fault := parseID(b, i, "source")
	if fault != "" {
		return textLine{fault: fault}
	}
	i = skipSeparator(b, i)
	if i == len(b) {
		return textLine{fault: fmt.Sprintf("one id (%d), where a line holds two", src)}
	}
	dst, i, fault := parseID(b, i, "target")
	if fault != "" {
		return textLine{fault: fault}
	}
	return textLine{edge: true, src: src, dst: dst, more: skipSeparator(b, i) < len(b)}
}

func blank(c byte) bool { return c == ' ' || c == '\t' }

func skipBlanks(b []byte, i int) int {
	for i < len(b) && blank(b[i]) {
		i++
	}
	return i
}

func skipSeparator(b []byte, i int) int {
	i = skipBlanks(b, i)
	if i < len(b) && b[i] == ',' {
		i = skipBlanks(b, i+1)
	}
	return i
}

// parseID reads the field that starts at i and returns the position after it.
func parseID(b []byte, i int, what string) (id int64, next int, fault string) {
	next = i
	for next < len(b) && !blank(b[next]) && b[next] != ',' {
		next++
	}
	field := b[i:next]
	plain := len(field) > 0
	for _, c := range field {
		if c < '0' || c > '9' {
			plain = false
		}
	}
	if plain {
		id, err := strconv.ParseInt(string(field), 10, 64)
		if err != nil {
			return 0, next, fmt.Sprintf("%s id %s is too large; ids are below 2^63", what, clip(field))
		}
		return id, next, ""
	}
	if len(field) == 0 {
		return 0, next, fmt.Sprintf("the %s id is missing", what)
	}
	text := string(field)
	if len(text) < 64 {
		if v, err := strconv.ParseInt(text, 10, 64); err == nil && v < 0 {
			return 0, next, fmt.Sprintf("negative %s id %s; ids are 0 or more", what, text)
		}
		if _, err := strconv.ParseFloat(text, 64); err == nil && strings.IndexByte("+-", text[0]) < 0 {
			return 0, next, fmt.Sprintf("%s id %s is no integer", what, text)
		}
	}
	return 0, next, fmt.Sprintf("%s is no %s id; lines that are no edges start with '#' or '%%'", clip(field), what)
}

// clip quotes a field for a message.
func clip(b []byte) string {
	if len(b) > 40 {
		return strconv.Quote(string(b[:40])) + "…"
	}
	return strconv.Quote(string(b))
}

// probeText looks at the first edge of a text file and notes what else its line
// holds. The first fault is an error already here.
func probeText(path string) (notes []string, err error) {
	r, err := openText(path)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	b := bufio.NewReaderSize(io.LimitReader(r, textBuffer), 64<<10)
	if head, _ := b.Peek(len(utf8BOM)); string(head) == utf8BOM {
		if _, err := b.Discard(len(utf8BOM)); err != nil {
			return nil, causeError(path, "cannot be read", err)
		}
	}
	for line := int64(1); ; line++ {
		text, err := b.ReadSlice('\n')
		if err != nil && err != io.EOF {
			if err == bufio.ErrBufferFull {
				return nil, nil // the scan itself judges long lines
			}
			return nil, &Error{File: path, Line: line, Index: -1, Msg: "cannot be read from here on", Err: err}
		}
		l := parseLine(bytes.TrimSuffix(text, []byte("\n")))
		switch {
		case l.fault != "" && err == nil:
			return nil, lineError(path, line, "%s", l.fault)
		case l.more:
			return []string{fmt.Sprintf("columns after the second are not read (first seen in line %d)", line)}, nil
		case l.edge || err == io.EOF:
			return nil, nil
		}
	}
}
