package npy

// Strings in archives: numpy keeps one as an array without axes, of bytes ("|S3")
// or of UCS-4 characters ("<U3").

import (
	"encoding/binary"
	"errors"
	"io"
	"io/fs"
	"strconv"
	"strings"
)

// maxTextChars bounds a string.
const maxTextChars = 4096

// Text returns the member name, a single string of at most 4096 characters.
func (a *Archive) Text(name string) (string, error) {
	m := a.members[name]
	if m == nil {
		return "", &Error{File: a.path, Member: name, Msg: "no such member", Err: fs.ErrNotExist}
	}
	rc, err := m.Open()
	if err != nil {
		return "", a.fail(name, err)
	}
	defer rc.Close()
	s, err := readText(rc)
	if err != nil {
		return "", a.fail(name, err)
	}
	return s, nil
}

func readText(r io.Reader) (string, error) {
	b, err := io.ReadAll(io.LimitReader(r, 4*maxTextChars+4096))
	if err != nil {
		return "", err
	}
	if len(b) < 12 || !IsNPY(b) {
		return "", failed("no .npy file")
	}
	length, start := int64(binary.LittleEndian.Uint16(b[8:])), int64(10)
	if b[6] > 1 {
		length, start = int64(binary.LittleEndian.Uint32(b[8:])), 12
	}
	if length > int64(len(b))-start {
		return "", &Error{Msg: "the file ends within the header", Err: io.ErrUnexpectedEOF}
	}
	header, data := string(b[start:start+length]), b[start+length:]
	squeezed := strings.NewReplacer(" ", "", `"`, "'").Replace(header)
	_, descr, ok := strings.Cut(squeezed, "'descr':'")
	descr, _, end := strings.Cut(descr, "'")
	if !ok || !end || !strings.Contains(squeezed, "'shape':()") || len(descr) < 3 {
		return "", failed("no single string")
	}
	n, err := strconv.ParseUint(descr[2:], 10, 16)
	if err != nil || n > maxTextChars {
		return "", failed("no string of at most %d characters: type %q", maxTextChars, descr)
	}
	switch kind := descr[1]; {
	case kind == 'S' && uint64(len(data)) == n:
		return strings.TrimRight(string(data), "\x00"), nil
	case kind == 'U' && uint64(len(data)) == 4*n && (descr[0] == '<' || descr[0] == '>'):
		var s strings.Builder
		for ; len(data) > 0; data = data[4:] {
			c := binary.LittleEndian.Uint32(data)
			if descr[0] == '>' {
				c = binary.BigEndian.Uint32(data)
			}
			if c > 0x10ffff {
				return "", errors.New("a character outside Unicode")
			}
			s.WriteRune(rune(c))
		}
		return strings.TrimRight(s.String(), "\x00"), nil
	}
	return "", failed("a string of type %q in %d bytes", descr, len(data))
}
