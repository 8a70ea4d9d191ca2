package build

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/goagnes/goagnes/layout"
	"github.com/goagnes/goagnes/layout/build/edgelist"
	"github.com/goagnes/goagnes/layout/build/order"
	"github.com/goagnes/goagnes/layout/build/source"
	"github.com/goagnes/goagnes/layout/build/source/formats"
	"github.com/goagnes/goagnes/layout/build/verify"
	"github.com/goagnes/goagnes/layout/build/workspace"
)

// edited is a naive edit of the edge list, over maps.
func (g *graph) edited(undirected bool, loops, duplicates string) (*graph, *Report) {
	type edge struct{ u, v, id int64 }
	var list []edge
	r := &Report{EditCounts: EditCounts{EdgesListed: int64(len(g.src))}}
	for i := range g.src {
		list = append(list, edge{g.src[i], g.dst[i], int64(i)})
	}
	next := int64(len(g.src))
	if undirected {
		for i := range g.src {
			if g.src[i] != g.dst[i] {
				list = append(list, edge{g.dst[i], g.src[i], next + int64(i)})
				r.ReversesAdded++
			}
		}
		next *= 2
	}
	out := *g
	out.src, out.dst, out.ids, out.sources = nil, nil, []int64{}, []int64{}
	looped := map[int64]bool{}
	seen := map[[2]int64]bool{}
	for _, e := range list {
		if e.u == e.v && loops == edgelist.Drop {
			r.SelfLoopsDropped++
			continue
		}
		if seen[[2]int64{e.u, e.v}] && duplicates == edgelist.Drop {
			r.DuplicatesDropped++
			continue
		}
		out.sources = append(out.sources, e.u)
		seen[[2]int64{e.u, e.v}] = true
		looped[e.u] = looped[e.u] || e.u == e.v
		out.src, out.dst, out.ids = append(out.src, e.u), append(out.dst, e.v), append(out.ids, e.id)
	}
	if loops == edgelist.Add {
		for v := range g.n {
			if !looped[v] {
				r.SelfLoopsAdded++
				out.src, out.dst, out.ids = append(out.src, v), append(out.dst, v), append(out.ids, next+v)
			}
		}
	}
	r.NumEdges = int64(len(out.src))
	return &out, r
}

// textOf writes the edges as a gzipped text file, whose edges are not counted before
// they are read.
func textOf(t *testing.T, g *graph) source.Edges {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	for i := range g.src {
		fmt.Fprintf(w, "%d\t%d\n", g.src[i], g.dst[i])
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(t.TempDir(), "edges.txt.gz")
	if err := os.WriteFile(name, b.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	e, err := formats.OpenEdges(name, source.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return e.Edges
}

// Every combination of edits over multigraphs with loops, parallel edges, hubs over
// several blocks and isolated nodes, in every way that edges are sorted.
func TestEditsAgainstNaive(t *testing.T) {
	t.Parallel()
	tunes := map[string]workspace.Tuning{
		"memory":     {},
		"partitions": {OnScratch: true, SortBytes: 20_000, AreaBytes: 200_000},
		"cut again":  {OnScratch: true, SortBytes: 8_000, Parts: 4, AreaBytes: 150_000},
		"tiny sorts": {SortBytes: 2_000, AreaBytes: 100_000, Wide: true},
	}
	graphs := map[string]*graph{
		"small":    randomGraph(21, 50, 300, 3),
		"hubs":     randomGraph(22, 3000, 30_000, 2),
		"one node": randomGraph(24, 1, 40, 5),
		"no edges": randomGraph(25, 20, 0, 4),
		"loops":    {n: 4, src: []int64{1, 1, 1, 2, 0}, dst: []int64{1, 1, 2, 1, 0}},
	}
	for gname, g := range graphs {
		for _, undirected := range []bool{false, true} {
			for _, loops := range []string{edgelist.Keep, edgelist.Drop, edgelist.Add} {
				for _, duplicates := range []string{edgelist.Keep, edgelist.Drop} {
					want, counts := g.edited(undirected, loops, duplicates)
					for tname, tune := range tunes {
						for _, name := range []string{layout.OrderOriginal, order.Degree} {
							if gname == "hubs" && (tname == "memory") != (name == order.Degree) && testing.Short() {
								continue
							}
							t.Run(fmt.Sprintf("%s/%v %s %s/%s/%s", gname, undirected, loops, duplicates, tname, name), func(t *testing.T) {
								t.Parallel()
								o := g.options()
								if tname == "partitions" {
									o.Edges = textOf(t, g)
								}
								o.Order, o.BlockSize, o.Memory = name, 4<<10, 32<<20
								o.Undirected, o.SelfLoops, o.Duplicates = undirected, loops, duplicates
								path, r := buildIn(t, o, tune)
								s := readStore(t, path)
								if err := s.compare(want, name); err != nil {
									t.Error(err)
								}
								got := Report{NumEdges: r.NumEdges, EditCounts: r.EditCounts}
								if fmt.Sprint(got) != fmt.Sprint(*counts) {
									t.Errorf("reported %+v, expected %+v", got, *counts)
								}
								if r.PeakMemoryPlanned > o.Memory {
									t.Errorf("%d bytes planned of %d", r.PeakMemoryPlanned, o.Memory)
								}
								whole(t, path)
							})
						}
					}
				}
			}
		}
	}
}

// An edited list without gaps makes the store of the list written out.
func TestUndirectedEqualsBothDirections(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(3, 4))
	g := &graph{n: 400}
	for range 5000 {
		u := r.Int64N(400)
		g.src, g.dst = append(g.src, u), append(g.dst, (u+1+r.Int64N(399))%400)
	}
	both := &graph{n: g.n, src: append(append([]int64{}, g.src...), g.dst...), dst: append(append([]int64{}, g.dst...), g.src...)}
	o := g.options()
	o.Undirected = true
	_, a := buildIn(t, o, workspace.Tuning{})
	_, b := buildIn(t, both.options(), workspace.Tuning{})
	if a.BuildID != b.BuildID {
		t.Error("the stores differ")
	}
}

// A budget from the smallest that is accepted on: equal stores, and never a panic.
func TestEditsUnderBudgets(t *testing.T) {
	t.Parallel()
	g := randomGraph(31, 2000, 150_000, 0)
	want := ""
	for _, memory := range []int64{18 << 20, 24 << 20, 256 << 20} {
		o := g.options()
		o.Undirected, o.SelfLoops, o.Duplicates, o.Memory = true, edgelist.Add, edgelist.Drop, memory
		o.BlockSize, o.Order = 4<<10, layout.OrderOriginal
		_, r := buildIn(t, o, workspace.Tuning{})
		if want == "" {
			want = r.BuildID
		}
		if r.BuildID != want || r.PeakMemoryPlanned > memory {
			t.Errorf("memory %d: build id %s, expected %s; %d planned", memory, r.BuildID, want, r.PeakMemoryPlanned)
		}
	}
}

func TestEditsAreRefusedByName(t *testing.T) {
	for word, o := range map[string]Options{
		"self_loops": {SelfLoops: "remove"}, "duplicates": {Duplicates: "add"},
	} {
		o.Edges = edgesOf(nil, nil)
		path := filepath.Join(t.TempDir(), "store")
		if _, err := Build(context.Background(), path, o); err == nil || !strings.Contains(err.Error(), word) {
			t.Errorf("err = %v, expected one about %s", err, word)
		}
		onlyStore(t, path)
	}
}

// Verification knows that ids have gaps, and no more than that.
func TestVerifyGaps(t *testing.T) {
	t.Parallel()
	g := randomGraph(41, 60, 2000, 0)
	o := g.options()
	o.Duplicates, o.Order = edgelist.Drop, layout.OrderOriginal
	path, r := buildIn(t, o, workspace.Tuning{})
	m := readStore(t, path).m
	if m.EdgeIDs != 2000 || m.NumEdges != r.NumEdges || m.NumEdges >= 2000 || m.FormatVersion() != 2 {
		t.Errorf("%d edges, ids below %d, version %d", m.NumEdges, m.EdgeIDs, m.FormatVersion())
	}
	whole(t, path)
	name := filepath.Join(path, layout.SectionEdgeID)
	sound := must(os.ReadFile(name))
	for want, id := range map[string]uint32{"there are": 2000, "a second time": binary.LittleEndian.Uint32(sound)} {
		b := bytes.Clone(sound)
		binary.LittleEndian.PutUint32(b[4*(m.NumEdges-1):], id)
		if err := os.WriteFile(name, b, 0o666); err != nil {
			t.Fatal(err)
		}
		reseal(t, path)
		v, err := verify.Store(context.Background(), path, verify.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(fmt.Sprint(v.Findings), want) {
			t.Errorf("found %v, expected one that says %q", v.Findings, want)
		}
	}
}
