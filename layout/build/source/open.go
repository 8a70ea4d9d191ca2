package source

// Opening a source by format, and telling formats apart by content.

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/goagnes/goagnes/layout/npy"
)

// Options are settings of the readers; the zero value is the default.
type Options struct {
	// Scratch is the directory for what cannot be streamed (deflated arrays in
	// Fortran order); default the system's directory for temporary files.
	Scratch string
	// SplitIndex chooses one of several splits where a source has more, from 0.
	SplitIndex int
}

type format struct {
	name string
	open func(ctx context.Context, path string, o Options) (*Dataset, error)
}

func formats() []format {
	return []format{
		{"csv", openCSV},
		{"gnn", openGNN},
		{"heterophilous", openHeterophilous},
		{"igb", openIGB},
		{"mtx", openMatrixMarket},
		{"npy", openNPY},
		{"npz", openNPZ},
		{"ogb", openOGB},
		{"ogb-binary", openOGBBinary},
		{"parquet", openParquet},
		{"planetoid", openPlanetoid},
		{"scipy", openSciPy},
		{"snap", openSNAP},
		{"ve", openPair},
	}
}

// known lists formats that are recognised by name and not read.
var known = []string{"dgl", "mag240m"}

// Formats lists the names that Open reads, besides "auto".
func Formats() []string {
	var names []string
	for _, f := range formats() {
		names = append(names, f.name)
	}
	return names
}

// Open opens the source at path. Format is one of Formats, or "auto" or "" for
// what Detect says:
//
//   - "snap": a text edge list;
//   - "csv": a table of edges, with a header or without;
//   - "parquet": a Parquet file with two columns of ids, or a directory of such;
//   - "ve": a pair of files NAME.v and NAME.e, named by either, by NAME, or by a
//     directory with no other pair;
//   - "mtx": a square Matrix Market file;
//   - "npy": an edge_index.npy, or a directory with edge_index.npy and, where
//     there are any, x.npy, y.npy, num_nodes.npy and split_NAME.npy;
//   - "npz": an archive with edge_index and, where there are any, x (dense or as
//     x_indptr, x_indices, x_data, x_shape), y, train_idx, val_idx, test_idx;
//   - "scipy": a square matrix that scipy.sparse.save_npz wrote;
//   - "heterophilous": one of the heterophilous graphs as published;
//   - "ogb", "ogb-binary": a folder of OGB's node property prediction, with raw/ and
//     split/: csv files, or raw/data.npz and raw/node-label.npz;
//   - "igb": a folder of IGB, with processed/paper and processed/paper__cites__paper;
//   - "planetoid": a directory with one set of ind.NAME.* files, one of these
//     files, their common path without the ending, or an "npz" archive.
//
// Text and .npy files may be compressed by gzip or zstd. Ids in arrays are dense;
// those of text may be sparse (Dataset.RankIDs).
func Open(ctx context.Context, path, format string, o Options) (*Dataset, error) {
	if format == "" || format == "auto" {
		var err error
		if format, err = Detect(path); err != nil {
			return nil, err
		}
	}
	for _, f := range formats() {
		if f.name == format {
			return f.open(ctx, path, o)
		}
	}
	have := strings.Join(Formats(), ", ")
	if format == "pyg" {
		return nil, &UnsupportedError{path, "PyG's files are pickles of Python objects, which only torch reads; from Python, goagnes.import_dataset(store, path, format=\"pyg\") does, and executes what is in them"}
	}
	if slices.Contains(known, format) {
		return nil, &UnsupportedError{path, fmt.Sprintf("format %q is not read yet; the formats are auto, %s", format, have)}
	}
	return nil, &UnsupportedError{path, fmt.Sprintf("unknown format %q; the formats are auto, %s", format, have)}
}

// Detect names the format of the file or directory at path by its content, or
// says why it has none that is read.
func Detect(path string) (string, error) {
	st, err := os.Stat(path)
	if err != nil {
		// A common path of Planetoid files, such as raw/ind.cora.
		if errors.Is(err, fs.ErrNotExist) && exists(path+".graph") {
			return "planetoid", nil
		}
		if errors.Is(err, fs.ErrNotExist) && isPair(path) {
			return "ve", nil
		}
		return "", causeError(path, "cannot be opened", err)
	}
	if st.IsDir() {
		return detectDirectory(path)
	}
	if _, _, ok := planetoidName(path); ok {
		return "planetoid", nil
	}
	if !st.Mode().IsRegular() { // a build reads its inputs more than once, and opening a pipe may block
		return "", inputError(path, "no regular file; save its content to a file")
	}
	if st.Size() == 0 && (strings.HasSuffix(path, ".npy") || strings.HasSuffix(path, ".npz")) {
		return "", inputError(path, "an empty file, where a numpy file is due")
	}
	r, err := openText(path)
	if err != nil {
		return "", err
	}
	defer r.Close()
	head, err := bufio.NewReader(r).Peek(4096)
	if err != nil && err != io.EOF {
		return "", causeError(path, "cannot be read", err)
	}
	_, compressed := r.(*inflated)
	starts := func(magic string) bool { return strings.HasPrefix(string(head), magic) }
	unread := func(what, instead string) (string, error) {
		return "", &UnsupportedError{path, what + " is not read yet; " + instead}
	}
	switch {
	case compressed && starts("PK"):
		return unread("a compressed .npz archive", "decompress it with gzip -d or zstd -d; its members may be deflated")
	case compressed && starts("PAR1"):
		return unread("a compressed Parquet file", "decompress it with gzip -d or zstd -d; its pages may be compressed")
	case npy.IsNPY(head):
		return "npy", nil
	case starts("PK\x03\x04"), starts("PK\x05\x06"):
		return detectNPZ(path)
	case isMatrixMarket(head):
		return "mtx", nil
	case starts(parquetMagic):
		return "parquet", nil
	case starts("BZh"):
		return unread("bzip2 compression", "decompress it with bunzip2, or use gzip")
	case starts("\xfd7zXZ"):
		return unread("xz compression", "decompress it with xz -d, or use gzip")
	case slices.Contains(head, 0):
		return "", inputError(path, "neither text nor a known binary format")
	}
	if ext := filepath.Ext(path); len(head) == 0 && !compressed && slices.Contains([]string{".gz", ".zst", ".parquet"}, ext) {
		return "", inputError(path, "an empty file, where one of %s is due", ext)
	}
	if base := strings.TrimSuffix(strings.TrimSuffix(path, ".gz"), ".zst"); strings.HasSuffix(base, ".mtx") {
		return "", inputError(path, "called .mtx, without the first line %%%%MatrixMarket; name the format, mtx or snap")
	}
	if isPair(path) {
		return "ve", nil
	}
	if looksLikeCSV(head) {
		return "csv", nil
	}
	return "snap", nil
}

// detectDirectory names the one format whose files a directory holds.
func detectDirectory(path string) (string, error) {
	var found []string
	if exists(filepath.Join(path, "edge_index.npy")) {
		found = append(found, "npy")
	}
	if graphs, err := filepath.Glob(filepath.Join(globQuote(path), "ind.*.graph")); err == nil && len(graphs) > 0 {
		found = append(found, "planetoid")
	}
	if name := detectOGB(path); name != "" {
		found = append(found, name)
	}
	if igbFolder(path) != "" {
		found = append(found, "igb")
	}
	_, _, err := pairFiles(path)
	if err == nil {
		found = append(found, "ve")
	}
	if len(found) == 0 {
		if _, err := parquetParts(path); err == nil {
			return "parquet", nil
		}
	}
	switch len(found) {
	case 0:
		return "", inputError(path, "a directory with neither edge_index.npy nor ind.NAME.graph nor one pair NAME.v and NAME.e, nor that of OGB (raw/) or IGB (processed/paper), nor Parquet files alone; name a file, or the format")
	case 1:
		return found[0], nil
	}
	return "", inputError(path, "a directory that may be %s; name the format", strings.Join(found, " or "))
}

// globQuote escapes what Glob would take for a pattern.
func globQuote(path string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(path)
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

func openSNAP(_ context.Context, path string, _ Options) (*Dataset, error) {
	notes, err := probeText(path)
	if err != nil {
		return nil, err
	}
	d := newDataset("snap")
	d.Edges, d.RankIDs = &textEdges{path}, true
	for _, n := range notes {
		d.note("%s: %s", path, n)
	}
	return d, nil
}

func openNPY(ctx context.Context, path string, o Options) (*Dataset, error) {
	d := newDataset("npy")
	st, err := os.Stat(path)
	if err != nil {
		return nil, causeError(path, "cannot be opened", err)
	}
	if !st.IsDir() {
		in, err := newInput(path, "")
		if err != nil {
			return nil, err
		}
		d.Edges, err = newArrayEdges(in)
		return d, err
	}
	in, err := newInput(filepath.Join(path, "edge_index.npy"), "")
	if err != nil {
		return nil, err
	}
	if d.Edges, err = newArrayEdges(in); err != nil {
		return nil, err
	}
	if file := filepath.Join(path, "num_nodes.npy"); exists(file) {
		in, err := newInput(file, "")
		if err != nil {
			return nil, err
		}
		n, err := smallIDs(ctx, in, 1)
		if err != nil {
			return nil, err
		}
		d.NumNodes = n[0]
	}
	rows := func(file string) (Rows, error) {
		in, err := newInput(file, "")
		if err != nil {
			return nil, err
		}
		return newArrayRows(in, o.Scratch)
	}
	for _, name := range []string{"x", "y"} {
		file := filepath.Join(path, name+".npy")
		if !exists(file) {
			continue
		}
		r, err := rows(file)
		if err != nil {
			return nil, err
		}
		if name == "y" {
			err = d.addLabels(r)
		} else {
			err = d.addArray(name, r)
		}
		if err != nil {
			return nil, err
		}
	}
	files, err := filepath.Glob(filepath.Join(globQuote(path), "split_*.npy"))
	if err != nil {
		return nil, causeError(path, "cannot be listed", err)
	}
	for _, file := range files {
		r, err := rows(file)
		if err != nil {
			return nil, err
		}
		name := strings.TrimSuffix(strings.TrimPrefix(filepath.Base(file), "split_"), ".npy")
		if err := d.addSplit(name, r); err != nil {
			return nil, err
		}
	}
	return d, nil
}

// edgeFormats are formats of edges alone.
var edgeFormats = []string{"csv", "mtx", "parquet", "scipy"}

// EdgesFromFile opens a file that holds edges alone: text, .npy, or an .npz
// archive with a member edge_index. RankIDs says what ids="auto" means for it.
func EdgesFromFile(path string, o Options) (e Edges, rankIDs bool, err error) {
	format, err := Detect(path)
	if err != nil {
		return nil, false, err
	}
	switch format {
	case "snap", "ve":
		d, err := openSNAP(context.Background(), path, o)
		if err != nil {
			return nil, false, err
		}
		return d.Edges, true, nil
	case "npy":
		in, err := newInput(path, "")
		if err != nil {
			return nil, false, err
		}
		e, err := newArrayEdges(in)
		return e, false, err
	case "npz":
		m, err := listMembers(path)
		if err != nil {
			return nil, false, err
		}
		name := m.find(edgeMembers...)
		if name == "" {
			return nil, false, inputError(path, "no member edge_index; %s", m.list())
		}
		in, err := m.input(name)
		if err != nil {
			return nil, false, err
		}
		e, err := newArrayEdges(in)
		return e, false, err
	}
	if slices.Contains(edgeFormats, format) {
		d, err := Open(context.Background(), path, format, o)
		if err != nil {
			return nil, false, err
		}
		return d.Edges, d.RankIDs, nil
	}
	return nil, false, inputError(path, "a whole dataset (%s), where a file of edges is due; import it", format)
}

// RowsFromFile opens a file that holds one array: .npy, or an .npz archive with
// one member.
func RowsFromFile(path string, o Options) (Rows, error) {
	format, err := Detect(path)
	if err != nil {
		return nil, err
	}
	member := ""
	switch format {
	case "npy":
	case "npz":
		m, err := listMembers(path)
		if err != nil {
			return nil, err
		}
		if len(m.names) != 1 {
			return nil, inputError(path, "an archive with one array is due; %s", m.list())
		}
		member = m.names[0]
	default:
		return nil, inputError(path, "no numpy file; save the array with numpy.save")
	}
	in, err := newInput(path, member)
	if err != nil {
		return nil, err
	}
	return newArrayRows(in, o.Scratch)
}

func newDataset(format string) *Dataset {
	return &Dataset{Format: format, NumNodes: -1, Arrays: map[string]Rows{}, Splits: map[string]Rows{}}
}

func (d *Dataset) note(format string, args ...any) {
	d.Notes = append(d.Notes, fmt.Sprintf(format, args...))
}

// addArray adds a node array and holds it to the number of nodes.
func (d *Dataset) addArray(name string, r Rows) error {
	if d.NumNodes >= 0 && r.Len() != d.NumNodes {
		return inputError(r.Name(), "%d rows for %d nodes", r.Len(), d.NumNodes)
	}
	d.NumNodes = r.Len()
	d.Arrays[name] = r
	return nil
}

func (d *Dataset) addLabels(r Rows) error {
	labels, note, err := Labels(r)
	if err != nil {
		return err
	}
	if note != "" {
		d.Notes = append(d.Notes, note)
	}
	return d.addArray("y", labels)
}

func (d *Dataset) addSplit(name string, r Rows) error {
	s, err := SplitRows(r, d.NumNodes)
	if err != nil {
		return err
	}
	d.Splits[name] = s
	return nil
}
