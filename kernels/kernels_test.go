package kernels_test

import (
	"errors"
	"math"
	"testing"

	"github.com/goagnes/goagnes/kernels"
	"github.com/goagnes/goagnes/kernels/kerneltest"
)

func TestConformance(t *testing.T) {
	for _, b := range kernels.Backends() {
		t.Run(b, func(t *testing.T) { kerneltest.Run(t, b) })
	}
}

// Known answers of the Random123 distribution (kat_vectors).
func TestPhiloxKnownAnswers(t *testing.T) {
	const ones = math.MaxUint32
	for _, c := range []struct {
		key       [2]uint32
		ctr, want [4]uint32
	}{
		{[2]uint32{}, [4]uint32{}, [4]uint32{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
		{[2]uint32{ones, ones}, [4]uint32{ones, ones, ones, ones}, [4]uint32{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
		{[2]uint32{0xa4093822, 0x299f31d0}, [4]uint32{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
			[4]uint32{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
	} {
		if got := kernels.Philox(c.key, c.ctr); got != c.want {
			t.Errorf("key %x counter %x: %x, want %x", c.key, c.ctr, got, c.want)
		}
	}
}

func TestNewRefuses(t *testing.T) {
	for _, o := range []kernels.Options{{Backend: "gpu"}, {Threads: -1}, {Threads: 1 << 20}} {
		_, err := kernels.New(o)
		var e *kernels.OptionError
		if !errors.As(err, &e) || e.Class() != "usage" {
			t.Errorf("%+v: %v, want a usage error", o, err)
		}
	}
}

// A mask keeps the fraction it should, and other rows, layers and keys give
// other masks.
func TestDropoutRate(t *testing.T) {
	e, err := kernels.New(kernels.Options{Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	const rows, cols = 400, 250
	mask := func(d kernels.Dropout) []float32 {
		m := make([]float32, rows*cols)
		for i := range m {
			m[i] = 1
		}
		e.Epilogue(kernels.NewMatrix(m, rows, cols), nil, kernels.Identity, d)
		return m
	}
	for _, rate := range []float32{0.1, 0.5, 0.9} {
		d := kernels.Dropout{Rate: rate, Key: [2]uint32{1, 2}}
		m := mask(d)
		kept := 0
		for _, v := range m {
			if v != 0 {
				kept++
			}
		}
		p := 1 - float64(rate)
		if z := (float64(kept) - p*rows*cols) / math.Sqrt(rows*cols*p*(1-p)); math.Abs(z) > 5 {
			t.Errorf("rate %v: %d of %d kept, %.1f standard deviations off", rate, kept, rows*cols, z)
		}
		for name, other := range map[string]kernels.Dropout{
			"layer": {Rate: rate, Key: d.Key, Layer: 1}, "key": {Rate: rate, Key: [2]uint32{2, 2}},
		} {
			agree := 0
			for i, v := range mask(other) {
				if (v != 0) == (m[i] != 0) {
					agree++
				}
			}
			q := p*p + (1-p)*(1-p)
			if z := (float64(agree) - q*rows*cols) / math.Sqrt(rows*cols*q*(1-q)); math.Abs(z) > 5 {
				t.Errorf("rate %v: masks of another %s agree in %d of %d places", rate, name, agree, rows*cols)
			}
		}
	}
}

func TestCheckGraph(t *testing.T) {
	for _, c := range []struct {
		ptr, src []uint32
		rows, at int
	}{
		{[]uint32{0, 2, 3}, []uint32{0, 1, 2}, 3, -1},
		{[]uint32{0}, nil, 0, -1},
		{nil, nil, 0, 0},
		{[]uint32{1, 2}, []uint32{0, 1}, 3, 0},
		{[]uint32{0, 2, 1}, []uint32{0, 1, 2}, 3, 2},
		{[]uint32{0, 2, 9}, []uint32{0, 1, 2}, 3, 2},
		{[]uint32{0, 2, 3}, []uint32{0, 3, 2}, 3, 4},
	} {
		if at := kernels.CheckGraph(c.ptr, c.src, c.rows); at != c.at {
			t.Errorf("%v %v: %d, want %d", c.ptr, c.src, at, c.at)
		}
	}
}
