package text

// Matrix Market files (Boisvert, Pozo and Remington, NIST IR 5935) as adjacency
// matrices: entry (i, j) is the edge i-1 → j-1.
//
// Both forms are read, coordinate and square array, with values that are pattern,
// integer or real, and the symmetries general, symmetric and skew-symmetric. An
// entry of the latter two stands for its mirror image too, whichever triangle it
// is stored in: the mirrored edge follows directly after the entry's own, so that
// the edges of an entry have neighbouring ids; an entry of the diagonal gives one
// edge. Explicit zeros of the coordinate form are entries, zeros of the array form
// are not. Entries that repeat are parallel edges.
//
// A second line "%%GraphBLAS type T" (LAGraph) says what the values are: one out
// of T's range is an error, and so is a skew-symmetric matrix of an unsigned or
// bool type. Values are checked and then dropped. Lines that start with '%', and
// blank ones, are passed over anywhere.

import (
	"bytes"
	"context"
	"errors"
	"math"
	"strconv"
	"strings"

	"github.com/goagnes/goagnes/layout/build/source"
)

// mtxHeader is what the lines before the first entry say.
type mtxHeader struct {
	array     bool // dense, else coordinate
	pattern   bool // no values
	mirrored  bool
	skew      bool
	typ       string // of values; one of the keys of mtxTypes
	nodes     int64
	entries   int64 // lines of entries that follow
	hasBanner bool
}

// mtxTypes are the ranges of the integer types of LAGraph; others have none.
var mtxTypes = map[string]struct {
	low  int64
	high uint64
}{
	"bool": {0, 1}, "int8_t": {math.MinInt8, math.MaxInt8}, "int16_t": {math.MinInt16, math.MaxInt16},
	"int32_t": {math.MinInt32, math.MaxInt32}, "int64_t": {math.MinInt64, math.MaxInt64},
	"uint8_t": {0, math.MaxUint8}, "uint16_t": {0, math.MaxUint16}, "uint32_t": {0, math.MaxUint32},
	"uint64_t": {0, math.MaxUint64}, "float": {}, "double": {},
}

func (h *mtxHeader) real() bool { return h.typ == "float" || h.typ == "double" }

// mtxReader reads the lines of a file one after the other.
type mtxReader struct {
	source.EdgeChunks
	file string
	line int64 // lines finished
	h    mtxHeader
	// size says that the size line was read, so that entries follow.
	size bool
	seen int64 // entries read
	// row and column of the next value of an array, from 0.
	row, column int64
	headerOnly  bool
}

var errHeaderRead = errors.New("text: the header is read")

const mtxBanner = "%%matrixmarket"

// IsMatrixMarket tells a Matrix Market file by its first bytes.
func IsMatrixMarket(head []byte) bool {
	head = bytes.TrimPrefix(head, []byte(utf8BOM))
	return len(head) >= len(mtxBanner) && strings.EqualFold(string(head[:len(mtxBanner)]), mtxBanner)
}

func (m *mtxReader) fault(format string, args ...any) error {
	return source.ErrorAtLine(m.file, m.line+1, format, args...)
}

func (m *mtxReader) lines(b []byte) error {
	for len(b) > 0 {
		if m.size && !m.h.array {
			return m.coordinates(b)
		}
		var line []byte
		line, b = CutLine(b)
		if err := m.oneLine(line); err != nil {
			return err
		}
		m.line++
	}
	return nil
}

// oneLine reads a line of the header, or a value of an array.
func (m *mtxReader) oneLine(line []byte) error {
	if m.line == 0 && IsMatrixMarket(line) {
		return m.banner(strings.Fields(string(line)))
	}
	if m.line == 1 && m.h.hasBanner {
		if f := strings.Fields(string(line)); len(f) > 1 && f[0] == "%%GraphBLAS" && f[1] == "type" {
			return m.graphBLAS(strings.Join(f[2:], " "))
		}
	}
	line = bytes.Trim(line, " \t")
	if len(line) == 0 || line[0] == '%' {
		return nil
	}
	if !m.size {
		return m.sizeLine(strings.Fields(clipped(line)))
	}
	return m.value(line)
}

// clipped bounds a line of a header, whose good ones are short.
func clipped(line []byte) string { return string(line[:min(len(line), 1024)]) }

func (m *mtxReader) banner(f []string) error {
	m.h.hasBanner = true
	for i := range f {
		f[i] = strings.ToLower(f[i])
	}
	if len(f) != 5 {
		return m.fault("a first line of %d words; it is %%%%MatrixMarket matrix FORM VALUES SYMMETRY", len(f))
	}
	if f[1] != "matrix" {
		return m.fault("the object %q; only a matrix is read", f[1])
	}
	switch f[2] {
	case "coordinate":
	case "array":
		m.h.array = true
	default:
		return m.fault("the form %q; it is coordinate or array", f[2])
	}
	switch f[3] {
	case "pattern":
		m.h.pattern, m.h.typ = true, "bool"
	case "integer":
		m.h.typ = "int64_t"
	case "real":
		m.h.typ = "double"
	case "complex":
		return m.fault("complex values are not read; save the matrix with real values, or its pattern")
	default:
		return m.fault("values of kind %q; they are pattern, integer or real", f[3])
	}
	switch f[4] {
	case "general":
	case "symmetric":
		m.h.mirrored = true
	case "skew-symmetric":
		m.h.mirrored, m.h.skew = true, true
	case "hermitian":
		return m.fault("a hermitian matrix is not read; save it as symmetric, or general, with real values")
	default:
		return m.fault("the symmetry %q; it is general, symmetric or skew-symmetric", f[4])
	}
	if m.h.array && m.h.pattern {
		return m.fault("an array has values; a pattern is of the form coordinate")
	}
	if m.h.skew && m.h.pattern {
		return m.fault("a skew-symmetric matrix has values; a pattern is general or symmetric")
	}
	return nil
}

func (m *mtxReader) graphBLAS(typ string) error {
	if strings.HasSuffix(typ, " complex") {
		return m.fault("values of type %s are not read; save the matrix with real values, or its pattern", typ)
	}
	if _, ok := mtxTypes[typ]; !ok {
		return m.fault("the type %q; it is bool, int8_t to int64_t, uint8_t to uint64_t, float or double", typ)
	}
	if m.h.skew && (typ == "bool" || typ[0] == 'u') {
		return m.fault("a skew-symmetric matrix of type %s, which has no negative values", typ)
	}
	m.h.typ = typ
	return nil
}

func (m *mtxReader) sizeLine(f []string) error {
	if !m.h.hasBanner { // LAGraph's reading of files without one
		m.h.typ, m.h.array = "double", len(f) == 2
	}
	due := []string{"rows", "columns", "entries"}
	if m.h.array {
		due = due[:2]
	}
	if len(f) != len(due) {
		return m.fault("%d numbers, where the size is due: %s", len(f), strings.Join(due, ", "))
	}
	var n [3]int64
	for i, text := range f {
		v, err := strconv.ParseInt(text, 10, 64)
		if err != nil || v < 0 || text[0] == '+' {
			return m.fault("%s is no number of %s", source.Clip([]byte(text)), due[i])
		}
		n[i] = v
	}
	if n[0] != n[1] {
		return m.fault("a rectangular matrix of %d rows and %d columns is no graph on one set of nodes; only square ones are read", n[0], n[1])
	}
	m.h.nodes, m.h.entries = n[0], n[2]
	if m.h.array {
		if n[0] > math.MaxUint32>>1 {
			return m.fault("an array of %d rows and columns; at most %d are read", n[0], int64(math.MaxUint32>>1))
		}
		switch m.h.entries = n[0] * n[0]; {
		case m.h.skew:
			m.h.entries = n[0] * (n[0] - 1) / 2
			m.row = 1
		case m.h.mirrored:
			m.h.entries = n[0] * (n[0] + 1) / 2
		}
	}
	m.size = true
	if m.headerOnly {
		return errHeaderRead
	}
	return nil
}

// value reads a value of an array: column after column, each from the diagonal on
// where the matrix is mirrored.
func (m *mtxReader) value(token []byte) error {
	if m.seen == m.h.entries {
		return m.fault("a value after all %d", m.h.entries)
	}
	if bytes.ContainsAny(token, " \t") {
		return m.fault("more than one value in a line of an array")
	}
	zero, msg := m.check(token)
	if msg != "" {
		return m.fault("%s", msg)
	}
	m.seen++
	i, j := m.row, m.column
	if m.row++; m.row == m.h.nodes {
		m.column++
		m.row = 0
		if m.h.mirrored {
			m.row = m.column
		}
		if m.h.skew {
			m.row++
		}
	}
	if zero {
		return nil
	}
	return m.edge(i, j)
}

func (m *mtxReader) edge(i, j int64) error {
	if err := m.Put(i, j); err != nil {
		return err
	}
	if m.h.mirrored && i != j {
		return m.Put(j, i)
	}
	return nil
}

// coordinates reads lines of entries.
func (m *mtxReader) coordinates(b []byte) error {
	for len(b) > 0 {
		at := SkipBlanks(b, 0)
		if c := b[at]; c == '%' || c == '\n' || c == '\r' && b[at+1] == '\n' {
			b = b[at+bytes.IndexByte(b[at:], '\n')+1:]
			m.line++
			continue
		}
		i, next := number(b, at)
		if next == at || !Blank(b[next]) {
			return m.badIndex(b[at:], "row")
		}
		at = SkipBlanks(b, next)
		j, next := number(b, at)
		if c := b[next]; next == at || !Blank(c) && c != '\n' && c != '\r' {
			return m.badIndex(b[at:], "column")
		}
		end := next + bytes.IndexByte(b[next:], '\n')
		if err := m.entry(i, j, bytes.Trim(bytes.TrimSuffix(b[next:end], []byte("\r")), " \t")); err != nil {
			return err
		}
		m.line++
		b = b[end+1:]
	}
	return nil
}

// number reads the decimal digits of b from at on; math.MaxInt64 stands for what
// is larger.
func number(b []byte, at int) (n int64, next int) {
	v := uint64(0)
	for ; at < len(b) && b[at]-'0' <= 9; at++ {
		v = min(v, 1<<60) // ten times that is beyond MaxInt64, and stays so
		v = v*10 + uint64(b[at]-'0')
	}
	return int64(min(v, math.MaxInt64)), at
}

// badIndex words the fault of the field that starts b.
func (m *mtxReader) badIndex(b []byte, what string) error {
	field := b[:bytes.IndexAny(b, " \t\r\n")]
	if len(field) == 0 {
		return m.fault("a line that ends before its %s number", what)
	}
	if what == "row" && len(bytes.Trim(field, "0123456789")) == 0 {
		return m.fault("a line of one number (%s), where an entry has a row and a column", source.Clip(field))
	}
	return m.fault("%s is no %s number", source.Clip(field), what)
}

// entry judges an entry, counted from 1, and what follows its indices.
func (m *mtxReader) entry(i, j int64, token []byte) error {
	if m.seen == m.h.entries {
		return m.fault("an entry after all %d that the size line promises", m.h.entries)
	}
	if i < 1 || i > m.h.nodes || j < 1 || j > m.h.nodes {
		return m.fault("entry (%d, %d) of a matrix of %d rows and columns; both count from 1", i, j, m.h.nodes)
	}
	switch {
	case m.h.pattern:
		if len(token) > 0 {
			return m.fault("%s after an entry of a pattern, which has no values", source.Clip(token))
		}
	case len(token) == 0:
		return m.fault("entry (%d, %d) lacks its value", i, j)
	default:
		if _, msg := m.check(token); msg != "" {
			return m.fault("%s", msg)
		}
	}
	if m.h.skew && i == j {
		return m.fault("entry (%d, %d) of the diagonal; a skew-symmetric matrix has none", i, j)
	}
	m.seen++
	return m.edge(i-1, j-1)
}

// check judges a value and tells whether it is zero.
func (m *mtxReader) check(token []byte) (zero bool, msg string) {
	// Most values are short decimals.
	digits, dots, other, nonzero := 0, 0, 0, false
	for k, c := range token {
		switch {
		case c >= '0' && c <= '9':
			digits++
			nonzero = nonzero || c != '0'
		case c == '.':
			dots++
		case c == '-' && k == 0:
		default:
			other++
		}
	}
	plain := digits > 0 && dots <= 1 && other == 0
	if m.h.real() {
		if plain {
			return !nonzero, ""
		}
		if len(token) > 400 || bytes.IndexByte(token, '_') >= 0 {
			return false, source.Clip(token) + " is no value"
		}
		v, err := strconv.ParseFloat(string(token), 64)
		if err != nil && !errors.Is(err, strconv.ErrRange) {
			return false, source.Clip(token) + " is no value"
		}
		return v == 0, ""
	}
	if !plain {
		return false, source.Clip(token) + " is no value of type " + m.h.typ
	}
	whole := token
	if k := bytes.IndexByte(token, '.'); k >= 0 { // 3.0 is an integer
		if len(bytes.Trim(token[k+1:], "0")) > 0 {
			return false, source.Clip(token) + " is no value of type " + m.h.typ
		}
		whole = token[:k]
	}
	limits := mtxTypes[m.h.typ]
	negative := len(whole) > 0 && whole[0] == '-'
	text := bytes.TrimLeft(bytes.TrimPrefix(whole, []byte("-")), "0")
	v, err := uint64(0), error(nil)
	if len(text) > 20 {
		err = strconv.ErrRange
	} else if len(text) > 0 {
		v, err = strconv.ParseUint(string(text), 10, 64)
	}
	if err != nil || negative && v > -uint64(limits.low) || !negative && v > limits.high {
		return false, source.Clip(token) + " is outside the range of type " + m.h.typ
	}
	return v == 0, ""
}

// mtxEdges are the edges of a Matrix Market file.
type mtxEdges struct {
	path string
	h    mtxHeader
}

func (e *mtxEdges) Name() string { return e.path }

func (e *mtxEdges) Count() (int64, bool) {
	return e.h.entries, !e.h.array && !e.h.mirrored
}

func (e *mtxEdges) Scan(ctx context.Context, f func(src, dst []int64) error) error {
	m := &mtxReader{EdgeChunks: source.NewEdgeChunks(ctx, f), file: e.path}
	if err := ScanLines(ctx, e.path, &m.line, m.lines); err != nil {
		return err
	}
	if m.h != e.h {
		return source.Errorf(e.path, "the file changed while it was being read; leave inputs alone during a build")
	}
	if m.seen != m.h.entries {
		return m.fault("the file ends after %d of %d entries", m.seen, m.h.entries)
	}
	return m.Flush()
}

// OpenMatrixMarket opens a Matrix Market file.
func OpenMatrixMarket(ctx context.Context, path string, _ source.Options) (*source.Dataset, error) {
	m := &mtxReader{file: path, headerOnly: true}
	err := ScanLines(ctx, path, &m.line, m.lines)
	if err == nil {
		err = m.fault("the file ends before the line of its size")
	}
	if !errors.Is(err, errHeaderRead) {
		return nil, err
	}
	d := source.NewDataset("mtx")
	d.Edges, d.NumNodes = &mtxEdges{path, m.h}, m.h.nodes
	if !m.h.hasBanner {
		d.Note("%s: no line %%%%MatrixMarket; read as a general matrix with real values", path)
	}
	if m.h.array {
		d.Note("%s: the %d values of the array are not kept; those that are zero are no edges", path, m.h.entries)
	} else if !m.h.pattern {
		d.Note("%s: the %d values of the entries are not kept; an entry is an edge, whatever its value", path, m.h.entries)
	}
	if m.h.mirrored {
		d.Note("%s: each entry beside the diagonal is two edges, one a direction", path)
	}
	return d, nil
}
