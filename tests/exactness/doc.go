// Package exactness holds tests only: whatever the settings, a minibatch is bit for bit
// what the plain sampler draws, a store of any format version gives what its graph
// says, and attention through a store is the layer's formula.
package exactness
