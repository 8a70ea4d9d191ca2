package source

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func allIDs(t *testing.T, l IDs) []int64 {
	t.Helper()
	var ids []int64
	if err := l.Scan(context.Background(), func(b []int64) error { ids = append(ids, b...); return nil }); err != nil {
		t.Fatal(err)
	}
	return ids
}

func put(t *testing.T, dir string, files map[string]string) string {
	t.Helper()
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestVertexAndEdgeFiles(t *testing.T) {
	edges := "# c\n10 7 0.5\n\n7 30 1\n"
	for name, files := range map[string]map[string]string{
		"plain": {"g.v": "30\r\n\n# c\n7 name\n10\n500", "g.e": edges},
		"mixed": {"g.v.gz": string(compress(t, "30\n7\n10\n500\n")), "g.e.zst": string(zstdBytes(t, edges))},
	} {
		dir := put(t, t.TempDir(), files)
		paths := []string{dir, filepath.Join(dir, "g")}
		for f := range files {
			paths = append(paths, filepath.Join(dir, f))
		}
		for _, path := range paths {
			d, err := Open(context.Background(), path, "auto", Options{})
			if err != nil {
				t.Errorf("%s: %s: %v", name, path, err)
				continue
			}
			ids := allIDs(t, d.NodeIDs)
			if e := allEdges(t, d.Edges); d.Format != "ve" || !slices.Equal(e, []pair{{10, 7}, {7, 30}}) || !slices.Equal(ids, []int64{30, 7, 10, 500}) {
				t.Errorf("%s: %s, %v, %v", name, d.Format, e, ids)
			}
			if len(d.Notes) != 1 || !strings.Contains(d.Notes[0], "weights") {
				t.Errorf("%s: notes %q", name, d.Notes)
			}
			lines := d.Edges.(Lines)
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
		dir := put(t, t.TempDir(), c.files)
		d, err := Open(context.Background(), filepath.Join(dir, c.path), "ve", Options{})
		if err == nil {
			err = d.NodeIDs.Scan(context.Background(), func([]int64) error { return nil })
		}
		if err == nil {
			err = d.Edges.Scan(context.Background(), func(_, _ []int64) error { return nil })
		}
		if class(err) != "input" || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %q", name, err, c.want)
		}
	}
	dir := put(t, t.TempDir(), map[string]string{"g.e": "", "g.v": "", "edge_index.npy": ""})
	if _, err := Detect(dir); class(err) != "input" || !strings.Contains(err.Error(), "npy or ve; name the format") {
		t.Errorf("got %v", err)
	}
}

func TestVertexScanStops(t *testing.T) {
	v := &vertexIDs{write(t, "g.v", []byte(strings.Repeat("5\n", 2*ChunkEdges+1)))}
	calls := 0
	if err := v.Scan(context.Background(), func([]int64) error { calls++; return errProbed }); err != errProbed || calls != 1 {
		t.Errorf("%d calls, %v", calls, err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	if err := v.Scan(ctx, func([]int64) error { cancel(); return nil }); err != context.Canceled {
		t.Errorf("cancelled: %v", err)
	}
}

func TestVertexAndEdgeCorpus(t *testing.T) {
	d := openCorpus(t, "weighted/p2p-31.e.gz")
	e := allEdges(t, d.Edges)
	if ids := allIDs(t, d.NodeIDs); d.Format != "ve" || len(e) != 147892 || distinct(e) != 62586 || len(ids) != 62586 {
		t.Errorf("%s: %d ids, %d of them in %d edges", d.Format, len(ids), distinct(e), len(e))
	}
}
