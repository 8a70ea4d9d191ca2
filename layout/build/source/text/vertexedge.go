package text

// Pairs of files NAME.v and NAME.e, as LDBC Graphalytics and libgrape-lite use
// them: a vertex id a line, and two ids a line with a weight where there is one.
// The vertices are the nodes, so that isolated ones are kept; ids may be sparse and
// are ranked. Fields are separated and comments written as in other text.

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/goagnes/goagnes/layout/build/source"
)

// vertexIDs are the ids of a file of vertices.
type vertexIDs struct{ path string }

func (v *vertexIDs) Name() string { return v.path }

func (v *vertexIDs) Scan(ctx context.Context, f func(ids []int64) error) error {
	ids := make([]int64, 0, source.ChunkEdges)
	line := int64(0)
	err := ScanLines(ctx, v.path, &line, func(b []byte) error {
		for ; len(b) > 0; line++ {
			var text []byte
			text, b = CutLine(b)
			at := SkipBlanks(text, 0)
			if at == len(text) || text[at] == '#' || text[at] == '%' {
				continue
			}
			if len(ids) == cap(ids) {
				if err := ctx.Err(); err != nil {
					return err
				}
				if err := f(ids); err != nil {
					return err
				}
				ids = ids[:0]
			}
			id, _, fault := ParseID(text, at, "vertex")
			if fault != "" {
				return source.ErrorAtLine(v.path, line+1, "%s", fault)
			}
			ids = append(ids, id)
		}
		return nil
	})
	if err == nil {
		err = ctx.Err()
	}
	if err != nil || len(ids) == 0 {
		return err
	}
	return f(ids)
}

// pairEndings are what the files of a pair may end in.
var pairEndings = []string{"", ".gz", ".zst"}

// splitPair splits NAME.v, NAME.e.gz and the like.
func splitPair(path string) (prefix string, ok bool) {
	for _, z := range pairEndings {
		for _, kind := range []string{".v", ".e"} {
			if p, ok := strings.CutSuffix(path, kind+z); ok && filepath.Base(p) != "" {
				return p, true
			}
		}
	}
	return "", false
}

// findPair finds both files of a pair.
func findPair(prefix string) (vertices, edges string) {
	find := func(kind string) string {
		for _, z := range pairEndings {
			if st, err := os.Stat(prefix + kind + z); err == nil && st.Mode().IsRegular() {
				return prefix + kind + z
			}
		}
		return ""
	}
	return find(".v"), find(".e")
}

// IsPair reports whether path is one of a pair, its common path, or a directory
// with one.
func IsPair(path string) bool {
	_, _, err := PairFiles(path)
	return err == nil
}

// PairFiles finds the two files of the pair that path names.
func PairFiles(path string) (vertices, edges string, err error) {
	prefix := path
	st, statErr := os.Stat(path)
	switch {
	case statErr == nil && st.IsDir():
		list, err := os.ReadDir(path)
		if err != nil {
			return "", "", source.ErrorFrom(path, "cannot be listed", err)
		}
		var found []string
		for _, e := range list {
			if p, ok := splitPair(e.Name()); ok && !slices.Contains(found, p) {
				if v, e := findPair(filepath.Join(path, p)); v != "" && e != "" {
					found = append(found, p)
				}
			}
		}
		if len(found) != 1 {
			return "", "", source.Errorf(path, "%d pairs NAME.v and NAME.e in this directory; name one of the files", len(found))
		}
		prefix = filepath.Join(path, found[0])
	case statErr == nil:
		p, ok := splitPair(path)
		if !ok {
			return "", "", source.Errorf(path, "no file of a pair; they are called NAME.v and NAME.e, plain, .gz or .zst")
		}
		prefix = p
	}
	vertices, edges = findPair(prefix)
	if vertices == "" || edges == "" {
		if statErr != nil && vertices == edges {
			return "", "", source.ErrorFrom(path, "cannot be opened", statErr)
		}
		return "", "", source.Errorf(path, "%s and %s belong together, and one is missing; import edges alone as snap", prefix+".v", prefix+".e")
	}
	return vertices, edges, nil
}

// OpenPair opens a pair of vertex and edge files.
func OpenPair(_ context.Context, path string, _ source.Options) (*source.Dataset, error) {
	vertices, edges, err := PairFiles(path)
	if err != nil {
		return nil, err
	}
	more, err := probeText(edges)
	if err != nil {
		return nil, err
	}
	d := source.NewDataset("ve")
	d.Edges, d.RankIDs, d.NodeIDs = NewEdges(edges), true, &vertexIDs{vertices}
	if len(more) > 0 {
		d.Note("%s: weights of edges are not kept; %s", edges, more[0])
	}
	return d, nil
}

// errLineFound ends the scan that looks for a line; nobody sees it.
var errLineFound = errors.New("text: the line is found")

// LineOf returns the line, from 1, of an edge of a text file.
func (t *Edges) LineOf(ctx context.Context, edge int64) int64 {
	// With chunks of one edge each is handed on when the line after it begins.
	s := textScan{file: t.path, parse: ParseLine}
	done := int64(0)
	found := int64(0)
	s.EdgeChunks = source.NewEdgeChunksOf(ctx, 1, func(_, _ []int64) error {
		if done == edge {
			found = s.line
			return errLineFound
		}
		done++
		return nil
	})
	if err := ScanLines(ctx, t.path, &s.line, s.lines); err == nil && s.Flush() == nil {
		return 0
	}
	return found
}
