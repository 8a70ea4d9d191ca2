package report

// Geometry of the drawings. All lengths are in the drawing's own units, which
// the page scales to its width; words are set by the template.

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"unicode/utf8"
)

// Limits of one drawing.
const (
	maxPoints = 400
	maxBars   = 24
)

// The drawing's sizes.
const (
	width      = 720.0
	plotLeft   = 64.0
	plotRight  = 708.0
	plotTop    = 12.0
	plotBottom = 208.0
	plotHeight = 244.0

	barLabel  = 190.0 // where bars begin
	barEnd    = 600.0 // where the longest ends; its value follows
	barStep   = 26.0
	barHeight = 16.0
)

// chart is one drawing with its title; exactly one of the pointers is set.
type chart struct {
	Title string
	Note  string // a sentence under the title
	Plot  *plot
	Bars  *bars
}

// tick is a mark on an axis.
type tick struct {
	At   float64
	Text string
}

// series is one line, area or row of columns of a plot.
type series struct {
	Name   string
	Class  string // style
	Path   string // of a line or an area
	Filled bool   // an area
	Rects  []rect // of columns
}

type rect struct {
	X, Y, W, H float64
	Text       string // told on pointing at it
}

// plot has two axes. The limit is a level across it.
type plot struct {
	Width, Height            float64
	Left, Right, Top, Bottom float64
	XTicks, YTicks           []tick
	XLabel, YLabel           string
	Series                   []series
	Limit                    *tick
}

func newPlot(xLabel, yLabel string) *plot {
	return &plot{Width: width, Height: plotHeight, Left: plotLeft, Right: plotRight, Top: plotTop, Bottom: plotBottom,
		XLabel: xLabel, YLabel: yLabel}
}

// scale maps [low, high] to the interval from a to b.
func scale(low, high, a, b float64) func(float64) float64 {
	span := high - low
	if span == 0 {
		span = 1
	}
	return func(v float64) float64 { return round(a + (v-low)/span*(b-a)) }
}

// round keeps drawings small: a hundredth of a unit is not seen.
func round(v float64) float64 { return math.Round(v*100) / 100 }

// ticks returns about n round numbers from low to high.
func ticks(low, high float64, n int) []float64 {
	span := high - low
	if !(span > 0) || math.IsInf(span, 0) {
		return []float64{low}
	}
	step := math.Pow(10, math.Floor(math.Log10(span/float64(n))))
	for _, m := range []float64{1, 2, 5, 10} {
		if span/(step*m) <= float64(n) {
			step *= m
			break
		}
	}
	var at []float64
	first := math.Ceil(low/step - 1e-9)
	for i := range int(math.Floor(high/step+1e-9)-first) + 1 {
		at = append(at, (first+float64(i))*step+0) // + 0: no negative zero
	}
	return at
}

// byteTicks returns about n round numbers of bytes, in the unit that people read.
func byteTicks(high float64, n int) []float64 {
	unit := 1.0
	for high/unit >= 1024 {
		unit *= 1024
	}
	at := ticks(0, high/unit, n)
	for i := range at {
		at[i] *= unit
	}
	return at
}

// points are what a line goes through.
type points struct{ x, y []float64 }

// thin replaces runs of points by their means so that at most maxPoints are left.
func (p points) thin() points {
	n := len(p.x)
	if n <= maxPoints {
		return p
	}
	var q points
	for i := range maxPoints {
		low, high := i*n/maxPoints, (i+1)*n/maxPoints
		q.x, q.y = append(q.x, mean(p.x[low:high])), append(q.y, mean(p.y[low:high]))
	}
	return q
}

func mean(v []float64) float64 {
	sum := 0.0
	for _, x := range v {
		sum += x
	}
	return sum / float64(len(v))
}

// line is a named curve.
type line struct {
	name, class string
	points
}

// lines draws curves on one pair of axes, the vertical one from low to high.
func lines(xLabel, yLabel string, low, high float64, format func(float64) string, list []line) *plot {
	p := newPlot(xLabel, yLabel)
	first, last := math.Inf(1), math.Inf(-1)
	for _, l := range list {
		if len(l.x) > 0 {
			first, last = min(first, slices.Min(l.x)), max(last, slices.Max(l.x))
		}
	}
	x, y := scale(first, last, p.Left, p.Right), scale(low, high, p.Bottom, p.Top)
	for _, v := range ticks(low, high, 5) {
		p.YTicks = append(p.YTicks, tick{y(v), format(v)})
	}
	for _, v := range ticks(first, last, 10) {
		if v == math.Trunc(v) {
			p.XTicks = append(p.XTicks, tick{x(v), fmt.Sprintf("%g", v)})
		}
	}
	for _, l := range list {
		q := l.thin()
		var path strings.Builder
		for i := range q.x {
			fmt.Fprintf(&path, "%c%g %g", "ML"[min(i, 1)], x(q.x[i]), y(q.y[i]))
		}
		if len(q.x) == 1 { // a line of one point is not seen
			fmt.Fprintf(&path, "h3")
		}
		p.Series = append(p.Series, series{Name: l.name, Class: l.class, Path: path.String()})
	}
	return p
}

// stack draws areas on top of each other, bytes a second for each of equal
// steps of time, and a limit across them, 0 for none.
func stack(step, limit float64, limitText string, list []line) *plot {
	p := newPlot("seconds since the first request", "bytes a second")
	n := 0
	for _, l := range list {
		n = max(n, len(l.y))
	}
	base := make([]float64, n)
	top, high := make([][]float64, len(list)), limit
	for i, l := range list {
		top[i] = make([]float64, n)
		for j := range n {
			if j < len(l.y) {
				base[j] += l.y[j]
			}
			top[i][j] = base[j]
			high = max(high, base[j])
		}
	}
	high *= 1.05
	x, y := scale(0, float64(n)*step, p.Left, p.Right), scale(0, high, p.Bottom, p.Top)
	for _, v := range byteTicks(high, 5) {
		p.YTicks = append(p.YTicks, tick{y(v), bytes(int64(v))})
	}
	for _, v := range ticks(0, float64(n)*step, 10) {
		p.XTicks = append(p.XTicks, tick{x(v), plain(v)})
	}
	for i, l := range list {
		var path strings.Builder
		fmt.Fprintf(&path, "M%g %g", p.Left, p.Bottom)
		for j, v := range top[i] {
			fmt.Fprintf(&path, "L%g %gH%g", x(float64(j)*step), y(v), x(float64(j+1)*step))
		}
		fmt.Fprintf(&path, "V%g", p.Bottom)
		for j := n - 1; j >= 0 && i > 0; j-- { // back along the one below
			fmt.Fprintf(&path, "V%gH%g", y(top[i-1][j]), x(float64(j)*step))
		}
		p.Series = append(p.Series, series{Name: l.name, Class: l.class, Path: path.String() + "Z", Filled: true})
	}
	if limit > 0 {
		p.Limit = &tick{y(limit), limitText}
	}
	return p
}

// letter is the width that a letter of a label takes at most, on the average.
const letter = 7.0

// column is a named row of columns of a histogram.
type column struct {
	name, class string
	counts      []int64
}

// columns draws histograms over buckets of powers of two side by side, from the
// first bucket with a count to the last.
func columns(xLabel string, edge func(bucket int) string, list []column) *plot {
	low, high, most := math.MaxInt, -1, int64(0)
	for _, c := range list {
		for i, n := range c.counts {
			if n > 0 {
				low, high, most = min(low, i), max(high, i), max(most, n)
			}
		}
	}
	if high < 0 {
		return nil
	}
	p := newPlot(xLabel, "requests")
	y := scale(0, float64(most)*1.05, p.Bottom, p.Top)
	for _, v := range ticks(0, float64(most)*1.05, 5) {
		if v == math.Trunc(v) {
			p.YTicks = append(p.YTicks, tick{y(v), count(int64(v))})
		}
	}
	slot := (p.Right - p.Left) / float64(high-low+1)
	each := slot * 0.84 / float64(len(list))
	widest := 0
	for i := low; i <= high; i++ {
		widest = max(widest, utf8.RuneCountInString(edge(i)))
	}
	every := max(1, int(math.Ceil(float64(widest+1)*letter/slot))) // labels that would touch are left out
	for i := low; i <= high; i += every {
		p.XTicks = append(p.XTicks, tick{round(p.Left + (float64(i-low)+0.5)*slot), edge(i)})
	}
	for k, c := range list {
		s := series{Name: c.name, Class: c.class}
		for i := low; i <= high && i < len(c.counts); i++ {
			if n := c.counts[i]; n > 0 {
				h := max(p.Bottom-y(float64(n)), 1) // one request among millions is still seen
				s.Rects = append(s.Rects, rect{round(p.Left + float64(i-low)*slot + slot*0.08 + float64(k)*each), round(p.Bottom - h),
					round(each), round(h), fmt.Sprintf("%s: %s %s", edge(i), count(n), c.name)})
			}
		}
		p.Series = append(p.Series, s)
	}
	return p
}

// bars are horizontal bars from a common zero, each made of parts.
type bars struct {
	Width, Height float64
	Left          float64
	Rows          []barRow
	Legend        []series
	Limit         *tick // a level across all
}

type barRow struct {
	Y, Middle float64
	Label     string
	Value     string
	ValueX    float64
	Parts     []barPart
}

type barPart struct {
	rect
	Class string
}

// bar is what a row of bars shows.
type bar struct {
	label, value string
	parts        []part
}

type part struct {
	class string
	size  float64
	text  string
}

func (b bar) size() float64 {
	n := 0.0
	for _, p := range b.parts {
		n += p.size
	}
	return n
}

// barChart draws bars; limit is a level across them, 0 for none. The shortest
// are left out where there are too many; note then says so.
func barChart(list []bar, limit float64, limitText string, legend ...series) (b *bars, note string) {
	if len(list) > maxBars {
		kept := slices.Clone(list)
		slices.SortStableFunc(kept, func(a, b bar) int { return int(math.Copysign(1, b.size()-a.size())) })
		note = fmt.Sprintf("%d shorter ones are left out.", len(list)-maxBars)
		list = kept[:maxBars]
	}
	high := limit
	for _, r := range list {
		high = max(high, r.size())
	}
	x := scale(0, high, barLabel, barEnd)
	b = &bars{Width: width, Left: barLabel, Legend: legend}
	at := 4.0
	if limit > 0 {
		at += 16
		b.Limit = &tick{x(limit), limitText}
	}
	for _, r := range list {
		row := barRow{Y: at, Middle: at + barHeight/2, Label: r.label, Value: r.value}
		sum := 0.0
		for _, p := range r.parts {
			left, right := x(sum), x(sum+p.size)
			sum += p.size
			row.Parts = append(row.Parts, barPart{rect{left, at, round(right - left), barHeight, p.text}, p.class})
		}
		row.ValueX = x(sum) + 6
		b.Rows = append(b.Rows, row)
		at += barStep
	}
	b.Height = at
	return b, note
}
