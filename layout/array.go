package layout

// Blocks returns the number of blocks of blockSize bytes that the section's
// rows touch. A feature block is such a block of an array section: rows lie at
// a fixed stride and may cross from one block into the next, so a row belongs
// to the block that holds its first byte.
func (s *Section) Blocks(blockSize int64) int64 {
	return (s.Bytes + blockSize - 1) / blockSize
}

// BlockRows returns the rows [first, end) that belong to a block: those whose
// first byte lies in it. It is empty where a row is wider than a block and
// none begins there.
func (s *Section) BlockRows(blockSize, block int64) (first, end int64) {
	stride := s.Stride()
	if stride == 0 {
		return 0, 0
	}
	first = min((block*blockSize+stride-1)/stride, s.Rows)
	end = min(((block+1)*blockSize+stride-1)/stride, s.Rows)
	return first, end
}

// RowBlock returns the block to which a row belongs.
func (s *Section) RowBlock(blockSize, row int64) int64 { return row * s.Stride() / blockSize }

// RowPages returns the page-aligned byte range of the section's file that
// holds the rows [first, end).
func (s *Section) RowPages(first, end int64) (offset, length int64) {
	stride := s.Stride()
	if first >= end || stride == 0 {
		return 0, 0
	}
	offset = first * stride / PageSize * PageSize
	return offset, roundUp(end*stride, PageSize) - offset
}
