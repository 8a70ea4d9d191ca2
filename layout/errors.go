package layout

import "fmt"

// Error says what is wrong with a store: which file, where in it, and what the
// reader can do. Every failure to open or read a store that is the store's
// fault, not the device's, is an *Error.
type Error struct {
	Kind   Kind
	File   string // file name inside the store, "" when the store as a whole is meant
	Offset int64  // byte offset of the first byte concerned, -1 when none is meant
	Block  int64  // block number within the section, -1 when none is meant
	Msg    string
}

// Kind tells apart the reasons for which a store is refused, in the order in
// which they are checked.
type Kind uint8

// The kinds of error; 0 is reserved.
const (
	NotAStore   Kind = 1 // the magic is missing: this is no store
	Newer       Kind = 2 // written by a newer version of the format
	Checksum    Kind = 3 // bytes differ from those that were written, or lie in the wrong place
	Limits      Kind = 4 // a count or size outside the format's limits
	Corrupt     Kind = 5 // checksums hold but the contents contradict each other
	Unsupported Kind = 6 // a required section or an encoding that this program does not know
)

func (k Kind) String() string {
	switch k {
	case NotAStore:
		return "not a store"
	case Newer:
		return "newer format"
	case Checksum:
		return "checksum"
	case Limits:
		return "limits"
	case Corrupt:
		return "corrupt"
	case Unsupported:
		return "unsupported"
	}
	return fmt.Sprintf("kind(%d)", uint8(k))
}

func (e *Error) Error() string {
	s := e.Kind.String() + ": " + e.Msg
	switch {
	case e.Block >= 0:
		s = fmt.Sprintf("%s, block %d (byte %d): %s", e.File, e.Block, e.Offset, s)
	case e.Offset >= 0:
		s = fmt.Sprintf("%s, byte %d: %s", e.File, e.Offset, s)
	case e.File != "":
		s = e.File + ": " + s
	}
	return s
}

// Class returns the error class "store".
func (e *Error) Class() string { return "store" }

// Errorf makes an Error about a whole file.
func Errorf(k Kind, file, format string, a ...any) *Error {
	return &Error{Kind: k, File: file, Offset: -1, Block: -1, Msg: fmt.Sprintf(format, a...)}
}
