package nn_test

// The networks against a float64 reference that computes every layer for every
// node straight from the definitions, untrimmed and in one order; gradients
// against finite differences of that reference.

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/goagnes/goagnes/goagnes/nn"
	"github.com/goagnes/goagnes/kernels"
)

// sample is a random minibatch of the given hops with isolated nodes, repeated
// edges and self-loops.
func sample(rng *rand.Rand, hops, inputs int, half bool) nn.Batch {
	b := nn.Batch{NodesPerHop: []int{6}, Ptr: []uint32{0}}
	total, first := 6, 0
	for range hops {
		frontier := total - first
		grown := 0
		for t := first; t < first+frontier; t++ {
			for range rng.IntN(4) {
				if rng.IntN(2) == 0 {
					b.Src = append(b.Src, uint32(rng.IntN(total)))
				} else {
					b.Src = append(b.Src, uint32(total+grown))
					grown++
				}
			}
			for range []int{0, 0, 0, 1, 2}[rng.IntN(5)] {
				b.Src = append(b.Src, uint32(t))
			}
			b.Ptr = append(b.Ptr, uint32(len(b.Src)))
		}
		b.NodesPerHop = append(b.NodesPerHop, grown)
		first, total = total, total+grown
	}
	b.X = kernels.Input{Rows: total, Cols: inputs, Stride: inputs + 3}
	if half {
		b.X.F16 = make([]uint16, total*b.X.Stride)
		for i := range b.X.F16 {
			b.X.F16[i] = uint16(rng.IntN(1024)) | uint16(13+rng.IntN(3))<<10
		}
	} else {
		b.X.F32 = make([]float32, total*b.X.Stride)
		for i := range b.X.F32 {
			b.X.F32[i] = float32(rng.NormFloat64())
		}
	}
	return b
}

// feature returns element (r, c) of the input, scaled.
func feature(x kernels.Input, r, c int) float64 {
	scale := 1.0
	if x.Scale != nil {
		scale = float64(x.Scale[r])
	}
	if x.F16 != nil {
		h := x.F16[r*x.Stride+c] // normal and positive here
		return scale * math.Ldexp(1024+float64(h&1023), int(h>>10)-25)
	}
	return scale * float64(x.F32[r*x.Stride+c])
}

func keep(rate float64, key [2]uint32, layer, r, c int) float64 {
	w := kernels.Philox(key, [4]uint32{uint32(r), uint32(c/32*8 + c%8), uint32(layer), 0})
	if float64(w[c%32/8]) < math.Floor(float64(float32(rate))*(1<<32)) {
		return 0
	}
	return 1 / (1 - rate)
}

// reference returns the logits of the seeds.
func reference(c nn.Config, values []float64, b nn.Batch, mode nn.Mode) [][]float64 {
	nodes := 0
	for _, n := range b.NodesPerHop {
		nodes += n
	}
	edges := func(t int) []uint32 {
		if t+1 >= len(b.Ptr) {
			return nil
		}
		return b.Src[b.Ptr[t]:b.Ptr[t+1]]
	}
	degree := make([]float64, nodes)
	for t := range degree {
		degree[t] = 1
		for _, u := range edges(t) {
			if int(u) != t {
				degree[t]++
			}
		}
		if b.Degree != nil && t+1 >= len(b.Ptr) {
			degree[t] = float64(b.Degree[t]) + 1
		}
	}
	h := make([][]float64, nodes)
	for r := range h {
		h[r] = make([]float64, c.Inputs)
		for i := range h[r] {
			h[r][i] = feature(b.X, r, i)
			if mode.Train && c.InputDropout {
				h[r][i] *= keep(c.Dropout, mode.Key, 0, r, i)
			}
		}
	}
	for l := range c.Layers {
		in, out := len(h[0]), c.Hidden
		if l == c.Layers-1 {
			out = c.Classes
		}
		take := func(n int) []float64 {
			v := values[:n]
			values = values[n:]
			return v
		}
		var w, self, source, target []float64
		heads := 1
		switch {
		case c.Kind == nn.GAT:
			heads = c.OutputHeads
			units := heads * out
			if l < c.Layers-1 {
				heads, units = c.Heads, out
			}
			w, source, target = take(in*units), take(units), take(units)
			if c.Residual {
				self = take(in * out)
			}
		default:
			w = take(in * out)
			if c.Kind == nn.SAGE {
				self = take(in * out)
			}
		}
		bias := take(out)
		attend := func(next [][]float64) {
			attentionReference(c, l, heads, h, next, w, source, target, edges, mode)
		}
		next := make([][]float64, nodes)
		for t := range next {
			next[t] = slices.Clone(bias)
			add := func(coefficient float64, u int, w []float64) {
				for i, v := range h[u] {
					for o := range out {
						next[t][o] += coefficient * v * w[i*out+o]
					}
				}
			}
			switch c.Kind {
			case nn.MLP:
				add(1, t, w)
			case nn.SAGE:
				add(1, t, self)
				for _, u := range edges(t) {
					add(1/float64(len(edges(t))), int(u), w)
				}
			case nn.GCN:
				add(1/degree[t], t, w)
				for _, u := range edges(t) {
					if int(u) != t {
						add(1/math.Sqrt(degree[t]*degree[u]), int(u), w)
					}
				}
			case nn.GAT:
				if c.Residual {
					add(1, t, self)
				}
			}
		}
		if c.Kind == nn.GAT {
			attend(next)
		}
		for t := range next {
			if l < c.Layers-1 {
				for o, v := range next[t] {
					next[t][o] = max(v, 0)
					if c.Kind == nn.GAT && v < 0 {
						next[t][o] = math.Expm1(v)
					}
					if mode.Train && c.Dropout > 0 {
						next[t][o] *= keep(c.Dropout, mode.Key, l+1, t, o)
					}
				}
			}
		}
		h = next
	}
	return h[:b.NodesPerHop[0]]
}

// attentionReference adds the weighted sums of a gat's layer to next, edge by edge.
func attentionReference(c nn.Config, l, heads int, x, next [][]float64, w, source, target []float64, edges func(int) []uint32, mode nn.Mode) {
	last := l == c.Layers-1
	units := len(source) / heads
	rows := make([][]float64, len(x))
	for u, row := range x {
		rows[u] = make([]float64, heads*units)
		for i, v := range row {
			for o := range rows[u] {
				rows[u][o] += v * w[i*heads*units+o]
			}
		}
	}
	at := 0 // edges are numbered over all targets
	for t := range x {
		for h := range heads {
			exp := func(u int) float64 {
				var s float64
				for o := h * units; o < (h+1)*units; o++ {
					s += rows[u][o]*source[o] + rows[t][o]*target[o]
				}
				if s < 0 {
					s *= 0.2
				}
				return math.Exp(s)
			}
			sum := exp(t)
			for _, u := range edges(t) {
				if int(u) != t {
					sum += exp(int(u))
				}
			}
			add := func(u, stream, row int) {
				a := exp(u) / sum
				if mode.Train && c.AttentionDropout > 0 {
					a *= keep(c.AttentionDropout, mode.Key, l+stream, row, h)
				}
				for o := range units {
					if last {
						next[t][o] += a / float64(heads) * rows[u][h*units+o]
					} else {
						next[t][h*units+o] += a * rows[u][h*units+o]
					}
				}
			}
			add(t, 2<<16, t)
			for j, u := range edges(t) {
				if int(u) != t {
					add(int(u), 1<<16, at+j)
				}
			}
		}
		at += len(edges(t))
	}
}

func engine(t *testing.T, backend string, threads int) *kernels.Engine {
	t.Helper()
	e, err := kernels.New(kernels.Options{Backend: backend, Threads: threads})
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func network(t *testing.T, m *nn.Model, e *kernels.Engine, b nn.Batch, train bool) *nn.Network {
	t.Helper()
	n := nn.NewNetwork(m, e)
	need, err := n.ArenaBytes(b, train)
	if err != nil {
		t.Fatal(err)
	}
	n.SetArena(make([]float32, need/4+1))
	return n
}

func model(t *testing.T, c nn.Config, seed uint64) *nn.Model {
	t.Helper()
	m, err := nn.NewModel(c, make([]float32, c.NumParameters()))
	if err != nil {
		t.Fatal(err)
	}
	m.Initialize(seed)
	for _, p := range m.Parameters { // biases too: seen in use, and no unit rests on ReLU's kink
		if p.Rows == 1 {
			for i := range p.Values {
				p.Values[i] = float32(i%3)/8 + 0.05
			}
		}
	}
	return m
}

func widened(v []float32) []float64 {
	out := make([]float64, len(v))
	for i, x := range v {
		out[i] = float64(x)
	}
	return out
}

type variant struct {
	name string
	c    nn.Config
	half bool
	prep func(*nn.Batch)
}

func variants() (all []variant) {
	scale := func(b *nn.Batch) {
		b.X.Scale = make([]float32, b.X.Rows)
		for i := range b.X.Scale {
			b.X.Scale[i] = 1 / float32(i+1)
		}
	}
	degrees := func(b *nn.Batch) {
		b.Degree = make([]uint32, b.X.Rows)
		for i := range b.Degree {
			b.Degree[i] = uint32(i % 7)
		}
	}
	for _, kind := range []string{nn.GCN, nn.SAGE, nn.GAT, nn.MLP} {
		for layers := 1; layers <= 3; layers++ {
			c := nn.Config{Kind: kind, Inputs: 5, Hidden: 9, Classes: 4, Layers: layers}
			wide := nn.Config{Kind: kind, Inputs: 50, Hidden: 6, Classes: 3, Layers: layers}
			if kind == nn.GAT {
				c.Heads, c.OutputHeads = 3, 2
				wide.Heads, wide.OutputHeads, wide.Residual = 2, 1, true
			}
			add := func(name string, c nn.Config, half bool, prep func(*nn.Batch)) {
				all = append(all, variant{fmt.Sprintf("%s/%d/%s", kind, layers, name), c, half, prep})
			}
			add("plain", c, false, nil)
			add("wide", wide, false, nil)
			add("scaled", c, false, scale)
			add("wide half scaled", wide, true, scale)
			c.Dropout, wide.Dropout = 0.4, 0.4
			add("dropout half", c, true, nil)
			add("degrees", c, false, degrees)
			c.InputDropout, wide.InputDropout = true, true
			if kind == nn.GAT {
				c.AttentionDropout, wide.AttentionDropout = 0.3, 0.6
				c.Residual = true
			}
			add("input dropout scaled", c, false, scale)
			add("wide input dropout half", wide, true, scale)
		}
	}
	return all
}

// Every model: logits, and gradients of all parameters.
func TestAgainstReference(t *testing.T) {
	for _, backend := range kernels.Backends() {
		for i, v := range variants() {
			t.Run(backend+"/"+v.name, func(t *testing.T) {
				rng := rand.New(rand.NewPCG(11, uint64(i)))
				b := sample(rng, v.c.Hops(), v.c.Inputs, v.half)
				if v.prep != nil {
					v.prep(&b)
				}
				m := model(t, v.c, 4)
				e := engine(t, backend, 2)
				for _, mode := range []nn.Mode{{}, {Train: true, Key: [2]uint32{3, 4}}} {
					z, err := network(t, m, e, b, mode.Train).Forward(b, mode)
					if err != nil {
						t.Fatal(err)
					}
					for r, row := range reference(v.c, widened(m.Values), b, mode) {
						for c, want := range row {
							if got := float64(z.Data[r*z.Stride+c]); !(math.Abs(got-want) < 2e-5*(1+math.Abs(want))) {
								t.Fatalf("train %v: logit (%d,%d) is %v, want %v", mode.Train, r, c, got, want)
							}
						}
					}
				}
				gradients(t, v.c, m, e, b)
			})
		}
	}
}

func gradients(t *testing.T, c nn.Config, m *nn.Model, e *kernels.Engine, b nn.Batch) {
	t.Helper()
	mode := nn.Mode{Train: true, Key: [2]uint32{7, 8}}
	labels := make([]int64, b.NodesPerHop[0])
	for i := range labels {
		labels[i] = int64(i%(c.Classes+1)) - 1
	}
	n := network(t, m, e, b, true)
	z, err := n.Forward(b, mode)
	if err != nil {
		t.Fatal(err)
	}
	e.CrossEntropy(z, labels, z, 1)
	got := make([]float32, len(m.Values))
	n.Backward(z, got)
	loss := func(values []float64) (sum float64) {
		for r, row := range reference(c, values, b, mode) {
			if labels[r] < 0 {
				continue
			}
			var s float64
			for _, v := range row {
				s += math.Exp(v)
			}
			sum += math.Log(s) - row[labels[r]]
		}
		return sum
	}
	values := widened(m.Values)
	for i := range values {
		// Small enough that no ReLU changes side, large enough for float64.
		const h = 1e-6
		old := values[i]
		values[i] = old + h
		up := loss(values)
		values[i] = old - h
		down := loss(values)
		values[i] = old
		if want := (up - down) / (2 * h); !(math.Abs(float64(got[i])-want) < 5e-5*(1+math.Abs(want))) {
			t.Fatalf("gradient of parameter %d is %v, want %v", i, got[i], want)
		}
	}
}

// Bits do not depend on the number of threads, nor on garbage in the arena.
func TestThreadsAndArena(t *testing.T) {
	for _, kind := range []string{nn.GCN, nn.SAGE, nn.GAT, nn.MLP} {
		c := nn.Config{Kind: kind, Inputs: 70, Hidden: 40, Classes: 5, Layers: 3, Dropout: 0.5}
		if kind == nn.GAT {
			c.Heads, c.OutputHeads, c.AttentionDropout, c.Residual = 8, 3, 0.5, true
		}
		b := sample(rand.New(rand.NewPCG(1, 1)), c.Hops(), c.Inputs, false)
		var first []float32
		for _, threads := range []int{1, 2, 5} {
			m := model(t, c, 9)
			e := engine(t, "", threads)
			n := nn.NewNetwork(m, e)
			need, err := n.ArenaBytes(b, true)
			if err != nil {
				t.Fatal(err)
			}
			arena := make([]float32, need/4)
			for i := range arena {
				arena[i] = float32(math.NaN())
			}
			n.SetArena(arena)
			z, err := n.Forward(b, nn.Mode{Train: true})
			if err != nil {
				t.Fatal(err)
			}
			e.CrossEntropy(z, make([]int64, z.Rows), z, 1)
			g := make([]float32, len(m.Values))
			n.Backward(z, g)
			if first == nil {
				first = g
			}
			for i := range g {
				if math.Float32bits(g[i]) != math.Float32bits(first[i]) || g[i] != g[i] {
					t.Fatalf("%s: gradient %d is %v with %d threads, %v with 1", kind, i, g[i], threads, first[i])
				}
			}
		}
	}
}

// The plan of a bound covers every minibatch within it.
func TestActivationBytes(t *testing.T) {
	for _, v := range variants() {
		for seed := range uint64(5) {
			b := sample(rand.New(rand.NewPCG(2, seed)), v.c.Hops(), v.c.Inputs, false)
			edges := make([]int, v.c.Hops())
			for h := range edges {
				edges[h] = len(b.Src)
			}
			for _, train := range []bool{false, true} {
				n := nn.NewNetwork(model(t, v.c, 1), engine(t, "portable", 1))
				exact, err := n.ArenaBytes(b, train)
				if err != nil {
					t.Fatal(err)
				}
				if plan := v.c.ActivationBytes(nn.Bound{NodesPerHop: b.NodesPerHop, EdgesPerHop: edges}, train); plan < exact {
					t.Errorf("%s: planned %d bytes, %d needed", v.name, plan, exact)
				}
			}
		}
	}
}

func TestGraphErrors(t *testing.T) {
	c := nn.Config{Kind: nn.GCN, Inputs: 3, Hidden: 4, Classes: 2, Layers: 2}
	n := nn.NewNetwork(model(t, c, 1), engine(t, "", 1))
	for _, want := range []nn.GraphError{{Array: "Src", Index: 2}, {Array: "Ptr", Index: 3}} {
		b := sample(rand.New(rand.NewPCG(5, 5)), 2, 3, false)
		if want.Array == "Src" {
			b.Src[want.Index] = 1 << 31
		} else {
			b.Ptr[want.Index] = 1 << 31
		}
		_, err := n.Forward(b, nn.Mode{})
		var g *nn.GraphError
		if !errors.As(err, &g) || *g != want || g.Class() != "input" {
			t.Errorf("%v, want %v", err, &want)
		}
	}
}

func TestConfigRefused(t *testing.T) {
	good := nn.Config{Kind: nn.GCN, Inputs: 3, Hidden: 4, Classes: 2, Layers: 2}
	for field, change := range map[string]func(*nn.Config){
		"kind":              func(c *nn.Config) { c.Kind = "gin" },
		"inputs":            func(c *nn.Config) { c.Inputs = 0 },
		"hidden":            func(c *nn.Config) { c.Hidden = nn.MaxUnits + 1 },
		"classes":           func(c *nn.Config) { c.Classes = -1 },
		"layers":            func(c *nn.Config) { c.Layers = nn.MaxLayers + 1 },
		"dropout":           func(c *nn.Config) { c.Dropout = math.NaN() },
		"heads":             func(c *nn.Config) { c.Heads = 2 },
		"output_heads":      func(c *nn.Config) { c.Kind, c.Heads, c.OutputHeads = nn.GAT, 2, nn.MaxHeads+1 },
		"attention_dropout": func(c *nn.Config) { c.AttentionDropout = 0.5 },
		"residual":          func(c *nn.Config) { c.Residual = true },
	} {
		c := good
		change(&c)
		_, err := nn.NewModel(c, nil)
		var e *nn.ConfigError
		if !errors.As(err, &e) || e.Field != field || e.Class() != "usage" {
			t.Errorf("%s: %v", field, err)
		}
	}
	if err := good.Validate(); err != nil {
		t.Error(err)
	}
}

// Glorot: bounded by sqrt(6/(in+out)), with mean 0 and the variance of a uniform
// distribution; biases 0; another seed gives other weights.
func TestInitialize(t *testing.T) {
	c := nn.Config{Kind: nn.SAGE, Inputs: 200, Hidden: 100, Classes: 10, Layers: 2}
	m, err := nn.NewModel(c, make([]float32, c.NumParameters()))
	if err != nil {
		t.Fatal(err)
	}
	m.Initialize(1)
	for _, p := range m.Parameters {
		limit := math.Sqrt(6 / float64(p.Rows+p.Cols))
		var sum, squares float64
		for _, v := range p.Values {
			if math.Abs(float64(v)) > limit {
				t.Fatalf("%s: %v beyond %v", p.Name, v, limit)
			}
			sum += float64(v)
			squares += float64(v) * float64(v)
		}
		if p.Rows == 1 {
			if squares != 0 {
				t.Errorf("%s is not 0", p.Name)
			}
			continue
		}
		n, sigma := float64(len(p.Values)), limit/math.Sqrt(3)
		if z := sum / (sigma * math.Sqrt(n)); math.Abs(z) > 5 {
			t.Errorf("%s: mean is %.1f standard errors off", p.Name, z)
		}
		if ratio := squares / (n * sigma * sigma); math.Abs(ratio-1) > 5/math.Sqrt(n) {
			t.Errorf("%s: variance is %v times what it should be", p.Name, ratio)
		}
	}
	first := slices.Clone(m.Values)
	m.Initialize(2)
	if slices.Equal(first, m.Values) {
		t.Error("seeds 1 and 2 give the same weights")
	}
	m.Initialize(1)
	if !slices.Equal(first, m.Values) {
		t.Error("seed 1 does not repeat")
	}
}
