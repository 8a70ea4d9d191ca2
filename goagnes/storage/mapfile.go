package storage

import (
	"errors"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// MappedFile is a file mapped for reading. Its bytes are valid until Close; a
// file that is cut short meanwhile ends the process that reads beyond its end,
// so Holds is to be asked first.
type MappedFile struct {
	file  *os.File
	bytes []byte
}

// MapFile maps a whole file, which must not be empty.
func MapFile(path string) (*MappedFile, error) {
	at := &File{path: path}
	f, err := os.Open(filepath.Clean(path))
	if err != nil {
		return nil, at.fail("open", -1, err)
	}
	st, err := f.Stat()
	if err == nil && (!st.Mode().IsRegular() || st.Size() == 0) {
		err = errors.New("no file with contents")
	}
	var b []byte
	if err == nil {
		b, err = unix.Mmap(int(f.Fd()), 0, int(st.Size()), unix.PROT_READ, unix.MAP_SHARED)
	}
	if err != nil {
		f.Close()
		return nil, at.fail("map", -1, err)
	}
	return &MappedFile{f, b}, nil
}

// Bytes returns the file's bytes as of its opening. They cannot be written to.
func (m *MappedFile) Bytes() []byte { return m.bytes }

// Holds tells whether the file still is as long as it was.
func (m *MappedFile) Holds() bool {
	st, err := m.file.Stat()
	return err == nil && st.Size() >= int64(len(m.bytes))
}

// Close unmaps the file. Closing twice does nothing.
func (m *MappedFile) Close() error {
	if m.bytes == nil {
		return nil
	}
	if err := unix.Munmap(m.bytes); err != nil {
		panic("storage: a file cannot be unmapped: " + err.Error())
	}
	m.bytes = nil
	return m.file.Close()
}
