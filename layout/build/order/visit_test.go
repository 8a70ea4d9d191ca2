package order

// The arithmetic of the order "visit" against math.

import (
	"math"
	"testing"
)

func TestHitAndHazard(t *testing.T) {
	for _, x := range []float64{0, 1e-300, 1e-9, 0.01, 0.125, 0.126, 0.5, 1, 3, 17, 63, 64, 1e9} {
		if got, want := hit(x), -math.Expm1(-x); math.Abs(got-want) > 1e-12*want {
			t.Errorf("hit(%g) = %g, expected %g", x, got, want)
		}
		if got := hazard(x / 1e9); math.Abs(got+math.Log1p(-x/1e9)) > 1e-12*got && x < 1e9 {
			t.Errorf("hazard(%g) = %g, expected %g", x/1e9, got, -math.Log1p(-x/1e9))
		}
	}
	for _, p := range []float64{0.01, 0.3, 0.5, 0.51, 0.7, 0.75, 0.9, 0.999, 1 - 1e-9} {
		if got, want := hazard(p), -math.Log1p(-p); math.Abs(got-want) > 1e-12*want {
			t.Errorf("hazard(%g) = %g, expected %g", p, got, want)
		}
		if got := hit(hazard(p)); math.Abs(got-p) > 1e-12 {
			t.Errorf("hit(hazard(%g)) = %g", p, got)
		}
	}
	if hazard(1) != maxHazard || hazard(0) != 0 {
		t.Error("the ends of hazard")
	}
}
