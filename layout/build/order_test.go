package build

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/goagnes/goagnes/layout"
	"github.com/goagnes/goagnes/layout/build/edgelist"
	"github.com/goagnes/goagnes/layout/build/order"
	"github.com/goagnes/goagnes/layout/build/workspace"
)

// bfsLevels are the levels that the order "bfs" follows (docs/orders.md).
const bfsLevels = 64

// naiveBFS is a queue over lists in memory: bfsLevels levels of it, then what the
// component has left.
func (g *graph) naiveBFS() []int64 {
	lists := make([][]int64, g.n)
	degree := make([]int, g.n)
	sources := g.sources
	if sources == nil {
		sources = g.src
	}
	for _, s := range sources {
		degree[s]++
	}
	for e, s := range g.src {
		lists[s], lists[g.dst[e]] = append(lists[s], g.dst[e]), append(lists[g.dst[e]], s)
	}
	level := make([]int, g.n)
	for v := range lists {
		slices.Sort(lists[v])
		level[v] = -1
	}
	var all []int64
	from := func(v int64) {
		if level[v] >= 0 {
			return
		}
		queue, late := []int64{v}, []int64{}
		level[v] = 0
		for i := 0; i < len(queue); i++ {
			for _, u := range lists[queue[i]] {
				if level[u] >= 0 {
					continue
				}
				level[u] = level[queue[i]] + 1
				queue = append(queue, u)
			}
		}
		for i, u := range queue {
			if level[u] > bfsLevels {
				late = append(late, queue[i:]...)
				queue = queue[:i]
				break
			}
		}
		slices.Sort(late)
		all = append(append(all, queue...), late...)
	}
	if g.n > 0 {
		start := 0
		for v, d := range degree {
			if d > degree[start] {
				start = v
			}
		}
		from(int64(start))
	}
	for v := range g.n {
		from(v)
	}
	return all
}

// trainSet returns the nodes of the train split.
func (g *graph) trainSet() map[int64]bool {
	train := map[int64]bool{}
	for _, v := range g.splits["train"] {
		train[v] = true
	}
	return train
}

// naiveVisit is the model of the order "visit" in float64, node by node.
func (g *graph) naiveVisit() []float64 {
	in := make([][]int64, g.n)
	for e, s := range g.src {
		in[g.dst[e]] = append(in[g.dst[e]], s)
	}
	train := g.trainSet()
	share := min(1, 1000/float64(max(len(train), 1)))
	passed, missed, fresh := make([]float64, g.n), make([]float64, g.n), make([]float64, g.n)
	for v := range missed {
		passed[v] = 1
		if missed[v] = 1; train[int64(v)] {
			fresh[v], missed[v] = share, 1-share
		}
	}
	unseeded := slices.Clone(missed)
	for range 3 {
		for v, list := range in {
			for _, u := range list {
				if u != int64(v) {
					passed[u] *= 1 - fresh[v]*min(1, 10/float64(len(list)))
				}
			}
		}
		for v := range fresh {
			now := unseeded[v] * passed[v]
			fresh[v], missed[v] = missed[v]-now, now
		}
	}
	for v := range missed {
		missed[v] = 1 - missed[v]
	}
	return missed
}

// checkVisit checks an order against naiveVisit, to the precision of the build.
func (g *graph) checkVisit(original []int64) error {
	if got := slices.Sorted(slices.Values(original)); int64(len(got)) != g.n || g.n > 0 && (got[0] != 0 || got[g.n-1] != g.n-1 || len(slices.Compact(got)) != int(g.n)) {
		return fmt.Errorf("no permutation: %v", original)
	}
	p, train, degree := g.naiveVisit(), g.trainSet(), make([]int, g.n)
	for _, s := range g.src {
		degree[s]++
	}
	for i := 1; i < len(original); i++ {
		a, b := original[i-1], original[i]
		if p[a] < p[b]*(1-1e-5)-1e-12 {
			return fmt.Errorf("place %d: node %d of probability %g before node %d of %g", i-1, a, p[a], b, p[b])
		}
		if p[a] != 0 || p[b] != 0 {
			continue
		}
		if slices.Compare([]int64{int64(-degree[a]), a}, []int64{int64(-degree[b]), b}) > 0 || train[b] && !train[a] {
			return fmt.Errorf("place %d: node %d of out-degree %d before node %d of %d, both out of reach", i-1, a, degree[a], b, degree[b])
		}
	}
	return nil
}

func TestBFSByHand(t *testing.T) {
	t.Parallel()
	path := &graph{n: 1000}
	for v := range int64(999) {
		path.src, path.dst = append(path.src, v), append(path.dst, v+1)
	}
	late := make([]int64, 1000)
	for v := range late {
		late[v] = int64(v)
	}
	cases := map[string]struct {
		g    *graph
		want []int64
	}{
		// 4 points at most; 5 and 2 are its neighbours, 0 is found from 2, 3 from 5.
		"one component": {&graph{n: 6, src: []int64{4, 4, 0, 5, 4}, dst: []int64{2, 5, 2, 3, 1}}, []int64{4, 1, 2, 5, 0, 3}},
		// Found against the direction of edges too, and by the first finder.
		"both ways": {&graph{n: 5, src: []int64{1, 1, 0, 4, 4}, dst: []int64{3, 2, 3, 0, 2}}, []int64{1, 2, 3, 4, 0}},
		"components": {&graph{n: 8, src: []int64{6, 6, 5, 1, 3, 2}, dst: []int64{7, 4, 1, 5, 3, 0}},
			[]int64{6, 4, 7, 0, 2, 1, 5, 3}},
		"a path of 1000 nodes": {path, late},
		"no edges":             {&graph{n: 3}, []int64{0, 1, 2}},
	}
	for name, c := range cases {
		if got := c.g.naiveBFS(); !slices.Equal(got, c.want) {
			t.Errorf("%s: the oracle gives %v, expected %v", name, got, c.want)
		}
		o := c.g.options()
		o.Order, o.BlockSize = order.BFS, 4<<10
		stages := map[string]bool{}
		o.Progress = func(stage string, done, total int64) { stages[stage] = true }
		store, _ := buildIn(t, o, workspace.Tuning{})
		if got := readStore(t, store).integers(layout.SectionOriginal); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, expected %v", name, got, c.want)
		}
		if stages[fmt.Sprintf("order nodes (bfs): level %d", bfsLevels+1)] || name == "one component" && (!stages["order nodes (bfs): components"] || !stages["order nodes (bfs): level 2"]) {
			t.Errorf("%s: stages %v", name, stages)
		}
	}
}

// scattered is a graph of several components, a path of 1000 nodes with shuffled ids
// among them.
func scattered(seed uint64) *graph {
	r := rand.New(rand.NewPCG(seed, 9))
	g := &graph{n: 4000, splits: map[string][]int64{}}
	ids := r.Perm(4000)
	add := func(u, v int) {
		if r.IntN(2) == 0 {
			u, v = v, u
		}
		g.src, g.dst = append(g.src, int64(ids[u])), append(g.dst, int64(ids[v]))
	}
	for v := range 999 {
		add(v, v+1)
	}
	for low := 1000; low < 3800; low += 400 { // the last 200 have no edges
		for range 300 + r.IntN(1500) {
			add(low+r.IntN(400), low+r.IntN(r.IntN(399)+1))
		}
	}
	r.Shuffle(len(g.src), func(i, j int) {
		g.src[i], g.src[j] = g.src[j], g.src[i]
		g.dst[i], g.dst[j] = g.dst[j], g.dst[i]
	})
	for range 300 {
		g.splits["train"] = append(g.splits["train"], r.Int64N(g.n))
	}
	return g
}

// Orders are functions of the graph: not of memory, threads, passes through scratch
// or the form of the source.
func TestOrdersOfScatteredGraphs(t *testing.T) {
	t.Parallel()
	for seed := range uint64(3) {
		for _, asked := range []string{order.BFS, order.Visit, order.Auto} {
			g := scattered(seed)
			id := ""
			for i, tune := range []workspace.Tuning{{}, {OnScratch: true}, {OnScratch: true, SortBytes: 8000, Parts: 4}} {
				o := g.options()
				o.Order, o.BlockSize, o.Threads, o.Memory = asked, 4<<10, 1+i%2, int64(64-20*i)<<20
				scans := 0
				if i > 0 {
					o.Edges = uncounted{o.Edges, &scans}
				}
				path, r := buildIn(t, o, tune)
				want := asked
				if asked == order.Auto {
					want = order.Visit
				}
				if err := readStore(t, path).compare(g, want); err != nil {
					t.Errorf("%d %s: %v", seed, asked, err)
				}
				if id == "" {
					id = r.BuildID
				}
				if r.BuildID != id || r.PeakMemoryPlanned > o.Memory || scans > 1 {
					t.Errorf("%d %s %+v: build %s, expected %s; %d bytes planned; %d scans", seed, asked, tune, r.BuildID, id, r.PeakMemoryPlanned, scans)
				}
				whole(t, path)
			}
		}
	}
}

// Orders follow the edges that are stored: reverses are there, dropped loops are not.
func TestOrdersOfEditedEdges(t *testing.T) {
	t.Parallel()
	for _, order := range []string{order.BFS, order.Visit} {
		for _, loops := range []string{edgelist.Keep, edgelist.Drop} {
			g := scattered(7)
			o := g.options()
			o.Order, o.BlockSize, o.Undirected, o.SelfLoops = order, 4<<10, true, loops
			path, _ := buildIn(t, o, workspace.Tuning{})
			want, _ := g.edited(true, loops, edgelist.Keep)
			if err := readStore(t, path).compare(want, order); err != nil {
				t.Errorf("%s, self_loops=%s: %v", order, loops, err)
			}
		}
	}
}

// The model of "visit" agrees with minibatches drawn at random.
func TestVisitAgainstSampling(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(3, 3))
	g := &graph{n: 3000, splits: map[string][]int64{}}
	for range 30_000 {
		u := int64(float64(g.n) * math.Pow(r.Float64(), 3)) // a few are in many lists
		g.src, g.dst = append(g.src, u), append(g.dst, r.Int64N(g.n))
	}
	for v := range int64(40) {
		g.splits["train"] = append(g.splits["train"], v*70)
	}
	in := make([][]int64, g.n)
	for e, s := range g.src {
		in[g.dst[e]] = append(in[g.dst[e]], s)
	}
	const rounds = 400
	count := make([]float64, g.n)
	for range rounds {
		seen := map[int64]bool{}
		var frontier []int64
		for _, v := range g.splits["train"] {
			seen[v], frontier = true, append(frontier, v)
		}
		for range 3 {
			var next []int64
			for _, v := range frontier {
				for _, i := range r.Perm(len(in[v]))[:min(10, len(in[v]))] {
					if u := in[v][i]; !seen[u] {
						seen[u], next = true, append(next, u)
					}
				}
			}
			frontier = next
		}
		for v := range seen {
			count[v]++
		}
	}
	p := g.naiveVisit() // which checkVisit holds builds to
	sum, worst := 0.0, 0.0
	for v := range p {
		d := math.Abs(p[v] - count[v]/rounds)
		sum, worst = sum+d, max(worst, d)
	}
	if mean := sum / float64(g.n); mean > 0.02 || worst > 0.3 {
		t.Errorf("the model is %.4f off on average, %.3f at worst", mean, worst)
	}
	// Rows kept for the most visited tenth: what the order promises against what
	// exact counts would give.
	o := g.options()
	o.Order, o.BlockSize = order.Visit, 4<<10
	path, _ := buildIn(t, o, workspace.Tuning{})
	s := readStore(t, path)
	if err := s.compare(g, order.Visit); err != nil {
		t.Fatal(err)
	}
	best := slices.Clone(count)
	slices.Sort(best)
	slices.Reverse(best)
	got, ideal, all := 0.0, 0.0, 0.0
	for i, v := range s.integers(layout.SectionOriginal) {
		if i < int(g.n)/10 {
			got, ideal = got+count[v], ideal+best[i]
		}
		all += count[v]
	}
	if (ideal-got)/all > 0.005 {
		t.Errorf("the first tenth takes %.2f %% of the visits, at best %.2f %%", 100*got/all, 100*ideal/all)
	}
}

func TestVisitNeedsTrain(t *testing.T) {
	o := randomGraph(1, 10, 10, 1).options()
	o.Order = order.Visit
	delete(o.Splits, "train")
	_, err := Build(context.Background(), filepath.Join(t.TempDir(), "store"), o)
	if err == nil || !strings.Contains(err.Error(), `"train"`) {
		t.Errorf("err = %v", err)
	}
}

// A budget between the tables of degree and those of visit gives degree, with a note.
func TestAutoFallsBackToDegree(t *testing.T) {
	t.Parallel()
	n := int64(4_000_000)
	o := Options{Edges: edgesOf([]int64{0, n - 1}, []int64{5, 6}), BlockSize: 4 << 10, NumNodes: n}
	o.Splits = (&graph{splits: map[string][]int64{"train": {5}}}).options().Splits
	for _, unknown := range []bool{false, true} {
		o.Memory = 62 << 20
		if unknown && testing.Short() {
			continue
		}
		if unknown {
			o.NumNodes, o.Edges = 0, uncounted{o.Edges, new(int)}
		}
		path, r := buildIn(t, o, workspace.Tuning{})
		if r.Order != order.Degree || len(r.Notes) != 1 || !strings.HasPrefix(r.Notes[0], "nodes are ordered by degree: ordering 4000000 nodes by visit needs memory=") {
			t.Fatalf("order %s, notes %q", r.Order, r.Notes)
		}
		whole(t, path)
		if _, err := fmt.Sscanf(r.Notes[0][strings.Index(r.Notes[0], "memory="):], "memory=%d,", &o.Memory); err != nil {
			t.Fatal(err)
		}
		if _, r := buildIn(t, o, workspace.Tuning{}); r.Order != order.Visit {
			t.Errorf("order %s with %d bytes; notes %q", r.Order, o.Memory, r.Notes)
		}
	}
}

// A build is cancelled in whatever pass it is, and leaves nothing.
func TestOrdersCancelled(t *testing.T) {
	t.Parallel()
	for _, order := range []string{order.BFS, order.Visit} {
		for _, at := range []string{"order nodes (bfs): components", "order nodes (bfs): level 1", "order nodes (bfs): level 5", "order nodes (visit): hop 2 of 3"} {
			if !strings.Contains(at, order) {
				continue
			}
			ctx, cancel := context.WithCancel(context.Background())
			o := scattered(1).options()
			o.Order = order
			o.Progress = func(stage string, done, total int64) {
				if stage == at {
					cancel()
				}
			}
			path := filepath.Join(t.TempDir(), "store")
			if _, err := Build(ctx, path, o); !errors.Is(err, context.Canceled) {
				t.Errorf("%s: err = %v", at, err)
			}
			onlyStore(t, path)
			cancel()
		}
	}
}

// Scratch with no room for the edges is no failure: the source is read again.
func TestSpilledEdgesWithoutScratch(t *testing.T) {
	t.Parallel()
	g := randomGraph(8, 2000, 398_000, 0)
	for v := range g.n {
		g.src, g.dst = append(g.src, v), append(g.dst, v)
	}
	var far [2][]int64 // past 2^32, so that they are not kept in memory
	for side, ids := range [2][]int64{g.src, g.dst} {
		for _, v := range ids {
			far[side] = append(far[side], v<<40)
		}
	}
	for name, c := range map[string]struct {
		limit int64
		tune  workspace.Tuning
		scans int
	}{
		"room for all":           {64 << 20, workspace.Tuning{OnScratch: true}, 3},
		"room for one of two":    {10 << 20, workspace.Tuning{OnScratch: true}, 4},
		"no room, first written": {2 << 20, workspace.Tuning{}, 7},
		"no room at all":         {100 << 10, workspace.Tuning{}, 7},
	} {
		scans := 0
		o := g.options()
		o.Edges, o.Order, o.BlockSize, o.ScratchLimit = uncounted{edgesOf(far[0], far[1]), &scans}, order.Visit, 4<<10, c.limit
		o.IDs, o.NumNodes, o.Arrays = layout.IDsRank, 0, nil
		g.y = nil
		path, r := buildIn(t, o, c.tune)
		if err := readStore(t, path).compare(g, order.Visit); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if scans != c.scans || r.ScratchBytes > c.limit {
			t.Errorf("%s: %d scans, expected %d; %d bytes of scratch", name, scans, c.scans, r.ScratchBytes)
		}
	}
}
