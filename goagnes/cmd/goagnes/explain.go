// goagnes explain: print a loader's plan, and after a run what it came to.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"

	"github.com/goagnes/goagnes/goagnes"
)

var explainCommand = command{
	name:      "explain",
	positions: []string{"STORE"},
	summary:   "print how a loader would prepare an epoch: windows, buffers, cache, spills, bytes",
	prepare: func(set *flag.FlagSet) func(context.Context, invocation) (*result, error) {
		open := openFlags(set)
		o := &goagnes.LoaderOptions{ReleasesFirst: true}
		loaderFlags(set, o)
		split := set.String("input-nodes", "", "`split` whose nodes are the seeds, default all nodes")
		most := set.Int("max-batches", 0, "prepare `n` minibatches first and print what they took beside the estimates, default none")
		return func(ctx context.Context, call invocation) (*result, error) {
			if *most < 0 {
				return nil, usagef("explain: --max-batches must not be negative")
			}
			o.InputNodes.Split = *split
			plan, err := explain(ctx, call, *open, *o, *most)
			if err != nil {
				return nil, err
			}
			return &result{document: plan, text: func(w io.Writer) { fmt.Fprint(w, plan) }}, nil
		}
	},
}

func explain(ctx context.Context, call invocation, open goagnes.OpenOptions, o goagnes.LoaderOptions, most int) (plan goagnes.Explanation, err error) {
	store, err := openStore(call, open)
	if err != nil {
		return plan, err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	loader, err := goagnes.NewLoader(store, o)
	if err != nil {
		return plan, err
	}
	defer func() { err = errors.Join(err, loader.Close()) }()
	if most > 0 {
		if err := loader.Start(ctx); err != nil {
			return plan, err
		}
		for n := range min(most, loader.Len()) {
			batch, err := loader.Next(ctx)
			if err != nil {
				return plan, err
			}
			batch.Release()
			call.progress("prepare", int64(n+1), int64(most))
		}
		loader.Stop()
	}
	return loader.Explain(), nil
}
