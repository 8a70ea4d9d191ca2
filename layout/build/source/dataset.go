package source

// How readers put a dataset together: options, node arrays held to one number of nodes,
// labels, splits, one mask of several.

import (
	"context"
	"fmt"

	"github.com/goagnes/goagnes/layout"
)

// Options are settings of the readers; the zero value is the default.
type Options struct {
	// Scratch is the directory for what cannot be streamed (deflated arrays in
	// Fortran order); default the system's directory for temporary files.
	Scratch string
	// SplitIndex chooses one of several splits where a source has more, from 0.
	SplitIndex int
}

// NewDataset is a dataset of that format without contents.
func NewDataset(format string) *Dataset {
	return &Dataset{Format: format, NumNodes: -1, Arrays: map[string]Rows{}, Splits: map[string]Rows{}}
}

// Note adds a sentence to Notes.
func (d *Dataset) Note(format string, args ...any) {
	d.Notes = append(d.Notes, fmt.Sprintf(format, args...))
}

// AddArray adds a node array and holds it to the number of nodes.
func (d *Dataset) AddArray(name string, r Rows) error {
	if d.NumNodes >= 0 && r.Len() != d.NumNodes {
		return Errorf(r.Name(), "%d rows for %d nodes", r.Len(), d.NumNodes)
	}
	d.NumNodes = r.Len()
	d.Arrays[name] = r
	return nil
}

// AddLabels adds r as the labels, in the form of Labels.
func (d *Dataset) AddLabels(r Rows) error {
	labels, note, err := Labels(r)
	if err != nil {
		return err
	}
	if note != "" {
		d.Notes = append(d.Notes, note)
	}
	return d.AddArray("y", labels)
}

// AddSplit adds a split, in the form of SplitRows.
func (d *Dataset) AddSplit(name string, r Rows) error {
	s, err := SplitRows(r, d.NumNodes)
	if err != nil {
		return err
	}
	d.Splits[name] = s
	return nil
}

// maskRow is one row of a (masks, nodes) array.
type maskRow struct {
	Rows
	number int64
}

func (r *maskRow) Len() int64 { return r.Rows.RowShape()[0] }

func (r *maskRow) RowShape() []int64 { return nil }

func (r *maskRow) Scan(ctx context.Context, f func(first int64, rows []byte) error) error {
	size := r.Len()
	return r.Rows.Scan(ctx, func(first int64, rows []byte) error {
		at := (r.number - first) * size
		if at < 0 || at >= int64(len(rows)) {
			return nil
		}
		row := rows[at : at+size]
		for i := int64(0); i < size; i += ChunkBytes {
			if err := ctx.Err(); err != nil {
				return err
			}
			if err := f(i, row[i:min(i+ChunkBytes, size)]); err != nil {
				return err
			}
		}
		return nil
	})
}

// OneMask takes one of several masks, as the heterophilous graphs have ten.
func (d *Dataset) OneMask(ctx context.Context, r Rows, index int) (Rows, error) {
	shape := r.RowShape()
	if len(shape) != 1 || r.DType() != layout.Bool || r.Len() == 0 || shape[0] != d.NumNodes {
		return r, ctx.Err()
	}
	if index < 0 || int64(index) >= r.Len() {
		return nil, Errorf(r.Name(), "split_index %d of %d masks; they count from 0", index, r.Len())
	}
	d.SplitIndexed = true
	d.Note("%s: mask %d of %d is read (split_index; they count from 0)", r.Name(), index, r.Len())
	return &maskRow{r, int64(index)}, ctx.Err()
}
