package synthetic

// Writing a dataset as numpy files, for readers of raw inputs to be measured.

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/goagnes/goagnes/layout"
	"github.com/goagnes/goagnes/layout/build/source"
	"github.com/goagnes/goagnes/layout/npy"
)

// RawError is a directory or file that could not be written.
type RawError struct {
	// File is the file or directory.
	File string
	// Msg says what is wrong and what to do.
	Msg string
	// Err is the cause where there is one.
	Err error
	// refused says that nothing was attempted.
	refused bool
}

// Error gives the file and the fault in one line.
func (e *RawError) Error() string {
	if e.Err == nil {
		return e.File + ": " + e.Msg
	}
	return e.File + ": " + e.Msg + ": " + e.Err.Error()
}

// Unwrap returns the cause.
func (e *RawError) Unwrap() error { return e.Err }

// Class returns "usage" where the directory is taken, and "io" otherwise.
func (e *RawError) Class() string {
	if e.refused {
		return "usage"
	}
	return "io"
}

// WriteRaw writes edge_index.npy (2, E) int64, num_nodes.npy, and NAME.npy for
// each array, split_NAME.npy for each split of d to dir, which it makes if need
// be; formats.Open reads the directory as format "npy". It streams, and memory does
// not depend on the size of d. Each file appears whole, under its name, after it
// was synced, and edge_index.npy last of all; a failed run removes what it began.
// A directory that holds an edge_index.npy is refused.
func WriteRaw(ctx context.Context, d *source.Dataset, dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return &RawError{File: dir, Msg: "cannot be made", Err: err}
	}
	edges := filepath.Join(dir, "edge_index.npy")
	if _, err := os.Lstat(edges); err == nil {
		return &RawError{File: edges, Msg: "exists already; remove the directory, or choose another", refused: true}
	} else if !errors.Is(err, fs.ErrNotExist) {
		return &RawError{File: edges, Msg: "cannot be examined", Err: err}
	}
	var written []string
	err := func() error {
		put := func(name string, write func(f *os.File) error) error {
			path := filepath.Join(dir, name)
			if err := writeFile(path, write); err != nil {
				return err
			}
			written = append(written, path)
			return nil
		}
		for _, part := range []struct {
			prefix string
			rows   map[string]source.Rows
		}{{"", d.Arrays}, {"split_", d.Splits}} {
			var names []string
			for name := range part.rows {
				names = append(names, name)
			}
			slices.Sort(names)
			for _, name := range names {
				if err := put(part.prefix+name+".npy", rowWriter(ctx, part.rows[name])); err != nil {
					return err
				}
			}
		}
		if d.NumNodes >= 0 {
			if err := put("num_nodes.npy", func(f *os.File) error { return writeScalar(f, d.NumNodes) }); err != nil {
				return err
			}
		}
		return put("edge_index.npy", edgeWriter(ctx, d.Edges))
	}()
	if err == nil {
		err = syncDir(dir)
	}
	if err != nil {
		for _, path := range written {
			err = errors.Join(err, os.Remove(path))
		}
	}
	return err
}

// writeFile writes a file beside its name and renames it once it is synced.
func writeFile(path string, write func(f *os.File) error) (err error) {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-*")
	if err != nil {
		return &RawError{File: path, Msg: "cannot be written", Err: err}
	}
	defer func() {
		if err != nil {
			f.Close()
			os.Remove(f.Name())
		}
	}()
	if err := write(f); err != nil {
		return failure(path, err)
	}
	if err := f.Chmod(0o644); err != nil {
		return failure(path, err)
	}
	if err := f.Sync(); err != nil {
		return failure(path, err)
	}
	if err := f.Close(); err != nil {
		return failure(path, err)
	}
	if err := os.Rename(f.Name(), path); err != nil {
		return failure(path, err)
	}
	return nil
}

// failure names the file in an error of writing it; errors of the dataset and of
// the context stay as they are.
func failure(path string, err error) error {
	var classed interface{ Class() string }
	if errors.As(err, &classed) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return &RawError{File: path, Msg: "cannot be written", Err: err}
}

func syncDir(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return &RawError{File: dir, Msg: "cannot be synced", Err: err}
	}
	defer f.Close()
	if err := f.Sync(); err != nil {
		return &RawError{File: dir, Msg: "cannot be synced", Err: err}
	}
	return nil
}

func writeScalar(f *os.File, n int64) error {
	if _, err := npy.WriteHeader(f, layout.Int64, nil); err != nil {
		return err
	}
	_, err := f.Write(binary.LittleEndian.AppendUint64(nil, uint64(n)))
	return err
}

func rowWriter(ctx context.Context, r source.Rows) func(f *os.File) error {
	return func(f *os.File) error {
		w := bufio.NewWriterSize(f, 1<<20)
		if _, err := npy.WriteHeader(w, r.DType(), append([]int64{r.Len()}, r.RowShape()...)); err != nil {
			return err
		}
		if err := r.Scan(ctx, func(_ int64, rows []byte) error {
			_, err := w.Write(rows)
			return err
		}); err != nil {
			return err
		}
		return w.Flush()
	}
}

// edgeWriter writes sources and targets side by side into the two halves of the
// array.
func edgeWriter(ctx context.Context, e source.Edges) func(f *os.File) error {
	return func(f *os.File) error {
		count, known := e.Count()
		if !known {
			if err := e.Scan(ctx, func(src, _ []int64) error {
				count += int64(len(src))
				return nil
			}); err != nil {
				return err
			}
		}
		var head bytes.Buffer
		start, err := npy.WriteHeader(&head, layout.Int64, []int64{2, count})
		if err != nil {
			return err
		}
		if _, err := f.Write(head.Bytes()); err != nil {
			return err
		}
		if err := f.Truncate(start + 16*count); err != nil {
			return err
		}
		at := [2]*bufio.Writer{
			bufio.NewWriterSize(io.NewOffsetWriter(f, start), 1<<20),
			bufio.NewWriterSize(io.NewOffsetWriter(f, start+8*count), 1<<20),
		}
		done := int64(0)
		var word [8]byte
		if err := e.Scan(ctx, func(src, dst []int64) error {
			if done += int64(len(src)); done > count {
				return fmt.Errorf("%s: more than the %d edges it counted", e.Name(), count)
			}
			for i, ids := range [][]int64{src, dst} {
				for _, id := range ids {
					binary.LittleEndian.PutUint64(word[:], uint64(id))
					if _, err := at[i].Write(word[:]); err != nil {
						return err
					}
				}
			}
			return nil
		}); err != nil {
			return err
		}
		if done != count {
			return fmt.Errorf("%s: %d edges, and it counted %d", e.Name(), done, count)
		}
		return errors.Join(at[0].Flush(), at[1].Flush())
	}
}
