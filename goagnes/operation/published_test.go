package operation

// Algorithm 1 as published, on the paper's example and on the fixture: how often
// blocks are loaded, what the buffers and the cache count, what stays pinned.

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
	"github.com/goagnes/goagnes/layout/build/source"
	"github.com/goagnes/goagnes/layout/build/source/array"
)

// Four target nodes in graph block 0, whose in-neighbours are spread over the
// blocks 1 to 4: target v needs the nodes 4+v, 8+v, 12+v, 16+v. All other nodes
// have loops alone. Rows of 1 KiB make four nodes a feature block, too.
const (
	targets    = 4
	targetRow  = 256 // float32
	perTarget  = 5   // nodes of a target's minibatch: itself and four more
	allBlocks  = 5
	twoTargets = 2 // seeds of a minibatch, where nothing else is said
)

func targetStore(t *testing.T) (*storage.Store, *memory.ObjectIndex) {
	t.Helper()
	var src, dst []int64
	for v := range int64(20) {
		for i := range int64(exampleDegree) {
			from := v
			if v < targets {
				from = 4*(1+i%4) + v
			}
			src, dst = append(src, from), append(dst, v)
		}
	}
	x := make([]float32, 20*targetRow)
	for i := range x {
		x[i] = float32(i)
	}
	edges, err := array.EdgesFromMemory(array.Array{Name: "edge_index", Data: rawBytes(append(src, dst...)), DType: layout.Int64, Shape: []int64{2, int64(len(src))}})
	if err != nil {
		t.Fatal(err)
	}
	rows, err := array.RowsFromMemory(array.Array{Name: "x", Data: rawBytes(x), DType: layout.Float32, Shape: []int64{20, targetRow}})
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "store")
	if _, err := build.Build(context.Background(), path, build.Options{Edges: edges, Arrays: map[string]source.Rows{"x": rows}, NumNodes: 20, Order: "original", BlockSize: 4096}); err != nil {
		t.Fatal(err)
	}
	files, err := storage.OpenStore(path, storage.StoreOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { files.Close() })
	table := files.Section(layout.SectionIndex)
	entries := make([]byte, table.FileBytes())
	if err := table.Read(0, entries); err != nil {
		t.Fatal(err)
	}
	index, err := memory.NewObjectIndex(entries[:table.Bytes], nil, 20, 20*exampleDegree)
	if err != nil {
		t.Fatal(err)
	}
	if index.Blocks() != allBlocks {
		t.Fatalf("the graph has %d blocks, the example five", index.Blocks())
	}
	return files, index
}

// TestPublishedExample holds every count of the paper's example against what
// follows from the algorithm by hand.
//
// Each target needs block 0 in the first hop and the blocks 1 to 4 in the second,
// and all five feature blocks. Prepared target after target with two frames,
// nothing is found again: 4 x 5 = 20 loads. In two minibatches it is 2 x 5 = 10,
// in a hyperbatch of both 5. A buffer of five frames loads 5, whatever the
// hyperbatch, and finds the rest.
func TestPublishedExample(t *testing.T) {
	files, index := targetStore(t)
	for _, c := range []struct {
		name                   string
		published              bool
		batch, hyperbatch      int
		frames                 int64 // of either buffer, 0: not given
		graphMiss, graphHit    int64
		featureMiss, featureHi int64
	}{
		{"published, target after target", true, 1, 1, 2, 20, 0, 20, 0},
		{"published, no hyperbatch", true, twoTargets, 1, 2, 10, 0, 10, 0},
		{"published, a hyperbatch", true, twoTargets, 2, 2, 5, 0, 5, 0},
		{"published, a hyperbatch, one frame", true, twoTargets, 2, 1, 5, 0, 5, 0},
		{"published, a hyperbatch of four", true, 1, 4, 2, 5, 0, 5, 0},
		{"published, five frames", true, 1, 1, 5, 5, 15, 5, 15},
		{"published, frames by default", true, twoTargets, 1, 0, 5, 5, 5, 5},
		// Otherwise all blocks and all rows, small beside the budget, are kept: the
		// first hyperbatch loads them, and no later one asks for feature blocks.
		{"a hyperbatch", false, twoTargets, 2, 0, 5, 0, 5, 0},
		{"no hyperbatch", false, twoTargets, 1, 0, 5, 5, 5, 0},
		{"target after target", false, 1, 1, 0, 5, 15, 5, 0},
		{"no hyperbatch, two frames", false, twoTargets, 1, 2, 10, 0, 5, 0},
	} {
		o := Options{Store: files, Index: index, Budget: memory.NewBudget(8 << 20), Threads: 1, Seeds: ListSeeds{0, 1, 2, 3}, BatchSize: c.batch,
			Fanouts: []int{-1, 3}, Hyperbatch: c.hyperbatch, Held: 1, Published: c.published,
			Outputs: Outputs{X: true, NodeIDs: true, EdgeIndex: true, EdgeIDs: true}}
		sizes, err := New(o)
		if err != nil {
			t.Fatal(err)
		}
		o.GraphBuffer, o.FeatureBuffer = c.frames*sizes.plan.graphFrame, c.frames*sizes.plan.featureFrame
		if err := sizes.Close(); err != nil {
			t.Error(err)
		}
		e, err := New(o)
		if err != nil {
			t.Fatal(err)
		}
		run := e.Start(context.Background(), 0)
		for m := range targets / c.batch {
			b, err := run.Next(context.Background())
			if err != nil {
				t.Fatal(err)
			}
			ids, _ := b.Array("n_id")
			var want []int64
			for v := m * c.batch; v < (m+1)*c.batch; v++ {
				want = append(want, int64(v))
			}
			for v := m * c.batch; v < (m+1)*c.batch; v++ {
				for block := int64(1); block < allBlocks; block++ {
					want = append(want, 4*block+int64(v))
				}
			}
			if got := int64s(ids.Bytes()); !slices.Equal(got, want) {
				t.Errorf("%s: minibatch %d holds %v, want %v", c.name, m, got, want)
			}
			b.Release()
		}
		if _, err := run.Next(context.Background()); !errors.Is(err, io.EOF) {
			t.Fatal(err)
		}
		s := e.Stats()
		if s.GraphBufferMisses != c.graphMiss || s.GraphBufferHits != c.graphHit || s.GraphBlocksRead != c.graphMiss {
			t.Errorf("%s: T_buf^g has %d misses, %d hits, %d blocks are read; want %d, %d", c.name, s.GraphBufferMisses, s.GraphBufferHits, s.GraphBlocksRead, c.graphMiss, c.graphHit)
		}
		if s.FeatureBufferMisses != c.featureMiss || s.FeatureBufferHits != c.featureHi || s.FeatureBlocksRead != c.featureMiss {
			t.Errorf("%s: T_buf^f has %d misses, %d hits, %d blocks are read; want %d, %d", c.name, s.FeatureBufferMisses, s.FeatureBufferHits, s.FeatureBlocksRead, c.featureMiss, c.featureHi)
		}
		if s.CacheHits != targets*perTarget || s.CacheMisses != 0 || s.CacheThreshold != 1 {
			t.Errorf("%s: T_ch^f has %d hits, %d misses at a threshold of %d; the cache has room for all %d rows", c.name, s.CacheHits, s.CacheMisses, s.CacheThreshold, targets*perTarget)
		}
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestPublishedPin holds one block pinned while an epoch needs every frame that
// is left: the block stays, and the minibatches are the same.
func TestPublishedPin(t *testing.T) {
	var want uint64
	for _, pinned := range []bool{false, true} {
		f := newFixture(t, 64<<20, nil)
		graph, feature := 2*f.plan.graphFrame, 2*f.plan.featureFrame
		f.close()
		f = newFixture(t, 64<<20, func(o *Options) { o.Published, o.GraphBuffer, o.FeatureBuffer = true, graph, feature })
		var frame *memory.Frame
		const block = 5
		var bytes []byte
		if pinned {
			if err := f.holdBuffers(); err != nil {
				t.Fatal(err)
			}
			var hit, ok bool
			if frame, hit, ok = f.keptBuffer.Acquire(block); hit || !ok {
				t.Fatal("an empty buffer holds the block, or no frame is free")
			}
			f.load(block, frame.Bytes(), frame.Ready)
			if err := frame.Wait(context.Background()); err != nil {
				t.Fatal(err)
			}
			bytes = slices.Clone(frame.Bytes())
		}
		n, sum, err := drain(f.Start(context.Background(), 0))
		if err != nil || n != fixtureBatches {
			t.Fatalf("%d minibatches, %v", n, err)
		}
		s := f.Stats()
		if s.HubVisits == 0 || s.HubPicks != 0 {
			t.Errorf("%d visits of hubs, %d neighbours read one by one: pieces of hubs are read whole", s.HubVisits, s.HubPicks)
		}
		if f.keptBuffer.Evictions() == 0 {
			t.Error("two frames held every block")
		}
		if pinned {
			if frame.Block() != block || !slices.Equal(frame.Bytes(), bytes) {
				t.Errorf("the pinned frame of block %d holds block %d, or other bytes", block, frame.Block())
			}
			if s.GraphBufferHits == 0 {
				t.Error("the pinned block was not found")
			}
			frame.Unpin()
			if sum != want {
				t.Error("with a block pinned the minibatches are others")
			}
		}
		want = sum
		f.close()
	}
}

// TestPublishedRefusals asks for buffers that cannot be.
func TestPublishedRefusals(t *testing.T) {
	f := newFixture(t, 64<<20, nil)
	defer f.close()
	for _, published := range []bool{false, true} {
		o := f.Options
		o.Published = published
		for name, field := range map[string]*int64{"graph_buffer": &o.GraphBuffer, "feature_buffer": &o.FeatureBuffer} {
			*field = 100
			_, err := New(o)
			var small *BufferError
			if !errors.As(err, &small) || small.Argument != name || small.Class() != "budget" {
				t.Fatalf("%s of 100 bytes: %v", name, err)
			}
			*field = small.Frame
			e, err := New(o)
			if err != nil {
				t.Fatalf("%s of one frame: %v", name, err)
			}
			if err := e.Close(); err != nil {
				t.Error(err)
			}
			*field = small.Frame - 1
			if _, err := New(o); !errors.As(err, &small) {
				t.Errorf("%s of a byte less than a frame: %v", name, err)
			}
			*field = 0
		}
		frames := f.plan.graphBlocks*f.plan.graphFrame + f.plan.featureBlocks*f.plan.featureFrame
		o.GraphBuffer, o.FeatureBuffer = 1<<40, 1<<40 // every block has a frame, and no more are made
		o.Budget = memory.NewBudget(frames / 4)
		var budget *memory.BudgetError
		if _, err := New(o); !errors.As(err, &budget) {
			t.Errorf("buffers of four times the budget: %v", err)
		}
		o.Outputs = Outputs{EdgeIndex: true}
		o.Budget = f.Budget
		if _, err := New(o); !errors.Is(err, ErrNoRows) {
			t.Errorf("a feature buffer without rows: %v", err)
		}
	}
}

// TestBucketBytes measures the bucket of the same requests over indexes of ten
// times the blocks and in more minibatches: the product of the two does not
// appear, only a word a block.
func TestBucketBytes(t *testing.T) {
	const requests, perBlock = 6000, 8
	measure := func(blocks, minibatches int) int64 {
		entries := make([]byte, (blocks+1)*layout.IndexEntryBytes)
		for b := range blocks + 1 {
			layout.IndexEntry{FirstNode: uint64(b * perBlock), FirstEdge: uint64(b * perBlock)}.Put(entries[b*layout.IndexEntryBytes:])
		}
		index, err := memory.NewObjectIndex(entries, nil, int64(blocks*perBlock), int64(blocks*perBlock))
		if err != nil {
			t.Fatal(err)
		}
		frontiers := make([][]uint32, minibatches)
		for i := range requests {
			frontiers[i%minibatches] = append(frontiers[i%minibatches], uint32(i*7919%(blocks*perBlock)))
		}
		mem := newTwoEnded(make([]byte, 4<<20))
		if _, err := fillBucket(mem, index, frontiers); err != nil {
			t.Fatal(err)
		}
		return mem.peak
	}
	const few, many = 1000, 10000
	base := measure(few, 10)
	for _, minibatches := range []int{1, 100, requests} {
		if got := measure(few, minibatches); got != base {
			t.Errorf("%d requests take %d bytes in %d minibatches, %d in 10", requests, got, minibatches, base)
		}
		if got := measure(many, minibatches); got > base+4*(many-few)+2*layout.PageSize {
			t.Errorf("%d requests over %d blocks take %d bytes in %d minibatches, %d over %d blocks", requests, many, got, minibatches, base, few)
		}
	}
}
