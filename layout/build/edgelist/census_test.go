package edgelist

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/goagnes/goagnes/layout/build/fault"
	"github.com/goagnes/goagnes/layout/build/ledger"
	"github.com/goagnes/goagnes/tests/fixture/space"
)

// edited are the edges that stream by, one after the other as they are defined.
func edited(e *edgeList, edits Edits) (src, dst []int64) {
	for i, u := range e.src {
		v := e.dst[i]
		if u != v || !edits.DropLoops {
			src, dst = append(src, u), append(dst, v)
		}
		if edits.Undirected && u != v {
			src, dst = append(src, v), append(dst, u)
		}
	}
	return src, dst
}

// The census holds what counting the edited edges one by one gives.
func TestCount(t *testing.T) {
	for _, nodes := range []int64{1, 40, 200_000} { // the last in a histogram of wider ranges
		for _, undirected := range []bool{false, true} {
			for _, loops := range []string{Keep, Drop, Add} {
				for _, tables := range []int64{0, 17, nodes} {
					e := drawEdges(5000, nodes, 611)
					e.src[77], e.dst[77] = nodes-1, 0
					edits, err := NewEdits(undirected, loops, "")
					if err != nil {
						t.Fatal(err)
					}
					what := fmt.Sprintf("%d nodes, undirected %v, loops %s, %d in tables", nodes, undirected, loops, tables)
					w := space.New(t, 1<<22)
					c, err := Count(w, e, &edits, nodes, tables)
					if err != nil {
						t.Fatal(err)
					}
					src, dst := edited(e, edits)
					if edits.Listed != 5000 || edits.Streamed() != int64(len(src)) || c.MaxID != nodes-1 {
						t.Errorf("%s: %d listed, %d streamed, largest id %d; want 5000, %d, %d", what, edits.Listed, edits.Streamed(), c.MaxID, len(src), nodes-1)
					}
					ranges := map[int64]uint64{}
					for _, v := range dst {
						ranges[v>>c.Targets.Shift]++
					}
					for k, n := range c.Targets.Count {
						if n != ranges[int64(k)] {
							t.Errorf("%s: %d targets in range %d, want %d", what, n, k, ranges[int64(k)])
						}
					}
					if nodes <= coarseBuckets != (c.Targets.Shift == 0) {
						t.Errorf("%s: ranges of %d ids", what, 1<<c.Targets.Shift)
					}
					if (c.In != nil) != (tables >= nodes) {
						t.Fatalf("%s: %d bytes of degrees", what, c.TableBytes())
					}
					if c.In != nil {
						out, in := make([]uint32, tables), make([]uint32, tables)
						for i := range src {
							out[src[i]]++
							in[dst[i]]++
						}
						if !slices.Equal(ledger.View[uint32](c.Out.Bytes), out) || !slices.Equal(ledger.View[uint32](c.In.Bytes), in) {
							t.Errorf("%s: the degrees differ", what)
						}
						c.Shrink(nodes / 2)
						if n := nodes / 2; !slices.Equal(ledger.View[uint32](c.In.Bytes), in[:n]) || !slices.Equal(ledger.View[uint32](c.Out.Bytes), out[:n]) {
							t.Errorf("%s: the degrees of half of the nodes differ", what)
						}
					}
					c.Close()
				}
			}
		}
	}
}

func TestCoarse(t *testing.T) {
	h := NewCoarse()
	ids := []uint32{0, 1, 2, coarseBuckets - 1, coarseBuckets, 3 * coarseBuckets, 1<<32 - 1}
	for i, id := range ids {
		h.Cover(id)
		h.Count[id>>h.Shift]++
		want := map[uint32]uint64{}
		for _, v := range ids[:i+1] {
			want[v>>h.Shift]++
		}
		for k, n := range h.Count {
			if n != want[uint32(k)] {
				t.Fatalf("after %d: %d in range %d, want %d", id, n, k, want[uint32(k)])
			}
		}
	}
	if h.Shift != 16 {
		t.Errorf("ranges of 2^%d ids for ids of 32 bits", h.Shift)
	}
}

// Edge ids: those of the list, then those of its reverses, then those of the loops
// added, whether there are such edges or not.
func TestEdits(t *testing.T) {
	for _, c := range []struct {
		undirected        bool
		loops, duplicates string
		refused           bool
		streams, settles  bool
		loopIDs, idRange  int64
	}{
		{false, "", "", false, false, false, 100, 100},
		{false, "keep", "keep", false, false, false, 100, 100},
		{true, "", "", false, true, false, 200, 200},
		{false, "drop", "", false, true, false, 100, 100},
		{false, "add", "", false, false, true, 100, 110},
		{true, "add", "drop", false, true, true, 200, 210},
		{false, "", "drop", false, false, true, 100, 100},
		{false, "remove", "", true, false, false, 0, 0},
		{false, "", "add", true, false, false, 0, 0},
	} {
		e, err := NewEdits(c.undirected, c.loops, c.duplicates)
		var usage *fault.Error
		if errors.As(err, &usage) != c.refused || c.refused && usage.Class() != "usage" {
			t.Errorf("%+v: %v", c, err)
		}
		if c.refused {
			continue
		}
		e.Listed = 100
		if e.Streams() != c.streams || e.Settles() != c.settles || e.LoopIDs() != c.loopIDs || e.IDRange(10) != c.idRange {
			t.Errorf("%+v: %v, %v, %d, %d", c, e.Streams(), e.Settles(), e.LoopIDs(), e.IDRange(10))
		}
	}
}
