package operation

// The plan as people and programs read it: what an epoch is expected to take,
// and what it took so far.

import (
	"math"

	"github.com/goagnes/goagnes/goagnes/memory"
	"github.com/goagnes/goagnes/layout"
)

// Explanation is an engine's plan for an epoch. Estimates before the first
// minibatch follow from the fanouts and the mean degree, as if every node were
// as likely as any other: on skewed graphs they are too high, most of all for
// what is spilled. Later ones take the means of what was sampled.
type Explanation struct {
	Minibatches  int64 `json:"minibatches"`
	Hyperbatch   int   `json:"hyperbatch_size"`
	Hyperbatches int64 `json:"hyperbatches"`
	First        int   `json:"first_hyperbatch"` // size of the first, if each is larger than the one before up to the size; else the size
	WholeBlocks  bool  `json:"whole_blocks"`     // the pieces of hubs, too, are read whole
	BlockSize    int64 `json:"block_size"`
	GraphBlocks  int64 `json:"graph_blocks"`
	// Of a hyperbatch: groups of minibatches that are sampled together, and sweeps
	// of the feature blocks.
	Windows       int64 `json:"windows"`
	SamplesAhead  bool  `json:"samples_ahead"` // each but the first is sampled while the one before is delivered
	FeatureBlocks int64 `json:"feature_blocks"`
	FeatureSweeps int64 `json:"feature_sweeps"`
	GraphFrames   int64 `json:"graph_frames"`
	FeatureFrames int64 `json:"feature_frames"`
	KeepsGraph    bool  `json:"keeps_graph"` // all graph blocks stay in memory from hyperbatch to hyperbatch
	KeepsRows     bool  `json:"keeps_rows"`  // likewise all rows
	CacheRows     int64 `json:"cache_rows"`  // rows of the feature cache
	SpillsSamples bool  `json:"spills_samples"`
	SpillsRows    bool  `json:"spills_rows"`

	Nodes  int64   `json:"nodes"` // of a minibatch
	Edges  int64   `json:"edges"`
	Memory []Share `json:"memory"`
	Phases []Phase `json:"phases"`
	// Prepared are the minibatches that the actual figures rest on, 0 before the first.
	Prepared int64 `json:"prepared"`
}

// Share is a part of the budget.
type Share struct {
	Name  string `json:"name"` // as in the holders of docs/memory.md
	Bytes int64  `json:"bytes"`
	While string `json:"while"` // "epoch", "sampling", "gathering", "delivery", or several of them joined by "+"
}

// Phase is what a step moves in an epoch, in bytes. Actual figures are means of
// what was prepared, scaled to an epoch; other users of the store count too.
type Phase struct {
	Name          string `json:"name"` // "sample", "gather", "deliver"
	Read          int64  `json:"read"`
	Written       int64  `json:"written"`
	ActualRead    int64  `json:"actual_read"`
	ActualWritten int64  `json:"actual_written"`
}

var phaseNames = [...]string{"sample", "gather", "deliver"}

// touched returns how many of n things are met by so many uniform draws.
func touched(n, draws float64) float64 {
	if n <= 0 {
		return 0
	}
	return n * -math.Expm1(-draws/n)
}

// expected is what a minibatch is expected to hold.
type expected struct {
	frontier []float64 // nodes to expand, by hop
	nodes    float64
	edges    float64
}

func (e *Engine) expect() expected {
	n := float64(max(e.manifest.NumNodes, 1))
	degree := float64(e.manifest.NumEdges) / n
	seeds := float64(min(int64(e.BatchSize), e.Seeds.Len()))
	x := expected{nodes: seeds}
	frontier := seeds
	for _, k := range e.Fanouts {
		x.frontier = append(x.frontier, frontier)
		drawn := frontier * degree
		if k >= 0 {
			drawn = frontier * min(degree, float64(k))
		}
		x.edges += drawn
		fresh := touched(max(n-x.nodes, 0), drawn*max(n-x.nodes, 0)/n)
		x.nodes += fresh
		frontier = fresh
	}
	if done := float64(e.meter.minibatches.Load()); done > 0 {
		// The hops are scaled together: their sum is what was counted.
		nodes, edges := float64(e.meter.deliveredNodes.Load())/done, float64(e.meter.deliveredEdges.Load())/done
		for i := 1; i < len(x.frontier); i++ {
			x.frontier[i] *= nodes / max(x.nodes, 1)
		}
		x.nodes, x.edges = nodes, edges
	}
	return x
}

// Explain returns the plan with estimates and, beside them, what was measured
// since the engine was made. It may be called at any time.
func (e *Engine) Explain() Explanation {
	p, x := &e.plan, e.expect()
	est := e.estimate()
	total := e.Minibatches()
	count := int(min(int64(e.Hyperbatch), max(total, 1)))
	r := &record{seeds: int(min(int64(e.BatchSize), e.Seeds.Len())), nodes: int(x.nodes), targets: int(x.nodes), edges: int(x.edges)}
	_, _, _, body := r.offsets(e.edgeWide)
	out := Explanation{
		Minibatches: total, Hyperbatch: e.Hyperbatch, Hyperbatches: (total + int64(e.Hyperbatch) - 1) / int64(e.Hyperbatch),
		WholeBlocks: p.published, BlockSize: e.manifest.Settings.BlockSize, GraphBlocks: int64(e.Index.Blocks()), FeatureBlocks: p.featureBlocks,
		Nodes: int64(x.nodes), Edges: int64(x.edges), Prepared: e.meter.minibatches.Load(),
	}
	add := func(name, while string, bytes int64) {
		if bytes > 0 {
			out.Memory = append(out.Memory, Share{name, bytes, while})
		}
	}
	const sampling, gathering, delivery = "sampling", "gathering", "delivery"

	// The same divisions that sampleAll and gather make, of what was free when the
	// engine was made.
	free := e.freeAtStart
	trace := e.boundBytes()
	add("page trace", "epoch", trace)
	free -= trace
	if p.published && p.rows {
		add("feature buffer", "epoch", p.featureFrames*p.featureFrame)
		free -= p.featureFrames * p.featureFrame
	}
	seeds := min(int64(count)*int64(e.BatchSize), e.Seeds.Len())
	division := p.sampling(free, e.keeps, e.windowLeast(e.least), est, count, seeds, false)
	resident, graph, keepGraph := division.resident, division.graph, division.keep
	add("access counts", sampling+"+"+gathering, division.counts)
	out.SpillsSamples = resident == 0
	add("samples", sampling+"+"+gathering+"+"+delivery, resident)
	afterCounts := max(free-division.counts, 0)
	out.GraphFrames = graph / p.graphFrame
	accesses := x.nodes * float64(count)
	distinct := touched(float64(p.nodes), accesses)
	d := drawn{count: count, longest: int64(x.nodes), nodes: int64(accesses), held: int64(e.Held+1) * memory.SlabBytes(e.slabBytes(r)),
		next: est.fixed + int64(min(count, windowOf))*est.window}
	if out.SpillsSamples {
		d.body = roundUp(body, layout.PageSize)
	}
	spare := e.keeps - e.keeps/idleShare - resident
	if beside := max(afterCounts-resident-graph, 0); !keepGraph && out.GraphFrames >= p.graphBlocks { // as settleGraph
		keepGraph = beside >= d.next && graph <= spare
		if p.rows {
			keepGraph = keepGraph && float64(p.gathering(beside, spare-graph, d).room/p.stride) >= distinct
		}
	}
	if keepGraph {
		spare -= graph
	} else {
		d.next += p.graphBlocks * p.graphFrame * 4 / 3
	}
	out.KeepsGraph = keepGraph && out.GraphFrames >= p.graphBlocks
	while := sampling
	if keepGraph {
		while = "epoch"
	}
	add("graph buffer", while, graph)
	add("seeds", sampling, division.seeds)
	window, fit := division.window, division.fit
	add("sampling window", sampling, window)
	out.Windows = int64((count + fit - 1) / fit)

	free = max(afterCounts-resident, 0)
	if keepGraph {
		free = max(free-graph, 0)
	}
	perBlock := float64(p.graphFrame)
	loads, requests := 0.0, 0.0
	for _, f := range x.frontier {
		q := f * float64(min(fit, count))
		loads += touched(float64(out.GraphBlocks), q) * float64(out.Windows)
		requests += f * float64(count)
	}
	if out.GraphFrames >= out.GraphBlocks {
		loads = touched(float64(out.GraphBlocks), requests)
	}
	graphRead := loads * perBlock * float64(out.Hyperbatches)
	if out.KeepsGraph {
		graphRead = touched(float64(out.GraphBlocks), requests*float64(out.Hyperbatches)) * perBlock
	}
	samples := 0.0
	if out.SpillsSamples {
		samples = float64(roundUp(body, layout.PageSize)) * float64(total)
	}
	rowsRead, rowsWritten := 0.0, 0.0
	delivering := leastRecords * d.body
	if p.rows {
		g := p.gathering(free, spare, d)
		cached := min(distinct, float64(g.room/p.stride))
		cold := 0.0
		if cached < distinct {
			cold = accesses * (1 - cached/distinct)
		}
		blocks := touched(float64(p.featureBlocks), distinct)
		keepRows := g.keep && (p.keepsRows() || 2*blocks >= float64(p.featureBlocks))
		out.FeatureFrames, out.KeepsRows, out.CacheRows = g.frames, keepRows, int64(cached)
		out.SpillsRows = cold > 0
		out.FeatureSweeps = 1
		if cold > 0 {
			out.FeatureSweeps = max(1, int64(math.Ceil(4*cold/float64(max(g.lists, 1)))))
		}
		if !p.published {
			add("feature buffer", gathering, g.frames*p.featureFrame)
		}
		add("write buffers", gathering, g.buffers*p.writeBytes)
		if cold > 0 {
			add("cold-row lists", gathering, min(g.lists, int64(4*cold))+int64(count)*layout.PageSize)
			add("sorting cold rows", gathering, d.sortBytes())
		}
		add("feature cache", gathering+"+"+delivery, p.index+out.CacheRows*p.stride)
		delivering = p.index + out.CacheRows*p.stride + p.deliveryBytes(d, g.records)
		add("delivery", delivery, p.deliveryBytes(d, g.records))
		add("minibatches", delivery, d.held)
		times := float64(out.Hyperbatches * out.FeatureSweeps)
		if keepRows { // every block, once
			blocks, times = float64(p.featureBlocks), 1
			delivering += (p.nodes - out.CacheRows) * p.stride
			out.CacheRows = p.nodes
		}
		rowsRead = blocks * times * float64(p.featureFrame)
		rowsWritten = cold * float64(p.stride) / float64(count) * float64(total)
	} else {
		add("minibatches", delivery, int64(e.Held+1)*memory.SlabBytes(e.slabBytes(r)))
	}
	out.Phases = []Phase{
		{Name: phaseNames[0], Read: int64(graphRead), Written: int64(samples)},
		{Name: phaseNames[1], Read: int64(rowsRead + samples*float64(4*r.nodes)/float64(max(body, 1))), Written: int64(rowsWritten)},
		{Name: phaseNames[2], Read: int64(samples + rowsWritten)},
	}
	if !p.rows {
		out.Phases[1].Read = 0
	}
	if total == 0 {
		for i := range out.Phases {
			out.Phases[i] = Phase{Name: phaseNames[i]}
		}
		out.First = e.Hyperbatch
		return out
	}
	if out.Prepared > 0 {
		scale := float64(total) / float64(out.Prepared)
		for i := range out.Phases {
			m := &e.meter.phases[i]
			out.Phases[i].ActualRead = int64(float64(m.read.Load()) * scale)
			out.Phases[i].ActualWritten = int64(float64(m.written.Load()) * scale)
		}
	}
	grow := e.grows(total, &out, out.KeepsGraph, out.KeepsRows)
	out.Hyperbatches, out.First = e.hyperbatchesOf(total, grow), e.firstSize(grow)
	held := out.KeepsGraph || p.published
	free += p.counts // which delivery does not need
	alone := p.sampling(free+resident, max(spare, 0), e.windowLeast(e.least), est, count, seeds, held)
	_, ahead := p.ahead(alone, free-delivering-d.held, e.windowLeast(e.least), est, count, held)
	out.SamplesAhead = ahead && out.Hyperbatches > 1
	return out
}

// phase runs one step of a hyperbatch and counts what the device moved for it.
func (e *Engine) phase(i int, step func() error) error {
	before := e.Store.Pool().Counters()
	defer func() {
		d := e.Store.Pool().Counters().Sub(before)
		e.meter.phases[i].read.Add(d.BytesRead)
		e.meter.phases[i].written.Add(d.BytesWritten)
	}()
	return step()
}
