package text_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/goagnes/goagnes/layout/build/source"
	"github.com/goagnes/goagnes/layout/build/source/formats"
	"github.com/goagnes/goagnes/layout/build/source/sourcetest"
)

// mtxCorpus is what every file of the corpus must give: counts of nodes and edges,
// both found by a separate script in Python, or the place and fault.
var mtxCorpus = []struct {
	name         string
	nodes, edges int64
	fault        string
}{
	{"A.mtx", 7, 30, ""},
	{"A2.mtx", 7, 30, ""},
	{"LFAT5.mtx", 14, 46, ""},
	{"LFAT5_hypersparse.mtx", 2000, 46, ""},
	{"LFAT5_two.mtx", 28, 92, ""},
	{"bcsstk13.mtx.gz", 2003, 83883, ""},
	{"comments_cover.mtx", 7, 12, ""},
	{"comments_full.mtx", 3, 9, ""},
	{"comments_west0067.mtx", 67, 295, ""},
	{"complex.mtx", 0, 0, "complex"},
	{"cover.mtx", 7, 12, ""},
	{"cover_structure.mtx", 7, 12, ""},
	{"cryg2500.mtx", 2500, 12349, ""},
	{"empty.mtx", 0, 0, "rectangular"},
	{"full.mtx", 3, 9, ""},
	{"full_noheader.mtx", 3, 9, ""},
	{"full_symmetric.mtx", 4, 16, ""},
	{"jagmesh7.mtx", 1138, 7450, ""},
	{"karate.mtx", 34, 156, ""},
	{"ldbc-cdlp-directed-example.mtx", 8, 18, ""},
	{"ldbc-cdlp-undirected-example.mtx", 8, 24, ""},
	{"ldbc-directed-example-bool.mtx", 10, 17, ""},
	{"ldbc-directed-example-unweighted.mtx", 10, 17, ""},
	{"ldbc-directed-example.mtx", 10, 17, ""},
	{"ldbc-undirected-example-bool.mtx", 9, 24, ""},
	{"ldbc-undirected-example-unweighted.mtx", 9, 24, ""},
	{"ldbc-undirected-example.mtx", 9, 24, ""},
	{"ldbc-wcc-example.mtx", 10, 30, ""},
	{"lp_afiro.mtx", 0, 0, "rectangular"},
	{"lp_afiro_structure.mtx", 0, 0, "rectangular"},
	{"mangled1.mtx", 0, 0, `:1: the object "mangled"`},
	{"mangled10.mtx", 0, 0, `:4: a rectangular matrix of 3 rows and 4 columns is no graph on one set of nodes`},
	{"mangled11.mtx", 0, 0, `:4: a rectangular matrix of 3 rows and 4 columns is no graph on one set of nodes`},
	{"mangled12.mtx", 0, 0, `:4: a rectangular matrix of 3 rows and 4 columns is no graph on one set of nodes`},
	{"mangled13.mtx", 0, 0, `:4: a rectangular matrix of 3 rows and 4 columns is no graph on one set of nodes`},
	{"mangled14.mtx", 0, 0, `:5: a rectangular matrix of 3 rows and 4 columns is no graph on one set of nodes`},
	{"mangled15.mtx", 0, 0, `:2: values of type float complex are not read`},
	{"mangled16.mtx", 0, 0, `:2: values of type double complex are not read`},
	{"mangled2.mtx", 0, 0, `:1: the form "mangled"`},
	{"mangled3.mtx", 0, 0, `:1: values of kind "mangled"`},
	{"mangled4.mtx", 0, 0, `:1: the symmetry "mangled"`},
	{"mangled5.mtx", 0, 0, `:1: a hermitian matrix is not read`},
	{"mangled6.mtx", 0, 0, `:1: a hermitian matrix is not read`},
	{"mangled7.mtx", 0, 0, `:2: the type "gunk"`},
	{"mangled8.mtx", 0, 0, `:4: 1 numbers, where the size is due: rows, columns, entries`},
	{"mangled9.mtx", 0, 0, `:4: a rectangular matrix of 3 rows and 4 columns is no graph on one set of nodes`},
	{"mangled_bool.mtx", 0, 0, `:10: "2" is outside the range of type bool`},
	{"mangled_format.mtx", 0, 0, `:1: an array has values`},
	{"mangled_int16.mtx", 0, 0, `:8: "-32769" is outside the range of type int16_t`},
	{"mangled_int32.mtx", 0, 0, `:8: "-2147483649" is outside the range of type int32_t`},
	{"mangled_int8.mtx", 0, 0, `:8: "-129" is outside the range of type int8_t`},
	{"mangled_skew.mtx", 0, 0, `:2: a skew-symmetric matrix of type uint8_t, which has no negative values`},
	{"mangled_uint16.mtx", 0, 0, `:9: "65536" is outside the range of type uint16_t`},
	{"mangled_uint32.mtx", 0, 0, `:9: "4294967296" is outside the range of type uint32_t`},
	{"mangled_uint8.mtx", 0, 0, `:9: "256" is outside the range of type uint8_t`},
	{"matrix_bool.mtx", 7, 12, ""},
	{"matrix_fp32.mtx", 7, 12, ""},
	{"matrix_fp32_structure.mtx", 7, 12, ""},
	{"matrix_fp64.mtx", 7, 12, ""},
	{"matrix_int16.mtx", 7, 12, ""},
	{"matrix_int32.mtx", 7, 12, ""},
	{"matrix_int64.mtx", 7, 12, ""},
	{"matrix_int8.mtx", 7, 12, ""},
	{"matrix_uint16.mtx", 7, 12, ""},
	{"matrix_uint32.mtx", 7, 12, ""},
	{"matrix_uint64.mtx", 7, 12, ""},
	{"matrix_uint8.mtx", 7, 12, ""},
	{"msf1.mtx", 6, 8, ""},
	{"msf2.mtx", 8, 12, ""},
	{"msf3.mtx", 5, 7, ""},
	{"olm1000.mtx", 1000, 3996, ""},
	{"pushpull.mtx.gz", 4000, 196305, ""},
	{"sample.mtx", 8, 12, ""},
	{"sample2.mtx", 8, 28, ""},
	{"skew_fp32.mtx", 6, 20, ""},
	{"skew_fp64.mtx", 6, 20, ""},
	{"skew_int16.mtx", 6, 20, ""},
	{"skew_int32.mtx", 6, 20, ""},
	{"skew_int64.mtx", 6, 20, ""},
	{"skew_int8.mtx", 6, 20, ""},
	{"sources_7.mtx", 0, 0, "rectangular"},
	{"structure.mtx", 7, 12, ""},
	{"test_BF.mtx", 7, 12, ""},
	{"test_FW_1000.mtx", 1000, 3996, ""},
	{"test_FW_2003.mtx", 2003, 23973, ""},
	{"test_FW_2500.mtx", 2500, 7852, ""},
	{"tree-example.mtx", 6, 10, ""},
	{"west0067.mtx", 67, 294, ""},
	{"west0067_jumbled.mtx", 67, 294, ""},
	{"west0067_noheader.mtx", 67, 294, ""},
	{"zenios.mtx", 2873, 27191, ""},
}

func TestMatrixMarketCorpus(t *testing.T) {
	dir := sourcetest.Corpus(t, "mtx")
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var there, listed []string
	for _, e := range entries {
		if strings.Contains(e.Name(), ".mtx") {
			there = append(there, e.Name())
		}
	}
	refused := 0
	for _, c := range mtxCorpus {
		listed = append(listed, c.name)
		if strings.HasPrefix(c.name, "mangled") && c.fault != "" {
			refused++
		}
		t.Run(c.name, func(t *testing.T) {
			path := filepath.Join(dir, c.name)
			format := "auto"
			if strings.Contains(c.name, "noheader") {
				if _, err := formats.Detect(path); sourcetest.Class(err) != "input" || !strings.Contains(err.Error(), "mtx or snap") {
					t.Errorf("detected: %v", err)
				}
				format = "mtx"
			}
			d, err := formats.Open(context.Background(), path, format, source.Options{})
			if err == nil && c.fault != "" {
				err = d.Edges.Scan(context.Background(), func(_, _ []int64) error { return nil })
			}
			if c.fault != "" {
				if sourcetest.Class(err) != "input" || !strings.HasPrefix(err.Error(), path+":") || !strings.Contains(err.Error(), c.fault) {
					t.Errorf("got %v, want %q", err, c.fault)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if n := int64(len(sourcetest.AllEdges(t, d.Edges))); d.Format != "mtx" || d.RankIDs || d.NumNodes != c.nodes || n != c.edges {
				t.Errorf("%s, ranked %v, %d nodes, %d edges; want %d and %d", d.Format, d.RankIDs, d.NumNodes, n, c.nodes, c.edges)
			}
			if n, ok := d.Edges.Count(); ok && n != c.edges {
				t.Errorf("Count gives %d", n)
			}
		})
	}
	if slices.Sort(listed); !slices.Equal(listed, there) || refused != 25 {
		t.Errorf("%d files listed, %d there, %d mangled ones refused", len(listed), len(there), refused)
	}
}

// mtx opens and scans a file.
func mtx(t *testing.T, content string) ([]sourcetest.Pair, *source.Dataset, error) {
	t.Helper()
	d, err := formats.Open(context.Background(), sourcetest.Write(t, "g", []byte(content)), "mtx", source.Options{})
	if err != nil {
		return nil, nil, err
	}
	got, err := sourcetest.ScanEdges(d.Edges)
	return got, d, err
}

func TestMatrixMarket(t *testing.T) {
	const head = "%%MatrixMarket matrix "
	for name, c := range map[string]struct {
		in   string
		want []sourcetest.Pair
	}{
		"general":            {head + "coordinate pattern general\n3 3 3\n3 1\n1 2\n1 2\n", []sourcetest.Pair{{2, 0}, {0, 1}, {0, 1}}},
		"symmetric":          {head + "coordinate real symmetric\n3 3 3\n2 1 1.5\n3 3 nan\n3 1 -1e-7\n", []sourcetest.Pair{{1, 0}, {0, 1}, {2, 2}, {2, 0}, {0, 2}}},
		"upper triangle":     {head + "coordinate pattern symmetric\n3 3 1\n1 3\n", []sourcetest.Pair{{0, 2}, {2, 0}}},
		"skew":               {head + "coordinate integer skew-symmetric\n3 3 1\n3 2 -7\n", []sourcetest.Pair{{2, 1}, {1, 2}}},
		"explicit zeros":     {head + "coordinate integer general\n2 2 2\n1 1 0\n2 1 0\n", []sourcetest.Pair{{0, 0}, {1, 0}}},
		"blanks, CRLF":       {head + "coordinate integer general\r\n\r\n 2\t2 2 \r\n% note\r\n  1\t 1  5 \r\n\r\n2 1 0\r\n%%\r\n\n", []sourcetest.Pair{{0, 0}, {1, 0}}},
		"no last newline":    {head + "coordinate pattern general\n2 2 1\n2 1", []sourcetest.Pair{{1, 0}}},
		"upper case":         {"%%matrixmarket MATRIX Coordinate PATTERN General\n2 2 1\n2 1\n", []sourcetest.Pair{{1, 0}}},
		"byte order mark":    {"\xef\xbb\xbf" + head + "coordinate pattern general\n2 2 1\n2 1\n", []sourcetest.Pair{{1, 0}}},
		"array":              {head + "array real general\n2 2\n0\n.5\n0.0\n-1\n", []sourcetest.Pair{{1, 0}, {1, 1}}},
		"array symmetric":    {head + "array integer symmetric\n3 3\n1\n2\n0\n0\n3\n0\n", []sourcetest.Pair{{0, 0}, {1, 0}, {0, 1}, {2, 1}, {1, 2}}},
		"array skew":         {head + "array real skew-symmetric\n3 3\n1\n0e9\n-2\n", []sourcetest.Pair{{1, 0}, {0, 1}, {2, 1}, {1, 2}}},
		"array of one, skew": {head + "array real skew-symmetric\n1 1\n", nil},
		"no entries":         {head + "coordinate real general\n5 5 0\n", nil},
		"typed":              {head + "coordinate real general\n%%GraphBLAS type int8_t\n2 2 2\n1 1 -128\n1 2 127.00\n", []sourcetest.Pair{{0, 0}, {0, 1}}},
		"other %% lines":     {head + "coordinate integer general\n%%GraphBLAS comment\n%%GraphBLAS type bool\n1 1 1\n1 1 7\n", []sourcetest.Pair{{0, 0}}},
		"uint64":             {head + "coordinate integer general\n%%GraphBLAS type uint64_t\n1 1 1\n1 1 18446744073709551615\n", []sourcetest.Pair{{0, 0}}},
		"int64":              {head + "coordinate integer general\n1 1 1\n1 1 -9223372036854775808\n", []sourcetest.Pair{{0, 0}}},
		"leading zeros":      {head + "coordinate pattern general\n2 2 1\n0000000000000000000000002 01\n", []sourcetest.Pair{{1, 0}}},
		"no first line":      {"% c\n2 2 1\n2 1 .5\n", []sourcetest.Pair{{1, 0}}},
		"array, no first":    {"1 1\n.5\n", []sourcetest.Pair{{0, 0}}},
	} {
		got, _, err := mtx(t, c.in)
		if err != nil || !slices.Equal(got, c.want) {
			t.Errorf("%s: got %v, %v; want %v", name, got, err, c.want)
		}
	}
}

func TestMatrixMarketRefuses(t *testing.T) {
	const head = "%%MatrixMarket matrix "
	general := func(kind, entries string) string {
		return head + "coordinate " + kind + " general\n3 3 2\n1 1 1\n" + entries
	}
	for _, c := range []struct{ in, want string }{
		{"", ":1: the file ends before the line of its size"},
		{"%%MatrixMarket matrix coordinate real\n", ":1: a first line of 4 words"},
		{"%%MatrixMarket vector coordinate real general\n", `:1: the object "vector"`},
		{head + "elemental real general\n", `:1: the form "elemental"`},
		{head + "coordinate quaternion general\n", `:1: values of kind "quaternion"`},
		{head + "coordinate complex general\n", ":1: complex values"},
		{head + "coordinate real hermitian\n", ":1: a hermitian matrix"},
		{head + "coordinate real lower\n", `:1: the symmetry "lower"`},
		{head + "array pattern general\n", ":1: an array has values"},
		{head + "coordinate pattern skew-symmetric\n", ":1: a skew-symmetric matrix has values"},
		{head + "coordinate real general\n%%GraphBLAS type int128_t\n", `:2: the type "int128_t"`},
		{head + "coordinate real general\n%%GraphBLAS type\n", `:2: the type ""`},
		{head + "coordinate real general\n%%GraphBLAS type float complex\n", ":2: values of type float complex"},
		{head + "coordinate real skew-symmetric\n%%GraphBLAS type bool\n", ":2: a skew-symmetric matrix of type bool"},
		{head + "coordinate real skew-symmetric\n%%GraphBLAS type uint8_t\n", ":2: a skew-symmetric matrix of type uint8_t"},
		{head + "coordinate real general\n3 3\n", ":2: 2 numbers"},
		{head + "array real general\n3 3 3\n", ":2: 3 numbers"},
		{head + "coordinate real general\n-3 3 3\n", `:2: "-3" is no number of rows`},
		{head + "coordinate real general\n3 3.0 3\n", `:2: "3.0" is no number of columns`},
		{head + "coordinate real general\n3 3 99999999999999999999\n", "is no number of entries"},
		{head + "coordinate real general\n3 4 1\n", ":2: a rectangular matrix of 3 rows and 4 columns"},
		{head + "array real general\n9000000000 9000000000\n", ":2: an array of 9000000000"},
		{general("real", ""), ":4: the file ends after 1 of 2"},
		{general("real", "1 2 3\n2 1 3\n"), ":5: an entry after all 2"},
		{general("real", "0 1 3\n"), ":4: entry (0, 1)"},
		{general("real", "1 4 3\n"), ":4: entry (1, 4)"},
		{general("real", "99999999999999999999 1 3\n"), ":4: entry (9223372036854775807, 1)"},
		{general("real", "-1 1 3\n"), `:4: "-1" is no row number`},
		{general("real", "1.0 1 3\n"), `:4: "1.0" is no row number`},
		{general("real", "1 1e0 3\n"), `:4: "1e0" is no column number`},
		{general("real", "1 x 3\n"), `:4: "x" is no column number`},
		{general("real", "1\n"), `:4: a line of one number ("1")`},
		{general("real", "1 \n"), ":4: a line that ends before its column number"},
		{general("real", "1 \r\n"), ":4: a line that ends before its column number"},
		{general("real", "1 2\n"), ":4: entry (1, 2) lacks its value"},
		{general("real", "1 2 3 4\n"), `:4: "3 4" is no value`},
		{general("real", "1 2 0x1p3_0\n"), "is no value"},
		{general("real", "1 2 three\n"), `:4: "three" is no value`},
		{general("integer", "1 2 1.5\n"), `:4: "1.5" is no value of type int64_t`},
		{general("integer", "1 2 1e3\n"), "is no value of type int64_t"},
		{general("integer", "1 2 9223372036854775808\n"), "outside the range of type int64_t"},
		{general("integer", "1 2 -9223372036854775809\n"), "outside the range of type int64_t"},
		{general("integer", "1 2 999999999999999999999999\n"), "outside the range of type int64_t"},
		{head + "coordinate pattern general\n3 3 2\n1 1\n2 1 5\n", `:4: "5" after an entry of a pattern`},
		{head + "coordinate real skew-symmetric\n3 3 1\n2 2 5\n", ":3: entry (2, 2) of the diagonal"},
		{head + "array real general\n1 1\n1 2\n", ":3: more than one value"},
		{head + "array real general\n1 1\n1\n2\n", ":4: a value after all 1"},
		{head + "array real general\n1 1\n", ":3: the file ends after 0 of 1"},
		{head + "array real general\n1 1\nx\n", `:3: "x" is no value`},
		{head + "coordinate real general\n" + strings.Repeat(" ", 3*source.MaxLineBytes), "more than 1048576 bytes"},
	} {
		_, _, err := mtx(t, c.in)
		if sourcetest.Class(err) != "input" || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%.60q: got %v, want %q", c.in, err, c.want)
		}
	}
	for typ, limits := range map[string][2]string{
		"bool": {"-1", "2"}, "int8_t": {"-129", "128"}, "int16_t": {"-32769", "32768"}, "int32_t": {"-2147483649", "2147483648"},
		"uint8_t": {"-1", "256"}, "uint16_t": {"-1", "65536"}, "uint32_t": {"-1", "4294967296"}, "uint64_t": {"-1", "18446744073709551616"},
	} {
		for _, v := range limits {
			_, _, err := mtx(t, fmt.Sprintf("%scoordinate integer general\n%%%%GraphBLAS type %s\n1 1 1\n1 1 %s\n", head, typ, v))
			if sourcetest.Class(err) != "input" || !strings.Contains(err.Error(), fmt.Sprintf(":4: %q is outside the range of type %s", v, typ)) {
				t.Errorf("%s %s: got %v", typ, v, err)
			}
		}
	}
}

func TestMatrixMarketNotes(t *testing.T) {
	_, d, err := mtx(t, "%%MatrixMarket matrix coordinate real symmetric\n3 3 2\n2 1 1.5\n3 3 2\n")
	if err != nil || len(d.Notes) != 2 || !strings.Contains(d.Notes[0], "the 2 values") || !strings.Contains(d.Notes[1], "two edges") {
		t.Errorf("%v, %q", err, d.Notes)
	}
	_, d, err = mtx(t, "%%MatrixMarket matrix coordinate pattern general\n3 3 1\n2 1\n")
	if err != nil || len(d.Notes) != 0 {
		t.Errorf("%v, %q", err, d.Notes)
	}
}
