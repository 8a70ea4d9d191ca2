package train

// What a run takes of its Allocator, told before the first minibatch.

import (
	"github.com/goagnes/goagnes/goagnes/nn"
	"github.com/goagnes/goagnes/layout"
)

// modelArrays is the number of arrays of the model's size that a run holds:
// weights, gradient, two moments, kept weights.
const modelArrays = 5

// ModelBytes returns the bytes that a run takes for the model and its optimiser,
// from beginning to end.
func (s Settings) ModelBytes(shape Shape) int64 {
	return modelArrays * 4 * int64(s.config(shape).NumParameters())
}

// ArenaBytes returns the bytes that a pass over a minibatch of at most these new
// nodes (hops+1 entries) and edges (hops entries) by hop takes from the
// Allocator: activations, with gradients where train is set, the rows' sums, and
// features of types that have to be widened. An arena that has to grow is taken
// an eighth larger than that, where memory allows.
func (s Settings) ArenaBytes(shape Shape, nodes, edges []int, train bool) int64 {
	return arenaBytes(s.config(shape), shape.DType, s.NormalizeFeatures, nodes, edges, train)
}

// ArenaBytes is [Settings.ArenaBytes] for predictions of the model.
func (m *Model) ArenaBytes(shape Shape, nodes, edges []int) int64 {
	return arenaBytes(m.Network.Config, shape.DType, m.NormalizeFeatures, nodes, edges, false)
}

func arenaBytes(c nn.Config, d layout.DType, normalize string, nodes, edges []int, train bool) int64 {
	perNode := 0
	if divides(normalize) {
		perNode++
	}
	if d != 0 && !direct(d) {
		perNode += c.Inputs
	}
	n := c.ActivationBytes(nn.Bound{NodesPerHop: nodes, EdgesPerHop: edges}, train)
	for _, k := range nodes {
		n += 4 * int64(k) * int64(perNode)
	}
	return n
}
