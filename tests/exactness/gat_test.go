package exactness

// Graph attention through a store: training with all neighbours under several
// budgets, and predictions held to the layer's formula over the whole graph.

import (
	"context"
	"maps"
	"math"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/goagnes/goagnes/goagnes"
	"github.com/goagnes/goagnes/goagnes/nn"
	"github.com/goagnes/goagnes/goagnes/train"
	"github.com/goagnes/goagnes/tests/fixture/graph"
	"github.com/goagnes/goagnes/tests/fixture/life"
)

// attend is a layer of nn.GAT in float64, one target after the other.
func attend(m *nn.Model, layer, heads int, average bool, g *graph.Graph, x [][]float64) [][]float64 {
	p := map[string]nn.Parameter{}
	for _, q := range m.Parameters {
		if name, ok := strings.CutPrefix(q.Name, "layers."+string(rune('0'+layer))+"."); ok {
			p[name] = q
		}
	}
	times := func(row []float64, w nn.Parameter) []float64 {
		out := make([]float64, w.Cols)
		for i, v := range row {
			for j := range out {
				out[j] += v * float64(w.Values[i*w.Cols+j])
			}
		}
		return out
	}
	product := make([][]float64, g.Nodes)
	for v := range product {
		product[v] = times(x[v], p["weight"])
	}
	units := p["weight"].Cols / heads
	score := func(v, h int, a nn.Parameter) (s float64) {
		for j := range units {
			s += product[v][h*units+j] * float64(a.Values[h*units+j])
		}
		return s
	}
	sources := make([][]int64, g.Nodes)
	for e, u := range g.Src {
		if v := g.Dst[e]; u != v {
			sources[v] = append(sources[v], u)
		}
	}
	out := make([][]float64, g.Nodes)
	for v := range out {
		out[v] = times(x[v], p["residual.weight"])
		for h := range heads {
			sum, row := 0.0, make([]float64, units)
			for _, u := range append(sources[v], int64(v)) {
				s := score(int(u), h, p["attention.source"]) + score(v, h, p["attention.target"])
				a := math.Exp(max(s, 0.2*s))
				sum += a
				for j := range row {
					row[j] += a * product[u][h*units+j]
				}
			}
			for j := range row {
				if average {
					out[v][j] += row[j] / sum / float64(heads)
				} else {
					out[v][h*units+j] += row[j] / sum
				}
			}
		}
		for j := range out[v] {
			out[v][j] += float64(p["bias"].Values[j])
		}
	}
	return out
}

func TestGATThroughStore(t *testing.T) {
	ctx := context.Background()
	g := graph.Labelled(rand.New(rand.NewPCG(3, 11)), 400, 3000, 6)
	nodes, labels := g.Splits[train.SplitTrain], graph.ValuesOf[int64](g.Y)
	dir := t.TempDir()
	path, model := filepath.Join(dir, "store"), filepath.Join(dir, "model.npz")
	g.Build(t, path, goagnes.BuildOptions{BlockSize: 4096, Order: "degree"})

	options := train.Options{
		Model: nn.GAT, Layers: 2, Hidden: 12, Heads: 3, OutputHeads: 2, Residual: true, Epochs: 4, BatchSize: 16, LearningRate: 0.02,
		NumNeighbors: []int{-1, -1}, Seed: 9,
	}
	hashes := map[string]bool{}
	for _, c := range []struct {
		memory           int64
		threads, prepare int
	}{{64 << 20, 2, 0}, {24 << 20, 1, 0}} {
		s := life.Open(t, path, goagnes.OpenOptions{Memory: c.memory, NumThreads: c.threads, Scratch: t.TempDir()})
		o := options
		var done, total []int64
		o.Progress = func(stage string, d, all int64) { done, total = append(done, d), append(total, all) }
		r, err := goagnes.Train(ctx, s, goagnes.TrainOptions{Options: o, Save: model, HyperbatchSize: c.prepare})
		if err != nil {
			t.Fatal(err)
		}
		hashes[r.WeightsSHA256] = true
		if first, last := r.Epochs[0], r.Epochs[3]; last.TrainLoss >= first.TrainLoss {
			t.Errorf("train loss %v after %v", last.TrainLoss, first.TrainLoss)
		}
		all := 4 * int64((len(nodes)+15)/16)
		if int64(len(done)) != all || done[all-1] != all || slices.Min(total) != all || slices.Max(total) != all {
			t.Errorf("progress %v of %v, want %d minibatches", done, total, all)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
	if len(hashes) != 1 {
		t.Errorf("weights differ by budget and threads: %v", slices.Collect(maps.Keys(hashes)))
	}

	m, err := train.Load(model)
	if err != nil {
		t.Fatal(err)
	}
	x := make([][]float64, g.Nodes)
	for v := range x {
		for _, f := range graph.ValuesOf[float32](g.X)[6*v : 6*v+6] {
			x[v] = append(x[v], float64(f))
		}
	}
	x = attend(m.Network, 0, 3, false, g, x)
	for _, row := range x {
		for j, v := range row {
			if v < 0 {
				row[j] = math.Expm1(v)
			}
		}
	}
	x = attend(m.Network, 1, 2, true, g, x)

	s := life.Open(t, path, goagnes.OpenOptions{Memory: 64 << 20, Scratch: t.TempDir()})
	defer s.Close()
	var seen, told []int64
	predict := goagnes.PredictOptions{PredictOptions: train.PredictOptions{Split: "train", BatchSize: 32}}
	predict.Progress = func(_ string, done, total int64) { told = append(told, done, total) }
	err = goagnes.Predict(ctx, s, model, predict, func(p goagnes.Prediction) error {
		for i, v := range p.NID {
			seen = append(seen, v)
			for j, want := range x[v] {
				if got := float64(p.Logits.Data[i*p.Logits.Stride+j]); math.Abs(got-want) > 1e-4*(1+math.Abs(want)) {
					t.Fatalf("logit %d of node %d is %v, want %v", j, v, got, want)
				}
			}
			if p.Labels[i] != labels[v] {
				t.Fatalf("label of node %d is %d, want %d", v, p.Labels[i], labels[v])
			}
		}
		return nil
	})
	if err != nil || !slices.Equal(seen, nodes) {
		t.Errorf("%d nodes predicted, %d in the split (%v)", len(seen), len(nodes), err)
	}
	n := int64(len(nodes))
	if k := len(told); k != 2*((len(nodes)+31)/32) || told[k-2] != n || told[k-1] != n {
		t.Errorf("progress %v, want %d nodes in the end", told, n)
	}
}
