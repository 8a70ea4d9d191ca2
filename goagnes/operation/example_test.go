package operation

// The paper's example: four target nodes in two minibatches over a graph of
// five blocks, with a graph buffer of few frames.

import (
	"context"
	"errors"
	"io"
	"path/filepath"
	"slices"
	"testing"

	"github.com/goagnes/goagnes/goagnes/memory"
	"github.com/goagnes/goagnes/goagnes/storage"
	"github.com/goagnes/goagnes/layout"
	"github.com/goagnes/goagnes/layout/build"
	"github.com/goagnes/goagnes/layout/build/source/array"
)

// Four nodes of 990 in-edges fill a block of 4 KiB: 20 nodes, five blocks. All
// in-edges of node v come from the nodes named here.
const exampleDegree = 990

var exampleSources = map[int][]int64{
	0: {5, 17},  // block 0 <- 1, 4
	8: {13, 16}, // block 2 <- 3, 4
	1: {4, 11},  // block 0 <- 1, 2
	9: {19, 12}, // block 2 <- 4, 3
}

func exampleStore(t *testing.T) string {
	t.Helper()
	var src, dst []int64
	for v := range 20 {
		for i := range exampleDegree {
			from := int64(v)
			if s := exampleSources[v]; s != nil {
				from = s[i%len(s)]
			}
			src, dst = append(src, from), append(dst, int64(v))
		}
	}
	e, err := array.EdgesFromMemory(array.Array{Name: "edge_index", Data: rawBytes(append(src, dst...)), DType: layout.Int64, Shape: []int64{2, int64(len(src))}})
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "store")
	if _, err := build.Build(context.Background(), path, build.Options{Edges: e, NumNodes: 20, Order: "original", BlockSize: 4096}); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestExample counts block reads: a hyperbatch of both minibatches loads each
// needed block once per sweep, and preparing them one after the other loads
// blocks again that few frames could not keep.
func TestExample(t *testing.T) {
	files, err := storage.OpenStore(exampleStore(t), storage.StoreOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer files.Close()
	table := files.Section(layout.SectionIndex)
	entries := make([]byte, table.FileBytes())
	if err := table.Read(0, entries); err != nil {
		t.Fatal(err)
	}
	index, err := memory.NewObjectIndex(entries[:table.Bytes], nil, 20, 20*exampleDegree)
	if err != nil {
		t.Fatal(err)
	}
	if index.Blocks() != 5 {
		t.Fatalf("the graph has %d blocks, the example five", index.Blocks())
	}
	seeds := []int64{0, 8, 1, 9}
	frontiers := func(minibatches ...int) (sweeps [][]int) {
		for hop := range 2 {
			var blocks []int
			for _, m := range minibatches {
				for _, v := range seeds[2*m : 2*m+2] {
					nodes := []int64{v}
					if hop == 1 {
						nodes = exampleSources[int(v)]
					}
					for _, u := range nodes {
						blocks = append(blocks, int(u/4))
					}
				}
			}
			slices.Sort(blocks)
			sweeps = append(sweeps, slices.Compact(blocks))
		}
		return sweeps
	}
	loads := map[[2]int]int64{}
	for _, c := range []struct {
		hyperbatch, frames int
		sweeps             [][]int
	}{
		{2, 1, frontiers(0, 1)},
		{2, 2, frontiers(0, 1)},
		{2, 5, frontiers(0, 1)},
		{1, 1, append(frontiers(0), frontiers(1)...)},
		{1, 2, append(frontiers(0), frontiers(1)...)},
		{1, 5, append(frontiers(0), frontiers(1)...)},
	} {
		// What a buffer that keeps the blocks used last must load.
		var kept []int
		reads, visits := 0, 0
		for i, sweep := range c.sweeps {
			if i%2 == 1 { // the second hop's sweep descends
				sweep = slices.Clone(sweep)
				slices.Reverse(sweep)
			}
			for _, b := range sweep {
				visits++
				if i := slices.Index(kept, b); i >= 0 {
					kept = slices.Delete(kept, i, i+1)
				} else if reads++; len(kept) == c.frames {
					kept = kept[1:]
				}
				kept = append(kept, b)
			}
		}
		e, err := New(Options{Store: files, Index: index, Budget: memory.NewBudget(8 << 20), Threads: 1, Seeds: ListSeeds(seeds), BatchSize: 2,
			Fanouts: []int{-1, 3}, Hyperbatch: c.hyperbatch, Held: 1, Outputs: Outputs{NodeIDs: true, EdgeIndex: true, EdgeIDs: true}})
		if err != nil {
			t.Fatal(err)
		}
		frame := e.plan.graphFrame
		if e.keptGraph, err = e.claim("graph buffer", int64(c.frames)*frame); err != nil {
			t.Fatal(err)
		}
		e.keptBuffer, e.keptAlways = memory.NewBuffer(e.keptGraph.mem, frame), true
		run := e.Start(context.Background(), 0)
		for m := range 2 {
			b, err := run.Next(context.Background())
			if err != nil {
				t.Fatal(err)
			}
			ids, _ := b.Array("n_id")
			want := slices.Clone(seeds[2*m : 2*m+2])
			for _, v := range seeds[2*m : 2*m+2] {
				want = append(want, exampleSources[int(v)]...)
			}
			if got := int64s(ids.Bytes()); !slices.Equal(got, want) {
				t.Errorf("minibatch %d holds %v, want %v", m, got, want)
			}
			b.Release()
		}
		if _, err := run.Next(context.Background()); !errors.Is(err, io.EOF) {
			t.Fatal(err)
		}
		s := e.Stats()
		loads[[2]int{c.hyperbatch, c.frames}] = s.GraphBlocksRead
		if s.GraphBlocksRead != int64(reads) || s.GraphBufferMisses != int64(reads) || s.GraphBufferHits != int64(visits-reads) {
			t.Errorf("hyperbatches of %d, %d frames: %d blocks are read, %d misses, %d hits; want %d reads in %d visits", c.hyperbatch, c.frames,
				s.GraphBlocksRead, s.GraphBufferMisses, s.GraphBufferHits, reads, visits)
		}
		if c.hyperbatch == 2 && c.frames < 5 && reads > len(c.sweeps[0])+len(c.sweeps[1]) {
			t.Errorf("a hyperbatch loads %d blocks in sweeps of %v", reads, c.sweeps)
		}
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	}
	for _, frames := range []int{1, 2} {
		if together, alone := loads[[2]int{2, frames}], loads[[2]int{1, frames}]; together >= alone {
			t.Errorf("%d frames: together %d blocks are read, one minibatch after the other %d", frames, together, alone)
		}
	}
}
