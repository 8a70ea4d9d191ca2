package storage

import (
	"fmt"

	"github.com/goagnes/goagnes/layout"
)

// Section is one section of an open store.
type Section struct {
	layout.Section
	store  *Store
	number int // place in the manifest
	file   *File
	root   []byte // one entry a page of the page table
	locate func(offset int64) (block int64)
}

// LocateBlocks tells errors the block that holds a byte of the section, for blocks of
// different sizes: until then, where graph blocks are compressed, none is named. It
// must be called before others read the section.
func (s *Section) LocateBlocks(block func(offset int64) int64) { s.locate = block }

// Handle returns the section's open file.
func (s *Section) Handle() *File { return s.file }

// Submit reads whole pages into buf, verifies them and calls done on a worker
// goroutine. The range must lie within the section's file. The checksums that
// the pages are verified with are read at the same time where they are not there.
func (s *Section) Submit(offset int64, buf []byte, tag int64, done func(*Request)) {
	s.readTables(offset, int64(len(buf)))
	s.store.pool.Submit(&Request{File: s.file, Offset: offset, Buf: buf, Check: s, Tag: tag, Done: done})
}

// Read fills buf with the section's bytes from offset on, verified, and
// returns when it has. Any range within FileBytes will do; one that is not
// page-aligned costs a copy.
func (s *Section) Read(offset int64, buf []byte) error {
	if offset < 0 || offset+int64(len(buf)) > s.FileBytes() {
		panic(fmt.Sprintf("storage: read of bytes %d+%d of section %q of %d bytes", offset, len(buf), s.Name, s.FileBytes()))
	}
	if len(buf) == 0 {
		return nil
	}
	if aligned(buf, offset) {
		return s.store.pool.Do(&Request{File: s.file, Offset: offset, Buf: buf, Check: s})
	}
	p := bounce.Get().(*[]byte)
	defer bounce.Put(p)
	for len(buf) > 0 {
		skip := offset % layout.PageSize
		pages := (*p)[:min(roundUpPage(skip+int64(len(buf))), bounceBytes)]
		if err := s.store.pool.Do(&Request{File: s.file, Offset: offset - skip, Buf: pages, Check: s}); err != nil {
			return err
		}
		n := copy(buf, pages[skip:])
		buf, offset = buf[n:], offset+int64(n)
	}
	return nil
}

// readTables begins to read what is missing of the page table for a range.
func (s *Section) readTables(offset, n int64) {
	store := s.store
	store.use.RLock()
	defer store.use.RUnlock()
	if store.closed {
		return
	}
	const covered = chunkPages * layout.PageSize
	for number := offset / covered; number*covered < offset+n; number++ {
		tables := store.tables
		f := tables.ahead(tableKey{s.number, number})
		if f == nil {
			continue
		}
		store.reading.Add(1)
		r := s.tableRequest(number, f.memory)
		r.Done = func(r *Request) {
			defer store.reading.Done()
			err := s.checkTable(r)
			for _, waiting := range tables.landed(f, err) {
				store.pool.resume(waiting, err)
			}
		}
		store.pool.Submit(r)
	}
}

// verify compares the whole pages in b, which lie at offset, with the page
// table. Where a part of the table is still on its way, it leaves r, unless that
// is nil, to be verified when it has come, and returns a *later.
func (s *Section) verify(b []byte, offset int64, r *Request) error {
	s.store.use.RLock()
	defer s.store.use.RUnlock()
	if s.store.closed {
		return s.file.fail("verify", offset, ErrClosed)
	}
	salt := layout.NewSalt(s.store.manifest.ID, s.Name, false)
	for page := offset / layout.PageSize; len(b) > 0; {
		number, at := page/chunkPages, page%chunkPages
		n := min(chunkPages-at, int64(len(b))/layout.PageSize)
		chunk, err := s.store.tables.get(tableKey{s.number, number}, r, func(mem []byte) error { return s.loadTable(number, mem) })
		if err != nil {
			return err
		}
		bad := layout.CheckPages(salt, b[:n*layout.PageSize], page, chunk.memory[at*layout.TableEntry:])
		s.store.tables.put(chunk)
		if bad >= 0 {
			return s.damaged(bad*layout.PageSize, "the page differs from what was written, or lies in the wrong place: run verify, restore the file or rebuild the store")
		}
		b, page = b[n*layout.PageSize:], page+n
	}
	return nil
}

// loadTable reads a chunk of the section's page table and verifies it against
// the root table.
func (s *Section) loadTable(chunk int64, mem []byte) error {
	r := s.tableRequest(chunk, mem)
	_ = s.store.pool.Do(r) // r.Err
	return s.checkTable(r)
}

// tableRequest returns the request for a chunk of the section's page table. What
// lies past the table's end is cleared.
func (s *Section) tableRequest(chunk int64, mem []byte) *Request {
	table, tableBytes, _, _ := s.Checksums()
	first := chunk * tableChunk
	n := min(tableChunk, tableBytes-first)
	clear(mem[n:])
	return &Request{File: s.store.checksums, Offset: table + first, Buf: mem[:n]}
}

// checkTable returns what became of a request for a chunk of the page table, which
// it verifies against the root table.
func (s *Section) checkTable(r *Request) error {
	if r.Err != nil {
		return tableError(r.Err)
	}
	table, _, _, _ := s.Checksums()
	page := (r.Offset - table) / layout.PageSize
	bad := layout.CheckPages(layout.NewSalt(s.store.manifest.ID, s.Name, true), r.Buf, page, s.root[page*layout.TableEntry:])
	if bad >= 0 {
		return &layout.Error{Kind: layout.Checksum, File: layout.ChecksumFile, Offset: table + bad*layout.PageSize, Block: -1,
			Msg: fmt.Sprintf("the checksum table of section %q differs from what was written: rebuild the store", s.Name)}
	}
	return nil
}

func (s *Section) truncated(offset int64) error {
	return s.damaged(offset, "the file ends here: truncated since the store was opened")
}

func (s *Section) damaged(offset int64, msg string) error {
	return &layout.Error{Kind: layout.Checksum, File: s.File, Offset: offset, Block: s.block(offset), Msg: msg}
}

// block returns the block that holds a byte; -1 where blocks have different
// sizes, and nobody has told where they lie.
func (s *Section) block(offset int64) int64 {
	if s.locate != nil {
		return s.locate(offset)
	}
	if s.Kind == layout.KindGraph && s.store.manifest.Settings.Compression != "" {
		return -1
	}
	return offset / s.store.manifest.Settings.BlockSize
}
