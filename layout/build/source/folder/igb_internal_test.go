package folder

import (
	"slices"
	"testing"

	"github.com/goagnes/goagnes/layout"
	"github.com/goagnes/goagnes/layout/build/source/sourcetest"
)

// Labels of the largest IGB graph end before its papers do.
func TestPaddedLabels(t *testing.T) {
	values := make([]int64, 5)
	rows := sourcetest.IntRows(t, layout.Int64, []int64{5}, values...)
	for labelled, want := range map[int64][]int64{5: {0, 0, 0, 0, 0}, 3: {0, 0, 0, -1, -1}, 0: {-1, -1, -1, -1, -1}} {
		if got := sourcetest.AllInts(t, paddedLabels{rows, labelled}); !slices.Equal(got, want) {
			t.Errorf("%d labelled: %v, expected %v", labelled, got, want)
		}
	}
}
