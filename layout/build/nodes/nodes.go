package nodes

// The writer of nodes: arrays, tables of ids.

import (
	"fmt"
	"maps"
	"slices"

	"github.com/goagnes/goagnes/layout"
	"github.com/goagnes/goagnes/layout/build/ledger"
	"github.com/goagnes/goagnes/layout/build/source"
	"github.com/goagnes/goagnes/layout/build/staging"
)

// Writer writes what is known of nodes: arrays and splits.
type Writer struct {
	*staging.Store
	numNodes     int64
	featureDType layout.DType // 0 = as given
	internal     []uint32     // by original id; nil where ids are the same

	classes    int64 // found in the labels
	unlabelled int64 // labels that were NaN
	infinite   int64 // features that became infinite
	odd        oddFeatures
}

// New writes into st, features as d, or as they are where d is 0.
func New(st *staging.Store, numNodes int64, d layout.DType) *Writer {
	return &Writer{Store: st, numNodes: numNodes, featureDType: d}
}

// WriteArrays writes the arrays in the order of names, the nodes of each by internal,
// the table of internal ids by original id. It returns the number of classes.
func (b *Writer) WriteArrays(arrays map[string]source.Rows, internal []uint32) (classes int64, err error) {
	b.internal = internal
	for _, name := range slices.Sorted(maps.Keys(arrays)) {
		j, err := b.job(name, arrays[name])
		if err != nil {
			return 0, err
		}
		for _, s := range j.notes {
			b.Note(s)
		}
		if err := b.writeRows(j); err != nil {
			return 0, err
		}
	}
	if b.unlabelled > 0 {
		b.Note(fmt.Sprintf("%d labels are NaN and kept as -1: no label", b.unlabelled))
	}
	if b.infinite > 0 {
		b.Note(fmt.Sprintf("%d features are past the range of %s and became infinite", b.infinite, b.featureDType))
	}
	if note := b.odd.note(); note != "" {
		b.Note(note)
	}
	return b.classes, nil
}

// OddFeatures returns how many features of x that was written are NaN, and how many are
// infinite.
func (b *Writer) OddFeatures() (nan, infinite int64) { return b.odd.nan, b.odd.infinite }

// WriteIDs writes node.internal and node.original.
func (b *Writer) WriteIDs(internal, original []uint32) error {
	for _, t := range []struct {
		name  string
		table []uint32
	}{{layout.SectionInternal, internal}, {layout.SectionOriginal, original}} {
		w, err := b.Create(layout.Section{Name: t.name, Kind: layout.KindArray, Required: true, DType: layout.IDType(b.numNodes).String(), Rows: b.numNodes})
		if err != nil {
			return err
		}
		if err := b.WriteArea(w, ledger.Raw(t.table)); err != nil {
			w.Abort()
			return err
		}
		if err := w.Close(); err != nil {
			return err
		}
	}
	return nil
}
