// Features of every element type, and their normalisation.

package train_test

import (
	"context"
	"encoding/binary"
	"errors"
	"math"
	"testing"
	"unsafe"

	"github.com/goagnes/goagnes/goagnes/train"
	"github.com/goagnes/goagnes/layout"
)

// Rows divided by their norm are those of a store that holds them so, up to rounding.
func TestNormalizeL2(t *testing.T) {
	raw, unit := community(300, 3, 8, 0), community(300, 3, 8, 0)
	for v := range 300 {
		x, sum := raw.x[8*v:8*v+8], 0.0
		for i := range x {
			if x[i] = float32((v*7 + i*i) % 5); v == 4 {
				x[i] = 0 // a row of zeros stays
			}
			sum += float64(x[i]) * float64(x[i])
		}
		for i := range x {
			unit.x[8*v+i] = float32(float64(x[i]) / math.Sqrt(max(sum, 1)))
		}
	}
	o := small()
	want, _ := must(t, &memorySource{graph: unit}, o)
	o.NormalizeFeatures = train.NormalizeL2
	got, m := must(t, &memorySource{graph: raw}, o)
	if m.NormalizeFeatures != train.NormalizeL2 {
		t.Errorf("the model says %q", m.NormalizeFeatures)
	}
	for i, e := range got.Epochs {
		if math.Abs(e.TrainLoss-want.Epochs[i].TrainLoss) > 1e-4 {
			t.Errorf("epoch %d: loss %v, with rows divided beforehand %v", i, e.TrainLoss, want.Epochs[i].TrainLoss)
		}
	}
}

// halves gives the same features as float16, which holds them exactly.
type halves struct{ *memorySource }

func (h halves) Open(ctx context.Context, split string, p train.Pass) (train.Stream, error) {
	s, err := h.memorySource.Open(ctx, split, p)
	return halfStream{s}, err
}

type halfStream struct{ train.Stream }

func (h halfStream) Next(ctx context.Context) (*train.Batch, error) {
	b, err := h.Stream.Next(ctx)
	if err != nil {
		return nil, err
	}
	x := unsafe.Slice((*float32)(unsafe.Pointer(&b.X[0])), len(b.X)/4)
	half := make([]uint16, len(x)+2)
	for i, v := range x {
		if v != 0 {
			bits := math.Float32bits(v)
			half[i] = uint16(bits>>16)&0x8000 | uint16((bits>>23&255)-112)<<10 | uint16(bits>>13)&1023
		}
	}
	b.X, b.XDType, b.RowBytes = unsafe.Slice((*byte)(unsafe.Pointer(&half[0])), 2*len(x)), layout.Float16, b.RowBytes/2
	return b, nil
}

func TestHalfFeatures(t *testing.T) {
	g := community(600, 3, 8, 0)
	for i := range g.x {
		g.x[i] += float32(i%5) / 4
	}
	o := small()
	for _, normalize := range []string{train.NormalizeNone, train.NormalizeRow, train.NormalizeL2} {
		o.NormalizeFeatures = normalize
		full, _ := must(t, &memorySource{graph: g}, o)
		half, _ := must(t, halves{&memorySource{graph: g}}, o)
		if full.WeightsSHA256 != half.WeightsSHA256 {
			t.Errorf("normalised by %q: float16 of the same values gives other weights", normalize)
		}
	}
}

// converted gives the same features as another type that holds them exactly.
type converted struct {
	*memorySource
	to layout.DType
}

func (c converted) Open(ctx context.Context, split string, p train.Pass) (train.Stream, error) {
	s, err := c.memorySource.Open(ctx, split, p)
	return convertedStream{s, c.to}, err
}

type convertedStream struct {
	train.Stream
	to layout.DType
}

func (c convertedStream) Next(ctx context.Context) (*train.Batch, error) {
	b, err := c.Stream.Next(ctx)
	if err != nil {
		return nil, err
	}
	x := unsafe.Slice((*float32)(unsafe.Pointer(&b.X[0])), len(b.X)/4)
	const pad = 3 // bytes between rows
	b.X, b.RowBytes = nil, b.Dim*max(c.to.Size(), 1)+pad
	for i, v := range x {
		le := binary.LittleEndian
		switch c.to {
		case layout.BFloat16:
			b.X = le.AppendUint16(b.X, uint16(math.Float32bits(v)>>16))
		case layout.Float64:
			b.X = le.AppendUint64(b.X, math.Float64bits(float64(v)))
		case layout.Int64, layout.Uint64:
			b.X = le.AppendUint64(b.X, uint64(int64(v)))
		case layout.Int32, layout.Uint32:
			b.X = le.AppendUint32(b.X, uint32(int32(v)))
		case layout.Int16, layout.Uint16:
			b.X = le.AppendUint16(b.X, uint16(int16(v)))
		default:
			b.X = append(b.X, byte(int8(v)))
		}
		if i%b.Dim == b.Dim-1 {
			b.X = append(b.X, make([]byte, pad)...)
		}
	}
	b.XDType = c.to
	return b, nil
}

func TestFeatureTypes(t *testing.T) {
	for d := layout.BFloat16; d.Valid(); d++ {
		g := community(300, 3, 8, 0)
		for i := range g.x {
			switch v := i % 5; {
			case d == layout.Bool:
			case d >= layout.Uint8:
				g.x[i] += float32(v)
			default:
				g.x[i] += float32(v - 2)
			}
		}
		want, _ := must(t, &memorySource{graph: g}, small())
		got, _ := must(t, converted{&memorySource{graph: g}, d}, small())
		if got.WeightsSHA256 != want.WeightsSHA256 {
			t.Errorf("%v features give other weights than the same in float32", d)
		}
	}
	var e *train.UnsupportedError
	_, _, err := train.Train(context.Background(), converted{&memorySource{graph: community(300, 3, 8, 0)}, 0}, shape, small())
	if !errors.As(err, &e) || e.Class() != "unsupported" {
		t.Errorf("undefined type: %v", err)
	}
}
