package goagnes_test

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"github.com/goagnes/goagnes/goagnes"
	"github.com/goagnes/goagnes/goagnes/operation"
	"github.com/goagnes/goagnes/tests/fixture/graph"
	"github.com/goagnes/goagnes/tests/fixture/life"
)

// The plan in words: one thing is not "1 things".
func TestExplainWords(t *testing.T) {
	x := goagnes.Explanation{Mode: "agnes", BudgetBytes: 64 << 20, Explanation: operation.Explanation{
		Minibatches: 1, Hyperbatch: 1024, Hyperbatches: 1, BlockSize: 1 << 20, GraphBlocks: 1, Windows: 1, FeatureBlocks: 1, FeatureSweeps: 1,
		GraphFrames: 1, FeatureFrames: 1, CacheRows: 1, KeepsGraph: true, Nodes: 1, Edges: 1, Prepared: 1,
		Memory: []operation.Share{{Name: "seeds", Bytes: 512, While: "sampling"}, {Name: "samples", Bytes: 3 << 20, While: "sampling+gathering+delivery"}},
		Phases: []operation.Phase{{Name: "sample", Read: 1 << 20, ActualRead: 2 << 20}},
	}}
	const one = `mode       agnes, blocks of 1 MiB; of hubs the pages with drawn neighbours alone
epoch      1 minibatch of about 1 node and 1 edge, in 1 hyperbatch of at most 1024
sampling   1 window a hyperbatch; 1 frame for 1 graph block, kept; samples stay in memory
gathering  1 sweep a hyperbatch; 1 frame for 1 feature block; 1 row cached; none goes to scratch
memory     64 MiB
  samples  3 MiB, sampling, gathering and delivery
  seeds    0.5 KiB, sampling
sample     1 MiB read, 0 KiB written; measured 2 MiB read, 0 KiB written
measured   over 1 minibatch, scaled to an epoch
`
	if got := x.String(); got != one {
		t.Errorf("%s\nwant\n%s", got, one)
	}
	x.Minibatches, x.Hyperbatches, x.Windows, x.GraphBlocks, x.GraphFrames, x.KeepsGraph = 3, 2, 2, 5, 0, false
	x.FeatureBlocks, x.Prepared = 0, 0
	got := x.String()
	for _, line := range []string{
		"epoch      3 minibatches of about 1 node and 1 edge, in 2 hyperbatches of at most 1024\n",
		"sampling   2 windows a hyperbatch; 0 frames for 5 graph blocks; samples stay in memory\n",
		"measured   nothing yet",
	} {
		if !strings.Contains(got, line) {
			t.Errorf("%s\nlacks %q", got, line)
		}
	}
	if strings.Contains(got, "\ngathering") {
		t.Errorf("%s\ntells of gathering, and there is nothing to gather", got)
	}
}

// TestExplain holds plans against what follows: the parts named as they are
// reserved, no more than the budget at any time, spilling foretold, and the bytes
// measured those of the counters.
func TestExplain(t *testing.T) {
	g := graph.Ring(2000)
	scratch, path := t.TempDir(), filepath.Join(t.TempDir(), "store")
	g.Build(t, path, goagnes.BuildOptions{BlockSize: 4096, Order: "original"})
	seed := uint64(3)
	for _, c := range []struct {
		mode       string
		memory     int64
		hyperbatch int
		graph      int64
	}{
		{"agnes", 64 << 20, 0, 0},
		{"agnes", 7 << 18, 0, 0},
		{"agnes", 8 << 20, 4, 128 << 10},
		{"agnes-no", 8 << 20, 0, 0},
		{"agnes-paper", 5 << 19, 0, 0},
		{"agnes-paper", 8 << 20, 4, 64 << 10},
	} {
		s := life.Open(t, path, goagnes.OpenOptions{Memory: c.memory, Scratch: scratch, NumThreads: 2})
		o := goagnes.LoaderOptions{NumNeighbors: []int{4, 2}, InputNodes: goagnes.InputNodes{Split: "train"}, BatchSize: 25, Seed: &seed,
			HyperbatchSize: c.hyperbatch, Mode: c.mode, GraphBuffer: c.graph}
		l := life.Load(t, s, o)
		before := l.Explain()
		if before.Mode != c.mode || before.Prepared != 0 || before.Minibatches != int64(l.Len()) || before.BudgetBytes != c.memory || before.Phases[1].ActualRead != 0 {
			t.Errorf("%+v: before: %+v", c, before)
		}
		if before.Phases[0].Read == 0 || before.Phases[1].Read == 0 {
			t.Errorf("%+v: nothing is expected to be read: %+v", c, before.Phases)
		}
		for _, step := range []string{"sampling", "gathering", "delivery"} {
			sum := int64(0)
			for _, m := range before.Memory {
				if m.While == "epoch" || strings.Contains(m.While, step) {
					sum += m.Bytes
				}
			}
			if sum > c.memory {
				t.Errorf("%+v: %s takes %d bytes of a budget of %d: %+v", c, step, sum, c.memory, before.Memory)
			}
		}
		if c.graph > 0 {
			for _, m := range before.Memory {
				if m.Name == "graph buffer" && (m.Bytes > c.graph || m.Bytes <= c.graph/2) {
					t.Errorf("%+v: the graph buffer takes %d bytes", c, m.Bytes)
				}
			}
		}
		g.HoldEqual(t, l, o, g.Plain(graph.Plan{Fanouts: []int{4, 2}, Input: o.InputNodes, Batch: 25}, seed).Epoch(0))
		after, st := l.Explain(), l.Stats()
		read, written := int64(0), int64(0)
		for _, p := range after.Phases {
			read, written = read+p.ActualRead, written+p.ActualWritten
		}
		if after.Prepared != int64(l.Len()) || read == 0 || read > st.BytesRead || written != st.BytesWritten {
			t.Errorf("%+v: measured %d read, %d written; the counters say %d, %d", c, read, written, st.BytesRead, st.BytesWritten)
		}
		if after.Nodes != st.SampledNodes/int64(l.Len()) || after.Edges != st.SampledEdges/int64(l.Len()) {
			t.Errorf("%+v: %d nodes and %d edges a minibatch; sampled %d, %d", c, after.Nodes, after.Edges, st.SampledNodes, st.SampledEdges)
		}
		// This graph is no skewed one: what is foretold comes true.
		if (st.SpilledRowBytes > 0) != before.SpillsRows || (st.SpilledSampleBytes > 0) != before.SpillsSamples {
			t.Errorf("%+v: spilling of samples %v and rows %v is foretold; spilled %d and %d bytes", c, before.SpillsSamples, before.SpillsRows, st.SpilledSampleBytes, st.SpilledRowBytes)
		}
		for i, p := range before.Phases[:2] {
			if actual := after.Phases[i].ActualRead; actual > 0 && (p.Read < actual/4 || p.Read > actual*4) {
				t.Errorf("%+v: %s is expected to read %d bytes, it read %d", c, p.Name, p.Read, actual)
			}
		}
		text := after.String()
		for _, want := range []string{c.mode, "graph buffer", "feature cache", "measured"} {
			if !strings.Contains(text, want) {
				t.Errorf("%+v: no %q in\n%s", c, want, text)
			}
		}
		var doc map[string]any
		raw, err := json.Marshal(after)
		if err == nil {
			err = json.Unmarshal(raw, &doc)
		}
		if err != nil || doc["mode"] != c.mode || doc["minibatches"] == nil || doc["phases"] == nil {
			t.Errorf("%v as JSON: %v", c, err)
		}
		t.Logf("%+v\n%s", c, text)
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestExplainCounts: one of a thing is named as one.
func TestExplainCounts(t *testing.T) {
	g := graph.Ring(40)
	path := filepath.Join(t.TempDir(), "store")
	g.Build(t, path, goagnes.BuildOptions{})
	s := life.Open(t, path, goagnes.OpenOptions{Memory: 64 << 20})
	for size, says := range map[int][]string{
		1000: {"1 minibatch of about ", "in 1 hyperbatch of at most"},
		10:   {" minibatches of about ", "in 1 hyperbatch of at most"},
	} {
		l := life.Load(t, s, goagnes.LoaderOptions{NumNeighbors: []int{2}, BatchSize: size})
		text := l.Explain().String()
		for _, want := range append(says, "1 window a hyperbatch", "for 1 graph block", "for 1 feature block") {
			if !strings.Contains(text, want) {
				t.Errorf("batch size %d: %q is not in:\n%s", size, want, text)
			}
		}
	}
}
