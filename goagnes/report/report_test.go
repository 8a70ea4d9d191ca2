package report

import (
	"context"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"math"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/goagnes/goagnes/goagnes"
	"github.com/goagnes/goagnes/goagnes/storage"
)

// documents are one of each kind, of runs that take place here.
func documents(t *testing.T) map[string]any {
	t.Helper()
	ctx, dir := context.Background(), filepath.Join(t.TempDir(), "store <&>")
	built, err := goagnes.Generate(ctx, dir, goagnes.GenerateOptions{Kind: "community", NumNodes: 3000, AvgDegree: 8, NumFeatures: 16, NumClasses: 4})
	if err != nil {
		t.Fatal(err)
	}
	store, err := goagnes.Open(dir, goagnes.OpenOptions{Memory: 16 << 20})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	o := goagnes.TrainOptions{Calibrate: true}
	o.Layers, o.Hidden, o.Epochs, o.BatchSize = 2, 16, 3, 100
	trained, err := goagnes.Train(ctx, store, o)
	if err != nil {
		t.Fatal(err)
	}
	loader, err := goagnes.NewLoader(store, goagnes.LoaderOptions{NumNeighbors: []int{5}, BatchSize: 500, ReleasesFirst: true})
	if err != nil {
		t.Fatal(err)
	}
	if err := loader.Start(ctx); err != nil {
		t.Fatal(err)
	}
	prepared := &Prepare{Kind: KindPrepare, Store: dir, Epochs: []Epoch{{Seconds: 0.5, FirstSeconds: 0.25}}}
	for {
		b, err := loader.Next(ctx)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		prepared.Epochs[0].Minibatches++
		b.Release()
	}
	prepared.Stats, prepared.Usage, prepared.Device = loader.Stats(), store.Usage(), trained.Device
	return map[string]any{"train": trained, "prepare": prepared, "build": built}
}

func write(t *testing.T, document any) string {
	t.Helper()
	b, err := json.Marshal(document)
	if err != nil {
		t.Fatal(err)
	}
	var page strings.Builder
	if err := Write(&page, "run.json", strings.NewReader(string(b))); err != nil {
		t.Fatal(err)
	}
	return page.String()
}

// TestPages draws real runs: every part is there, well-formed, and asks for
// nothing outside the page.
func TestPages(t *testing.T) {
	want := map[string][]string{
		"train": {"Accuracy by epoch", "Loss by epoch", "Time of the trainer", "Time of preparing minibatches", "Hits of the index tables",
			"Bandwidth over time", "Sizes of requests", "Latency of requests", "Memory against the budget", "test accuracy", "budget 16 MiB", "own "},
		"prepare": {"a minibatch", "first minibatch", "250 ms", "Time by epoch", "Bandwidth over time", "Sizes of requests", "Memory against the budget"},
		"build":   {"Time by stage", "moved / input", "3,000", "24,000"},
	}
	for kind, document := range documents(t) {
		page := write(t, document)
		for _, text := range want[kind] {
			if !strings.Contains(page, text) {
				t.Errorf("%s: %q is not in the page", kind, text)
			}
		}
		if page != write(t, document) {
			t.Errorf("%s: two pages of one document differ", kind)
		}
		for _, outside := range []string{"http:", "https:", "<script", "src=", "href=", "url(", "@import"} {
			if strings.Contains(page, outside) {
				t.Errorf("%s: the page holds %q", kind, outside)
			}
		}
		if strings.Contains(page, "store <&>") || kind != "build" && !strings.Contains(page, "store &lt;&amp;&gt;") {
			t.Errorf("%s: the store's path is not escaped", kind)
		}
		if bad := regexp.MustCompile(`NaN|Inf|%!|-0[ "]`).FindString(page); bad != "" {
			t.Errorf("%s: %q in the page", kind, bad)
		}
		drawings := 0
		for _, svg := range regexp.MustCompile(`(?s)<svg viewBox="0 0 720 .*?</svg>`).FindAllString(page, -1) {
			drawings++
			inside(t, kind, svg)
		}
		if drawings < 2 {
			t.Errorf("%s: %d drawings", kind, drawings)
		}
	}
}

// inside checks that a drawing is well-formed and that its shapes lie in it.
func inside(t *testing.T, kind, svg string) {
	t.Helper()
	d := xml.NewDecoder(strings.NewReader(svg))
	height := math.NaN()
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			t.Fatalf("%s: a drawing is not well-formed: %v", kind, err)
		}
		start, ok := token.(xml.StartElement)
		if !ok {
			continue
		}
		at := map[string]float64{}
		for _, a := range start.Attr {
			if a.Name.Local == "viewBox" {
				if height, err = strconv.ParseFloat(strings.Fields(a.Value)[3], 64); err != nil {
					t.Fatal(err)
				}
			}
			if v, err := strconv.ParseFloat(a.Value, 64); err == nil {
				at[a.Name.Local] = v
			}
		}
		if right, bottom := at["x"]+at["width"], at["y"]+at["height"]; at["x"] < 0 || at["y"] < 0 || at["width"] < 0 || right > width+0.5 || bottom > height+0.5 {
			t.Errorf("%s: a %s from %g, %g to %g, %g in a drawing of %g by %g", kind, start.Name.Local, at["x"], at["y"], right, bottom, width, height)
		}
	}
}

// What a run did to features and when it was to end is told where it did.
func TestOptionTable(t *testing.T) {
	d := &goagnes.TrainReport{}
	told := func() string {
		return strings.Join(strings.Fields(strings.Trim(strings.ReplaceAll(fmt.Sprint(optionTable(d)), "] [", "; "), "[]{}")), " ")
	}
	d.Options.NormalizeFeatures = "none"
	if s := told(); strings.Contains(s, "normalised") || strings.Contains(s, "patience") {
		t.Error(s)
	}
	d.Options.NormalizeFeatures, d.Options.Patience, d.Options.Monitor = "l2", 50, "val_loss"
	if s := told(); !strings.Contains(s, "normalised features l2; patience 50, by val_loss") {
		t.Error(s)
	}
}

func TestRefused(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"", "no JSON document"},
		{"{\"kind\": \"train\"", "no JSON document"},
		{"[]", "not the document of a run"},
		{"7", "not the document of a run"},
		{"{}", `no "kind"`},
		{`{"kind": "verify"}`, `kind "verify"`},
		{`{"kind": "train", "epochs": 3}`, "not of the form"},
		{`{"kind": "build", "seconds": "long"}`, "not of the form"},
	} {
		var page strings.Builder
		err := Write(&page, "run.json", strings.NewReader(c.text))
		var refused *Error
		if !errors.As(err, &refused) || refused.Class() != "input" || !strings.Contains(err.Error(), c.want) || !strings.HasPrefix(err.Error(), "run.json: ") {
			t.Errorf("%q: %v, want %q", c.text, err, c.want)
		}
		if page.Len() > 0 {
			t.Errorf("%q: %d bytes of a page are written", c.text, page.Len())
		}
	}
	zeros := io.LimitReader(zeroReader{}, MaxDocument+10)
	if err := Write(io.Discard, "run.json", zeros); err == nil || !strings.Contains(err.Error(), "larger") {
		t.Errorf("an endless document: %v", err)
	}
}

type zeroReader struct{}

func (zeroReader) Read(b []byte) (int, error) { clear(b); return len(b), nil }

// TestEmpty draws documents that hold next to nothing: parts are left out.
func TestEmpty(t *testing.T) {
	for _, document := range []any{
		&goagnes.TrainReport{Kind: goagnes.KindTrain}, &goagnes.BuildReport{Kind: goagnes.KindBuild}, &Prepare{Kind: KindPrepare},
	} {
		page := write(t, document)
		for _, text := range []string{"NaN", "Inf", "Accuracy by epoch", "Bandwidth over time", "Sizes of requests", "Memory against"} {
			if strings.Contains(page, text) {
				t.Errorf("%T: %q in the page of an empty document", document, text)
			}
		}
	}
}

func TestTicks(t *testing.T) {
	for _, c := range []struct {
		low, high float64
		n         int
		want      []float64
	}{
		{0, 1, 5, []float64{0, 0.2, 0.4, 0.6, 0.8, 1}},
		{0, 10, 10, []float64{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10}},
		{3, 3, 5, []float64{3}},
		{0.13, 0.62, 5, []float64{0.2, 0.3, 0.4, 0.5, 0.6}},
		{0, 12345, 5, []float64{0, 5000, 10000}},
		{math.Inf(1), math.Inf(-1), 5, []float64{math.Inf(1)}},
	} {
		got := ticks(c.low, c.high, c.n)
		ok := len(got) == len(c.want)
		for i := range got {
			ok = ok && (got[i] == c.want[i] || math.Abs(got[i]-c.want[i]) < 1e-9) && !(got[i] == 0 && math.Signbit(got[i]))
		}
		if !ok {
			t.Errorf("ticks from %g to %g: %v, want %v", c.low, c.high, got, c.want)
		}
	}
	if got := byteTicks(3<<20, 3); len(got) != 4 || got[1] != 1<<20 || got[3] != 3<<20 {
		t.Errorf("ticks to 3 MiB: %v", got)
	}
}

// TestStack compares the areas of a stack with the bytes that they stand for.
func TestStack(t *testing.T) {
	read, written := []float64{10, 0, 30}, []float64{5, 20, 0}
	p := stack(2, 40, "limit", []line{{name: "read", points: points{y: read}}, {name: "written", points: points{y: written}}})
	unit := (p.Bottom - p.Top) / (40 * 1.05)
	step := (p.Right - p.Left) / 3
	for i, values := range [][]float64{read, written} {
		want := 0.0
		for _, v := range values {
			want += v * unit * step
		}
		if got := area(t, p.Series[i].Path); math.Abs(got-want) > want/100 {
			t.Errorf("%s: an area of %g, want %g", p.Series[i].Name, got, want)
		}
	}
	if want := p.Bottom - 40*unit; math.Abs(p.Limit.At-want) > 0.1 {
		t.Errorf("the limit at %g, want %g", p.Limit.At, want)
	}
}

// area is the area inside a path of M, L, H, V and Z.
func area(t *testing.T, path string) float64 {
	t.Helper()
	var x, y []float64
	for _, m := range regexp.MustCompile(`([MLHV])([-0-9.]+)(?: ([-0-9.]+))?`).FindAllStringSubmatch(path, -1) {
		v, err := strconv.ParseFloat(m[2], 64)
		if err != nil {
			t.Fatal(err)
		}
		switch n := len(x) - 1; m[1] {
		case "H":
			x, y = append(x, v), append(y, y[n])
		case "V":
			x, y = append(x, x[n]), append(y, v)
		default:
			w, err := strconv.ParseFloat(m[3], 64)
			if err != nil {
				t.Fatal(err)
			}
			x, y = append(x, v), append(y, w)
		}
	}
	sum := 0.0
	for i := range x {
		j := (i + 1) % len(x)
		sum += x[i]*y[j] - x[j]*y[i]
	}
	return math.Abs(sum / 2)
}

func TestColumns(t *testing.T) {
	var h storage.Histogram
	h[13], h[21] = 100, 50
	p := columns("bytes", func(b int) string { return bytes(bucketEdge(b)) }, []column{{"reads", "a", h[:]}})
	if len(p.XTicks) != 9 || p.XTicks[0].Text != "4 KiB" || p.XTicks[8].Text != "1 MiB" {
		t.Errorf("buckets are named %v", p.XTicks)
	}
	r := p.Series[0].Rects
	if len(r) != 2 || math.Abs(r[0].H-2*r[1].H) > 0.1 || r[0].Text != "4 KiB: 100 reads" {
		t.Errorf("columns %v", r)
	}
	if columns("", nil, []column{{"none", "a", make([]int64, 32)}}) != nil {
		t.Error("a histogram of nothing is drawn")
	}
}

// Names of buckets stand apart however many there are; columns are all drawn.
func TestColumnNamesStandApart(t *testing.T) {
	for buckets := 1; buckets <= 40; buckets++ {
		counts := make([]int64, buckets)
		for i := range counts {
			counts[i] = 1
		}
		p := columns("time", func(b int) string { return duration(float64(bucketEdge(b)) / 1e6) }, []column{{"reads", "a", counts}})
		if len(p.Series[0].Rects) != buckets || len(p.XTicks) == 0 || p.XTicks[0].Text != "0 s" {
			t.Fatalf("%d buckets: %d columns, names %v", buckets, len(p.Series[0].Rects), p.XTicks)
		}
		for i, k := range p.XTicks[1:] {
			before := p.XTicks[i]
			if width := float64(len([]rune(k.Text))+len([]rune(before.Text))) / 2 * letter; k.At-before.At < width {
				t.Errorf("%d buckets: %q and %q are %.1f apart and %.1f wide", buckets, before.Text, k.Text, k.At-before.At, width)
			}
		}
	}
}

func TestBars(t *testing.T) {
	var list []bar
	for i := range maxBars + 5 {
		list = append(list, bar{label: strconv.Itoa(i), parts: []part{{"a", float64(i), ""}, {"b", 1, ""}}})
	}
	b, note := barChart(list, 0, "")
	if len(b.Rows) != maxBars || b.Rows[0].Label != strconv.Itoa(maxBars+4) || note != "5 shorter ones are left out." {
		t.Errorf("%d rows from %q on, %q", len(b.Rows), b.Rows[0].Label, note)
	}
	if p := b.Rows[0].Parts; p[0].X+p[0].W != p[1].X || math.Abs(p[1].X+p[1].W-barEnd) > 0.1 {
		t.Errorf("the longest bar's parts are %v", p)
	}
}

func TestThin(t *testing.T) {
	var p points
	for i := range 3*maxPoints + 1 {
		p.x, p.y = append(p.x, float64(i)), append(p.y, 2*float64(i))
	}
	q := p.thin()
	if len(q.x) != maxPoints || math.Abs(mean(q.y)-mean(p.y)) > 4 {
		t.Errorf("%d points of mean %g, want %g", len(q.x), mean(q.y), mean(p.y))
	}
	for i := range q.x {
		if q.y[i] != 2*q.x[i] {
			t.Fatalf("point %d: %g, %g", i, q.x[i], q.y[i])
		}
	}
}

func TestWords(t *testing.T) {
	for got, want := range map[string]string{
		bytes(0): "0 B", bytes(1023): "1023 B", bytes(1536): "1.50 KiB", bytes(3 << 20): "3 MiB", bytes(1234567890123): "1.12 TiB",
		duration(0): "0 s", duration(0.00001234): "12.3 µs", duration(0.25): "250 ms", duration(61): "61 s", duration(7200): "2 h",
		count(0): "0", count(999): "999", count(-1234567): "-1,234,567", percent(0.9525): "95.2 %", plain(1.23456): "1.235", plain(0.15000000000000002): "0.15",
	} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
