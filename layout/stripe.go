package layout

// Striping: the sections of a store spread over several directories, each of
// them on an SSD of its own.

import (
	"encoding/binary"
	"fmt"
)

// Limits of striping.
const (
	MaxStripes    = 64
	MinStripeUnit = 4 << 10 // bytes
	MaxStripeUnit = MaxBlockSize
)

// StripeFile names the file that says which stripe directory this is.
const StripeFile = "STRIPE"

const stripeMagic = "gostripe"

// StripeFirst returns which of k stripe directories holds the first unit of the
// section whose file has that name. It differs between sections, so that the small ones do
// not all lie in one place.
func StripeFirst(name string, k int) int { return int(CRC([]byte(name)) % uint32(k)) }

// StripeAt returns which of k stripe directories holds the byte at an offset of
// a section, and its offset in the file of the section there. Units of the
// section go to the directories in turn, beginning with number first.
func StripeAt(offset, unit int64, k, first int) (stripe int, at int64) {
	u := offset / unit
	return int((u + int64(first)) % int64(k)), u/int64(k)*unit + offset%unit
}

// StripeBytes returns the size of the file in stripe directory i that holds its
// part of a section of that many bytes.
func StripeBytes(bytes, unit int64, k, first, i int) int64 {
	turn := int64((i - first + k) % k)
	round := unit * int64(k)
	return bytes/round*unit + min(max(bytes%round-unit*turn, 0), unit)
}

// Stripe is the identity of a stripe directory.
type Stripe struct {
	ID    BuildID // of the store
	Index int     // which of its stripe directories this is
	Count int
}

// Encode returns the bytes of the stripe file.
func (s Stripe) Encode() []byte {
	b := make([]byte, PageSize)
	copy(b, stripeMagic)
	binary.LittleEndian.PutUint32(b[8:], uint32(s.Index))
	binary.LittleEndian.PutUint32(b[12:], uint32(s.Count))
	copy(b[16:32], s.ID[:])
	binary.LittleEndian.PutUint32(b[PageSize-4:], CRC(b[:PageSize-4]))
	return b
}

// CheckStripe compares the bytes of a stripe file with the identity that the
// directory must have.
func CheckStripe(b []byte, want Stripe) error {
	switch {
	case len(b) < len(stripeMagic) || string(b[:len(stripeMagic)]) != stripeMagic:
		return Errorf(Corrupt, StripeFile, "the file does not begin with its magic: not a stripe directory of a store")
	case len(b) != PageSize:
		return Errorf(Checksum, StripeFile, "%d bytes instead of %d: rebuild the store", len(b), PageSize)
	case binary.LittleEndian.Uint32(b[PageSize-4:]) != CRC(b[:PageSize-4]):
		return &Error{Kind: Checksum, File: StripeFile, Offset: 0, Block: -1, Msg: "the checksum does not match: rebuild the store"}
	}
	got := Stripe{Index: int(binary.LittleEndian.Uint32(b[8:])), Count: int(binary.LittleEndian.Uint32(b[12:]))}
	copy(got.ID[:], b[16:32])
	switch {
	case got.ID != want.ID:
		return Errorf(Corrupt, StripeFile, "a stripe directory of build %x, the store is build %x: name the store's own directories", got.ID, want.ID)
	case got != want:
		return Errorf(Corrupt, StripeFile, "stripe directory %d of %d in the place of number %d of %d: name them in their order", got.Index, got.Count, want.Index, want.Count)
	}
	return nil
}

// validateStripes checks the settings and the record of stripe directories.
func (m *Manifest) validateStripes() error {
	k, unit := m.Settings.Stripes, m.Settings.StripeUnit
	bad := func(format string, a ...any) error { return Errorf(Limits, ManifestFile, format, a...) }
	switch {
	case k == 0 && unit == 0 && len(m.Stripes) == 0:
		return nil
	case k < 1 || k > MaxStripes:
		return bad("%d stripe directories, from 1 to %d are allowed", k, MaxStripes)
	case unit < MinStripeUnit || unit > MaxStripeUnit || unit&(unit-1) != 0 || unit < m.Settings.BlockSize:
		return bad("a stripe unit of %d bytes: it is a power of two from the block size to %d", unit, MaxStripeUnit)
	case len(m.Stripes) != k:
		return Errorf(Corrupt, ManifestFile, "%d stripe directories are named, there are %d", len(m.Stripes), k)
	}
	for i, dir := range m.Stripes {
		if dir == "" || len(dir) > 4096 {
			return bad("stripe directory %d is %s", i, fmt.Sprintf("%.100q", dir))
		}
	}
	return nil
}
