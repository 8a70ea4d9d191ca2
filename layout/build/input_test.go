package build

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/goagnes/goagnes/goagnes/storage"
	"github.com/goagnes/goagnes/layout"
	"github.com/goagnes/goagnes/layout/build/ledger"
	"github.com/goagnes/goagnes/layout/build/order"
	"github.com/goagnes/goagnes/layout/build/source"
	"github.com/goagnes/goagnes/layout/build/source/formats"
	"github.com/goagnes/goagnes/layout/build/source/sourcetest"
	"github.com/goagnes/goagnes/layout/build/workspace"
)

// Ranks do not depend on how they were found, and are the ascending distinct ids.
func TestRankedIDs(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(5, 5))
	var ids []int64
	for range 40_000 {
		ids = append(ids, r.Int64N(100_000))
	}
	ids = append(ids, 0, 63, 64, 511, 512, 100_000)
	var src, dst []int64
	for range 60_000 {
		src, dst = append(src, ids[r.IntN(len(ids))]), append(dst, ids[r.IntN(len(ids))])
	}
	distinct := slices.Clone(src)
	distinct = append(distinct, dst...)
	slices.Sort(distinct)
	distinct = slices.Compact(distinct)
	g := &graph{n: int64(len(distinct)), splits: map[string][]int64{"train": {5, 3}}}
	for i := range src {
		s, _ := slices.BinarySearch(distinct, src[i])
		d, _ := slices.BinarySearch(distinct, dst[i])
		g.src, g.dst = append(g.src, int64(s)), append(g.dst, int64(d))
	}
	for _, scale := range []int64{1, 1 << 40} {
		far := make([]int64, len(src))
		far2 := make([]int64, len(dst))
		for i := range src {
			far[i], far2[i] = src[i]*scale, dst[i]*scale
		}
		for name, tune := range map[string]workspace.Tuning{"": {}, "just enough": {BitmapBytes: 14_000}, "no bitmap": {BitmapBytes: 64}, "runs": {BitmapBytes: 64, RunBytes: 20 << 10}} {
			t.Run(fmt.Sprint(scale, name), func(t *testing.T) {
				o := g.options()
				o.NumNodes, o.Edges, o.IDs, o.Memory = 0, edgesOf(far, far2), layout.IDsRank, 64<<20
				path, rep := buildIn(t, o, tune)
				s := readStore(t, path)
				if err := s.compare(g, order.Visit); err != nil {
					t.Error(err)
				}
				var want []int64
				for _, v := range distinct {
					want = append(want, v*scale)
				}
				if !slices.Equal(s.integers(layout.SectionIDs), want) || rep.IDs != layout.IDsRank {
					t.Errorf("the ids are not the distinct source ids")
				}
				onlyStore(t, path, "store")
				whole(t, path)
			})
		}
	}
}

func TestNumberOfNodes(t *testing.T) {
	x := rowsOf("x", layout.Float32, words(make([]float32, 9)), 9, 1)
	y := rowsOf("y", layout.Int32, words(make([]int32, 8)), 8)
	edges := edgesOf([]int64{1, 4}, []int64{6, 4})
	for _, c := range []struct {
		name string
		o    Options
		want int64
	}{
		{"given", Options{NumNodes: 12}, 12},
		{"rows of x", Options{Arrays: map[string]source.Rows{"x": x}}, 9},
		{"rows of y", Options{Arrays: map[string]source.Rows{"y": y}}, 8},
		{"largest id", Options{}, 7},
		{"distinct ids", Options{IDs: layout.IDsRank}, 3},
		{"distinct ids and others", Options{IDs: layout.IDsRank, NumNodes: 5}, 5},
		{"dense although ranks are usual", Options{IDs: layout.IDsDense, RankIDs: true}, 7},
		{"ranks are usual", Options{RankIDs: true}, 3},
		{"ranks are usual, given", Options{RankIDs: true, NumNodes: 12}, 12},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.o.Edges = edges
			path, r := buildIn(t, c.o, workspace.Tuning{})
			if r.NumNodes != c.want {
				t.Errorf("%d nodes, expected %d", r.NumNodes, c.want)
			}
			whole(t, path)
		})
	}
}

// TestAutoKeepsRows: where arrays or splits go by id, "auto" leaves ids alone even
// for a source whose ids are ranked otherwise; node 2 is isolated here.
func TestAutoKeepsRows(t *testing.T) {
	edges := edgesOf([]int64{0, 3}, []int64{1, 4})
	rows := map[string]source.Rows{"y": rowsOf("y", layout.Int32, words([]int32{0, 1, 2, 3, 4}), 5)}
	split := map[string]source.Rows{"train": rowsOf("train", layout.Int64, words([]int64{4}), 1)}
	for _, c := range []struct {
		name string
		o    Options
	}{
		{"number of nodes", Options{NumNodes: 5}},
		{"array", Options{Arrays: rows}},
		{"split", Options{Splits: split}},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.o.Edges, c.o.RankIDs = edges, true
			path, r := buildIn(t, c.o, workspace.Tuning{})
			if r.IDs != layout.IDsDense || r.NumNodes != 5 {
				t.Errorf("ids %s, %d nodes", r.IDs, r.NumNodes)
			}
			whole(t, path)
		})
	}
	_, err := build(context.Background(), filepath.Join(t.TempDir(), "store"), Options{Edges: edges, RankIDs: true, NumNodes: 4}, workspace.Tuning{})
	if err == nil || !strings.Contains(err.Error(), `ids="rank"`) {
		t.Errorf("an id past the number of nodes: %v", err)
	}
}

// The budget that a refusal asks for is enough, however small the refused one was,
// and it is the least: with a byte less the same is asked for.
func TestAdvisedBudgetIsEnough(t *testing.T) {
	t.Parallel()
	for _, blockSize := range []int64{4 << 10, 1 << 20, 16 << 20} {
		for _, memory := range []int64{1, 1 << 20, baseMemory - 1, baseMemory, baseMemory + 1<<20} {
			o := Options{Edges: edgesOf([]int64{0, 3}, []int64{1, 4}), Memory: memory, BlockSize: blockSize}
			var budget *ledger.BudgetError
			if _, err := build(context.Background(), filepath.Join(t.TempDir(), "store"), o, workspace.Tuning{}); !errors.As(err, &budget) {
				t.Errorf("%d bytes, blocks of %d: %v", memory, blockSize, err)
				continue
			}
			least := budget.Total - budget.Free + budget.Need
			o.Memory = least - 1
			if _, err := build(context.Background(), filepath.Join(t.TempDir(), "store"), o, workspace.Tuning{}); !errors.As(err, &budget) || budget.Total-budget.Free+budget.Need != least {
				t.Errorf("%d bytes, blocks of %d, where %d were asked for: %v", least-1, blockSize, least, err)
			}
			o.Memory = least
			buildIn(t, o, workspace.Tuning{})
		}
	}
}

func TestLabels(t *testing.T) {
	t.Parallel()
	nan := math.NaN()
	for _, c := range []struct {
		name    string
		rows    source.Rows
		want    []int64
		dtype   layout.DType
		classes int64
		note    string
	}{
		{"int32", rowsOf("y", layout.Int32, words([]int32{3, -1, 0}), 3), []int64{3, -1, 0}, layout.Int32, 4, ""},
		{"uint8", rowsOf("y", layout.Uint8, []byte{200, 1, 0}, 3), []int64{200, 1, 0}, layout.Uint8, 201, ""},
		{"bool", rowsOf("y", layout.Bool, []byte{1, 0, 0}, 3), []int64{1, 0, 0}, layout.Uint8, 2, "bool"},
		{"column", rowsOf("y", layout.Int64, words([]int64{1, 2, 0}), 3, 1), []int64{1, 2, 0}, layout.Int64, 3, "(nodes, 1)"},
		{"float64", rowsOf("y", layout.Float64, words([]float64{2, nan, -1}), 3), []int64{2, -1, -1}, layout.Int64, 3, "1 labels are NaN"},
		{"float32", rowsOf("y", layout.Float32, words([]float32{2, 0, 1}), 3), []int64{2, 0, 1}, layout.Int64, 3, "float32"},
		{"none labelled", rowsOf("y", layout.Int64, words([]int64{-1, -5, -1}), 3), []int64{-1, -5, -1}, layout.Int64, 0, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			path, r := buildIn(t, Options{Edges: edgesOf(nil, nil), Order: layout.OrderOriginal, Arrays: map[string]source.Rows{"y": c.rows}}, workspace.Tuning{})
			s := readStore(t, path)
			if got := s.integers(layout.SectionY); !slices.Equal(got, c.want) || s.m.Section(layout.SectionY).Type() != c.dtype {
				t.Errorf("labels %v of type %s", got, s.m.Section(layout.SectionY).DType)
			}
			if r.NumClasses != c.classes || !strings.Contains(fmt.Sprint(r.Notes), c.note) {
				t.Errorf("%d classes, notes %q", r.NumClasses, r.Notes)
			}
			whole(t, path)
		})
	}
}

func TestSplits(t *testing.T) {
	o := Options{Edges: edgesOf([]int64{0}, []int64{0}), NumNodes: 5, Splits: map[string]source.Rows{
		"train": rowsOf("train", layout.Bool, []byte{1, 0, 2, 0, 1}, 5),
		"val":   rowsOf("val", layout.Int32, words([]int32{4, 1, 4}), 3),
		"none":  rowsOf("none", layout.Int64, nil, 0),
	}}
	path, r := buildIn(t, o, workspace.Tuning{})
	s := readStore(t, path)
	for name, want := range map[string][]int64{"train": {0, 2, 4}, "val": {4, 1, 4}, "none": nil} {
		if got := s.integers(layout.SplitPrefix + name); !slices.Equal(got, want) {
			t.Errorf("%s is %v, expected %v", name, got, want)
		}
	}
	if want := []string{`1 nodes of split "val" are in other splits too`}; !slices.Equal(r.Notes, want) {
		t.Errorf("notes %q", r.Notes)
	}
	whole(t, path)
}

// A refused input is named with its place and class, and leaves nothing behind.
func TestRefusals(t *testing.T) {
	t.Parallel()
	edges := edgesOf([]int64{0, 1, 2}, []int64{2, 1, 0})
	arrays := func(name string, r source.Rows) Options {
		return Options{Edges: edges, NumNodes: 3, Arrays: map[string]source.Rows{name: r}}
	}
	split := func(r source.Rows) Options {
		return Options{Edges: edges, NumNodes: 3, Splits: map[string]source.Rows{"val": r}}
	}
	for _, c := range []struct {
		name  string
		o     Options
		class string
		want  string
	}{
		{"no edges", Options{}, "usage", "edges are missing"},
		{"negative memory", Options{Edges: edges, Memory: -1}, "usage", "memory=-1"},
		{"negative scratch", Options{Edges: edges, ScratchLimit: -2}, "usage", "scratch_limit=-2"},
		{"negative threads", Options{Edges: edges, Threads: -3}, "usage", "num_threads=-3"},
		{"negative nodes", Options{Edges: edges, NumNodes: -4}, "usage", "num_nodes=-4"},
		{"order", Options{Edges: edges, Order: "best"}, "usage", `order="best"`},
		{"ids", Options{Edges: edges, IDs: "sparse"}, "usage", `ids="sparse"`},
		{"block size", Options{Edges: edges, BlockSize: 5000}, "usage", "block_size=5000"},
		{"nodes", Options{Edges: edges, NumNodes: 1 << 33}, "unsupported", "num_nodes"},
		{"memory", Options{Edges: edges, Memory: 1 << 20}, "budget", "set memory to"},
		{"memory for a block", Options{Edges: edges, Memory: 32 << 20, BlockSize: 64 << 20}, "budget", "set memory to"},
		{"feature type", Options{Edges: edges, FeatureDType: layout.Int8}, "unsupported", "feature_dtype=int8"},
		{"id past the end", Options{Edges: edges, NumNodes: 2}, "input", "src[0]: edge 0 → 2"},
		{"id past the last possible", Options{Edges: edgesOf([]int64{0, 1 << 33}, []int64{0, 1})}, "input", `ids="rank"`},
		{"too many ranks", Options{Edges: edges, NumNodes: 2, IDs: layout.IDsRank}, "input", "3 distinct ids for 2 nodes"},
		{"rows of x", Options{Edges: edges, NumNodes: 4, Arrays: map[string]source.Rows{"x": rowsOf("x", layout.Float32, words(make([]float32, 3)), 3, 1)}}, "input", "3 rows for 4 nodes"},
		{"x without columns", arrays("x", rowsOf("x", layout.Float32, nil, 3, 0)), "input", "leave x out"},
		{"x of float64", arrays("x", rowsOf("x", layout.Float64, words(make([]float64, 3)), 3, 1)), "unsupported", "feature_dtype"},
		{"x of int64", arrays("x", rowsOf("x", layout.Int64, words(make([]int64, 3)), 3, 1)), "unsupported", "int64"},
		{"y of two columns", arrays("y", rowsOf("y", layout.Int64, words(make([]int64, 6)), 3, 2)), "unsupported", "one class label"},
		{"y of fractions", arrays("y", rowsOf("y", layout.Float32, words([]float32{1, 2, 0.5}), 3)), "input", "y[2]: label 0.5"},
		{"y too large", arrays("y", rowsOf("y", layout.Int64, words([]int64{0, 1 << 50, 0}), 3)), "input", "y[1]: label"},
		{"y past int64", arrays("y", rowsOf("y", layout.Uint64, words([]uint64{0, 0, 1 << 63}), 3)), "input", "y[2]: label 9223372036854775808"},
		{"name taken", arrays("original", rowsOf("a", layout.Int64, words(make([]int64, 3)), 3)), "usage", "is taken"},
		{"name with a slash", arrays("a/b", rowsOf("a", layout.Int64, words(make([]int64, 3)), 3)), "usage", "a/b"},
		{"split past the end", split(rowsOf("val", layout.Int64, words([]int64{0, 3}), 2)), "input", "val[1]: node 3"},
		{"negative split", split(rowsOf("val", layout.Int64, words([]int64{0, -1}), 2)), "input", "val[1]: node -1"},
		{"short mask", split(rowsOf("val", layout.Bool, []byte{1, 0}, 2)), "input", "mask of 2 values for 3 nodes"},
		{"split of floats", split(rowsOf("val", layout.Float32, words([]float32{1}), 1)), "input", "float32"},
		{"split of two columns", split(rowsOf("val", layout.Bool, make([]byte, 6), 3, 2)), "unsupported", "one mask"},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "store")
			_, err := Build(context.Background(), path, c.o)
			var classed interface{ Class() string }
			if !errors.As(err, &classed) || classed.Class() != c.class || !strings.Contains(err.Error(), c.want) {
				t.Errorf("err = %v (%T), expected class %q and %q", err, err, c.class, c.want)
			}
			onlyStore(t, path)
		})
	}
}

// changing is an input that differs from scan to scan.
type changing struct {
	source.Edges
	scans [][2][]int64
	n     *int
}

func (c changing) Scan(ctx context.Context, f func(src, dst []int64) error) error {
	s := c.scans[min(*c.n, len(c.scans)-1)]
	*c.n++
	return f(slices.Clone(s[0]), slices.Clone(s[1]))
}

func TestInputThatChanges(t *testing.T) {
	t.Parallel()
	first := [2][]int64{{0, 1, 2, 3}, {0, 1, 2, 3}}
	for name, second := range map[string][2][]int64{
		"longer":        {{0, 1, 2, 3, 3}, {0, 1, 2, 3, 3}},
		"shorter":       {{0, 1, 2}, {0, 1, 2}},
		"other targets": {{0, 1, 2, 3}, {0, 0, 0, 3}},
	} {
		for _, tune := range []workspace.Tuning{{}, {OnScratch: true, SortBytes: 100, Parts: 4}} {
			path := filepath.Join(t.TempDir(), "store")
			n := 0
			e := changing{edgesOf(nil, nil), [][2][]int64{first, second}, &n}
			_, err := build(context.Background(), path, Options{Edges: e, Order: layout.OrderOriginal, NumNodes: 70_000}, tune)
			var fault *source.Error
			if name == "other targets" && err == nil {
				whole(t, path) // the partitions' sizes may still agree
				continue
			}
			if !errors.As(err, &fault) || !strings.Contains(err.Error(), "changed") {
				t.Errorf("%s: err = %v", name, err)
			}
			onlyStore(t, path)
		}
	}
}

// Where the budget has no room for the tables of an order the nodes keep theirs, and
// the report says how much memory would do.
func TestOrderFallsBack(t *testing.T) {
	t.Parallel()
	n := int64(3_000_000)
	o := Options{Edges: edgesOf([]int64{0, n - 1}, []int64{5, 6}), BlockSize: 4 << 10, Memory: 18 << 20}
	train := map[string]source.Rows{"train": rowsOf("train", layout.Int64, words([]int64{5}), 1)}
	for i, known := range []int64{0, n, -1, n, -1, n, -1} {
		if testing.Short() && i%3 != 0 {
			continue
		}
		want := order.Degree
		if i >= 3 {
			want = []string{order.BFS, order.Visit}[(i-3)/2]
			o.Order, o.Splits = want, train
		}
		if known >= 0 && i != 0 {
			o.Edges = edgesOf([]int64{0, n - 1}, []int64{5, 6})
		}
		o.NumNodes = known
		if known < 0 {
			o.NumNodes, o.Edges = 0, uncounted{o.Edges, new(int)}
		}
		path, r := buildIn(t, o, workspace.Tuning{})
		if r.Order != layout.OrderOriginal || len(r.Notes) != 1 || !strings.Contains(r.Notes[0], "needs memory=") {
			t.Fatalf("order %s, notes %q", r.Order, r.Notes)
		}
		var need int64
		if _, err := fmt.Sscanf(r.Notes[0][strings.Index(r.Notes[0], "memory="):], "memory=%d,", &need); err != nil {
			t.Fatal(err)
		}
		whole(t, path)
		enough := o
		enough.Memory = need
		if _, r := buildIn(t, enough, workspace.Tuning{}); r.Order != want {
			t.Errorf("order %s, expected %s with the memory that was asked for; notes %q", r.Order, want, r.Notes)
		}
	}
}

// uncounted edges are like text: their number takes a pass to know.
type uncounted struct {
	source.Edges
	scans *int
}

func (uncounted) Count() (int64, bool) { return 0, false }

func (u uncounted) Scan(ctx context.Context, f func(src, dst []int64) error) error {
	*u.scans++
	return u.Edges.Scan(ctx, f)
}

// Edges that must be parsed are read once where they fit and once a pass otherwise.
func TestKeptEdges(t *testing.T) {
	t.Parallel()
	g := randomGraph(8, 2000, 250_000, 1)
	g.splits = nil
	for v := range g.n {
		g.src, g.dst = append(g.src, v), append(g.dst, v)
	}
	for _, c := range []struct {
		memory int64
		ids    string
		scale  int64
		scans  int
	}{
		{256 << 20, layout.IDsDense, 1, 1},
		{256 << 20, layout.IDsRank, 1, 1},
		{256 << 20, layout.IDsRank, 1 << 40, 4}, // ids past 2^32, and past the bitmap
		{20 << 20, layout.IDsDense, 1, 2},
		{20 << 20, layout.IDsRank, 1, 3},
	} {
		var far [2][]int64
		for side, ids := range [2][]int64{g.src, g.dst} {
			for _, v := range ids {
				far[side] = append(far[side], v*c.scale)
			}
		}
		scans := 0
		o := g.options()
		o.NumNodes, o.Edges, o.IDs, o.Memory = 0, uncounted{edgesOf(far[0], far[1]), &scans}, c.ids, c.memory
		o.BlockSize = 4 << 10
		path, r := buildIn(t, o, workspace.Tuning{})
		if err := readStore(t, path).compare(g, order.Degree); err != nil {
			t.Errorf("%+v: %v", c, err)
		}
		if scans != c.scans {
			t.Errorf("%+v: %d passes", c, scans)
		}
		if r.PeakMemoryPlanned > c.memory {
			t.Errorf("%+v: %d bytes planned", c, r.PeakMemoryPlanned)
		}
	}
}

// An array or a split that cannot be kept is refused before an edge is read and a
// directory made.
func TestRefusedBeforeEdgesAreRead(t *testing.T) {
	scans := 0
	edges := uncounted{edgesOf([]int64{0, 1}, []int64{1, 2}), &scans}
	rows := func(d layout.DType, shape ...int64) source.Rows {
		n := int64(d.Size())
		for _, k := range shape {
			n *= k
		}
		return rowsOf("a", d, make([]byte, n), shape...)
	}
	arrays := func(name string, r source.Rows) Options {
		return Options{Edges: edges, Arrays: map[string]source.Rows{"x": rows(layout.Float32, 3, 2), name: r}}
	}
	split := func(name string, r source.Rows) Options {
		return Options{Edges: edges, Arrays: map[string]source.Rows{"x": rows(layout.Float32, 3, 2)}, Splits: map[string]source.Rows{name: r}}
	}
	for want, o := range map[string]Options{
		"features of type float64":        arrays("x", rows(layout.Float64, 3, 2)),
		"features of type int8":           arrays("x", rows(layout.Int8, 3, 2)),
		"rows of no features":             arrays("x", rows(layout.Float32, 3, 0)),
		"4 rows for 3 nodes":              arrays("y", rows(layout.Int64, 4)),
		"labels with rows of shape [2]":   arrays("y", rows(layout.Int64, 3, 2)),
		"label 0.5":                       arrays("y", rowsOf("a", layout.Float32, words([]float32{0, 1, 0.5}), 3)),
		"label 18446744073709551615":      arrays("y", rowsOf("a", layout.Uint64, words([]uint64{0, 1, 1<<64 - 1}), 3)),
		"2 rows for 3 nodes":              arrays("weight", rows(layout.Int64, 2)),
		"is taken":                        arrays("in_degree", rows(layout.Int64, 3)),
		"begins with a letter":            arrays("-", rows(layout.Int64, 3)),
		"a mask of 4 values":              split("val", rows(layout.Bool, 4)),
		"split \"val\" of type float32":   split("val", rows(layout.Float32, 3)),
		"a split with rows of shape":      split("val", rows(layout.Int64, 3, 1)),
		"split name":                      split("a.b", rows(layout.Int64, 3)),
		"the node arrays: more than 4294": {Edges: edges, Arrays: map[string]source.Rows{"x": manyRows{1 << 32}}},
	} {
		dir := t.TempDir()
		made := 0
		o.FS = storage.FS(makes{storage.OS, &made})
		_, err := Build(t.Context(), filepath.Join(dir, "store"), o)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
		if scans > 0 || made > 0 {
			t.Errorf("%s: %d scans of the edges, %d directories made before the refusal", want, scans, made)
		}
		scans = 0
	}
}

// makes counts the directories that are made.
type makes struct {
	storage.FS
	made *int
}

func (m makes) Mkdir(path string, mode fs.FileMode) error {
	*m.made++
	return m.FS.Mkdir(path, mode)
}

// manyRows is an array of so many rows that nobody reads.
type manyRows struct{ n int64 }

func (m manyRows) Len() int64          { return m.n }
func (m manyRows) RowShape() []int64   { return []int64{1} }
func (m manyRows) DType() layout.DType { return layout.Float32 }
func (m manyRows) Name() string        { return "many" }
func (m manyRows) Scan(context.Context, func(int64, []byte) error) error {
	panic("build: rows are read that were to be refused")
}

// So are archives of the published forms, whatever member is at fault.
func TestArchivesRefusedBeforeAnythingIsWritten(t *testing.T) {
	ints, floats := sourcetest.Ints, sourcetest.Floats
	doubles := sourcetest.Grid{Shape: []int64{4, 3}, Values: make([]int64, 12)}.NPY(layout.Float64, false, false, 1)
	mask := sourcetest.Grid{Shape: []int64{1, 4}, Values: []int64{1, 0, 0, 0}}.NPY(layout.Bool, false, false, 1)
	gnn := map[string][]byte{
		"adj_indptr": ints([]int64{5}, 0, 1, 2, 3, 3), "adj_indices": ints([]int64{3}, 1, 0, 1), "adj_data": floats([]int64{3}, 1, 1, 1), "adj_shape": ints([]int64{2}, 4, 4),
		"attr_indptr": ints([]int64{5}, 0, 1, 1, 1, 2), "attr_indices": ints([]int64{2}, 2, 0), "attr_data": floats([]int64{2}, 5, 6), "attr_shape": ints([]int64{2}, 4, 3),
		"labels": ints([]int64{4}, 0, 1, 1, 0),
	}
	heterophilous := map[string][]byte{
		"node_features": floats([]int64{4, 1}, 1, 2, 3, 4), "node_labels": ints([]int64{4}, 0, 1, 0, 1), "edges": ints([]int64{3, 2}, 0, 1, 1, 2, 2, 3),
		"train_masks": mask, "val_masks": mask, "test_masks": mask,
	}
	planted := func(files map[string][]byte, name string, b []byte) map[string][]byte {
		files = maps.Clone(files)
		files[name] = b
		return files
	}
	for want, files := range map[string]map[string][]byte{
		"":                              gnn,
		"attr_indices[1]: column 9":     planted(gnn, "attr_indices", ints([]int64{2}, 2, 9)),
		"attr_indptr[2]: 0 after 1":     planted(gnn, "attr_indptr", ints([]int64{5}, 0, 1, 0, 1, 2)),
		"attr_data: 3 values":           planted(gnn, "attr_data", floats([]int64{3}, 5, 6, 7)),
		"features of type int64":        planted(gnn, "attr_data", ints([]int64{2}, 5, 6)),
		"labels[3]: label -7":           planted(gnn, "labels", ints([]int64{4}, 0, 1, 1, -7)),
		"labels: 3 rows for 4 nodes":    planted(gnn, "labels", ints([]int64{3}, 0, 1, 1)),
		" ":                             heterophilous,
		"features of type float64":      planted(heterophilous, "node_features", doubles),
		"node_labels[0]: label -2":      planted(heterophilous, "node_labels", ints([]int64{4}, -2, 1, 0, 1)),
		"val_masks: ids of type":        planted(heterophilous, "val_masks", floats([]int64{4}, 1, 0, 0, 0)),
		"val_masks: a mask of length 3": planted(heterophilous, "val_masks", sourcetest.Grid{Shape: []int64{3}, Values: []int64{1, 0, 0}}.NPY(layout.Bool, false, false, 1)),
	} {
		made := 0
		d, err := formats.Open(t.Context(), sourcetest.Archive(t, 8, files), "auto", source.Options{})
		if err == nil {
			o := Options{Edges: d.Edges, Arrays: d.Arrays, Splits: d.Splits, NumNodes: d.NumNodes, FS: makes{storage.OS, &made}}
			_, err = Build(t.Context(), filepath.Join(t.TempDir(), "store"), o)
		}
		sound := strings.TrimSpace(want) == ""
		if sound && (err != nil || made == 0) {
			t.Errorf("a sound archive: %v, %d directories made", err, made)
		}
		if !sound && (err == nil || made > 0 || !strings.Contains(err.Error(), want)) {
			t.Errorf("%v, want %q; %d directories made", err, want, made)
		}
	}
}
