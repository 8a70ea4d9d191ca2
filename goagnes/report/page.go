package report

// What the page of each kind of document shows.

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/goagnes/goagnes/goagnes"
	"github.com/goagnes/goagnes/goagnes/storage"
)

// page is what the template sets.
type page struct {
	Title    string
	Subtitle string
	Figures  []figure
	Charts   []chart
	Tables   []table
	Notes    []string
}

// figure is a number that the page shows large.
type figure struct{ Name, Value, Remark string }

// table is a list of names and values.
type table struct {
	Title string
	Rows  [][2]string
}

func (p *page) figure(name, value, remark string) {
	p.Figures = append(p.Figures, figure{name, value, remark})
}

func (p *page) chart(c chart) {
	if c.Plot != nil || c.Bars != nil {
		p.Charts = append(p.Charts, c)
	}
}

func (p *page) bars(title, note string, list []bar, limit float64, limitText string, legend ...series) {
	if len(list) == 0 {
		return
	}
	b, omitted := barChart(list, limit, limitText, legend...)
	p.chart(chart{Title: title, Note: strings.TrimSpace(note + " " + omitted), Bars: b})
}

// trainPage is the page of a training run.
func trainPage(d *goagnes.TrainReport) *page {
	p := &page{Title: "Training " + d.Model, Subtitle: storeLine(d.Store)}
	if d.TestAccuracy != nil {
		p.figure("test accuracy", percent(*d.TestAccuracy), fmt.Sprintf("%s nodes, weights of epoch %d", count(int64(d.Counts.Test)), d.BestEpoch))
	}
	p.figure("time", duration(d.Seconds.Total), fmt.Sprintf("%d epochs", len(d.Epochs)))
	moved := d.IO.BytesRead + d.IO.BytesWritten
	p.figure("bytes moved", bytes(moved), fmt.Sprintf("%s read, %s written", bytes(d.IO.BytesRead), bytes(d.IO.BytesWritten)))
	p.bandwidth(moved, d.IO.BusySeconds, d.Device)
	p.memoryFigure(d.Usage)

	train, val := line{name: "train", class: "a"}, line{name: "validation", class: "b"}
	lossTrain, lossVal := line{name: "train", class: "a"}, line{name: "validation", class: "b"}
	add := func(l *line, epoch uint32, v *float64) {
		if v != nil {
			l.x, l.y = append(l.x, float64(epoch)), append(l.y, *v)
		}
	}
	for i := range d.Epochs {
		e := &d.Epochs[i]
		add(&train, e.Epoch, &e.TrainAccuracy)
		add(&val, e.Epoch, e.ValAccuracy)
		add(&lossTrain, e.Epoch, &e.TrainLoss)
		add(&lossVal, e.Epoch, e.ValLoss)
	}
	if len(d.Epochs) > 0 {
		p.chart(chart{Title: "Accuracy by epoch", Plot: lines("epoch", "accuracy", 0, 1, percent, drawn(train, val))})
		high := 0.0
		for _, l := range []line{lossTrain, lossVal} {
			for _, v := range l.y {
				high = max(high, v)
			}
		}
		p.chart(chart{Title: "Loss by epoch", Plot: lines("epoch", "loss", 0, high, plain, drawn(lossTrain, lossVal))})
	}
	s := d.Seconds
	p.stages("Time of the trainer", "", s.Total, [][2]any{{"waiting for data", s.Wait}, {"forward", s.Forward},
		{"backward", s.Backward}, {"optimizer", s.Optimizer}, {"evaluation", s.Evaluation}})
	p.loaders(d.Loaders)
	p.timeline(d.Timeline, d.Device)
	p.io(d.IO)
	p.memory(d.Usage)
	p.Tables = append(p.Tables, optionTable(d), storeTable(d.Store))
	return p
}

// preparePage is the page of prepared epochs.
func preparePage(d *Prepare) *page {
	p := &page{Title: "Preparing minibatches", Subtitle: d.Store}
	n, total := int64(0), 0.0
	for _, e := range d.Epochs {
		n += e.Minibatches
		total += e.Seconds
	}
	p.figure("a minibatch", duration(total/float64(max(n, 1))), fmt.Sprintf("%s in %s", count(n), duration(total)))
	if len(d.Epochs) > 0 {
		p.figure("first minibatch", duration(d.Epochs[0].FirstSeconds), "of the first epoch")
	}
	moved := d.Stats.BytesRead + d.Stats.BytesWritten
	p.figure("bytes moved", bytes(moved), fmt.Sprintf("%s a minibatch", bytes(moved/max(n, 1))))
	if d.Stats.IORatio > 0 {
		p.figure("moved / least possible", fmt.Sprintf("%.2f", d.Stats.IORatio), bytes(d.Stats.LowerBoundBytes)+" an epoch, every page once")
	}
	p.bandwidth(moved, total, d.Device)
	p.memoryFigure(d.Usage)
	var epochs []bar
	for _, e := range d.Epochs {
		each := e.Seconds / float64(max(e.Minibatches, 1))
		epochs = append(epochs, bar{fmt.Sprintf("epoch %d", e.Epoch), fmt.Sprintf("%s, %s a minibatch", duration(e.Seconds), duration(each)),
			[]part{{"b", e.FirstSeconds, "until the first minibatch: " + duration(e.FirstSeconds)}, {"a", e.Seconds - e.FirstSeconds, "after it"}}})
	}
	p.bars("Time by epoch", "", epochs, 0, "", series{Name: "until the first minibatch", Class: "b"}, series{Name: "after it", Class: "a"})
	p.loaders(map[string]goagnes.Stats{"": d.Stats})
	p.timeline(d.Timeline, d.Device)
	p.io(d.Stats.IO)
	p.memory(d.Usage)
	return p
}

// buildPage is the page of a build, an import or a generated graph.
func buildPage(d *goagnes.BuildReport) *page {
	p := &page{Title: "Building a store", Subtitle: fmt.Sprintf("%s nodes, %s edges, order %s", count(d.NumNodes), count(d.NumEdges), d.Order), Notes: d.Notes}
	p.figure("time", duration(d.Seconds), "")
	moved := d.BytesRead + d.BytesWritten
	p.figure("bytes moved", bytes(moved), fmt.Sprintf("%s read, %s written", bytes(d.BytesRead), bytes(d.BytesWritten)))
	if d.InputBytes > 0 {
		p.figure("moved / input", fmt.Sprintf("%.2f", float64(moved)/float64(d.InputBytes)), "of "+bytes(d.InputBytes))
	}
	p.figure("store", bytes(d.StoreBytes), "")
	p.figure("memory", bytes(d.PeakMemoryPlanned), "charged to the budget at one time")
	var stages [][2]any
	for _, name := range slices.Sorted(maps.Keys(d.StageSeconds)) {
		stages = append(stages, [2]any{name, d.StageSeconds[name]})
	}
	slices.SortStableFunc(stages, func(a, b [2]any) int { return cmp.Compare(b[1].(float64), a[1].(float64)) })
	p.stages("Time by stage", "", d.Seconds, stages)
	p.bars("Bytes", "", []bar{
		{"input", bytes(d.InputBytes), []part{{"a", float64(d.InputBytes), ""}}},
		{"read", bytes(d.BytesRead), []part{{"a", float64(d.BytesRead), ""}}},
		{"written", bytes(d.BytesWritten), []part{{"b", float64(d.BytesWritten), ""}}},
		{"most scratch", bytes(d.ScratchBytes), []part{{"c", float64(d.ScratchBytes), ""}}},
		{"store", bytes(d.StoreBytes), []part{{"c", float64(d.StoreBytes), ""}}},
	}, 0, "")
	p.Tables = append(p.Tables, table{"The store", [][2]string{
		{"nodes", count(d.NumNodes)}, {"edges", count(d.NumEdges)}, {"features", count(d.NumFeatures)}, {"classes", count(d.NumClasses)},
		{"order", d.Order}, {"ids", d.IDs}, {"block size", bytes(d.BlockSize)}, {"build id", d.BuildID}}})
	return p
}

// drawn leaves out lines without points.
func drawn(list ...line) []line {
	return slices.DeleteFunc(list, func(l line) bool { return len(l.x) == 0 })
}

// bandwidth shows what was moved a second over the given time.
func (p *page) bandwidth(moved int64, over float64, device *goagnes.Calibration) {
	if over <= 0 || moved == 0 {
		return
	}
	rate := float64(moved) / over
	remark := "while a request was at the device"
	if device != nil && device.BytesPerSecond > 0 {
		remark = fmt.Sprintf("%s of the device's %s/s", percent(rate/device.BytesPerSecond), bytes(int64(device.BytesPerSecond)))
	}
	p.figure("bandwidth", bytes(int64(rate))+"/s", remark)
}

func (p *page) memoryFigure(u goagnes.Usage) {
	remark := "of a budget of " + bytes(u.Memory)
	if u.PeakRSS > 0 {
		remark += ", process " + bytes(u.PeakRSS)
	}
	p.figure("most memory", bytes(u.PeakMemory), remark)
}

// stages shows parts of a total, and what none of them accounts for.
func (p *page) stages(title, note string, total float64, list [][2]any) {
	var rows []bar
	rest := total
	for _, s := range list {
		name, v := s[0].(string), s[1].(float64)
		rest -= v
		rows = append(rows, bar{name, share(v, total), []part{{"a", v, name + ": " + duration(v)}}})
	}
	if rest > total/100 {
		rows = append(rows, bar{"other", share(rest, total), []part{{"c", rest, "other: " + duration(rest)}}})
	}
	p.bars(title, note, rows, 0, "")
}

func share(v, total float64) string {
	if total <= 0 {
		return duration(v)
	}
	return fmt.Sprintf("%s (%s)", duration(v), percent(v/total))
}

// loaders shows the stages of preparing minibatches, and the hits of the index
// tables, by loader.
func (p *page) loaders(loaders map[string]goagnes.Stats) {
	var time, hits []bar
	for _, name := range slices.Sorted(maps.Keys(loaders)) {
		s := loaders[name]
		prefix := ""
		if name != "" {
			prefix = name + ": "
		}
		for _, stage := range []struct{ label, key, wait string }{
			{"sample", "sample", ""}, {"gather", "gather", "gather_wait"}, {"deliver", "deliver", "deliver_wait"},
		} {
			all, wait := s.Seconds[stage.key], s.Seconds[stage.wait]
			parts := []part{{"a", max(all-wait, 0), "working: " + duration(max(all-wait, 0))}}
			if wait > 0 {
				parts = append(parts, part{"b", wait, "waiting for the device: " + duration(wait)})
			}
			time = append(time, bar{prefix + stage.label, duration(all), parts})
		}
		for _, t := range []struct {
			label        string
			hits, misses int64
		}{
			{"T_buf^g", s.GraphBufferHits, s.GraphBufferMisses},
			{"T_buf^f", s.FeatureBufferHits, s.FeatureBufferMisses},
			{"T_ch^f", s.CacheHits, s.CacheMisses},
		} {
			if n := t.hits + t.misses; n > 0 {
				h, m := float64(t.hits)/float64(n), float64(t.misses)/float64(n)
				hits = append(hits, bar{prefix + t.label, fmt.Sprintf("%s of %s", percent(h), count(n)),
					[]part{{"a", h, count(t.hits) + " hits"}, {"c", m, count(t.misses) + " misses"}}})
			}
		}
	}
	p.bars("Time of preparing minibatches", "Stages overlap with each other and with the consumer.", time, 0, "",
		series{Name: "working", Class: "a"}, series{Name: "waiting for the device", Class: "b"})
	p.bars("Hits of the index tables", "Blocks for the graph buffer and the feature buffer, rows for the feature cache.", hits, 0, "",
		series{Name: "hits", Class: "a"}, series{Name: "misses", Class: "c"})
}

// timeline shows bytes by time.
func (p *page) timeline(t storage.Timeline, device *goagnes.Calibration) {
	if len(t.BytesRead) == 0 || t.IntervalSeconds <= 0 {
		return
	}
	rate := func(name, class string, n []int64) line {
		l := line{name: name, class: class}
		for _, v := range n {
			l.y = append(l.y, float64(v)/t.IntervalSeconds)
		}
		return l
	}
	limit, text := 0.0, ""
	if device != nil {
		limit, text = device.BytesPerSecond, "the device's own "+bytes(int64(device.BytesPerSecond))+"/s"
	}
	p.chart(chart{Title: "Bandwidth over time", Note: fmt.Sprintf("Bytes by the time at which requests ended, in steps of %s.", duration(t.IntervalSeconds)),
		Plot: stack(t.IntervalSeconds, limit, text,
			[]line{rate("read", "a", t.BytesRead), rate("written", "b", t.BytesWritten)})})
}

// io shows sizes and latencies of requests.
func (p *page) io(c storage.Counters) {
	p.chart(chart{Title: "Sizes of requests", Note: fmt.Sprintf("%s reads, %s writes; at most %d at the device at one time.", count(c.Reads), count(c.Writes), c.MaxInFlight),
		Plot: columns("bytes of a request, at least", func(b int) string { return bytes(bucketEdge(b)) },
			[]column{{"reads", "a", c.ReadSize[:]}, {"writes", "b", c.WriteSize[:]}})})
	p.chart(chart{Title: "Latency of requests", Plot: columns("time of a request, at least", func(b int) string { return duration(float64(bucketEdge(b)) / 1e6) },
		[]column{{"reads", "a", c.ReadLatency[:]}, {"writes", "b", c.WriteLatency[:]}})})
}

// bucketEdge is the least value in a bucket of a storage.Histogram.
func bucketEdge(bucket int) int64 {
	if bucket == 0 {
		return 0
	}
	return 1 << (bucket - 1)
}

// memory shows the consumers of memory against the budget.
func (p *page) memory(u goagnes.Usage) {
	if u.Memory <= 0 {
		return
	}
	names := slices.SortedFunc(maps.Keys(u.MemoryPeaks), func(a, b string) int {
		return cmp.Or(cmp.Compare(u.MemoryPeaks[b], u.MemoryPeaks[a]), cmp.Compare(a, b))
	})
	rows := []bar{{"all at one time", bytes(u.PeakMemory), []part{{"a", float64(u.PeakMemory), ""}}}}
	if u.PeakRSS > 0 {
		rows = append(rows, bar{"process, resident", bytes(u.PeakRSS), []part{{"b", float64(u.PeakRSS), ""}}})
	}
	for _, name := range names {
		rows = append(rows, bar{name, bytes(u.MemoryPeaks[name]), []part{{"c", float64(u.MemoryPeaks[name]), ""}}})
	}
	p.bars("Memory against the budget", "The most that was used at one time, and the most of each consumer; consumers reach theirs at different times.",
		rows, float64(u.Memory), "budget "+bytes(u.Memory))
}

func storeLine(i goagnes.Info) string {
	return fmt.Sprintf("%s: %s nodes, %s edges, %s features of %s", i.Path, count(i.NumNodes), count(i.NumEdges), count(i.NumFeatures), i.FeatureDType)
}

func storeTable(i goagnes.Info) table {
	rows := [][2]string{{"path", i.Path}, {"nodes", count(i.NumNodes)}, {"edges", count(i.NumEdges)},
		{"features", fmt.Sprintf("%d %s", i.NumFeatures, i.FeatureDType)}, {"classes", count(i.NumClasses)}}
	for _, name := range slices.Sorted(maps.Keys(i.Splits)) {
		rows = append(rows, [2]string{"split " + name, count(i.Splits[name])})
	}
	return table{"The store", append(rows, [2]string{"order", i.Order}, [2]string{"block size", bytes(i.BlockSize)},
		[2]string{"bytes", bytes(i.Bytes)}, [2]string{"build id", i.BuildID})}
}

func optionTable(d *goagnes.TrainReport) table {
	o := d.Options
	rows := [][2]string{{"model", fmt.Sprintf("%s, %s parameters", d.Model, count(int64(d.Parameters)))}}
	if o.Preset != "" {
		rows = append(rows, [2]string{"preset", o.Preset})
	}
	if o.NormalizeFeatures != "none" && o.NormalizeFeatures != "" {
		rows = append(rows, [2]string{"normalised features", o.NormalizeFeatures})
	}
	if o.Patience > 0 {
		rows = append(rows, [2]string{"patience", fmt.Sprintf("%d, by %s", o.Patience, o.Monitor)})
	}
	return table{"The run", append(rows, [][2]string{
		{"layers, hidden units", fmt.Sprintf("%d, %d", o.Layers, o.Hidden)},
		{"learning rate, weight decay", fmt.Sprintf("%g, %g", o.LearningRate, o.WeightDecay)},
		{"dropout", fmt.Sprintf("%g", o.Dropout)},
		{"batch size", count(int64(o.BatchSize))},
		{"neighbours", fmt.Sprintf("%v; evaluation %v", o.NumNeighbors, o.EvalNeighbors)},
		{"seed", fmt.Sprint(o.Seed)},
		{"threads, kernels", fmt.Sprintf("%d, %s", o.Threads, o.Backend)},
	}...)}
}
