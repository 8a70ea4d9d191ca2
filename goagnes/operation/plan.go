package operation

// The plan of an engine: how it reads, and how the budget is divided among the
// steps of a hyperbatch. It is decided once, in New; what depends on the memory
// that is free or on what was drawn is computed by its methods, from numbers
// alone, so that Explain can ask the same questions before a run.

import (
	"errors"
	"fmt"

	"github.com/goagnes/goagnes/goagnes/memory"
	"github.com/goagnes/goagnes/goagnes/storage"
	"github.com/goagnes/goagnes/layout"
)

// What the steps make do with at least, and take at most.
const (
	leastGraphFrames   = 4
	leastFeatureFrames = 2
	leastWriteBuffers  = 8
	leastRecords       = 2 // in scratch, that delivery reads ahead
	mostWriteBuffers   = 64
	windowStep         = 16 * layout.PageSize // by which a sampling window is enlarged

	sweepBlocks = 8  // feature blocks distributed at a time
	leastChunks = 12 // chunks of runs in flight

	// keptShare is the part of the budget, one in so many, that a graph buffer of all
	// blocks or a feature cache of all rows may take to be kept between hyperbatches
	// whatever else there is to do with it.
	keptShare = 16

	// seedsShare is the part of what is free, one in so many, that the seeds of a
	// hyperbatch may take while it is sampled.
	seedsShare = 64

	// recordsShare is the part of what is free, one in so many, that records read ahead
	// may take beyond two.
	recordsShare = 16

	// publishedShare is the part of the budget, one in so many, that the graph buffer
	// and the feature buffer get each under the published policy, where not given.
	publishedShare = 8
)

// plan is how an engine reads and what its parts take, in bytes unless said
// otherwise.
type plan struct {
	// published is the policy of Algorithm 1 as published: every needed block is
	// read whole, the pieces of hubs too, and the two buffers have their frames for
	// the engine's life, so that blocks stay from hyperbatch to hyperbatch by LRU
	// alone; no buffer of all blocks or cache of all rows is kept beside them.
	published bool

	total int64 // budget
	nodes int64 // of the store

	graphBlocks int64 // in all
	graphFrame  int64 // a graph block and the edge ids that go with it
	graphFrames int64 // by number, 0: as many as a hyperbatch has room for

	rows          bool  // rows of nodes are gathered
	stride        int64 // of a row record
	columns       int64 // of compressed graph blocks, over all workers
	featureBlocks int64 // in all
	featureFrame  int64 // the rows of a feature block, of every column
	featureFrames int64 // by number, 0: as many as a hyperbatch has room for
	blockReads    int64 // reads that load a feature block, by number
	areas         []int64
	counts        int64 // access counts
	index         int64 // T_ch^f
	writeBytes    int64 // a write buffer
	chunkRows     int64 // row records of a chunk of a run, by number
	chunkBytes    int64 // a chunk: rows and a seal, in whole pages
	ringChunks    int64 // chunks of runs in flight
	depth         int64 // reads that keep the device's queue full, by number
}

// ErrNoRows is returned by New for a feature buffer where no array of nodes is
// wanted or stored.
var ErrNoRows = errors.New("no feature block is read: the minibatches hold no array of nodes")

// BufferError refuses a buffer that has no room for one frame.
type BufferError struct {
	Argument string // "graph_buffer" or "feature_buffer"
	Bytes    int64  // given
	Frame    int64  // a block with what goes with it
}

func (e *BufferError) Error() string {
	return fmt.Sprintf("%s of %d bytes: one frame takes %d bytes: set %[1]s to %[3]d or more", e.Argument, e.Bytes, e.Frame)
}

// Class returns the error class "budget".
func (e *BufferError) Class() string { return "budget" }

// frames returns how many frames a buffer of that many bytes has, 0 where none
// are given and the plan is not the published one.
func (p *plan) frames(argument string, given, frame, blocks, least int64) (int64, error) {
	switch {
	case given > 0 && given < frame:
		return 0, &BufferError{argument, given, frame}
	case given > 0:
		return min(given/frame, blocks), nil
	case p.published:
		return min(max(p.total/publishedShare/frame, least), blocks), nil
	}
	return 0, nil
}

// planFor decides an engine's plan under a budget of that many bytes.
func (e *Engine) planFor(total int64) (plan, error) {
	p := plan{published: e.Published, total: total, nodes: e.manifest.NumNodes, graphBlocks: max(int64(e.Index.Blocks()), 1), graphFrame: e.graphFrameBytes(), columns: e.columnBytes() * int64(e.Threads), stride: e.stride, rows: e.stride > 0, depth: int64(e.Store.Pool().Depth())}
	// 512 KiB of row records, less where the budget is small.
	p.chunkRows = max(1, (min(512<<10, max(32<<10, total/512/layout.PageSize*layout.PageSize))-storage.SealBytes)/max(e.stride, 1))
	p.chunkBytes = p.chunk(p.chunkRows)
	// As many as fill the device's queue and an eighth more, which are copied or wait
	// for it meanwhile, where a seventh of the budget holds them: a device of long
	// latency is kept busy by the number of reads alone.
	p.ringChunks = max(leastChunks, min(p.depth+p.depth/8, total/7/p.chunkBytes))
	// 256 KiB, less where the budget is small, but what a row record, a seal and the
	// bytes carried from the page before it need.
	p.writeBytes = max(min(256<<10, max(32<<10, total/1024/layout.PageSize*layout.PageSize)), roundUp(e.stride+storage.SealBytes, layout.PageSize)+layout.PageSize)
	var err error
	if p.rows {
		p.featureBlocks = max(e.primary().section.Blocks(e.manifest.Settings.BlockSize), 1)
		p.featureFrame, p.areas = e.featureFrame()
		p.blockReads = int64(len(e.columns))
		p.counts = max(p.nodes, 1)
		p.index, _ = memory.FeatureCacheBytes(p.nodes, 0, p.stride)
		if p.featureFrames, err = p.frames("feature_buffer", e.FeatureBuffer, p.featureFrame, p.featureBlocks, leastFeatureFrames); err != nil {
			return p, err
		}
	}
	if !p.rows && e.FeatureBuffer > 0 {
		return p, ErrNoRows
	}
	p.graphFrames, err = p.frames("graph_buffer", e.GraphBuffer, p.graphFrame, p.graphBlocks, leastGraphFrames)
	return p, err
}

// chunk returns the bytes in scratch of a chunk of so many rows.
func (p *plan) chunk(rows int64) int64 {
	return roundUp(rows*p.stride+storage.SealBytes, layout.PageSize)
}

// run returns the bytes in scratch of a run of so many rows.
func (p *plan) run(rows int64) int64 {
	n := rows / p.chunkRows * p.chunkBytes
	if rest := rows % p.chunkRows; rest > 0 {
		n += p.chunk(rest)
	}
	return n
}

// featureFrame returns the bytes of a frame of the feature buffer, and where
// in it each column's pages begin: the pages that hold the rows of one block.
func (e *Engine) featureFrame() (size int64, areas []int64) {
	p := e.primary()
	bs := e.manifest.Settings.BlockSize
	rows := min(bs/p.stride+1, max(e.manifest.NumNodes, 1))
	for _, c := range e.columns {
		areas = append(areas, size)
		size += roundUp(rows*c.stride, layout.PageSize) + layout.PageSize
	}
	return size, areas
}

// leastFrames returns the frames of the graph buffer and the feature buffer that
// the steps make do with.
func (p *plan) leastFrames() (graph, feature int64) {
	graph, feature = p.graphFrames, p.featureFrames
	if graph == 0 {
		graph = min(p.graphBlocks, leastGraphFrames)
	}
	if feature == 0 {
		feature = min(p.featureBlocks, leastFeatureFrames)
	}
	return graph, feature
}

// residentBytes returns what of the free memory holds the records of so many
// minibatches, 0 where they go to scratch; spare is what no step needs.
func (p *plan) residentBytes(free, spare int64, each estimate, count int) int64 {
	if want := each.record * int64(count) * 5 / 4; want <= free/8 && want <= spare {
		return max(want, 4096)
	}
	return 0
}

// graphBytes returns the size of the graph buffer, and whether it is kept from
// hyperbatch to hyperbatch. All blocks get a frame where they take at most
// three quarters of what is free; otherwise a quarter is for reading ahead,
// since a sweep that does not fit has no use for old blocks. window is left free.
// A buffer of all blocks is kept where it is small and spare, what no step needs,
// has room for it.
func (p *plan) graphBytes(free, window, spare int64) (size int64, keep bool) {
	all := p.graphBlocks * p.graphFrame
	size = all
	least, _ := p.leastFrames()
	if p.graphFrames > 0 {
		size = p.graphFrames * p.graphFrame
	} else if all > min(free/4*3, free-window) {
		size = min(max(min(free/4, free-window)/p.graphFrame, least)*p.graphFrame, all)
	}
	return size, p.published || size == all && all <= p.total/keptShare && all <= spare
}

// seedBytes returns the memory for the seeds of a hyperbatch, 0 where every window
// looks up its own; window is left free.
func (p *plan) seedBytes(free, window, seeds int64) int64 {
	if 4*seeds > min(free/seedsShare, free-window) {
		return 0
	}
	return 4 * seeds
}

// windowBytes returns the memory of the sampling window, and for how many
// minibatches together it is expected to do.
func (p *plan) windowBytes(free, least int64, each estimate, count int) (size int64, fit int) {
	size = min(free, max(least, roundUp((each.fixed+each.window*int64(count))*3/2+8<<20, layout.PageSize)))
	return size, min(count, each.fit(size))
}

// sampling is the division of what is free for sampling a hyperbatch.
type sampling struct {
	counts, resident, graph, columns, seeds, window int64

	keep bool // a graph buffer of this size is kept
	fit  int  // minibatches that a window is expected to do for
}

// total returns the memory of all that is claimed to sample.
func (s *sampling) total() int64 {
	return s.counts + s.resident + s.graph + s.columns + s.seeds + s.window
}

// sampling divides what is free for sampling that many minibatches, of so many seeds
// in all, in windows of at least so many bytes; spare is what no step needs. held
// tells that the graph buffer is there already.
func (p *plan) sampling(free, spare, least int64, each estimate, count int, seeds int64, held bool) (s sampling) {
	left := func() int64 { return max(free-s.total(), 0) }
	if p.rows {
		s.counts = p.counts
	}
	s.resident = p.residentBytes(left(), spare, each, count)
	if !held {
		s.graph, s.keep = p.graphBytes(left(), p.columns+least, spare-s.resident)
	}
	s.columns = p.columns
	s.seeds = p.seedBytes(left(), least, seeds)
	s.window, s.fit = p.windowBytes(left(), least, each, count)
	return s
}

// ahead fits a division for sampling a hyperbatch alone into the room beside the
// delivery of the one before, and reports whether it may be sampled there: with the
// same division, so that the same is read; or, where the graph is in memory, which held
// tells, or gets a frame for every block, with a window for at least a few minibatches.
func (p *plan) ahead(s sampling, room, least int64, each estimate, count int, held bool) (sampling, bool) {
	if s.total() <= room {
		return s, true
	}
	s.window -= s.total() - room
	s.fit = min(count, each.fit(s.window))
	few := max(least, each.fixed+int64(min(count, windowOf))*(each.window+each.window/16))
	return s, s.window >= few && (held || s.graph >= p.graphBlocks*p.graphFrame)
}

// keepsRows reports whether all rows of the store are small beside the budget:
// then the feature cache holds all of them and is kept from hyperbatch to
// hyperbatch whatever else there is to do with the memory.
func (p *plan) keepsRows() bool {
	index, data := memory.FeatureCacheBytes(p.nodes, p.nodes, p.stride)
	return !p.published && index+data <= p.total/keptShare
}

// drawn is what gathering needs to know of a hyperbatch's minibatches.
type drawn struct {
	count   int
	longest int64 // most nodes of a minibatch
	nodes   int64 // of all minibatches
	body    int64 // longest record in scratch
	held    int64 // batches in flight, and what it takes to use one
	next    int64 // sampling another hyperbatch, beside what is claimed
}

// sortBytes returns the memory for sorting the cold rows of the largest
// minibatch.
func (d drawn) sortBytes() int64 { return scratchBytes(d.longest) }

// records returns how many records in scratch delivery reads ahead: two, and more
// where they are small beside what is free, since a record that takes less to use
// than the device to answer leaves it waiting.
func (p *plan) records(free int64, d drawn) int64 {
	return max(leastRecords, min(int64(d.count), p.depth/4, free/recordsShare/max(d.body, 1)))
}

// deliveryBytes returns what delivery takes beside the cache and the slabs,
// before it is known whether there are cold rows.
func (p *plan) deliveryBytes(d drawn, records int64) int64 {
	return records*d.body + p.ringChunks*p.chunkBytes + 16*d.longest + 3*layout.PageSize
}

// gathering is the division of what is free among gathering and delivery.
type gathering struct {
	frames  int64 // of the feature buffer, by number
	buffers int64 // write buffers, by number
	lists   int64 // cold rows of all minibatches
	records int64 // records in scratch that are read ahead by delivery, by number
	room    int64 // rows of the feature cache
	keep    bool  // there is room to keep every row in the cache
}

// listBytes returns the least memory for lists of cold rows: those of the largest
// minibatch, and a page of each.
func (p *plan) listBytes(d drawn) int64 { return 4*d.longest + int64(d.count)*layout.PageSize }

// gathering divides what is free; spare is what no step needs.
func (p *plan) gathering(free, spareRows int64, d drawn) gathering {
	g := gathering{
		frames:  min(p.featureBlocks, 2*sweepBlocks, max(leastFeatureFrames, free/8/p.featureFrame)),
		buffers: max(leastWriteBuffers, min(mostWriteBuffers, free/16/p.writeBytes)),
		lists:   max(free/8, 4*d.longest),
		records: p.records(free, d),
	}
	buffer := int64(0)
	if p.featureFrames > 0 {
		g.frames = p.featureFrames
	}
	if !p.published { // else it is held already
		buffer = g.frames * p.featureFrame
	}
	stepBytes := func() int64 {
		return p.index + buffer + g.buffers*p.writeBytes + int64(d.count)*layout.PageSize + g.lists + d.sortBytes()
	}
	if stepBytes() > free { // shares of what is free, and what is needed at least, come to more
		_, least := p.leastFrames()
		g.buffers, g.lists = leastWriteBuffers, 4*d.longest
		if !p.published {
			g.frames = least
			buffer = least * p.featureFrame
		}
	}
	step := stepBytes()
	if free < p.index+d.held+p.deliveryBytes(d, g.records) {
		g.records = leastRecords
	}
	g.room = max(0, min(free-step, free-p.index-d.held-p.deliveryBytes(d, g.records)))
	all := p.nodes * p.stride
	g.keep = !p.published && g.room >= all && p.index+all <= spareRows && (p.keepsRows() || free-p.index-all >= d.next)
	if p.published {
		return g
	}
	// What delivery takes lies idle until then: more lists make fewer sweeps, more
	// frames keep more reads in flight.
	spare := max(0, free-step-g.room)
	take := func(want, share int64) int64 {
		n := max(0, min(want, share))
		spare -= n
		return n
	}
	g.lists += take(4*d.nodes-g.lists, spare/2)
	if p.featureFrames == 0 {
		most := min(p.featureBlocks, max(2*sweepBlocks, p.depth/p.blockReads+sweepBlocks))
		g.frames += take((most-g.frames)*p.featureFrame, spare/p.featureFrame*p.featureFrame) / p.featureFrame
	}
	return g
}
