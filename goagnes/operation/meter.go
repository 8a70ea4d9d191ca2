package operation

import (
	"sync"
	"sync/atomic"
	"time"
)

// meter counts what an engine does, over all its epochs.
type meter struct {
	minibatches, hyperbatches, windows, splits atomic.Int64
	sampledAhead, halved                       atomic.Int64
	sampledNodes, sampledEdges                 atomic.Int64
	bucketRequests                             atomic.Int64
	graphBlocks, hubVisits, hubPicks           atomic.Int64
	graphHits, graphMisses                     atomic.Int64
	featureBlocks, featureSweeps               atomic.Int64
	featureHits, featureMisses                 atomic.Int64
	cacheHits, cacheMisses                     atomic.Int64
	threshold                                  atomic.Int64
	spilledSamples, spilledRows                atomic.Int64
	bound                                      atomic.Int64
	deliveredNodes, deliveredEdges             atomic.Int64
	phases                                     [len(phaseNames)]struct{ read, written atomic.Int64 }

	bucketSeconds, sampleSeconds       atomic.Int64 // nanoseconds
	gatherSeconds, gatherWaitSeconds   atomic.Int64
	deliverSeconds, deliverWaitSeconds atomic.Int64
	consumerSeconds, nextSeconds       atomic.Int64

	mu      sync.Mutex
	running time.Time // zero between epochs
	seconds float64
}

func (m *meter) addSeconds(to *atomic.Int64, since time.Time) { to.Add(int64(time.Since(since))) }

func (m *meter) begin() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.running = time.Now()
}

func (m *meter) end() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.seconds += time.Since(m.running).Seconds()
	m.running = time.Time{}
}

// Stats are an engine's counts since it was made, all epochs together.
type Stats struct {
	Minibatches  int64 `json:"minibatches"`
	Hyperbatches int64 `json:"hyperbatches"`
	SampledAhead int64 `json:"sampled_ahead"`       // hyperbatches that were sampled while the one before was delivered
	Halved       int64 `json:"hyperbatches_halved"` // hyperbatches prepared again as smaller ones, as scratch had no room
	Windows      int64 `json:"windows"`             // groups of minibatches whose graph blocks were swept together
	WindowSplits int64 `json:"window_splits"`       // windows sampled again because they did not fit

	SampledNodes   int64 `json:"sampled_nodes"`
	SampledEdges   int64 `json:"sampled_edges"`
	BucketRequests int64 `json:"bucket_requests"` // frontier nodes put into buckets

	GraphBlocksRead   int64 `json:"graph_blocks_read"`
	GraphBufferHits   int64 `json:"graph_buffer_hits"` // T_buf^g
	GraphBufferMisses int64 `json:"graph_buffer_misses"`
	HubVisits         int64 `json:"hub_visits"`
	HubPicks          int64 `json:"hub_picks"` // neighbours of hubs read one by one

	FeatureBlocksRead   int64 `json:"feature_blocks_read"`
	FeatureSweeps       int64 `json:"feature_sweeps"`
	FeatureBufferHits   int64 `json:"feature_buffer_hits"` // T_buf^f
	FeatureBufferMisses int64 `json:"feature_buffer_misses"`
	CacheThreshold      int64 `json:"cache_threshold"` // accesses in a hyperbatch from which a row is cached, of the last hyperbatch
	CacheHits           int64 `json:"cache_hits"`      // T_ch^f: rows taken from the feature cache
	CacheMisses         int64 `json:"cache_misses"`    // rows taken from runs

	SpilledSampleBytes int64 `json:"spilled_sample_bytes"`
	SpilledRowBytes    int64 `json:"spilled_row_bytes"`

	LowerBoundBytes int64              `json:"lower_bound_bytes"` // LB of the last epoch, so far: distinct pages that its minibatches need
	Seconds         map[string]float64 `json:"seconds"`
	PeakMemory      int64              `json:"peak_memory"` // bytes of the budget in use at most
}

// Stats returns the engine's counts.
func (e *Engine) Stats() Stats {
	m := &e.meter
	s := func(a *atomic.Int64) float64 { return float64(a.Load()) / 1e9 }
	m.mu.Lock()
	total := m.seconds
	if !m.running.IsZero() {
		total += time.Since(m.running).Seconds()
	}
	m.mu.Unlock()
	return Stats{
		Minibatches: m.minibatches.Load(), Hyperbatches: m.hyperbatches.Load(), SampledAhead: m.sampledAhead.Load(), Halved: m.halved.Load(), Windows: m.windows.Load(), WindowSplits: m.splits.Load(),
		SampledNodes: m.sampledNodes.Load(), SampledEdges: m.sampledEdges.Load(), BucketRequests: m.bucketRequests.Load(),
		GraphBlocksRead: m.graphBlocks.Load(), GraphBufferHits: m.graphHits.Load(), GraphBufferMisses: m.graphMisses.Load(),
		HubVisits: m.hubVisits.Load(), HubPicks: m.hubPicks.Load(),
		FeatureBlocksRead: m.featureBlocks.Load(), FeatureSweeps: m.featureSweeps.Load(),
		FeatureBufferHits: m.featureHits.Load(), FeatureBufferMisses: m.featureMisses.Load(),
		CacheThreshold: m.threshold.Load(), CacheHits: m.cacheHits.Load(), CacheMisses: m.cacheMisses.Load(),
		SpilledSampleBytes: m.spilledSamples.Load(), SpilledRowBytes: m.spilledRows.Load(),
		LowerBoundBytes: m.bound.Load(), PeakMemory: e.Budget.Peak(),
		Seconds: map[string]float64{
			"total": total, "sample": s(&m.sampleSeconds), "bucket": s(&m.bucketSeconds),
			"gather": s(&m.gatherSeconds), "gather_wait": s(&m.gatherWaitSeconds),
			"deliver": s(&m.deliverSeconds), "deliver_wait": s(&m.deliverWaitSeconds),
			"consumer": s(&m.consumerSeconds), "next": s(&m.nextSeconds),
		},
	}
}
