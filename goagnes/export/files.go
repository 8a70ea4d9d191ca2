package export

// How files are opened, read and published: through storage, past which no
// injected fault slips.

import (
	"errors"
	"io"
	"io/fs"
	"path/filepath"

	"github.com/goagnes/goagnes/goagnes/storage"
	"github.com/goagnes/goagnes/layout"
)

// openOrMake opens a file for reading and writing, and makes it where it is
// missing.
func openOrMake(fsys storage.FS, path string) (*storage.File, error) {
	f, err := storage.OpenFile(fsys, path, storage.Flags{Write: true, Buffered: true})
	if errors.Is(err, fs.ErrNotExist) {
		f, err = storage.OpenFile(fsys, path, storage.Flags{Create: true, Buffered: true})
	}
	return f, err
}

// readWhole returns the bytes of a file of at most that many; nil and no error
// where it is not there.
func readWhole(fsys storage.FS, path string, most int64) ([]byte, error) {
	st, err := fsys.Stat(path) // asked first: opening a named pipe would hang
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if !st.Mode().IsRegular() || st.Size() > most {
		return nil, faultf(path, "no file of at most %d bytes", most)
	}
	f, err := storage.OpenFile(fsys, path, storage.Flags{Buffered: true})
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b := make([]byte, st.Size())
	if n, err := f.ReadAt(b, 0); n < len(b) {
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
func publish(fsys storage.FS, path string, b []byte) error {
	beside := path + ".new"
	f, err := openOrMake(fsys, beside)
	if err != nil {
		return err
	}
	if err = f.Truncate(0); err == nil {
		_, err = f.WriteAt(b, 0)
	}
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = fsys.Rename(beside, path, 0)
	}
	if err != nil {
		return err
	}
	return fsys.SyncDir(filepath.Dir(path))
}
