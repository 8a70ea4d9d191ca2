package adjacency

// Writing the graph sections: blocks, object index table, edge ids, in-degrees.

import (
	"encoding/binary"
	"math"

	"github.com/goagnes/goagnes/layout"
	"github.com/goagnes/goagnes/layout/build/fault"
	"github.com/goagnes/goagnes/layout/build/ledger"
	"github.com/goagnes/goagnes/layout/build/staging"
)

// graphWriters are the open sections of the adjacency.
type graphWriters struct {
	a        *adjacency
	encoder  *layout.GraphEncoder
	graph    *staging.Section
	index    *staging.Section
	places   *staging.Section // nil where blocks are not compressed
	compress *layout.BlockCompressor
	page     uint64 // pages of graph so far
	charged  int64  // memory of encoder and compressor
	edgeID   *staging.Section
	degree   *staging.Section
	ids      []uint64 // a run of neighbour ids, widened
	degrees  []byte
	node     uint64 // whose object is open
	open     bool
	inDegree uint32 // its in-edges but loops
	edges    int64  // written
}

func (a *adjacency) writers() (*graphWriters, error) {
	rows := a.numEdges
	if a.edits.Settles() {
		rows = 0 // known at the end only
	}
	w := &graphWriters{a: a, ids: make([]uint64, 4096), degrees: make([]byte, 0, 1<<15)}
	type target struct {
		to  **staging.Section
		sec layout.Section
	}
	targets := []target{
		{&w.graph, layout.Section{Name: layout.SectionGraph, Kind: layout.KindGraph, Required: true}},
		{&w.index, layout.Section{Name: layout.SectionIndex, Kind: layout.KindIndex, Required: true}},
		{&w.edgeID, layout.Section{Name: layout.SectionEdgeID, Kind: layout.KindArray, DType: a.idType.String(), Rows: rows}},
		{&w.degree, layout.Section{Name: layout.SectionDegree, Kind: layout.KindArray, DType: layout.Uint32.String(), Rows: a.numNodes}},
	}
	if a.level > 0 {
		targets = append(targets, target{&w.places, layout.Section{Name: layout.SectionPlaces, Kind: layout.KindArray, Required: true, DType: layout.Uint64.String()}})
	}
	for _, s := range targets {
		var err error
		if *s.to, err = a.Create(s.sec); err != nil {
			w.abort()
			return nil, err
		}
	}
	if err := a.Mem.Charge("graph blocks", EncoderMemory(a.blockSize, a.level, a.Buffer)); err != nil {
		w.abort()
		return nil, err
	}
	w.charged = EncoderMemory(a.blockSize, a.level, a.Buffer)
	if a.level > 0 {
		w.compress = layout.NewBlockCompressor(a.numNodes, a.blockSize, a.level)
	}
	w.encoder = layout.NewGraphEncoder(a.numNodes, a.blockSize, w.emit)
	return w, nil
}

func (w *graphWriters) emit(block []byte, entry layout.IndexEntry) error {
	var e [layout.IndexEntryBytes]byte
	entry.Put(e[:])
	if err := w.index.Write(e[:]); err != nil {
		return err
	}
	if w.compress == nil {
		return w.graph.Write(block)
	}
	stored, err := w.compress.Compress(block, entry)
	if err != nil {
		return err
	}
	if err := w.place(); err != nil {
		return err
	}
	w.page += uint64(len(stored) / layout.PageSize)
	return w.graph.Write(stored)
}

// place notes that a stored block begins, or the last ended, at the page at hand.
func (w *graphWriters) place() error {
	w.places.Sec.Rows++
	return w.places.Write(binary.LittleEndian.AppendUint64(nil, w.page))
}

// EncoderMemory is what encoding graph blocks takes: two blocks and a table of the
// objects of one, and what compresses them.
func EncoderMemory(blockSize int64, level, writeBuffer int) int64 {
	n := 4 * blockSize
	if level > 0 {
		n += layout.CompressorBytes(blockSize, level) + 2*int64(writeBuffer) + 4*layout.PageSize
	}
	return n
}

// put encodes the nodes of a slot, or a piece of one node.
func (w *graphWriters) put(k *slot) error {
	var err error
	if w.a.wide {
		err = w.edgeID.Write(ledger.Raw(k.ids64))
	} else {
		err = w.edgeID.Write(ledger.Raw(k.ids32))
	}
	if err != nil {
		return err
	}
	w.edges += int64(len(k.src))
	if k.piece {
		if k.begin {
			if err := w.object(k.first, uint64(k.degree)); err != nil {
				return err
			}
		}
		return w.neighbors(k.src)
	}
	begin := uint32(0)
	for i, end := range k.ends {
		if err := w.object(k.first+int64(i), uint64(end-begin)); err != nil {
			return err
		}
		if end > begin {
			if err := w.neighbors(k.src[begin:end]); err != nil {
				return err
			}
		}
		begin = end
	}
	return nil
}

func (w *graphWriters) object(node int64, degree uint64) error {
	if degree > math.MaxUint32 {
		return fault.Unsupported("a node with %d in-edges; nodes have at most %d", degree, uint32(math.MaxUint32))
	}
	if err := w.endObject(); err != nil {
		return err
	}
	w.node, w.open, w.inDegree = uint64(node), true, uint32(degree)
	original := uint64(node)
	if w.a.order.Original != nil {
		original = uint64(w.a.order.Original[node])
	}
	return w.encoder.Object(original, degree)
}

// endObject appends the in-degree of the node whose object is complete.
func (w *graphWriters) endObject() error {
	if !w.open {
		return nil
	}
	w.open = false
	w.degrees = binary.LittleEndian.AppendUint32(w.degrees, w.inDegree)
	if len(w.degrees) == cap(w.degrees) {
		return w.flushDegrees()
	}
	return nil
}

func (w *graphWriters) flushDegrees() error {
	err := w.degree.Write(w.degrees)
	w.degrees = w.degrees[:0]
	return err
}

func (w *graphWriters) neighbors(src []uint32) error {
	for len(src) > 0 {
		n := min(len(src), len(w.ids))
		for i, v := range src[:n] {
			w.ids[i] = uint64(v)
			if uint64(v) == w.node {
				w.inDegree--
			}
		}
		if err := w.encoder.Neighbors(w.ids[:n]); err != nil {
			return err
		}
		src = src[n:]
	}
	return nil
}

// finish ends the graph.
func (w *graphWriters) finish() error {
	if err := w.endObject(); err != nil {
		return err
	}
	if err := w.flushDegrees(); err != nil {
		return err
	}
	w.edgeID.Sec.Rows = w.edges
	last, err := w.encoder.Close()
	if err != nil {
		return err
	}
	var e [layout.IndexEntryBytes]byte
	last.Put(e[:])
	if err := w.index.Write(e[:]); err != nil || w.places == nil {
		return err
	}
	return w.place()
}

func (w *graphWriters) each(f func(s *staging.Section) error) error {
	var first error
	for _, s := range []*staging.Section{w.graph, w.index, w.places, w.edgeID, w.degree} {
		if s != nil {
			if err := f(s); err != nil && first == nil {
				first = err
			}
		}
	}
	return first
}

// close syncs and closes the sections.
func (w *graphWriters) close() error {
	if w.encoder != nil {
		w.a.Mem.Discharge(w.charged)
		w.encoder = nil
	}
	return w.each((*staging.Section).Close)
}

// abort closes what close has not.
func (w *graphWriters) abort() {
	_ = w.each(func(s *staging.Section) error { s.Abort(); return nil })
	if w.encoder != nil {
		w.a.Mem.Discharge(w.charged)
		w.encoder = nil
	}
}
