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
		return func(ctx context.Context, call invocation) (*result, error) {
			if *epochs < 1 || *most < 0 {
				return nil, usagef("bench prepare: --epochs must be at least 1 and --max-batches not negative")
			}
			o.InputNodes.Split = *split
			report, err := prepareEpochs(ctx, call, *open, *o, *epochs, *most, *calibrate)
			if err != nil {
				return nil, err
			}
			return &result{document: report, text: func(w io.Writer) { printBench(w, report) }}, nil
		}
	},
}

// loaderFlags declares what a loader takes, by the names of the Python arguments.
func loaderFlags(set *flag.FlagSet, o *goagnes.LoaderOptions) {
	o.NumNeighbors = []int{10, 10, 10}
	set.Var(intsValue{&o.NumNeighbors}, "num-neighbors", "neighbours drawn per node, a `list` with one entry a hop, -1 takes all")
	set.IntVar(&o.BatchSize, "batch-size", 1000, "seeds `n` of a minibatch")
	set.BoolVar(&o.Shuffle, "shuffle", false, "a new seed order each epoch")
	set.BoolVar(&o.DropLast, "drop-last", false, "leave out a last minibatch that is not full")
	set.Var(seedValue{&o.Seed}, "seed", "seed `n` of all draws, default drawn")
	set.IntVar(&o.HyperbatchSize, "hyperbatch-size", 0, "minibatches `n` prepared together at most, default 1024")
	set.StringVar(&o.Mode, "mode", "agnes", "`name`: agnes, or agnes-no to prepare every minibatch alone")
	set.StringVar(&o.IO, "io", "auto", "`name` of the way blocks are read: auto or pread")
	set.BoolVar(&o.NoEdgeIDs, "no-edge-ids", false, "leave out e_id")
	set.BoolVar(&o.Compact, "compact", false, "ptr and src, as the trainer in Go reads them, instead of edge_index")
}

// benchReport is what bench prepare prints as JSON.
type benchReport struct {
	Store       string       `json:"store"`
	Memory      int64        `json:"memory"`       // budget in bytes
	PeakRSS     int64        `json:"peak_rss"`     // of the process, bytes
	OpenSeconds float64      `json:"open_seconds"` // opening the store
	DeviceRead  int64        `json:"device_read"`  // bytes that the system says the process read from devices while it prepared, -1 where it does not
	DeviceWrite int64        `json:"device_write"` // likewise, written
	Epochs      []benchEpoch `json:"epochs"`
	// With --calibrate: the device's own reads, and what the epochs moved a second as a share of their bandwidth.
	Device         *goagnes.Calibration `json:"device,omitempty"`
	BandwidthRatio float64              `json:"bw_ratio,omitempty"`
	Stats          goagnes.Stats        `json:"stats"`
}

type benchEpoch struct {
	Epoch        int     `json:"epoch"`
	Minibatches  int64   `json:"minibatches"`
	Nodes        int64   `json:"nodes"`
	Edges        int64   `json:"edges"`
	Seconds      float64 `json:"seconds"`
	FirstSeconds float64 `json:"first_seconds"` // until the first minibatch
}

func prepareEpochs(ctx context.Context, call invocation, open goagnes.OpenOptions, o goagnes.LoaderOptions, epochs, most int, calibrate bool) (report *benchReport, err error) {
	start := time.Now()
	store, err := goagnes.Open(call.args[0], open)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	loader, err := goagnes.NewLoader(store, o)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, loader.Close()) }()
	report = &benchReport{Store: call.args[0], Memory: store.Info().Memory, OpenSeconds: time.Since(start).Seconds()}
	total := int64(loader.Len())
	if most > 0 {
		total = min(total, int64(most))
	}
	readBefore, writtenBefore := deviceBytes()
	for epoch := range epochs {
		one := benchEpoch{Epoch: epoch}
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
		report.Epochs = append(report.Epochs, one)
	}
	report.Stats = loader.Stats()
	report.DeviceRead, report.DeviceWrite = deviceBytes()
	if report.DeviceRead >= 0 {
		report.DeviceRead -= readBefore
		report.DeviceWrite -= writtenBefore
	}
	if calibrate {
		device, err := store.Calibrate(ctx)
		if err != nil {
			return nil, err
		}
		seconds := 0.0
		for _, e := range report.Epochs {
			seconds += e.Seconds
		}
		report.Device = &device
		report.BandwidthRatio = float64(report.Stats.BytesRead+report.Stats.BytesWritten) / max(seconds, 1e-9) / device.BytesPerSecond
	}
	report.PeakRSS = peakRSS()
	return report, nil
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

// peakRSS returns the most memory that the process had resident, in bytes; 0
// where the system does not tell.
func peakRSS() int64 {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0
	}
	for _, line := range strings.Split(string(status), "\n") {
		if kib, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			n, _ := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(kib, "kB")), 10, 64)
			return n << 10
		}
	}
	return 0
}

func printBench(w io.Writer, report *benchReport) {
	rows := [][2]string{}
	add := func(name, format string, args ...any) {
		rows = append(rows, [2]string{name, fmt.Sprintf(format, args...)})
	}
	for _, e := range report.Epochs {
		n := float64(max(e.Minibatches, 1))
		add(fmt.Sprintf("epoch %d", e.Epoch), "%.2f s, %d minibatches, %.2f ms each (first after %.2f s), %.0f nodes and %.0f edges each",
			e.Seconds, e.Minibatches, 1000*e.Seconds/n, e.FirstSeconds, float64(e.Nodes)/n, float64(e.Edges)/n)
	}
	s := report.Stats
	add("read", "%s in %d reads", formatSize(s.BytesRead), s.IO.Reads)
	add("written", "%s in %d writes", formatSize(s.BytesWritten), s.IO.Writes)
	if s.IORatio > 0 {
		add("moved / least possible", "%.2f (least possible %s an epoch)", s.IORatio, formatSize(s.LowerBoundBytes))
	}
	if report.Device != nil {
		add("bandwidth", "%.0f %% of the device's %s/s", 100*report.BandwidthRatio, formatSize(int64(report.Device.BytesPerSecond)))
	}
	add("memory", "budget %s, used %s, process %s", formatSize(report.Memory), formatSize(s.PeakMemory), formatSize(report.PeakRSS))
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
