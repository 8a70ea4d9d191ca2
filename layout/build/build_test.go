package build

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/goagnes/goagnes/layout"
	"github.com/goagnes/goagnes/layout/build/order"
	"github.com/goagnes/goagnes/layout/build/workspace"
)

// onlyStore fails where anything but the store is left in its parent directory.
func onlyStore(t *testing.T, path string, want ...string) {
	t.Helper()
	entries, err := os.ReadDir(filepath.Dir(path))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	if fmt.Sprint(names) != fmt.Sprint(want) {
		t.Errorf("the directory holds %v, expected %v", names, want)
	}
}

func TestBuildAgainstNaive(t *testing.T) {
	t.Parallel()
	tunes := map[string]workspace.Tuning{
		"memory":     {},
		"scratch":    {OnScratch: true},
		"partitions": {OnScratch: true, SortBytes: 20_000, AreaBytes: 200_000},
		"cut again":  {OnScratch: true, SortBytes: 8_000, Parts: 4, AreaBytes: 150_000},
		"tiny sorts": {SortBytes: 2_000, AreaBytes: 100_000, Wide: true},
		"wide ids":   {OnScratch: true, SortBytes: 20_000, Parts: 5, Wide: true},
	}
	graphs := map[string]*graph{
		"small":     randomGraph(1, 50, 300, 3),
		"hubs":      randomGraph(2, 3000, 60_000, 16),
		"many":      randomGraph(3, 70_000, 90_000, 2),
		"one node":  randomGraph(4, 1, 40, 5), // its train split is empty
		"no edges":  randomGraph(5, 20, 0, 4),
		"no x":      randomGraph(6, 30, 100, 0),
		"two nodes": {n: 2, src: []int64{0, 0, 1, 1, 1}, dst: []int64{0, 0, 1, 0, 1}, splits: map[string][]int64{"train": {1}}},
	}
	for gname, g := range graphs {
		for _, order := range order.Names[1:] {
			for _, block := range []int64{4 << 10, 64 << 10, 1 << 20} {
				for tname, tune := range tunes {
					if block == 64<<10 && gname != "hubs" || testing.Short() && gname == "many" {
						continue
					}
					t.Run(fmt.Sprintf("%s/%s/%d/%s", gname, order, block, tname), func(t *testing.T) {
						t.Parallel()
						o := g.options()
						o.Order, o.BlockSize, o.Memory = order, block, 64<<20
						path, r := buildIn(t, o, tune)
						if err := readStore(t, path).compare(g, order); err != nil {
							t.Error(err)
						}
						onlyStore(t, path, "store")
						if r.PeakMemoryPlanned > o.Memory {
							t.Errorf("%d bytes planned of %d", r.PeakMemoryPlanned, o.Memory)
						}
					})
				}
			}
		}
	}
}

func TestHubOverSeveralBlocks(t *testing.T) {
	g := &graph{n: 300}
	for i := range int64(20_000) {
		g.src, g.dst = append(g.src, i%300), append(g.dst, 7)
	}
	o := g.options()
	o.BlockSize, o.Order = 4<<10, layout.OrderOriginal
	for _, tune := range []workspace.Tuning{{}, {OnScratch: true, SortBytes: 4_000}} {
		path, _ := buildIn(t, o, tune)
		s := readStore(t, path)
		if err := s.compare(g, layout.OrderOriginal); err != nil {
			t.Error(err)
		}
		if blocks := int64(len(s.files[layout.SectionGraph])) / o.BlockSize; blocks < 4 {
			t.Errorf("%d blocks: the hub was to fill three", blocks)
		}
	}
}

func TestEmptyGraph(t *testing.T) {
	for _, order := range order.Names[1:] {
		o := (&graph{splits: map[string][]int64{"train": nil}}).options()
		o.Order = order
		path, r := buildIn(t, o, workspace.Tuning{})
		if r.NumNodes != 0 || r.NumEdges != 0 {
			t.Errorf("%d nodes, %d edges", r.NumNodes, r.NumEdges)
		}
		if err := readStore(t, path).compare(&graph{}, order); err != nil {
			t.Error(err)
		}
	}
}

func TestCancelled(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	path := filepath.Join(t.TempDir(), "store")
	if _, err := Build(ctx, path, randomGraph(1, 10, 10, 1).options()); !errors.Is(err, context.Canceled) {
		t.Errorf("err = %v", err)
	}
	onlyStore(t, path)
}

// Out-degrees past what is counted by class are sorted one by one.
func TestDegreeOrderOfHubs(t *testing.T) {
	t.Parallel()
	g := &graph{n: 9, splits: map[string][]int64{"train": {6, 2, 8}}}
	const hub = 1 << 16 // nodes from this out-degree on are sorted one by one
	for v, edges := range []int{5, hub, hub + 7, 0, hub - 1, hub, hub, hub + 7, 5} {
		for i := range edges {
			g.src, g.dst = append(g.src, int64(v)), append(g.dst, int64(i%9))
		}
	}
	o := g.options()
	o.Order, o.BlockSize = order.Degree, 64<<10
	path, _ := buildIn(t, o, workspace.Tuning{})
	s := readStore(t, path)
	if err := s.compare(g, order.Degree); err != nil {
		t.Error(err)
	}
	if got, want := s.integers(layout.SectionOriginal), []int64{2, 7, 6, 1, 5, 4, 8, 0, 3}; !slices.Equal(got, want) {
		t.Errorf("order %v, expected %v", got, want)
	}
	whole(t, path)
}
