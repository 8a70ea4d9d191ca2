package inflate

import (
	"bufio"
	"io"
)

const (
	ZstdStart      = zstdMagic
	SkippableStart = skippableMagic
)

// ZstdOver reads frames through a buffer of that size.
func ZstdOver(r io.Reader, buffer int) io.ReadCloser {
	return &zstdReader{frame: zstdFrame{r: bufio.NewReaderSize(r, buffer)}}
}
