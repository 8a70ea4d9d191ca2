package operation

import (
	"math/rand/v2"
	"slices"
	"testing"
)

func TestMaskSeeds(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 5))
	for _, n := range []int{0, 1, 511, 512, 513, 1024, 5000} {
		for _, share := range []float64{0, 0.001, 0.5, 1} {
			mask := make([]bool, n)
			want := []uint64{}
			for i := range mask {
				if mask[i] = r.Float64() < share; mask[i] {
					want = append(want, uint64(i))
				}
			}
			m := NewMaskSeeds(mask)
			if m.Len() != int64(len(want)) {
				t.Fatalf("%d of %d marked; %d are", m.Len(), n, len(want))
			}
			places := make([]int64, len(want))
			for i, p := range r.Perm(len(want)) {
				places[i] = int64(p)
			}
			ids := make([]uint64, len(want))
			if err := m.Lookup(t.Context(), places, ids); err != nil {
				t.Fatal(err)
			}
			got := slices.Clone(ids)
			for i, p := range places {
				got[p] = ids[i]
			}
			if !slices.Equal(got, want) {
				t.Fatalf("%d nodes, share %v: other nodes than those marked", n, share)
			}
		}
	}
}
