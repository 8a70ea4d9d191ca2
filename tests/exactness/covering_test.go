package exactness

// Covering designs: few rows of settings in which every pair of values meets.

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

// term is one setting with its value.
type term struct{ factor, value string }

// dimension is what a row chooses one of. A choice sets one term, or several
// that come together.
type dimension [][]term

// factor is a dimension of one setting.
func factor(name string, values ...string) dimension {
	var d dimension
	for _, v := range values {
		d = append(d, []term{{name, v}})
	}
	return d
}

// design is what rows have to cover.
type design struct {
	dimensions []dimension
	// forbidden says that two terms must not meet; wanted, nil for all, that they
	// have to. Both are asked with terms of different dimensions, the earlier first.
	forbidden, wanted func(a, b term) bool
}

// candidates are tried for each row; the one that covers most is taken.
const candidates = 20

// rows returns choices by dimension: every wanted pair of terms that is not
// forbidden is in at least one row, and so is every term. Each row covers as many
// pairs that no earlier one did as a greedy search finds.
func (d *design) rows(r *rand.Rand) [][]int {
	type pair [2]term
	left, order := map[pair]bool{}, []pair{}
	need := func(p pair) {
		if !left[p] {
			left[p], order = true, append(order, p)
		}
	}
	at := map[term]int{} // dimension of a term
	for i, dim := range d.dimensions {
		for _, choice := range dim {
			for _, a := range choice {
				at[a] = i
				need(pair{a, a})
				for _, later := range d.dimensions[i+1:] {
					for _, other := range later {
						for _, b := range other {
							if !d.forbids(a, b) && (d.wanted == nil || d.wanted(a, b)) {
								need(pair{a, b})
							}
						}
					}
				}
			}
		}
	}
	// gain counts the pairs that a choice would cover, -1 where it is forbidden.
	gain := func(row []int, i, c int) int {
		n := 0
		for _, a := range d.dimensions[i][c] {
			if left[pair{a, a}] {
				n++
			}
			for j, k := range row {
				if k < 0 || j == i {
					continue
				}
				for _, b := range d.dimensions[j][k] {
					p := pair{a, b}
					if j < i {
						p = pair{b, a}
					}
					if d.forbids(p[0], p[1]) {
						return -1
					}
					if left[p] {
						n++
					}
				}
			}
		}
		return n
	}
	// having returns a random choice of a dimension that sets a term.
	having := func(a term) int {
		for {
			c := r.IntN(len(d.dimensions[at[a]]))
			for _, b := range d.dimensions[at[a]][c] {
				if a == b {
					return c
				}
			}
		}
	}
	candidate := func(p pair) (row []int, covers int) {
		row = make([]int, len(d.dimensions))
		for i := range row {
			row[i] = -1
		}
		for _, a := range p {
			if row[at[a]] < 0 {
				c := having(a)
				g := gain(row, at[a], c)
				if g < 0 {
					return nil, -1
				}
				row[at[a]], covers = c, covers+g
			}
		}
		for _, i := range r.Perm(len(row)) {
			if row[i] >= 0 {
				continue
			}
			best := -1
			for _, c := range r.Perm(len(d.dimensions[i])) {
				if g := gain(row, i, c); g > best {
					best, row[i] = g, c
				}
			}
			if best < 0 {
				return nil, -1
			}
			covers += best
		}
		return row, covers
	}
	var rows [][]int
	for _, p := range order {
		for left[p] {
			var row []int
			most := -1
			for range candidates {
				if try, n := candidate(p); n > most {
					row, most = try, n
				}
			}
			if row == nil {
				panic(fmt.Sprintf("goagnes_test: no row can have %v", p))
			}
			terms := d.terms(row)
			for i, a := range terms {
				for _, b := range terms[i:] {
					delete(left, pair{a, b})
				}
			}
			rows = append(rows, row)
		}
	}
	return rows
}

func (d *design) forbids(a, b term) bool { return d.forbidden != nil && d.forbidden(a, b) }

// terms returns what a row sets.
func (d *design) terms(row []int) []term {
	var all []term
	for i, c := range row {
		all = append(all, d.dimensions[i][c]...)
	}
	return all
}

// TestCovering counts the pairs of designs: all that are allowed, none that is
// not, in far fewer rows than there are combinations.
func TestCovering(t *testing.T) {
	abc := []string{"a", "b", "c", "d"}
	for _, c := range []struct {
		name string
		d    design
		most int
	}{
		{"one dimension", design{dimensions: []dimension{factor("p", abc...)}}, 4},
		{"ten of four", design{dimensions: []dimension{factor("0", abc...), factor("1", abc...), factor("2", abc...), factor("3", abc...), factor("4", abc...),
			factor("5", abc...), factor("6", abc...), factor("7", abc...), factor("8", abc...), factor("9", abc...)}}, 40},
		{"choices of two terms", design{dimensions: []dimension{{{{"p", "0"}, {"q", "0"}}, {{"p", "0"}, {"q", "1"}}, {{"p", "1"}, {"q", "0"}}}, factor("r", abc...), factor("s", "0", "1")}}, 16},
		{"a pair forbidden", design{dimensions: []dimension{factor("p", "0", "1"), factor("q", "0", "1"), factor("r", "0", "1")},
			forbidden: func(a, b term) bool { return a == term{"p", "1"} && b == term{"q", "0"} }}, 6},
		{"one dimension's pairs unwanted", design{dimensions: []dimension{factor("p", "0", "1", "2", "3", "4", "5", "6", "7"), factor("q", abc...), factor("r", "0", "1")},
			wanted: func(a, b term) bool { return a.factor != "p" }}, 9},
	} {
		rows := c.d.rows(rand.New(rand.NewPCG(1, 1)))
		met := map[[2]term]bool{}
		for _, row := range rows {
			for i, a := range c.d.terms(row) {
				for _, b := range c.d.terms(row)[i:] {
					met[[2]term{a, b}] = true
				}
			}
		}
		for i, dim := range c.d.dimensions {
			for _, choice := range dim {
				for _, a := range choice {
					if !met[[2]term{a, a}] {
						t.Errorf("%s: %v is in no row", c.name, a)
					}
					for _, later := range c.d.dimensions[i+1:] {
						for _, other := range later {
							for _, b := range other {
								pair, forbidden := [2]term{a, b}, c.d.forbids(a, b)
								if met[pair] && forbidden || !met[pair] && !forbidden && (c.d.wanted == nil || c.d.wanted(a, b)) {
									t.Errorf("%s: %v and %v: they meet: %v, forbidden: %v", c.name, a, b, met[pair], forbidden)
								}
							}
						}
					}
				}
			}
		}
		if len(rows) > c.most {
			t.Errorf("%s: %d rows, %d are enough", c.name, len(rows), c.most)
		}
	}
}
