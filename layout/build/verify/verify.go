package verify

// Verification: the manifest, the sizes of all files, and the checksum of every page.

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"time"

	"github.com/goagnes/goagnes/goagnes/storage"
	"github.com/goagnes/goagnes/layout"
	"github.com/goagnes/goagnes/layout/build/fault"
	"github.com/goagnes/goagnes/layout/build/ledger"
)

// DefaultMemory is the budget of a verification, in bytes, where none is given.
const DefaultMemory = 256 << 20

// maxFindings bounds the findings that are listed; the rest are counted.
const maxFindings = 10_000

// Options are the settings of a verification; zero values are the defaults.
type Options struct {
	// Memory is the budget in bytes; 0 = DefaultVerifyMemory.
	Memory int64
	// IO is the way to the device, as storage.PoolOptions.IO.
	IO string
	// FS is the file system on which the store lies; nil = the operating system's.
	FS storage.FS
	// Stripes are the directories over which the store is striped, where they lie
	// elsewhere than its manifest says.
	Stripes []string
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

// String gives the place and what is wrong with it.
func (f Finding) String() string {
	switch {
	case f.Block >= 0:
		return fmt.Sprintf("%s, block %d (byte %d): %s", f.File, f.Block, f.Offset, f.Message)
	case f.Offset >= 0:
		return fmt.Sprintf("%s, byte %d: %s", f.File, f.Offset, f.Message)
	}
	return f.File + ": " + f.Message
}

// Report is the outcome of a verification. A store without findings is whole.
type Report struct {
	Findings []Finding `json:"findings"`
	Omitted  int64     `json:"omitted"` // findings past the first 10,000, not listed
	Pages    int64     `json:"pages"`   // pages whose checksum was compared
	Bytes    int64     `json:"bytes"`   // bytes read
	BuildID  string    `json:"build_id"`
	Seconds  float64   `json:"seconds"`
}

// OK reports whether nothing was found.
func (r *Report) OK() bool { return len(r.Findings) == 0 }

// verifier is the state of one verification.
type verifier struct {
	ctx    context.Context
	o      Options
	dir    string
	m      *layout.Manifest
	mem    *ledger.Ledger
	report Report

	stripes []string // directories over which the store is striped

	pool     *storage.Pool
	sums     *storage.File
	sumsSize int64
	files    map[string]*storage.File
	damaged  map[string]bool // by section: its contents cannot be trusted

	done, total int64
}

// Store reads the whole store in dir, compares every page with its checksum, and
// the contents with each other. What is wrong with the store is in the report; the
// error says why the store could not be verified: no store, not readable, cancelled,
// too small a budget. A section with damaged pages is left out of the comparison of
// contents.
func Store(ctx context.Context, dir string, o Options) (*Report, error) {
	start := time.Now()
	if o.Memory == 0 {
		o.Memory = DefaultMemory
	}
	v := &verifier{ctx: ctx, o: o, dir: dir, mem: ledger.New(o.Memory), files: map[string]*storage.File{}, damaged: map[string]bool{}}
	v.report.Findings = []Finding{}
	v.pool = storage.NewPool(storage.PoolOptions{FS: o.FS, IO: o.IO, Depth: verifyDepth})
	defer v.close()
	ok, err := v.manifest()
	if err == nil && ok {
		v.report.BuildID = fmt.Sprintf("%x", v.m.ID)
		if err = v.pages(); err == nil {
			err = v.nameBlocks()
		}
		if err == nil {
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
	v.pool.Close()
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
	f, err := storage.OpenFile(v.o.FS, path, storage.Flags{})
	if errors.Is(err, fs.ErrNotExist) {
		return false, layout.Errorf(layout.NotAStore, "", "%s is no store: it has no file %s", v.dir, layout.ManifestFile)
	}
	if err != nil {
		return false, fault.IO(err, "opening the manifest")
	}
	defer f.Close()
	b, err := io.ReadAll(io.NewSectionReader(f, 0, layout.MaxManifest+1))
	if err != nil {
		return false, fault.IO(err, "reading the manifest")
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
	if v.stripes, err = storage.StripeDirs(v.o.FS, m, v.o.Stripes); err != nil {
		return false, v.foundError(layout.StripeFile, err)
	}
	v.report.Pages += int64(len(v.stripes)) // their STRIPE files
	v.report.Bytes += int64(len(v.stripes)) * layout.PageSize
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
	if need := v.least(); need > v.mem.Free() {
		return &ledger.BudgetError{Consumer: "verification", Need: need, Free: v.mem.Free(), Total: v.mem.Total}
	}
	chunks, err := v.mem.Map("pages being verified", pagesBytes)
	if err != nil {
		return err
	}
	defer chunks.Close()
	for i := range v.m.Sections {
		if err := v.sectionPages(&v.m.Sections[i], chunks.Bytes); err != nil {
			return err
		}
	}
	return nil
}

const (
	verifyChunk = 512 << 10
	verifyDepth = 4 // pieces being read
	tableChunk  = 16 * layout.PageSize
	pagesBytes  = verifyDepth*verifyChunk + tableChunk
)

// least returns what verification takes at least: the pages with the largest root
// table; or, after them, a graph block and the sections that are compared with it.
func (v *verifier) least() int64 {
	roots := int64(0)
	for i := range v.m.Sections {
		_, _, _, rootBytes := v.m.Sections[i].Checksums()
		roots = max(roots, rootBytes)
	}
	block := v.m.Settings.BlockSize
	if v.m.Settings.Compression != "" {
		block += compressedBlocks * v.m.Settings.BlockSize
	}
	return max(pagesBytes+roots, block+graphCursors*cursorBytes)
}

// openSums opens the checksum file.
func (v *verifier) openSums() error {
	f, err := storage.OpenFile(v.o.FS, filepath.Join(v.dir, layout.ChecksumFile), storage.Flags{Buffered: v.o.IO == storage.IOBuffered})
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
	var f *storage.File
	var err error
	flags := storage.Flags{Buffered: v.o.IO == storage.IOBuffered}
	if len(v.stripes) > 0 {
		f, err = storage.OpenSection(v.o.FS, v.dir, v.stripes, v.m.Settings.StripeUnit, s, flags)
	} else {
		f, err = storage.OpenFile(v.o.FS, filepath.Join(v.dir, s.File), flags)
	}
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
	roots, err := v.mem.Map("the root table of section "+s.Name, rootBytes)
	if err != nil {
		return err
	}
	defer roots.Close()
	if err := v.readAt(v.sums, layout.ChecksumFile, root, roots.Bytes); err != nil {
		return err
	}
	rootOK := layout.CRC(roots.Bytes) == s.RootCRC
	if !rootOK {
		v.found(layout.ChecksumFile, root/layout.PageSize, root, "the root table of section %q does not match the manifest", s.Name)
		v.damaged[s.Name] = true
	}
	v.report.Pages += layout.Pages(rootBytes)
	t := &tablePages{v: v, s: s, buf: chunks[verifyDepth*verifyChunk:], held: -1}
	if rootOK {
		t.roots = roots.Bytes
	}
	salt := layout.NewSalt(v.m.ID, s.Name, false)
	whole := min(size, s.FileBytes()) / layout.PageSize * layout.PageSize
	last := int64(-1) // table page at hand
	var sums []byte
	next := func(p int64) error {
		var err error
		for ; last < p && err == nil; last++ {
			sums, err = t.page(last + 1)
		}
		return err
	}
	err = v.readAhead(f, whole, chunks[:verifyDepth*verifyChunk], func(at int64, b []byte, err error) error {
		if err != nil {
			v.damaged[s.Name] = true
			return v.foundError(s.File, err)
		}
		first := at / layout.PageSize
		if err := next(first / layout.PagesPerTablePage); err != nil {
			return err
		}
		if sums != nil {
			v.comparePages(s, salt, b, first, sums[first%layout.PagesPerTablePage*layout.TableEntry:])
		}
		v.progress("verify pages", int64(len(b)))
		return nil
	})
	if err != nil {
		return err
	}
	return next(tableBytes/layout.PageSize - 1)
}

// comparePages compares pages of a section with their entries of its table.
func (v *verifier) comparePages(s *layout.Section, salt layout.Salt, b []byte, first int64, sums []byte) {
	n := int64(len(b)) / layout.PageSize
	v.report.Pages += n
	for k := int64(0); k < n; {
		bad := layout.CheckPages(salt, b[k*layout.PageSize:], first+k, sums[k*layout.TableEntry:])
		if bad < 0 {
			return
		}
		v.damaged[s.Name] = true
		block := bad
		if s.Kind == layout.KindGraph {
			block = bad * layout.PageSize / v.m.Settings.BlockSize
			if v.m.Settings.Compression != "" {
				block = -1 // until nameBlocks
			}
		}
		v.found(s.File, block, bad*layout.PageSize, "the page differs from what was written, or lies in the wrong place")
		k = bad - first + 1
	}
}

// tablePages reads a section's checksum table, a few pages at a time.
type tablePages struct {
	v     *verifier
	s     *layout.Section
	roots []byte // nil where the root table is damaged: pages are not compared
	buf   []byte
	held  int64 // first page in buf, -1 for none
}

// page returns page p of the table, nil where it is damaged. Pages are asked for in
// order, each once.
func (t *tablePages) page(p int64) ([]byte, error) {
	table, tableBytes, _, _ := t.s.Checksums()
	at := p * layout.PageSize
	most := int64(len(t.buf)) / layout.PageSize
	if t.held < 0 || p >= t.held+most {
		t.held = p
		if err := t.v.readAt(t.v.sums, layout.ChecksumFile, table+at, t.buf[:min(tableBytes-at, int64(len(t.buf)))]); err != nil {
			return nil, err
		}
	}
	page := t.buf[(p-t.held)*layout.PageSize:][:layout.PageSize]
	t.v.report.Pages++
	if t.roots != nil && layout.CheckPages(layout.NewSalt(t.v.m.ID, t.s.Name, true), page, p, t.roots[p*layout.TableEntry:]) >= 0 {
		t.v.found(layout.ChecksumFile, (table+at)/layout.PageSize, table+at,
			"a page of the checksums of section %q does not match; the %d pages that it covers are not verified", t.s.Name, layout.PagesPerTablePage)
		t.v.damaged[t.s.Name] = true
		return nil, nil
	}
	return page, nil
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

// readAhead passes the first end bytes of a file to f in order, in pieces of
// verifyChunk, several of them being read at one time. A piece that could not be read
// comes with an error.
func (v *verifier) readAhead(file *storage.File, end int64, buf []byte, f func(at int64, b []byte, err error) error) error {
	type slot struct {
		storage.Request
		done   chan struct{}
		flying bool
	}
	var slots [verifyDepth]slot
	next := int64(0)
	submit := func(i int) {
		if next >= end {
			return
		}
		s := &slots[i]
		s.Request = storage.Request{File: file, Offset: next, Buf: buf[i*verifyChunk:][:min(verifyChunk, end-next)],
			Done: func(*storage.Request) { s.done <- struct{}{} }}
		s.flying = true
		next += int64(len(s.Buf))
		v.pool.Submit(&s.Request)
	}
	for i := range slots {
		slots[i].done = make(chan struct{}, 1)
		submit(i)
	}
	defer func() {
		for i := range slots {
			if slots[i].flying {
				<-slots[i].done
			}
		}
	}()
	for i := 0; slots[i].flying; i = (i + 1) % verifyDepth {
		s := &slots[i]
		<-s.done
		s.flying = false
		if err := v.ctx.Err(); err != nil {
			return err
		}
		if err := f(s.Offset, s.Buf, s.Err); err != nil {
			return err
		}
		submit(i)
	}
	return nil
}
