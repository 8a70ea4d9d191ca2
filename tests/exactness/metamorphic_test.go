package exactness

// Plans of minibatches under settings that must not matter: stores, budgets,
// modes, ways to the device, outputs and exports, each held bit for bit against
// the plain sampler. The plans are in plans_test.go, the settings here: not their
// product, but a covering design of it.

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/goagnes/goagnes/goagnes"
	"github.com/goagnes/goagnes/goagnes/storage"
	"github.com/goagnes/goagnes/tests/fixture/graph"
	"github.com/goagnes/goagnes/tests/fixture/life"
	"github.com/goagnes/goagnes/tests/fixture/refusal"
	"github.com/goagnes/goagnes/tests/fixture/tree"
)

var metamorphicSeed = flag.Uint64("metamorphic.seed", 1, "seed of the graphs, plans and settings of TestMetamorphic")

// The settings of a store, and those of its use, as their options are called.
// block is in KiB; memory in MiB, and raised to what the refusals ask for; frames
// are four blocks, or 128 KiB where those are smaller than the least frames.
var (
	storeFactors = []dimension{
		factor("order", "original", "degree", "bfs", "visit"),
		factor("block", "4", "32", "256", "1024"),
		factor("compression", "none", "zstd", "zstd:1"),
		factor("stripes", "0", "2", "3"),
	}
	useFactors = []dimension{
		factor("io", "auto", "uring", "pread", "buffered"),
		factor("mode", "agnes", "agnes-no", "agnes-paper"),
		factor("graph_buffer", "default", "frames"),
		factor("feature_buffer", "default", "frames"),
		factor("hyperbatch", "1", "3", "10", "1000"),
		factor("growing", "yes", "no"),
		factor("memory", "1", "12", "256"),
		factor("threads", "1", "2", "4"),
		factor("edges", "edge_index", "compact"),
		factor("edge_ids", "yes", "no"),
		factor("features", "yes", "no"),
		factor("degree", "no", "yes"),
		factor("delivery", "epochs", "range", "export"),
	}
)

// settings are the values of a row by factor.
type settings map[string]string

func (s settings) String() string {
	var all []string
	for _, d := range slices.Concat(storeFactors, useFactors) {
		name := d[0][0].factor
		all = append(all, name+"="+s[name])
	}
	return strings.Join(all, ",")
}

// number is the value of a factor whose values are numbers.
func (s settings) number(factor string) int64 {
	n, err := strconv.ParseInt(s[factor], 10, 64)
	if err != nil {
		panic(err)
	}
	return n
}

// store names the store of a graph that the settings ask for.
func (s settings) store() string {
	return strings.Join([]string{s["order"], s["block"], strings.ReplaceAll(s["compression"], ":", "-"), s["stripes"]}, "-")
}

// trial is one plan under the settings of one row.
type trial struct {
	subject *subject
	settings
}

// metamorphic is a run: its trials, and what they share.
type metamorphic struct {
	seed     uint64
	dir      string
	scratch  string
	subjects []*subject
	trials   []trial

	// How often what the plans are for came about.
	spilled, repeats, hubs, grown int
}

// newMetamorphic draws the run of a seed. With every false the settings' pairs
// are covered, and each plan is tried at least once; else each plan meets every
// setting too.
func newMetamorphic(t *testing.T, seed uint64, every bool) *metamorphic {
	r := rand.New(rand.NewPCG(seed, 0))
	m := &metamorphic{seed: seed, dir: t.TempDir(), scratch: t.TempDir(), subjects: subjects(r)}
	byName := map[string]*subject{}
	var plans, stores dimension
	for _, s := range m.subjects {
		if byName[s.plan.Name] != nil {
			panic("goagnes_test: two plans are named " + s.plan.Name)
		}
		byName[s.plan.Name] = s
		plans = append(plans, []term{{"plan", s.plan.Name}})
	}
	// The store's settings come together, so that a few stores of a graph do.
	store := design{dimensions: storeFactors}
	for _, row := range store.rows(r) {
		stores = append(stores, store.terms(row))
	}
	d := design{dimensions: append([]dimension{plans, stores}, useFactors...)}
	d.forbidden = func(a, b term) bool {
		if b == (term{"feature_buffer", "frames"}) && a.factor == "plan" {
			s := byName[a.value]
			return s.graph.X == nil // refused: there are no rows
		}
		if b == (term{"order", "visit"}) && a.factor == "plan" {
			return byName[a.value].graph.Splits == nil // refused: it follows samples from the split train
		}
		if b == (term{"graph_buffer", "frames"}) && a.factor == "plan" {
			return len(byName[a.value].plan.Fanouts) == 0 // refused: no graph block is read
		}
		return a == term{"feature_buffer", "frames"} && b == term{"features", "no"}
	}
	if !every {
		d.wanted = func(a, b term) bool { return a.factor != "plan" }
	}
	for _, row := range d.rows(r) {
		s := settings{}
		for _, a := range d.terms(row) {
			s[a.factor] = a.value
		}
		m.trials = append(m.trials, trial{byName[s["plan"]], s})
	}
	// Hyperbatches grow where many minibatches are prepared together and the graph
	// stays in memory, which few rows of an array that covers pairs have at once.
	grow := settings{"growing": "yes", "mode": "agnes", "hyperbatch": "1000", "memory": "256", "delivery": "epochs", "threads": "2"}
	for _, x := range m.subjects {
		if len(x.epoch(0)) <= 8 {
			continue
		}
		s := maps.Clone(grow)
		for _, d := range slices.Concat(storeFactors, useFactors) {
			if t := d[0][0]; s[t.factor] == "" {
				s[t.factor] = t.value
			}
		}
		m.trials = append(m.trials, trial{x, s})
	}
	return m
}

// TestMetamorphic runs every trial. A failure prints how to run it alone.
func TestMetamorphic(t *testing.T) {
	before := life.TakeCensus(t)
	m := newMetamorphic(t, *metamorphicSeed, !testing.Short())
	done := 0
	for _, s := range m.subjects {
		t.Run(s.plan.Name, func(t *testing.T) {
			for _, trial := range m.trials {
				if trial.subject == s {
					t.Run(trial.String(), func(t *testing.T) {
						done++
						if err := m.run(trial); err != nil {
							t.Fatal(err)
						}
					})
				}
			}
		})
	}
	t.Logf("%d plans, %d trials of %d: %d spilled rows, %d had hyperbatches that grow", len(m.subjects), done, len(m.trials), m.spilled, m.grown)
	if done == len(m.trials) && (m.spilled == 0 || m.repeats == 0 || m.hubs == 0 || m.grown == 0) {
		t.Errorf("%d trials spilled rows, %d repeated seeds, %d sampled hubs, %d had hyperbatches that grow: the run misses what it is for (-metamorphic.seed=%d)", m.spilled, m.repeats, m.hubs, m.grown, m.seed)
	}
	tree.Empty(t, m.scratch)
	before.Hold(t)
}

// run runs a trial and says how it failed and how it is run again.
func (m *metamorphic) run(a trial) error {
	if err := m.try(a); err != nil {
		short := map[bool]string{true: " -short"}[testing.Short()] // which draws other trials
		return fmt.Errorf("%w\nplan %s, seed %d, under %v\nre-run with: go test ./tests/exactness -run '^TestMetamorphic$/^%s$/^%s$' -metamorphic.seed=%d%s",
			err, a.subject.plan.Name, m.seed, a.settings, a.subject.plan.Name, a.settings, m.seed, short)
	}
	return nil
}

func (m *metamorphic) try(a trial) error {
	path, err := m.store(a)
	if err != nil {
		return fmt.Errorf("building: %w", err)
	}
	memory := a.number("memory") << 20
	var st goagnes.Stats
	for tries := 0; ; tries++ {
		if st, err = m.prepare(a, path, memory); err == nil {
			break
		}
		asks, other := refusal.Asks(err, memory)
		if other != nil || tries > 40 {
			return err
		}
		memory = asks
	}
	m.repeats, m.hubs = m.repeats+a.subject.repeats, m.hubs+a.subject.hubs
	if st.SpilledRowBytes > 0 {
		m.spilled++
	}
	// Each setting must have had its effect.
	engine, ring := a.settings["io"], storage.RingRefusal() == nil
	if engine == "auto" || engine == "uring" {
		engine = map[bool]string{true: "uring", false: "pread"}[ring]
	}
	n := int64(len(a.subject.epoch(0)))
	fixed := 3 * ((n + a.number("hyperbatch") - 1) / a.number("hyperbatch")) // of three epochs
	all := a.settings["delivery"] == "epochs" && a.settings["mode"] != "agnes-no"
	grow := all && a.settings["growing"] == "yes" && a.settings["mode"] == "agnes" && st.Hyperbatches != fixed
	if grow {
		m.grown++
	}
	switch single := a.settings["mode"] == "agnes-no" || a.number("hyperbatch") == 1; {
	case all && !grow && st.Hyperbatches != fixed:
		return fmt.Errorf("%d hyperbatches of %d minibatches, %d are due", st.Hyperbatches, 3*n, fixed)
	case grow && st.Hyperbatches < fixed:
		return fmt.Errorf("%d hyperbatches of %d minibatches that grow, %d that do not", st.Hyperbatches, 3*n, fixed)
	case st.PeakMemory > memory:
		return fmt.Errorf("%d bytes are used of a budget of %d", st.PeakMemory, memory)
	case single && st.Hyperbatches != st.Minibatches:
		return fmt.Errorf("%d hyperbatches for %d minibatches", st.Hyperbatches, st.Minibatches)
	case st.IO.Engine != engine:
		return fmt.Errorf("the way to the device is %q, want %q", st.IO.Engine, engine)
	case len(st.IO.StripeBytes) > int(a.number("stripes")): // those that something was read from
		return fmt.Errorf("%d stripes are counted", len(st.IO.StripeBytes))
	}
	return nil
}

// store returns the path of the trial's store, which is built when first asked
// for.
func (m *metamorphic) store(a trial) (string, error) {
	path := filepath.Join(m.dir, a.subject.graphName+"-"+a.store())
	if _, err := os.Stat(path); err == nil {
		return path, nil
	}
	var dirs []string
	for i := range a.number("stripes") {
		dirs = append(dirs, filepath.Join(m.dir, fmt.Sprint("ssd", i)))
		if err := os.MkdirAll(dirs[i], 0o755); err != nil {
			return "", err
		}
	}
	g := a.subject.graph
	if a.subject.built != nil {
		g = a.subject.built
	}
	_, err := g.Write(path, goagnes.BuildOptions{
		Order: a.settings["order"], BlockSize: a.number("block") << 10, Compression: a.settings["compression"], Stripes: dirs,
	})
	return path, err
}

// options returns the loader's options of a trial.
func (a trial) options() goagnes.LoaderOptions {
	o := a.subject.plan.Options(a.subject.seed)
	o.Mode, o.HyperbatchSize, o.FixedHyperbatch = a.settings["mode"], int(a.number("hyperbatch")), a.settings["growing"] == "no"
	if a.settings["graph_buffer"] == "frames" {
		o.GraphBuffer = 4 * max(a.number("block"), 32) << 10
	}
	if a.settings["feature_buffer"] == "frames" {
		o.FeatureBuffer = 4 * max(a.number("block"), 32) << 10
	}
	o.Compact, o.NoEdgeIDs = a.settings["edges"] == "compact", a.settings["edge_ids"] == "no"
	o.NoFeatures, o.Degree = a.settings["features"] == "no", a.settings["degree"] == "yes"
	return o
}

// prepare prepares the minibatches under a budget and holds them against the
// plain sampler's.
func (m *metamorphic) prepare(a trial, path string, memory int64) (st goagnes.Stats, err error) {
	engine := a.settings["io"]
	if engine == "uring" && storage.RingRefusal() != nil {
		engine = "auto" // not to be had here
	}
	s, err := goagnes.Open(path, goagnes.OpenOptions{Memory: memory, NumThreads: int(a.number("threads")), Scratch: m.scratch, IO: engine})
	if err != nil {
		return st, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	o, given := a.options(), a.options()
	if a.subject.tamper != nil {
		a.subject.tamper(&given)
	}
	if a.settings["delivery"] == "export" {
		return m.export(a, s, o, given)
	}
	l, err := goagnes.NewLoader(s, given)
	if err != nil {
		return st, err
	}
	defer func() { err = errors.Join(err, l.Close()) }()
	g, ctx := a.subject.graph, context.Background()
	if want := a.subject.epoch(0); l.Len() != len(want) {
		return st, fmt.Errorf("Len is %d, want %d", l.Len(), len(want))
	}
	if a.settings["delivery"] == "range" {
		want := a.subject.epoch(7)
		first, end := len(want)/3, len(want)-len(want)/4
		l.SetEpoch(7)
		if err := l.StartRange(ctx, int64(first), int64(end)); err != nil {
			return st, err
		}
		if err := g.Follow(l, o, first, want[:end]); err != nil {
			return st, fmt.Errorf("epoch 7 from minibatch %d to %d: %w", first, end, err)
		}
		l.SetEpoch(0)
	}
	for _, epoch := range []uint32{0, 1, 7} {
		if epoch == 7 {
			if a.settings["delivery"] == "range" {
				break
			}
			l.SetEpoch(7)
		}
		if err := l.Start(ctx); err != nil {
			return st, err
		}
		if err := g.Follow(l, o, 0, a.subject.epoch(epoch)); err != nil {
			return st, fmt.Errorf("epoch %d: %w", epoch, err)
		}
	}
	return l.Stats(), nil
}

// export exports epochs 0 and 1 with the given options, and reads them back.
func (m *metamorphic) export(a trial, s *goagnes.Store, o, given goagnes.LoaderOptions) (st goagnes.Stats, err error) {
	out := filepath.Join(m.dir, "export")
	report, err := goagnes.Export(context.Background(), s, out, goagnes.ExportOptions{LoaderOptions: given, Epochs: 2})
	if err != nil {
		return st, errors.Join(err, os.RemoveAll(out))
	}
	r, err := goagnes.OpenExport(out)
	if err != nil {
		return st, err
	}
	defer func() { err = errors.Join(err, r.Close(), os.RemoveAll(out)) }()
	for epoch := range uint32(2) {
		want := a.subject.epoch(epoch)
		if r.Len() != len(want) {
			return st, fmt.Errorf("%d minibatches are exported, want %d", r.Len(), len(want))
		}
		for i, w := range want {
			b, err := r.Batch(epoch, int64(i))
			if err == nil {
				err = a.subject.graph.Equal(graph.Exported(b), i, w, o)
			}
			if err != nil {
				return st, fmt.Errorf("exported epoch %d: %w", epoch, err)
			}
		}
	}
	return report.Loader, nil
}

// TestMetamorphicFindsFaults plants faults, one at a time, and wants the run to
// find each under every delivery, to say where and how it is run again.
func TestMetamorphicFindsFaults(t *testing.T) {
	m := newMetamorphic(t, *metamorphicSeed, false)
	i := slices.IndexFunc(m.subjects, func(s *subject) bool { return s.plan.Name == "split" })
	whole := m.subjects[i]
	seeds, degrees := whole.graph.Splits["train"], make([]int, whole.graph.Nodes)
	for _, v := range whole.graph.Dst {
		degrees[v]++
	}
	options := func(change func(o *goagnes.LoaderOptions)) func(*subject) {
		return func(s *subject) { s.tamper = change }
	}
	edit := func(change func(g *graph.Graph)) func(*subject) {
		return func(s *subject) {
			g := *s.graph
			g.X, g.Y, g.Src, g.Dst = slices.Clone(g.X), slices.Clone(g.Y), slices.Clone(g.Src), slices.Clone(g.Dst)
			change(&g)
			s.built = &g
		}
	}
	const differs = `minibatch \d+: \w+ is`
	for k, c := range []struct {
		fault string
		plant func(s *subject)
		found string // what is told, "" for nothing
	}{
		{"none", func(*subject) {}, ""},
		{"another seed", options(func(o *goagnes.LoaderOptions) { *o.Seed++ }), differs},
		{"no shuffling", options(func(o *goagnes.LoaderOptions) { o.Shuffle = false }), differs},
		{"one neighbour less", options(func(o *goagnes.LoaderOptions) { o.NumNeighbors = []int{5, 1} }), differs},
		{"an array less or more", options(func(o *goagnes.LoaderOptions) { o.Degree = !o.Degree }), "degree|lacks 1 array"},
		{"minibatches of another size", options(func(o *goagnes.LoaderOptions) { o.BatchSize++ }), `minibatch \d+: \w+ is|Len is|are exported`},
		{"a bit of a feature", edit(func(g *graph.Graph) { g.X[int(seeds[0])*g.RowBytes()+1] ^= 1 }), "x is"},
		{"a bit of a label", edit(func(g *graph.Graph) { g.Y[8*seeds[0]] ^= 1 }), "y is"},
		{"edges the other way round", edit(func(g *graph.Graph) { slices.Reverse(g.Src); slices.Reverse(g.Dst) }), differs},
		{"one edge's source", edit(func(g *graph.Graph) {
			e := slices.IndexFunc(g.Dst, func(v int64) bool { return slices.Contains(seeds, v) && degrees[v] < 5 }) // always drawn
			g.Src[e] = (g.Src[e] + 1) % 2400
		}), differs},
	} {
		for _, delivery := range []string{"epochs", "export"} {
			i := slices.IndexFunc(m.trials, func(a trial) bool {
				return a.settings["delivery"] == delivery && a.settings["features"] == "yes" && a.settings["memory"] != "1"
			})
			a := trial{&subject{}, m.trials[i].settings}
			*a.subject = *whole
			c.plant(a.subject)
			if a.subject.built != nil {
				a.subject.graphName = fmt.Sprint("fault-", k)
			}
			err := m.run(a)
			if c.found == "" {
				if err != nil {
					t.Errorf("%s, %s: %v", c.fault, delivery, err)
				}
				continue
			}
			if err == nil || !regexp.MustCompile(c.found).MatchString(err.Error()) {
				t.Errorf("%s, %s: found %v", c.fault, delivery, err)
				continue
			}
			for _, text := range []string{a.String(), fmt.Sprint("seed ", m.seed), "go test ./tests/exactness -run '^TestMetamorphic$/^split$/^order=", fmt.Sprint("-metamorphic.seed=", m.seed)} {
				if !strings.Contains(err.Error(), text) {
					t.Errorf("%s, %s: %q is not in %q", c.fault, delivery, text, err)
				}
			}
		}
	}
}
