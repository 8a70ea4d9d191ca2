package table

import (
	"bytes"
	"encoding/binary"
	"io"
	"strings"
	"testing"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	"github.com/parquet-go/parquet-go/format"
)

// zeros writes n zeros through a compressor.
func zeros(t *testing.T, n int, through func(w io.Writer) io.WriteCloser) []byte {
	t.Helper()
	var b bytes.Buffer
	w := through(&b)
	for piece := make([]byte, 1<<20); n > 0; n -= len(piece) {
		if _, err := w.Write(piece[:min(n, len(piece))]); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// TestPagesThatInflateToMore: what a page holds is compared with its header before the
// library makes room for it.
func TestPagesThatInflateToMore(t *testing.T) {
	bomb := zeros(t, 256<<20, func(w io.Writer) io.WriteCloser { return gzip.NewWriter(w) })
	frame := zeros(t, 256<<20, func(w io.Writer) io.WriteCloser {
		z, err := zstd.NewWriter(w)
		if err != nil {
			t.Fatal(err)
		}
		return z
	})
	if len(bomb) <= freeInflated/gzipRatio || len(frame) <= freeInflated/zstdRatio {
		t.Fatalf("%d and %d bytes are below what is looked at", len(bomb), len(frame))
	}
	claim := func(n uint64) []byte { return append(binary.AppendUvarint(nil, n), 0, 0) }
	for _, c := range []struct {
		name  string
		codec format.CompressionCodec
		page  []byte
		want  int64
		says  string // "" for a sound page
	}{
		{"gzip", format.Gzip, bomb, 1000, "it holds 1001 bytes or more, and its header says 1000"},
		{"gzip, as it says", format.Gzip, bomb, 256 << 20, ""},
		{"gzip, cut", format.Gzip, bomb[:len(bomb)-9], 256 << 20, "unexpected EOF"},
		{"zstd", format.Zstd, frame, 1000, "it holds 1001 bytes or more"},
		{"zstd, as it says", format.Zstd, frame, 256 << 20, ""},
		{"zstd, cut", format.Zstd, frame[:len(frame)-9], 256 << 20, "unexpected EOF"},
		{"zstd, less than it says", format.Zstd, frame, 257 << 20, "its header says 269484032"},
		{"snappy", format.Snappy, claim(1 << 30), 1000, "no snappy block of at most 33554432 bytes"},
		{"snappy, less than it says", format.Snappy, claim(999), 1000, "it holds 999 bytes"},
		{"snappy, as it says", format.Snappy, claim(1000), 1000, ""},
		{"snappy, empty", format.Snappy, nil, 0, "no snappy block"},
		{"none", format.Uncompressed, make([]byte, 9), 8, "it holds 9 bytes"},
		{"none, as it says", format.Uncompressed, make([]byte, 8), 8, ""},
	} {
		err := checkInflated(c.codec, io.NewSectionReader(bytes.NewReader(c.page), 0, int64(len(c.page))), c.want)
		if (err == nil) != (c.says == "") || err != nil && !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, want %q", c.name, err, c.says)
		}
	}
}
