package npy

// .npz archives: zip files whose members are .npy files. Reading streams stored
// and deflated members; writing stores. Both use zip64 where sizes need it.

import (
	"archive/zip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"strings"

	"github.com/goagnes/goagnes/layout"
)

// MaxMembers bounds the members of an archive.
const MaxMembers = 1 << 16

// Archive reads an .npz file. It may be used from several goroutines.
type Archive struct {
	path    string
	file    *os.File
	names   []string
	members map[string]*zip.File
}

// OpenArchive opens an .npz file and reads its directory. Members whose names do
// not end in ".npy" are passed over. Errors are of type *Error.
func OpenArchive(path string) (*Archive, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, &Error{File: path, Msg: "cannot be opened", Err: err}
	}
	a, err := readArchive(path, f)
	if err != nil {
		f.Close()
		return nil, err
	}
	return a, nil
}

func readArchive(path string, f *os.File) (*Archive, error) {
	st, err := f.Stat()
	if err != nil {
		return nil, &Error{File: path, Msg: "cannot be examined", Err: err}
	}
	z, err := zip.NewReader(f, st.Size())
	// Names are only ever looked up, never used as paths.
	if err != nil && !errors.Is(err, zip.ErrInsecurePath) {
		return nil, &Error{File: path, Msg: "no readable .npz archive", Err: err}
	}
	if len(z.File) > MaxMembers {
		return nil, &Error{File: path, Msg: fmt.Sprintf("%d members; at most %d are read", len(z.File), MaxMembers)}
	}
	a := &Archive{path: path, file: f, members: make(map[string]*zip.File, len(z.File))}
	for _, m := range z.File {
		name, ok := strings.CutSuffix(m.Name, ".npy")
		if !ok {
			continue
		}
		if a.members[name] != nil {
			return nil, &Error{File: path, Member: name, Msg: "two members of this name"}
		}
		a.members[name] = m
		a.names = append(a.names, name)
	}
	return a, nil
}

// Close closes the file. Readers of members must not be used afterwards.
func (a *Archive) Close() error { return a.file.Close() }

// Names lists the members in the order of the archive, without ".npy".
func (a *Archive) Names() []string { return a.names }

// Has reports whether there is a member of this name.
func (a *Archive) Has(name string) bool { return a.members[name] != nil }

func (a *Archive) fail(name string, err error) error {
	var e *Error
	if errors.As(err, &e) {
		return &Error{File: a.path, Member: name, Msg: e.Msg, Unsupported: e.Unsupported, Err: e.Err}
	}
	return &Error{File: a.path, Member: name, Msg: "cannot be read", Err: err}
}

// Open reads the header of a member and returns a reader of its elements, which
// gives exactly Header.DataBytes bytes or an *Error: the sizes of header and
// directory must agree, and the archive's checksum is verified before the last
// bytes are handed out.
// A missing member gives an error that wraps fs.ErrNotExist.
func (a *Archive) Open(name string) (Header, io.ReadCloser, error) {
	m := a.members[name]
	if m == nil {
		return Header{}, nil, &Error{File: a.path, Member: name, Msg: "no such member", Err: fs.ErrNotExist}
	}
	rc, err := m.Open()
	if err != nil {
		if errors.Is(err, zip.ErrAlgorithm) {
			return Header{}, nil, &Error{File: a.path, Member: name, Unsupported: true,
				Msg: fmt.Sprintf("compressed by zip method %d; stored and deflated members are read", m.Method)}
		}
		return Header{}, nil, a.fail(name, err)
	}
	h, err := ReadHeader(rc)
	if err == nil && m.UncompressedSize64 != uint64(h.DataOffset+h.DataBytes()) {
		err = failed("%d bytes, where the header asks for %d", m.UncompressedSize64, h.DataOffset+h.DataBytes())
	}
	if err != nil {
		rc.Close()
		return Header{}, nil, a.fail(name, err)
	}
	return h, &member{a: a, name: name, rc: rc, left: h.DataBytes()}, nil
}

// Section returns the elements of a stored (not deflated) member for reads at
// any position; nil where the member is deflated. The archive's checksum does not
// cover such reads.
func (a *Archive) Section(name string) (Header, *io.SectionReader, error) {
	m := a.members[name]
	if m == nil {
		return Header{}, nil, &Error{File: a.path, Member: name, Msg: "no such member", Err: fs.ErrNotExist}
	}
	if m.Method != zip.Store {
		h, rc, err := a.Open(name)
		if err != nil {
			return Header{}, nil, err
		}
		return h, nil, rc.Close()
	}
	start, err := m.DataOffset()
	if err != nil {
		return Header{}, nil, a.fail(name, err)
	}
	if m.UncompressedSize64 > math.MaxInt64 || m.CompressedSize64 != m.UncompressedSize64 {
		return Header{}, nil, a.fail(name, failed("a stored member of unequal sizes"))
	}
	whole := io.NewSectionReader(a.file, start, int64(m.UncompressedSize64))
	h, err := ReadHeader(whole)
	if err == nil && whole.Size() != h.DataOffset+h.DataBytes() {
		err = failed("%d bytes, where the header asks for %d", whole.Size(), h.DataOffset+h.DataBytes())
	}
	if err != nil {
		return Header{}, nil, a.fail(name, err)
	}
	return h, io.NewSectionReader(a.file, start+h.DataOffset, h.DataBytes()), nil
}

// member reads the elements of a member and names it in errors.
type member struct {
	a    *Archive
	name string
	rc   io.ReadCloser
	left int64 // bytes of elements not read yet
	end  error // what the end of the member gave, once it was read
}

func (m *member) Read(b []byte) (int, error) {
	n := 0
	if m.left > 0 {
		var err error
		n, err = m.rc.Read(b[:min(int64(len(b)), m.left)])
		m.left -= int64(n)
		if err != nil && (err != io.EOF || m.left > 0) {
			if err == io.EOF {
				err = io.ErrUnexpectedEOF
			}
			m.left, m.end = 0, m.a.fail(m.name, err)
			return 0, m.end
		}
		if m.left > 0 {
			return n, nil
		}
	}
	if m.end == nil {
		// The checksum is compared where the member ends, past the last byte.
		var one [1]byte
		switch k, err := io.ReadFull(m.rc, one[:]); {
		case k > 0:
			m.end = m.a.fail(m.name, failed("more bytes than its header asks for"))
		case err != io.EOF:
			m.end = m.a.fail(m.name, err)
		default:
			m.end = io.EOF
		}
	}
	if m.end != io.EOF || n == 0 {
		// The last bytes are kept back, here and above: readers that ask for
		// exactly the elements forget an error that comes with them.
		return 0, m.end
	}
	return n, nil
}

func (m *member) Close() error { return m.rc.Close() }

// ArchiveWriter writes an .npz file whose members are stored. Its output depends
// on the arrays alone: no time stamps are written.
type ArchiveWriter struct {
	z     *zip.Writer
	names map[string]bool
}

// NewArchiveWriter starts an archive on w.
func NewArchiveWriter(w io.Writer) *ArchiveWriter {
	return &ArchiveWriter{z: zip.NewWriter(w), names: map[string]bool{}}
}

// Add writes a member name (without ".npy") of little-endian elements in C order
// and streams exactly their bytes from data; fewer are an error, and whether
// there are more is not looked at.
func (w *ArchiveWriter) Add(name string, d layout.DType, shape []int64, data io.Reader) error {
	if w.names[name] {
		return &Error{Member: name, Msg: "this member was written already"}
	}
	w.names[name] = true
	m, err := w.z.CreateHeader(&zip.FileHeader{Name: name + ".npy", Method: zip.Store})
	if err != nil {
		return &Error{Member: name, Msg: "cannot be written", Err: err}
	}
	if _, err := WriteHeader(m, d, shape); err != nil {
		return &Error{Member: name, Msg: "cannot be written", Err: err}
	}
	h := Header{DType: d, Shape: shape}
	if n, err := io.CopyN(m, data, h.DataBytes()); err != nil {
		return &Error{Member: name, Msg: fmt.Sprintf("%d of %d bytes were written", n, h.DataBytes()), Err: err}
	}
	return nil
}

// Close writes the directory. It does not close the underlying writer.
func (w *ArchiveWriter) Close() error { return w.z.Close() }
