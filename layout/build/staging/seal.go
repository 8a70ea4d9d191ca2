package staging

// Sections under construction, and the seal of a finished store: build id,
// checksum tables, manifest.

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"github.com/goagnes/goagnes/goagnes/storage"
	"github.com/goagnes/goagnes/layout"
	"github.com/goagnes/goagnes/layout/build/fault"
	"github.com/goagnes/goagnes/layout/build/ledger"
)

// Section is a section being written. Its plain page checksums go to a file in
// scratch until the build id, which salts them, is known.
type Section struct {
	b        *Store
	Sec      layout.Section
	w        *storage.Writer
	sums     *storage.File
	buffered *bufio.Writer
	written  digest // of what is in sums
	charged  int64
}

// digest is the length and the CRC32C of bytes that pass by.
type digest struct {
	n   int64
	crc uint32
}

func (d *digest) add(b []byte) { *d = digest{d.n + int64(len(b)), layout.AppendCRC(d.crc, b)} }

// digestWriter takes the digest of what it writes.
type digestWriter struct {
	io.Writer
	digest *digest
}

func (w digestWriter) Write(b []byte) (int, error) {
	n, err := w.Writer.Write(b)
	w.digest.add(b[:n])
	return n, err
}

// Create begins a section whose file is named after it.
func (b *Store) Create(sec layout.Section) (*Section, error) {
	sec.File = sec.Name
	s := &Section{b: b, Sec: sec}
	n := 2*int64(b.Buffer) + 4*layout.PageSize
	if err := b.Mem.Charge("buffers of "+sec.Name, n); err != nil {
		return nil, err
	}
	s.charged = n
	var err error
	if s.sums, err = storage.OpenFile(b.FS, b.sumsPath(sec.Name), storage.Flags{Create: true, Scratch: true, Buffered: true}); err != nil {
		s.Abort()
		return nil, fault.IO(err, "making a scratch file")
	}
	s.buffered = bufio.NewWriterSize(digestWriter{io.NewOffsetWriter(s.sums, 0), &s.written}, 4*layout.PageSize)
	if dirs := b.stripes.dirs; len(dirs) > 0 {
		s.w, err = storage.NewStripedWriter(b.Pool, dirs, sec.File, b.unit, b.Buffer, s.buffered)
	} else {
		s.w, err = storage.NewWriter(b.Pool, filepath.Join(b.stage.dir, sec.File), b.Buffer, s.buffered)
	}
	if err != nil {
		s.Abort()
		return nil, err
	}
	// Where the size is known the file grows once, and a full disk is found early.
	if n := sec.Rows * sec.Stride(); sec.Kind == layout.KindArray && n >= 1<<20 {
		if err := s.w.Preallocate(n); err != nil {
			s.Abort()
			return nil, err
		}
	}
	return s, nil
}

func (b *Store) sumsPath(name string) string {
	return filepath.Join(b.Scratch.Dir(), "sums-"+name)
}

// Write appends to the section.
func (s *Section) Write(p []byte) error {
	_, err := s.w.Write(p)
	return err
}

// Close pads, syncs and closes the section and hands it to the manifest.
func (s *Section) Close() error {
	if s.w == nil {
		return nil
	}
	s.Sec.Bytes = s.w.Bytes()
	err := s.w.Close()
	s.w = nil
	if ferr := s.buffered.Flush(); err == nil && ferr != nil {
		err = fault.IO(ferr, "writing a scratch file")
	}
	if cerr := s.sums.Close(); err == nil && cerr != nil {
		err = fault.IO(cerr, "closing a scratch file")
	}
	s.sums = nil
	s.b.Mem.Discharge(s.charged)
	s.charged = 0
	if err == nil {
		s.b.sections = append(s.b.sections, s.Sec)
		s.b.sums[s.Sec.Name] = s.written
	}
	return err
}

// Abort closes the section's files after a failure; the staging directory and
// scratch are removed as a whole. After close it does nothing.
func (s *Section) Abort() {
	if s == nil {
		return
	}
	if s.w != nil {
		_ = s.w.Abort()
		s.w = nil
	}
	if s.sums != nil {
		s.sums.Close()
		s.sums = nil
	}
	s.b.Mem.Discharge(s.charged)
	s.charged = 0
}

// sectionRank orders sections in the manifest and in the checksum file, so that
// the order of writing does not show.
func sectionRank(name string) string {
	known := []string{layout.SectionGraph, layout.SectionIndex, layout.SectionPlaces, layout.SectionEdgeID, layout.SectionDegree,
		layout.SectionOriginal, layout.SectionInternal, layout.SectionX, layout.SectionY}
	if i := slices.Index(known, name); i >= 0 {
		return fmt.Sprintf("%02d", i)
	}
	return "99" + name
}

// Seal completes m, which says everything but sections and stripes, and writes CHECKSUMS
// and MANIFEST.
func (b *Store) Seal(m *layout.Manifest) error {
	if k := len(b.stripes.dirs); k > 0 {
		m.Settings.Stripes, m.Settings.StripeUnit, m.Stripes = k, b.unit, b.stripes.dirs
	}
	m.Sections = slices.Clone(b.sections)
	slices.SortFunc(m.Sections, func(x, y layout.Section) int {
		return strings.Compare(sectionRank(x.Name), sectionRank(y.Name))
	})
	n, err := SealManifest(b.FS, m, b.stage.dir, func(i int) (io.ReadCloser, error) {
		return b.openSums(m.Sections[i].Name)
	}, func(name string) (io.WriteCloser, error) {
		return storage.NewWriter(b.Pool, filepath.Join(b.stage.dir, name), b.Buffer, nil)
	})
	b.BytesWritten += n
	if err != nil {
		return err
	}
	if len(b.stripes.dirs) == 0 {
		return nil
	}
	// Stripe directories that are marked as whole are never without a manifest that
	// names them, by which they are found when this build is killed.
	for _, dir := range []string{b.stage.dir, b.stage.parent} {
		if err := b.FS.SyncDir(dir); err != nil {
			return fault.IO(err, "syncing %s", dir)
		}
	}
	return b.stripes.finish(m.ID)
}

// openSums opens the plain page checksums of a finished section.
func (b *Store) openSums(name string) (io.ReadCloser, error) {
	f, err := storage.OpenFile(b.FS, b.sumsPath(name), storage.Flags{Scratch: true, Buffered: true})
	if err != nil {
		return nil, err
	}
	return &sumsReader{file: f, due: b.sums[name]}, nil
}

// sumsReader reads plain page checksums from the front. The last bytes are handed out
// where all are what was written.
type sumsReader struct {
	file      *storage.File
	read, due digest
}

func (r *sumsReader) Read(b []byte) (int, error) {
	b = b[:min(int64(len(b)), r.due.n-r.read.n)]
	if r.read.n == r.due.n {
		return 0, io.EOF
	}
	n, err := r.file.ReadAt(b, r.read.n)
	r.read.add(b[:n])
	if err == io.EOF || r.read.n == r.due.n && r.read != r.due {
		return 0, &storage.Error{Path: r.file.Name(), Offset: 0, Block: -1, Op: "verify", Err: &storage.DamageError{Bytes: r.due.n}}
	}
	return n, err
}

func (r *sumsReader) Close() error { return r.file.Close() }

// SealManifest completes m (places of the tables, build id, root checksums) from
// the plain page checksums of its sections, and writes the checksum file by create
// and the manifest last. It returns the size of the manifest.
func SealManifest(fsys storage.FS, m *layout.Manifest, dir string, plain func(section int) (io.ReadCloser, error), create func(name string) (io.WriteCloser, error)) (int64, error) {
	at := int64(0)
	for i := range m.Sections {
		s := &m.Sections[i]
		s.ChecksumOffset, s.RootCRC = at, 0
		_, tableBytes, _, rootBytes := s.Checksums()
		at += tableBytes + rootBytes
	}
	chunk := make([]byte, 16*layout.PageSize)
	each := func(i int, f func(words []byte) error) error {
		want := layout.Pages(m.Sections[i].FileBytes()) * layout.TableEntry
		r, err := plain(i)
		if err != nil {
			return fault.IO(err, "opening a scratch file")
		}
		defer r.Close()
		for want > 0 {
			b := chunk[:min(want, int64(len(chunk)))]
			if _, err := io.ReadFull(r, b); err != nil {
				return fault.IO(err, "reading the checksums of section %q", m.Sections[i].Name)
			}
			if err := f(b); err != nil {
				return err
			}
			want -= int64(len(b))
		}
		return nil
	}
	err := m.ComputeID(func(i int, write func([]byte)) error {
		return each(i, func(words []byte) error { write(words); return nil })
	})
	if err != nil {
		return 0, err
	}
	w, err := create(layout.ChecksumFile)
	if err != nil {
		return 0, err
	}
	closed := false
	defer func() {
		if !closed {
			w.Close()
		}
	}()
	for i := range m.Sections {
		s := &m.Sections[i]
		_, tableBytes, _, rootBytes := s.Checksums()
		salt, tableSalt := layout.NewSalt(m.ID, s.Name, false), layout.NewSalt(m.ID, s.Name, true)
		root := make([]byte, rootBytes)
		page, tablePage := int64(0), int64(0)
		err := each(i, func(words []byte) error {
			for j := 0; j < len(words); j += layout.TableEntry {
				v := binary.LittleEndian.Uint32(words[j:])
				binary.LittleEndian.PutUint32(words[j:], v^salt.Mask(page))
				page++
			}
			full := words[:ledger.RoundUp(int64(len(words)), layout.PageSize)] // chunk is a whole number of pages
			clear(full[len(words):])
			layout.SumPages(tableSalt, full, tablePage, root[tablePage*layout.TableEntry:])
			tablePage += int64(len(full)) / layout.PageSize
			_, err := w.Write(full)
			return err
		})
		if err != nil {
			return 0, err
		}
		if tablePage*layout.PageSize != tableBytes {
			panic("staging: a checksum table of unexpected size")
		}
		if _, err := w.Write(root); err != nil {
			return 0, err
		}
		s.RootCRC = layout.CRC(root)
	}
	closed = true
	if err := w.Close(); err != nil {
		return 0, err
	}
	body, err := m.Encode()
	if err != nil {
		return 0, err
	}
	return int64(len(body)), writeSynced(fsys, filepath.Join(dir, layout.ManifestFile), body)
}

// writeSynced writes a new file of whole pages, past the page cache, and makes it
// durable.
func writeSynced(fsys storage.FS, path string, body []byte) error {
	f, err := storage.OpenFile(fsys, path, storage.Flags{Write: true, Create: true})
	if err != nil {
		return err
	}
	pages := storage.AlignedBytes(len(body))
	copy(pages, body)
	_, err = f.WriteAt(pages, 0)
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}
