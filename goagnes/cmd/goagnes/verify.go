// goagnes verify: read every byte of a store and list what is wrong with it.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"

	"github.com/goagnes/goagnes/goagnes"
)

var verifyCommand = command{
	name:      "verify",
	positions: []string{"STORE"},
	summary:   "read every byte of a store and list each flipped bit, truncation and misplaced block",
	prepare: func(set *flag.FlagSet) func(context.Context, invocation) (*result, error) {
		o := &goagnes.VerifyOptions{}
		set.Var(sizeValue{&o.Memory}, "memory", "bound `size` of all memory")
		ioFlag(set, &o.IO)
		stripesFlag(set, &o.Stripes)
		return func(ctx context.Context, call invocation) (*result, error) {
			o.Progress = call.progress
			report, err := goagnes.Verify(ctx, call.args[0], *o)
			if err != nil {
				return nil, err
			}
			res := &result{document: report, text: func(w io.Writer) { printVerify(w, report) }}
			if len(report.Findings) > 0 {
				res.status = exitRefused
			}
			return res, nil
		}
	},
}

func printVerify(w io.Writer, report *goagnes.VerifyReport) {
	for _, f := range report.Findings {
		fmt.Fprint(w, f.File)
		if f.Block >= 0 {
			fmt.Fprintf(w, " block %d", f.Block)
		}
		if f.Offset >= 0 {
			fmt.Fprintf(w, " byte %d", f.Offset)
		}
		fmt.Fprintf(w, ": %s\n", f.Message)
	}
	if report.Omitted > 0 {
		fmt.Fprintf(w, "and %d more\n", report.Omitted)
	}
	if len(report.Findings) == 0 {
		fmt.Fprintf(w, "no damage: %d pages, %s\n", report.Pages, formatSize(report.Bytes))
	}
}
