// Package operation is the operation layer: it prepares minibatches.
package operation
