package engine

// Reading single nodes into arrays that Python made.

import (
	"context"
	"encoding/json"

	"github.com/goagnes/goagnes/capi/control"
	"github.com/goagnes/goagnes/goagnes"
)

// nodesRequest are the arguments of the reads of an open store. Addresses are of
// C-ordered arrays of Length elements: int64, except Out of "rows", which is bytes.
type nodesRequest struct {
	Store int64  `json:"store"`
	Name  string `json:"name"` // of an array or a split
	IDs   *nodes `json:"ids"`
	Mask  *nodes `json:"mask"`
	First int64  `json:"first"` // where IDs is absent: Count nodes, Step apart
	Step  int64  `json:"step"`
	Count int64  `json:"count"`
	Node  int64  `json:"node"`
	Out   nodes  `json:"out"`
	Edges nodes  `json:"edges"` // edge ids, or targets
}

func (r *nodesRequest) nodes() goagnes.Nodes {
	n := goagnes.Nodes{First: r.First, Step: r.Step, Count: r.Count}
	if r.IDs != nil {
		n.IDs = slice[int64](*r.IDs)
	}
	return n
}

// runNodes does the kinds "rows", "split", "neighbors", "edges", "original_ids",
// "dense_ids" and "set_split".
func runNodes(ctx context.Context, kind string, s *goagnes.Store, request json.RawMessage, report control.Progress) (any, error) {
	var r nodesRequest
	if err := decode(request, &r); err != nil {
		return nil, err
	}
	switch kind {
	case "rows":
		return nil, s.ReadNodes(ctx, r.Name, r.nodes(), slice[byte](r.Out))
	case "split":
		return nil, s.ReadSplit(ctx, r.Name, slice[int64](r.Out))
	case "neighbors":
		degree, err := s.Neighbors(ctx, r.Node, slice[int64](r.Out), slice[int64](r.Edges))
		return map[string]int64{"degree": degree}, err
	case "edges":
		return nil, s.ReadEdges(ctx, slice[int64](r.Out), slice[int64](r.Edges), goagnes.Progress(report))
	case "original_ids":
		return nil, s.OriginalIDs(ctx, r.nodes(), slice[int64](r.Out))
	case "dense_ids":
		return nil, s.DenseIDs(ctx, r.nodes().IDs, slice[int64](r.Out))
	}
	in := goagnes.InputNodes{IDs: r.nodes().IDs}
	if r.Mask != nil {
		in.Mask = slice[bool](*r.Mask)
	}
	return s.SetSplit(ctx, r.Name, in)
}
