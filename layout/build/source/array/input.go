package array

// Arrays in files: a .npy file, plain or compressed, or a member of an .npz archive.
// Stored arrays are read at any position; compressed ones are streamed, or spilled to a scratch file
// where their element order needs positions.

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/goagnes/goagnes/layout/build/source"
	"github.com/goagnes/goagnes/layout/build/source/inflate"
	"github.com/goagnes/goagnes/layout/npy"
)

// Input names an array in a file and keeps what its header said.
type Input struct {
	Path   string
	member string // "" for a .npy file
	Raw    bool   // a file of elements without the numpy header; header is what they are taken for
	Header npy.Header
}

// Name is how messages call the array.
func (in *Input) Name() string {
	if in.member == "" {
		return in.Path
	}
	return in.Path + ": " + in.member
}

// Reading is an input during one scan.
type Reading struct {
	in      *Input
	at      io.ReaderAt // the elements; nil where they can only be streamed
	whole   io.Reader   // the elements of a file compressed as a whole, for one stream
	archive *npy.Archive
	closers []io.Closer
}

func (o *Reading) Close() {
	for _, c := range slices.Backward(o.closers) {
		c.Close()
	}
}

// NewInput reads the header of a .npy file, or of a member.
func NewInput(path, member string) (*Input, error) {
	in := &Input{Path: path, member: member}
	o, h, err := in.openAny()
	if err != nil {
		return nil, err
	}
	o.Close()
	in.Header = h
	return in, nil
}

// open opens the array for one scan and proves that it has not changed its form.
func (in *Input) open() (*Reading, error) {
	o, h, err := in.openAny()
	if err != nil {
		return nil, err
	}
	if h.DType != in.Header.DType || h.BigEndian != in.Header.BigEndian || h.Fortran != in.Header.Fortran ||
		h.DataOffset != in.Header.DataOffset || !slices.Equal(h.Shape, in.Header.Shape) {
		o.Close()
		return nil, source.Errorf(in.Name(), "the array changed while it was being read; leave inputs alone during a build")
	}
	return o, nil
}

func (in *Input) openAny() (*Reading, npy.Header, error) {
	if in.member != "" {
		a, err := npy.OpenArchive(in.Path)
		if err != nil {
			return nil, npy.Header{}, err
		}
		h, s, err := a.Section(in.member)
		if err != nil {
			a.Close()
			return nil, npy.Header{}, err
		}
		o := &Reading{in: in, archive: a, closers: []io.Closer{a}}
		if s != nil {
			o.at = s
		}
		return o, h, nil
	}
	f, err := os.Open(in.Path)
	if err != nil {
		return nil, npy.Header{}, source.ErrorFrom(in.Path, "cannot be opened", err)
	}
	if in.Raw {
		if err := checkSize(f, in.Header); err != nil {
			f.Close()
			return nil, npy.Header{}, named(err, in.Path)
		}
		return &Reading{in: in, at: io.NewSectionReader(f, 0, in.Header.DataBytes()), closers: []io.Closer{f}}, in.Header, nil
	}
	r, err := inflate.Through(f, in.Path)
	if err != nil {
		f.Close()
		return nil, npy.Header{}, err
	}
	h, err := npy.ReadHeader(r)
	z, compressed := r.(*inflate.Reader)
	if err == nil && !compressed {
		err = checkSize(f, h)
	}
	if err != nil {
		r.Close()
		return nil, npy.Header{}, named(err, in.Path)
	}
	if compressed {
		return &Reading{in: in, whole: &exactReader{r: z, left: h.DataBytes()}, closers: []io.Closer{r}}, h, nil
	}
	at := io.NewSectionReader(f, h.DataOffset, h.DataBytes())
	return &Reading{in: in, at: at, closers: []io.Closer{f}}, h, nil
}

func checkSize(f *os.File, h npy.Header) error {
	st, err := f.Stat()
	if err != nil {
		return err
	}
	if have := st.Size() - h.DataOffset; have < h.DataBytes() {
		return &npy.Error{Msg: fmt.Sprintf("%d bytes of elements, where the header asks for %d; the file is cut", have, h.DataBytes())}
	}
	return nil
}

// named puts a file's name to an error of package npy.
func named(err error, path string) error {
	var e *npy.Error
	if errors.As(err, &e) && e.File == "" {
		return &npy.Error{File: path, Member: e.Member, Msg: e.Msg, Unsupported: e.Unsupported, Err: e.Err}
	}
	return err
}

// stream returns a reader of the elements from byte skip on. Skipping may take
// long in a deflated member, and ends with the context.
func (o *Reading) stream(ctx context.Context, skip int64) (io.Reader, error) {
	total := o.in.Header.DataBytes()
	// A stored member is read through the archive where that costs nothing, because
	// its checksum is verified there.
	if o.at != nil && (o.archive == nil || skip > 0) {
		return io.NewSectionReader(o.at, skip, total-skip), nil
	}
	if o.archive == nil {
		return o.streamWhole(ctx, skip)
	}
	_, rc, err := o.archive.Open(o.in.member)
	if err != nil {
		return nil, err
	}
	o.closers = append(o.closers, rc)
	if _, err := io.CopyN(io.Discard, contextReader{ctx, rc}, skip); err != nil {
		return nil, o.fail(err)
	}
	return rc, nil
}

// streamWhole streams a file compressed as a whole, opened again for every stream
// but the first.
func (o *Reading) streamWhole(ctx context.Context, skip int64) (io.Reader, error) {
	r := o.whole
	o.whole = nil
	if r == nil {
		again, err := o.in.open()
		if err != nil {
			return nil, err
		}
		o.closers = append(o.closers, closerFunc(again.Close))
		r = again.whole
	}
	if _, err := io.CopyN(io.Discard, contextReader{ctx, r}, skip); err != nil {
		return nil, o.fail(err)
	}
	return r, nil
}

type closerFunc func()

func (c closerFunc) Close() error { c(); return nil }

// exactReader gives the next left bytes of r. With the last of them it reads on to
// the end of r, where checksums are compared, and refuses what lies beyond.
type exactReader struct {
	r    io.Reader
	left int64
	err  error
}

func (e *exactReader) Read(b []byte) (int, error) {
	if e.err != nil {
		return 0, e.err
	}
	n := 0
	if e.left > 0 {
		n, e.err = e.r.Read(b[:min(int64(len(b)), e.left)])
		if e.left -= int64(n); e.left > 0 {
			if e.err == io.EOF {
				e.err = io.ErrUnexpectedEOF
			}
			return n, e.err
		}
	}
	if e.err == nil {
		var one [1]byte
		switch k, err := io.ReadFull(e.r, one[:]); {
		case k > 0:
			e.err = errors.New("more bytes than the header asks for")
		default:
			e.err = err
		}
	}
	if e.err != io.EOF {
		return 0, e.err // the last bytes are not handed out: their checksum may be wrong
	}
	if n == 0 {
		return 0, io.EOF
	}
	return n, nil
}

// spill makes a streamed array readable at any position, through a scratch file
// in dir that is gone as soon as the scan ends, however it ends.
func (o *Reading) spill(ctx context.Context, dir string) error {
	if o.at != nil {
		return nil
	}
	f, err := os.CreateTemp(dir, "goagnes-spill-*")
	if err != nil {
		return source.ErrorFrom(o.in.Name(), "needs a scratch file", err)
	}
	o.closers = append(o.closers, f)
	// The file lives on without a name until it is closed.
	if err := os.Remove(f.Name()); err != nil {
		return source.ErrorFrom(o.in.Name(), "needs a scratch file", err)
	}
	r, err := o.stream(ctx, 0)
	if err != nil {
		return err
	}
	s := newSpilled(f)
	if err := s.fill(contextReader{ctx, r}, o.in.Header.DataBytes()); err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return source.ErrorFrom(o.in.Name(), "cannot be spilled to a scratch file", err)
	}
	o.at = s
	return nil
}

// contextReader ends a long copy with its context.
type contextReader struct {
	ctx context.Context
	r   io.Reader
}

func (c contextReader) Read(b []byte) (int, error) {
	if err := c.ctx.Err(); err != nil {
		return 0, err
	}
	return c.r.Read(b)
}

// fail names the array in an error of reading.
func (o *Reading) fail(err error) error {
	var e *npy.Error
	var scratch *ScratchError
	if errors.As(err, &e) || errors.As(err, &scratch) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return source.ErrorFrom(o.in.Name(), "the array ends early", io.ErrUnexpectedEOF)
	}
	return source.ErrorFrom(o.in.Name(), "cannot be read", err)
}
