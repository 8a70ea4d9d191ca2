package layout

import (
	"encoding/binary"
	"hash/crc32"
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// CRC returns the CRC32C of b.
func CRC(b []byte) uint32 { return crc32.Checksum(b, castagnoli) }

// AppendCRC returns the CRC32C of what had crc, followed by b.
func AppendCRC(crc uint32, b []byte) uint32 { return crc32.Update(crc, castagnoli, b) }

// ReadCRC is CRC for bytes that a device has just written to memory and no processor
// has read, where memory is what is waited for: it takes six tenths of the time there.
func ReadCRC(b []byte) uint32 {
	crc := uint32(0)
	for len(b) > PageSize {
		fetch(b[:PageSize])
		crc = crc32.Update(crc, castagnoli, b[:PageSize])
		b = b[PageSize:]
	}
	fetch(b)
	return crc32.Update(crc, castagnoli, b)
}

// fetch brings b into the processor's cache. The checksum's instructions wait for one
// another and so for one line of memory after another; these loads do not.
//
//go:noinline
func fetch(b []byte) (all byte) {
	const line = 64
	for ; len(b) > 4*line; b = b[4*line:] {
		all ^= b[0] ^ b[line] ^ b[2*line] ^ b[3*line]
	}
	return all
}

// BuildID identifies the contents of a store: the first 16 bytes of a SHA-256
// over the settings that shape it and over the plain checksums of all its
// pages. Two builds of the same input with the same settings have the same id;
// one changed value gives another.
type BuildID [16]byte

// Salt turns the plain CRC32C of a page into the checksum that is stored: it
// depends on the build, the section and the place of the page, so that a page
// of another build, section or place is found out although it is intact in
// itself.
type Salt uint64

// NewSalt returns the salt of a section's pages, or of the pages of its
// checksum table where table is set.
func NewSalt(id BuildID, section string, table bool) Salt {
	h := binary.LittleEndian.Uint64(id[:8]) ^ mix64(binary.LittleEndian.Uint64(id[8:]))
	for i := 0; i < len(section); i++ {
		h = mix64(h ^ uint64(section[i]) + 0x9E3779B97F4A7C15)
	}
	if table {
		h = mix64(h + 1)
	}
	return Salt(h)
}

// Mask returns what is exclusive-ored onto the plain CRC32C of page number page.
func (s Salt) Mask(page int64) uint32 {
	return uint32(mix64(uint64(s)+uint64(page)*0x9E3779B97F4A7C15) >> 32)
}

// mix64 is the finaliser of splitmix64 (Steele, Lea, Flood 2014), a bijection
// whose every output bit depends on every input bit.
func mix64(z uint64) uint64 {
	z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9
	z = (z ^ (z >> 27)) * 0x94D049BB133111EB
	return z ^ (z >> 31)
}

// TableEntry bytes per page in a section's checksum table.
const TableEntry = 4

// PagesPerTablePage is the number of data pages that one page of a checksum
// table covers: 4 MiB of data.
const PagesPerTablePage = PageSize / TableEntry

// Pages returns the number of pages that n bytes fill.
func Pages(n int64) int64 { return (n + PageSize - 1) / PageSize }

// Checksums returns where a section's two tables lie in the checksum file and
// how large they are, given the section's pages. The page table holds one
// entry per data page; the root table one entry per page of the page table.
// Both are padded with zeros to whole pages.
func (s *Section) Checksums() (table, tableBytes, root, rootBytes int64) {
	p := Pages(s.FileBytes())
	tableBytes = roundUp(p*TableEntry, PageSize)
	rootBytes = roundUp(tableBytes/PageSize*TableEntry, PageSize)
	return s.ChecksumOffset, tableBytes, s.ChecksumOffset + tableBytes, rootBytes
}

// SumPages writes the salted checksums of the whole pages in b, the first of
// which is page number first, into dst as little-endian words, and returns
// dst's length in bytes. len(b) must be a multiple of PageSize.
func SumPages(s Salt, b []byte, first int64, dst []byte) int {
	n := 0
	for ; len(b) > 0; b = b[PageSize:] {
		binary.LittleEndian.PutUint32(dst[n:], CRC(b[:PageSize])^s.Mask(first))
		n += TableEntry
		first++
	}
	return n
}

// CheckPages compares the whole pages in b, the first of which is page number
// first, with the entries in sums. It returns the number of the first page
// that differs, or -1.
func CheckPages(s Salt, b []byte, first int64, sums []byte) int64 {
	for ; len(b) > 0; b = b[PageSize:] {
		if ReadCRC(b[:PageSize])^s.Mask(first) != binary.LittleEndian.Uint32(sums) {
			return first
		}
		sums = sums[TableEntry:]
		first++
	}
	return -1
}

func roundUp(n, to int64) int64 { return (n + to - 1) / to * to }
