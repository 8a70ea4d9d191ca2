package inflate_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/DataDog/zstd"
	"github.com/goagnes/goagnes/layout/build/source/inflate"
	"github.com/goagnes/goagnes/layout/build/source/sourcetest"
	"github.com/goagnes/goagnes/layout/build/source/text"
)

func skippable(n int) []byte {
	b := binary.LittleEndian.AppendUint32(nil, inflate.SkippableStart+3)
	return append(binary.LittleEndian.AppendUint32(b, uint32(n)), make([]byte, n)...)
}

// noise is text that compresses badly, so that it has many blocks.
func noise(lines int) string {
	r := rand.New(rand.NewPCG(3, 4))
	var b strings.Builder
	for range lines {
		fmt.Fprintf(&b, "%d %d\n", r.IntN(1<<40), r.IntN(1<<40))
	}
	return b.String()
}

func TestZstdFramesPass(t *testing.T) {
	text := noise(60000)
	one, err := zstd.Compress(nil, []byte("0 1\n")) // a single segment
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		in   []byte
		want string
	}{
		"blocks":         {sourcetest.ZstdBytes(t, text), text},
		"frames":         {sourcetest.ZstdBytes(t, text[:100], "", text[100:]), text},
		"skippable":      {slices.Concat(skippable(0), skippable(9), sourcetest.ZstdBytes(t, text), skippable(70000)), text},
		"single segment": {one, "0 1\n"},
		"zeros":          {sourcetest.ZstdBytes(t, strings.Repeat("0", 1<<20)), strings.Repeat("0", 1<<20)}, // blocks of one byte
	} {
		r, err := inflate.Open(sourcetest.Write(t, "f", c.in))
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(r)
		if err != nil || string(got) != c.want {
			t.Errorf("%s: %d bytes, %v; want %d", name, len(got), err, len(c.want))
		}
		r.Close()
		z := inflate.ZstdOver(iotest.OneByteReader(bytes.NewReader(c.in)), 16)
		if got, err := io.ReadAll(z); err != nil || string(got) != c.want {
			t.Errorf("%s, byte by byte: %d bytes, %v", name, len(got), err)
		}
		z.Close()
	}
}

// TestZstdCutAnywhere: no cut of a file may pass for a whole one, unless it falls
// between frames.
func TestZstdCutAnywhere(t *testing.T) {
	whole := slices.Concat(skippable(3), sourcetest.ZstdBytes(t, "1 2\n3 4\n"))
	for n := range len(whole) {
		r, err := inflate.Open(sourcetest.Write(t, "f", whole[:n]))
		if err != nil {
			t.Fatal(err)
		}
		_, err = io.ReadAll(r)
		r.Close()
		if between := n < 4 || n == 11; between != (err == nil) {
			t.Errorf("cut to %d of %d: %v", n, len(whole), err)
		}
	}
	big := sourcetest.ZstdBytes(t, noise(60000))
	for n := 1000; n < len(big); n += 13001 {
		err := text.NewEdges(sourcetest.Write(t, "f.zst", big[:n])).Scan(context.Background(), func(_, _ []int64) error { return nil })
		if sourcetest.Class(err) != "input" || !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("cut to %d of %d: %v", n, len(big), err)
		}
	}
}

func TestZstdRefuses(t *testing.T) {
	header := func(descriptor byte, rest ...byte) []byte {
		return append(append(append([]byte(inflate.ZstdStart), descriptor), rest...), 1, 0, 0)
	}
	flipped := sourcetest.ZstdBytes(t, noise(1000))
	flipped[len(flipped)/2] ^= 0x55
	for name, c := range map[string]struct {
		in   []byte
		want string
	}{
		"a window of 2 GiB":          {header(0, 21<<3), "a zstd window of 2147483648 bytes"},
		"a window of 36 MiB":         {header(0, 15<<3|1), "without --long"},
		"a segment of 1 EiB":         {header(0xe0, 0, 0, 0, 0, 0, 0, 0, 16), "a zstd window of"},
		"garbage after the frame":    {append(sourcetest.ZstdBytes(t, "1 2\n"), "more than four"...), "no zstd frame"},
		"a flipped bit":              {flipped, ""},
		"a second frame too large":   {append(sourcetest.ZstdBytes(t, "1 2\n"), header(0, 31<<3)...), "a zstd window of"},
		"a dictionary it lacks":      {header(1, 7<<3, 99), "cannot be read from here on"},
		"a block of a reserved kind": {header(0, 7<<3, 7, 0, 0), "cannot be read from here on"},
	} {
		path := sourcetest.Write(t, "f.zst", c.in)
		err := text.NewEdges(path).Scan(context.Background(), func(_, _ []int64) error { return nil })
		if sourcetest.Class(err) != "input" || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: got %v, want %q", name, err, c.want)
		}
	}
}

func TestReadAhead(t *testing.T) {
	text := noise(100000)
	a := inflate.NewReadAhead(iotest.HalfReader(strings.NewReader(text)))
	got, err := io.ReadAll(iotest.DataErrReader(a))
	if err != nil || string(got) != text {
		t.Errorf("%d of %d bytes, %v", len(got), len(text), err)
	}
	a.Close()
	own := errors.New("own")
	a = inflate.NewReadAhead(io.MultiReader(strings.NewReader(text), iotest.ErrReader(own)))
	if got, err := io.ReadAll(a); err != own || string(got) != text {
		t.Errorf("%d of %d bytes, %v", len(got), len(text), err)
	}
	a.Close()
	inflate.NewReadAhead(strings.NewReader(text)).Close() // while its buffers are full
}
