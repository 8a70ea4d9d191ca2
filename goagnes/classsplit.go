package goagnes

// Splits drawn by class: so many nodes of each class for training and validation,
// the rest for testing (Shchur et al., 2018).

import (
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/goagnes/goagnes/goagnes/train"
	"github.com/goagnes/goagnes/kernels"
	"github.com/goagnes/goagnes/layout"
	"github.com/goagnes/goagnes/layout/build/source"
	"github.com/goagnes/goagnes/layout/build/source/array"
)

// splitTag is the last counter word of the stream that draws splits
// (docs/sampling.md).
const splitTag = 5

const (
	perClass      = "per-class:"
	maxPerClass   = 1 << 16
	maxCandidates = 1 << 20 // nodes drawn over all classes
)

// parseSplit reads "per-class:TRAIN,VAL".
func parseSplit(text string) (training, validation int, err error) {
	list, ok := strings.CutPrefix(text, perClass)
	first, second, pair := strings.Cut(list, ",")
	if !ok || !pair {
		return 0, 0, &UnsupportedError{"split", text, `"per-class:TRAIN,VAL" with two numbers, such as per-class:20,30, is`}
	}
	var n [2]int
	for i, part := range []string{first, second} {
		if n[i], err = strconv.Atoi(part); err != nil || n[i] < 1-i || n[i] > maxPerClass {
			return 0, 0, argumentf("split", "%q: %q is no number of nodes from %d to %d", text, part, 1-i, maxPerClass)
		}
	}
	return n[0], n[1], nil
}

// candidate is a labelled node and its place in the draw.
type candidate struct {
	key  uint64
	node int64
}

func (c candidate) compare(d candidate) int {
	return cmp.Or(cmp.Compare(c.key, d.key), cmp.Compare(c.node, d.node))
}

// classSplits draws the splits train, val and test by the labels of y: nodes of a
// class are ranked by a number drawn for each; the first go to train, the next to
// val, the rest to test. It returns a note for people.
func classSplits(ctx context.Context, y source.Rows, training, validation int, seed uint64) (map[string]source.Rows, string, error) {
	y, _, err := source.Labels(y)
	if err != nil {
		return nil, "", err
	}
	key := [2]uint32{uint32(seed), uint32(seed >> 32)}
	want := training + validation
	first := map[int64][]candidate{} // by class: the lowest so far, ascending
	kept, labelled := 0, 0
	err = y.Scan(ctx, func(at int64, rows []byte) error {
		for i := range len(rows) / 8 {
			class := int64(binary.LittleEndian.Uint64(rows[8*i:]))
			if class < 0 {
				continue
			}
			labelled++
			v := at + int64(i)
			w := kernels.Philox(key, [4]uint32{uint32(v), uint32(v >> 32), 0, splitTag})
			c := candidate{uint64(w[0]) | uint64(w[1])<<32, v}
			list := first[class]
			place, _ := slices.BinarySearchFunc(list, c, candidate.compare)
			if place == want {
				continue
			}
			if len(list) == want {
				list = list[:want-1]
			} else if kept++; kept > maxCandidates {
				return argumentf("split", "more than %d nodes would be drawn for train and val; ask for fewer, or bring splits as files", maxCandidates)
			}
			first[class] = slices.Insert(list, place, c)
		}
		return nil
	})
	if err != nil {
		return nil, "", err
	}
	if labelled == 0 {
		return nil, "", argumentf("split", "no node has a label to draw by")
	}
	var trains, vals []int64
	short := 0
	for _, list := range first {
		n := min(training, len(list))
		for _, c := range list[:n] {
			trains = append(trains, c.node)
		}
		for _, c := range list[n:] {
			vals = append(vals, c.node)
		}
		if len(list) < want {
			short++
		}
	}
	slices.Sort(trains)
	slices.Sort(vals)
	drawn := slices.Sorted(slices.Values(slices.Concat(trains, vals)))
	splits := map[string]source.Rows{train.SplitTest: &restRows{y, drawn}}
	for name, ids := range map[string][]int64{train.SplitTrain: trains, train.SplitVal: vals} {
		b := make([]byte, 0, 8*len(ids))
		for _, v := range ids {
			b = binary.LittleEndian.AppendUint64(b, uint64(v))
		}
		if splits[name], err = array.RowsFromMemory(Memory{Name: "split " + name, Data: b, DType: layout.Int64, Shape: []int64{int64(len(ids))}}); err != nil {
			return nil, "", err
		}
	}
	note := fmt.Sprintf("splits drawn by class with seed %d: %d nodes train, %d val, %d test", seed, len(trains), len(vals), labelled-len(drawn))
	if short > 0 {
		note += fmt.Sprintf("; %d of %d classes have fewer than %d nodes, train comes first and test goes without", short, len(first), want)
	}
	return splits, note, nil
}

// restRows is the mask of labelled nodes that were not drawn.
type restRows struct {
	y     source.Rows
	drawn []int64 // ascending
}

func (r *restRows) Len() int64          { return r.y.Len() }
func (r *restRows) RowShape() []int64   { return nil }
func (r *restRows) DType() layout.DType { return layout.Bool }
func (r *restRows) Name() string        { return "split " + train.SplitTest }

func (r *restRows) Scan(ctx context.Context, f func(first int64, rows []byte) error) error {
	return r.y.Scan(ctx, func(first int64, rows []byte) error {
		mask := make([]byte, len(rows)/8)
		next, _ := slices.BinarySearch(r.drawn, first)
		for i := range mask {
			if next < len(r.drawn) && r.drawn[next] == first+int64(i) {
				next++
			} else if int64(binary.LittleEndian.Uint64(rows[8*i:])) >= 0 {
				mask[i] = 1
			}
		}
		return f(first, mask)
	})
}

// drawSplits puts drawn splits in place of those of the source.
func drawSplits(ctx context.Context, o BuildOptions, y source.Rows, splits map[string]source.Rows) (notes []string, err error) {
	training, validation, err := parseSplit(o.Split)
	if err != nil {
		return nil, err
	}
	for _, name := range []string{train.SplitTrain, train.SplitVal, train.SplitTest} {
		if o.Splits[name].given() {
			return nil, argumentf("split", "%s draws split %q, which is given as well; leave one of the two out", o.Split, name)
		}
	}
	if y == nil {
		return nil, argumentf("split", "%s needs labels (y), and there are none", o.Split)
	}
	drawn, note, err := classSplits(ctx, y, training, validation, o.SplitSeed)
	if err != nil {
		return nil, err
	}
	notes = append(notes, note)
	for _, name := range slices.Sorted(maps.Keys(drawn)) {
		if splits[name] != nil {
			notes = append(notes, fmt.Sprintf("split %q of the source is replaced by the one drawn", name))
		}
		splits[name] = drawn[name]
	}
	return notes, nil
}
