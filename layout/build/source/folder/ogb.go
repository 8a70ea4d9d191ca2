package folder

// The raw folders of OGB's node property prediction: csv files, or for the largest
// graph numpy archives. Read as ogb.io.read_graph_raw does.

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/goagnes/goagnes/layout"
	"github.com/goagnes/goagnes/layout/build/source"
	"github.com/goagnes/goagnes/layout/build/source/archive"
	"github.com/goagnes/goagnes/layout/build/source/array"
	"github.com/goagnes/goagnes/layout/build/source/table"
	"github.com/goagnes/goagnes/layout/build/source/text"
)

// inverseOGB are the folders in which OGB's own loader adds to every edge its reverse,
// right behind it (add_inverse_edge of ogb/nodeproppred/master.csv): their files list
// each undirected edge once.
var inverseOGB = []string{"ogbn_products", "ogbn_proteins", "ogbn-products", "ogbn-proteins", "products", "proteinfunc_v4"}

// findRaw returns the file of that name in raw, plain or compressed, "" if there is none.
func findRaw(folder, name string) string {
	for _, ending := range []string{".csv.gz", ".csv"} {
		if file := filepath.Join(folder, name+ending); source.Exists(file) {
			return file
		}
	}
	return ""
}

// DetectOGB names the OGB format of a folder, "" for none.
func DetectOGB(path string) string {
	raw := filepath.Join(path, "raw")
	switch {
	case findRaw(raw, "edge") != "" && findRaw(raw, "num-node-list") != "", findRaw(raw, "num-node-dict") != "":
		return "ogb"
	case source.Exists(filepath.Join(raw, "data.npz")):
		return "ogb-binary"
	}
	return ""
}

// OpenOGB opens a folder of OGB with csv files.
func OpenOGB(ctx context.Context, path string, o source.Options) (*source.Dataset, error) {
	raw := filepath.Join(path, "raw")
	if findRaw(raw, "num-node-dict") != "" || source.Exists(filepath.Join(raw, "relations")) {
		return nil, source.Unsupported(path, "an OGB graph of several node types; stores have one. Bring the edges of one relation with its own arrays")
	}
	d := source.NewDataset("ogb")
	var counts [2]int64
	for i, name := range []string{"num-node-list", "num-edge-list"} {
		file := findRaw(raw, name)
		if file == "" {
			return nil, source.Errorf(raw, "no file %s.csv.gz", name)
		}
		n, err := table.Numbers(ctx, file, 1)
		if err != nil {
			return nil, err
		}
		if len(n) != 1 {
			return nil, source.Errorf(file, "an empty file, where one number is due")
		}
		counts[i] = n[0]
	}
	file := findRaw(raw, "edge")
	if file == "" {
		return nil, source.Errorf(raw, "no file edge.csv.gz")
	}
	d.NumNodes = counts[0]
	folder, err := filepath.Abs(path)
	if err != nil {
		return nil, source.ErrorFrom(path, "has no absolute path", err)
	}
	e := &ogbEdges{Edges: text.NewEdges(file), listed: counts[1], inverse: slices.Contains(inverseOGB, filepath.Base(folder))}
	d.Edges = e
	if e.inverse {
		d.Note("%s: lists each undirected edge once; as in OGB's own loader its reverse follows each edge: edge i of the file has the edge ids 2i and 2i + 1 (reversed)", file)
	}
	if file := findRaw(raw, "node-feat"); file != "" {
		x, err := table.NewRows(ctx, file, d.NumNodes, layout.Float32, false)
		if err != nil {
			return nil, err
		}
		if err := d.AddArray("x", x); err != nil {
			return nil, err
		}
	}
	if file := findRaw(raw, "node-label"); file != "" {
		y, err := table.NewRows(ctx, file, d.NumNodes, layout.Int64, true)
		switch {
		case err != nil:
			return nil, err
		case y.Width > 1:
			d.Note("%s: %d labels a node, where stores have one as y; kept as the node array %q", file, y.Width, "labels")
			err = d.AddArray("labels", y)
		default:
			err = d.AddLabels(y)
		}
		if err != nil {
			return nil, err
		}
	}
	if err := addOGBArrays(ctx, d, raw); err != nil {
		return nil, err
	}
	return d, addOGBSplits(ctx, d, path, o.SplitIndex)
}

// addOGBArrays keeps further files of nodes as node arrays, and notes those of edges.
func addOGBArrays(ctx context.Context, d *source.Dataset, raw string) error {
	entries, err := os.ReadDir(raw)
	if err != nil {
		return source.ErrorFrom(raw, "cannot be listed", err)
	}
	known := []string{"edge", "node-feat", "node-label", "num-node-list", "num-edge-list"}
	for _, e := range entries {
		base, ok := strings.CutSuffix(strings.TrimSuffix(e.Name(), ".gz"), ".csv")
		if !ok || slices.Contains(known, base) || e.IsDir() {
			continue
		}
		file := filepath.Join(raw, e.Name())
		name, isNode := strings.CutPrefix(base, "node_")
		if base == "species" { // of proteins, whose loader renames it
			name, isNode = base, true
		}
		if !isNode {
			d.Note("%s is not read", file)
			continue
		}
		r, err := table.NewRows(ctx, file, d.NumNodes, layout.Int64, true)
		if err != nil {
			return err
		}
		if err := d.AddArray(name, r); err != nil {
			return err
		}
		d.Note("%s: kept as the node array %q", file, name)
	}
	return nil
}

// addOGBSplits reads split/NAME/{train,valid,test}.csv.gz.
func addOGBSplits(ctx context.Context, d *source.Dataset, path string, index int) error {
	folder := filepath.Join(path, "split")
	entries, err := os.ReadDir(folder)
	if os.IsNotExist(err) {
		d.Note("%s: there is no folder split, and so no splits", path)
		return nil
	}
	if err != nil {
		return source.ErrorFrom(folder, "cannot be listed", err)
	}
	var names []string
	for _, e := range entries {
		if e.IsDir() {
			names = append(names, e.Name())
		}
	}
	if len(names) == 0 {
		d.Note("%s: no split in it", folder)
		return nil
	}
	if index >= len(names) {
		return source.Errorf(folder, "split_index=%d of %d splits, which count from 0", index, len(names))
	}
	d.SplitIndexed = true
	name := names[index]
	if len(names) > 1 {
		d.Note("%s: %d splits by name: %s; split_index chooses one", folder, len(names), strings.Join(names, ", "))
	}
	for _, s := range [][2]string{{"train", "train"}, {"valid", "val"}, {"test", "test"}} {
		file := findRaw(filepath.Join(folder, name), s[0])
		if file == "" {
			return source.Errorf(filepath.Join(folder, name), "no file %s.csv.gz", s[0])
		}
		ids, err := table.NewRows(ctx, file, -1, layout.Int64, true)
		if err != nil {
			return err
		}
		if err := d.AddSplit(s[1], ids); err != nil {
			return err
		}
	}
	d.Note("%s: the split %q is read; its valid is val here", folder, name)
	return nil
}

// ogbEdges checks the number of edges, and adds reverses as OGB's loader does.
type ogbEdges struct {
	*text.Edges
	listed  int64
	inverse bool
}

func (e *ogbEdges) Scan(ctx context.Context, f func(src, dst []int64) error) error {
	seen := int64(0)
	var src, dst []int64
	if e.inverse {
		src, dst = make([]int64, source.ChunkEdges), make([]int64, source.ChunkEdges)
	}
	err := e.Edges.Scan(ctx, func(s, t []int64) error {
		if seen += int64(len(s)); seen > e.listed {
			return source.Errorf(e.Name(), "more edges than the %d of num-edge-list", e.listed)
		}
		if !e.inverse {
			return f(s, t)
		}
		for len(s) > 0 {
			n := min(len(s), source.ChunkEdges/2)
			for i := range n {
				src[2*i], dst[2*i] = s[i], t[i]
				src[2*i+1], dst[2*i+1] = t[i], s[i]
			}
			if err := f(src[:2*n], dst[:2*n]); err != nil {
				return err
			}
			s, t = s[n:], t[n:]
		}
		return nil
	})
	if err == nil && seen != e.listed {
		err = source.Errorf(e.Name(), "%d edges, num-edge-list says %d", seen, e.listed)
	}
	return err
}

// OpenOGBBinary opens a folder of OGB with raw/data.npz.
func OpenOGBBinary(ctx context.Context, path string, o source.Options) (*source.Dataset, error) {
	file := filepath.Join(path, "raw", "data.npz")
	m, err := archive.List(file)
	if err != nil {
		return nil, err
	}
	d := source.NewDataset("ogb-binary")
	if m.Find("edge_index") == "" {
		return nil, source.Errorf(file, "no member edge_index; %s", m.List())
	}
	in, err := m.Input("edge_index")
	if err != nil {
		return nil, err
	}
	edges, err := array.NewEdges(in)
	if err != nil {
		return nil, err
	}
	d.Edges = edges
	for _, c := range []struct {
		member string
		to     *int64
	}{{"num_nodes_list", &d.NumNodes}, {"num_edges_list", nil}} {
		if m.Find(c.member) == "" {
			return nil, source.Errorf(file, "no member %s; %s", c.member, m.List())
		}
		in, err := m.Input(c.member)
		if err != nil {
			return nil, err
		}
		n, err := array.SmallIDs(ctx, in, 1)
		if err != nil {
			return nil, err
		}
		if c.to != nil {
			*c.to = n[0]
		} else if n[0] != edges.NumEdges {
			return nil, source.Errorf(edges.Name(), "%d edges, %s says %d", edges.NumEdges, c.member, n[0])
		}
	}
	for _, name := range m.Names {
		switch node, ok := strings.CutPrefix(name, "node_"); {
		case m.Used[name]:
		case !ok:
			d.Note("%s: member %s is not read", file, name)
		default:
			rows, err := m.Rows(name, o)
			if err != nil {
				return nil, err
			}
			if node == "feat" {
				node = "x"
			} else {
				d.Note("%s: member %s is kept as the node array %q", file, name, node)
			}
			if err := d.AddArray(node, flatColumn(rows)); err != nil {
				return nil, err
			}
		}
	}
	label := filepath.Join(path, "raw", "node-label.npz")
	if source.Exists(label) {
		rows, err := archive.Rows(label, o)
		if err != nil {
			return nil, err
		}
		if err := d.AddLabels(rows); err != nil {
			return nil, err
		}
	} else {
		d.Note("%s: there are no labels", label)
	}
	return d, addOGBSplits(ctx, d, path, o.SplitIndex)
}

// columnRows is an array of shape (N, 1) as (N,).
type columnRows struct{ source.Rows }

func (c columnRows) RowShape() []int64 { return nil }

// flatColumn drops the second axis of integers of shape (N, 1).
func flatColumn(r source.Rows) source.Rows {
	if d := r.DType(); source.OneElement(r.RowShape()) && d >= layout.Int8 && d <= layout.Uint64 {
		return columnRows{r}
	}
	return r
}
