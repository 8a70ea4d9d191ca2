// goagnes generate: make a store of a synthetic graph.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"

	"github.com/goagnes/goagnes/goagnes"
)

var generateCommand = command{
	name:      "generate",
	positions: []string{"[STORE]"},
	summary:   "make a store of a synthetic graph: rmat (hubs) or community (planted classes)",
	prepare: func(set *flag.FlagSet) func(context.Context, invocation) (*result, error) {
		o := &goagnes.GenerateOptions{}
		set.StringVar(&o.Kind, "kind", "community", "`name` of the kind: rmat or community")
		set.Int64Var(&o.NumNodes, "num-nodes", 0, "nodes `n`")
		set.Float64Var(&o.AvgDegree, "avg-degree", 16, "edges a node, on the average `d`")
		set.Int64Var(&o.NumFeatures, "num-features", 64, "features `n` a node")
		set.Int64Var(&o.NumClasses, "num-classes", 16, "classes `n`")
		set.StringVar(&o.FeatureDType, "feature-dtype", "float32", "`name`: float32 or float16")
		set.Uint64Var(&o.Seed, "seed", 0, "seed `n` that selects the graph")
		set.StringVar(&o.Raw, "raw", "", "`folder` for edge_index.npy, x.npy, y.npy and split_NAME.npy, as build reads them, instead of a store")
		storeFlags(set, &o.Order, &o.BlockSize, &o.Compression, &o.Stripes, &o.Overwrite)
		set.Var(sizeValue{&o.Memory}, "memory", "bound `size` of all memory, default 2GiB")
		set.Var(countValue{&o.NumThreads}, "num-threads", "worker threads `n`, default 2")
		set.StringVar(&o.Scratch, "scratch", "", "`folder` for what does not fit in memory, default beside the store")
		set.Var(sizeValue{&o.ScratchLimit}, "scratch-limit", "bound `size` of scratch files, default half the free space")
		ioFlag(set, &o.IO)
		return func(ctx context.Context, call invocation) (*result, error) {
			if !given(set, "num-nodes") {
				return nil, usagef("generate: --num-nodes is missing")
			}
			if o.NumNodes < 1 {
				return nil, usagef("generate: --num-nodes %d: a graph has at least 1 node", o.NumNodes)
			}
			o.Progress = call.progress
			if o.Raw == "" {
				if len(call.args) == 0 {
					return nil, usagef("generate: STORE or --raw is missing (see goagnes help generate)")
				}
				return buildResult(goagnes.Generate(ctx, call.args[0], *o))
			}
			if len(call.args) > 0 {
				return nil, usagef("generate: either STORE or --raw, not both")
			}
			if _, err := goagnes.Generate(ctx, "", *o); err != nil {
				return nil, err
			}
			report := map[string]any{"raw": o.Raw, "num_nodes": o.NumNodes}
			return &result{document: report, text: func(w io.Writer) { fmt.Fprintln(w, "written", o.Raw) }}, nil
		}
	},
}
