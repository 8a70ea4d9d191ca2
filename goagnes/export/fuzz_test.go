package export

// Anything in the index, the lines or the arrays of an export, under checksums
// that are right: opening and reading end with a typed error or the arrays.

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/goagnes/goagnes/tests/bounds"
)

// exported writes the export that the tests of full devices write, and returns
// its files by their path in it.
func exported(f *testing.F) map[string][]byte {
	f.Helper()
	dir := filepath.Join(f.TempDir(), "out")
	if err := writeAll(nil, dir); err != nil {
		f.Fatal(err)
	}
	files := map[string][]byte{}
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if err == nil {
			files[name], err = os.ReadFile(path)
		}
		return err
	})
	if err != nil {
		f.Fatal(err)
	}
	return files
}

func FuzzOpen(f *testing.F) {
	files := exported(f)
	index, ok := unseal(files[IndexFile], "")
	if !ok {
		f.Fatal("the index is not sealed")
	}
	var names []string
	for name := range files {
		names = append(names, name)
	}
	first, _, _ := bytes.Cut(files[filepath.Join("epoch-0", LinesFile)], []byte("\n"))
	line, ok := bytes.CutSuffix(first, []byte("}"))
	if !ok {
		f.Fatalf("the line %q", first)
	}
	object := append(line[:bytes.LastIndex(line, []byte(","+sealKey))], '}')
	f.Add(index, []byte{}, "", uint16(0), byte(0))
	f.Add(index, object, "", uint16(0), byte(0))
	for _, name := range names {
		f.Add([]byte{}, []byte{}, name, uint16(90), byte(1))
	}
	dir, there := filepath.Join(f.TempDir(), "fuzz"), map[string][]byte{}
	f.Fuzz(func(t *testing.T, index, line []byte, name string, at uint16, flip byte) {
		if len(index)+len(line) > 1<<16 {
			return
		}
		total := 0
		for path, b := range files {
			b = bytes.Clone(b)
			switch {
			case path == IndexFile && len(index) > 1:
				b = reseal(index)
			case filepath.Base(path) == LinesFile && len(line) > 1:
				_, rest, _ := bytes.Cut(b, []byte("\n"))
				b = append(seal(line, salt(idOf(index, files), 0)), rest...)
			case path == name && len(b) > 0:
				b[int(at)%len(b)] ^= flip
			}
			total += len(b)
			if last, ok := there[path]; ok && bytes.Equal(last, b) {
				continue
			}
			if err := errors.Join(os.MkdirAll(filepath.Dir(filepath.Join(dir, path)), 0o755), os.WriteFile(filepath.Join(dir, path), b, 0o644)); err != nil {
				t.Fatal(err)
			}
			there[path] = b
		}
		bounds.Hold(t, total, bounds.Limit{Fixed: 2 << 20, Factor: 64}, func() {
			r, err := Open(dir)
			if err == nil {
				err = errors.Join(r.Verify(context.Background(), nil), r.Close())
			}
			if err != nil && !errors.As(err, new(*Error)) {
				t.Fatalf("untyped error %v (%T)", err, err)
			}
		})
	})
}

// reseal seals an index, with the id of what it holds where it is readable.
func reseal(index []byte) []byte {
	x := &Index{}
	if json.Unmarshal(index, x) != nil {
		return seal(index, "")
	}
	x.setID()
	return x.encode()
}

// idOf returns the id of an index, or of that of the files.
func idOf(index []byte, files map[string][]byte) string {
	x := &Index{}
	if json.Unmarshal(index, x) != nil && json.Unmarshal(files[IndexFile], x) != nil {
		return ""
	}
	x.setID()
	return x.ID
}
