package operation

import (
	"math/bits"
	"sync/atomic"
	"unsafe"

	"github.com/goagnes/goagnes/goagnes/memory"
	"github.com/goagnes/goagnes/layout"
)

// bound counts the distinct pages that an epoch's minibatches need, whatever
// the plan that reads them: pages that hold a drawn slot of an adjacency list,
// and pages that hold a needed row of the features. Times the page size this
// is LB, the least number of bytes that any plan must read once.
type bound struct {
	graph pageSet
	rows  pageSet // of the widest column
	mem   *claim
}

// pageSet is a set of page numbers; marking is safe from any goroutine.
type pageSet []uint64

func (s pageSet) mark(page int64) {
	p, m := &s[page>>6], uint64(1)<<(page&63)
	if atomic.LoadUint64(p)&m == 0 {
		atomic.OrUint64(p, m)
	}
}

func (s pageSet) count() int64 {
	n := 0
	for _, w := range s {
		n += bits.OnesCount64(w)
	}
	return int64(n)
}

// boundWords returns the words of the two sets of pages.
func (e *Engine) boundWords() (graph, rows int64) {
	words := func(pages int64) int64 { return pages/64 + 1 }
	graph, rows = words(layout.Pages(e.graph.Bytes)), 1
	if e.stride > 0 {
		rows = words(layout.Pages(e.primary().section.Bytes))
	}
	return graph, rows
}

// boundBytes returns the memory of a page trace.
func (e *Engine) boundBytes() int64 {
	g, r := e.boundWords()
	return 8 * (g + r)
}

func (e *Engine) newBound() (*bound, error) {
	g, r := e.boundWords()
	c, err := e.claim("page trace", 8*(g+r))
	if err != nil {
		return nil, err
	}
	all := unsafe.Slice((*uint64)(unsafe.Pointer(unsafe.SliceData(c.mem))), g+r)
	return &bound{graph: all[:g], rows: all[g:], mem: c}, nil
}

// needRows marks the pages of every counted row.
func (b *bound) needRows(e *Engine, counter *memory.AccessCounter) {
	stride := e.primary().stride
	for v := range e.manifest.NumNodes {
		if counter.Count(uint64(v)) == 0 {
			continue
		}
		for p := v * stride / layout.PageSize; p <= (v*stride+stride-1)/layout.PageSize; p++ {
			b.rows.mark(p)
		}
	}
}

// bytes returns LB of what was marked.
func (b *bound) bytes() int64 { return (b.graph.count() + b.rows.count()) * layout.PageSize }
