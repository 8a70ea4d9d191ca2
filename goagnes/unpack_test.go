package goagnes_test

import (
	"archive/zip"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/DataDog/zstd"
	"github.com/goagnes/goagnes/goagnes"
	"github.com/goagnes/goagnes/goagnes/storage"
	"github.com/goagnes/goagnes/layout/build/source"
	"github.com/goagnes/goagnes/layout/build/source/sourcetest"
)

// packed writes content within gzip or zstd.
func packed(t *testing.T, name string, content []byte) string {
	t.Helper()
	var b bytes.Buffer
	if strings.HasSuffix(name, ".zst") {
		all, err := zstd.Compress(nil, content)
		if err != nil {
			t.Fatal(err)
		}
		b.Write(all)
	} else {
		w := gzip.NewWriter(&b)
		w.Write(content)
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
	}
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, b.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// files are the names in a folder.
func files(t *testing.T, folder string) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(folder)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// An archive and a Parquet file within gzip or zstd make the store that they make by
// themselves, call themselves by their own names, and leave nothing behind.
func TestArchivesCompressedOnceMore(t *testing.T) {
	ctx := context.Background()
	small := sourcetest.Small()
	small["year"] = sourcetest.Ints([]int64{4}, 1, 2, 3, 4)
	plain := map[string]string{
		"npz":     sourcetest.Archive(t, zip.Deflate, small),
		"parquet": filepath.Join("..", "layout", "build", "source", "table", "testdata", "pyarrow", "named-v1-zstd-int64.parquet"),
	}
	for format, path := range plain {
		content, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		folder := t.TempDir()
		whole, err := goagnes.Import(ctx, filepath.Join(folder, "plain"), path, goagnes.BuildOptions{Memory: 64 << 20})
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"a." + format + ".gz", "a." + format + ".zst", "noending"} {
			from := packed(t, name, content)
			r, err := goagnes.Import(ctx, filepath.Join(folder, name), from, goagnes.BuildOptions{Memory: 64 << 20})
			if err != nil {
				t.Errorf("%s: %v", name, err)
				continue
			}
			if r.BuildID != whole.BuildID || r.NumEdges == 0 {
				t.Errorf("%s: another store: %d edges, %d by itself", name, r.NumEdges, whole.NumEdges)
			}
			for _, note := range r.Notes {
				if !strings.HasPrefix(note, from) {
					t.Errorf("%s: a note calls it otherwise: %s", name, note)
				}
			}
		}
		if left := files(t, folder); !slices.Equal(left, []string{"a." + format + ".gz", "a." + format + ".zst", "noending", "plain"}) {
			t.Errorf("%s: left %v", format, left)
		}
	}
}

// As arrays of a build they are read too, and a bad one, a cut one and one that is
// larger than scratch may be are refused by name, leaving nothing.
func TestPackedArraysAndTheirFaults(t *testing.T) {
	ctx := context.Background()
	archive := func(member string, content []byte) []byte {
		files := sourcetest.Small()
		if member != "" {
			files[member] = content
		}
		b, err := os.ReadFile(sourcetest.Archive(t, zip.Store, files))
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	folder := t.TempDir()
	store := filepath.Join(folder, "store")
	r, err := goagnes.Build(ctx, store, goagnes.BuildOptions{EdgeIndex: goagnes.Input{File: packed(t, "edges.gz", archive("", nil))}, Memory: 64 << 20})
	if err != nil || r.NumEdges != 3 {
		t.Fatal(r, err)
	}
	cut := packed(t, "cut.gz", archive("", nil))
	b, err := os.ReadFile(cut)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(cut, b[:len(b)-30], 0o600); err != nil {
		t.Fatal(err)
	}
	var input *source.Error
	for path, want := range map[string]string{
		packed(t, "bad.gz", archive("x_indices", sourcetest.Ints([]int64{4}, 2, 0, 3, 1))): "/x_indices",
		cut: "",
	} {
		_, err := goagnes.Import(ctx, filepath.Join(folder, "new"), path, goagnes.BuildOptions{Memory: 64 << 20})
		if !errors.As(err, &input) || !strings.HasPrefix(err.Error(), path) || strings.Contains(err.Error(), "scratch") {
			t.Errorf("%s (%s): %v", path, want, err)
		}
	}
	_, err = goagnes.Import(ctx, filepath.Join(folder, "new"), packed(t, "large.gz", archive("", nil)), goagnes.BuildOptions{Memory: 64 << 20, ScratchLimit: 512})
	var limit *storage.ScratchError
	if !errors.As(err, &limit) {
		t.Errorf("past the limit of scratch: %v", err)
	}
	if left := files(t, folder); !slices.Equal(left, []string{"store"}) {
		t.Errorf("left %v", left)
	}
}
