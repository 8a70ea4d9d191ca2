// The file of predictions: written beside its name, renamed when complete.
package main

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/goagnes/goagnes/layout"
	"github.com/goagnes/goagnes/layout/npy"
)

// predictionFile is an .npy file of int64 rows: node id and class.
type predictionFile struct {
	path string
	temp *os.File // nil once published or discarded
	w    *bufio.Writer
}

// createPredictions begins a file of that many rows.
func createPredictions(path string, rows int64) (*predictionFile, error) {
	if st, err := os.Stat(path); err == nil && st.IsDir() {
		return nil, usagef("predict: --out %s is a folder", path)
	}
	temp, err := lockedTemp(path)
	if err != nil {
		if at := (*os.PathError)(nil); errors.As(err, &at) {
			err = at.Err // of a folder, or a file that nobody knows
		}
		return nil, fmt.Errorf("predict: %s: cannot be written: %w", path, err)
	}
	f := &predictionFile{path: path, temp: temp, w: bufio.NewWriterSize(temp, 1<<20)}
	if _, err := npy.WriteHeader(f.w, layout.Int64, []int64{rows, 2}); err != nil {
		f.discard()
		return nil, err
	}
	return f, nil
}

// lockedTemp makes the file that will become path, locked while its process lives,
// and removes those that killed processes left beside it: their locks are free.
func lockedTemp(path string) (*os.File, error) {
	pattern := "." + filepath.Base(path) + "-*" + partSuffix
	entries, err := os.ReadDir(filepath.Dir(path))
	if err != nil {
		return nil, err
	}
	prefix, suffix, _ := strings.Cut(pattern, "*")
	for _, e := range entries {
		if name := e.Name(); strings.HasPrefix(name, prefix) && strings.HasSuffix(name, suffix) && digits(name[len(prefix):len(name)-len(suffix)]) {
			removeUnlocked(filepath.Join(filepath.Dir(path), name))
		}
	}
	for {
		temp, err := os.CreateTemp(filepath.Dir(path), pattern)
		if err != nil {
			return nil, err
		}
		if err := unix.Flock(int(temp.Fd()), unix.LOCK_EX); err != nil {
			return nil, errors.Join(&os.PathError{Op: "flock", Path: temp.Name(), Err: err}, temp.Close(), os.Remove(temp.Name()))
		}
		// Another process may have taken it for a left one before it was locked.
		var st unix.Stat_t
		if err := unix.Fstat(int(temp.Fd()), &st); err == nil && st.Nlink > 0 {
			return temp, nil
		}
		if err := temp.Close(); err != nil {
			return nil, err
		}
	}
}

// partSuffix ends the names of files of predictions that are being written.
const partSuffix = ".part"

// digits tells that a name's middle is what os.CreateTemp puts there.
func digits(s string) bool {
	return s != "" && strings.Trim(s, "0123456789") == ""
}

// removeUnlocked removes a file that nobody holds a lock of. What cannot be removed
// stays: it is in nobody's way.
func removeUnlocked(path string) {
	f, err := os.Open(path)
	if err != nil {
		return
	}
	defer f.Close()
	if unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) == nil {
		os.Remove(path)
	}
}

func (f *predictionFile) add(ids, classes []int64) error {
	var row [16]byte
	for i, id := range ids {
		binary.LittleEndian.PutUint64(row[:8], uint64(id))
		binary.LittleEndian.PutUint64(row[8:], uint64(classes[i]))
		if _, err := f.w.Write(row[:]); err != nil {
			return err
		}
	}
	return nil
}

// publish gives the complete file its name.
func (f *predictionFile) publish() error {
	if err := f.w.Flush(); err != nil {
		return err
	}
	if err := f.temp.Chmod(0o644); err != nil {
		return err
	}
	if err := f.temp.Sync(); err != nil { // the name never stands for less than the whole
		return err
	}
	// Renamed while it is locked: another run would take it for a left one.
	if err := os.Rename(f.temp.Name(), f.path); err != nil {
		return err
	}
	temp := f.temp
	f.temp = nil
	return temp.Close()
}

// discard removes a file that was not published.
func (f *predictionFile) discard() {
	if f.temp != nil {
		f.temp.Close()
		os.Remove(f.temp.Name())
		f.temp = nil
	}
}
