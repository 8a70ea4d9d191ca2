package table_test

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/goagnes/goagnes/layout/build/source/sourcetest"
)

// TestFilesOfPyarrow reads what another writer wrote: types, encodings, compressions,
// pages and row groups (testdata/pyarrow/write.py says which).
func TestFilesOfPyarrow(t *testing.T) {
	var want []sourcetest.Pair
	for i := range int64(240) {
		want = append(want, sourcetest.Pair{i * 7919 % 1000, i * 31 % 997})
	}
	refused := map[string]string{
		"null":     "input [131]: null in column src",
		"negative": "input [7]: negative id -1 in column src",
		"lz4":      "unsupported : column src is compressed by LZ4_RAW; write it with snappy",
		"brotli":   "unsupported : column src is compressed by BROTLI; write it with snappy",
	}
	files, err := filepath.Glob("testdata/pyarrow/*.parquet")
	if err != nil || len(files) != 17 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".parquet")
		d, got, err := scanFile(file)
		if says := refused[name]; says != "" {
			class, text, _ := strings.Cut(says, " ")
			if sourcetest.Class(err) != class || !strings.HasPrefix(err.Error(), file+text) {
				t.Errorf("%s: %v, want %q", name, err, says)
			}
			continue
		}
		if err != nil || d.Format != "parquet" || !slices.Equal(got, want) {
			t.Errorf("%s: %d edges, %v", name, len(got), err)
			continue
		}
		if n, known := d.Edges.Count(); n != 240 || !known || len(d.Notes) != 1 || !strings.Contains(d.Notes[0], "the 2 others are not kept") {
			t.Errorf("%s: %d edges counted; notes %q", name, n, d.Notes)
		}
	}
}
