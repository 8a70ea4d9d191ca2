package verify

// Graph blocks as a verification reads them: from their places, restored where they
// are compressed.

import (
	"github.com/goagnes/goagnes/layout"
	"github.com/goagnes/goagnes/layout/build/ledger"
)

// storedBlocks reads the graph blocks of a store in order.
type storedBlocks struct {
	v          *verifier
	graph      *layout.Section
	places     *cursor // nil where blocks are not compressed
	page       int64   // where the next block begins
	columns    *ledger.Region
	decompress *layout.BlockDecompressor
}

// compressedBlocks is the room for restoring a compressed block, in blocks.
const compressedBlocks = 3

// storedBlocks begins at the first block. places is at the start of the table of
// places, or nil.
func (v *verifier) storedBlocks(places *cursor) (*storedBlocks, error) {
	s := &storedBlocks{v: v, graph: v.m.Section(layout.SectionGraph), places: places}
	if places == nil {
		return s, nil
	}
	var err error
	if s.columns, err = v.mem.Map("a compressed graph block", compressedBlocks*v.m.Settings.BlockSize); err != nil {
		return nil, err
	}
	s.decompress = layout.NewBlockDecompressor(s.columns.Bytes)
	if s.page, err = places.next(); err == nil && s.page != 0 {
		v.found(places.s.File, -1, 0, "the first block is at page %d, expected 0", uint64(s.page))
	}
	return s, err
}

func (s *storedBlocks) close() { s.columns.Close() }

// read reads block number k, which lies between two entries of the index, into block.
// It returns where the block is stored, and whether blocks after it can be found. A
// compressed block that cannot be restored is a finding, and block is then none.
func (s *storedBlocks) read(k int64, block []byte, at, next layout.IndexEntry) (offset int64, ok bool, err error) {
	v, blockSize := s.v, int64(len(block))
	if s.places == nil {
		offset = k * blockSize
		return offset, true, v.readAt(v.files[s.graph.Name], s.graph.File, offset, block)
	}
	end, err := s.places.next()
	if err != nil {
		return 0, false, err
	}
	first := s.page
	offset, s.page = first*layout.PageSize, end
	if first < 0 || end <= first || end-first > blockSize/layout.PageSize || end > layout.Pages(s.graph.Bytes) {
		v.found(s.places.s.File, -1, s.places.offset(8), "block %d is in pages %d to %d, a block has up to %d and there are %d",
			k, uint64(first), uint64(end), blockSize/layout.PageSize, layout.Pages(s.graph.Bytes))
		return 0, false, nil
	}
	stored := (end - first) * layout.PageSize
	if err := v.readAt(v.files[s.graph.Name], s.graph.File, offset, block[:stored]); err != nil {
		return 0, false, err
	}
	if stored < blockSize {
		if err := s.decompress.Decompress(block, stored, layout.ShapeOf(v.m.NumNodes, at, next)); err != nil {
			v.found(s.graph.File, k, offset, "%v", err)
			clear(block) // no kind of block: what follows reports it as unreadable and leaves it out
		}
	}
	return offset, true, nil
}

// end checks that the blocks fill the section.
func (s *storedBlocks) end() {
	if s.places != nil && s.page != layout.Pages(s.graph.Bytes) {
		s.v.found(s.places.s.File, -1, -1, "the blocks end at page %d of %d", s.page, layout.Pages(s.graph.Bytes))
	}
}

// nameBlocks names the blocks to which damaged pages belong, where blocks are
// compressed and their places are intact. Findings of pages ascend.
func (v *verifier) nameBlocks() error {
	if v.m.Settings.Compression == "" || v.intact(layout.SectionGraph) || len(v.report.Findings) == 0 {
		return nil
	}
	cs, buf, err := v.cursors(layout.SectionPlaces)
	if err != nil {
		return err
	}
	defer buf.Close()
	places, file := cs[0], v.m.Section(layout.SectionGraph).File
	if places == nil {
		return nil
	}
	end, block := int64(0), int64(-2) // of a block, where it ends; the first place is where none has
	left := v.m.Section(layout.SectionPlaces).Rows
	for i := range v.report.Findings {
		f := &v.report.Findings[i]
		if f.File != file || f.Offset < 0 || f.Block >= 0 {
			continue
		}
		for ; left > 0 && end*layout.PageSize <= f.Offset; left-- {
			if end, err = places.next(); err != nil {
				return err
			}
			block++
		}
		if end*layout.PageSize > f.Offset {
			f.Block = max(block, -1)
		}
	}
	return nil
}
