// The file of predictions: written beside its name, renamed when complete.
package main

import (
	"bufio"
	"encoding/binary"
	"os"
	"path/filepath"

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
	temp, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-*")
	if err != nil {
		return nil, err
	}
	f := &predictionFile{path: path, temp: temp, w: bufio.NewWriterSize(temp, 1<<20)}
	if _, err := npy.WriteHeader(f.w, layout.Int64, []int64{rows, 2}); err != nil {
		f.discard()
		return nil, err
	}
	return f, nil
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
	if err := f.temp.Close(); err != nil {
		return err
	}
	name := f.temp.Name()
	f.temp = nil
	if err := os.Rename(name, f.path); err != nil {
		os.Remove(name)
		return err
	}
	return nil
}

// discard removes a file that was not published.
func (f *predictionFile) discard() {
	if f.temp != nil {
		f.temp.Close()
		os.Remove(f.temp.Name())
		f.temp = nil
	}
}
