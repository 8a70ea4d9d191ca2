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
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

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
// not depend on the size of d. The files appear whole, under their names, once all
// are synced, and edge_index.npy last; a failed run removes what it made, folders
// included, and the next run what a killed one left. A directory that holds a file of
// one of these names is refused.
func WriteRaw(ctx context.Context, d *source.Dataset, dir string) (err error) {
	files := rawFiles(ctx, d)
	for _, f := range files {
		path := filepath.Join(dir, f.name)
		if _, err := os.Lstat(path); err == nil {
			return &RawError{File: path, Msg: "exists already; remove it, or choose another directory", refused: true}
		} else if !errors.Is(err, fs.ErrNotExist) {
			return &RawError{File: path, Msg: "cannot be examined", Err: err}
		}
	}
	var made []string // what a failure removes, in the order that it was made
	defer func() {
		if err == nil {
			return
		}
		for _, path := range slices.Backward(made) {
			if e := os.Remove(path); e != nil && !errors.Is(e, fs.ErrNotExist) && !errors.Is(e, unix.ENOTEMPTY) {
				err = errors.Join(err, e)
			}
		}
	}()
	if made, err = makeDirs(dir); err != nil {
		return &RawError{File: dir, Msg: "cannot be made", Err: err}
	}
	if err := removeKilled(dir, files); err != nil {
		return err
	}
	temps := make([]*os.File, 0, len(files)) // locked while they are open
	defer func() {
		for _, f := range temps {
			f.Close()
		}
	}()
	for _, file := range files {
		path := filepath.Join(dir, file.name)
		f, err := lockedTemp(dir, file.name)
		if err != nil {
			return &RawError{File: path, Msg: "cannot be written", Err: err}
		}
		temps = append(temps, f)
		made = append(made, f.Name())
		err = file.write(f)
		if err == nil {
			err = f.Chmod(0o644)
		}
		if err == nil {
			err = f.Sync()
		}
		if err != nil {
			return failure(path, err)
		}
	}
	for i, file := range files {
		path := filepath.Join(dir, file.name)
		if err := os.Rename(temps[i].Name(), path); err != nil {
			return failure(path, err)
		}
		made = append(made, path)
	}
	return syncDir(dir)
}

// rawFile is a file that WriteRaw makes.
type rawFile struct {
	name  string
	write func(f *os.File) error
}

// rawFiles lists the files in the order in which they appear.
func rawFiles(ctx context.Context, d *source.Dataset) []rawFile {
	var files []rawFile
	for _, part := range []struct {
		prefix string
		rows   map[string]source.Rows
	}{{"", d.Arrays}, {"split_", d.Splits}} {
		for _, name := range slices.Sorted(maps.Keys(part.rows)) {
			files = append(files, rawFile{part.prefix + name + ".npy", rowWriter(ctx, part.rows[name])})
		}
	}
	if d.NumNodes >= 0 {
		files = append(files, rawFile{"num_nodes.npy", func(f *os.File) error { return writeScalar(f, d.NumNodes) }})
	}
	return append(files, rawFile{"edge_index.npy", edgeWriter(ctx, d.Edges)})
}

// makeDirs makes a directory with its parents and returns those that were not there.
func makeDirs(dir string) ([]string, error) {
	var missing []string
	for at := filepath.Clean(dir); ; at = filepath.Dir(at) {
		if _, err := os.Lstat(at); !errors.Is(err, fs.ErrNotExist) {
			break
		}
		missing = append(missing, at)
	}
	slices.Reverse(missing)
	for i, at := range missing {
		if err := os.Mkdir(at, 0o755); err != nil {
			return missing[:i], err
		}
	}
	return missing, os.MkdirAll(dir, 0o755)
}

// tempSuffix ends the names of files that are being written: between it and the
// file's own name stand digits.
const tempSuffix = ".part"

// lockedTemp makes the file that will become name, locked while this process has
// it open.
func lockedTemp(dir, name string) (*os.File, error) {
	for {
		f, err := os.CreateTemp(dir, "."+name+"-*"+tempSuffix)
		if err != nil {
			return nil, err
		}
		if err := unix.Flock(int(f.Fd()), unix.LOCK_EX); err != nil {
			return nil, errors.Join(&os.PathError{Op: "flock", Path: f.Name(), Err: err}, f.Close(), os.Remove(f.Name()))
		}
		// Another run may have taken it for a killed one's before it was locked.
		if _, err := os.Lstat(f.Name()); err == nil {
			return f, nil
		}
		f.Close()
	}
}

// removeKilled removes the files that killed runs were writing: their locks are free.
func removeKilled(dir string, files []rawFile) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return &RawError{File: dir, Msg: "cannot be read", Err: err}
	}
	for _, e := range entries {
		for _, file := range files {
			digits, ok := strings.CutPrefix(e.Name(), "."+file.name+"-")
			digits, temp := strings.CutSuffix(digits, tempSuffix)
			if !ok || !temp || digits == "" || strings.Trim(digits, "0123456789") != "" {
				continue
			}
			path := filepath.Join(dir, e.Name())
			f, err := os.Open(path)
			if err != nil {
				continue // not ours, or another run was faster
			}
			if unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) == nil {
				err = os.Remove(path)
			}
			f.Close()
			if err != nil && !errors.Is(err, fs.ErrNotExist) {
				return &RawError{File: path, Msg: "was left by a killed run and cannot be removed", Err: err}
			}
		}
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
