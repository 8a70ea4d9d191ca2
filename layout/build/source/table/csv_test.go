package table_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/goagnes/goagnes/layout/build/source"
	"github.com/goagnes/goagnes/layout/build/source/formats"
	"github.com/goagnes/goagnes/layout/build/source/sourcetest"
)

func TestCSV(t *testing.T) {
	want := []sourcetest.Pair{{1, 2}, {3, 40}, {5, 6}}
	for name, c := range map[string]struct {
		in     string
		format string // what it is taken for
		notes  int
	}{
		"header":               {"src,dst\n1,2\n3,40\n5,6\n", "csv", 0},
		"semicolons, CRLF":     {"Source;Target\r\n1;2\r\n3;40\r\n5;6", "csv", 0},
		"tabs":                 {"from_id\tto_id\tw\n1\t2\t\n3\t40\t1\n5\t6\t2\n", "csv", 1},
		"other order":          {"w,dst_id,name,src_id\n.5,2,x,1\n.5,40,y,3\n.5,6,,5\n", "csv", 1},
		"quoted":               {"\"u\",\"v\",\"say \"\"w\"\"\"\n\"1\",\"2\",\"a, b\"\n 3 , \"40\" ,\"\"\n5,6,\"x\"\"y\"\n", "csv", 1},
		"quoted, no header":    {"\"1\",\"2\"\n\"3\",\"40\"\n\"5\",\"6\"\n", "csv", 0},
		"semicolons, no head":  {"1;2;0.5\n3;40;7\n5;6;\n", "csv", 1},
		"comments and blanks":  {"\xef\xbb\xbf# a table\n\nsrc,dst\n1,2\n\n% c\n3,40\n5,6\n\n\n", "csv", 0},
		"commas, no header":    {"1,2\n3,40\n5,6\n", "snap", 0},
		"long id":              {"src,dst\n00000000000000000000001,2\n3,40\n5,6\n", "csv", 0},
		"first pair is taken":  {"source,target,src,dst\n9,9,1,2\n9,9,3,40\n9,9,5,6\n", "csv", 1},
		"a header of one row ": {"src,dst\n1,2\n3,40\n5,6", "csv", 0},
	} {
		for _, in := range [][]byte{[]byte(c.in), sourcetest.Compress(t, c.in), sourcetest.ZstdBytes(t, c.in)} {
			path := sourcetest.Write(t, "edges", in)
			if format, err := formats.Detect(path); err != nil || format != c.format {
				t.Errorf("%s: taken for %q: %v", name, format, err)
			}
			d, err := formats.Open(context.Background(), path, "csv", source.Options{})
			if err != nil {
				t.Errorf("%s: %v", name, err)
				continue
			}
			if got := sourcetest.AllEdges(t, d.Edges); !slices.Equal(got, want) || len(d.Notes) != c.notes || !d.RankIDs {
				t.Errorf("%s: got %v, notes %q", name, got, d.Notes)
			}
		}
	}
	for _, in := range []string{"", "src,dst\n", "# nothing\n"} {
		d, err := formats.Open(context.Background(), sourcetest.Write(t, "edges.csv", []byte(in)), "csv", source.Options{})
		if err != nil || len(sourcetest.AllEdges(t, d.Edges)) != 0 {
			t.Errorf("%q: %v", in, err)
		}
	}
}

func TestCSVRefuses(t *testing.T) {
	const head = "src,dst,w\n0,1,x\n"
	for _, c := range []struct{ in, want string }{
		{"who,whom\n1,2\n", ":1: no two columns of ids among \"who, whom\"; rename them to one of src/dst"},
		{"src,target\n1,2\n", ":1: no two columns"},
		{"src,dst,SRC\n1,2,3\n", ":1: two columns called src or dst"},
		{"src\n1\n", `:1: one column ("src")`},
		{"\"src,dst\n", ":1: a quoted field that does not end"},
		{head + "alice,2,\n", `:3: "alice" is no source id; ids are integers: number the nodes first`},
		{head + "1,bob,\n", `:3: "bob" is no target id; ids are integers`},
		{head + "1 2,3,\n", `:3: "1 2" is no source id; ids are integers`},
		{head + "\"1,000\",3,\n", `:3: "1,000" is no source id`},
		{head + "-1,2,\n", ":3: negative source id -1"},
		{head + "1,-2,\n", ":3: negative target id -2"},
		{head + "1.0,2,\n", ":3: source id 1.0 is no integer"},
		{head + "1,nan,\n", ":3: target id nan is no integer"},
		{head + ",2,\n", ":3: the source id is missing"},
		{head + "1,,\n", ":3: the target id is missing"},
		{head + "9223372036854775808,2,\n", ":3: source id \"9223372036854775808\" is too large"},
		{head + "1,2\n", ":3: a row of 2 fields, where the first row has 3"},
		{head + "1\n", ":3: a row of 1 fields"},
		{head + "1,2,3,4\n", ":3: a row of 4 fields"},
		{head + "1,2,\"a\nb\"\n", ":3: a quoted field that does not end"},
		{head + "1,2,\"a\"b\n", `:3: "b" after a quoted field`},
		{"1;2\n3,4\n", `:2: "3,4" is no source id`},
		{head + strings.Repeat(" ", 3*source.MaxLineBytes), "more than 1048576 bytes"},
	} {
		path := sourcetest.Write(t, "edges.csv", []byte(c.in))
		d, err := formats.Open(context.Background(), path, "csv", source.Options{})
		if err == nil {
			err = d.Edges.Scan(context.Background(), func(_, _ []int64) error { return nil })
		}
		if sourcetest.Class(err) != "input" || !strings.HasPrefix(err.Error(), path+":") || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%.60q: got %v, want %q", c.in, err, c.want)
		}
	}
}
