package formats_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/goagnes/goagnes/layout/build/source"
	"github.com/goagnes/goagnes/layout/build/source/formats"
	"github.com/goagnes/goagnes/layout/build/source/sourcetest"
	"golang.org/x/sys/unix"
)

func TestDirectoryRefuses(t *testing.T) {
	for name, c := range map[string]struct{ file, want string }{
		"rows of x and y": {"y.npy", "y.npy: 3 rows for 4 nodes"},
		"count of nodes":  {"num_nodes.npy", "4 rows for 3 nodes"},
	} {
		dir := t.TempDir()
		for file, content := range map[string][]byte{"edge_index.npy": sourcetest.Ints([]int64{2, 1}, 0, 1), "x.npy": sourcetest.Ints([]int64{4}, 0, 0, 0, 0)} {
			if err := os.WriteFile(filepath.Join(dir, file), content, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		content := sourcetest.Ints([]int64{3}, 0, 0, 0)
		if c.file == "num_nodes.npy" {
			content = sourcetest.Ints(nil, 3)
		}
		if err := os.WriteFile(filepath.Join(dir, c.file), content, 0o644); err != nil {
			t.Fatal(err)
		}
		_, err := formats.Open(context.Background(), dir, "auto", source.Options{})
		if sourcetest.Class(err) != "input" || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

func TestDetect(t *testing.T) {
	for _, c := range []struct{ name, content, class, want string }{
		{"a.txt", "0 1\n", "", "snap"},
		{"b", "", "", "snap"},
		{"c.gz", string(sourcetest.Compress(t, "0 1\n")), "", "snap"},
		{"d.bin", string(sourcetest.Ints([]int64{2, 1}, 0, 1)), "", "npy"},
		{"e.bin", "PK\x05\x06" + strings.Repeat("\x00", 18), "", "npz"},
		{"ind.cora.graph", "x", "", "planetoid"},
		{"ind.cora.test.index", "x", "", "planetoid"},
		{"f.txt", "%%MatrixMarket matrix coordinate\n", "", "mtx"},
		{"f.mtx.gz", string(sourcetest.Compress(t, "%%matrixmarket matrix coordinate\n")), "", "mtx"},
		{"f2.mtx.zst", string(sourcetest.ZstdBytes(t, "3 3 1\n1 2\n")), "input", "mtx or snap"},
		{"g.parquet", "PAR1\x15\x04", "", "parquet"},
		{"h.zst", string(sourcetest.ZstdBytes(t, "0 1\n")), "", "snap"},
		{"h2.zst", "\x28\xb5\x2f\xfd\x24", "input", "unexpected EOF"},
		{"i.bz2", "BZh91AY&SY", "unsupported", "bzip2"},
		{"j.xz", "\xfd7zXZ\x00", "unsupported", "xz"},
		{"k.npy.gz", string(sourcetest.Compress(t, string(sourcetest.Ints([]int64{2, 1}, 0, 1)))), "", "npy"},
		{"k.npy.zst", string(sourcetest.ZstdBytes(t, string(sourcetest.Ints([]int64{2, 1}, 0, 1)))), "", "npy"},
		{"k.npz.gz", string(sourcetest.Compress(t, "PK\x05\x06"+strings.Repeat("\x00", 18))), "unsupported", "gzip -d"},
		{"k.parquet.zst", string(sourcetest.ZstdBytes(t, "PAR1\x15\x04")), "unsupported", "zstd -d"},
		{"l.bin", "\x00\x01\x02", "input", "neither text"},
		{"m.txt", "", "", "snap"},
		{"n.npy", "", "input", "an empty file"},
		{"o.npz", "", "input", "an empty file"},
	} {
		format, err := formats.Detect(sourcetest.Write(t, c.name, []byte(c.content)))
		if c.class == "" && (err != nil || format != c.want) {
			t.Errorf("%s: %q, %v; want %q", c.name, format, err, c.want)
		}
		if c.class != "" && (sourcetest.Class(err) != c.class || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %q, %s: %v; want %s with %q", c.name, format, sourcetest.Class(err), err, c.class, c.want)
		}
	}
	if _, err := formats.Detect(t.TempDir()); sourcetest.Class(err) != "input" {
		t.Errorf("an empty directory: %v", err)
	}
	pipe := filepath.Join(t.TempDir(), "pipe.txt")
	if err := unix.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := formats.Detect(pipe); sourcetest.Class(err) != "input" || !strings.Contains(err.Error(), "regular") { // or hang
		t.Errorf("a pipe: %v", err)
	}
	for _, format := range []string{"mag240m", "pyg", "nonsense"} {
		_, err := formats.Open(context.Background(), sourcetest.Write(t, "a.txt", []byte("0 1\n")), format, source.Options{})
		if sourcetest.Class(err) != "unsupported" || !strings.Contains(err.Error(), format) || format != "pyg" && !strings.Contains(err.Error(), "auto, "+strings.Join(formats.Names(), ", ")) {
			t.Errorf("%s: got %v", format, err)
		}
	}
}
