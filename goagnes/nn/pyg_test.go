package nn_test

// Known answers of PyTorch Geometric (testdata/pyg.py): logits, loss, gradients
// and weights after some steps of Adam, on a graph with self-loops, one of them
// twice, repeated edges and an isolated node.

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"testing"

	"github.com/goagnes/goagnes/goagnes/nn"
	"github.com/goagnes/goagnes/kernels"
)

type pygCase struct {
	Kind     string    `json:"kind"`
	Layers   int       `json:"layers"`
	Nodes    int       `json:"nodes"`
	Inputs   int       `json:"inputs"`
	Hidden   int       `json:"hidden"`
	Classes  int       `json:"classes"`
	Edges    [2][]int  `json:"edges"`
	X        []float32 `json:"x"`
	Y        []int64   `json:"y"`
	Weights  []float32 `json:"weights"`
	Logits   []float64 `json:"logits"`
	Loss     float64   `json:"loss"`
	Gradient []float64 `json:"gradient"`
	Heads    int       `json:"heads"`
	Outputs  int       `json:"output_heads"`
	Residual bool      `json:"residual"`
	Steps    int       `json:"steps"`
	Rate     float64   `json:"lr"`
	Decay    float64   `json:"weight_decay"`
	Trained  []float64 `json:"trained"`
}

func pygCases(t *testing.T) []pygCase {
	t.Helper()
	text, err := os.ReadFile("testdata/pyg.json")
	if err != nil {
		t.Fatal(err)
	}
	var document struct {
		Cases []pygCase `json:"cases"`
	}
	if err := json.Unmarshal(text, &document); err != nil {
		t.Fatal(err)
	}
	if len(document.Cases) == 0 {
		t.Fatal("no cases")
	}
	return document.Cases
}

// batch is the whole graph as one minibatch: every node is a seed.
func (c pygCase) batch() nn.Batch {
	b := nn.Batch{NodesPerHop: make([]int, c.Layers+1), Ptr: []uint32{0}, X: kernels.NewMatrix(c.X, c.Nodes, c.Inputs).Input()}
	b.NodesPerHop[0] = c.Nodes
	for v := range c.Nodes {
		for i, target := range c.Edges[1] {
			if target == v {
				b.Src = append(b.Src, uint32(c.Edges[0][i]))
			}
		}
		b.Ptr = append(b.Ptr, uint32(len(b.Src)))
	}
	return b
}

func requireNear(t *testing.T, what string, got []float32, want []float64, tolerance float64) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%s: %d values, want %d", what, len(got), len(want))
	}
	for i, w := range want {
		if !(math.Abs(float64(got[i])-w) <= tolerance*(1+math.Abs(w))) {
			t.Fatalf("%s: element %d is %v, PyG gives %v", what, i, got[i], w)
		}
	}
}

func TestAgainstPyG(t *testing.T) {
	for _, backend := range kernels.Backends() {
		for _, c := range pygCases(t) {
			t.Run(fmt.Sprintf("%s/%s/%d", backend, c.Kind, c.Layers), func(t *testing.T) {
				config := nn.Config{Kind: c.Kind, Inputs: c.Inputs, Hidden: c.Hidden, Classes: c.Classes, Layers: c.Layers,
					Heads: c.Heads, OutputHeads: c.Outputs, Residual: c.Residual}
				m, err := nn.NewModel(config, make([]float32, config.NumParameters()))
				if err != nil {
					t.Fatal(err)
				}
				if copy(m.Values, c.Weights) != len(c.Weights) {
					t.Fatalf("%d weights, want %d", len(m.Values), len(c.Weights))
				}
				b, e := c.batch(), engine(t, backend, 2)
				n := network(t, m, e, b, true)
				labelled := 0
				for _, y := range c.Y {
					if y >= 0 {
						labelled++
					}
				}
				size := len(m.Values)
				gradient, first, second := make([]float32, size), make([]float32, size), make([]float32, size)
				for step := range c.Steps {
					z, err := n.Forward(b, nn.Mode{Train: true})
					if err != nil {
						t.Fatal(err)
					}
					if step == 0 {
						requireNear(t, "logits", z.Data, c.Logits, 1e-5)
					}
					loss := e.CrossEntropy(z, c.Y, z, 1/float32(labelled))
					n.Backward(z, gradient)
					if step == 0 {
						requireNear(t, "loss", []float32{float32(loss.Sum / float64(labelled))}, []float64{c.Loss}, 1e-6)
						requireNear(t, "gradient", gradient, c.Gradient, 1e-5)
					}
					e.Step(kernels.Adam{Rate: c.Rate, Beta1: 0.9, Beta2: 0.999, Epsilon: 1e-8, Decay: c.Decay},
						int64(step)+1, m.Values, gradient, first, second)
				}
				requireNear(t, "trained weights", m.Values, c.Trained, 1e-4)
			})
		}
	}
}
