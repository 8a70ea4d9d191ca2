// goagnes export: prepared minibatches as a folder of .npy files.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"

	"github.com/goagnes/goagnes/goagnes"
)

var exportCommand = command{
	name:      "export",
	positions: []string{"STORE", "OUT"},
	summary:   "write prepared minibatches to a folder of .npy files; given again, go on with an unfinished one",
	prepare: func(set *flag.FlagSet) func(context.Context, invocation) (*result, error) {
		open := openFlags(set)
		o := &goagnes.ExportOptions{}
		loaderFlags(set, &o.LoaderOptions)
		split := set.String("input-nodes", "", "`split` whose nodes are the seeds, default all nodes")
		first := set.Uint64("first-epoch", 0, "number `n` of the first epoch")
		o.Epochs = 1
		set.Var(countValue{&o.Epochs}, "epochs", "epochs `n` to export")
		set.IntVar(&o.MaxBatches, "max-batches", 0, "end each epoch after `n` minibatches, default none")
		set.BoolVar(&o.Overwrite, "overwrite", false, "replace an export in OUT, finished or not")
		return func(ctx context.Context, call invocation) (res *result, err error) {
			if o.Epochs < 1 || o.MaxBatches < 0 || *first > math.MaxUint32 {
				return nil, usagef("export: --epochs must be at least 1, --max-batches not negative and --first-epoch below 2^32")
			}
			o.InputNodes.Split, o.FirstEpoch, o.Progress = *split, uint32(*first), call.progress
			store, err := openStore(call, *open)
			if err != nil {
				return nil, err
			}
			defer func() { err = errors.Join(err, store.Close()) }()
			report, err := goagnes.Export(ctx, store, call.args[1], *o)
			if err != nil {
				return nil, err
			}
			warnPageCache(call, report.Loader.IO.FallbackFile)
			return &result{document: report, text: func(w io.Writer) {
				t := report.Totals
				printRows(w, [][2]string{
					{"written to", report.Path},
					{"minibatches", fmt.Sprintf("%d, of which %d were there already", t.Minibatches, report.Resumed)},
					{"holding", fmt.Sprintf("%d seeds, %d nodes, %d edges", t.Seeds, t.Nodes, t.Edges)},
					{"size", formatSize(t.Bytes)},
					{"seed", fmt.Sprint(report.Index.Settings.Seed)},
				})
			}}, nil
		}
	},
}
