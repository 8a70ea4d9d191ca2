package planetoid_test

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/goagnes/goagnes/layout/build/source"
	"github.com/goagnes/goagnes/layout/build/source/formats"
	"github.com/goagnes/goagnes/layout/build/source/sourcetest"
)

// TestPlanetoidRefuses spoils one file of Cora at a time.
func TestPlanetoidRefuses(t *testing.T) {
	dir := sourcetest.Corpus(t, "planetoid/cora")
	read := func(ending string) []byte {
		b, err := os.ReadFile(filepath.Join(dir, "ind.cora."+ending))
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	cut := func(b []byte) []byte { return b[:len(b)/2] }
	for _, c := range []struct {
		name, ending string
		content      []byte
		want         string
	}{
		{"missing", "tx", nil, "no such file"},
		{"cut", "graph", cut(read("graph")), "ends early"},
		{"code", "graph", []byte("cos\nsystem\n(S'true'\ntR."), `"os.system", which is not allowed`},
		{"features for labels", "ally", read("allx"), "no two-dimensional array"},
		{"labels for features", "allx", read("ally"), "no csr_matrix"},
		{"test rows for all", "allx", read("tx"), "1000 rows, where test.index starts with 1708"},
		{"fewer rows than tests", "tx", read("x"), "140 rows for 1000 lines"},
		{"test labels of other length", "ty", read("y"), "140 rows, where 1000 are due"},
		{"a list for the graph", "graph", []byte("\x80\x02]."), "no dictionary"},
		{"a node outside", "graph", []byte("\x80\x02}K\x00]M\xff\xffas."), "neighbour 65535 of node 0"},
		{"a key outside", "graph", []byte("\x80\x02}J\xff\xff\xff\xff]s."), "key -1"},
		{"no list", "graph", []byte("\x80\x02}K\x00K\x01s."), "no list of neighbours"},
		{"a word among the tests", "test.index", []byte("1708\nx\n"), "test.index:2: "},
		{"a test node twice", "test.index", []byte("1708\n1709\n1708\n"), "test.index:3: node 1708 a second time"},
		{"no tests", "test.index", nil, "no such file"},
		{"empty tests", "test.index", []byte("\n"), "no test node"},
		{"a huge test node", "test.index", []byte("1708\n99999999\n"), "no node number below"},
	} {
		t.Run(c.name, func(t *testing.T) {
			spoiled := t.TempDir()
			for _, ending := range []string{"x", "tx", "allx", "y", "ty", "ally", "graph", "test.index"} {
				from := filepath.Join(dir, "ind.cora."+ending)
				to := filepath.Join(spoiled, "ind.cora."+ending)
				switch {
				case ending != c.ending:
					if err := os.Symlink(from, to); err != nil {
						t.Fatal(err)
					}
				case c.content != nil:
					if err := os.WriteFile(to, c.content, 0o644); err != nil {
						t.Fatal(err)
					}
				}
			}
			_, err := formats.Open(context.Background(), spoiled, "planetoid", source.Options{})
			if sourcetest.Class(err) != "input" || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %s: %v; want %q", sourcetest.Class(err), err, c.want)
			}
			if err != nil && !strings.Contains(err.Error(), filepath.Join(spoiled, "ind.cora."+c.ending)) {
				t.Errorf("the file is not named: %v", err)
			}
		})
	}
}

func TestPlanetoidSharedLists(t *testing.T) {
	// Keys may share one list; the edges are bounded all the same.
	dir := t.TempDir()
	src := sourcetest.Corpus(t, "planetoid/cora")
	for _, ending := range []string{"x", "tx", "allx", "y", "ty", "ally", "graph", "test.index"} {
		if ending != "graph" {
			if err := os.Symlink(filepath.Join(src, "ind.cora."+ending), filepath.Join(dir, "ind.cora."+ending)); err != nil {
				t.Fatal(err)
			}
		}
	}
	var b bytes.Buffer
	b.WriteString("\x80\x02](" + strings.Repeat("K\x01", 5000) + "eq\x000}(")
	for i := range 2700 {
		b.Write([]byte{'M', byte(i), byte(i >> 8), 'h', 0})
	}
	b.WriteString("u.")
	if err := os.WriteFile(filepath.Join(dir, "ind.cora.graph"), b.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
	_, err := formats.Open(context.Background(), dir, "auto", source.Options{})
	if sourcetest.Class(err) != "input" || !strings.Contains(err.Error(), "edges") {
		t.Errorf("got %v", err)
	}
}
