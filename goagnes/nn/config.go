// Package nn provides the graph neural networks that goagnes trains: GCN, SAGE
// (mean) and MLP, one to five layers, forward and backward over one minibatch.
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
//	mlp   X W + b
//
// followed, except in the last layer, by ReLU and dropout. gcn is PyG's GCNConv
// with its default normalisation (add_remaining_self_loops: however many
// self-loops a node has, one counts), sage is PyG's SAGEConv with aggr="mean"
// (a node without in-neighbours has mean 0). Weights are Glorot uniform and
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

import "fmt"

// Limits of a Config.
const (
	MaxLayers = 5
	MaxUnits  = 1 << 16
)

// The kinds of model.
const (
	GCN  = "gcn"
	SAGE = "sage"
	MLP  = "mlp"
)

// Config describes a network.
type Config struct {
	Kind         string  `json:"kind"`          // "gcn", "sage" or "mlp"
	Inputs       int     `json:"inputs"`        // features of a node
	Hidden       int     `json:"hidden"`        // units of each layer but the last
	Classes      int     `json:"classes"`       // units of the last layer
	Layers       int     `json:"layers"`        // 1 to 5
	Dropout      float64 `json:"dropout"`       // rate in [0, 1), before every layer but the first
	InputDropout bool    `json:"input_dropout"` // before the first layer too
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
	if c.Kind != GCN && c.Kind != SAGE && c.Kind != MLP {
		return &ConfigError{"kind", fmt.Sprintf("%q is not a model; choose gcn, sage or mlp", c.Kind)}
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

// transformFirst reports whether layer l multiplies by its weights before it
// aggregates, A(XW), instead of (AX)W. Both are the same sum. Aggregating first
// multiplies only the rows of targets, several times fewer than those of
// sources, so transforming first pays only where it makes rows much narrower.
// It is also the way to read a masked input once a row instead of once an edge.
// The rule leaves the minibatch out so that memory can be planned.
func (c Config) transformFirst(l int) bool {
	if c.Kind == MLP {
		return false
	}
	return c.width(l) >= 8*c.width(l+1) || l == 0 && c.InputDropout && c.Dropout > 0
}
