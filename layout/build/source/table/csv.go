package table

// Edge lists as comma-separated values (RFC 4180, also with semicolons or tabs),
// with a header or without. With one, the two columns are found by name, in any
// place and case; without, they are the first two. A field may be quoted, but must
// end in its line. Every row has as many fields as the first. Lines that start with
// '#' or '%', and blank ones, are passed over.

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/goagnes/goagnes/layout/build/source"
	"github.com/goagnes/goagnes/layout/build/source/text"
)

// edgeColumns are the names of the two columns of an edge list, in tables of every
// kind; the first pair that is there is taken.
var edgeColumns = [][2]string{
	{"src", "dst"}, {"source", "target"}, {"src_id", "dst_id"}, {"source_id", "target_id"},
	{"from", "to"}, {"from_id", "to_id"}, {"u", "v"}, {"row", "col"}, {"node1", "node2"}, {"node_1", "node_2"},
}

// findEdgeColumns returns the numbers of the two columns, or what to do.
func findEdgeColumns(names []string) (columns [2]int, msg string) {
	for _, pair := range edgeColumns {
		found := [2][]int{}
		for i, n := range names {
			for k := range pair {
				if strings.EqualFold(strings.TrimSpace(n), pair[k]) {
					found[k] = append(found[k], i)
				}
			}
		}
		if len(found[0]) > 1 || len(found[1]) > 1 {
			return columns, fmt.Sprintf("two columns called %s or %s; rename the ones that are not meant", pair[0], pair[1])
		}
		if len(found[0]) == 1 && len(found[1]) == 1 {
			return [2]int{found[0][0], found[1][0]}, ""
		}
	}
	var known []string
	for _, pair := range edgeColumns {
		known = append(known, pair[0]+"/"+pair[1])
	}
	list := strings.Join(names[:min(len(names), 12)], ", ")
	return columns, fmt.Sprintf("no two columns of ids among %s; rename them to one of %s", source.Clip([]byte(list)), strings.Join(known, ", "))
}

// csvReader reads the lines of a file one after the other.
type csvReader struct {
	source.EdgeChunks
	file    string
	line    int64
	started bool // the first row was read
	sep     byte
	columns [2]int
	fields  int    // of every row
	header  bool   // the first row is one
	names   string // of the columns, for notes
	probe   bool   // stop after the first edge
}

func (c *csvReader) fault(format string, args ...any) error {
	return source.ErrorAtLine(c.file, c.line+1, format, args...)
}

func (c *csvReader) lines(b []byte) error {
	for len(b) > 0 {
		var line []byte
		line, b = text.CutLine(b)
		if i := text.SkipBlanks(line, 0); i < len(line) && line[i] != '#' && line[i] != '%' {
			if err := c.row(line); err != nil {
				return err
			}
		}
		c.line++
	}
	return nil
}

var errProbed = errors.New("table: the first edge is read")

func (c *csvReader) row(line []byte) error {
	if !c.started {
		c.started = true
		if err := c.first(line); err != nil || c.header {
			return err
		}
	}
	var ids [2]int64
	n := 0
	for at := 0; ; n++ {
		field, next, msg := csvField(line, at, c.sep)
		if msg != "" {
			return c.fault("%s", msg)
		}
		for k, what := range [2]string{"source", "target"} {
			if n == c.columns[k] {
				if ids[k], msg = csvID(field, what); msg != "" {
					return c.fault("%s", msg)
				}
			}
		}
		if next < 0 {
			break
		}
		at = next
	}
	if n++; n != c.fields {
		return c.fault("a row of %d fields, where the first row has %d", n, c.fields)
	}
	if c.probe {
		return errProbed
	}
	return c.Put(ids[0], ids[1])
}

// first learns from the first row what the rows are like.
func (c *csvReader) first(line []byte) error {
	c.sep = csvSeparator(line)
	var names []string
	for at := 0; at >= 0; {
		field, next, msg := csvField(line, at, c.sep)
		if msg != "" {
			return c.fault("%s", msg)
		}
		if names = append(names, string(field)); len(names) > 1<<16 {
			return c.fault("more than %d columns", 1<<16)
		}
		at = next
	}
	if c.fields = len(names); c.fields < 2 {
		return c.fault("one column (%s), where two hold the ids; columns are separated by commas, semicolons or tabs", source.Clip(line))
	}
	_, _, fault := text.ParseID([]byte(names[0]), 0, "source")
	if names[0] != "" && (fault == "" || strings.IndexByte("0123456789+-.", names[0][0]) >= 0) {
		c.columns = [2]int{0, 1}
		return nil
	}
	columns, msg := findEdgeColumns(names)
	if msg != "" {
		return c.fault("%s", msg)
	}
	c.header, c.columns = true, columns
	c.names = strings.TrimSpace(names[columns[0]]) + " and " + strings.TrimSpace(names[columns[1]])
	return nil
}

// csvSeparator is the most frequent of the separators outside quotes.
func csvSeparator(line []byte) byte {
	var count [3]int
	const all = ",;\t"
	quoted := false
	for _, x := range line {
		if x == '"' {
			quoted = !quoted
		} else if k := strings.IndexByte(all, x); k >= 0 && !quoted {
			count[k]++
		}
	}
	best := 0
	for k := range count {
		if count[k] > count[best] {
			best = k
		}
	}
	return all[best]
}

// csvField reads the field that starts at at; next is the start of the one after
// it, -1 after the last.
func csvField(line []byte, at int, sep byte) (field []byte, next int, msg string) {
	start := at
	for start < len(line) && text.Blank(line[start]) && line[start] != sep {
		start++
	}
	if start == len(line) || line[start] != '"' {
		end := bytes.IndexByte(line[at:], sep)
		if end < 0 {
			return bytes.Trim(line[at:], " \t"), -1, ""
		}
		return bytes.Trim(line[at:at+end], " \t"), at + end + 1, ""
	}
	start++
	i, escaped := start, false
	for ; ; i++ {
		if i >= len(line) {
			return nil, 0, "a quoted field that does not end in its line"
		}
		if line[i] != '"' {
			continue
		}
		if i+1 < len(line) && line[i+1] == '"' {
			escaped = true
			i++
			continue
		}
		break
	}
	field = line[start:i]
	if escaped {
		field = bytes.ReplaceAll(field, []byte(`""`), []byte(`"`))
	}
	for i++; i < len(line) && text.Blank(line[i]) && line[i] != sep; i++ {
	}
	switch {
	case i == len(line):
		return field, -1, ""
	case line[i] != sep:
		return nil, 0, fmt.Sprintf("%s after a quoted field", source.Clip(line[i:]))
	}
	return field, i + 1, ""
}

// csvID reads an id.
func csvID(field []byte, what string) (int64, string) {
	if len(field) > 0 && len(field) <= text.FastDigits {
		v, plain := int64(0), true
		for _, x := range field {
			d := x - '0'
			plain = plain && d <= 9
			v = v*10 + int64(d)
		}
		if plain {
			return v, ""
		}
	}
	id, next, msg := text.ParseID(field, 0, what)
	if msg == "" && next < len(field) {
		msg = fmt.Sprintf("%s is no %s id; ids are", source.Clip(field), what)
	}
	if before, _, text := strings.Cut(msg, "; ids are"); text {
		msg = before + "; ids are integers: number the nodes first, as pandas.factorize does"
	}
	return id, msg
}

// LooksLikeCSV tells a table from a plain edge list by the start of its text.
func LooksLikeCSV(head []byte) bool {
	head = text.TrimBOM(head, true)
	for len(head) > 0 {
		line := head
		if i := bytes.IndexByte(head, '\n'); i >= 0 {
			line, head = text.CutLine(head)
		} else {
			head = nil
		}
		if i := text.SkipBlanks(line, 0); i == len(line) || line[i] == '#' || line[i] == '%' {
			continue
		}
		first, _, _ := csvField(line, 0, csvSeparator(line))
		if len(first) == 0 || strings.IndexByte("+-.", first[0]) >= 0 || text.ParseLine(line).Fault == "" {
			return false
		}
		return bytes.ContainsAny(line, ",;\t")
	}
	return false
}

type csvEdges struct{ path string }

func (e *csvEdges) Name() string         { return e.path }
func (e *csvEdges) Count() (int64, bool) { return 0, false }

func (e *csvEdges) Scan(ctx context.Context, f func(src, dst []int64) error) error {
	c := &csvReader{EdgeChunks: source.NewEdgeChunks(ctx, f), file: e.path}
	if err := text.ScanLines(ctx, e.path, &c.line, c.lines); err != nil {
		return err
	}
	return c.Flush()
}

// OpenCSV opens a table of edges as text.
func OpenCSV(ctx context.Context, path string, _ source.Options) (*source.Dataset, error) {
	c := &csvReader{file: path, probe: true}
	if err := text.ScanLines(ctx, path, &c.line, c.lines); err != nil && !errors.Is(err, errProbed) {
		return nil, err
	}
	d := source.NewDataset("csv")
	d.Edges, d.RankIDs = &csvEdges{path}, true
	if c.fields > 2 {
		which := c.names
		if !c.header {
			which = "the first two"
		}
		d.Note("%s: of %d columns %s are read; the others are not kept", path, c.fields, which)
	}
	return d, nil
}
