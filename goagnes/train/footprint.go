package train

import "github.com/goagnes/goagnes/goagnes/nn"

// ArenaBytes returns the bytes that a pass over a minibatch of these new nodes
// (hops+1 entries) and edges (hops entries) by hop takes from the Allocator:
// activations, with gradients where train is set, and the rows' sums. An arena
// that has to grow is taken an eighth larger than that, where memory allows.
func (s Settings) ArenaBytes(shape Shape, nodes, edges []int, train bool) int64 {
	n := s.config(shape).ActivationBytes(nn.Bound{NodesPerHop: nodes, EdgesPerHop: edges}, train)
	if s.NormalizeFeatures {
		for _, k := range nodes {
			n += 4 * int64(k)
		}
	}
	return n
}

// ArenaBytes is [Settings.ArenaBytes] for predictions of the model.
func (m *Model) ArenaBytes(nodes, edges []int) int64 {
	n := m.Network.Config.ActivationBytes(nn.Bound{NodesPerHop: nodes, EdgesPerHop: edges}, false)
	if m.NormalizeFeatures {
		for _, k := range nodes {
			n += 4 * int64(k)
		}
	}
	return n
}
