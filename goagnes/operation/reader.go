package operation

// Reader: rows of single nodes, outside of epochs.

import (
	"context"
	"fmt"
	"math"
	"strings"
	"unsafe"

	"github.com/goagnes/goagnes/goagnes/memory"
	"github.com/goagnes/goagnes/goagnes/storage"
	"github.com/goagnes/goagnes/layout"
)

// Nodes names rows by number, in any order and repeatedly: IDs, or, where they
// are nil, Count of them from First on, Step apart. Numbers must have been
// checked.
type Nodes struct {
	IDs                []int64
	First, Step, Count int64
}

// Len returns how many rows are named.
func (n Nodes) Len() int64 {
	if n.IDs != nil {
		return int64(len(n.IDs))
	}
	return n.Count
}

func (n Nodes) at(i int64) int64 {
	if n.IDs != nil {
		return n.IDs[i]
	}
	return n.First + i*n.Step
}

// Reader reads what belongs to single nodes: rows of arrays, in-edges, ids. It
// translates between original and internal ids as minibatches do, reads whole
// pages, each at most once per chunk of requests, and verifies them. All memory
// but the results is given by the caller, see RowBytes and the other Bytes
// functions; more of it means fewer and longer reads. Its methods may be called
// from several goroutines, with memory of their own.
type Reader struct {
	graphBlocks
	original *storage.Section // internal -> original id, nil for the identity
	internal *storage.Section // original -> internal id, likewise
	ids      *storage.Section // original -> id of the source, likewise
}

// tooManyNodes refuses a store that the format allows: ids take 4 bytes here, and
// the last of them stands for none.
func tooManyNodes(n int64) error {
	return layout.Errorf(layout.Unsupported, layout.ManifestFile, "a graph of %d nodes: graphs of fewer than 2^32-1 nodes are read", n)
}

// NewReader returns a reader of an open store.
func NewReader(store *storage.Store, table *memory.ObjectIndex) (*Reader, error) {
	if n := store.Manifest().NumNodes; n >= math.MaxUint32 {
		return nil, tooManyNodes(n)
	}
	blocks, err := newGraphBlocks(store, table, true)
	if err != nil {
		return nil, err
	}
	return &Reader{graphBlocks: blocks, original: store.Section(layout.SectionOriginal),
		internal: store.Section(layout.SectionInternal), ids: store.Section(layout.SectionIDs)}, nil
}

const (
	readItem   = 16       // bytes of memory for each row of a chunk: two numbers, and room to sort them
	readChunk  = 1 << 16  // rows of a chunk that any memory has room for
	leastPages = 64 << 10 // bytes of pages, beside those of one row
	mostPages  = 8 << 20
)

// RowBytes returns the memory with which n rows of that many bytes can be read
// at all, and that from which more does not help.
func RowBytes(n, stride int64) (least, most int64) {
	row := roundUp(stride, layout.PageSize) + layout.PageSize
	least = leastPages + row + readItem*min(n, readChunk)
	return least, max(least, min(mostPages, n*row)+leastPages+row+readItem*min(n, math.MaxUint32))
}

// scratchpad is a Reader's memory, cut up: four numbers an item, then pages.
type scratchpad struct {
	keys, slots, tmpK, tmpV []uint32
	pages                   []byte
}

// cut divides memory for at most n items and rows of that many bytes.
func cut(mem []byte, n, stride int64) scratchpad {
	row := roundUp(stride, layout.PageSize) + layout.PageSize
	least := leastPages + row
	items := min(n, (int64(len(mem))-least)/readItem)
	if items < min(n, readChunk) {
		panic(fmt.Sprintf("operation: %d bytes for reading %d rows of %d bytes", len(mem), n, stride))
	}
	w := words(mem[:items*readItem])
	pages := mem[items*readItem:]
	pages = pages[-uintptr(unsafe.Pointer(unsafe.SliceData(pages)))&(layout.PageSize-1):]
	return scratchpad{w[:items], w[items : 2*items], w[2*items : 3*items], w[3*items:], pages[:len(pages)/layout.PageSize*layout.PageSize]}
}

// Rows copies rows of a section to out, one after another. Rows of arrays of
// nodes are named by original id, others by their place.
func (r *Reader) Rows(ctx context.Context, s *storage.Section, nodes Nodes, out, mem []byte) error {
	n, stride := nodes.Len(), s.Stride()
	if n == 0 || stride == 0 {
		return nil
	}
	p := cut(mem, n, stride)
	placed := r.internal != nil && strings.HasPrefix(s.Name, layout.NodePrefix) && s != r.internal
	switch {
	case nodes.IDs == nil && placed && n >= r.manifest.NumNodes/16:
		return r.sweepRows(ctx, s, nodes, out, p)
	case nodes.IDs == nil && !placed && nodes.Step == 1:
		return fetch(ctx, s, int(n), func(i int) int64 { return (nodes.First + int64(i)) * stride }, stride, p.pages,
			func(i int, b []byte) error { copy(out[int64(i)*stride:], b); return nil })
	}
	for at := int64(0); at < n; at += int64(len(p.keys)) {
		c := min(int64(len(p.keys)), n-at)
		keys, slots := p.keys[:c], p.slots[:c]
		for i := range keys {
			keys[i], slots[i] = uint32(nodes.at(at+int64(i))), uint32(i)
		}
		sortPairs(keys, slots, p.tmpK, p.tmpV)
		if placed {
			if err := r.translate(ctx, r.internal, keys, p.tmpK, p.pages); err != nil {
				return err
			}
			copy(keys, p.tmpK)
			sortPairs(keys, slots, p.tmpK, p.tmpV)
		}
		if err := fetch(ctx, s, len(keys), func(i int) int64 { return int64(keys[i]) * stride }, stride, p.pages,
			func(i int, b []byte) error { copy(out[(at+int64(slots[i]))*stride:], b); return nil }); err != nil {
			return err
		}
	}
	return nil
}

// sweepRows reads the whole section once, in its own order, and keeps the rows
// that are named: where many are, that is less than reading pages chunk by chunk.
func (r *Reader) sweepRows(ctx context.Context, s *storage.Section, nodes Nodes, out []byte, p scratchpad) error {
	stride := s.Stride()
	for first := int64(0); first < r.manifest.NumNodes; first += int64(len(p.tmpK)) {
		c := min(int64(len(p.tmpK)), r.manifest.NumNodes-first)
		all := p.tmpK[:c]
		for i := range all {
			all[i] = uint32(first) + uint32(i)
		}
		if err := r.translate(ctx, r.original, all, p.tmpV, p.pages); err != nil {
			return err
		}
		kept := 0
		for i, v := range p.tmpV[:c] {
			away := int64(v) - nodes.First
			if place := away / nodes.Step; away%nodes.Step == 0 && place >= 0 && place < nodes.Count {
				p.keys[kept], p.slots[kept] = all[i], uint32(place)
				kept++
			}
		}
		keys, slots := p.keys[:kept], p.slots[:kept]
		if err := fetch(ctx, s, kept, func(i int) int64 { return int64(keys[i]) * stride }, stride, p.pages,
			func(i int, b []byte) error { copy(out[int64(slots[i])*stride:], b); return nil }); err != nil {
			return err
		}
	}
	return nil
}

// translate looks up each of the ascending ids in a table of ids.
func (r *Reader) translate(ctx context.Context, table *storage.Section, ids, to []uint32, pages []byte) error {
	width := table.Stride()
	return fetch(ctx, table, len(ids), func(i int) int64 { return int64(ids[i]) * width }, width, pages, func(i int, b []byte) error {
		v := getID(b, width)
		if v >= uint64(r.manifest.NumNodes) {
			return layout.Errorf(layout.Corrupt, table.File, "row %d holds node %d, the store has %d nodes", ids[i], v, r.manifest.NumNodes)
		}
		to[i] = uint32(v)
		return nil
	})
}
