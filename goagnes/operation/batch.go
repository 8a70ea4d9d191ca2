package operation

import (
	"unsafe"

	"github.com/goagnes/goagnes/goagnes/memory"
	"github.com/goagnes/goagnes/layout"
)

// Array is one array of a batch, in C order, in the batch's slab.
type Array struct {
	Name    string
	DType   layout.DType
	Shape   []int64
	Pointer unsafe.Pointer // 64-byte aligned; valid while the batch, or a reference to its slab, is held
	data    []byte
}

// Bytes returns the array's memory.
func (a *Array) Bytes() []byte { return a.data }

// NewArray returns an array over memory that is not a batch's, of shape's size.
func NewArray(name string, d layout.DType, shape []int64, data []byte) Array {
	return Array{name, d, shape, unsafe.Pointer(unsafe.SliceData(data)), data}
}

// Arrays returns the arrays of every batch as one without nodes and edges would
// have them: names, element types and the extents that do not change.
func (e *Engine) Arrays() []Array {
	var list []Array
	for _, a := range e.specs(&record{}) {
		list = append(list, NewArray(a.name, a.dtype, a.shape, nil))
	}
	return list
}

// Batch is one minibatch as it is handed out: all arrays lie in one slab.
type Batch struct {
	Index           int64 // of the epoch
	BatchSize       int   // seeds
	NumNodes        int   // local nodes
	NumTargets      int   // nodes that were expanded: the first NumTargets
	NumEdges        int
	NumSampledNodes []int64 // by hop, hops+1: the seeds, then the new nodes of each hop
	NumSampledEdges []int64 // by hop
	arrays          []Array
	slab            *memory.Slab
}

// Arrays returns the batch's arrays.
func (b *Batch) Arrays() []Array { return b.arrays }

// Array returns the array of that name.
func (b *Batch) Array(name string) (Array, bool) {
	for _, a := range b.arrays {
		if a.Name == name {
			return a, true
		}
	}
	return Array{}, false
}

// Slab returns the memory that all arrays lie in. Retain it to keep arrays
// beyond Release.
func (b *Batch) Slab() *memory.Slab { return b.slab }

// Release gives up the batch. Its arrays must not be used afterwards, unless
// the slab was retained. It may be called once.
func (b *Batch) Release() {
	if b.slab == nil {
		panic("operation: a batch is released twice")
	}
	s := b.slab
	b.slab, b.arrays = nil, nil
	s.Release()
}

// arraySpec says what an array of a batch is before it has memory.
type arraySpec struct {
	name  string
	dtype layout.DType
	shape []int64
}

func (a *arraySpec) bytes() int64 {
	n := int64(a.dtype.Size())
	for _, d := range a.shape {
		n *= d
	}
	return n
}

// specs lists the arrays of the batch that a record becomes.
func (e *Engine) specs(r *record) []arraySpec {
	var s []arraySpec
	n, edges := int64(r.nodes), int64(r.edges)
	add := func(wanted bool, name string, d layout.DType, shape ...int64) {
		if wanted {
			s = append(s, arraySpec{name, d, shape})
		}
	}
	for _, c := range e.columns {
		shape := append([]int64{n}, c.section.RowShape...)
		switch c.section.Name {
		case layout.SectionX:
			add(true, "x", c.section.Type(), shape...)
		case layout.SectionY:
			add(true, "y", c.section.Type(), shape...)
		case layout.SectionDegree:
			add(true, "degree", c.section.Type(), shape...)
		}
	}
	o := &e.Outputs
	add(o.NodeIDs, "n_id", layout.Int64, n)
	add(o.EdgeIndex, "edge_index", layout.Int64, 2, edges)
	add(o.EdgeIDs, "e_id", layout.Int64, edges)
	add(o.InputIDs, "input_id", layout.Int64, int64(r.seeds))
	add(o.CSC, "ptr", layout.Uint32, int64(r.targets)+1)
	add(o.CSC, "src", layout.Uint32, edges)
	return s
}

// slabBytes returns the size of the slab for a record's batch.
func (e *Engine) slabBytes(r *record) int64 {
	n := int64(0)
	for _, a := range e.specs(r) {
		n += roundUp(a.bytes(), 64)
	}
	return max(n, 64) // so that even an empty array has an address
}

// newBatch lays out a batch in a slab.
func (e *Engine) newBatch(r *record, slab *memory.Slab) *Batch {
	b := &Batch{
		Index: r.index, BatchSize: r.seeds, NumNodes: r.nodes, NumTargets: r.targets, NumEdges: r.edges,
		NumSampledNodes: r.hopNodes, NumSampledEdges: r.hopEdges, slab: slab,
	}
	mem := slab.Bytes()
	at := int64(0)
	for _, a := range e.specs(r) {
		n := a.bytes()
		data := mem[at : at+n : at+n]
		b.arrays = append(b.arrays, Array{a.name, a.dtype, a.shape, unsafe.Pointer(unsafe.SliceData(mem[at:])), data})
		at += roundUp(n, 64)
	}
	return b
}
