package train

// What the trainer needs of whoever prepares minibatches.

import (
	"context"
	"fmt"
	"unsafe"

	"github.com/goagnes/goagnes/kernels"
	"github.com/goagnes/goagnes/layout"
)

// The splits a training run opens.
const (
	SplitTrain = "train"
	SplitVal   = "val"
	SplitTest  = "test"
)

// A Pass is one run over the nodes of a split.
type Pass struct {
	Epoch     uint32
	Fanouts   []int // neighbours taken of a node, by hop; -1: all. Empty: no neighbours
	BatchSize int
	Shuffle   bool
	Train     bool
}

// A Source prepares minibatches. A split that does not exist or is empty gives a
// Stream that is at its end.
type Source interface {
	Open(ctx context.Context, split string, pass Pass) (Stream, error)
}

// A Stream gives the minibatches of a pass in order, then io.EOF.
type Stream interface {
	Next(ctx context.Context) (*Batch, error)
	Close() error
}

// A Batch is one minibatch. Its nodes have local numbers, hop by hop, seeds
// first; a node is new in one hop. Its arrays are read until Release is called.
type Batch struct {
	NumSeeds    int
	NodesPerHop []int // new nodes, hop 0 being the seeds: one entry more than hops
	EdgesPerHop []int // one entry a hop

	// Features: a row of Dim elements of XDType for each node, RowBytes apart.
	X        []byte
	XDType   layout.DType
	Dim      int
	RowBytes int

	// In-edges of every node but those of the last hop, as compressed sparse
	// columns: Src[Ptr[t]:Ptr[t+1]] are the sources of target t.
	Ptr, Src []uint32

	Labels []int64 // of the seeds; -1: unlabelled
	// Degree is the in-degree in the whole graph of every node, self-loops left
	// out, where all neighbours are taken; nil where they are sampled.
	Degree []uint32
	NID    []int64 // original ids, of the seeds at least; may be nil

	Release func() // may be nil
}

func (b *Batch) release() {
	if b.Release != nil {
		b.Release()
	}
}

// An UnsupportedError tells what kind of input the trainer does not read.
type UnsupportedError struct{ What string }

func (e *UnsupportedError) Error() string { return "train: " + e.What }

// Class returns "unsupported".
func (e *UnsupportedError) Class() string { return "unsupported" }

// A LabelError tells which label lies outside the classes.
type LabelError struct {
	Node    int64 // original id, or position in the minibatch where that is unknown
	Label   int64
	Classes int
}

func (e *LabelError) Error() string {
	return fmt.Sprintf("train: node %d has label %d; labels must be 0 to %d, or -1 for none", e.Node, e.Label, e.Classes-1)
}

// Class returns "input".
func (e *LabelError) Class() string { return "input" }

// numNodes is the number of nodes, which is that of feature rows.
func (b *Batch) numNodes() (n int) {
	for _, hop := range b.NodesPerHop {
		n += hop
	}
	return n
}

// features views X, which must be of a type kernels read, as an operand.
func (b *Batch) features() kernels.Input {
	size, in := b.XDType.Size(), kernels.Input{Rows: b.numNodes(), Cols: b.Dim}
	p := unsafe.Pointer(unsafe.SliceData(b.X))
	if b.RowBytes%size != 0 || uintptr(p)%uintptr(size) != 0 {
		panic(fmt.Sprintf("train: features of %d bytes at %p, rows of %d bytes", size, p, b.RowBytes))
	}
	in.Stride = b.RowBytes / size
	if b.XDType == layout.Float16 {
		in.F16 = unsafe.Slice((*uint16)(p), len(b.X)/size)
	} else {
		in.F32 = unsafe.Slice((*float32)(p), len(b.X)/size)
	}
	return in
}

// check refuses labels outside the classes and returns how many seeds have one.
func (b *Batch) check(classes int) (labelled int, err error) {
	if len(b.NodesPerHop) == 0 || b.NodesPerHop[0] != b.NumSeeds || len(b.Labels) < b.NumSeeds {
		panic(fmt.Sprintf("train: minibatch of %d seeds with nodes %v and %d labels", b.NumSeeds, b.NodesPerHop, len(b.Labels)))
	}
	for i, label := range b.Labels[:b.NumSeeds] {
		if label < -1 || label >= int64(classes) {
			node := int64(i)
			if i < len(b.NID) {
				node = b.NID[i]
			}
			return 0, &LabelError{node, label, classes}
		}
		if label >= 0 {
			labelled++
		}
	}
	return labelled, nil
}
