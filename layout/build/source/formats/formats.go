package formats

// Opening a source by format, and telling formats apart by content.

import (
	"bufio"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/goagnes/goagnes/layout/build/source"
	"github.com/goagnes/goagnes/layout/build/source/archive"
	"github.com/goagnes/goagnes/layout/build/source/array"
	"github.com/goagnes/goagnes/layout/build/source/folder"
	"github.com/goagnes/goagnes/layout/build/source/inflate"
	"github.com/goagnes/goagnes/layout/build/source/planetoid"
	"github.com/goagnes/goagnes/layout/build/source/table"
	"github.com/goagnes/goagnes/layout/build/source/text"
	"github.com/goagnes/goagnes/layout/npy"
)

type format struct {
	name string
	open func(ctx context.Context, path string, o source.Options) (*source.Dataset, error)
}

func formats() []format {
	return []format{
		{"csv", table.OpenCSV},
		{"gnn", archive.OpenGNN},
		{"heterophilous", archive.OpenHeterophilous},
		{"igb", folder.OpenIGB},
		{"mtx", text.OpenMatrixMarket},
		{"npy", array.Open},
		{"npz", archive.Open},
		{"ogb", folder.OpenOGB},
		{"ogb-binary", folder.OpenOGBBinary},
		{"parquet", table.OpenParquet},
		{"planetoid", openPlanetoid},
		{"scipy", archive.OpenSciPy},
		{"snap", text.Open},
		{"ve", text.OpenPair},
	}
}

// known lists formats that are recognised by name and not read.
var known = []string{"dgl", "mag240m"}

// Names lists the names that Open reads, besides "auto".
func Names() []string {
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
func Open(ctx context.Context, path, format string, o source.Options) (*source.Dataset, error) {
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
	have := strings.Join(Names(), ", ")
	if format == "pyg" {
		return nil, source.Unsupported(path, "PyG's files are pickles of Python objects, which only torch reads; from Python, goagnes.import_dataset(store, path, format=\"pyg\") does, and executes what is in them")
	}
	if slices.Contains(known, format) {
		return nil, source.Unsupported(path, "format %q is not read yet; the formats are auto, %s", format, have)
	}
	return nil, source.Unsupported(path, "unknown format %q; the formats are auto, %s", format, have)
}

// Detect names the format of the file or directory at path by its content, or
// says why it has none that is read.
func Detect(path string) (string, error) {
	st, err := os.Stat(path)
	if err != nil {
		// A common path of Planetoid files, such as raw/ind.cora.
		if errors.Is(err, fs.ErrNotExist) && source.Exists(path+".graph") {
			return "planetoid", nil
		}
		if errors.Is(err, fs.ErrNotExist) && text.IsPair(path) {
			return "ve", nil
		}
		return "", source.ErrorFrom(path, "cannot be opened", err)
	}
	if st.IsDir() {
		return detectDirectory(path)
	}
	if _, _, ok := planetoid.NameOf(path); ok {
		return "planetoid", nil
	}
	if !st.Mode().IsRegular() { // a build reads its inputs more than once, and opening a pipe may block
		return "", source.Errorf(path, "no regular file; save its content to a file")
	}
	if st.Size() == 0 && (strings.HasSuffix(path, ".npy") || strings.HasSuffix(path, ".npz")) {
		return "", source.Errorf(path, "an empty file, where a numpy file is due")
	}
	r, err := inflate.Open(path)
	if err != nil {
		return "", err
	}
	defer r.Close()
	head, err := bufio.NewReader(r).Peek(4096)
	if err != nil && err != io.EOF {
		return "", source.ErrorFrom(path, "cannot be read", err)
	}
	_, compressed := r.(*inflate.Reader)
	starts := func(magic string) bool { return strings.HasPrefix(string(head), magic) }
	unread := func(what, instead string) (string, error) {
		return "", source.Unsupported(path, "%s is not read yet; %s", what, instead)
	}
	switch {
	case compressed && starts("PK"):
		return unread("a compressed .npz archive", "decompress it with gzip -d or zstd -d; its members may be deflated")
	case compressed && starts("PAR1"):
		return unread("a compressed Parquet file", "decompress it with gzip -d or zstd -d; its pages may be compressed")
	case npy.IsNPY(head):
		return "npy", nil
	case starts("PK\x03\x04"), starts("PK\x05\x06"):
		return archive.Detect(path)
	case text.IsMatrixMarket(head):
		return "mtx", nil
	case starts(table.ParquetMagic):
		return "parquet", nil
	case starts("BZh"):
		return unread("bzip2 compression", "decompress it with bunzip2, or use gzip")
	case starts("\xfd7zXZ"):
		return unread("xz compression", "decompress it with xz -d, or use gzip")
	case slices.Contains(head, 0):
		return "", source.Errorf(path, "neither text nor a known binary format")
	}
	if ext := filepath.Ext(path); len(head) == 0 && !compressed && slices.Contains([]string{".gz", ".zst", ".parquet"}, ext) {
		return "", source.Errorf(path, "an empty file, where one of %s is due", ext)
	}
	if base := strings.TrimSuffix(strings.TrimSuffix(path, ".gz"), ".zst"); strings.HasSuffix(base, ".mtx") {
		return "", source.Errorf(path, "called .mtx, without the first line %%%%MatrixMarket; name the format, mtx or snap")
	}
	if text.IsPair(path) {
		return "ve", nil
	}
	if table.LooksLikeCSV(head) {
		return "csv", nil
	}
	return "snap", nil
}

// detectDirectory names the one format whose files a directory holds.
func detectDirectory(path string) (string, error) {
	var found []string
	if source.Exists(filepath.Join(path, "edge_index.npy")) {
		found = append(found, "npy")
	}
	if graphs, err := filepath.Glob(filepath.Join(source.QuoteGlob(path), "ind.*.graph")); err == nil && len(graphs) > 0 {
		found = append(found, "planetoid")
	}
	if name := folder.DetectOGB(path); name != "" {
		found = append(found, name)
	}
	if folder.IGBFolder(path) != "" {
		found = append(found, "igb")
	}
	_, _, err := text.PairFiles(path)
	if err == nil {
		found = append(found, "ve")
	}
	if len(found) == 0 {
		if _, err := table.ParquetParts(path); err == nil {
			return "parquet", nil
		}
	}
	switch len(found) {
	case 0:
		return "", source.Errorf(path, "a directory with neither edge_index.npy nor ind.NAME.graph nor one pair NAME.v and NAME.e, nor that of OGB (raw/) or IGB (processed/paper), nor Parquet files alone; name a file, or the format")
	case 1:
		return found[0], nil
	}
	return "", source.Errorf(path, "a directory that may be %s; name the format", strings.Join(found, " or "))
}

// edgeFormats are formats of edges alone.
var edgeFormats = []string{"csv", "mtx", "parquet", "scipy", "snap"}

// openPlanetoid opens raw Planetoid files, or an archive that one of the repackaged
// graphs lies in.
func openPlanetoid(ctx context.Context, path string, o source.Options) (*source.Dataset, error) {
	if st, err := os.Stat(path); err == nil && !st.IsDir() {
		if format, err := Detect(path); err == nil && format == "npz" {
			return archive.Open(ctx, path, o)
		}
	}
	return planetoid.Open(ctx, path, o)
}

// OpenEdges opens a file that holds edges alone: what Open reads as snap, csv, mtx,
// parquet or scipy, a .npy file, or an .npz archive with a member edge_index, whatever
// else that holds. The dataset has no arrays and no splits. Of a pair of vertex and edge
// files the edges are read as text.
func OpenEdges(path string, o source.Options) (*source.Dataset, error) {
	format, err := Detect(path)
	if err != nil {
		return nil, err
	}
	ctx := context.Background()
	switch format {
	case "ve":
		return text.Open(ctx, path, o)
	case "npz":
		d := source.NewDataset(format)
		d.Edges, err = archive.Edges(path)
		return d, err
	case "npy":
		if st, err := os.Stat(path); err == nil && !st.IsDir() {
			return array.Open(ctx, path, o)
		}
	}
	if slices.Contains(edgeFormats, format) {
		return Open(ctx, path, format, o)
	}
	return nil, source.Errorf(path, "a whole dataset (%s), where a file of edges is due; import it", format)
}

// RowsFromFile opens a file that holds one array: .npy, or an .npz archive with
// one member.
func RowsFromFile(path string, o source.Options) (source.Rows, error) {
	format, err := Detect(path)
	if err != nil {
		return nil, err
	}
	switch format {
	case "npy":
		in, err := array.NewInput(path, "")
		if err != nil {
			return nil, err
		}
		return array.NewRows(in, o.Scratch)
	case "npz":
		return archive.Rows(path, o)
	}
	return nil, source.Errorf(path, "no numpy file; save the array with numpy.save")
}
