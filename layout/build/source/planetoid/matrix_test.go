package planetoid

import (
	"bytes"
	"context"
	"testing"

	"github.com/goagnes/goagnes/layout"
	"github.com/goagnes/goagnes/layout/build/source/array"
	"github.com/goagnes/goagnes/layout/build/source/pickle"
	"github.com/goagnes/goagnes/layout/build/source/sourcetest"
)

func TestPickledArrays(t *testing.T) {
	g := sourcetest.Grid{Shape: []int64{3, 2}, Values: []int64{1, 2, 3, 4, 5, 6}}
	want := g.Bytes(layout.Int32, false, false)
	for form := range 4 {
		big, fortran := form&1 != 0, form&2 != 0
		r, err := array.RowsFromMemory(pickleArray("a", &pickle.Array{DType: pickle.DType{Type: layout.Int32, BigEndian: big},
			Shape: g.Shape, Fortran: fortran, Data: string(g.Bytes(layout.Int32, big, fortran))}))
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(sourcetest.AllRows(t, r), want) {
			t.Errorf("form %d differs", form)
		}
	}
}

func TestSparseRowsStop(t *testing.T) {
	r := &sparseRows{name: "x", columns: 1 << 10, rows: make([]sparseRow, 3<<10)}
	sourcetest.CheckStops(t, func(ctx context.Context, f func() error) error {
		return r.Scan(ctx, func(int64, []byte) error { return f() })
	})
}
