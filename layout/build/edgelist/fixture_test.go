package edgelist

import (
	"context"
	"math/rand/v2"
	"testing"
)

// edgeList is edges in memory, handed over in pieces of changing sizes, and how often
// they were read.
type edgeList struct {
	src, dst []int64
	piece    int // the largest piece
	scans    int
}

func (e *edgeList) Name() string         { return "edges.csv" }
func (e *edgeList) Count() (int64, bool) { return int64(len(e.src)), true }

func (e *edgeList) Scan(ctx context.Context, f func(src, dst []int64) error) error {
	e.scans++
	for at := 0; at < len(e.src); {
		if err := ctx.Err(); err != nil {
			return err
		}
		n := min(e.piece-at%max(e.piece/2, 1), len(e.src)-at)
		if err := f(e.src[at:at+n:at+n], e.dst[at:at+n:at+n]); err != nil {
			return err
		}
		at += n
	}
	return nil
}

// drawEdges are edges of nodes with small ids mostly, a fifth of them loops.
func drawEdges(edges int, nodes int64, piece int) *edgeList {
	r := rand.New(rand.NewPCG(uint64(edges), uint64(nodes)))
	e := &edgeList{piece: piece}
	for range edges {
		u := r.Int64N(r.Int64N(nodes) + 1)
		v := r.Int64N(nodes)
		if r.IntN(5) == 0 {
			v = u
		}
		e.src, e.dst = append(e.src, u), append(e.dst, v)
	}
	return e
}

// collect reads edges into lists.
func collect(t *testing.T, scan func(ctx context.Context, f func(src, dst []int64) error) error) (src, dst []int64) {
	t.Helper()
	if err := scan(context.Background(), func(s, d []int64) error {
		src, dst = append(src, s...), append(dst, d...)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return src, dst
}
