package goagnes_test

// Graph attention through a store: training with all neighbours under several
// budgets, and predictions held to the layer's formula over the whole graph.

import (
	"bytes"
	"context"
	"errors"
	"maps"
	"math"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unsafe"

	"github.com/goagnes/goagnes/goagnes"
	"github.com/goagnes/goagnes/goagnes/nn"
	"github.com/goagnes/goagnes/goagnes/train"
	"github.com/goagnes/goagnes/layout"
)

// attend is a layer of nn.GAT in float64, one target after the other.
func attend(m *nn.Model, layer, heads int, average bool, g *rawGraph, x [][]float64) [][]float64 {
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
	product := make([][]float64, g.nodes)
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
	sources := make([][]int64, g.nodes)
	for e, u := range g.src {
		if v := g.dst[e]; u != v {
			sources[v] = append(sources[v], u)
		}
	}
	out := make([][]float64, g.nodes)
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

// attended is a graph with parallel edges, loops and nodes without edges, labels
// from -1 to 6.
func attended(r *rand.Rand, nodes, edges, features int) *rawGraph {
	g := &rawGraph{nodes: nodes, xType: layout.Float32, xShape: []int64{int64(features)}, yType: layout.Int64}
	g.fill(r).draw(r, train.SplitTrain, 6)
	y := make([]int64, nodes)
	for v := range y {
		y[v] = r.Int64N(8) - 1
	}
	g.y = bytesOf(y)
	for e := range edges {
		u, v := r.Int64N(int64(nodes)), r.Int64N(int64(nodes)/4)*3
		switch {
		case e%50 == 1:
			u, v = g.src[e-1], g.dst[e-1]
		case e%97 == 0:
			u = v
		}
		g.src, g.dst = append(g.src, u), append(g.dst, v)
	}
	return g
}

// valuesOf are the bytes' numbers.
func valuesOf[T any](b []byte) []T {
	var zero T
	return unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(b))), len(b)/int(unsafe.Sizeof(zero)))
}

func TestGATThroughStore(t *testing.T) {
	ctx := context.Background()
	g := attended(rand.New(rand.NewPCG(3, 11)), 400, 3000, 6)
	nodes, labels := g.splits[train.SplitTrain], valuesOf[int64](g.y)
	dir := t.TempDir()
	path, model := filepath.Join(dir, "store"), filepath.Join(dir, "model.npz")
	g.build(t, path, goagnes.BuildOptions{BlockSize: 4096, Order: "degree"})

	options := train.Options{
		Model: nn.GAT, Layers: 2, Hidden: 12, Heads: 3, OutputHeads: 2, Residual: true, Epochs: 4, BatchSize: 16, LearningRate: 0.02,
		NumNeighbors: []int{-1, -1}, Seed: 9,
	}
	hashes := map[string]bool{}
	for _, c := range []struct {
		memory           int64
		threads, prepare int
	}{{64 << 20, 2, 0}, {24 << 20, 1, 0}} {
		s := open(t, path, goagnes.OpenOptions{Memory: c.memory, NumThreads: c.threads, Scratch: t.TempDir()})
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
	x := make([][]float64, g.nodes)
	for v := range x {
		for _, f := range valuesOf[float32](g.x)[6*v : 6*v+6] {
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

	s := open(t, path, goagnes.OpenOptions{Memory: 64 << 20, Scratch: t.TempDir()})
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

// A model for other classes or other rows than the store's is refused before
// anything is read.
func TestPredictRefusesOtherData(t *testing.T) {
	dir := t.TempDir()
	model := filepath.Join(dir, "model.npz")
	base := attended(rand.New(rand.NewPCG(3, 12)), 100, 300, 4)
	paths := map[string]string{}
	for name, change := range map[string]func(g *rawGraph){
		"same":     func(*rawGraph) {},
		"classes":  func(g *rawGraph) { g.y = append(bytesOf([]int64{40}), g.y[8:]...) },
		"features": func(g *rawGraph) { g.x, g.xShape = g.x[:12*g.nodes], []int64{3} },
		"unknown":  func(g *rawGraph) { g.y = bytes.Repeat([]byte{255}, 8*g.nodes) },
	} {
		g := *base
		change(&g)
		paths[name] = filepath.Join(dir, name)
		g.build(t, paths[name], goagnes.BuildOptions{BlockSize: 4096})
	}
	s := open(t, paths["same"], goagnes.OpenOptions{Memory: 32 << 20, Scratch: t.TempDir()})
	_, err := goagnes.Train(context.Background(), s, goagnes.TrainOptions{Save: model,
		Options: train.Options{Model: nn.GAT, Layers: 1, Epochs: 1}})
	s.Close()
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"same": "", "classes": "classes apart, the store has 41", "features": "rows of 4 features, the store has 3", "unknown": ""} {
		s := open(t, paths[name], goagnes.OpenOptions{Memory: 32 << 20, Scratch: t.TempDir()})
		calls := 0
		err := goagnes.Predict(context.Background(), s, model, goagnes.PredictOptions{PredictOptions: train.PredictOptions{Split: "train"}},
			func(goagnes.Prediction) error { calls++; return nil })
		s.Close()
		var argument *goagnes.ArgumentError
		if want == "" {
			if err != nil || calls == 0 {
				t.Errorf("%s: %d minibatches, %v", name, calls, err)
			}
		} else if !errors.As(err, &argument) || !strings.Contains(err.Error(), want) || calls > 0 {
			t.Errorf("%s: %v after %d minibatches, want %q", name, err, calls, want)
		}
	}
}
