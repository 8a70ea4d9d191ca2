// Package nn provides the graph neural networks that goagnes trains: GCN, SAGE
// (mean), GAT and MLP, one to five layers, forward and backward over one minibatch.
//
// A minibatch is a compact graph: its nodes are numbered from 0, seeds first and
// then hop by hop, and the in-edges of every node but those of the last hop are
// given in compressed sparse columns. Layer l (from 0) of L is computed only for
// the nodes of hops 0 to L-l-1 from those of hops 0 to L-l, which is what PyG's
// trim_to_layer does.
//
// # Definitions
//
// With X the rows of a layer's input, each layer gives
//
//	gcn   Â X W + b,  Â(t,u) = 1/sqrt(D_t D_u), D = in-degree with the self-loop
//	sage  mean(X of in-neighbours) Wn + X Ws + b
//	gat   Σ a(t,u) X_u W + X R + b, heads side by side, or averaged in the last layer,
//	      a(t,u) = softmax over t's edges of LeakyReLU(X_u W·p + X_t W·q)
//	mlp   X W + b
//
// followed, except in the last layer, by ReLU (gat: ELU) and dropout. gcn is PyG's GCNConv
// with its default normalisation (add_remaining_self_loops: however many
// self-loops a node has, one counts), sage is PyG's SAGEConv with aggr="mean"
// (a node without in-neighbours has mean 0), gat is PyG's GATConv with a slope of
// 0.2 (self-loops are removed, one is added), a with its own dropout, R only where
// Residual is set. A row of a minibatch's edges is never made: memory grows with
// heads x edges. Weights are Glorot uniform and
// biases 0; PyG draws SAGEConv's otherwise (Kaiming uniform).
//
// # Invariants
//
//   - Weights have the same bits for every number of threads, and for equal
//     seeds; masks and initial weights come from Philox counters.
//   - All scratch of a pass lies in one arena that the caller supplies, of
//     [Config.ActivationBytes]; passes leave no garbage but closures.
//   - A graph that points outside its minibatch is found before it is followed.
//
// # Limits
//
// Five layers; 65,536 units a layer; classification with one label a node.
package nn

import (
	"fmt"

	"github.com/goagnes/goagnes/kernels"
)

// Limits of a Config.
const (
	MaxLayers = 5
	MaxUnits  = 1 << 16
	MaxHeads  = 256
)

// The kinds of model.
const (
	GCN  = "gcn"
	SAGE = "sage"
	GAT  = "gat"
	MLP  = "mlp"
)

// Config describes a network.
type Config struct {
	Kind         string  `json:"kind"`          // "gcn", "sage", "gat" or "mlp"
	Inputs       int     `json:"inputs"`        // features of a node
	Hidden       int     `json:"hidden"`        // units of each layer but the last
	Classes      int     `json:"classes"`       // units of the last layer
	Layers       int     `json:"layers"`        // 1 to 5
	Dropout      float64 `json:"dropout"`       // rate in [0, 1), before every layer but the first
	InputDropout bool    `json:"input_dropout"` // before the first layer too

	// Of gat alone; zero elsewhere.
	Heads            int     `json:"heads,omitempty"`             // of every layer but the last, side by side: Hidden/Heads units each
	OutputHeads      int     `json:"output_heads,omitempty"`      // of the last layer, averaged
	AttentionDropout float64 `json:"attention_dropout,omitempty"` // rate in [0, 1) of the coefficients a
	Residual         bool    `json:"residual,omitempty"`          // a linear skip X R in every layer
}

// A ConfigError names the field of a Config that is refused, and why.
type ConfigError struct {
	Field  string
	Reason string
}

func (e *ConfigError) Error() string { return fmt.Sprintf("nn: %s: %s", e.Field, e.Reason) }

// Class returns "usage".
func (e *ConfigError) Class() string { return "usage" }

// Validate returns a *ConfigError for the first field that is out of bounds.
func (c Config) Validate() error {
	if c.Kind != GCN && c.Kind != SAGE && c.Kind != GAT && c.Kind != MLP {
		return &ConfigError{"kind", fmt.Sprintf("%q is not a model; choose gcn, sage, gat or mlp", c.Kind)}
	}
	for _, f := range []struct {
		name      string
		v, lo, hi int
	}{
		{"layers", c.Layers, 1, MaxLayers}, {"inputs", c.Inputs, 1, MaxUnits},
		{"hidden", c.Hidden, 1, MaxUnits}, {"classes", c.Classes, 1, MaxUnits},
	} {
		if f.v < f.lo || f.v > f.hi {
			return &ConfigError{f.name, fmt.Sprintf("%d is outside %d to %d", f.v, f.lo, f.hi)}
		}
	}
	if !(c.Dropout >= 0 && c.Dropout < 1) {
		return &ConfigError{"dropout", fmt.Sprintf("%v is outside [0, 1)", c.Dropout)}
	}
	if c.Kind == GAT {
		return c.validateAttention()
	}
	switch {
	case c.Heads != 0 || c.OutputHeads != 0:
		return &ConfigError{"heads", fmt.Sprintf("a %s has none; leave it out, or choose gat", c.Kind)}
	case c.AttentionDropout != 0:
		return &ConfigError{"attention_dropout", fmt.Sprintf("a %s has no attention; leave it out, or choose gat", c.Kind)}
	case c.Residual:
		return &ConfigError{"residual", fmt.Sprintf("a %s has no linear skips; leave it out, or choose gat", c.Kind)}
	}
	return nil
}

func (c Config) validateAttention() error {
	switch {
	case c.Heads < 1 || c.Heads > MaxHeads:
		return &ConfigError{"heads", fmt.Sprintf("%d is outside 1 to %d", c.Heads, MaxHeads)}
	case c.OutputHeads < 1 || c.OutputHeads > MaxHeads:
		return &ConfigError{"output_heads", fmt.Sprintf("%d is outside 1 to %d", c.OutputHeads, MaxHeads)}
	case c.Layers > 1 && c.Hidden%c.Heads != 0:
		return &ConfigError{"hidden", fmt.Sprintf("%d units are no multiple of %d heads", c.Hidden, c.Heads)}
	case !(c.AttentionDropout >= 0 && c.AttentionDropout < 1):
		return &ConfigError{"attention_dropout", fmt.Sprintf("%v is outside [0, 1)", c.AttentionDropout)}
	case c.Classes*c.OutputHeads > MaxUnits:
		return &ConfigError{"output_heads", fmt.Sprintf("%d heads of %d classes are more than %d units", c.OutputHeads, c.Classes, MaxUnits)}
	}
	return nil
}

// Hops returns the number of hops of a minibatch the network reads.
func (c Config) Hops() int {
	if c.Kind == MLP {
		return 0
	}
	return c.Layers
}

// width returns the number of units entering layer l; width(Layers) is that of
// the output.
func (c Config) width(l int) int {
	switch l {
	case 0:
		return c.Inputs
	case c.Layers:
		return c.Classes
	}
	return c.Hidden
}

// heads returns the heads of layer l of a gat, and the units of each.
func (c Config) heads(l int) (heads, units int) {
	if l == c.Layers-1 {
		return c.OutputHeads, c.Classes
	}
	return c.Heads, c.Hidden / c.Heads
}

// activation is the function after every layer but the last.
func (c Config) activation(l int) kernels.Activation {
	switch {
	case l == c.Layers-1:
		return kernels.Identity
	case c.Kind == GAT:
		return kernels.ELU
	}
	return kernels.ReLU
}

// transformFirst reports whether layer l multiplies by its weights before it
// aggregates, A(XW), instead of (AX)W. Both are the same sum. Aggregating first
// multiplies only the rows of targets, several times fewer than those of
// sources, so transforming first pays only where it makes rows much narrower.
// It is also the way to read a masked input once a row instead of once an edge.
// The rule leaves the minibatch out so that memory can be planned.
func (c Config) transformFirst(l int) bool {
	switch c.Kind {
	case MLP:
		return false
	case GAT: // scores are those of transformed rows
		return true
	}
	return c.width(l) >= 8*c.width(l+1) || l == 0 && c.InputDropout && c.Dropout > 0
}
