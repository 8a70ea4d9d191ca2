package text

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

	"github.com/goagnes/goagnes/layout/build/source"
	"github.com/goagnes/goagnes/layout/build/source/inflate"
)

const (
	textBuffer = source.MaxLineBytes
	utf8BOM    = "\xef\xbb\xbf"
)

// Edges are the edges of a text file.
type Edges struct{ path string }

// NewEdges returns the edges of the file; it is opened by scans alone.
func NewEdges(path string) *Edges { return &Edges{path} }

func (t *Edges) Name() string         { return t.path }
func (t *Edges) Count() (int64, bool) { return 0, false }

func (t *Edges) Scan(ctx context.Context, f func(src, dst []int64) error) error {
	s := textScan{EdgeChunks: source.NewEdgeChunks(ctx, f), file: t.path, parse: ParseLine}
	if err := ScanLines(ctx, t.path, &s.line, s.lines); err != nil {
		return err
	}
	return s.Flush()
}

// textScan reads lines whose first two fields are the ids.
type textScan struct {
	source.EdgeChunks
	file  string
	parse func(b []byte) Line // judges the lines that are not plain
	line  int64               // lines finished
}

// FastDigits is the most digits that cannot exceed an int64.
const FastDigits = 18

// lines reads whole lines; b ends in '\n' or is empty.
func (s *textScan) lines(b []byte) error {
	src, dst := s.Src, s.Dst
	n, line := s.N, s.line
	for i := 0; i < len(b); {
		if n == len(src) || n == len(dst) {
			s.N, s.line = n, line
			if err := s.Flush(); err != nil {
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
		if c := b[i]; digits == 0 || digits > FastDigits || (c != '\t' && c != ' ' && c != ',') {
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
		if digits == 0 || digits > FastDigits {
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
		if l.Fault != "" {
			s.N, s.line = n, line-1
			return source.ErrorAtLine(s.file, line, "%s", l.Fault)
		}
		if l.edge {
			src[n], dst[n] = l.src, l.dst
			n++
		}
		i = end + 1
	}
	s.N, s.line = n, line
	return nil
}

// Line is what one line says.
type Line struct {
	edge     bool // false for blank lines and comments
	src, dst int64
	more     bool   // something follows the second id
	Fault    string // what is wrong, or ""
}

// ParseLine reads one line without its '\n'.
func ParseLine(b []byte) Line {
	if n := len(b); n > 0 && b[n-1] == '\r' {
		b = b[:n-1]
	}
	i := SkipBlanks(b, 0)
	if i == len(b) || b[i] == '#' || b[i] == '%' {
		return Line{}
	}
	if bytes.IndexByte(b, '\r') >= 0 {
		return Line{Fault: "a carriage return within the line; end lines with LF or CRLF"}
	}
	src, i, fault := ParseID(b, i, "source")
	if fault != "" {
		return Line{Fault: fault}
	}
	i = skipSeparator(b, i)
	if i == len(b) {
		return Line{Fault: fmt.Sprintf("one id (%d), where a line holds two", src)}
	}
	dst, i, fault := ParseID(b, i, "target")
	if fault != "" {
		return Line{Fault: fault}
	}
	return Line{edge: true, src: src, dst: dst, more: skipSeparator(b, i) < len(b)}
}

// Blank reports whether c separates fields: a space or a tab.
func Blank(c byte) bool { return c == ' ' || c == '\t' }

// SkipBlanks returns the position of the next byte that is not blank, from i on.
func SkipBlanks(b []byte, i int) int {
	for i < len(b) && Blank(b[i]) {
		i++
	}
	return i
}

func skipSeparator(b []byte, i int) int {
	i = SkipBlanks(b, i)
	if i < len(b) && b[i] == ',' {
		i = SkipBlanks(b, i+1)
	}
	return i
}

// ParseID reads the field that starts at i and returns the position after it.
func ParseID(b []byte, i int, what string) (id int64, next int, fault string) {
	next = i
	for next < len(b) && !Blank(b[next]) && b[next] != ',' {
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
			return 0, next, fmt.Sprintf("%s id %s is too large; ids are below 2^63", what, source.Clip(field))
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
	return 0, next, fmt.Sprintf("%s is no %s id; ids are integers: number the nodes first; lines that are no edges start with '#' or '%%'", source.Clip(field), what)
}

// probeText looks at the first edge of a text file and notes what else its line
// holds. The first fault is an error already here.
func probeText(path string) (notes []string, err error) {
	r, err := inflate.Open(path)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	b := bufio.NewReaderSize(io.LimitReader(r, textBuffer), 64<<10)
	if head, _ := b.Peek(len(utf8BOM)); string(head) == utf8BOM {
		if _, err := b.Discard(len(utf8BOM)); err != nil {
			return nil, source.ErrorFrom(path, "cannot be read", err)
		}
	}
	for line := int64(1); ; line++ {
		text, err := b.ReadSlice('\n')
		if err != nil && err != io.EOF {
			if err == bufio.ErrBufferFull {
				return nil, nil // the scan itself judges long lines
			}
			return nil, &source.Error{File: path, Line: line, Index: -1, Msg: "cannot be read from here on", Err: err}
		}
		l := ParseLine(bytes.TrimSuffix(text, []byte("\n")))
		switch {
		case l.Fault != "" && err == nil:
			return nil, source.ErrorAtLine(path, line, "%s", l.Fault)
		case l.more:
			return []string{fmt.Sprintf("columns after the second are not read (first seen in line %d)", line)}, nil
		case l.edge || err == io.EOF:
			return nil, nil
		}
	}
}

// Open opens a text edge list; the first fault before an edge is an error here.
func Open(_ context.Context, path string, _ source.Options) (*source.Dataset, error) {
	notes, err := probeText(path)
	if err != nil {
		return nil, err
	}
	d := source.NewDataset("snap")
	d.Edges, d.RankIDs = NewEdges(path), true
	for _, n := range notes {
		d.Note("%s: %s", path, n)
	}
	return d, nil
}
