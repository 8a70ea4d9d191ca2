package source

import (
	"bufio"
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

	"github.com/goagnes/goagnes/layout"
)

// zstdBytes makes a frame of each part.
func zstdBytes(t testing.TB, parts ...string) []byte {
	t.Helper()
	var b bytes.Buffer
	for _, p := range parts {
		z := zstd.NewWriter(&b)
		if _, err := z.Write([]byte(p)); err != nil {
			t.Fatal(err)
		}
		if err := z.Close(); err != nil {
			t.Fatal(err)
		}
	}
	return b.Bytes()
}

func skippable(n int) []byte {
	b := binary.LittleEndian.AppendUint32(nil, skippableMagic+3)
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
		"blocks":         {zstdBytes(t, text), text},
		"frames":         {zstdBytes(t, text[:100], "", text[100:]), text},
		"skippable":      {slices.Concat(skippable(0), skippable(9), zstdBytes(t, text), skippable(70000)), text},
		"single segment": {one, "0 1\n"},
		"zeros":          {zstdBytes(t, strings.Repeat("0", 1<<20)), strings.Repeat("0", 1<<20)}, // blocks of one byte
	} {
		r, err := openText(write(t, "f", c.in))
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(r)
		if err != nil || string(got) != c.want {
			t.Errorf("%s: %d bytes, %v; want %d", name, len(got), err, len(c.want))
		}
		r.Close()
		z := &zstdReader{frame: zstdFrame{r: bufio.NewReaderSize(iotest.OneByteReader(bytes.NewReader(c.in)), 16)}}
		if got, err := io.ReadAll(z); err != nil || string(got) != c.want {
			t.Errorf("%s, byte by byte: %d bytes, %v", name, len(got), err)
		}
		z.Close()
	}
}

// TestZstdCutAnywhere: no cut of a file may pass for a whole one, unless it falls
// between frames.
func TestZstdCutAnywhere(t *testing.T) {
	whole := slices.Concat(skippable(3), zstdBytes(t, "1 2\n3 4\n"))
	for n := range len(whole) {
		r, err := openText(write(t, "f", whole[:n]))
		if err != nil {
			t.Fatal(err)
		}
		_, err = io.ReadAll(r)
		r.Close()
		if between := n < 4 || n == 11; between != (err == nil) {
			t.Errorf("cut to %d of %d: %v", n, len(whole), err)
		}
	}
	big := zstdBytes(t, noise(60000))
	for n := 1000; n < len(big); n += 13001 {
		err := (&textEdges{write(t, "f.zst", big[:n])}).Scan(context.Background(), func(_, _ []int64) error { return nil })
		if class(err) != "input" || !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("cut to %d of %d: %v", n, len(big), err)
		}
	}
}

func TestZstdRefuses(t *testing.T) {
	header := func(descriptor byte, rest ...byte) []byte {
		return append(append(append([]byte(zstdMagic), descriptor), rest...), 1, 0, 0)
	}
	flipped := zstdBytes(t, noise(1000))
	flipped[len(flipped)/2] ^= 0x55
	for name, c := range map[string]struct {
		in   []byte
		want string
	}{
		"a window of 2 GiB":          {header(0, 21<<3), "a zstd window of 2147483648 bytes"},
		"a window of 36 MiB":         {header(0, 15<<3|1), "without --long"},
		"a segment of 1 EiB":         {header(0xe0, 0, 0, 0, 0, 0, 0, 0, 16), "a zstd window of"},
		"garbage after the frame":    {append(zstdBytes(t, "1 2\n"), "more than four"...), "no zstd frame"},
		"a flipped bit":              {flipped, ""},
		"a second frame too large":   {append(zstdBytes(t, "1 2\n"), header(0, 31<<3)...), "a zstd window of"},
		"a dictionary it lacks":      {header(1, 7<<3, 99), "cannot be read from here on"},
		"a block of a reserved kind": {header(0, 7<<3, 7, 0, 0), "cannot be read from here on"},
	} {
		path := write(t, "f.zst", c.in)
		err := (&textEdges{path}).Scan(context.Background(), func(_, _ []int64) error { return nil })
		if class(err) != "input" || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: got %v, want %q", name, err, c.want)
		}
	}
}

func TestCompressedArrays(t *testing.T) {
	list := make([]pair, 2*ChunkEdges+5)
	for i := range list {
		list[i] = pair{int64(i), int64(i * 7 % 1000)}
	}
	for _, pairs := range []bool{false, true} {
		for _, fortran := range []bool{false, true} {
			b := string(edgeGrid(list, pairs).npy(layout.Int64, true, fortran, 2))
			for _, in := range [][]byte{compress(t, b), compress(t, b[:77], b[77:]), zstdBytes(t, b)} {
				e, rank, err := EdgesFromFile(write(t, "e.npy", in), Options{})
				if err != nil || rank {
					t.Fatal(rank, err)
				}
				for range 2 {
					if !slices.Equal(allEdges(t, e), list) {
						t.Errorf("pairs %v, fortran %v: the edges differ", pairs, fortran)
					}
				}
			}
		}
	}
	x := grid{[]int64{3, 2}, []int64{1, 2, 3, 4, 5, 6}}
	want := x.bytes(layout.Float32, false, false)
	for _, fortran := range []bool{false, true} {
		b := string(x.npy(layout.Float32, false, fortran, 1))
		for _, in := range [][]byte{compress(t, b), zstdBytes(t, b)} {
			r, err := RowsFromFile(write(t, "x.npy.gz", in), Options{Scratch: t.TempDir()})
			if err != nil {
				t.Fatal(err)
			}
			if got := allRows(t, r); !bytes.Equal(got, want) {
				t.Errorf("fortran %v: got %v", fortran, got)
			}
		}
	}
}

func TestCompressedArraysRefuse(t *testing.T) {
	b := string(ints([]int64{2, 3}, 0, 1, 2, 3, 4, 5))
	flipped := compress(t, b)
	flipped[len(flipped)-6] ^= 1
	for name, c := range map[string]struct {
		in   []byte
		want string
	}{
		"short":          {compress(t, b[:len(b)-8]), "ends early"},
		"short zstd":     {zstdBytes(t, b[:len(b)-8]), "ends early"},
		"cut":            {compress(t, b)[:40], ""},
		"more":           {compress(t, b, "x"), "more bytes than the header asks for"},
		"wrong checksum": {flipped, "checksum"},
		"no array":       {compress(t, "PK\x03\x04"), "compressed .npz archive"},
	} {
		path := write(t, "e.npy.gz", c.in)
		e, _, err := EdgesFromFile(path, Options{})
		if err == nil {
			err = e.Scan(context.Background(), func(_, _ []int64) error { return nil })
		}
		if err == nil || class(err) == "" || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: got %v, want %q", name, err, c.want)
		}
	}
}

func TestReadAhead(t *testing.T) {
	text := noise(100000)
	a := newReadAhead(iotest.HalfReader(strings.NewReader(text)))
	got, err := io.ReadAll(iotest.DataErrReader(a))
	if err != nil || string(got) != text {
		t.Errorf("%d of %d bytes, %v", len(got), len(text), err)
	}
	a.Close()
	own := errors.New("own")
	a = newReadAhead(io.MultiReader(strings.NewReader(text), iotest.ErrReader(own)))
	if got, err := io.ReadAll(a); err != own || string(got) != text {
		t.Errorf("%d of %d bytes, %v", len(got), len(text), err)
	}
	a.Close()
	newReadAhead(strings.NewReader(text)).Close() // while its buffers are full
}
