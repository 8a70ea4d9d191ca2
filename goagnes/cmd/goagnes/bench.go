// goagnes bench prepare: prepare epochs of minibatches and drop them, for measuring.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"sort"
	"strconv"
	"strings"
	"time"

	"github.com/goagnes/goagnes/goagnes"
	"github.com/goagnes/goagnes/goagnes/report"
	"github.com/goagnes/goagnes/goagnes/storage/inject"
)

var benchCommand = command{
	name:      "bench prepare",
	positions: []string{"STORE"},
	summary:   "prepare epochs of minibatches without using them, and print what it took",
	prepare: func(set *flag.FlagSet) func(context.Context, invocation) (*result, error) {
		open := openFlags(set)
		o := &goagnes.LoaderOptions{ReleasesFirst: true}
		loaderFlags(set, o)
		split := set.String("input-nodes", "", "`split` whose nodes are the seeds, default all nodes")
		epochs := set.Int("epochs", 1, "epochs `n` to prepare")
		most := set.Int("max-batches", 0, "end each epoch after `n` minibatches, default none")
		calibrate := set.Bool("calibrate", false, "measure the device's own reads too, to compare with")
		// For measurement: a slower device than there is.
		latency := set.Duration("inject-latency", 0, "for measurement: `time` added to every read, reads in flight together taking it together")
		bandwidth := int64(0)
		set.Var(sizeValue{&bandwidth}, "inject-bandwidth", "for measurement: `size` that each folder moves a second at most")
		refuse := set.Bool("inject-refuse-direct", false, "for measurement: opening a file for direct I/O is refused")
		return func(ctx context.Context, call invocation) (*result, error) {
			if *latency < 0 {
				return nil, usagef("bench prepare: --inject-latency must not be negative")
			}
			if *latency > 0 || bandwidth > 0 || *refuse {
				open.FS = inject.New(nil, inject.Options{ReadLatency: *latency, Bandwidth: bandwidth, RefuseDirect: *refuse})
			}
			if *epochs < 1 || *most < 0 {
				return nil, usagef("bench prepare: --epochs must be at least 1 and --max-batches not negative")
			}
			o.InputNodes.Split = *split
			document, err := prepareEpochs(ctx, call, *open, *o, *epochs, *most, *calibrate)
			if err != nil {
				return nil, err
			}
			return &result{document: document, text: func(w io.Writer) { printBench(w, document) }}, nil
		}
	},
}

// loaderFlags declares what a loader takes, by the names of the Python arguments.
func loaderFlags(set *flag.FlagSet, o *goagnes.LoaderOptions) {
	o.NumNeighbors = []int{10, 10, 10}
	set.Var(intsValue{&o.NumNeighbors}, "num-neighbors", "neighbours drawn per node, a `list` with one entry a hop, -1 takes all")
	o.BatchSize = 1000
	set.Var(countValue{&o.BatchSize}, "batch-size", "seeds `n` of a minibatch")
	set.BoolVar(&o.Shuffle, "shuffle", false, "a new seed order each epoch")
	set.BoolVar(&o.DropLast, "drop-last", false, "leave out a last minibatch that is not full")
	set.Var(seedValue{&o.Seed}, "seed", "seed `n` of all draws, default drawn")
	set.Var(countValue{&o.HyperbatchSize}, "hyperbatch-size", "minibatches `n` prepared together at most, default 1024")
	set.StringVar(&o.Mode, "mode", "agnes", "`name`: agnes; agnes-no to prepare every minibatch alone; agnes-paper for Algorithm 1 as published")
	set.Var(sizeValue{&o.GraphBuffer}, "graph-buffer", "`size` of the frames for graph blocks, part of --memory, default divided out of it")
	set.Var(sizeValue{&o.FeatureBuffer}, "feature-buffer", "`size` of the frames for feature blocks, part of --memory, default divided out of it")
	set.BoolVar(&o.NoEdgeIDs, "no-edge-ids", false, "leave out e_id")
	set.BoolVar(&o.Compact, "compact", false, "ptr and src, as the trainer in Go reads them, instead of edge_index")
}

func prepareEpochs(ctx context.Context, call invocation, open goagnes.OpenOptions, o goagnes.LoaderOptions, epochs, most int, calibrate bool) (document *report.Prepare, err error) {
	start := time.Now()
	store, err := openStore(call, open)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	loader, err := goagnes.NewLoader(store, o)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, loader.Close()) }()
	document = &report.Prepare{Kind: report.KindPrepare, Store: call.args[0], OpenSeconds: time.Since(start).Seconds()}
	total := int64(loader.Len())
	if most > 0 {
		total = min(total, int64(most))
	}
	readBefore, writtenBefore := deviceBytes()
	for epoch := range epochs {
		one := report.Epoch{Epoch: epoch}
		start := time.Now()
		if err := loader.Start(ctx); err != nil {
			return nil, err
		}
		for one.Minibatches < total {
			batch, err := loader.Next(ctx)
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				return nil, err
			}
			if one.Minibatches == 0 {
				one.FirstSeconds = time.Since(start).Seconds()
			}
			one.Minibatches++
			one.Nodes += int64(batch.NumNodes)
			one.Edges += int64(batch.NumEdges)
			batch.Release()
			call.progress("epoch "+strconv.Itoa(epoch), one.Minibatches, total)
		}
		loader.Stop()
		one.Seconds = time.Since(start).Seconds()
		document.Epochs = append(document.Epochs, one)
	}
	document.Stats = loader.Stats()
	warnPageCache(call, document.Stats.IO.FallbackFile)
	usage := store.Usage() // before the device is measured
	document.DeviceRead, document.DeviceWrite = deviceBytes()
	if document.DeviceRead >= 0 {
		document.DeviceRead -= readBefore
		document.DeviceWrite -= writtenBefore
	}
	if calibrate {
		device, err := store.Calibrate(ctx)
		if err != nil {
			return nil, err
		}
		seconds := 0.0
		for _, e := range document.Epochs {
			seconds += e.Seconds
		}
		document.Device = &device
		document.BandwidthRatio = float64(document.Stats.BytesRead+document.Stats.BytesWritten) / max(seconds, 1e-9) / device.BytesPerSecond
	}
	document.Usage = usage
	return document, nil
}

// deviceBytes returns what the process read from and wrote to devices so far,
// by the system's own count; -1 where the system does not tell.
func deviceBytes() (read, written int64) {
	read, written = -1, -1
	counts, err := os.ReadFile("/proc/self/io")
	if err != nil {
		return read, written
	}
	for _, line := range strings.Split(string(counts), "\n") {
		if n, ok := strings.CutPrefix(line, "read_bytes: "); ok {
			read, _ = strconv.ParseInt(n, 10, 64)
		}
		if n, ok := strings.CutPrefix(line, "write_bytes: "); ok {
			written, _ = strconv.ParseInt(n, 10, 64)
		}
	}
	return read, written
}

func printBench(w io.Writer, document *report.Prepare) {
	rows := [][2]string{}
	add := func(name, format string, args ...any) {
		rows = append(rows, [2]string{name, fmt.Sprintf(format, args...)})
	}
	for _, e := range document.Epochs {
		n := float64(max(e.Minibatches, 1))
		add(fmt.Sprintf("epoch %d", e.Epoch), "%.2f s, %d minibatches, %.2f ms each (first after %.2f s), %.0f nodes and %.0f edges each",
			e.Seconds, e.Minibatches, 1000*e.Seconds/n, e.FirstSeconds, float64(e.Nodes)/n, float64(e.Edges)/n)
	}
	s := document.Stats
	way := s.IO.Engine
	if !s.IO.Direct {
		way += ", through the page cache"
	}
	add("read", "%s in %d reads by %s", formatSize(s.BytesRead), s.IO.Reads, way)
	add("written", "%s in %d writes", formatSize(s.BytesWritten), s.IO.Writes)
	if s.IORatio > 0 {
		add("moved / least possible", "%.2f (least possible %s an epoch)", s.IORatio, formatSize(s.LowerBoundBytes))
	}
	if document.Device != nil {
		d := document.Device
		how := ""
		if !d.Direct {
			how = ", through the page cache"
		}
		add("bandwidth", "%.0f %% of the device's %s/s (reads by %s, %d in flight%s)", 100*document.BandwidthRatio, formatSize(int64(d.BytesPerSecond)), d.Engine, d.Depth, how)
	}
	add("memory", "budget %s, used %s, process %s", formatSize(document.Memory), formatSize(s.PeakMemory), formatSize(document.PeakRSS))
	stages := make([]string, 0, len(s.Seconds))
	for stage := range s.Seconds {
		stages = append(stages, stage)
	}
	sort.Strings(stages)
	for _, stage := range stages {
		add(stage, "%.2f s", s.Seconds[stage])
	}
	add("seed", "%d", s.Seed)
	printRows(w, rows)
}
