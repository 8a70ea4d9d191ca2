package nn

// Parameters of a network and their initial values.

import (
	"fmt"
	"math"
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

// shape is the name and size of one parameter of a layer.
type shape struct {
	name       string
	rows, cols int
}

// shapes returns the parameters of layer l in their order, the bias last.
func (c Config) shapes(l int) []shape {
	in, out := c.width(l), c.width(l+1)
	bias := shape{"bias", 1, out}
	switch c.Kind {
	case SAGE:
		return []shape{{"neighbor.weight", in, out}, {"self.weight", in, out}, bias}
	case GAT:
		heads, units := c.heads(l)
		s := []shape{{"weight", in, heads * units}, {"attention.source", heads, units}, {"attention.target", heads, units}}
		if c.Residual {
			s = append(s, shape{"residual.weight", in, out})
		}
		return append(s, bias)
	}
	return []shape{{"weight", in, out}, bias}
}

// layerSize returns the number of weights of layer l.
func (c Config) layerSize(l int) (n int) {
	for _, s := range c.shapes(l) {
		n += s.rows * s.cols
	}
	return n
}

// NumParameters returns the number of weights of a valid c.
func (c Config) NumParameters() (n int) {
	for l := range c.Layers {
		n += c.layerSize(l)
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
		for _, s := range c.shapes(l) {
			p := Parameter{Name: fmt.Sprintf("layers.%d.%s", l, s.name), Rows: s.rows, Cols: s.cols}
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

// weights are the parameters of one layer; what a kind lacks is empty.
type weights struct {
	w      kernels.Matrix
	self   kernels.Matrix // of a target's own row: SAGE's, or gat's linear skip
	source []float32      // gat: the vectors whose products with X W are the scores
	target []float32
	bias   []float32
}

// layer returns the parameters of layer l, taken from values, which has the layout
// of m.Values.
func (m *Model) layer(values []float32, l int) (p weights) {
	at := 0
	for i := range l {
		at += m.Config.layerSize(i)
	}
	for _, s := range m.Config.shapes(l) {
		v := values[at : at+s.rows*s.cols]
		at += len(v)
		switch s.name {
		case "weight", "neighbor.weight":
			p.w = kernels.NewMatrix(v, s.rows, s.cols)
		case "self.weight", "residual.weight":
			p.self = kernels.NewMatrix(v, s.rows, s.cols)
		case "attention.source":
			p.source = v
		case "attention.target":
			p.target = v
		case "bias":
			p.bias = v
		}
	}
	return p
}

// FirstLayer returns the number of leading Values that belong to layer 0.
func (m *Model) FirstLayer() int { return m.Config.layerSize(0) }
