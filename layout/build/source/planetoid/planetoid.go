package planetoid

// The Planetoid citation graphs (Yang, Cohen and Salakhutdinov 2016) in their raw
// form: eight files ind.NAME.{x,tx,allx,y,ty,ally,graph,test.index}, pickles of
// Python 2. The reading is PyTorch Geometric's (torch_geometric/io/planetoid.py):
//
//   - x and y are allx, ally followed by tx, ty, whose row i belongs to the i-th
//     number of test.index;
//   - where numbers are missing between the smallest and the largest of test.index
//     (Citeseer), nodes without features, label or edges stand for them;
//   - loops and repeated edges are dropped, and edges are sorted by target, then
//     source;
//   - train is the rows of y, val the 500 after them, test is test.index.
//
// One thing differs: a node whose one-hot row is empty has no label here (-1),
// where PyG's argmax says 0.

import (
	"bufio"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/goagnes/goagnes/layout"
	"github.com/goagnes/goagnes/layout/build/source"
	"github.com/goagnes/goagnes/layout/build/source/array"
	"github.com/goagnes/goagnes/layout/build/source/pickle"
)

const (
	// maxPlanetoidFile bounds each of the files, which are read whole.
	maxPlanetoidFile = 256 << 20
	// maxPlanetoidNodes bounds what test.index can claim.
	maxPlanetoidNodes = 1 << 24
	// planetoidVal is the size of the public validation split.
	planetoidVal = 500
)

var planetoidEndings = []string{"x", "tx", "allx", "y", "ty", "ally", "graph", "test.index"}

// NameOf splits a path of the form DIR/ind.NAME.ENDING.
func NameOf(path string) (prefix, ending string, ok bool) {
	base := filepath.Base(path)
	if !strings.HasPrefix(base, "ind.") {
		return "", "", false
	}
	for _, e := range planetoidEndings {
		if strings.HasSuffix(base, "."+e) && len(base) > len("ind.")+len(".")+len(e) {
			return strings.TrimSuffix(path, "."+e), e, true
		}
	}
	return "", "", false
}

// planetoidPrefix finds the common path of the eight files.
func planetoidPrefix(path string) (string, error) {
	st, err := os.Stat(path)
	if err != nil {
		if source.Exists(path + ".graph") {
			return path, nil
		}
		return "", source.ErrorFrom(path, "cannot be opened", err)
	}
	if !st.IsDir() {
		if prefix, _, ok := NameOf(path); ok {
			return prefix, nil
		}
		return "", source.Errorf(path, "no Planetoid file; they are called ind.NAME.x, ind.NAME.graph and so on")
	}
	found, err := filepath.Glob(filepath.Join(source.QuoteGlob(path), "ind.*.graph"))
	if err != nil || len(found) == 0 {
		return "", source.Errorf(path, "no ind.NAME.graph in this directory")
	}
	if len(found) > 1 {
		return "", source.Errorf(path, "%d graphs in this directory; name one, such as %s", len(found), strings.TrimSuffix(found[0], ".graph"))
	}
	return strings.TrimSuffix(found[0], ".graph"), nil
}

// Open opens the eight files of a graph, named by one of them, by their common path
// without the ending, or by their directory.
func Open(ctx context.Context, path string, _ source.Options) (*source.Dataset, error) {
	prefix, err := planetoidPrefix(path)
	if err != nil {
		return nil, err
	}
	p := &planetoid{prefix: prefix, d: source.NewDataset("planetoid")}
	for _, step := range []func() error{p.readTestIndex, p.readFeatures, p.readLabels, p.readGraph} {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if err := step(); err != nil {
			return nil, err
		}
	}
	return p.d, p.splits()
}

type planetoid struct {
	prefix string
	d      *source.Dataset
	test   []int64 // test.index
	first  int64   // its least number
	nodes  int64
}

func (p *planetoid) file(ending string) string { return p.prefix + "." + ending }

func (p *planetoid) load(ending string) (any, error) {
	path := p.file(ending)
	f, err := os.Open(path)
	if err != nil {
		return nil, source.ErrorFrom(path, "cannot be opened", err)
	}
	defer f.Close()
	var b strings.Builder
	n, err := io.Copy(&b, io.LimitReader(f, maxPlanetoidFile+1))
	if err != nil {
		return nil, source.ErrorFrom(path, "cannot be read", err)
	}
	if n > maxPlanetoidFile {
		return nil, source.Errorf(path, "larger than %d bytes, the most that is read of this format; bring an .npz archive", maxPlanetoidFile)
	}
	v, err := pickle.Load(b.String())
	if err != nil {
		return nil, source.ErrorFrom(path, "", err)
	}
	return v, nil
}

func (p *planetoid) readTestIndex() error {
	path := p.file("test.index")
	f, err := os.Open(path)
	if err != nil {
		return source.ErrorFrom(path, "cannot be opened", err)
	}
	defer f.Close()
	s := bufio.NewScanner(f)
	seen := map[int64]bool{}
	for line := int64(1); s.Scan(); line++ {
		text := strings.TrimSpace(s.Text())
		if text == "" {
			continue
		}
		v, err := strconv.ParseInt(text, 10, 64)
		if err != nil || v < 0 || v >= maxPlanetoidNodes {
			return source.ErrorAtLine(path, line, "%s is no node number below %d", source.Clip([]byte(text)), int64(maxPlanetoidNodes))
		}
		if seen[v] {
			return source.ErrorAtLine(path, line, "node %d a second time", v)
		}
		seen[v] = true
		p.test = append(p.test, v)
	}
	if err := s.Err(); err != nil {
		return source.ErrorFrom(path, "cannot be read", err)
	}
	if len(p.test) == 0 {
		return source.Errorf(path, "no test node")
	}
	p.first = slices.Min(p.test)
	p.nodes = slices.Max(p.test) + 1
	if gaps := p.nodes - p.first - int64(len(p.test)); gaps > 0 {
		p.d.Note("%s: %d numbers are missing; those nodes have no features, label or edges", path, gaps)
	}
	return nil
}

// target is the node of row i of allx followed by tx.
func (p *planetoid) target(i int64) int64 {
	if i < p.first {
		return i
	}
	return p.test[i-p.first]
}

// readFeatures joins allx and tx into one sparse matrix in node order.
func (p *planetoid) readFeatures() error {
	all, err := p.matrix("allx")
	if err != nil {
		return err
	}
	test, err := p.matrix("tx")
	if err != nil {
		return err
	}
	switch {
	case all.rows != p.first:
		return source.Errorf(p.file("allx"), "%d rows, where test.index starts with %d", all.rows, p.first)
	case test.rows != int64(len(p.test)):
		return source.Errorf(p.file("tx"), "%d rows for %d lines of test.index", test.rows, len(p.test))
	case all.columns != test.columns:
		return source.Errorf(p.file("tx"), "%d columns, where allx has %d", test.columns, all.columns)
	}
	x := &sparseRows{name: p.prefix + ": x", columns: all.columns, rows: make([]sparseRow, p.nodes)}
	for i := range all.rows {
		x.rows[i] = all.row(i)
	}
	for i := range test.rows {
		x.rows[p.target(p.first+i)] = test.row(i)
	}
	return p.d.AddArray("x", x)
}

// readLabels turns the one-hot rows of ally and ty into class numbers.
func (p *planetoid) readLabels() error {
	y := make([]byte, 8*p.nodes)
	for i := range p.nodes {
		binary.LittleEndian.PutUint64(y[8*i:], math.MaxUint64)
	}
	empty, start := 0, int64(0)
	for _, part := range []struct {
		ending string
		rows   int64
	}{{"ally", p.first}, {"ty", int64(len(p.test))}} {
		path := p.file(part.ending)
		v, err := p.load(part.ending)
		if err != nil {
			return err
		}
		a, ok := v.(*pickle.Array)
		if !ok || len(a.Shape) != 2 || !a.DType.Type.Valid() {
			return source.Errorf(path, "no two-dimensional array")
		}
		if a.Shape[0] != part.rows {
			return source.Errorf(path, "%d rows, where %d are due", a.Shape[0], part.rows)
		}
		m, err := array.RowsFromMemory(pickleArray(path, a))
		if err != nil {
			return err
		}
		size := a.DType.Type.Size()
		err = m.Scan(context.Background(), func(first int64, rows []byte) error {
			per := int(a.Shape[1])
			for r := range len(rows) / size / per {
				class, hot := int64(-1), 0
				for c := range per {
					v, ok := source.LabelAt(rows, r*per+c, a.DType.Type)
					switch {
					case ok && v == 1:
						class = int64(c)
						hot++
					case !ok || v != 0:
						hot = 2
					}
				}
				row := first + int64(r)
				if hot > 1 {
					return source.ErrorAt(path, row, "a row that is not one-hot")
				}
				if hot == 0 {
					empty++
				}
				binary.LittleEndian.PutUint64(y[8*p.target(start+row):], uint64(class))
			}
			return nil
		})
		if err != nil {
			return err
		}
		start += part.rows
	}
	if empty > 0 {
		p.d.Note("%s: %d label rows are empty; those nodes have no label", p.prefix, empty)
	}
	rows, err := array.RowsFromMemory(array.Array{Name: p.prefix + ": y", Data: y, DType: layout.Int64, Shape: []int64{p.nodes}})
	if err != nil {
		return err
	}
	return p.d.AddArray("y", rows)
}

// readGraph lists the neighbours of every node as edges node → neighbour.
func (p *planetoid) readGraph() error {
	path := p.file("graph")
	v, err := p.load("graph")
	if err != nil {
		return err
	}
	g, ok := v.(*pickle.Dict)
	if !ok {
		return source.Errorf(path, "no dictionary of lists")
	}
	type edge struct{ dst, src int64 }
	var edges []edge
	loops := 0
	for i, k := range g.Keys {
		src, ok := k.(int64)
		if !ok || src < 0 || src >= p.nodes {
			return source.Errorf(path, "key %v is no node of the %d", k, p.nodes)
		}
		list, ok := g.Values[i].(*pickle.List)
		if !ok {
			return source.Errorf(path, "node %d has no list of neighbours", src)
		}
		if len(edges)+len(list.Items) > pickle.MaxValues {
			// Keys may share a list, so the input's size does not bound this.
			return source.Errorf(path, "more than %d edges", pickle.MaxValues)
		}
		for _, item := range list.Items {
			dst, ok := item.(int64)
			if !ok || dst < 0 || dst >= p.nodes {
				return source.Errorf(path, "neighbour %v of node %d is no node of the %d", item, src, p.nodes)
			}
			if dst == src {
				loops++
				continue
			}
			edges = append(edges, edge{dst, src})
		}
	}
	slices.SortFunc(edges, func(a, b edge) int {
		if a.dst != b.dst {
			return int(a.dst - b.dst)
		}
		return int(a.src - b.src)
	})
	before := len(edges)
	edges = slices.Compact(edges)
	if loops > 0 {
		p.d.Note("%s: dropped %s", path, counted(loops, "self-loop"))
	}
	if n := before - len(edges); n > 0 {
		p.d.Note("%s: dropped %s", path, counted(n, "duplicate edge"))
	}
	b := make([]byte, 16*len(edges))
	for i, e := range edges {
		binary.LittleEndian.PutUint64(b[16*i:], uint64(e.src))
		binary.LittleEndian.PutUint64(b[16*i+8:], uint64(e.dst))
	}
	p.d.Edges, err = array.EdgesFromMemory(array.Array{Name: path, Data: b, DType: layout.Int64, Shape: []int64{int64(len(edges)), 2},
		Strides: []int64{16, 8}})
	return err
}

func counted(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// splits adds the public split.
func (p *planetoid) splits() error {
	v, err := p.load("y")
	if err != nil {
		return err
	}
	y, ok := v.(*pickle.Array)
	if !ok || len(y.Shape) != 2 {
		return source.Errorf(p.file("y"), "no two-dimensional array")
	}
	train := y.Shape[0]
	if train > p.nodes-planetoidVal {
		return source.Errorf(p.file("y"), "%d rows leave no %d nodes of %d for validation", train, planetoidVal, p.nodes)
	}
	upTo := func(from, to int64) []int64 {
		ids := make([]int64, 0, to-from)
		for i := from; i < to; i++ {
			ids = append(ids, i)
		}
		return ids
	}
	for name, ids := range map[string][]int64{"train": upTo(0, train), "val": upTo(train, train+planetoidVal), "test": p.test} {
		b := make([]byte, 8*len(ids))
		for i, id := range ids {
			binary.LittleEndian.PutUint64(b[8*i:], uint64(id))
		}
		rows, err := array.RowsFromMemory(array.Array{Name: p.prefix + ": " + name, Data: b, DType: layout.Int64, Shape: []int64{int64(len(ids))}})
		if err != nil {
			return err
		}
		if err := p.d.AddSplit(name, rows); err != nil {
			return err
		}
	}
	return nil
}
