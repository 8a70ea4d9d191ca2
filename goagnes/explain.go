package goagnes

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/goagnes/goagnes/goagnes/operation"
)

// Explanation is a loader's plan: how it reads, how it divides the memory, what
// an epoch is expected to move and, once minibatches were prepared, what it moved.
type Explanation struct {
	Mode        string `json:"mode"`
	BudgetBytes int64  `json:"budget"` // bytes: the loader's share, or the store's
	operation.Explanation
}

// Explain returns the loader's plan. Nothing is read for it.
func (l *Loader) Explain() Explanation {
	return Explanation{Mode: cmp.Or(l.o.Mode, "agnes"), BudgetBytes: l.engine.Budget.Total(), Explanation: l.engine.Explain()}
}

// String returns the plan for people, a line each.
func (x Explanation) String() string {
	var rows [][2]string
	add := func(name, format string, args ...any) {
		rows = append(rows, [2]string{name, fmt.Sprintf(format, args...)})
	}
	choose := func(b bool, yes, no string) string {
		if b {
			return yes
		}
		return no
	}
	count := func(n int64, one, many string) string { return fmt.Sprintf("%d %s", n, choose(n == 1, one, many)) }
	add("mode", "%s, blocks of %s; of hubs %s", x.Mode, mib(x.BlockSize), choose(x.WholeBlocks, "every block", "the pages with drawn neighbours alone"))
	add("epoch", "%s of about %s and %s, in %s of at most %d%s", count(x.Minibatches, "minibatch", "minibatches"), count(x.Nodes, "node", "nodes"),
		count(x.Edges, "edge", "edges"), count(x.Hyperbatches, "hyperbatch", "hyperbatches"), x.Hyperbatch,
		choose(x.First > 0 && x.First < x.Hyperbatch, fmt.Sprintf(", the first of %d, growing", x.First), ""))
	add("sampling", "%s a hyperbatch%s; %s for %s%s; samples %s", count(x.Windows, "window", "windows"), choose(x.SamplesAhead, ", while the one before is delivered", ""), count(x.GraphFrames, "frame", "frames"), count(x.GraphBlocks, "graph block", "graph blocks"),
		choose(x.KeepsGraph, ", kept", ""), choose(x.SpillsSamples, "go to scratch", "stay in memory"))
	if x.FeatureBlocks > 0 {
		add("gathering", "%s a hyperbatch; %s for %s; %s cached%s; %s", count(x.FeatureSweeps, "sweep", "sweeps"), count(x.FeatureFrames, "frame", "frames"),
			count(x.FeatureBlocks, "feature block", "feature blocks"), count(x.CacheRows, "row", "rows"), choose(x.KeepsRows, ", kept", ""), choose(x.SpillsRows, "the others go to scratch", "none goes to scratch"))
	}
	add("memory", "%s", mib(x.BudgetBytes))
	shares := slices.Clone(x.Memory)
	slices.SortStableFunc(shares, func(a, b operation.Share) int { return cmp.Compare(b.Bytes, a.Bytes) })
	for _, s := range shares {
		add("  "+s.Name, "%s, %s", mib(s.Bytes), enumerated(strings.Split(s.While, "+")))
	}
	for _, p := range x.Phases {
		text := fmt.Sprintf("%s read, %s written", mib(p.Read), mib(p.Written))
		if x.Prepared > 0 {
			text += fmt.Sprintf("; measured %s read, %s written", mib(p.ActualRead), mib(p.ActualWritten))
		}
		add(p.Name, "%s", text)
	}
	add("measured", "%s", choose(x.Prepared > 0, fmt.Sprintf("over %s, scaled to an epoch", count(x.Prepared, "minibatch", "minibatches")), "nothing yet: estimates take every node to be equally likely"))
	width := 0
	for _, r := range rows {
		width = max(width, len(r[0]))
	}
	var b strings.Builder
	for _, r := range rows {
		fmt.Fprintf(&b, "%-*s  %s\n", width, r[0], r[1])
	}
	return b.String()
}

// enumerated joins words as a sentence does.
func enumerated(words []string) string {
	last := len(words) - 1
	if last == 0 {
		return words[0]
	}
	return strings.Join(words[:last], ", ") + " and " + words[last]
}

func mib(n int64) string {
	if n < 1<<20 {
		return fmt.Sprintf("%.4g KiB", float64(n)/(1<<10))
	}
	return fmt.Sprintf("%.4g MiB", float64(n)/(1<<20))
}
