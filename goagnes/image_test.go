package goagnes_test

// Images of stores: all files of a store in memory, under the file system that
// the engine reads, so that a test can damage any byte and see which are read.

import (
	"bytes"
	"context"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/goagnes/goagnes/goagnes"
	"github.com/goagnes/goagnes/goagnes/storage"
	"github.com/goagnes/goagnes/layout"
)

// image is a store in memory. It is a storage.FS: what is not a file of the
// store is the operating system's.
type image struct {
	storage.FS
	dir     string
	stripes []string
	m       *layout.Manifest
	files   map[string][]byte // by path; nil: the file is missing

	mu      sync.Mutex
	touched map[extent]bool // reads since the last look
}

// readImage reads the files of a store and of its stripe directories.
func readImage(t testing.TB, dir string, stripes []string) *image {
	t.Helper()
	im := &image{FS: storage.OS, dir: dir, stripes: stripes, files: map[string][]byte{}, touched: map[extent]bool{}}
	for _, d := range append([]string{dir}, stripes...) {
		list, err := os.ReadDir(d)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range list {
			path := filepath.Join(d, e.Name())
			if im.files[path], err = os.ReadFile(path); err != nil {
				t.Fatal(err)
			}
		}
	}
	var err error
	if im.m, err = layout.DecodeManifest(im.files[filepath.Join(dir, layout.ManifestFile)]); err != nil {
		t.Fatal(err)
	}
	return im
}

// copy returns an image whose files can be changed apart from this one's.
func (im *image) copy() *image {
	c := &image{FS: im.FS, dir: im.dir, stripes: im.stripes, m: im.m, files: map[string][]byte{}, touched: map[extent]bool{}}
	for path, b := range im.files {
		c.files[path] = bytes.Clone(b)
	}
	return c
}

func (im *image) path(name string) string { return filepath.Join(im.dir, name) }

// spread says where n bytes from offset at of a section lie.
func (im *image) spread(s *layout.Section, at, n int64) (list []extent) {
	k, unit := len(im.stripes), im.m.Settings.StripeUnit
	for n > 0 {
		e := extent{im.path(s.File), at, at + n, at}
		if k > 0 {
			stripe, off := layout.StripeAt(at, unit, k, layout.StripeFirst(s.File, k))
			e.path = filepath.Join(im.stripes[stripe], s.File)
			e.from, e.to = off, off+min(n, unit-at%unit)
		}
		list = append(list, e)
		at, n = at+e.to-e.from, n-(e.to-e.from)
	}
	return list
}

// section returns the bytes of a section, padding included.
func (im *image) section(s *layout.Section) (b []byte) {
	for _, e := range im.spread(s, 0, s.FileBytes()) {
		b = append(b, im.files[e.path][e.from:e.to]...)
	}
	return b
}

// verify verifies the store; an error is reported as a fault of the test's.
func (im *image) verify(t testing.TB) *goagnes.VerifyReport {
	t.Helper()
	report, err := goagnes.Verify(context.Background(), im.dir, goagnes.VerifyOptions{FS: im, Stripes: im.stripes, IO: storage.IOBuffered})
	if err != nil {
		t.Fatalf("%s: %v", im.dir, err)
	}
	return report
}

func (im *image) open(o goagnes.OpenOptions) (*goagnes.Store, error) {
	o.FS, o.Stripes, o.IO = im, im.stripes, storage.IOBuffered
	return goagnes.Open(im.dir, o)
}

// look returns what was read since the last look.
func (im *image) look() map[extent]bool {
	im.mu.Lock()
	defer im.mu.Unlock()
	seen := im.touched
	im.touched = map[extent]bool{}
	return seen
}

// OpenFile implements storage.FS.
func (im *image) OpenFile(path string, flags int, perm fs.FileMode) (storage.Handle, error) {
	b, ok := im.files[filepath.Clean(path)]
	switch {
	case !ok:
		return im.FS.OpenFile(path, flags, perm)
	case b == nil:
		return nil, &fs.PathError{Op: "open", Path: path, Err: fs.ErrNotExist}
	case flags&(unix.O_WRONLY|unix.O_RDWR|unix.O_CREAT|unix.O_TRUNC) != 0:
		return nil, &fs.PathError{Op: "open", Path: path, Err: unix.EROFS}
	}
	return &imageFile{im, filepath.Clean(path)}, nil
}

// Stat implements storage.FS.
func (im *image) Stat(path string) (fs.FileInfo, error) {
	b, ok := im.files[filepath.Clean(path)]
	switch {
	case !ok:
		return im.FS.Stat(path)
	case b == nil:
		return nil, &fs.PathError{Op: "stat", Path: path, Err: fs.ErrNotExist}
	}
	return imageInfo{filepath.Base(path), int64(len(b))}, nil
}

// Lstat implements storage.FS.
func (im *image) Lstat(path string) (fs.FileInfo, error) { return im.Stat(path) }

type imageInfo struct {
	name string
	size int64
}

func (i imageInfo) Name() string       { return i.name }
func (i imageInfo) Size() int64        { return i.size }
func (i imageInfo) Mode() fs.FileMode  { return 0o444 }
func (i imageInfo) ModTime() time.Time { return time.Time{} }
func (i imageInfo) IsDir() bool        { return false }
func (i imageInfo) Sys() any           { return nil }

// imageFile is an open file of an image.
type imageFile struct {
	im   *image
	path string
}

func (f *imageFile) ReadAt(b []byte, at int64) (int, error) {
	f.im.mu.Lock()
	defer f.im.mu.Unlock()
	whole := f.im.files[f.path]
	if at >= int64(len(whole)) {
		return 0, io.EOF
	}
	n := copy(b, whole[at:])
	f.im.touched[extent{f.path, at, at + int64(n), at}] = true
	if n < len(b) {
		return n, io.EOF
	}
	return n, nil
}

func (f *imageFile) WriteAt([]byte, int64) (int, error) { return 0, unix.EROFS }
func (f *imageFile) Sync() error                        { return unix.EROFS }
func (f *imageFile) Truncate(int64) error               { return unix.EROFS }
func (f *imageFile) Allocate(int64) error               { return unix.EROFS }
func (f *imageFile) Size() (int64, error)               { return int64(len(f.im.files[f.path])), nil }
func (f *imageFile) Fd() int                            { return -1 }
func (f *imageFile) Close() error                       { return nil }
