package operation

// Statistics of drawn subsets, each with its distribution where draws are uniform
// and independent, as p-values; and the proof that those distributions are right.
// The asymptotics are exact in the mean, and in the variance but for terms of
// relative size 1/T, T the number of draws; docs/sampling.md tells what each finds.

import (
	"fmt"
	"math"
	"math/bits"
	"math/rand/v2"
	"slices"
	"testing"

	"gonum.org/v1/gonum/stat/combin"
	"gonum.org/v1/gonum/stat/distuv"
)

// sets are draws of k of d positions, one after another, each ascending.
type sets struct {
	k, d      int
	positions []uint32
}

func (s *sets) len() int          { return len(s.positions) / s.k }
func (s *sets) at(i int) []uint32 { return s.positions[i*s.k : (i+1)*s.k] }

// every returns the draws i, i+step, …
func (s *sets) every(i, step int) *sets {
	r := &sets{k: s.k, d: s.d}
	for ; i < s.len(); i += step {
		r.positions = append(r.positions, s.at(i)...)
	}
	return r
}

// twoSided is the p-value of a chi-square sum that may be too large or too small:
// draws more even than chance are no better.
func twoSided(sum, freedom float64) float64 {
	d := distuv.ChiSquared{K: freedom}
	return 2 * min(d.CDF(sum), d.Survival(sum), 0.5)
}

// squares is Pearson's sum for counts with the shares of all cells.
func squares(counts []int, shares []float64) float64 {
	total, sum := 0, 0.0
	for _, c := range counts {
		total += c
	}
	for i, c := range counts {
		expect := float64(total) * shares[i]
		sum += (float64(c) - expect) * (float64(c) - expect) / expect
	}
	return sum
}

// pooled is Pearson's test, cells that expect fewer than ten being put together
// with the next, or the last with the one before.
func pooled(counts []int, shares []float64) float64 {
	total := 0
	for _, c := range counts {
		total += c
	}
	var cs []int
	var ps []float64
	open := false // the last cell still expects too little
	for i, c := range counts {
		if open {
			cs[len(cs)-1] += c
			ps[len(ps)-1] += shares[i]
		} else {
			cs, ps = append(cs, c), append(ps, shares[i])
		}
		open = ps[len(ps)-1]*float64(total) < 10
	}
	if n := len(cs); open && n > 1 {
		cs[n-2] += cs[n-1]
		ps[n-2] += ps[n-1]
		cs, ps = cs[:n-1], ps[:n-1]
	}
	if len(cs) < 2 {
		panic("operation: too few draws for a test")
	}
	return twoSided(squares(cs, ps), float64(len(cs)-1))
}

// deviation is the sum of squares of the counts of each position around T k/d,
// in units in which its mean is d-1.
func (s *sets) deviation() float64 {
	counts := make([]int, s.d)
	for _, p := range s.positions {
		counts[p]++
	}
	n, share := float64(s.len()), float64(s.k)/float64(s.d)
	sum := 0.0
	for _, c := range counts {
		sum += (float64(c) - n*share) * (float64(c) - n*share)
	}
	return sum / (n * share * (1 - share)) * float64(s.d-1) / float64(s.d)
}

// inclusion: every position is drawn equally often. The counts of a draw of k of
// d have the covariance k/d (1-k/d) d/(d-1) (I - J/d), so the scaled sum of
// squares is chi-square of d-1 degrees of freedom; those of independent series
// add up.
func inclusion(series ...*sets) float64 {
	sum, freedom := 0.0, 0.0
	for _, s := range series {
		sum += s.deviation()
		freedom += float64(s.d - 1)
	}
	return twoSided(sum, freedom)
}

// pairs: every pair of positions is drawn together equally often, given how often
// each is drawn. What the positions' own counts explain (R_i+R_j)/(d-2) of the
// centred pair counts, R their row sums, is taken away; on what is left, d(d-3)/2
// dimensions, the covariance of a draw is p2 - 2 p3 + p4 times the identity, pm
// the chance that m given positions are all drawn (Johnson scheme J(d,2)).
func pairs(s *sets) float64 {
	d, n := s.d, float64(s.len())
	counts := make([]float64, d*d)
	for i := range s.len() {
		set := s.at(i)
		for a, p := range set {
			for _, q := range set[a+1:] {
				counts[int(p)*d+int(q)]++
			}
		}
	}
	p2 := float64(s.k) * float64(s.k-1) / float64(d*(d-1))
	p3 := p2 * float64(s.k-2) / float64(d-2)
	p4 := p3 * float64(s.k-3) / float64(d-3)
	rows := make([]float64, d)
	for p := range d {
		for q := p + 1; q < d; q++ {
			counts[p*d+q] -= n * p2
			rows[p] += counts[p*d+q]
			rows[q] += counts[p*d+q]
		}
	}
	sum := 0.0
	for p := range d {
		for q := p + 1; q < d; q++ {
			rest := counts[p*d+q] - (rows[p]+rows[q])/float64(d-2)
			sum += rest * rest
		}
	}
	return twoSided(sum/(n*(p2-2*p3+p4)), float64(d*(d-3)/2))
}

// subsets: all subsets of k of d are equally likely; Pearson's chi-square of
// C(d,k)-1 degrees of freedom.
func subsets(series ...*sets) float64 {
	sum, freedom := 0.0, 0.0
	for _, s := range series {
		counts := make([]int, 1<<s.d)
		for i := range s.len() {
			code := 0
			for _, p := range s.at(i) {
				code |= 1 << p
			}
			counts[code]++
		}
		cells := combin.Binomial(s.d, s.k)
		var kept []int
		for code, c := range counts {
			if bits.OnesCount(uint(code)) == s.k {
				kept = append(kept, c)
			}
		}
		sum += squares(kept, slices.Repeat([]float64{1 / float64(cells)}, cells))
		freedom += float64(cells - 1)
	}
	return twoSided(sum, freedom)
}

// dispersion: the draws within a group are independent. Each group's deviation has
// the mean d-1 and, S draws being in a group, the variance 2(d-1)(1-1/S): exactly,
// because every draw lies at the same distance from the mean. Their sum over the
// groups has the distribution of (1-1/S) times chi-square, by these two moments.
// A group of which every pair of draws overlaps by a share more than chance has a
// deviation larger by (S-1) times that share, so that few draws that depend on
// each other are found among many that do not.
func dispersion(s *sets, size int, group func(draw int) int) float64 {
	groups := s.len() / size
	list := make([][]uint32, groups)
	for i := range s.len() {
		g := group(i)
		list[g] = append(list[g], s.at(i)...)
	}
	sum := 0.0
	for _, positions := range list {
		if len(positions) != size*s.k {
			panic("operation: groups are not of one size")
		}
		sum += (&sets{s.k, s.d, positions}).deviation()
	}
	scale := 1 - 1/float64(size)
	return twoSided(sum/scale, float64(groups*(s.d-1))/scale)
}

// hypergeometric returns the chances of 0..k marked among k drawn of d of which
// marked are.
func hypergeometric(d, marked, k int) []float64 {
	shares := make([]float64, k+1)
	log := combin.LogGeneralizedBinomial
	for i := range shares {
		if i <= marked && k-i <= d-marked {
			shares[i] = math.Exp(log(float64(marked), float64(i)) + log(float64(d-marked), float64(k-i)) - log(float64(d), float64(k)))
		}
	}
	return shares
}

// overlap: draws a_i and b_i are independent. The size of what they share is
// hypergeometric; Pearson's chi-square over the sizes.
func overlap(a, b *sets) float64 {
	counts := make([]int, a.k+1)
	for i := range a.len() {
		n, x := 0, b.at(i)
		for _, p := range a.at(i) {
			if _, ok := slices.BinarySearch(x, p); ok {
				n++
			}
		}
		counts[n]++
	}
	return pooled(counts, hypergeometric(a.d, a.k, a.k))
}

// ranges: the positions are drawn equally often from every range [ends[r-1], ends[r]).
// The counts of without-replacement draws vary less than independent ones by
// (d-k)/(d-1); chi-square of one degree less than there are ranges.
func ranges(ends []int, series ...*sets) float64 {
	counts, shares := make([]int, len(ends)), make([]float64, len(ends))
	d, k := series[0].d, series[0].k
	for i, end := range ends {
		shares[i] = float64(end) / float64(d)
		if i > 0 {
			shares[i] -= float64(ends[i-1]) / float64(d)
		}
	}
	for _, s := range series {
		for _, p := range s.positions {
			r, _ := slices.BinarySearch(ends, int(p)+1)
			counts[r]++
		}
	}
	return twoSided(squares(counts, shares)*float64(d-1)/float64(d-k), float64(len(ends)-1))
}

// below: how many of a draw's positions are below end is hypergeometric.
func below(end int, s *sets) float64 {
	counts := make([]int, s.k+1)
	for i := range s.len() {
		n, _ := slices.BinarySearch(s.at(i), uint32(end))
		counts[n]++
	}
	return pooled(counts, hypergeometric(s.d, end, s.k))
}

// coincidences: no two of n draws of a space of 2^bits are equal but by chance.
// The number of equal pairs is Poisson, of the mean n(n-1)/2 / 2^bits, for a
// space much larger than n.
func coincidences[T comparable](draws []T, bits float64) float64 {
	seen := map[T]int{}
	pairs := 0
	for _, s := range draws {
		pairs += seen[s]
		seen[s]++
	}
	if pairs == 0 {
		return 1
	}
	n := float64(len(draws))
	return distuv.Poisson{Lambda: n * (n - 1) / 2 / math.Exp2(bits)}.Survival(float64(pairs - 1))
}

// places: every seed stands equally often at every place. The counts of n! equally
// likely orders are those of a doubly centred table; chi-square of (n-1)^2.
func places(orders [][]int64) float64 {
	n := len(orders[0])
	counts := make([]int, n*n)
	for _, order := range orders {
		for i, x := range order {
			counts[i*n+int(x)]++
		}
	}
	sum := 0.0
	for i := range n {
		sum += squares(counts[i*n:(i+1)*n], slices.Repeat([]float64{1 / float64(n)}, n))
	}
	return twoSided(sum*float64(n-1)/float64(n), float64((n-1)*(n-1)))
}

// allOrders: all orders of a few seeds are equally likely but for their sign, whose
// mean is given; Pearson's chi-square of n!-1 degrees of freedom.
func allOrders(sign float64, orders [][]int64) float64 {
	n := len(orders[0])
	counts := map[string]int{}
	for _, order := range orders {
		counts[fmt.Sprint(order)]++
	}
	cells := combin.NumPermutations(n, n)
	list, shares := make([]int, cells), make([]float64, cells)
	for i, p := range combin.Permutations(n, n) {
		list[i] = counts[fmt.Sprint(p)]
		own := sign
		for a := range p {
			for b := range a {
				if p[b] > p[a] {
					own = -own
				}
			}
		}
		shares[i] = (1 + own) / float64(cells)
	}
	return twoSided(squares(list, shares), float64(cells-1))
}

// meanSign is the mean sign of the orders that a Feistel network of at least two
// bits a half, an even permutation of N = 2^2h numbers, gives n of them by walking
// on until a number is below n. The order is the permutation with the other numbers
// struck out of its cycles, so the two signs differ by the parity of n and of the
// cycles without one of the n; put in one after another, the numbers n, n+1, …
// begin such a cycle with the chance 1/(number + 1), hence the mean of that parity's
// sign, the product of 1-2/(i+1), i from n to N-1, is n(n-1) / (N(N-1)).
func meanSign(n, domain int) float64 {
	mean := float64(n*(n-1)) / float64(domain*(domain-1))
	if n%2 == 1 {
		return -mean
	}
	return mean
}

// meetings: two orders are independent. The number of seeds that stand at one
// place in both has the distribution of the fixed points of a permutation,
// P(m) = sum over i <= n-m of (-1)^i / i! / m!.
func meetings(a, b [][]int64) float64 {
	n := len(a[0])
	shares, counts := make([]float64, n+1), make([]int, n+1)
	for m := range shares {
		for i, term := 0, 1.0; i <= n-m; i++ {
			shares[m] += term
			term *= -1 / float64(i+1)
		}
		g, _ := math.Lgamma(float64(m) + 1)
		shares[m] /= math.Exp(g)
	}
	for i := range a {
		m := 0
		for j, x := range a[i] {
			if b[i][j] == x {
				m++
			}
		}
		counts[m]++
	}
	return pooled(counts, shares)
}

// reference draws n sets by a shuffle of the generator of math/rand.
func reference(r *rand.Rand, n, k, d int) *sets {
	s := &sets{k: k, d: d}
	for range n {
		set := make([]uint32, 0, k)
		for _, p := range r.Perm(d)[:k] {
			set = append(set, uint32(p))
		}
		slices.Sort(set)
		s.positions = append(s.positions, set...)
	}
	return s
}

func referenceOrders(r *rand.Rand, n, length int) [][]int64 {
	all := make([][]int64, n)
	for i := range all {
		for _, x := range r.Perm(length) {
			all[i] = append(all[i], int64(x))
		}
	}
	return all
}

// TestNullDistributions: of uniform, independent draws by another method and
// generator every statistic's p-values are uniform over 0..1, by Kolmogorov's
// test of 400 of each at 10^-6; those of coincidences, of which there are few, at
// least not smaller.
func TestNullDistributions(t *testing.T) {
	repeats := 400
	if testing.Short() {
		repeats = 40
	}
	n := float64(repeats)
	thirds := func(d int) []int { return []int{d / 7, d / 2, d} }
	for name, one := range map[string]func(r *rand.Rand) float64{
		"inclusion": func(r *rand.Rand) float64 { return inclusion(reference(r, 300, 10, 20), reference(r, 300, 1, 5)) },
		"pairs":     func(r *rand.Rand) float64 { return pairs(reference(r, 600, 10, 20)) },
		"subsets":   func(r *rand.Rand) float64 { return subsets(reference(r, 600, 3, 6), reference(r, 200, 2, 5)) },
		"dispersion": func(r *rand.Rand) float64 {
			return dispersion(reference(r, 600, 10, 20), 10, func(i int) int { return i % 60 })
		},
		"overlap":    func(r *rand.Rand) float64 { return overlap(reference(r, 900, 10, 20), reference(r, 900, 10, 20)) },
		"ranges":     func(r *rand.Rand) float64 { return ranges(thirds(60), reference(r, 300, 30, 60)) },
		"below":      func(r *rand.Rand) float64 { return below(25, reference(r, 900, 20, 60)) },
		"places":     func(r *rand.Rand) float64 { return places(referenceOrders(r, 300, 12)) },
		"all orders": func(r *rand.Rand) float64 { return allOrders(0, referenceOrders(r, 500, 4)) },
		"meetings":   func(r *rand.Rand) float64 { return meetings(referenceOrders(r, 600, 12), referenceOrders(r, 600, 12)) },
		"coincidences": func(r *rand.Rand) float64 {
			draws := make([]uint32, 300)
			for i := range draws {
				draws[i] = r.Uint32() >> 16
			}
			return coincidences(draws, 16)
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := rand.New(rand.NewPCG(20, 26))
			p := make([]float64, repeats)
			for i := range p {
				p[i] = one(r)
			}
			slices.Sort(p)
			far := 0.0
			for i, x := range p {
				far = max(far, float64(i+1)/n-x)
				if name != "coincidences" {
					far = max(far, x-float64(i)/n)
				}
			}
			// Kolmogorov: P(D > far) < 2 exp(-2 n far^2).
			if chance := 2 * math.Exp(-2*n*far*far); chance < 1e-6 {
				t.Errorf("p-values are up to %.3f away from uniform ones, chance %.1e", far, chance)
			}
		})
	}
}
