package build

// Verification: the manifest, the sizes of all files, and the checksum of every page.

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/goagnes/goagnes/goagnes/storage"
	"github.com/goagnes/goagnes/layout"
)

// DefaultVerifyMemory is the budget of a verification, in bytes, where none is given.
const DefaultVerifyMemory = 256 << 20

// maxFindings bounds the findings that are listed; the rest are counted.
const maxFindings = 10_000

// VerifyOptions are the settings of a verification; zero values are the defaults.
type VerifyOptions struct {
	// Memory is the budget in bytes; 0 = DefaultVerifyMemory.
	Memory int64
	// Progress is told of a stage's progress, in bytes.
	Progress func(stage string, done, total int64)
}

// Finding is one thing wrong with a store.
type Finding struct {
	File    string `json:"file"`   // in the store
	Block   int64  `json:"block"`  // graph block, or page of any other file; -1 where none is meant
	Offset  int64  `json:"offset"` // byte, -1 where none is meant
	Message string `json:"message"`
}

func (f Finding) String() string {
	switch {
	case f.Block >= 0:
		return fmt.Sprintf("%s, block %d (byte %d): %s", f.File, f.Block, f.Offset, f.Message)
	case f.Offset >= 0:
		return fmt.Sprintf("%s, byte %d: %s", f.File, f.Offset, f.Message)
	}
	return f.File + ": " + f.Message
}

// VerifyReport is the outcome of a verification. A store without findings is whole.
type VerifyReport struct {
	Findings []Finding `json:"findings"`
	Omitted  int64     `json:"omitted"` // findings past the first 10,000, not listed
	Pages    int64     `json:"pages"`   // pages whose checksum was compared
	Bytes    int64     `json:"bytes"`   // bytes read
	BuildID  string    `json:"build_id"`
	Seconds  float64   `json:"seconds"`
}

// OK reports whether nothing was found.
func (r *VerifyReport) OK() bool { return len(r.Findings) == 0 }

// verifier is the state of one verification.
type verifier struct {
	ctx    context.Context
	o      VerifyOptions
	dir    string
	m      *layout.Manifest
	mem    ledger
	report VerifyReport

	sums     *storage.File
	sumsSize int64
	files    map[string]*storage.File
	damaged  map[string]bool // by section: its contents cannot be trusted

	done, total int64
}

// Verify reads the whole store in dir, compares every page with its checksum, and
// the contents with each other. What is wrong with the store is in the report; the
// error says why the store could not be verified: no store, not readable, cancelled,
// too small a budget. A section with damaged pages is left out of the comparison of
// contents.
func Verify(ctx context.Context, dir string, o VerifyOptions) (*VerifyReport, error) {
	start := time.Now()
	if o.Memory == 0 {
		o.Memory = DefaultVerifyMemory
	}
	v := &verifier{ctx: ctx, o: o, dir: dir, mem: ledger{total: o.Memory}, files: map[string]*storage.File{}, damaged: map[string]bool{}}
	v.report.Findings = []Finding{}
	defer v.close()
	ok, err := v.manifest()
	if err == nil && ok {
		v.report.BuildID = fmt.Sprintf("%x", v.m.ID)
		if err = v.pages(); err == nil {
			err = v.structure()
		}
	}
	if err != nil {
		return nil, err
	}
	v.report.Seconds = time.Since(start).Seconds()
	return &v.report, nil
}

func (v *verifier) close() {
	for _, f := range v.files {
		f.Close()
	}
	if v.sums != nil {
		v.sums.Close()
	}
}

// found adds a finding.
func (v *verifier) found(file string, block, offset int64, format string, a ...any) {
	if len(v.report.Findings) >= maxFindings {
		v.report.Omitted++
		return
	}
	v.report.Findings = append(v.report.Findings, Finding{file, block, offset, fmt.Sprintf(format, a...)})
}

// foundError adds an error of the store as a finding; another error is returned.
func (v *verifier) foundError(file string, err error) error {
	var e *layout.Error
	var sys *storage.Error
	switch {
	case errors.As(err, &e):
		v.found(file, e.Block, e.Offset, "%s: %s", e.Kind, e.Msg)
		return nil
	case errors.As(err, &sys) && sys.Class() == "io":
		v.found(file, -1, sys.Offset, "cannot be read: %v", sys.Err)
		return nil
	}
	return err
}

func (v *verifier) progress(stage string, n int64) {
	v.done += n
	v.report.Bytes += n
	if v.o.Progress != nil {
		v.o.Progress(stage, v.done, v.total)
	}
}

// manifest reads the manifest. It returns false where nothing else can be checked.
func (v *verifier) manifest() (bool, error) {
	path := filepath.Join(v.dir, layout.ManifestFile)
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, layout.Errorf(layout.NotAStore, "", "%s is no store: it has no file %s", v.dir, layout.ManifestFile)
	}
	if err != nil {
		return false, ioError(err, "opening the manifest")
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, layout.MaxManifest+1))
	if err != nil {
		return false, ioError(err, "reading the manifest")
	}
	v.report.Bytes += int64(len(b))
	if len(b) > layout.MaxManifest {
		v.found(layout.ManifestFile, -1, -1, "larger than %d bytes", int64(layout.MaxManifest))
		return false, nil
	}
	m, err := layout.DecodeManifest(b)
	if err != nil {
		return false, v.foundError(layout.ManifestFile, err)
	}
	v.m = m
	v.report.Pages += layout.Pages(int64(len(b)))
	return true, nil
}

// pages checks the size of every file and the checksum of every page.
func (v *verifier) pages() error {
	if err := v.openSums(); err != nil {
		return err
	}
	v.tiling()
	for i := range v.m.Sections {
		v.total += v.m.Sections[i].FileBytes()
	}
	chunks, err := v.mem.region("pages being verified", 2*verifyChunk+tableChunk)
	if err != nil {
		return err
	}
	defer chunks.close()
	for i := range v.m.Sections {
		if err := v.sectionPages(&v.m.Sections[i], chunks.bytes); err != nil {
			return err
		}
	}
	return nil
}

const (
	verifyChunk = 1 << 20
	tableChunk  = 16 * layout.PageSize
)

// openSums opens the checksum file.
func (v *verifier) openSums() error {
	f, err := storage.OpenFile(filepath.Join(v.dir, layout.ChecksumFile), storage.Flags{})
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			v.found(layout.ChecksumFile, -1, -1, "the file is missing: no page can be verified")
			return nil
		}
		return err
	}
	v.sums = f
	v.sumsSize, err = f.Size()
	return err
}

// tiling checks that the tables fill the checksum file without gaps.
func (v *verifier) tiling() {
	end := int64(0)
	for i := range v.m.Sections {
		s := &v.m.Sections[i]
		_, tableBytes, _, rootBytes := s.Checksums()
		if s.ChecksumOffset != end {
			v.found(layout.ManifestFile, -1, -1, "section %q has its checksums at byte %d of %s, expected %d", s.Name, s.ChecksumOffset, layout.ChecksumFile, end)
		}
		end += tableBytes + rootBytes
	}
	if v.sums != nil && v.sumsSize != end {
		v.found(layout.ChecksumFile, -1, min(v.sumsSize, end), "the file has %d bytes, the manifest asks for %d", v.sumsSize, end)
	}
}

// sectionPages checks one section: root table, page table, pages.
func (v *verifier) sectionPages(s *layout.Section, chunks []byte) error {
	f, err := storage.OpenFile(filepath.Join(v.dir, s.File), storage.Flags{})
	if err != nil {
		v.damaged[s.Name] = true
		if errors.Is(err, fs.ErrNotExist) {
			v.found(s.File, -1, -1, "the file is missing")
			return nil
		}
		return v.foundError(s.File, err)
	}
	v.files[s.Name] = f
	size, err := f.Size()
	if err != nil {
		return v.foundError(s.File, err)
	}
	if size != s.FileBytes() {
		v.damaged[s.Name] = true
		v.found(s.File, -1, min(size, s.FileBytes()), "the file has %d bytes, the manifest says %d", size, s.FileBytes())
	}
	if v.sums == nil {
		return nil
	}
	table, tableBytes, root, rootBytes := s.Checksums()
	if root+rootBytes > v.sumsSize {
		v.found(layout.ChecksumFile, -1, table, "the checksums of section %q are cut off", s.Name)
		v.damaged[s.Name] = true
		return nil
	}
	roots, err := v.mem.region("the root table of section "+s.Name, rootBytes)
	if err != nil {
		return err
	}
	defer roots.close()
	if err := v.readAt(v.sums, layout.ChecksumFile, root, roots.bytes); err != nil {
		return err
	}
	rootOK := layout.CRC(roots.bytes) == s.RootCRC
	if !rootOK {
		v.found(layout.ChecksumFile, root/layout.PageSize, root, "the root table of section %q does not match the manifest", s.Name)
		v.damaged[s.Name] = true
	}
	v.report.Pages += layout.Pages(rootBytes)
	tableSalt := layout.NewSalt(v.m.ID, s.Name, true)
	tables := chunks[2*verifyChunk:]
	whole := min(size, s.FileBytes()) / layout.PageSize * layout.PageSize
	for at := int64(0); at < tableBytes; at += int64(len(tables)) {
		t := tables[:min(tableBytes-at, tableChunk)]
		if err := v.readAt(v.sums, layout.ChecksumFile, table+at, t); err != nil {
			return err
		}
		for p := at / layout.PageSize; p < (at+int64(len(t)))/layout.PageSize; p++ {
			page := t[p*layout.PageSize-at:][:layout.PageSize]
			v.report.Pages++
			if rootOK && layout.CheckPages(tableSalt, page, p, roots.bytes[p*layout.TableEntry:]) >= 0 {
				v.found(layout.ChecksumFile, (table+p*layout.PageSize)/layout.PageSize, table+p*layout.PageSize,
					"a page of the checksums of section %q does not match; the %d pages that it covers are not verified", s.Name, layout.PagesPerTablePage)
				v.damaged[s.Name] = true
				continue
			}
			from := p * layout.PagesPerTablePage * layout.PageSize
			to := min(from+layout.PagesPerTablePage*layout.PageSize, whole)
			if from < to {
				if err := v.dataPages(s, f, from, to, page, chunks[:2*verifyChunk]); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// readAt reads whole pages; what cannot be read is a finding and zeros.
func (v *verifier) readAt(f *storage.File, name string, at int64, b []byte) error {
	if len(b) == 0 {
		return nil
	}
	if err := v.ctx.Err(); err != nil {
		return err
	}
	n, err := f.ReadAt(b, at)
	v.report.Bytes += int64(n)
	if err != nil {
		clear(b[n:])
		if errors.Is(err, io.EOF) {
			err = layout.Errorf(layout.Checksum, name, "the file ends at byte %d", at+int64(n))
		}
		return v.foundError(name, err)
	}
	return nil
}

// dataPages compares the pages [from, to) of a section with a page of its table.
func (v *verifier) dataPages(s *layout.Section, f *storage.File, from, to int64, table, buf []byte) error {
	salt := layout.NewSalt(v.m.ID, s.Name, false)
	return readAhead(v.ctx, f, from, to, buf, func(at int64, b []byte, err error) error {
		if err != nil {
			v.damaged[s.Name] = true
			if err := v.foundError(s.File, err); err != nil {
				return err
			}
		}
		first := at / layout.PageSize
		n := int64(len(b)) / layout.PageSize
		for k := int64(0); k < n; {
			sums := table[(first+k)%layout.PagesPerTablePage*layout.TableEntry:]
			bad := layout.CheckPages(salt, b[k*layout.PageSize:], first+k, sums)
			if bad < 0 {
				break
			}
			v.damaged[s.Name] = true
			v.found(s.File, bad, bad*layout.PageSize, "the page differs from what was written, or lies in the wrong place")
			k = bad - first + 1
		}
		v.report.Pages += n
		v.progress("verify pages", int64(len(b)))
		return nil
	})
}

// readAhead passes the bytes [from, to) of a file to f in order, in pieces of half
// of buf: one is read while the other is used. What a failed read lacks is left out
// of the piece, and the error given.
func readAhead(ctx context.Context, file *storage.File, from, to int64, buf []byte, f func(at int64, b []byte, err error) error) error {
	type piece struct {
		at  int64
		b   []byte
		err error
	}
	half := int64(len(buf)) / 2
	full, free := make(chan piece, 2), make(chan []byte, 2)
	free <- buf[:half]
	free <- buf[half : 2*half]
	stop := make(chan struct{})
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		defer close(full)
		for at := from; at < to; at += half {
			var b []byte
			select {
			case b = <-free:
			case <-stop:
				return
			}
			b = b[:min(half, to-at)]
			n, err := file.ReadAt(b, at)
			full <- piece{at, b[:n/layout.PageSize*layout.PageSize], err}
		}
	}()
	defer func() { <-ended }()
	defer close(stop)
	for p := range full {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := f(p.at, p.b, p.err); err != nil {
			return err
		}
		free <- p.b[:cap(p.b)][:half]
	}
	return nil
}
