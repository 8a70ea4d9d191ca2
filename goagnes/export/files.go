package export

// The few ways in which files are reached, small enough for a test to stand in
// the way of each.

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/goagnes/goagnes/goagnes/storage"
	"github.com/goagnes/goagnes/layout"
)

// handle is an open file.
type handle interface {
	io.ReaderAt
	io.WriterAt
	Sync() error
	Truncate(size int64) error
	Close() error
}

// files is the file system that a Writer writes through.
type files interface {
	OpenFile(path string, flags int, perm fs.FileMode) (handle, error)
	Rename(from, to string) error
	Remove(path string) error
	RemoveAll(path string) error
	Mkdir(path string, perm fs.FileMode) error
	SyncDir(path string) error
}

type osFiles struct{}

func (osFiles) OpenFile(path string, flags int, perm fs.FileMode) (handle, error) {
	f, err := os.OpenFile(path, flags, perm)
	if err != nil {
		return nil, err
	}
	return f, nil
}
func (osFiles) Rename(from, to string) error              { return os.Rename(from, to) }
func (osFiles) Remove(path string) error                  { return os.Remove(path) }
func (osFiles) RemoveAll(path string) error               { return os.RemoveAll(path) }
func (osFiles) Mkdir(path string, perm fs.FileMode) error { return os.Mkdir(path, perm) }
func (osFiles) SyncDir(path string) error                 { return storage.OS.SyncDir(path) }

// readWhole returns the bytes of a file of at most that many; nil and no error
// where it is not there.
func readWhole(path string, most int64) ([]byte, error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !st.Mode().IsRegular() || st.Size() > most {
		return nil, faultf(path, "no file of at most %d bytes", most)
	}
	b := make([]byte, st.Size())
	if _, err := io.ReadFull(f, b); err != nil {
		return nil, err
	}
	return b, nil
}

// crcOf returns the CRC32C of n bytes of a file from offset on, read through buf.
func crcOf(f io.ReaderAt, offset, n int64, buf []byte) (uint32, error) {
	crc := uint32(0)
	for n > 0 {
		part := buf[:min(n, int64(len(buf)))]
		if got, err := f.ReadAt(part, offset); got < len(part) {
			return 0, err
		}
		crc = layout.AppendCRC(crc, part)
		offset, n = offset+int64(len(part)), n-int64(len(part))
	}
	return crc, nil
}

// publish writes a file beside its name, syncs it and renames it into place.
func publish(fsys files, path string, b []byte) error {
	beside := path + ".new"
	f, err := fsys.OpenFile(beside, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o644)
	if err != nil {
		return err
	}
	_, err = f.WriteAt(b, 0)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = fsys.Rename(beside, path)
	}
	if err != nil {
		return err
	}
	return fsys.SyncDir(filepath.Dir(path))
}
