package goagnes_test

// What every byte of a store is for, told by its manifest: classes of bytes that
// together are all of its files, each byte in one class.

import (
	"encoding/binary"
	"path/filepath"
	"slices"
	"testing"

	"github.com/goagnes/goagnes/layout"
)

// extent is a range of bytes of a file; at is the place of its first byte in the
// section, which is from itself where the store is not striped.
type extent struct {
	path         string
	from, to, at int64
}

// region is a class of bytes of a store.
type region struct {
	name    string
	file    string // that a finding names
	extents []extent
	// part is where the checksum begins that covers the class in a manifest, -1
	// where a fault is of the file as a whole.
	part int64
}

func (r *region) bytes() (n int64) {
	for _, e := range r.extents {
		n += e.to - e.from
	}
	return n
}

// place returns where byte i of the class lies: its file, its offset there, and
// its offset in the section.
func (r *region) place(i int64) (path string, offset, at int64) {
	for _, e := range r.extents {
		if n := e.to - e.from; i >= n {
			i -= n
			continue
		}
		return e.path, e.from + i, e.at + i
	}
	panic("goagnes: a place outside its region")
}

// regions gathers classes.
type regions struct {
	im   *image
	list []*region
}

func (rs *regions) class(name, file string, part int64) *region {
	for _, r := range rs.list {
		if r.name == name {
			return r
		}
	}
	r := &region{name: name, file: file, part: part}
	rs.list = append(rs.list, r)
	return r
}

// plain adds bytes [from, to) of a file of the store's directory.
func (rs *regions) plain(file, class string, part, from, to int64) {
	if from < to {
		r := rs.class(file+": "+class, file, part)
		r.extents = append(r.extents, extent{rs.im.path(file), from, to, from})
	}
}

// of adds bytes [from, to) of a section.
func (rs *regions) of(s *layout.Section, class string, from, to int64) {
	if from < to {
		r := rs.class(s.Name+": "+class, s.File, -1)
		r.extents = append(r.extents, rs.im.spread(s, from, to-from)...)
	}
}

// findRegions returns the classes of a store's bytes. It fails where a byte of a
// file is in none or in two.
func findRegions(t testing.TB, im *image) []*region {
	t.Helper()
	rs := &regions{im: im}
	rs.manifest()
	for _, dir := range im.stripes {
		for _, field := range []struct {
			name     string
			from, to int64
		}{{"magic", 0, 8}, {"number", 8, 12}, {"count", 12, 16}, {"build id", 16, 32}, {"zeros", 32, 4092}, {"checksum", 4092, 4096}} {
			r := rs.class(layout.StripeFile+": "+field.name, layout.StripeFile, -1)
			r.extents = append(r.extents, extent{filepath.Join(dir, layout.StripeFile), field.from, field.to, field.from})
		}
	}
	for i := range im.m.Sections {
		s := &im.m.Sections[i]
		table, tableBytes, root, rootBytes := s.Checksums()
		used, pages := table+layout.Pages(s.FileBytes())*layout.TableEntry, root+tableBytes/layout.PageSize*layout.TableEntry
		rs.plain(layout.ChecksumFile, "page table of "+s.Name, -1, table, used)
		rs.plain(layout.ChecksumFile, "padding of the page table of "+s.Name, -1, used, table+tableBytes)
		rs.plain(layout.ChecksumFile, "root table of "+s.Name, -1, root, pages)
		rs.plain(layout.ChecksumFile, "padding of the root table of "+s.Name, -1, pages, root+rootBytes)
		switch s.Kind {
		case layout.KindGraph:
			rs.graph(s)
		case layout.KindIndex:
			rs.of(s, "entries", 0, s.Bytes)
		default:
			rs.of(s, "rows", 0, s.Bytes)
		}
		rs.of(s, "padding of the file", s.Bytes, s.FileBytes())
	}
	rs.covers(t)
	return rs.list
}

func (rs *regions) manifest() {
	b := rs.im.files[rs.im.path(layout.ManifestFile)]
	body := int64(binary.LittleEndian.Uint64(b[16:]))
	tail := layout.PageSize + layout.Pages(body)*layout.PageSize
	record := tail + 8 + int64(binary.LittleEndian.Uint32(b[tail+4:]))
	for _, field := range []struct {
		name           string
		part, from, to int64
	}{
		{"magic", -1, 0, 8}, {"version", -1, 8, 12}, {"page size", 0, 12, 16}, {"body's length", 0, 16, 24}, {"build id", 0, 24, 40},
		{"body's checksum", 0, 40, 44}, {"record's salted checksum", 0, 44, 48}, {"zeros", 0, 48, 4092}, {"header's checksum", 0, 4092, 4096},
		{"body", layout.PageSize, layout.PageSize, layout.PageSize + body}, {"body's padding", layout.PageSize, layout.PageSize + body, tail},
		{"record's checksum", tail, tail, tail + 4}, {"record's length", tail, tail + 4, tail + 8},
		{"record", tail, tail + 8, record}, {"record's padding", tail, record, int64(len(b))},
	} {
		rs.plain(layout.ManifestFile, field.name, field.part, field.from, field.to)
	}
}

// block is a graph block as it is stored.
type block struct{ at, bytes int64 }

// blocks returns where the graph's blocks lie in its section.
func (im *image) blocks() []block {
	var places []byte
	if s := im.m.Section(layout.SectionPlaces); s != nil {
		places = im.section(s)
	}
	index := im.m.Section(layout.SectionIndex)
	list := make([]block, index.Bytes/layout.IndexEntryBytes-1)
	for i := range list {
		list[i] = block{int64(i) * im.m.Settings.BlockSize, im.m.Settings.BlockSize}
		if places != nil {
			from, to := binary.LittleEndian.Uint64(places[8*i:]), binary.LittleEndian.Uint64(places[8*i+8:])
			list[i] = block{int64(from) * layout.PageSize, int64(to-from) * layout.PageSize}
		}
	}
	return list
}

// block returns the number of the graph block that holds a byte of its section.
func (im *image) block(at int64) int64 {
	for i, b := range im.blocks() {
		if at < b.at+b.bytes {
			return int64(i)
		}
	}
	return -1
}

// graph adds the parts of every graph block.
func (rs *regions) graph(s *layout.Section) {
	whole := rs.im.section(s)
	for _, at := range rs.im.blocks() {
		b := whole[at.at : at.at+at.bytes]
		bits, width, objects, edges := int64(b[1]), int64(b[2]), int64(binary.LittleEndian.Uint32(b[4:])), int64(binary.LittleEndian.Uint32(b[24:]))
		payload := int64(binary.LittleEndian.Uint32(b[28:]))
		ids := payload + (edges*bits+7)/8
		type part struct {
			name string
			end  int64
		}
		var parts []part // each from the end of the one before
		switch b[0] {
		case 1:
			parts = []part{{"header of a block", 32}, {"ends of objects", 32 + 4*objects}, {"original ids", 32 + (4+width)*objects}, {"padding of a block", payload}, {"neighbour ids", ids}}
		case 2:
			parts = []part{{"header of a hub", 32}, {"degree and original id of a hub", 48}, {"padding of a hub", 64}, {"neighbour ids of a hub", ids}}
		case 3:
			parts = []part{{"header of a compressed block", 8}, {"zstd frame", 8 + int64(binary.LittleEndian.Uint32(b[4:]))}}
		}
		parts = append(parts, part{"rest of a block", at.bytes})
		from := int64(0)
		for _, p := range parts {
			rs.of(s, p.name, at.at+from, at.at+p.end)
			from = p.end
		}
	}
}

// covers fails where a byte of the store is in no class or in two.
func (rs *regions) covers(t testing.TB) {
	t.Helper()
	byFile := map[string][]extent{}
	for _, r := range rs.list {
		for _, e := range r.extents {
			byFile[e.path] = append(byFile[e.path], e)
		}
	}
	for path, b := range rs.im.files {
		list := byFile[path]
		slices.SortFunc(list, func(a, b extent) int { return int(a.from - b.from) })
		end := int64(0)
		for _, e := range list {
			if e.from != end {
				t.Fatalf("%s: the bytes from %d to %d are in no region, or in two", path, min(end, e.from), max(end, e.from))
			}
			end = e.to
		}
		if end != int64(len(b)) {
			t.Fatalf("%s: the bytes from %d to %d are in no region", path, end, len(b))
		}
	}
}
