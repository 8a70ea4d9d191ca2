package goagnes_test

// A store that was made to harm: any contents in any section and any manifest,
// under checksums that are right. Opening, an epoch, reads and verification end
// with a typed error or a result, within the budget.

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/goagnes/goagnes/goagnes"
	"github.com/goagnes/goagnes/layout"
	"github.com/goagnes/goagnes/tests/bounds"
)

// maxForged bounds the files that a forged manifest can make the test write.
const maxForged = 1 << 20

// forge gives the image a manifest body, or keeps its own where body is empty,
// makes the files as long as it says and all checksums right. It returns false
// where the body is refused before any section is read.
func (im *image) forge(body []byte) bool {
	path := im.path(layout.ManifestFile)
	if len(body) > 0 {
		m := &layout.Manifest{}
		if json.Unmarshal(body, m) != nil {
			return false
		}
		m.ID, m.Source, m.Stripes = im.m.ID, im.m.Source, im.m.Stripes
		im.m = m
	}
	if _, err := im.m.Encode(); err != nil || im.m.Settings.Stripes != len(im.stripes) {
		return false
	}
	sums := []byte{}
	for i := range im.m.Sections {
		s := &im.m.Sections[i]
		if s.FileBytes() > maxForged {
			return false
		}
		whole := make([]byte, s.FileBytes())
		for _, e := range im.spread(s, 0, s.FileBytes()) {
			if b := im.files[e.path]; e.from < int64(len(b)) {
				copy(whole[e.at:], b[e.from:min(e.to, int64(len(b)))])
			}
		}
		for k, dir := range append([]string{im.dir}, im.stripes...) {
			n := s.FileBytes()
			if k > 0 {
				n = layout.StripeBytes(n, im.m.Settings.StripeUnit, len(im.stripes), layout.StripeFirst(s.File, len(im.stripes)), k-1)
			} else if len(im.stripes) > 0 {
				continue
			}
			im.files[filepath.Join(dir, s.File)] = make([]byte, n)
		}
		for _, e := range im.spread(s, 0, s.FileBytes()) {
			copy(im.files[e.path][e.from:e.to], whole[e.at:])
		}
		s.ChecksumOffset = int64(len(sums))
		_, tableBytes, _, rootBytes := s.Checksums()
		tables := make([]byte, tableBytes+rootBytes)
		layout.SumPages(layout.NewSalt(im.m.ID, s.Name, false), whole, 0, tables)
		layout.SumPages(layout.NewSalt(im.m.ID, s.Name, true), tables[:tableBytes], 0, tables[tableBytes:])
		s.RootCRC = layout.CRC(tables[tableBytes:])
		sums = append(sums, tables...)
	}
	im.files[im.path(layout.ChecksumFile)] = sums
	b, err := im.m.Encode()
	im.files[path] = b
	return err == nil
}

// use does with a store what people do, and returns the errors. Nodes 0 and 1 are
// read, whether there are such or not.
func (im *image) use(scratch string) (errs []error) {
	ctx, cancel := context.WithTimeout(context.Background(), bounds.Deadline/2)
	defer cancel()
	_, err := goagnes.Verify(ctx, im.dir, goagnes.VerifyOptions{FS: im, Stripes: im.stripes, IO: "buffered", Memory: 64 << 20})
	errs = append(errs, err)
	s, err := im.open(goagnes.OpenOptions{Memory: 32 << 20, Scratch: scratch, NumThreads: 1})
	if err != nil {
		return append(errs, err)
	}
	defer func() { errs = append(errs, s.Close()) }()
	s.Info()
	l, err := goagnes.NewLoader(s, goagnes.LoaderOptions{NumNeighbors: []int{3, 2}, InputNodes: goagnes.InputNodes{IDs: []int64{0, 7, 1}}, BatchSize: 2, Degree: true})
	if err == nil {
		err = l.Start(ctx)
		for err == nil {
			var b *goagnes.Batch
			if b, err = l.Next(ctx); err == nil {
				b.Release()
			}
		}
		errs = append(errs, l.Close())
	}
	if !errors.Is(err, io.EOF) {
		errs = append(errs, err)
	}
	for name, a := range s.NodeArrays() {
		n := 2 * layout.MaxRowBytes
		if d, err := layout.ParseDType(a.DType); err == nil {
			n = 2 * d.Size()
			for _, k := range a.RowShape {
				n *= int(k)
			}
		}
		errs = append(errs, s.ReadNodes(ctx, name, goagnes.Nodes{IDs: []int64{0, 1}}, make([]byte, n)))
	}
	room := make([]int64, 9000)
	_, err = s.Neighbors(ctx, 7, room, slices.Clone(room))
	errs = append(errs, err, s.OriginalIDs(ctx, goagnes.Nodes{IDs: []int64{0, 1}}, room[:2]), s.DenseIDs(ctx, []int64{0, 59}, room[:2]))
	return errs
}

func FuzzStore(f *testing.F) {
	var all []*image
	scratch := f.TempDir()
	for _, c := range goldenStores {
		path := filepath.Join("testdata", "stores", c.name)
		all = append(all, readImage(f, path, stripeNames(path, c.stripes)))
	}
	// One whose blocks are compressed, which those of the golden store are not.
	small := goldenGraph()
	small.nodes, small.src, small.dst = 2000, small.src[:9000:9000], small.dst[:9000:9000]
	for v := range int64(2000) {
		small.src, small.dst = append(small.src, v/2, v/3), append(small.dst, v, v)
	}
	small.x, small.y, small.xType = nil, nil, 0
	all = append(all, small.image(f, goagnes.BuildOptions{BlockSize: 16 << 10, Order: "degree", Compression: "zstd", IDs: "rank"}))
	for i, im := range all {
		for k := range im.m.Sections {
			s := &im.m.Sections[k]
			f.Add(uint8(i), uint8(k), uint32(0), im.section(s)[:min(s.Bytes, 48)], []byte{})
			f.Add(uint8(i), uint8(k), uint32(40), []byte{0xff, 0xff, 0xff, 0xff}, []byte{})
		}
		body := im.files[im.path(layout.ManifestFile)]
		body = body[layout.PageSize:][:binary.LittleEndian.Uint64(body[16:])]
		f.Add(uint8(i), uint8(0), uint32(0), []byte{}, body)
	}
	f.Fuzz(func(t *testing.T, store, section uint8, at uint32, data, body []byte) {
		im := all[int(store)%len(all)].copy()
		m := *im.m // its sections are changed
		m.Sections = slices.Clone(m.Sections)
		im.m = &m
		if len(body) == 0 {
			s := &m.Sections[int(section)%len(m.Sections)]
			for i, v := range data[:min(len(data), 1<<16)] {
				e := im.spread(s, (int64(at)+int64(i))%s.FileBytes(), 1)[0]
				im.files[e.path][e.from] = v
			}
		}
		if !im.forge(body) {
			return
		}
		total := 0
		for _, b := range im.files {
			total += len(b)
		}
		// Beside what the store's bytes make, buffers of a size of their own: of the
		// system's transfers, of rows of up to 16 MiB that are asked for.
		bounds.Hold(t, total, bounds.Limit{Fixed: 64 << 20, Factor: 64}, func() {
			begin := time.Now()
			for _, err := range im.use(scratch) {
				switch {
				case err == nil:
				case errors.Is(err, context.DeadlineExceeded):
					t.Fatalf("no end after %v: %v", time.Since(begin), err)
				case goagnes.Class(err) == goagnes.ClassInternal:
					t.Fatalf("an error without a class: %v (%T)", err, err)
				}
			}
		})
	})
}
