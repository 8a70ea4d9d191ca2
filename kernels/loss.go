package kernels

// Log-softmax cross-entropy.

import (
	"fmt"
	"math"
)

// A Loss sums up the labelled rows of logits.
type Loss struct {
	Sum      float64 // of -log softmax(z)[label]
	Labelled int
	Correct  int // rows whose largest logit (the first, among equals) is the label's
}

func (l *Loss) add(m Loss) {
	l.Sum += m.Sum
	l.Labelled += m.Labelled
	l.Correct += m.Correct
}

// CrossEntropy returns the loss of logits z. Rows labelled -1 are ignored. Unless
// grad is empty it is set to scale times the gradient of Loss.Sum, 0 in ignored
// rows; grad may be z itself.
func (e *Engine) CrossEntropy(z Matrix, labels []int64, grad Matrix, scale float32) (total Loss) {
	z.check("CrossEntropy")
	grad.check("CrossEntropy gradient")
	if len(labels) < z.Rows || grad.Data != nil && (grad.Rows != z.Rows || grad.Cols != z.Cols) {
		panic(fmt.Sprintf("kernels: CrossEntropy: %dx%d logits, %d labels, %dx%d gradient", z.Rows, z.Cols, len(labels), grad.Rows, grad.Cols))
	}
	for r, label := range labels[:z.Rows] {
		if label < -1 || label >= int64(z.Cols) {
			panic(fmt.Sprintf("kernels: CrossEntropy: label %d of row %d, %d classes", label, r, z.Cols))
		}
	}
	// One sum for each range of rows, added up in order, whoever computed them.
	grain := max(1, 4096/max(z.Cols, 1))
	sums := make([]Loss, (z.Rows+grain-1)/grain)
	e.each(z.Rows, grain, func(_, lo, hi int) {
		sum := &sums[lo/grain]
		for r := lo; r < hi; r++ {
			var g []float32
			if grad.Data != nil {
				g = grad.row(r)
			}
			sum.add(crossEntropy(z.row(r), labels[r], g, scale))
		}
	})
	for _, s := range sums {
		total.add(s)
	}
	return total
}

// crossEntropy is the loss of one row, in float64. g may be nil, or z.
func crossEntropy(z []float32, label int64, g []float32, scale float32) Loss {
	if label < 0 {
		clear(g)
		return Loss{}
	}
	best := Argmax(z)
	peak := float64(z[best])
	var sum float64
	for _, v := range z {
		sum += math.Exp(float64(v) - peak)
	}
	lse := peak + math.Log(sum)
	loss := Loss{Sum: lse - float64(z[label]), Labelled: 1}
	if best == int(label) {
		loss.Correct = 1
	}
	if g != nil {
		for c, v := range z {
			g[c] = scale * float32(math.Exp(float64(v)-lse))
		}
		g[label] -= scale
	}
	return loss
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
