package goagnes_test

// What a hyperbatch saves, counted: feature blocks are read once a hyperbatch,
// rows above the threshold are taken from the cache, and the counters say so.

import (
	"path/filepath"
	"testing"

	"github.com/goagnes/goagnes/goagnes"
	"github.com/goagnes/goagnes/tests/fixture/graph"
	"github.com/goagnes/goagnes/tests/fixture/life"
)

// TestReads holds the counters of one epoch to what the plain sampler's
// minibatches need.
func TestReads(t *testing.T) {
	const blockSize = 4096
	g := graph.Ring(2000)
	scratch := t.TempDir()
	path := filepath.Join(t.TempDir(), "store")
	g.Build(t, path, goagnes.BuildOptions{BlockSize: blockSize, Order: "original"})
	seed := uint64(21)
	p := graph.Plan{Fanouts: []int{4, 2}, Input: goagnes.InputNodes{Split: "train"}, Batch: 25, Shuffle: true}
	want := g.Plain(p, seed).Epoch(0)
	for _, c := range []struct {
		name       string
		memory     int64
		hyperbatch int
		mode       string
		spills     bool
	}{
		{"everything fits", 64 << 20, 0, "", false},
		{"one hyperbatch, little memory", 7 << 18, 0, "", true},
		{"hyperbatches of 5", 3 << 20, 5, "", false},
		{"one minibatch at a time", 3 << 20, 0, "agnes-no", false},
		{"as published", 5 << 19, 0, "agnes-paper", true},
		{"as published, hyperbatches of 5", 3 << 20, 5, "agnes-paper", false},
		{"as published, one minibatch at a time", 3 << 20, 1, "agnes-paper", false},
	} {
		size := map[bool]int{true: c.hyperbatch, false: len(want)}[c.hyperbatch > 0]
		if c.mode == "agnes-no" {
			size = 1
		}
		s := life.Open(t, path, goagnes.OpenOptions{Memory: c.memory, Scratch: scratch, NumThreads: 2})
		o := goagnes.LoaderOptions{NumNeighbors: p.Fanouts, InputNodes: p.Input, BatchSize: p.Batch, Shuffle: true, Seed: &seed, HyperbatchSize: c.hyperbatch, FixedHyperbatch: true, Mode: c.mode}
		l := life.Load(t, s, o)
		before := s.Counters()
		g.HoldEqual(t, l, o, want)
		st := l.Stats()
		moved := s.Counters().Sub(before)

		hyperbatches := int64((len(want) + size - 1) / size)
		var blocks, nodes, edges, requests int64
		pages := map[int64]bool{}
		var hot int64 // of the last hyperbatch, whose threshold is told
		for first := 0; first < len(want); first += size {
			needed, counts := map[int64]bool{}, map[int64]int64{}
			for _, b := range want[first:min(first+size, len(want))] {
				nodes, edges, requests = nodes+int64(len(b.Nodes)), edges+int64(len(b.IDs)), requests+int64(len(b.Ptr)-1)
				for _, v := range b.Nodes {
					needed[v*int64(g.RowBytes())/blockSize] = true
					counts[v]++
					for page := v * int64(g.RowBytes()) / 4096; page <= (v*int64(g.RowBytes())+int64(g.RowBytes())-1)/4096; page++ {
						pages[page] = true
					}
				}
			}
			blocks += int64(len(needed))
			hot = 0
			for _, n := range counts {
				if n >= st.CacheThreshold {
					hot += n
				}
			}
		}
		if st.Minibatches != int64(len(want)) || st.Hyperbatches != hyperbatches || st.FeatureSweeps != hyperbatches {
			t.Errorf("%s: %d minibatches, %d hyperbatches, %d sweeps of the feature blocks; want %d, %d, %[5]d", c.name, st.Minibatches, st.Hyperbatches, st.FeatureSweeps, len(want), hyperbatches)
		}
		if st.SampledNodes != nodes || st.SampledEdges != edges || st.WindowSplits == 0 && st.BucketRequests != requests {
			t.Errorf("%s: %d nodes, %d edges, %d requests; want %d, %d, %d", c.name, st.SampledNodes, st.SampledEdges, st.BucketRequests, nodes, edges, requests)
		}
		// A hyperbatch asks for each block once, so that a row above the threshold is
		// read once; buffers held from one to the next may have the block already.
		if st.FeatureBlocksRead != st.FeatureBufferMisses || st.FeatureBufferMisses+st.FeatureBufferHits != blocks {
			t.Errorf("%s: %d feature blocks are read, %d misses, %d hits; the hyperbatches need %d", c.name, st.FeatureBlocksRead, st.FeatureBufferMisses, st.FeatureBufferHits, blocks)
		}
		if (c.mode != "agnes-paper" || hyperbatches == 1) && st.FeatureBufferHits != 0 {
			t.Errorf("%s: %d feature blocks are found in a buffer that was empty", c.name, st.FeatureBufferHits)
		}
		if st.CacheHits+st.CacheMisses != nodes || hyperbatches == 1 && st.CacheHits != hot {
			t.Errorf("%s: %d rows from the cache, %d from runs, of %d; %d are needed %d times or more", c.name, st.CacheHits, st.CacheMisses, nodes, hot, st.CacheThreshold)
		}
		if c.spills != (st.CacheMisses > 0) || c.spills != (st.SpilledRowBytes > 0) {
			t.Errorf("%s: %d rows from runs, %d bytes of rows spilled", c.name, st.CacheMisses, st.SpilledRowBytes)
		}
		if least := int64(len(pages)) * 4096; st.LowerBoundBytes <= least || st.LowerBoundBytes > least+s.Info().Sections["graph"] {
			t.Errorf("%s: the lower bound is %d bytes; rows need %d, the graph has %d", c.name, st.LowerBoundBytes, least, s.Info().Sections["graph"])
		}
		if st.BytesRead < moved.BytesRead || moved.BytesRead < int64(len(pages))*4096 || st.IORatio < 1 {
			t.Errorf("%s: %d bytes are read, %d by the epoch, rows need %d; ratio %.2f", c.name, st.BytesRead, moved.BytesRead, len(pages)*4096, st.IORatio)
		}
		t.Logf("%s: feature blocks %d, graph blocks %d, windows %d, cache %d of %d rows at %d, ratio %.2f", c.name, st.FeatureBlocksRead, st.GraphBlocksRead, st.Windows, st.CacheHits, nodes, st.CacheThreshold, st.IORatio)
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
}
