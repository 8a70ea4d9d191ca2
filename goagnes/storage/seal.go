package storage

// Seals: how a read of scratch proves that it has the bytes that were written there
// last. Scratch is written and read back by one process, which remembers in no table
// what it wrote: each unit carries its own proof.

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strings"

	"github.com/goagnes/goagnes/layout"
)

// SealBytes is what the seal takes at the end of a unit: a mark, which tells the
// unit from those of other places, files and generations, and the CRC32C of all
// before it.
const SealBytes = 8

// Seal says how the bytes of a request on a scratch file are sealed. They are cut into
// units, which are written once a generation, and read as units. A write puts the seals,
// a read verifies them before Done: it fails with an *Error around a *DamageError.
type Seal struct {
	// Unit is the size of a unit in whole pages, of which the last of Buf may have
	// fewer; 0 = Buf is one unit.
	Unit int64
	// Generation tells what is written from what lay at the same place before.
	Generation uint64
	// Sums keeps the seals of the units of Buf in memory, where a unit has no room for
	// its own; nil: they lie in the last SealBytes of each unit, which hold nothing else.
	Sums []uint32
	// Put tells of a write that the caller has put the seals: File.PutSeal.
	Put bool
}

// Units returns the number of units in n bytes.
func (s *Seal) Units(n int64) int64 {
	if s.Unit == 0 {
		return 1
	}
	return (n + s.Unit - 1) / s.Unit
}

// DamageError says that scratch does not hold what was written there.
type DamageError struct {
	Bytes int64 // of the unit that was read
	// Displaced: the bytes are whole in themselves, but belong to another place or were
	// there before. Otherwise some of them were altered.
	Displaced bool
}

func (e *DamageError) Error() string {
	how := "differ from what was written"
	if e.Displaced {
		how = "were written to another place or at an earlier time"
	}
	return fmt.Sprintf("the %d bytes of scratch there %s: the device alters, loses or misplaces data without an error; check it and run again, with scratch=DIR on another device until then", e.Bytes, how)
}

// Class returns the error class "io".
func (e *DamageError) Class() string { return "io" }

// mark tells a unit of the file from all others.
func (f *File) mark(offset int64, generation uint64) uint32 {
	return layout.Salt(f.key + generation*0xD6E8FEB86659FD93).Mask(offset / layout.PageSize)
}

// PutSeal writes the seal of the unit at offset, which is written in pieces, into the
// last SealBytes of its last piece; those before have crc, as of layout.AppendCRC.
func (f *File) PutSeal(last []byte, crc uint32, offset int64, generation uint64) {
	end := len(last) - SealBytes
	binary.LittleEndian.PutUint32(last[end:], f.mark(offset, generation))
	binary.LittleEndian.PutUint32(last[end+4:], layout.AppendCRC(crc, last[:end+4]))
}

// units calls do for each unit of the request's bytes until it fails.
func (r *Request) units(do func(i int, unit []byte, offset int64) error) error {
	size := r.Seal.Unit
	if size == 0 {
		size = int64(len(r.Buf))
	}
	for i, at := 0, int64(0); at < int64(len(r.Buf)); i, at = i+1, at+size {
		if err := do(i, r.Buf[at:min(at+size, int64(len(r.Buf)))], r.Offset+at); err != nil {
			return err
		}
	}
	return nil
}

// seal puts the seals of a write.
func (r *Request) seal() {
	if !r.Write || r.File.role != roleScratch || r.Seal.Put {
		return
	}
	_ = r.units(func(i int, unit []byte, offset int64) error {
		if s := r.Seal.Sums; s != nil {
			s[i] = layout.CRC(unit) ^ r.File.mark(offset, r.Seal.Generation)
		} else {
			r.File.PutSeal(unit, 0, offset, r.Seal.Generation)
		}
		return nil
	})
}

// sealed verifies the seals of what was read.
func (r *Request) sealed() error {
	return r.units(func(i int, unit []byte, offset int64) error {
		mark := r.File.mark(offset, r.Seal.Generation)
		if s := r.Seal.Sums; s != nil {
			if layout.ReadCRC(unit)^mark != s[i] {
				return r.File.damaged(offset, int64(len(unit)), false)
			}
			return nil
		}
		end := len(unit) - SealBytes
		intact := layout.ReadCRC(unit[:end+4]) == binary.LittleEndian.Uint32(unit[end+4:])
		if !intact || binary.LittleEndian.Uint32(unit[end:]) != mark {
			return r.File.damaged(offset, int64(len(unit)), intact)
		}
		return nil
	})
}

// damaged is the fault of n bytes at offset. It names each part of a striped file that
// holds some of them.
func (f *File) damaged(offset, n int64, displaced bool) error {
	e := &Error{Path: f.path, Offset: offset, Block: -1, Op: "verify", Err: &DamageError{Bytes: n, Displaced: displaced}}
	if f.striped != nil {
		var parts []string
		_ = f.striped.each(offset, n, func(part *File, _, _, _ int64) error {
			if !slices.Contains(parts, part.path) {
				parts = append(parts, part.path)
			}
			return nil
		})
		e.Path = strings.Join(parts, " or ")
	}
	return e
}
