package storage

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// MappedFile is a file mapped for reading. Its bytes are valid until Close; a
// file that is cut short meanwhile ends the process that reads beyond its end,
// so Holds is to be asked first.
type MappedFile struct {
	file  Handle
	bytes []byte
}

// MapFile maps a whole file, which must not be empty. fsys nil is OS; its files
// must have descriptors.
func MapFile(fsys FS, path string) (*MappedFile, error) {
	at := &File{path: path}
	st, err := orOS(fsys).Stat(path) // asked first: opening a named pipe would hang
	if err == nil && (!st.Mode().IsRegular() || st.Size() == 0) {
		return nil, at.fail("map", -1, errors.New("no file with contents"))
	}
	if err != nil {
		return nil, at.fail("open", -1, err)
	}
	f, err := orOS(fsys).OpenFile(path, os.O_RDONLY, 0)
	if err != nil {
		return nil, at.fail("open", -1, err)
	}
	size, err := f.Size()
	var b []byte
	if err == nil {
		b, err = unix.Mmap(f.Fd(), 0, int(size), unix.PROT_READ, unix.MAP_SHARED)
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
	size, err := m.file.Size()
	return err == nil && size >= int64(len(m.bytes))
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
