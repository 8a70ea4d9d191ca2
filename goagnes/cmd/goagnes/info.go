// goagnes info: what a store says about itself.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"sort"
	"strings"

	"github.com/goagnes/goagnes/goagnes"
)

var infoCommand = command{
	name:      "info",
	positions: []string{"STORE"},
	summary:   "print what a store holds: counts, splits, sizes, node order, build id",
	prepare: func(set *flag.FlagSet) func(context.Context, invocation) (*result, error) {
		o := &goagnes.OpenOptions{}
		ioFlag(set, &o.IO)
		stripesFlag(set, &o.Stripes)
		return func(_ context.Context, call invocation) (*result, error) {
			store, err := openStore(call, *o)
			if err != nil {
				return nil, err
			}
			info := store.Info()
			if err := store.Close(); err != nil {
				return nil, err
			}
			return &result{document: info, text: func(w io.Writer) { printInfo(w, info) }}, nil
		}
	},
}

func printInfo(w io.Writer, info goagnes.Info) {
	rows := [][2]string{
		{"store", info.Path},
		{"nodes", fmt.Sprint(info.NumNodes)},
		{"edges", fmt.Sprint(info.NumEdges)},
	}
	if info.FeatureDType != "" {
		rows = append(rows, [2]string{"features", fmt.Sprintf("%d %s", info.NumFeatures, info.FeatureDType)})
	}
	if info.LabelDType != "" {
		rows = append(rows, [2]string{"classes", fmt.Sprintf("%d (labels %s)", info.NumClasses, info.LabelDType)})
	}
	if len(info.Splits) > 0 {
		rows = append(rows, [2]string{"splits", counts(info.Splits)})
	}
	if len(info.Stripes) > 0 {
		rows = append(rows, [2]string{"stripes", strings.Join(info.Stripes, ", ")})
	}
	var record struct{ Source, Format string }
	if err := json.Unmarshal(info.Source, &record); err == nil && record.Source != "" {
		rows = append(rows, [2]string{"source", strings.TrimSpace(record.Source + "  " + record.Format)})
	}
	if info.Compression != "" {
		rows = append(rows, [2]string{"compression", info.Compression})
	}
	rows = append(rows,
		[2]string{"order", info.Order},
		[2]string{"ids", info.IDs},
		[2]string{"block size", formatSize(info.BlockSize)},
		[2]string{"graph blocks", fmt.Sprint(info.GraphBlocks)},
		[2]string{"bytes", formatSize(info.Bytes)},
		[2]string{"format", fmt.Sprintf("version %d", info.FormatVersion)},
		[2]string{"build id", info.BuildID},
	)
	printRows(w, rows)
}

// printRows prints names and values in two columns.
func printRows(w io.Writer, rows [][2]string) {
	width := 0
	for _, row := range rows {
		width = max(width, len(row[0]))
	}
	for _, row := range rows {
		fmt.Fprintf(w, "%-*s  %s\n", width, row[0], row[1])
	}
}

// counts writes name counts in the order of their names.
func counts(byName map[string]int64) string {
	names := make([]string, 0, len(byName))
	for name := range byName {
		names = append(names, name)
	}
	sort.Strings(names)
	for i, name := range names {
		names[i] = fmt.Sprintf("%s %d", name, byName[name])
	}
	return strings.Join(names, ", ")
}
