package corruption

// A store that was made to harm: any contents in any section and any manifest,
// under checksums that are right. Opening, an epoch, reads and verification end
// with a typed error or a result, within the budget.

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"slices"
	"testing"
	"time"

	"github.com/goagnes/goagnes/goagnes"
	"github.com/goagnes/goagnes/layout"
	"github.com/goagnes/goagnes/tests/bounds"
	"github.com/goagnes/goagnes/tests/fixture/golden"
	"github.com/goagnes/goagnes/tests/fixture/image"
)

// use does with a store what people do, and returns the errors. Nodes 0 and 1 are
// read, whether there are such or not.
func use(im *image.Image, scratch string) (errs []error) {
	ctx, cancel := context.WithTimeout(context.Background(), bounds.Deadline/2)
	defer cancel()
	_, err := goagnes.Verify(ctx, im.Dir, goagnes.VerifyOptions{FS: im, Stripes: im.Stripes, IO: "buffered", Memory: 64 << 20})
	errs = append(errs, err)
	s, err := im.Open(goagnes.OpenOptions{Memory: 32 << 20, Scratch: scratch, NumThreads: 1})
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
	var all []*image.Image
	scratch := f.TempDir()
	for _, c := range golden.Stores {
		all = append(all, c.Read(f))
	}
	// One whose blocks are compressed, which those of the golden store are not.
	small := golden.Graph()
	small.Nodes, small.Src, small.Dst = 2000, small.Src[:9000:9000], small.Dst[:9000:9000]
	for v := range int64(2000) {
		small.Src, small.Dst = append(small.Src, v/2, v/3), append(small.Dst, v, v)
	}
	small.X, small.Y, small.XType = nil, nil, 0
	all = append(all, image.Build(f, small, goagnes.BuildOptions{BlockSize: 16 << 10, Order: "degree", Compression: "zstd", IDs: "rank"}))
	for i, im := range all {
		for k := range im.Manifest.Sections {
			s := &im.Manifest.Sections[k]
			f.Add(uint8(i), uint8(k), uint32(0), im.Section(s)[:min(s.Bytes, 48)], []byte{})
			f.Add(uint8(i), uint8(k), uint32(40), []byte{0xff, 0xff, 0xff, 0xff}, []byte{})
		}
		body := im.Files[im.Path(layout.ManifestFile)]
		body = body[layout.PageSize:][:binary.LittleEndian.Uint64(body[16:])]
		f.Add(uint8(i), uint8(0), uint32(0), []byte{}, body)
	}
	f.Fuzz(func(t *testing.T, store, section uint8, at uint32, data, body []byte) {
		im := all[int(store)%len(all)].Copy()
		m := *im.Manifest // its sections are changed
		m.Sections = slices.Clone(m.Sections)
		im.Manifest = &m
		if len(body) == 0 {
			s := &m.Sections[int(section)%len(m.Sections)]
			for i, v := range data[:min(len(data), 1<<16)] {
				e := im.Spread(s, (int64(at)+int64(i))%s.FileBytes(), 1)[0]
				im.Files[e.Path][e.From] = v
			}
		}
		if !im.Forge(body) {
			return
		}
		total := 0
		for _, b := range im.Files {
			total += len(b)
		}
		// Beside what the store's bytes make, buffers of a size of their own: of the
		// system's transfers, of rows of up to 16 MiB that are asked for.
		bounds.Hold(t, total, bounds.Limit{Fixed: 64 << 20, Factor: 64}, func() {
			begin := time.Now()
			for _, err := range use(im, scratch) {
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
