// goagnes build, import: make a store from files or from a published data set.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"strings"

	"github.com/goagnes/goagnes/goagnes"
)

// inputValue is a flag holding a file to read.
type inputValue struct{ input *goagnes.Input }

func (v inputValue) Set(text string) error {
	if text == "" {
		return fmt.Errorf("the file name is empty")
	}
	v.input.File = text
	return nil
}

func (v inputValue) String() string {
	if v.input == nil {
		return ""
	}
	return v.input.File
}

// splitValue is a flag holding a split's file, or how to draw splits.
type splitValue struct {
	namesValue
	draw *string
}

func (v splitValue) Set(text string) error {
	if strings.HasPrefix(text, "per-class") {
		*v.draw = text
		return nil
	}
	return v.namesValue.Set(text)
}

var buildCommand = command{
	name:      "build",
	positions: []string{"STORE"},
	summary:   "make a store from files: edges, features, labels, splits",
	prepare: func(set *flag.FlagSet) func(context.Context, invocation) (*result, error) {
		o := &goagnes.BuildOptions{}
		splits := buildFlags(set, o)
		return func(ctx context.Context, call invocation) (*result, error) {
			o.Splits, o.Progress = inputs(splits), call.progress
			if o.EdgeIndex.File == "" {
				return nil, usagef("build: --edge-index is missing")
			}
			return buildResult(goagnes.Build(ctx, call.args[0], *o))
		}
	},
}

var importCommand = command{
	name:      "import",
	positions: []string{"STORE", "SOURCE"},
	summary:   "make a store from a data set in its published form",
	prepare: func(set *flag.FlagSet) func(context.Context, invocation) (*result, error) {
		o := &goagnes.BuildOptions{}
		splits := buildFlags(set, o)
		set.StringVar(&o.Format, "format", "auto", "`name` of the format: auto, "+strings.Join(goagnes.Formats(), ", "))
		set.IntVar(&o.SplitIndex, "split-index", 0, "which split `n` of a source that has several, from 0 (heterophilous: 0 to 9)")
		return func(ctx context.Context, call invocation) (*result, error) {
			o.Splits, o.Progress = inputs(splits), call.progress
			return buildResult(goagnes.Import(ctx, call.args[0], call.args[1], *o))
		}
	},
}

// buildFlags declares what build and import share; it returns the splits' files.
func buildFlags(set *flag.FlagSet, o *goagnes.BuildOptions) map[string]string {
	splits := map[string]string{}
	set.Var(inputValue{&o.EdgeIndex}, "edge-index", "`file` of edges: .npy of shape (2, E) or (E, 2), or text, csv, Matrix Market, scipy .npz (docs/import.md)")
	set.Var(inputValue{&o.X}, "x", "`file` of features, .npy, one row a node")
	set.Var(inputValue{&o.Y}, "y", "`file` of labels, .npy; below 0 or NaN: unlabelled")
	set.Var(splitValue{namesValue{splits}, &o.Split}, "split", "`NAME=FILE` of node ids or a mask, .npy, once for each split; or per-class:TRAIN,VAL to draw splits: so many nodes of each class, the rest for test")
	set.Uint64Var(&o.SplitSeed, "split-seed", 0, "seed `n` of --split per-class")
	set.Int64Var(&o.NumNodes, "num-nodes", 0, "nodes `n`, default rows of x, else the largest id + 1")
	set.StringVar(&o.IDs, "ids", "auto", "`name`: dense, rank (sparse ids are ranked), or auto")
	set.BoolVar(&o.Undirected, "undirected", false, "add the reverse of every edge but self-loops; edge i's has the edge id E + i")
	set.StringVar(&o.SelfLoops, "self-loops", "keep", "`name`: keep, drop, or add (one for every node that has none)")
	set.StringVar(&o.Duplicates, "duplicates", "keep", "`name`: keep, or drop (the first of each source and target is kept)")
	set.StringVar(&o.FeatureDType, "feature-dtype", "", "`name`: float32 or float16, default as given")
	storeFlags(set, &o.Order, &o.BlockSize, &o.Compression, &o.Stripes, &o.Overwrite)
	set.Var(sizeValue{&o.Memory}, "memory", "bound `size` of all memory, default 2GiB")
	set.Var(countValue{&o.NumThreads}, "num-threads", "worker threads `n`, default 2")
	set.StringVar(&o.Scratch, "scratch", "", "`folder` for what does not fit in memory, default beside the store")
	set.Var(sizeValue{&o.ScratchLimit}, "scratch-limit", "bound `size` of scratch files, default half the free space")
	ioFlag(set, &o.IO)
	return splits
}

// storeFlags declares what shapes a store.
func storeFlags(set *flag.FlagSet, order *string, blockSize *int64, compression *string, stripes *[]string, overwrite *bool) {
	set.StringVar(order, "order", "auto", "`name` of the node order: auto, original, degree, bfs or visit")
	set.Var(sizeValue{blockSize}, "block-size", "`size` of a block, default 1MiB")
	set.StringVar(compression, "compression", "", "`name` of the compression of graph blocks: none, zstd or zstd:LEVEL (1 to 9), default none")
	set.Var(foldersValue{stripes}, "stripes", "`folders` over which the store is spread, each on an SSD of its own, separated by commas")
	set.BoolVar(overwrite, "overwrite", false, "replace a store that is there")
}

func inputs(files map[string]string) map[string]goagnes.Input {
	byName := make(map[string]goagnes.Input, len(files))
	for name, file := range files {
		byName[name] = goagnes.Input{File: file}
	}
	return byName
}

// buildResult is what every verb that makes a store prints.
func buildResult(report *goagnes.BuildReport, err error) (*result, error) {
	if err != nil {
		return nil, err
	}
	return &result{document: report, text: func(w io.Writer) { printBuild(w, report) }}, nil
}

func printBuild(w io.Writer, r *goagnes.BuildReport) {
	rows := [][2]string{
		{"nodes", fmt.Sprint(r.NumNodes)},
		{"edges", fmt.Sprint(r.NumEdges)},
		{"features", fmt.Sprint(r.NumFeatures)},
		{"classes", fmt.Sprint(r.NumClasses)},
		{"order", r.Order},
		{"store", formatSize(r.StoreBytes)},
		{"read", formatSize(r.BytesRead)},
		{"written", formatSize(r.BytesWritten)},
		{"seconds", fmt.Sprintf("%.2f", r.Seconds)},
		{"build id", r.BuildID},
	}
	for _, note := range r.Notes {
		rows = append(rows, [2]string{"note", note})
	}
	printRows(w, rows)
}
