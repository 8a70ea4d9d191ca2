package kernels

// The Adam optimiser.

import (
	"fmt"
	"math"
)

// Adam holds the constants of torch.optim.Adam (Kingma and Ba, 2015); Decay is
// L2 (added to the gradient), not decoupled.
type Adam struct {
	Rate, Beta1, Beta2, Epsilon, Decay float64
}

type adamStep struct {
	step, beta1, beta2, eps, decay, invSqrtBias2 float32
}

// Step updates parameters p and the moments m and v by gradient g, as the n-th
// step (from 1).
func (e *Engine) Step(a Adam, n int64, p, g, m, v []float32) {
	if len(g) != len(p) || len(m) != len(p) || len(v) != len(p) || n < 1 {
		panic(fmt.Sprintf("kernels: Step %d: %d parameters, %d gradients, %d and %d moments", n, len(p), len(g), len(m), len(v)))
	}
	s := adamStep{
		step:         float32(a.Rate / (1 - math.Pow(a.Beta1, float64(n)))),
		beta1:        float32(a.Beta1),
		beta2:        float32(a.Beta2),
		eps:          float32(a.Epsilon),
		decay:        float32(a.Decay),
		invSqrtBias2: float32(1 / math.Sqrt(1-math.Pow(a.Beta2, float64(n)))),
	}
	e.each(len(p), 1<<15, func(_, lo, hi int) {
		e.tiles.adam(p[lo:hi], g[lo:hi], m[lo:hi], v[lo:hi], s)
	})
}
