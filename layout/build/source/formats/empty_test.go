package formats_test

// Files cut to nothing.

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/goagnes/goagnes/layout/build/source"
	"github.com/goagnes/goagnes/layout/build/source/formats"
)

// TestEmptyFiles: an empty file whose name promises a magic number is a cut one,
// and no graph without edges.
func TestEmptyFiles(t *testing.T) {
	for _, name := range []string{"e.parquet", "e.txt.gz", "e.csv.gz", "e.txt.zst"} {
		path := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(path, nil, 0o644); err != nil {
			t.Fatal(err)
		}
		_, err := formats.Open(context.Background(), path, "auto", source.Options{})
		var bad *source.Error
		if !errors.As(err, &bad) || !strings.Contains(err.Error(), "empty file") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
