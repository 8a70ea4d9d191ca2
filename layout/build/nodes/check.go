package nodes

// Checks before anything is written: a build that refuses its last array after hours of
// sorting edges would have been better refused at once.

import (
	"context"
	"maps"
	"slices"

	"github.com/goagnes/goagnes/layout"
	"github.com/goagnes/goagnes/layout/build/source"
)

// checkBytes is the part of a chunk of labels that is converted at one time.
const checkBytes = 64 << 10

// Check refuses arrays and splits that cannot be written: by their names, types, shapes
// and numbers of rows, and by the values of labels and the form of sparse matrices, which
// are read for it. numNodes is
// -1 where it is not known; features are kept as d, or as they are where d is 0. Ids of
// splits and values of features are read when they are written.
func Check(ctx context.Context, arrays, splits map[string]source.Rows, numNodes int64, d layout.DType) error {
	b := &Writer{numNodes: numNodes, featureDType: d}
	for _, name := range slices.Sorted(maps.Keys(arrays)) {
		j, err := b.job(name, arrays[name])
		if err != nil {
			return err
		}
		if numNodes >= 0 {
			if err := checkLen(j.rows, numNodes); err != nil {
				return err
			}
		}
		if c, ok := j.rows.(source.Checker); ok {
			if err := c.Check(ctx); err != nil {
				return err
			}
		}
		if j.section == layout.SectionY {
			if err := j.checkValues(ctx); err != nil {
				return err
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(splits)) {
		if _, err := checkSplit(name, splits[name], numNodes); err != nil {
			return err
		}
	}
	return nil
}

// checkValues converts all rows for the faults in them.
func (j *rowJob) checkValues(ctx context.Context) error {
	in := j.inStride()
	most := max(checkBytes/in, 1)
	buf := make([]byte, most*j.stride)
	return j.rows.Scan(ctx, func(first int64, rows []byte) error {
		for len(rows) > 0 {
			n := min(int64(len(rows)), most*in)
			if _, err := j.convert(first, rows[:n], buf); err != nil {
				return err
			}
			first, rows = first+n/in, rows[n:]
		}
		return nil
	})
}
