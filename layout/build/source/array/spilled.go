package array

// A streamed array in a scratch file, so that it can be read at any position, with the
// checksums of what was written in memory.

import (
	"fmt"
	"io"
	"os"

	"github.com/goagnes/goagnes/layout"
)

// spillUnit is what has a checksum of its own; it is read as a whole.
const spillUnit = 64 << 10

// ScratchError says that scratch does not hold what was written there.
type ScratchError struct {
	Path   string
	Offset int64 // of the unit that was read
	Bytes  int64
}

func (e *ScratchError) Error() string {
	return fmt.Sprintf("verify %s at byte %d: the %d bytes of scratch there differ from what was written: the device alters, loses or misplaces data without an error; check it and run again, with scratch=DIR on another device until then",
		e.Path, e.Offset, e.Bytes)
}

// Class returns the error class "io".
func (e *ScratchError) Class() string { return "io" }

// spilled is bytes in a file. It is written once and then read, by one goroutine.
type spilled struct {
	file interface {
		io.ReaderAt
		io.Writer
	}
	path string
	n    int64
	sums []uint32 // by unit
	unit []byte   // the unit being written, or the one read last
	at   int64    // the number of that
}

func newSpilled(f *os.File) *spilled {
	return &spilled{file: f, path: f.Name(), unit: make([]byte, 0, spillUnit)}
}

// fill writes the next n bytes of r; the rest of a unit waits for flush.
func (s *spilled) fill(r io.Reader, n int64) error {
	for n > 0 {
		used := len(s.unit)
		k, err := io.ReadFull(r, s.unit[used:used+int(min(n, int64(spillUnit-used)))])
		s.unit = s.unit[:used+k]
		if err != nil {
			return err
		}
		if n -= int64(k); len(s.unit) == spillUnit || n == 0 {
			if err := s.flush(); err != nil {
				return err
			}
		}
	}
	s.at = -1
	return nil
}

func (s *spilled) flush() error {
	s.sums = append(s.sums, layout.CRC(s.unit))
	if _, err := s.file.Write(s.unit); err != nil {
		return err
	}
	s.n += int64(len(s.unit))
	s.unit = s.unit[:0]
	return nil
}

// ReadAt implements io.ReaderAt, but for one goroutine.
func (s *spilled) ReadAt(b []byte, offset int64) (int, error) {
	done := 0
	for done < len(b) {
		at := offset + int64(done)
		if at >= s.n {
			return done, io.EOF
		}
		if k := at / spillUnit; k != s.at {
			if err := s.load(k); err != nil {
				return done, err
			}
		}
		done += copy(b[done:], s.unit[at%spillUnit:])
	}
	return done, nil
}

// load reads unit k and verifies it.
func (s *spilled) load(k int64) error {
	s.at = -1
	s.unit = s.unit[:min(spillUnit, s.n-k*spillUnit)]
	if n, err := s.file.ReadAt(s.unit, k*spillUnit); n < len(s.unit) && err != nil && err != io.EOF {
		return err
	} else if n < len(s.unit) || layout.CRC(s.unit) != s.sums[k] {
		return &ScratchError{Path: s.path, Offset: k * spillUnit, Bytes: int64(len(s.unit))}
	}
	s.at = k
	return nil
}
