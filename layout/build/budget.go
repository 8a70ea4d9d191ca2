package build

// What a build needs at least, and the budget to advise.

import (
	"github.com/goagnes/goagnes/layout"
	"github.com/goagnes/goagnes/layout/build/adjacency"
	"github.com/goagnes/goagnes/layout/build/ledger"
)

// workMemory is what the phases need beside tables of nodes: four sections being
// written, blocks being encoded, and a small share of edges.
func (b *builder) workMemory() int64 { return b.o.workMemory(b.o.Memory) }

// workMemory is that of a build within so much memory.
func (o *Options) workMemory(memory int64) int64 {
	buffer := writeBuffer(memory)
	return 4*(2*int64(buffer)+4*layout.PageSize) + adjacency.EncoderMemory(o.BlockSize, o.level, buffer) + 4<<20
}

// refuse refuses a budget without room for what every build needs, and names the
// least that has: write buffers grow with the budget, slower than it.
func (o *Options) refuse() error {
	need := func(memory int64) int64 { return baseMemory + o.workMemory(memory) }
	least := need(o.Memory)
	if least <= o.Memory {
		return nil
	}
	for n := need(least); n > least; n = need(least) {
		least = n
	}
	return &ledger.BudgetError{Consumer: "the build", Need: least, Free: o.Memory, Total: o.Memory}
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

// writeBuffer is the size of a section's write buffers.
func (o *Options) writeBuffer() int { return writeBuffer(o.Memory) }

func writeBuffer(memory int64) int {
	return int(min(max(memory/128, 64<<10), 4<<20) &^ (layout.PageSize - 1))
}
