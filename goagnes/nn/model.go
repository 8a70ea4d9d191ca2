package nn

// Parameters of a network and their initial values.

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/goagnes/goagnes/kernels"
)

// A Parameter is one weight matrix (inputs x outputs, row-major) or bias
// (1 x outputs) of a model, a view of its Values.
type Parameter struct {
	Name       string
	Rows, Cols int
	Values     []float32
}

// IsBias reports whether p is a bias vector.
func (p Parameter) IsBias() bool { return strings.HasSuffix(p.Name, ".bias") }

// A Model is a network with its weights: one array, of which Parameters are
// views, in the order of the layers.
type Model struct {
	Config     Config
	Values     []float32
	Parameters []Parameter
}

// names returns the weights of a layer of the kind.
func (c Config) names() []string {
	if c.Kind == SAGE {
		return sageWeights
	}
	return oneWeight
}

var (
	sageWeights = []string{"neighbor.weight", "self.weight"}
	oneWeight   = []string{"weight"}
)

// NumParameters returns the number of weights of a valid c.
func (c Config) NumParameters() int {
	n := 0
	for l := range c.Layers {
		n += (len(c.names())*c.width(l) + 1) * c.width(l+1)
	}
	return n
}

// NewModel returns a model of zeros in values, which must have c.NumParameters
// elements, or a *ConfigError.
func NewModel(c Config, values []float32) (*Model, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	if len(values) != c.NumParameters() {
		panic(fmt.Sprintf("nn: %d values for %d parameters", len(values), c.NumParameters()))
	}
	m := &Model{Config: c, Values: values}
	clear(values)
	for l := range c.Layers {
		for _, name := range append(slices.Clone(c.names()), "bias") {
			p := Parameter{Name: fmt.Sprintf("layers.%d.%s", l, name), Rows: c.width(l), Cols: c.width(l + 1)}
			if name == "bias" {
				p.Rows = 1
			}
			p.Values, values = values[:p.Rows*p.Cols:p.Rows*p.Cols], values[p.Rows*p.Cols:]
			m.Parameters = append(m.Parameters, p)
		}
	}
	return m, nil
}

// initTag is the last counter word of the stream of initial weights, beside
// those of the sampling stream (docs/sampling.md).
const initTag = 3

// Initialize sets weights to Glorot uniform values (Glorot and Bengio, 2010) and
// biases to 0. Element i of the p-th parameter is drawn from word i mod 4 of
// Philox(seed, {i/4, p, 0, 3}).
func (m *Model) Initialize(seed uint64) {
	key := [2]uint32{uint32(seed), uint32(seed >> 32)}
	for index, p := range m.Parameters {
		if p.IsBias() {
			clear(p.Values)
			continue
		}
		limit := math.Sqrt(6 / float64(p.Rows+p.Cols))
		var w [4]uint32
		for i := range p.Values {
			if i%4 == 0 {
				w = kernels.Philox(key, [4]uint32{uint32(i / 4), uint32(index), 0, initTag})
			}
			u := float64(w[i%4]>>8)/(1<<23) - 1 // multiples of 2^-23 in [-1, 1)
			p.Values[i] = float32(limit * u)
		}
	}
}

// layer returns the weights (self only for SAGE) and the bias of layer l, taken
// from values, which has the layout of m.Values.
func (m *Model) layer(values []float32, l int) (w, self kernels.Matrix, bias []float32) {
	c := m.Config
	in, out := c.width(l), c.width(l+1)
	at := 0
	for i := range l {
		at += (len(c.names())*c.width(i) + 1) * c.width(i+1)
	}
	w = kernels.NewMatrix(values[at:at+in*out], in, out)
	at += in * out
	if c.Kind == SAGE {
		self = kernels.NewMatrix(values[at:at+in*out], in, out)
		at += in * out
	}
	return w, self, values[at : at+out]
}

// FirstLayer returns the number of leading Values that belong to layer 0.
func (m *Model) FirstLayer() int {
	c := m.Config
	return (len(c.names())*c.width(0) + 1) * c.width(1)
}
