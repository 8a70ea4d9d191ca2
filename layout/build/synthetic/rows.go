package synthetic

// Features, labels and splits, each row a function of its number.

import (
	"context"
	"encoding/binary"
	"math"

	"github.com/goagnes/goagnes/layout"
	"github.com/goagnes/goagnes/layout/build/source"
)

// rowStream delivers rows that draw makes.
type rowStream struct {
	name    string
	rows    int64
	shape   []int64
	dtype   layout.DType
	threads int
	draw    func(first int64, rows []byte)
}

func (r *rowStream) Len() int64          { return r.rows }
func (r *rowStream) RowShape() []int64   { return r.shape }
func (r *rowStream) DType() layout.DType { return r.dtype }
func (r *rowStream) Name() string        { return r.name }

func (r *rowStream) Scan(ctx context.Context, f func(first int64, rows []byte) error) error {
	rowBytes := int64(r.dtype.Size())
	for _, n := range r.shape {
		rowBytes *= n
	}
	per := max(1, source.ChunkBytes/rowBytes)
	part := func(k int64, b []byte) []byte { return b[:min(per, r.rows-k*per)*rowBytes] }
	return ordered(ctx, (r.rows+per-1)/per, r.threads,
		func() []byte { return make([]byte, min(per, r.rows)*rowBytes) },
		func(k int64, b []byte) { r.draw(k*per, part(k, b)) },
		func(k int64, b []byte) error { return f(k*per, part(k, b)) })
}

func newSplit(g *graph, name string, order permutation, start, size int64) *rowStream {
	return &rowStream{g.name("split " + name), size, nil, layout.Int64, 1, func(first int64, rows []byte) {
		for i := range len(rows) / 8 {
			id := order.at(uint64(start + first + int64(i)))
			binary.LittleEndian.PutUint64(rows[8*i:], id)
		}
	}}
}

// community is the class whose mean the features of a node carry.
func (g *graph) community(id uint64) uint64 {
	if g.Kind == RMAT {
		return below(word(g.labels, id), uint64(g.NumClasses))
	}
	return communities{uint64(g.NumNodes), uint64(g.NumClasses)}.class(g.ids.of(id))
}

// randomLabels is the share of labels of "community" that are drawn at random.
const randomLabels = 1.0 / 20

func (g *graph) label(id uint64) uint64 {
	if g.Kind == Community {
		if w := word(g.labels, id); unit(w) < randomLabels {
			return below(mix(w), uint64(g.NumClasses))
		}
	}
	return g.community(id)
}

func newLabels(g *graph) *rowStream {
	return &rowStream{g.name("y"), g.NumNodes, nil, layout.Int64, g.Threads, func(first int64, rows []byte) {
		for i := range len(rows) / 8 {
			binary.LittleEndian.PutUint64(rows[8*i:], g.label(uint64(first)+uint64(i)))
		}
	}}
}

// noiseBits is the resolution of the normal distribution: a word gives five
// values, each the median of one of 4096 equal shares, all within ±3.67.
const (
	noiseBits     = 12
	noiseInWord   = 64 / noiseBits
	noiseQuantile = 1 << noiseBits
)

// normals returns the table of shares.
func normals() []float32 {
	t := make([]float32, noiseQuantile)
	for i := range t {
		v := math.Sqrt2 * math.Erfinv((2*float64(i)+1)/noiseQuantile-1)
		// Platforms may differ in the last bits of Erfinv; the features must not.
		t[i] = float32(math.Round(v*(1<<20)) / (1 << 20))
	}
	return t
}

func newFeatures(g *graph) *rowStream {
	table := normals()
	dim := int(g.NumFeatures)
	classes := max(1, int(g.NumClasses))
	scale := float32(separation(classes) / math.Sqrt(float64(dim)))
	means := make([]float32, classes*dim)
	meansKey := stream(g.Seed, streamMeans)
	for i := range means {
		means[i] = scale * table[word(meansKey, uint64(i))%noiseQuantile]
	}
	key := stream(g.Seed, streamNoise)
	words := uint64(dim+noiseInWord-1) / noiseInWord
	row := func(id uint64, out []float32) {
		class := uint64(0)
		if g.NumClasses > 0 {
			class = g.community(id)
		}
		mean := means[class*uint64(dim):][:dim]
		at := key + id*words*golden
		for i := 0; i < dim; i += noiseInWord {
			at += golden
			w := mix(at)
			for j := i; j < min(i+noiseInWord, dim); j++ {
				out[j] = mean[j] + table[w%noiseQuantile]
				w >>= noiseBits
			}
		}
	}
	size := g.FeatureDType.Size()
	return &rowStream{g.name("x"), g.NumNodes, []int64{g.NumFeatures}, g.FeatureDType, g.Threads, func(first int64, rows []byte) {
		values := make([]float32, dim)
		for i := range len(rows) / (dim * size) {
			row(uint64(first)+uint64(i), values)
			out := rows[i*dim*size:]
			if g.FeatureDType == layout.Float16 {
				for j, v := range values {
					binary.LittleEndian.PutUint16(out[2*j:], half(v))
				}
				continue
			}
			for j, v := range values {
				binary.LittleEndian.PutUint32(out[4*j:], math.Float32bits(v))
			}
		}
	}}
}

// separation returns how many standard deviations the score of the right class
// must stand above the others, of which the best may not exceed it, for the
// right class to win half of the time (0.6 of it for two classes, where half is
// chance). It solves the integral of φ(z) Φ(z+s)^(C-1) by bisection.
func separation(classes int) float64 {
	if classes < 2 {
		return 0
	}
	goal := 0.5
	if classes == 2 {
		goal = 0.6
	}
	accuracy := func(s float64) float64 {
		const step = 1.0 / 64
		sum := 0.0
		for z := -8.0; z <= 8; z += step {
			phi := 0.5 * math.Erfc(-(z+s)/math.Sqrt2)
			sum += math.Exp(-z*z/2) * math.Pow(phi, float64(classes-1))
		}
		return sum * step / math.Sqrt(2*math.Pi)
	}
	low, high := 0.0, 16.0
	for range 50 {
		middle := (low + high) / 2
		if accuracy(middle) < goal {
			low = middle
		} else {
			high = middle
		}
	}
	// For the same reason as in normals.
	return math.Round(low*(1<<16)) / (1 << 16)
}

// half converts to float16, rounding to the nearest, ties to even. Values past
// the largest float16 become infinite; features never do.
func half(v float32) uint16 {
	b := math.Float32bits(v)
	if m := b&0x7fffffff - halfLeast; m < halfEnd-halfLeast {
		return uint16(b>>16&0x8000) + 0x400 + uint16((m+0xfff+m>>13&1)>>13)
	}
	return halfRare(b)
}

// The float32 bits of 2^-14, the least normal float16, and of 2^16-32, the largest.
const (
	halfLeast = 0x38800000
	halfEnd   = 0x477fe000
)

// halfRare converts what is not a normal float16 below the largest.
func halfRare(b uint32) uint16 {
	sign := uint16(b >> 16 & 0x8000)
	b &= 0x7fffffff
	switch {
	case b > 0x7f800000: // NaN
		return sign | 0x7e00
	case b >= halfEnd+0x1000: // half of a step past the largest, or more
		return sign | 0x7c00
	case b >= halfEnd:
		return sign | 0x7bff
	case b < 0x33000000: // below half of the least
		return sign
	}
	// Subnormal: multiples of 2^-24.
	shift := 126 - b>>23
	m := b&0x7fffff | 0x800000
	r := m >> shift
	rest := m & (1<<shift - 1)
	if mid := uint32(1) << (shift - 1); rest > mid || (rest == mid && r&1 == 1) {
		r++
	}
	return sign | uint16(r)
}
