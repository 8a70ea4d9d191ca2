package table

// What the pages of a Parquet file inflate to. The library trusts what a page holds, and
// allocates as it goes: a page of a few kilobytes may be made to inflate to gigabytes.
// So pages are inflated here first, to nowhere, as far as their headers say and no further.

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	"github.com/parquet-go/parquet-go/format"
)

// parquetCodecs are the compressions that are read. The library's decoder of lz4 doubles
// its memory without end on a broken page and gave wrong values for sound ones of other
// writers; of brotli and lzo none is bounded.
var parquetCodecs = []format.CompressionCodec{format.Uncompressed, format.Snappy, format.Gzip, format.Zstd}

// The most that a byte can inflate to, and how much a page may without being looked at.
const (
	gzipRatio    = 1040
	zstdRatio    = 128 << 10 / 4
	freeInflated = 4 * maxParquetPage
)

// checkInflated refuses a page that inflates to other than want bytes.
func checkInflated(codec format.CompressionCodec, page *io.SectionReader, want int64) error {
	var n int64
	switch codec {
	case format.Uncompressed:
		n = page.Size()
	case format.Snappy: // begins with its length
		claimed, err := binary.ReadUvarint(bufio.NewReaderSize(page, 16))
		if err != nil || claimed > maxParquetPage {
			return fmt.Errorf("no snappy block of at most %d bytes", int64(maxParquetPage))
		}
		n = int64(claimed)
	case format.Gzip:
		if page.Size() <= freeInflated/gzipRatio {
			return nil
		}
		z, err := gzip.NewReader(bufio.NewReader(page))
		if err != nil {
			return err
		}
		if n, err = io.Copy(io.Discard, io.LimitReader(z, want+1)); err != nil {
			return err
		}
	case format.Zstd:
		if page.Size() <= freeInflated/zstdRatio {
			return nil
		}
		z, err := zstd.NewReader(page, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(maxParquetPage))
		if err != nil {
			return err
		}
		defer z.Close()
		if n, err = io.Copy(io.Discard, io.LimitReader(z, want+1)); err != nil {
			return err
		}
	}
	if n != want {
		return fmt.Errorf("it holds %d bytes or more, and its header says %d", n, want)
	}
	return nil
}
