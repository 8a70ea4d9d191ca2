package goagnes_test

// Predictions refuse data that the model was not trained for.

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"

	"github.com/goagnes/goagnes/goagnes"
	"github.com/goagnes/goagnes/goagnes/nn"
	"github.com/goagnes/goagnes/goagnes/train"
	"github.com/goagnes/goagnes/tests/fixture/graph"
	"github.com/goagnes/goagnes/tests/fixture/life"
)

// A model for other classes or other rows than the store's is refused before
// anything is read.
func TestPredictRefusesOtherData(t *testing.T) {
	dir := t.TempDir()
	model := filepath.Join(dir, "model.npz")
	base := graph.Labelled(rand.New(rand.NewPCG(3, 12)), 100, 300, 4)
	paths := map[string]string{}
	for name, change := range map[string]func(g *graph.Graph){
		"same":     func(*graph.Graph) {},
		"classes":  func(g *graph.Graph) { g.Y = append(graph.BytesOf([]int64{40}), g.Y[8:]...) },
		"features": func(g *graph.Graph) { g.X, g.XShape = g.X[:12*g.Nodes], []int64{3} },
		"unknown":  func(g *graph.Graph) { g.Y = bytes.Repeat([]byte{255}, 8*g.Nodes) },
	} {
		g := *base
		change(&g)
		paths[name] = filepath.Join(dir, name)
		g.Build(t, paths[name], goagnes.BuildOptions{BlockSize: 4096})
	}
	s := life.Open(t, paths["same"], goagnes.OpenOptions{Memory: 32 << 20, Scratch: t.TempDir()})
	_, err := goagnes.Train(context.Background(), s, goagnes.TrainOptions{Save: model,
		Options: train.Options{Model: nn.GAT, Layers: 1, Epochs: 1}})
	s.Close()
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"same": "", "classes": "classes apart, the store has 41", "features": "rows of 4 features, the store has 3", "unknown": ""} {
		s := life.Open(t, paths[name], goagnes.OpenOptions{Memory: 32 << 20, Scratch: t.TempDir()})
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
