package text_test

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/goagnes/goagnes/layout/build/source"
	"github.com/goagnes/goagnes/layout/build/source/formats"
	"github.com/goagnes/goagnes/layout/build/source/sourcetest"
)

func TestVertexAndEdgeFiles(t *testing.T) {
	edges := "# c\n10 7 0.5\n\n7 30 1\n"
	for name, files := range map[string]map[string]string{
		"plain": {"g.v": "30\r\n\n# c\n7 name\n10\n500", "g.e": edges},
		"mixed": {"g.v.gz": string(sourcetest.Compress(t, "30\n7\n10\n500\n")), "g.e.zst": string(sourcetest.ZstdBytes(t, edges))},
	} {
		dir := sourcetest.Put(t, t.TempDir(), files)
		paths := []string{dir, filepath.Join(dir, "g")}
		for f := range files {
			paths = append(paths, filepath.Join(dir, f))
		}
		for _, path := range paths {
			d, err := formats.Open(context.Background(), path, "auto", source.Options{})
			if err != nil {
				t.Errorf("%s: %s: %v", name, path, err)
				continue
			}
			ids := sourcetest.AllIDs(t, d.NodeIDs)
			if e := sourcetest.AllEdges(t, d.Edges); d.Format != "ve" || !slices.Equal(e, []sourcetest.Pair{{10, 7}, {7, 30}}) || !slices.Equal(ids, []int64{30, 7, 10, 500}) {
				t.Errorf("%s: %s, %v, %v", name, d.Format, e, ids)
			}
			if len(d.Notes) != 1 || !strings.Contains(d.Notes[0], "weights") {
				t.Errorf("%s: notes %q", name, d.Notes)
			}
			lines := d.Edges.(source.Lines)
			if a, b, c := lines.LineOf(context.Background(), 0), lines.LineOf(context.Background(), 1), lines.LineOf(context.Background(), 2); a != 2 || b != 4 || c != 0 {
				t.Errorf("lines %d, %d, %d", a, b, c)
			}
		}
	}
}

func TestVertexAndEdgeFilesRefuse(t *testing.T) {
	for name, c := range map[string]struct {
		files map[string]string
		path  string
		want  string
	}{
		"no vertices":    {map[string]string{"g.e": "1 2\n"}, "g.e", "belong together"},
		"no edges":       {map[string]string{"g.v": "1\n"}, "g.v", "belong together"},
		"two pairs":      {map[string]string{"g.e": "", "g.v": "", "h.e": "", "h.v": ""}, "", "2 pairs"},
		"no pair":        {map[string]string{"g.txt": "1 2\n"}, "g.txt", "no file of a pair"},
		"nothing":        {nil, "g", "cannot be opened"},
		"bad edge":       {map[string]string{"g.e": "1 x\n", "g.v": "1\n"}, "g", "g.e:1: \"x\" is no target id"},
		"bad vertex":     {map[string]string{"g.e": "", "g.v": "1\n-2\n"}, "g", "g.v:2: negative vertex id -2"},
		"float vertex":   {map[string]string{"g.e": "", "g.v": "1\n2.0\n"}, "g", "g.v:2: vertex id 2.0 is no integer"},
		"string vertex":  {map[string]string{"g.e": "", "g.v": "alice\n"}, "g", `g.v:1: "alice" is no vertex id`},
		"huge vertex":    {map[string]string{"g.e": "", "g.v": "99999999999999999999\n"}, "g", "too large"},
		"short last row": {map[string]string{"g.e": "1 2\n3", "g.v": "1\n"}, "g", "g.e:2: one id (3)"},
	} {
		dir := sourcetest.Put(t, t.TempDir(), c.files)
		d, err := formats.Open(context.Background(), filepath.Join(dir, c.path), "ve", source.Options{})
		if err == nil {
			err = d.NodeIDs.Scan(context.Background(), func([]int64) error { return nil })
		}
		if err == nil {
			err = d.Edges.Scan(context.Background(), func(_, _ []int64) error { return nil })
		}
		if sourcetest.Class(err) != "input" || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %q", name, err, c.want)
		}
	}
	dir := sourcetest.Put(t, t.TempDir(), map[string]string{"g.e": "", "g.v": "", "edge_index.npy": ""})
	if _, err := formats.Detect(dir); sourcetest.Class(err) != "input" || !strings.Contains(err.Error(), "npy or ve; name the format") {
		t.Errorf("got %v", err)
	}
}

func TestVertexScanStops(t *testing.T) {
	enough := errors.New("enough")
	pair := sourcetest.Put(t, t.TempDir(), map[string]string{"g.v": strings.Repeat("5\n", 2*source.ChunkEdges+1), "g.e": ""})
	d, err := formats.Open(context.Background(), pair, "ve", source.Options{})
	if err != nil {
		t.Fatal(err)
	}
	v := d.NodeIDs
	calls := 0
	if err := v.Scan(context.Background(), func([]int64) error { calls++; return enough }); err != enough || calls != 1 {
		t.Errorf("%d calls, %v", calls, err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	if err := v.Scan(ctx, func([]int64) error { cancel(); return nil }); err != context.Canceled {
		t.Errorf("cancelled: %v", err)
	}
}
