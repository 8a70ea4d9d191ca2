package storage

// Files that are spread over several directories, in units that go to them in
// turn (layout.StripeAt). A request on such a file becomes requests on its
// parts, which are at their devices together.

import (
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"

	"github.com/goagnes/goagnes/layout"
)

// stripes are the parts of a striped File.
type stripes struct {
	unit  int64
	first int // part that holds the first unit
	parts []*File
}

// OpenStriped opens a file whose parts are called name and lie in the given
// directories, in units of unit bytes that go to them in turn; which is first
// depends on the name (layout.StripeFirst). The zero Flags open existing parts
// for direct reading, and Create makes all of them or none.
func OpenStriped(fsys FS, dirs []string, name string, unit int64, flags Flags) (*File, error) {
	if len(dirs) == 0 || unit < layout.PageSize || unit%layout.PageSize != 0 {
		panic("storage: a striped file needs directories and a unit of whole pages")
	}
	paths := make([]string, len(dirs))
	for i, dir := range dirs {
		paths[i] = filepath.Join(dir, name)
	}
	f := &File{path: paths[0], striped: &stripes{unit: unit, first: layout.StripeFirst(name, len(dirs))}, buffered: flags.Buffered}
	if flags.Scratch {
		f.role, f.key = roleScratch, rand.Uint64()
	}
	for i, path := range paths {
		part, err := OpenFile(fsys, path, flags)
		if err != nil {
			f.Close()
			if flags.Create {
				for _, made := range f.striped.parts {
					made.fsys.Remove(made.path)
				}
			}
			return nil, err
		}
		part.stripe = i + 1
		f.striped.parts = append(f.striped.parts, part)
	}
	return f, nil
}

// each calls do for the range of every part that holds a piece of the n bytes
// from offset on: at is the piece's place in them.
func (s *stripes) each(offset, n int64, do func(part *File, offset, at, n int64) error) error {
	for at := int64(0); at < n; {
		i, off := layout.StripeAt(offset+at, s.unit, len(s.parts), s.first)
		piece := min(s.unit-(offset+at)%s.unit, n-at)
		if err := do(s.parts[i], off, at, piece); err != nil {
			return err
		}
		at += piece
	}
	return nil
}

// transfer is File.transfer on the parts, one after the other.
func (s *stripes) transfer(b []byte, offset int64, write bool) (int, error) {
	done := 0
	err := s.each(offset, int64(len(b)), func(part *File, off, at, n int64) error {
		m, err := part.transfer(b[at:at+n], off, write)
		done += m
		return err
	})
	return done, err
}

// all calls do for every part and its share of a file of n bytes.
func (s *stripes) all(n int64, do func(part *File, n int64) error) error {
	var errs []error
	for i, part := range s.parts {
		errs = append(errs, do(part, layout.StripeBytes(n, s.unit, len(s.parts), s.first, i)))
	}
	return errors.Join(errs...)
}

func (s *stripes) size() (int64, error) {
	total := int64(0)
	for _, part := range s.parts {
		n, err := part.Size()
		if err != nil {
			return 0, err
		}
		total += n
	}
	return total, nil
}

// split makes the requests on the parts of r's file. The last of them to end
// completes r.
func (r *Request) split() []Request {
	s := r.File.striped
	r.parts = r.parts[:0]
	_ = s.each(r.Offset, int64(len(r.Buf)), func(part *File, off, at, n int64) error {
		r.parts = append(r.parts, Request{File: part, Offset: off, Buf: r.Buf[at : at+n : at+n], Write: r.Write, parent: r, at: at})
		return nil
	})
	atomic.StoreInt32(&r.open, int32(len(r.parts)))
	return r.parts
}

// ended notes that a request on a part is done; true for the last of them, when
// r has their first error.
func (r *Request) ended() bool {
	if atomic.AddInt32(&r.open, -1) > 0 {
		return false
	}
	for i := range r.parts {
		if r.Err = r.parts[i].Err; r.Err != nil {
			break
		}
	}
	r.parts = slices.Delete(r.parts, 0, len(r.parts)) // no pointers to buffers are kept
	return true
}

// atEnd is the error of a read that ended n bytes into r.
func (r *Request) atEnd(n int64) error {
	top, at := r, n
	if r.parent != nil {
		top, at = r.parent, r.at+n
	}
	if top.Check != nil {
		return top.Check.truncated(top.Offset + at)
	}
	return r.File.fail("read", r.Offset+n, io.ErrUnexpectedEOF)
}

// CheckStripes checks that each directory is the stripe directory of the store
// whose manifest m is, in its place.
func CheckStripes(fsys FS, m *layout.Manifest, dirs []string) error {
	if len(dirs) != m.Settings.Stripes {
		return layout.Errorf(layout.Corrupt, layout.ManifestFile, "the store is striped over %d directories, %d are named", m.Settings.Stripes, len(dirs))
	}
	for i, dir := range dirs {
		if err := CheckStripe(fsys, m, i, dir); err != nil {
			return err
		}
	}
	return nil
}

// CheckStripe checks that dir is stripe directory i of the store whose manifest
// m is.
func CheckStripe(fsys FS, m *layout.Manifest, i int, dir string) error {
	path := filepath.Join(dir, layout.StripeFile)
	st, err := orOS(fsys).Stat(path)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return layout.Errorf(layout.Corrupt, layout.StripeFile, "stripe directory %s is missing or has no such file: mount its device, or name the store's directories with stripes", dir)
	case err != nil:
		return (&File{path: path}).fail("stat", -1, err)
	case !st.Mode().IsRegular() || st.Size() > layout.PageSize:
		return layout.Errorf(layout.Corrupt, layout.StripeFile, "%s is not the file of a stripe directory", path)
	}
	f, err := OpenFile(fsys, path, Flags{Buffered: true})
	if err != nil {
		return err
	}
	b := make([]byte, st.Size())
	n, err := f.ReadAt(b, 0)
	f.Close()
	if err != nil && err != io.EOF {
		return err
	}
	err = layout.CheckStripe(b[:n], layout.Stripe{ID: m.ID, Index: i, Count: m.Settings.Stripes})
	var bad *layout.Error
	if errors.As(err, &bad) {
		bad.Msg = dir + ": " + bad.Msg
	}
	return err
}
