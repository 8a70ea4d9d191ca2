package operation

import (
	"github.com/goagnes/goagnes/goagnes/storage"
	"github.com/goagnes/goagnes/layout"
)

// record is one sampled minibatch: what S-3 keeps of it until it is handed
// out, in memory or in scratch. Its body is
//
//	nodes  uint32 x nodes    internal ids: seeds, then in order of discovery
//	ends   uint32 x targets  end of each target's edges among src
//	src    uint32 x edges    local ids of sources, by target
//	eids   edgeWide x edges  edge ids, from a multiple of 8 bytes on
type record struct {
	index    int64 // minibatch of the epoch
	seeds    int
	nodes    int
	targets  int // nodes that were expanded: all but those new in the last hop
	edges    int
	hopNodes []int64 // new nodes by hop, hops+1
	hopEdges []int64 // edges by hop

	body  []byte   // in memory, nil when in scratch
	at    int64    // byte offset in the samples file
	bytes int64    // length of the body
	sums  []uint32 // seals of the body's units in scratch, the first of which are its nodes

	cold  int   // rows that are in its run
	runAt int64 // byte offset in the runs file
}

// seal cuts a body in scratch into units such that the first holds the nodes, which
// gathering reads alone.
func (r *record) seal() storage.Seal {
	return storage.Seal{Unit: roundUp(4*int64(r.nodes), layout.PageSize), Sums: r.sums}
}

// offsets returns where the parts of a body begin, and its length.
func (r *record) offsets(edgeWide int) (ends, src, eids, length int64) {
	ends = 4 * int64(r.nodes)
	src = ends + 4*int64(r.targets)
	eids = roundUp(src+4*int64(r.edges), 8)
	return ends, src, eids, eids + int64(edgeWide)*int64(r.edges)
}
