package edgelist

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/goagnes/goagnes/layout/build/source"
)

// Every stage sees all edges in order, with what the stage before made of them.
func TestScan(t *testing.T) {
	for _, threads := range []int{1, 2, 4} {
		for _, e := range []*edgeList{drawEdges(0, 1, 1), drawEdges(1, 9, 1), drawEdges(3000, 40, 7), drawEdges(3*source.ChunkEdges+5, 1000, source.ChunkEdges)} {
			var seen [2][]int64
			told := int64(0)
			stages := []func(k *Chunk) error{
				func(k *Chunk) error {
					if k.First != int64(len(seen[0])) {
						t.Errorf("a chunk from edge %d on, after %d", k.First, len(seen[0]))
					}
					for i := range k.Src {
						seen[0] = append(seen[0], int64(k.Src[i]))
						k.Dst[i] += 5
					}
					return nil
				},
				func(k *Chunk) error {
					for _, v := range k.Dst {
						seen[1] = append(seen[1], int64(v)-5)
					}
					return nil
				},
			}
			edges, top, err := Scan(context.Background(), e, 1000, true, threads, func(done int64) { told = done }, stages...)
			want := int64(-1)
			if len(e.src) > 0 {
				want = max(slices.Max(e.src), slices.Max(e.dst))
			}
			if err != nil || edges != int64(len(e.src)) || top != want || told != edges {
				t.Errorf("%d threads: %d edges, largest id %d, told of %d, %v; want %d and %d", threads, edges, top, told, err, len(e.src), want)
			}
			if !slices.Equal(seen[0], e.src) || !slices.Equal(seen[1], e.dst) {
				t.Errorf("%d threads, %d edges: the stages saw others", threads, len(e.src))
			}
		}
	}
}

func TestScanEnds(t *testing.T) {
	full := errors.New("full")
	for _, threads := range []int{1, 3} {
		for name, c := range map[string]struct {
			src, dst int64 // of edge 100,000
			limit    int64
			known    bool
			fail     bool // the second stage, at that edge
			cancel   bool
			want     string
		}{
			"negative":         {-3, 4, 50, true, false, false, "edge -3 → 4: negative id"},
			"negative target":  {3, -1 << 63, 50, true, false, false, "negative id"},
			"past the nodes":   {3, 50, 50, true, false, false, "edge 3 → 50: the graph has 50 nodes, so ids end at 49"},
			"past dense ids":   {1 << 40, 0, MaxNodes, false, false, false, fmt.Sprint("dense ids end at ", int64(MaxNodes-1))},
			"the largest id":   {MaxNodes - 1, 0, MaxNodes, false, false, false, ""},
			"a stage's error":  {1, 1, 50, true, true, false, "full"},
			"an interruption":  {1, 1, 50, true, false, true, "context canceled"},
			"nothing is wrong": {1, 49, 50, true, false, false, ""},
		} {
			e := drawEdges(150_000, 50, source.ChunkEdges)
			const at = 100_000
			e.src[at], e.dst[at] = c.src, c.dst
			ctx, cancel := context.WithCancel(context.Background())
			_, _, err := Scan(ctx, e, c.limit, c.known, threads, nil, func(*Chunk) error { return nil }, func(k *Chunk) error {
				if k.First+int64(len(k.Src)) > at {
					if c.cancel {
						cancel()
					}
					if c.fail {
						return full
					}
				}
				return nil
			})
			cancel()
			if (err != nil) != (c.want != "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s, %d threads: %v, want %q", name, threads, err, c.want)
			}
			var input *source.Error
			if !c.fail && !c.cancel && c.want != "" && (!errors.As(err, &input) || input.Index != at || input.File != e.Name()) {
				t.Errorf("%s, %d threads: edge %d is not named: %v", name, threads, at, err)
			}
			if c.fail && !errors.Is(err, full) || c.cancel && !errors.Is(err, context.Canceled) {
				t.Errorf("%s, %d threads: %v", name, threads, err)
			}
		}
	}
}

// numbered are edges that come from lines: a heading before the first, and a blank one
// after each.
type numbered struct{ source.Edges }

func (numbered) LineOf(_ context.Context, edge int64) int64 { return 2 * (edge + 1) }

// A fault of an edge names its line where it came from one, through all that stands
// between the source and the scan.
func TestScanNamesLines(t *testing.T) {
	e := drawEdges(1000, 50, 300)
	e.dst[700] = 60
	lines := numbered{e}
	for name, edges := range map[string]source.Edges{"source": lines, "counted": Counted{Edges: lines}, "kept": &Kept{Edges: lines}, "spilled": &Spilled{Edges: lines}} {
		line := source.LineOf(context.Background(), edges, 700)
		err := idFault(context.Background(), edges, 699, e.src[699:701], e.dst[699:701], 50, true)
		var input *source.Error
		if !errors.As(err, &input) || line != 1402 || input.Line != line || input.Index != -1 {
			t.Errorf("%s: line %d, %v", name, line, err)
		}
	}
}
