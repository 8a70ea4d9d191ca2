package kernels

// Log-softmax cross-entropy.

import (
	"fmt"
	"math"
)

// CrossEntropy returns the sum over labelled rows of -log softmax(z)[label],
// how many rows are labelled, and for how many of these the largest logit (the
// first, among equals) is the label's. Rows labelled -1 are ignored. Unless grad
// is empty it is set to scale times the gradient of that sum, 0 in ignored rows;
// grad may be z itself.
func CrossEntropy(z Matrix, labels []int64, grad Matrix, scale float32) (loss float64, labelled, correct int) {
	z.check("CrossEntropy")
	if len(labels) < z.Rows || grad.Data != nil && (grad.Rows != z.Rows || grad.Cols != z.Cols) {
		panic(fmt.Sprintf("kernels: CrossEntropy: %dx%d logits, %d labels, %dx%d gradient", z.Rows, z.Cols, len(labels), grad.Rows, grad.Cols))
	}
	if z.Cols == 0 {
		return 0, 0, 0
	}
	for r := range z.Rows {
		row, label := z.row(r), labels[r]
		if label == -1 {
			if grad.Data != nil {
				clear(grad.row(r))
			}
			continue
		}
		if label < 0 || label >= int64(z.Cols) {
			panic(fmt.Sprintf("kernels: CrossEntropy: label %d of row %d, %d classes", label, r, z.Cols))
		}
		best := Argmax(row)
		peak := float64(row[best])
		var sum float64
		for _, v := range row {
			sum += math.Exp(float64(v) - peak)
		}
		lse := peak + math.Log(sum)
		loss += lse - float64(row[label])
		labelled++
		if best == int(label) {
			correct++
		}
		if grad.Data == nil {
			continue
		}
		g := grad.row(r)
		for c, v := range row {
			g[c] = scale * float32(math.Exp(float64(v)-lse))
		}
		g[label] -= scale
	}
	return loss, labelled, correct
}

// Argmax returns the index of the first largest element of a row of at least
// one. A NaN is never the largest, unless it comes first.
func Argmax(row []float32) int {
	best := 0
	for i, v := range row {
		if v > row[best] {
			best = i
		}
	}
	return best
}
