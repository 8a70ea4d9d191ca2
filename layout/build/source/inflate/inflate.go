package inflate

// Inputs compressed as a whole by gzip or zstd, recognised by content. They are
// streams: every scan inflates them again, on a goroutine of its own.

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/DataDog/zstd"
	"github.com/goagnes/goagnes/layout/build/source"
	"github.com/klauspost/compress/gzip"
)

const (
	gzipMagic = "\x1f\x8b"
	zstdMagic = "\x28\xb5\x2f\xfd"
	// MaxZstdWindow bounds the window of a zstd frame, which its decoder holds:
	// levels up to 19 use 8 MiB or less.
	MaxZstdWindow = 32 << 20
	// readAheadBytes is the size of one of the readAheadBuffers blocks that an
	// inflating goroutine may be ahead.
	readAheadBytes   = 256 << 10
	readAheadBuffers = 4
)

// isZstd reports whether b starts a zstd file; a skippable frame may come first.
func isZstd(b []byte) bool {
	if len(b) < 4 {
		return false
	}
	m := binary.LittleEndian.Uint32(b)
	return string(b[:4]) == zstdMagic || m&^0xf == skippableMagic
}

// Open opens a file, through gzip or zstd where it is compressed.
func Open(path string) (io.ReadCloser, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, source.ErrorFrom(path, "cannot be opened", err)
	}
	r, err := Through(f, path)
	if err != nil {
		f.Close()
		return nil, err
	}
	return r, nil
}

// Through returns f itself where it is not compressed. Closing the reader closes f.
func Through(f *os.File, path string) (io.ReadCloser, error) {
	var head [4]byte
	n, err := f.ReadAt(head[:], 0)
	if err != nil && err != io.EOF {
		return nil, source.ErrorFrom(path, "cannot be read", err)
	}
	switch {
	case n >= 2 && string(head[:2]) == gzipMagic:
		z, err := gzip.NewReader(bufio.NewReaderSize(f, 256<<10))
		if err != nil {
			return nil, source.ErrorFrom(path, "broken gzip file", err)
		}
		return &Reader{Reader: z, file: f}, nil
	case isZstd(head[:n]):
		z := &zstdReader{frame: zstdFrame{r: bufio.NewReaderSize(f, 256<<10)}}
		return &Reader{Reader: z, file: f, decoder: z}, nil
	}
	return f, nil
}

// Reader reads a compressed file.
type Reader struct {
	io.Reader
	file    *os.File
	decoder io.Closer // what holds memory outside Go
}

func (z *Reader) Close() error {
	if z.decoder != nil {
		z.decoder.Close()
	}
	return z.file.Close()
}

const skippableMagic = 0x184d2a50

// zstdReader reads a zstd file frame by frame: the decoder takes a file cut
// between two blocks for a whole one, and loses the start of a second frame.
type zstdReader struct {
	frame   zstdFrame
	decoder io.ReadCloser // nil between frames
}

func (z *zstdReader) Read(b []byte) (int, error) {
	for {
		if z.decoder == nil {
			if err := z.frame.next(); err != nil {
				return 0, err
			}
			z.decoder = zstd.NewReader(&z.frame)
		}
		n, err := z.decoder.Read(b)
		if z.frame.err != nil {
			return n, z.frame.err
		}
		if n > 0 || err != nil && err != io.EOF {
			return n, err
		}
		if err == io.EOF {
			if z.frame.state != frameEnd {
				return 0, io.ErrUnexpectedEOF
			}
			z.Close()
		}
	}
}

func (z *zstdReader) Close() error {
	d := z.decoder
	if z.decoder = nil; d == nil {
		return nil
	}
	return d.Close()
}

// What zstdFrame waits for.
const (
	frameEnd = iota
	frameMagic
	frameDescriptor
	frameHeader
	blockHeader
	blockBody
	frameChecksum
)

// zstdFrame passes one frame through and follows its parts (RFC 8878, section
// 3.1), so that a cut file is told from a whole one and a large window is refused
// before a decoder allocates it.
type zstdFrame struct {
	r        *bufio.Reader
	state    int
	need     int    // bytes of field that are still due
	field    []byte // the field being read
	skip     int    // bytes of a block to pass over
	single   bool
	checksum bool
	content  int // size of the field of the content size
	last     bool
	err      error // a fault of the file; io.EOF is none
}

// next finds the next frame; io.EOF means that the file ends here.
func (z *zstdFrame) next() error {
	for {
		b, err := z.r.Peek(8)
		if len(b) == 0 && err == io.EOF {
			return io.EOF
		}
		if err != nil && err != io.EOF {
			return err
		}
		if len(b) < 8 {
			return io.ErrUnexpectedEOF
		}
		if string(b[:4]) == zstdMagic {
			z.expect(frameMagic, 4)
			return nil
		}
		if binary.LittleEndian.Uint32(b)&^0xf != skippableMagic {
			return errors.New("no zstd frame where one is due")
		}
		if _, err := io.CopyN(io.Discard, z.r, 8+int64(binary.LittleEndian.Uint32(b[4:]))); err != nil {
			if err == io.EOF {
				err = io.ErrUnexpectedEOF
			}
			return err
		}
	}
}

func (z *zstdFrame) Read(b []byte) (int, error) {
	if z.err != nil {
		return 0, z.err
	}
	if z.state == frameEnd {
		return 0, io.EOF
	}
	if _, err := z.r.Peek(1); err != nil {
		if err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		z.err = err
		return 0, err
	}
	have, err := z.r.Peek(min(len(b), z.r.Buffered()))
	if err != nil {
		panic("inflate: buffered bytes cannot be peeked at")
	}
	n, err := z.follow(have)
	if err != nil {
		z.err = err
		return 0, err
	}
	copy(b, have[:n])
	if _, err := z.r.Discard(n); err != nil {
		panic("inflate: buffered bytes cannot be discarded")
	}
	return n, nil
}

// follow returns how many bytes of b belong to the frame.
func (z *zstdFrame) follow(b []byte) (int, error) {
	at := 0
	for at < len(b) && z.state != frameEnd {
		if z.state == blockBody {
			n := min(z.skip, len(b)-at)
			at, z.skip = at+n, z.skip-n
		} else {
			n := min(z.need, len(b)-at)
			z.field = append(z.field, b[at:at+n]...)
			at += n
			if z.need -= n; z.need > 0 {
				continue
			}
			if err := z.fieldRead(); err != nil {
				return at, err
			}
			z.field = z.field[:0]
		}
		if z.state == blockBody && z.skip == 0 {
			switch {
			case !z.last:
				z.expect(blockHeader, 3)
			case z.checksum:
				z.expect(frameChecksum, 4)
			default:
				z.state = frameEnd
			}
		}
	}
	return at, nil
}

func (z *zstdFrame) expect(state, bytes int) { z.state, z.need = state, bytes }

func (z *zstdFrame) fieldRead() error {
	f := z.field
	switch z.state {
	case frameMagic:
		z.expect(frameDescriptor, 1)
	case frameDescriptor:
		z.single, z.checksum = f[0]&0x20 != 0, f[0]&4 != 0
		z.content = []int{0, 2, 4, 8}[f[0]>>6]
		if z.single && z.content == 0 {
			z.content = 1
		}
		n := z.content + []int{0, 1, 2, 4}[f[0]&3]
		if !z.single {
			n++
		}
		z.expect(frameHeader, n)
	case frameHeader:
		var window uint64
		if z.single {
			for i, x := range f[len(f)-z.content:] {
				window |= uint64(x) << (8 * i)
			}
			if z.content == 2 {
				window += 256
			}
		} else {
			base := uint64(1) << (10 + f[0]>>3)
			window = base + base/8*uint64(f[0]&7)
		}
		if window > MaxZstdWindow {
			return fmt.Errorf("a zstd window of %d bytes; at most %d are read; compress it again at level 19 or lower, without --long", window, MaxZstdWindow)
		}
		z.expect(blockHeader, 3)
	case blockHeader:
		h := int(f[0]) | int(f[1])<<8 | int(f[2])<<16
		z.last = h&1 != 0
		z.state, z.skip = blockBody, h>>3
		if h>>1&3 == 1 { // one byte, repeated
			z.skip = 1
		}
	case frameChecksum:
		z.state = frameEnd
	default:
		panic("inflate: a zstd frame is followed wrongly")
	}
	return nil
}

// readAhead reads from r on a goroutine, a few blocks ahead.
type readAhead struct {
	full chan block
	free chan []byte
	stop chan struct{}
	done chan struct{}
	now  block
	at   int
}

type block struct {
	b   []byte
	err error
}

// NewReadAhead starts the goroutine; Close ends it, and r may be closed then.
func NewReadAhead(r io.Reader) *readAhead {
	a := &readAhead{full: make(chan block, readAheadBuffers), free: make(chan []byte, readAheadBuffers),
		stop: make(chan struct{}), done: make(chan struct{})}
	for range readAheadBuffers {
		a.free <- make([]byte, readAheadBytes)
	}
	go func() {
		defer close(a.done)
		for {
			select {
			case <-a.stop:
				return
			case b := <-a.free:
				n, err := 0, error(nil)
				for n < len(b) && err == nil {
					var k int
					k, err = r.Read(b[n:])
					n += k
				}
				a.full <- block{b[:n], err} // never waits: there are as many places as buffers
				if err != nil {
					return
				}
			}
		}
	}()
	return a
}

func (a *readAhead) Read(b []byte) (int, error) {
	for a.at == len(a.now.b) {
		if a.now.err != nil {
			return 0, a.now.err
		}
		if a.now.b != nil {
			a.free <- a.now.b[:cap(a.now.b)]
		}
		a.now, a.at = <-a.full, 0
	}
	n := copy(b, a.now.b[a.at:])
	a.at += n
	return n, nil
}

func (a *readAhead) Close() {
	close(a.stop)
	<-a.done
}
