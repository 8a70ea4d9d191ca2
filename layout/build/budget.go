package build

// What a build needs at least, and the budget to advise.

import (
	"github.com/goagnes/goagnes/layout"
	"github.com/goagnes/goagnes/layout/build/adjacency"
	"github.com/goagnes/goagnes/layout/build/ledger"
)

// workMemory is what the phases need beside tables of nodes: four sections being
// written, blocks being encoded, and a small share of edges.
func (b *builder) workMemory() int64 {
	return 4*(2*int64(b.o.writeBuffer())+4*layout.PageSize) + adjacency.EncoderMemory(b.o.BlockSize, b.o.level, b.o.writeBuffer()) + 4<<20
}

// enough returns the budget in which need bytes beyond what is taken now find room:
// write buffers grow with the budget, 8 of them by 1/128 each.
func (b *builder) enough(need int64) int64 {
	n := b.Mem.Total + max(need-b.Mem.Free(), 0)*16/15 + 64<<10
	if b.keeps {
		n += n / 7 // the eighth in which edges are kept
	}
	return n
}

// roomToWork refuses a budget that leaves too little for workMemory.
func (b *builder) roomToWork() error {
	if need := b.workMemory(); need > b.Mem.Free() {
		return &ledger.BudgetError{Consumer: "buffers of the build", Need: b.enough(need) - b.Mem.Used, Free: b.Mem.Free(), Total: b.Mem.Total}
	}
	return nil
}

// writeBuffer is the size of a section's write buffers.
func (o *Options) writeBuffer() int {
	return int(min(max(o.Memory/128, 64<<10), 4<<20) &^ (layout.PageSize - 1))
}
