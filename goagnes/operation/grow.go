package operation

// How an epoch is divided into hyperbatches: all of one size, or, where that
// costs little, the first ones smaller, so that the first minibatches come early.

import "github.com/goagnes/goagnes/goagnes/memory"

const (
	firstHyperbatch = 8 // minibatches of the first hyperbatch of an epoch that grows
	growth          = 4 // by which each is larger than the one before

	// growShare is the part of an epoch's reads and writes, one in so many, by which
	// the sweeps of the first hyperbatches may add to them.
	growShare = 16
)

// hyperbatches returns how many there are of n minibatches.
func (e *Engine) hyperbatchesOf(n int64, grow bool) int64 {
	count := int64(0)
	for size := e.firstSize(grow); n > 0 && size < e.Hyperbatch; size = e.sizeAfter(size) {
		n -= int64(size)
		count++
	}
	if n <= 0 {
		return count
	}
	return count + (n+int64(e.Hyperbatch)-1)/int64(e.Hyperbatch)
}

// firstSize returns the size of an epoch's first hyperbatch.
func (e *Engine) firstSize(grow bool) int {
	if grow {
		return min(firstHyperbatch, e.Hyperbatch)
	}
	return e.Hyperbatch
}

// sizeAfter returns the size of the hyperbatch after one of that size.
func (e *Engine) sizeAfter(size int) int { return min(size*growth, e.Hyperbatch) }

// grows decides whether the hyperbatches of n minibatches grow, under a plan and
// its estimates for hyperbatches of one size, of which the graph or the rows are in
// memory already or will be after the first.
func (e *Engine) grows(n int64, x *Explanation, graph, rows bool) bool {
	if !e.Grow || e.plan.published || n <= firstHyperbatch || e.Hyperbatch <= firstHyperbatch {
		return false
	}
	r := e.least.record()
	if e.keeps < memory.SlabBytes(e.slabBytes(&r)) { // which the consumer may hold while more are sampled
		return false
	}
	each := int64(0) // read by a hyperbatch, however small
	if !graph {
		each += int64(len(e.Fanouts)) * e.plan.graphBlocks * e.plan.graphFrame
	}
	if !rows {
		each += e.plan.featureBlocks * e.plan.featureFrame
	}
	// Before anything was measured, what is spilled is not known, and left out.
	moved := each * e.hyperbatchesOf(n, false)
	if x.Prepared > 0 {
		moved = 0
		for _, p := range x.Phases {
			moved += p.ActualRead + p.ActualWritten
		}
	}
	more := e.hyperbatchesOf(n, true) - e.hyperbatchesOf(n, false)
	return each == 0 || more <= moved/growShare/each
}
