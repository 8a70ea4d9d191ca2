package build

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/goagnes/goagnes/layout"
	"github.com/goagnes/goagnes/layout/build/ledger"
	"github.com/goagnes/goagnes/layout/build/order"
	"github.com/goagnes/goagnes/layout/build/staging"
	"github.com/goagnes/goagnes/layout/build/verify"
	"github.com/goagnes/goagnes/layout/build/workspace"
)

// whole fails where a store has findings.
func whole(t *testing.T, dir string) {
	t.Helper()
	r, err := verify.Store(context.Background(), dir, verify.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range r.Findings {
		t.Errorf("found in a sound store: %v", f)
	}
}

// verifyStore builds a store with every kind of section, hubs over several blocks,
// and checksum tables of more than one page.
func verifyStore(t *testing.T, order string) (string, *graph) {
	t.Helper()
	g := randomGraph(9, 1500, 40_000, 800)
	o := g.options()
	o.Order, o.BlockSize = order, 4<<10
	o.SourceRecord = func(EditCounts) json.RawMessage { return []byte(`{"a":"b"}`) }
	o.IDs = layout.IDsRank
	for v := range g.n { // every id occurs, so that ranks are the ids
		g.src, g.dst = append(g.src, v), append(g.dst, v)
	}
	o.Edges = edgesOf(g.src, g.dst)
	path, _ := buildIn(t, o, workspace.Tuning{})
	return path, g
}

func TestVerifySound(t *testing.T) {
	t.Parallel()
	for _, order := range []string{layout.OrderOriginal, order.Degree} {
		path, _ := verifyStore(t, order)
		whole(t, path)
	}
	for _, g := range []*graph{{}, randomGraph(1, 1, 3, 0), randomGraph(2, 300, 0, 2)} {
		path, _ := buildIn(t, g.options(), workspace.Tuning{})
		whole(t, path)
	}
}

func TestVerifyFindsEverythingAtOnce(t *testing.T) {
	path, _ := verifyStore(t, order.Degree)
	x := filepath.Join(path, layout.SectionX)
	b := must(os.ReadFile(x))
	pages := []int64{0, 17, 1023, 1024, int64(len(b))/layout.PageSize - 1}
	for _, p := range pages {
		b[p*layout.PageSize+99] ^= 4
	}
	if err := os.WriteFile(x, b, 0o666); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(path, layout.SectionY)); err != nil {
		t.Fatal(err)
	}
	rep, err := verify.Store(context.Background(), path, verify.Options{Memory: 4 << 20})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, f := range rep.Findings {
		got = append(got, fmt.Sprint(f.File, " ", f.Block))
	}
	var want []string
	for _, p := range pages {
		want = append(want, fmt.Sprint(layout.SectionX, " ", p))
	}
	want = append(want, fmt.Sprint(layout.SectionY, " ", -1))
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("found %v, expected %v", got, want)
	}
}

// reseal makes the checksums of a changed store right again, so that only its
// contents are wrong.
func reseal(t *testing.T, dir string) {
	t.Helper()
	m, err := layout.DecodeManifest(must(os.ReadFile(filepath.Join(dir, layout.ManifestFile))))
	if err != nil {
		t.Fatal(err)
	}
	resealAs(t, dir, m)
}

func resealAs(t *testing.T, dir string, m *layout.Manifest) {
	t.Helper()
	for _, name := range []string{layout.ManifestFile, layout.ChecksumFile} {
		if err := os.Remove(filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	_, err := staging.SealManifest(nil, m, dir, func(i int) (io.ReadCloser, error) {
		b, err := os.ReadFile(filepath.Join(dir, m.Sections[i].File))
		var sums []byte
		for ; len(b) > 0; b = b[layout.PageSize:] {
			sums = binary.LittleEndian.AppendUint32(sums, layout.CRC(b[:layout.PageSize]))
		}
		return io.NopCloser(bytes.NewReader(sums)), err
	}, func(name string) (io.WriteCloser, error) { return os.Create(filepath.Join(dir, name)) })
	if err != nil {
		t.Fatal(err)
	}
}

// firstHub applies a change to the first block that is a piece of a hub.
func firstHub(change func(piece []byte)) func(b []byte) {
	return func(b []byte) {
		for ; len(b) > 0; b = b[4<<10:] {
			if b[0] == 2 {
				change(b[:4<<10])
				return
			}
		}
		panic("the graph has no hub")
	}
}

// Contents that contradict each other are found although all checksums are right.
func TestVerifyFindsContradictions(t *testing.T) {
	t.Parallel()
	put := func(at int64, v uint32) func(b []byte) {
		return func(b []byte) { binary.LittleEndian.PutUint32(b[at:], v) }
	}
	swap := func(i, j, size int) func(b []byte) {
		return func(b []byte) {
			x, y := bytes.Clone(b[i*size:(i+1)*size]), b[j*size:(j+1)*size]
			copy(b[i*size:], y)
			copy(y, x)
		}
	}
	for _, c := range []struct {
		file   string
		change func(b []byte)
		want   string
	}{
		{layout.SectionEdgeID, put(400, 1<<31), "there are"},
		{layout.SectionEdgeID, put(0, 3), "a second time"},
		{layout.SectionEdgeID, swap(0, 1, 4), "not above the one before"},
		{layout.SectionDegree, put(40, 77777), "in-edges"},
		{layout.SectionOriginal, swap(3, 9, 4), "original id"},
		{layout.SectionInternal, swap(3, 9, 4), "whose original id is"},
		{layout.SectionInternal, put(4, 1<<30), "there are"},
		{layout.SectionIndex, put(16, 1<<20), "of 1500 nodes"},
		{layout.SectionIndex, put(0, 1), "the first entry"},
		{layout.SectionY, func(b []byte) { binary.LittleEndian.PutUint64(b[16:], 4711) }, "there are 4 classes"},
		{layout.SplitPrefix + "val", put(8, 1500), "there are 1500 nodes"},
		{layout.SectionIDs, swap(5, 6, 8), "not above"},
		{layout.SectionGraph, put(0, 0), "original ids of"},
		{layout.SectionGraph, firstHub(func(piece []byte) { piece[64], piece[65] = 255, 255 }), "has the neighbour 2047"},
		{layout.SectionGraph, firstHub(func(piece []byte) { piece[32]++ }), "the piece before says"},
		{layout.SectionGraph, firstHub(func(piece []byte) { piece[40]++ }), "has the original id"},
	} {
		t.Run(c.file+" "+c.want, func(t *testing.T) {
			t.Parallel()
			path, _ := verifyStore(t, order.Degree)
			name := filepath.Join(path, c.file)
			b := must(os.ReadFile(name))
			before := bytes.Clone(b)
			c.change(b)
			if bytes.Equal(b, before) {
				t.Fatal("nothing was changed")
			}
			if err := os.WriteFile(name, b, 0o666); err != nil {
				t.Fatal(err)
			}
			reseal(t, path)
			rep, err := verify.Store(context.Background(), path, verify.Options{})
			if err != nil {
				t.Fatal(err)
			}
			said := fmt.Sprint(rep.Findings)
			if !strings.Contains(said, c.want) {
				t.Errorf("found %s, expected %q", said, c.want)
			}
		})
	}
}

func TestVerifyWhatIsNoStore(t *testing.T) {
	var e *layout.Error
	if _, err := verify.Store(context.Background(), t.TempDir(), verify.Options{}); !errors.As(err, &e) || e.Kind != layout.NotAStore {
		t.Errorf("err = %v", err)
	}
	path, _ := buildIn(t, randomGraph(1, 10, 10, 1).options(), workspace.Tuning{})
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := verify.Store(ctx, path, verify.Options{}); !errors.Is(err, context.Canceled) {
		t.Errorf("err = %v", err)
	}
	var budget *ledger.BudgetError
	if _, err := verify.Store(context.Background(), path, verify.Options{Memory: 1 << 20}); !errors.As(err, &budget) {
		t.Errorf("err = %v", err)
	}
	// The first refusal names what is enough, and the least that is.
	for _, settings := range []Options{{BlockSize: 4096}, {BlockSize: 2 << 20}, {BlockSize: 1 << 20, Compression: "zstd"}} {
		o := randomGraph(2, 3000, 40_000, 4).options()
		o.BlockSize, o.Compression = settings.BlockSize, settings.Compression
		path, _ := buildIn(t, o, workspace.Tuning{})
		for _, memory := range []int64{1, 1 << 20, 0} {
			if memory == 0 {
				memory = budget.Total - budget.Free + budget.Need - 1
			}
			if _, err := verify.Store(context.Background(), path, verify.Options{Memory: memory}); !errors.As(err, &budget) {
				t.Errorf("%v: %d bytes: err = %v", settings, memory, err)
			}
		}
		enough := budget.Total - budget.Free + budget.Need
		if report, err := verify.Store(context.Background(), path, verify.Options{Memory: enough}); err != nil || len(report.Findings) != 0 {
			t.Errorf("%v: %d bytes, as was advised: %v", settings, enough, err)
		}
	}
}

// least is the least budget that verification of a store accepts.
func least(path string) verify.Options {
	o := verify.Options{Memory: 1}
	for {
		_, err := verify.Store(context.Background(), path, o)
		var small *ledger.BudgetError
		if !errors.As(err, &small) {
			return o
		}
		o.Memory = small.Total - small.Free + small.Need
	}
}

// Edge ids that are few in a wide range are checked in passes by their number, not
// by the range.
func TestVerifySparseIDs(t *testing.T) {
	t.Parallel()
	g := randomGraph(5, 3000, 200_000, 0)
	o := g.options()
	o.BlockSize, o.Order = 64<<10, layout.OrderOriginal
	path, _ := buildIn(t, o, workspace.Tuning{})
	m := readStore(t, path).m
	const apart = 5_000_000
	s := m.Section(layout.SectionEdgeID)
	name := filepath.Join(path, s.File)
	narrow, wide := must(os.ReadFile(name)), []byte{}
	for i := range m.NumEdges {
		wide = binary.LittleEndian.AppendUint64(wide, uint64(binary.LittleEndian.Uint32(narrow[4*i:]))*apart)
	}
	m.EdgeIDs, s.DType, s.Bytes = layout.MaxEdges, layout.Uint64.String(), 8*m.NumEdges
	tight := least(path)
	for want, change := range map[string]func(b []byte){
		"[]":            func([]byte) {},
		"a second time": func(b []byte) { copy(b[8*150_000:], b[8*20_000:][:8]) },
		"a second":      func(b []byte) { copy(b[8*150_000:], b[8*149_999:][:8]) },
		"there are":     func(b []byte) { binary.LittleEndian.PutUint64(b[8*150_000:], layout.MaxEdges) },
	} {
		b := append(bytes.Clone(wide), make([]byte, s.FileBytes()-s.Bytes)...)
		change(b)
		if err := os.WriteFile(name, b, 0o666); err != nil {
			t.Fatal(err)
		}
		resealAs(t, path, m)
		rep, err := verify.Store(context.Background(), path, tight)
		if err != nil {
			t.Fatal(err)
		}
		said := fmt.Sprint(rep.Findings)
		times := 0
		for _, f := range rep.Findings {
			if strings.Contains(f.Message, want) && f.Offset == 8*150_000 {
				times++
			}
		}
		if want == "[]" && said != want || want != "[]" && times != 1 {
			t.Errorf("found %s, expected %s", said, want)
		}
	}
}

// Edge ids and tables larger than the budget are checked in several passes.
func TestVerifyInWindows(t *testing.T) {
	t.Parallel()
	n := int64(70_000)
	g := &graph{n: n}
	r := rand.New(rand.NewPCG(3, 3))
	for range 200_000 {
		g.src, g.dst = append(g.src, r.Int64N(n)), append(g.dst, r.Int64N(n))
	}
	o := g.options()
	o.BlockSize, o.Order = 4<<10, order.Degree
	path, _ := buildIn(t, o, workspace.Tuning{})
	tight := least(path)
	rep, err := verify.Store(context.Background(), path, tight)
	if err != nil || !rep.OK() {
		t.Fatalf("found %v, err = %v", rep, err)
	}
	name := filepath.Join(path, layout.SectionEdgeID)
	b := must(os.ReadFile(name))
	binary.LittleEndian.PutUint32(b[4*150_000:], binary.LittleEndian.Uint32(b[4*20_000:]))
	if err := os.WriteFile(name, b, 0o666); err != nil {
		t.Fatal(err)
	}
	reseal(t, path)
	if rep, err = verify.Store(context.Background(), path, tight); err != nil || !strings.Contains(fmt.Sprint(rep.Findings), "a second time") {
		t.Fatalf("found %v, err = %v", rep, err)
	}
}
