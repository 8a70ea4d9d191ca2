package synthetic

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/goagnes/goagnes/layout"
	"github.com/goagnes/goagnes/layout/build/source"
)

func generate(t testing.TB, o Options) *source.Dataset {
	t.Helper()
	d, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func edgesOf(t testing.TB, d *source.Dataset) (src, dst []int64) {
	t.Helper()
	err := d.Edges.Scan(context.Background(), func(s, t []int64) error {
		src, dst = append(src, s...), append(dst, t...)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if n, known := d.Edges.Count(); !known || n != int64(len(src)) || len(src) != len(dst) {
		t.Fatalf("%d edges are counted and %d to %d scanned", n, len(src), len(dst))
	}
	return src, dst
}

func rowsOf(t testing.TB, r source.Rows) []byte {
	t.Helper()
	var out []byte
	err := r.Scan(context.Background(), func(first int64, rows []byte) error {
		rowBytes := int64(r.DType().Size())
		for _, n := range r.RowShape() {
			rowBytes *= n
		}
		if first*rowBytes != int64(len(out)) {
			t.Fatalf("row %d after %d bytes", first, len(out))
		}
		out = append(out, rows...)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func intsOf(t testing.TB, r source.Rows) []int64 {
	t.Helper()
	b := rowsOf(t, r)
	out := make([]int64, len(b)/8)
	for i := range out {
		out[i] = int64(binary.LittleEndian.Uint64(b[8*i:]))
	}
	if int64(len(out)) != r.Len() {
		t.Fatalf("%d values for %d rows", len(out), r.Len())
	}
	return out
}

// digest hashes everything a dataset holds.
func digest(t testing.TB, d *source.Dataset) string {
	t.Helper()
	h := fnv.New64a()
	src, dst := edgesOf(t, d)
	for _, ids := range [][]int64{src, dst} {
		if err := binary.Write(h, binary.LittleEndian, ids); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"x", "y"} {
		if r := d.Arrays[name]; r != nil {
			h.Write(rowsOf(t, r))
		}
	}
	for _, name := range []string{"train", "val", "test"} {
		h.Write(rowsOf(t, d.Splits[name]))
	}
	return fmt.Sprintf("%016x", h.Sum64())
}

// TestKnownAnswers fails when a stream changes. That is a change of what users
// measure against: say so in the changelog before the digests are replaced.
func TestKnownAnswers(t *testing.T) {
	for _, c := range []struct {
		o    Options
		want string
	}{
		{Options{Kind: RMAT, NumNodes: 1 << 10}, "995a73a3c1961045"},
		{Options{Kind: RMAT, NumNodes: 1000, AvgDegree: 7.5, NumFeatures: 3, NumClasses: 5, FeatureDType: layout.Float16, Seed: 9}, "8dfc15083b4df17f"},
		{Options{Kind: Community, NumNodes: 5000}, "25cd424341f430b4"},
		{Options{Kind: Community, NumNodes: 777, AvgDegree: 200, NumFeatures: 17, NumClasses: 2, Seed: 1}, "1ce29f51809b622c"},
	} {
		if got := digest(t, generate(t, c.o)); got != c.want {
			t.Errorf("%+v: %s, want %s", c.o, got, c.want)
		}
	}
}

func TestScansRepeatOnAnyThreads(t *testing.T) {
	for _, kind := range []string{RMAT, Community} {
		o := Options{Kind: kind, NumNodes: 20000, AvgDegree: 20, NumFeatures: 40, Threads: 1}
		d := generate(t, o)
		want := digest(t, d)
		if got := digest(t, d); got != want {
			t.Errorf("%s: a second scan differs", kind)
		}
		for _, threads := range []int{2, 3, 8} {
			o.Threads = threads
			if got := digest(t, generate(t, o)); got != want {
				t.Errorf("%s: %d threads differ", kind, threads)
			}
		}
		o.Seed = 1
		if got := digest(t, generate(t, o)); got == want {
			t.Errorf("%s: another seed gives the same", kind)
		}
	}
}

func TestScanEnds(t *testing.T) {
	d := generate(t, Options{Kind: RMAT, NumNodes: 1 << 16, Threads: 2})
	own := errors.New("enough")
	calls := 0
	if err := d.Edges.Scan(context.Background(), func(_, _ []int64) error {
		if calls++; calls == 3 {
			return own
		}
		return nil
	}); err != own || calls != 3 {
		t.Errorf("after %d calls: %v", calls, err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	calls = 0
	if err := d.Edges.Scan(ctx, func(_, _ []int64) error {
		calls++
		cancel()
		return nil
	}); err != context.Canceled || calls != 1 {
		t.Errorf("after %d calls: %v", calls, err)
	}
}

func TestPermutationIsABijection(t *testing.T) {
	for _, n := range []int64{1, 2, 3, 4, 5, 7, 8, 9, 31, 100, 1000, 1024, 1025, 65537} {
		for key := range uint64(3) {
			p := newPermutation(n, mix(key))
			seen := make([]bool, n)
			for x := range uint64(n) {
				y := p.at(x)
				if y >= uint64(n) || seen[y] {
					t.Fatalf("n %d: %d goes to %d again or outside", n, x, y)
				}
				seen[y] = true
				if back := p.of(y); back != x {
					t.Fatalf("n %d: %d goes to %d and back to %d", n, x, y, back)
				}
			}
		}
	}
}

// TestPermutationScatters holds neighbours apart: in a random permutation two
// neighbours stay within n/100 of each other for about 2 % of the ids.
func TestPermutationScatters(t *testing.T) {
	const n = 1 << 20
	for key := range uint64(5) {
		p := newPermutation(n, stream(key, streamIDs))
		for _, gap := range []uint64{1, 2, 1024, n / 2} {
			near := 0
			for x := range uint64(n) - gap {
				if d := int64(p.at(x)) - int64(p.at(x+gap)); max(d, -d) < n/100 {
					near++
				}
			}
			if share := float64(near) / float64(n-gap); share > 0.04 {
				t.Errorf("key %d: %.1f %% of the ids %d apart stay near", key, 100*share, gap)
			}
		}
	}
}

// TestRMATQuadrants counts the first level against the four probabilities, and
// the recursion through the second.
func TestRMATQuadrants(t *testing.T) {
	const edges, levels = 1 << 20, 8
	key := stream(5, streamEdges)
	var first, second [4]float64
	for i := range uint64(edges) {
		u, v := rmatDraw(key+i*edgeStep, levels)
		first[u>>7<<1|v>>7]++
		second[u>>6&1<<1|v>>6&1]++
	}
	for _, counts := range [][4]float64{first, second} {
		chi := 0.0
		for q, p := range []float64{0.57, 0.19, 0.19, 0.05} {
			d := counts[q] - p*edges
			chi += d * d / (p * edges)
		}
		if chi > 30.7 { // chi-square with 3 degrees of freedom, alpha 1e-6
			t.Errorf("quadrants %v: chi-square %.1f", counts, chi)
		}
	}
}

func TestRMATOfAnySize(t *testing.T) {
	for _, n := range []int64{1, 2, 3, 1000, 1025} {
		src, dst := edgesOf(t, generate(t, Options{Kind: RMAT, NumNodes: n, NumFeatures: -1}))
		if len(src) != int(16*n) || slices.Min(src) < 0 || slices.Min(dst) < 0 || slices.Max(src) >= n || slices.Max(dst) >= n {
			t.Errorf("%d nodes: %d edges, or ids outside", n, len(src))
		}
	}
	// Hubs: the largest in-degree is far above the average, many nodes have none.
	_, dst := edgesOf(t, generate(t, Options{Kind: RMAT, NumNodes: 1 << 14}))
	degree := make([]int, 1<<14)
	for _, v := range dst {
		degree[v]++
	}
	none := 0
	for _, d := range degree {
		if d == 0 {
			none++
		}
	}
	if slices.Max(degree) < 40*16 || none < 1<<14/10 {
		t.Errorf("the largest in-degree is %d, %d nodes have none", slices.Max(degree), none)
	}
}

func TestCommunityShares(t *testing.T) {
	o := Options{Kind: Community, NumNodes: 100000, AvgDegree: 12, NumClasses: 10, NumFeatures: -1, Seed: 3}
	g, err := resolve(o)
	if err != nil {
		t.Fatal(err)
	}
	c := communities{uint64(g.NumNodes), uint64(g.NumClasses)}
	src, dst := edgesOf(t, generate(t, o))
	var sameClass, sameGroup, near float64
	degree := make([]int, g.NumNodes)
	for i := range src {
		a, b := g.ids.of(uint64(src[i])), g.ids.of(uint64(dst[i]))
		if a == b {
			t.Fatal("a self-loop")
		}
		degree[dst[i]]++
		if c.class(a) == c.class(b) {
			sameClass++
			first, size := c.classRange(c.class(a))
			ga, _ := group(a, first, size)
			if gb, _ := group(b, first, size); ga == gb {
				sameGroup++
			}
		}
		if d := src[i] - dst[i]; max(d, -d) < g.NumNodes/100 {
			near++
		}
	}
	e := float64(len(src))
	// Nine groups a class, ten classes: 0.60 + 0.25/9 + 0.15/90 and 0.85 + 0.15/10.
	for name, s := range map[string][2]float64{"group": {sameGroup / e, 0.6294}, "class": {sameClass / e, 0.865}, "near ids": {near / e, 0.02}} {
		if math.Abs(s[0]-s[1]) > 0.005 {
			t.Errorf("share of edges within %s %.4f, want %.4f", name, s[0], s[1])
		}
	}
	slices.Sort(degree)
	if top := degree[len(degree)-1]; top > 20*12 || degree[len(degree)/2] < 6 || degree[len(degree)*99/100] < 18 {
		t.Errorf("in-degrees: median %d, 99 %% %d, largest %d", degree[len(degree)/2], degree[len(degree)*99/100], top)
	}
}

func TestCommunityBounds(t *testing.T) {
	for _, n := range []uint64{1, 2, 7, 1000, 12345} {
		for _, classes := range []uint64{1, 2, 3, 7} {
			if classes > n {
				continue
			}
			c := communities{n, classes}
			at := uint64(0)
			for k := range classes {
				first, size := c.classRange(k)
				if first != at || size == 0 {
					t.Fatalf("class %d of %d over %d nodes starts at %d with %d nodes", k, classes, n, first, size)
				}
				for v := first; v < first+size; v++ {
					start, nodes := group(v, first, size)
					if c.class(v) != k || v < start || v >= start+nodes || start < first || start+nodes > first+size {
						t.Fatalf("node %d of class %d is in class %d and group %d of %d", v, k, c.class(v), start, nodes)
					}
				}
				at += size
			}
			if at != n {
				t.Fatalf("classes end at %d of %d", at, n)
			}
		}
	}
}

func TestSplits(t *testing.T) {
	for n, want := range map[int64][3]int{1: {0, 0, 0}, 2: {0, 0, 0}, 3: {1, 1, 1}, 1000: {100, 50, 100}, 12345: {1234, 617, 1234}} {
		d := generate(t, Options{Kind: Community, NumNodes: n, NumFeatures: -1})
		seen := map[int64]bool{}
		for i, name := range []string{"train", "val", "test"} {
			ids := intsOf(t, d.Splits[name])
			if len(ids) != want[i] {
				t.Errorf("%d nodes: %s has %d", n, name, len(ids))
			}
			for _, id := range ids {
				if id < 0 || id >= n || seen[id] {
					t.Fatalf("%d nodes: id %d in %s is outside or a second time", n, id, name)
				}
				seen[id] = true
			}
		}
	}
}

func TestLabelsAndFeatures(t *testing.T) {
	const n, classes, dim = 50000, 8, 32
	d := generate(t, Options{Kind: Community, NumNodes: n, NumFeatures: dim, NumClasses: classes})
	y := intsOf(t, d.Arrays["y"])
	counts := make([]float64, classes)
	for _, v := range y {
		counts[v]++
	}
	for c, k := range counts {
		if math.Abs(k-n/classes) > 400 {
			t.Errorf("class %d has %v nodes", c, k)
		}
	}
	x := rowsOf(t, d.Arrays["x"])
	// Within a class the variance of a feature is 1: nearly all of it is noise.
	var sum, square [classes][dim]float64
	for i := range n {
		for j := range dim {
			v := float64(math.Float32frombits(binary.LittleEndian.Uint32(x[4*(i*dim+j):])))
			sum[y[i]][j] += v
			square[y[i]][j] += v * v
		}
	}
	for c := range classes {
		for j := range dim {
			m := sum[c][j] / counts[c]
			if v := square[c][j]/counts[c] - m*m; math.Abs(v-1) > 0.1 {
				t.Errorf("feature %d of class %d has mean %.3f and variance %.3f", j, c, m, v)
			}
		}
	}
	halves := rowsOf(t, generate(t, Options{Kind: Community, NumNodes: n, NumFeatures: dim, NumClasses: classes, FeatureDType: layout.Float16}).Arrays["x"])
	for i := range n * dim {
		v := math.Float32frombits(binary.LittleEndian.Uint32(x[4*i:]))
		if h := fromHalf(binary.LittleEndian.Uint16(halves[2*i:])); math.Abs(h-float64(v)) > math.Abs(float64(v))/2048+1e-7 {
			t.Fatalf("value %d is %v, and %v as float16", i, v, h)
		}
	}
}

// fromHalf decodes by the definition of binary16.
func fromHalf(h uint16) float64 {
	sign, e, m := 1.0, int(h>>10&31), float64(h&1023)
	if h&0x8000 != 0 {
		sign = -1
	}
	switch e {
	case 0:
		return sign * math.Ldexp(m, -24)
	case 31:
		if m != 0 {
			return math.NaN()
		}
		return math.Inf(int(sign))
	}
	return sign * math.Ldexp(1024+m, e-25)
}

func TestHalf(t *testing.T) {
	for h := range uint32(1 << 16) {
		v := fromHalf(uint16(h))
		if math.IsNaN(v) {
			continue
		}
		if got := half(float32(v)); got != uint16(h) {
			t.Fatalf("%04x is %v, which gives %04x", h, v, got)
		}
		// Halfway to the next float16 the even one wins, past it the next.
		if next := fromHalf(uint16(h) + 1); h&0x7fff < 0x7bff {
			middle := float32((v + next) / 2)
			even := uint16(h) + uint16(h)&1
			past := math.Nextafter32(middle, float32(next))
			if got, after := half(middle), half(past); got != even || after != uint16(h)+1 {
				t.Fatalf("halfway from %04x: %04x and %04x", h, got, after)
			}
		}
	}
	if half(65520) != 0x7c00 || half(65519) != 0x7bff || half(float32(math.NaN()))&0x7fff <= 0x7c00 {
		t.Error("the ends of the range")
	}
}

func TestSeparation(t *testing.T) {
	// Two classes: Φ(s/√2) = 0.6.
	if s, want := separation(2), math.Sqrt2*math.Sqrt2*math.Erfinv(0.2); math.Abs(s-want) > 1e-4 {
		t.Errorf("two classes: %v, want %v", s, want)
	}
	if separation(1) != 0 || !(separation(3) < separation(10) && separation(10) < separation(100)) {
		t.Error("not rising")
	}
}

func TestRefused(t *testing.T) {
	good := Options{Kind: RMAT, NumNodes: 100}
	for option, change := range map[string]func(o *Options){
		"kind":          func(o *Options) { o.Kind = "er" },
		"num_nodes":     func(o *Options) { o.NumNodes = 0 },
		"num_nodes ":    func(o *Options) { o.NumNodes = 1<<32 - 1 },
		"avg_degree":    func(o *Options) { o.AvgDegree = math.NaN() },
		"avg_degree ":   func(o *Options) { o.AvgDegree = 1e300 },
		"num_features":  func(o *Options) { o.NumFeatures = maxFeatures + 1 },
		"num_features ": func(o *Options) { o.NumNodes, o.NumClasses, o.NumFeatures = 1<<20, maxClasses, maxFeatures },
		"num_classes":   func(o *Options) { o.NumClasses = 101 },
		"num_classes ":  func(o *Options) { o.Kind, o.NumClasses = Community, -1 },
		"feature_dtype": func(o *Options) { o.FeatureDType = layout.Int8 },
	} {
		o := good
		change(&o)
		_, err := New(o)
		var e *OptionError
		if !errors.As(err, &e) || e.Class() != "usage" || e.Option != strings.TrimSpace(option) {
			t.Errorf("%s: got %v", option, err)
		}
	}
	if d := generate(t, Options{Kind: RMAT, NumNodes: 5, NumFeatures: -1, NumClasses: -1, AvgDegree: -1}); len(d.Arrays) != 0 {
		t.Error("arrays that were not wanted")
	} else if src, _ := edgesOf(t, d); len(src) != 0 {
		t.Error("edges that were not wanted")
	}
}

func BenchmarkEdges(b *testing.B) {
	for _, kind := range []string{RMAT, Community} {
		for _, threads := range []int{1, 2} {
			b.Run(fmt.Sprintf("%s/threads=%d", kind, threads), func(b *testing.B) {
				d := generate(b, Options{Kind: kind, NumNodes: 1 << 22, AvgDegree: 4, Threads: threads})
				n, _ := d.Edges.Count()
				for b.Loop() {
					if err := d.Edges.Scan(context.Background(), func(_, _ []int64) error { return nil }); err != nil {
						b.Fatal(err)
					}
				}
				b.ReportMetric(float64(n)*float64(b.N)/b.Elapsed().Seconds()/1e6, "Medges/s")
			})
		}
	}
}

func BenchmarkFeatures(b *testing.B) {
	for _, dtype := range []layout.DType{layout.Float32, layout.Float16} {
		b.Run(dtype.String(), func(b *testing.B) {
			x := generate(b, Options{Kind: Community, NumNodes: 1 << 18, NumFeatures: 128, FeatureDType: dtype}).Arrays["x"]
			b.SetBytes(1 << 18 * 128 * int64(dtype.Size()))
			for b.Loop() {
				if err := x.Scan(context.Background(), func(int64, []byte) error { return nil }); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
