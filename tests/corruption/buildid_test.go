package corruption

// Nothing random in a store: equal input and settings give equal bytes, and the
// build id is a hash of both.

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"hash/crc32"
	"path/filepath"
	"testing"

	"github.com/goagnes/goagnes/goagnes"
	"github.com/goagnes/goagnes/layout"
	"github.com/goagnes/goagnes/tests/fixture/image"
)

// TestBuildIDIsAHash takes the build id of every store from its bytes, as the
// specification says: SHA-256 over the body without root checksums and the plain
// CRC32C of every page.
func TestBuildIDIsAHash(t *testing.T) {
	castagnoli := crc32.MakeTable(crc32.Castagnoli)
	for name, im := range images(t) {
		h := sha256.New()
		head := *im.Manifest
		head.Sections = append([]layout.Section(nil), im.Manifest.Sections...)
		for i := range head.Sections {
			head.Sections[i].RootCRC = 0
		}
		body, err := json.Marshal(&head)
		if err != nil {
			t.Fatal(err)
		}
		h.Write(body)
		for i := range im.Manifest.Sections {
			for b := im.Section(&im.Manifest.Sections[i]); len(b) > 0; b = b[layout.PageSize:] {
				h.Write(binary.LittleEndian.AppendUint32(nil, crc32.Checksum(b[:layout.PageSize], castagnoli)))
			}
		}
		if id := h.Sum(nil)[:16]; !bytes.Equal(id, im.Manifest.ID[:]) {
			t.Errorf("%s: build id %x, its contents make %x", name, im.Manifest.ID, id)
		}
	}
}

// TestRebuild builds a store of every feature again, elsewhere and otherwise:
// with other memory, threads, scratch, directories, way to the device.
func TestRebuild(t *testing.T) {
	g := wideGraph()
	stripes := func() (list []string) { return []string{t.TempDir(), t.TempDir(), t.TempDir()} }
	first := image.Build(t, g, wideOptions(stripes()))
	for name, change := range map[string]func(*goagnes.BuildOptions){
		"again":                        func(*goagnes.BuildOptions) {},
		"one thread and little memory": func(o *goagnes.BuildOptions) { o.NumThreads, o.Memory = 1, 24<<20 },
		"four threads, other scratch":  func(o *goagnes.BuildOptions) { o.NumThreads, o.Scratch = 4, t.TempDir() },
		"through the page cache":       func(o *goagnes.BuildOptions) { o.IO = "buffered" },
	} {
		o := wideOptions(stripes())
		change(&o)
		again := image.Build(t, g, o)
		if again.Manifest.ID != first.Manifest.ID || len(again.Files) != len(first.Files) {
			t.Errorf("%s: build %x of %d files, was %x of %d", name, again.Manifest.ID, len(again.Files), first.Manifest.ID, len(first.Files))
		}
		image.Same(t, first.Dir, again.Dir)
		for i := range first.Stripes {
			image.Same(t, first.Stripes[i], again.Stripes[i])
		}
	}
	for name, change := range map[string]func(*goagnes.BuildOptions){ // settings that shape the bytes
		"block size": func(o *goagnes.BuildOptions) { o.BlockSize = 32 << 10 },
		"level":      func(o *goagnes.BuildOptions) { o.Compression = "zstd:9" },
		"stripes":    func(o *goagnes.BuildOptions) { o.Stripes = o.Stripes[:2] },
		"ids":        func(o *goagnes.BuildOptions) { o.IDs = "dense" },
		"order":      func(o *goagnes.BuildOptions) { o.Order = "original" },
	} {
		o := wideOptions(stripes())
		change(&o)
		if other := image.Build(t, g, o); other.Manifest.ID == first.Manifest.ID {
			t.Errorf("another %s has the same build id: %s", name, filepath.Base(other.Dir))
		}
	}
}
