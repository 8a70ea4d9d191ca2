package formats

// Inputs that are read by seeking, .npz archives and Parquet files, and that are
// compressed once more as a whole: whoever opens them inflates them to a file first.
// What streams is inflated by its reader instead, at every scan.

import (
	"context"
	"errors"
	"io"
	"os"
	"strings"

	"github.com/goagnes/goagnes/layout/build/source"
	"github.com/goagnes/goagnes/layout/build/source/inflate"
	"github.com/goagnes/goagnes/layout/build/source/table"
)

// archiveMagic begins an .npz archive, as any zip file.
const archiveMagic = "PK"

// ErrNoRoom is returned by Unpack where a file inflates to more than there is room for.
var ErrNoRoom = errors.New("formats: no room to inflate a file")

// Packed reports whether the file at path is an archive or a Parquet file within gzip
// or zstd. Of what cannot be read it says no: whoever opens it says what is wrong.
func Packed(path string) bool {
	r := packed(path)
	if r == nil {
		return false
	}
	defer r.Close()
	var head [len(table.ParquetMagic)]byte
	_, err := io.ReadFull(r, head[:])
	return err == nil && (string(head[:]) == table.ParquetMagic || strings.HasPrefix(string(head[:]), archiveMagic))
}

// packed opens a compressed file, nil for any other.
func packed(path string) io.ReadCloser {
	if st, err := os.Stat(path); err != nil || !st.Mode().IsRegular() {
		return nil
	}
	r, err := inflate.Open(path)
	if err != nil {
		return nil
	}
	if _, compressed := r.(*inflate.Reader); !compressed {
		r.Close()
		return nil
	}
	return r
}

// Unpack inflates the file at path to a new file, of at most room bytes, and returns
// how many there are; ErrNoRoom where there would be more. It holds a mebibyte beside
// the decoder.
func Unpack(ctx context.Context, path, to string, room int64) (size int64, err error) {
	r, err := inflate.Open(path)
	if err != nil {
		return 0, err
	}
	defer r.Close()
	f, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return 0, err
	}
	defer func() {
		err = errors.Join(err, f.Close())
	}()
	buf := make([]byte, 1<<20)
	for ctx.Err() == nil {
		n, err := r.Read(buf)
		if int64(n) > room-size {
			return size, ErrNoRoom
		}
		if _, failed := f.Write(buf[:n]); failed != nil {
			return size, failed
		}
		size += int64(n)
		if err == io.EOF {
			return size, nil
		}
		if err != nil {
			return size, source.ErrorFrom(path, "cannot be read", err)
		}
	}
	return size, context.Cause(ctx)
}
