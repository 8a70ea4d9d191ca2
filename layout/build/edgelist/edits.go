package edgelist

// Changes of the edge list that a build is asked for: reverse edges, self-loops,
// duplicates. Reverses are added and loops dropped as edges stream by; duplicates
// are found, and loops added, where all in-edges of a node lie together.

import (
	"github.com/goagnes/goagnes/layout/build/fault"
)

// Values of Options.SelfLoops and Options.Duplicates.
const (
	Keep = "keep"
	Drop = "drop"
	Add  = "add" // of self-loops only
)

// Edits are the changes asked for, and what they came to.
type Edits struct {
	Undirected     bool
	DropLoops      bool
	AddLoops       bool
	DropDuplicates bool

	Listed     int64 // edges of the imported list
	Loops      int64 // self-loops among them; counted where loops matter
	Duplicates int64 // dropped
	Added      int64 // self-loops
}

// NewEdits are the changes that the options of a build ask for.
func NewEdits(undirected bool, selfLoops, duplicates string) (Edits, error) {
	e := Edits{Undirected: undirected}
	switch selfLoops {
	case "", Keep:
	case Drop:
		e.DropLoops = true
	case Add:
		e.AddLoops = true
	default:
		return e, fault.Usage("self_loops=%q: it is one of %q, %q, %q", selfLoops, Keep, Drop, Add)
	}
	switch duplicates {
	case "", Keep:
	case Drop:
		e.DropDuplicates = true
	default:
		return e, fault.Usage("duplicates=%q: it is one of %q, %q", duplicates, Keep, Drop)
	}
	return e, nil
}

// Streams reports whether edges change as they stream by.
func (e *Edits) Streams() bool { return e.Undirected || e.DropLoops }

// Settles reports whether lists of in-edges change once they are sorted.
func (e *Edits) Settles() bool { return e.AddLoops || e.DropDuplicates }

// Streamed is the number of edges that are distributed by target.
func (e *Edits) Streamed() int64 {
	n := e.Listed
	if e.DropLoops {
		n -= e.Loops
	}
	if e.Undirected {
		n += e.Listed - e.Loops
	}
	return n
}

// LoopIDs is the edge id of the self-loop that is added to node 0.
func (e *Edits) LoopIDs() int64 {
	if e.Undirected {
		return 2 * e.Listed
	}
	return e.Listed
}

// IDRange is the number above all edge ids.
func (e *Edits) IDRange(numNodes int64) int64 {
	if e.AddLoops {
		return e.LoopIDs() + numNodes
	}
	return e.LoopIDs()
}

// countLoops counts the self-loops of a chunk, and takes them out where they are
// dropped. Edge ids are lost by it.
func (e *Edits) countLoops(k *Chunk) {
	n := 0
	for i, s := range k.Src {
		d := k.Dst[i]
		if s == d {
			e.Loops++
			if e.DropLoops {
				continue
			}
		}
		k.Src[n], k.Dst[n] = s, d
		n++
	}
	k.Src, k.Dst = k.Src[:n], k.Dst[:n]
}

// eachReverse calls f with the target, the source of the reverse, of every edge
// that is no loop.
func eachReverse(k *Chunk, f func(target, source uint32)) {
	for i, s := range k.Src {
		if d := k.Dst[i]; s != d {
			f(s, d)
		}
	}
}
