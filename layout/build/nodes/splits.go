package nodes

// Splits: named sets of nodes, as lists of original ids.

import (
	"encoding/binary"
	"fmt"
	"maps"
	"math/bits"
	"slices"

	"github.com/goagnes/goagnes/layout"
	"github.com/goagnes/goagnes/layout/build/element"
	"github.com/goagnes/goagnes/layout/build/fault"
	"github.com/goagnes/goagnes/layout/build/ledger"
	"github.com/goagnes/goagnes/layout/build/source"
)

// TrainSplit is the split whose nodes come first among equals in degree order.
const TrainSplit = "train"

// WriteSplits checks and writes all splits, and returns a bit for each node of
// the train split; nil where there is no room for it.
func (b *Writer) WriteSplits(splits map[string]source.Rows, wantTrain bool) (train *ledger.Region, err error) {
	words := (b.numNodes + 63) / 64
	names := slices.Sorted(maps.Keys(splits))
	if wantTrain {
		if train, err = b.Mem.Map("train split", 8*words+8); err != nil {
			return nil, err
		}
		defer func() {
			if err != nil {
				train.Close()
			}
		}()
	}
	// Overlaps are told where the two bitmaps fit beside what comes later.
	var seen, own *ledger.Region
	if len(names) > 1 {
		if 16*words+16 <= b.Mem.Free()/2 {
			if seen, err = b.Mem.Map("nodes in splits", 8*words+8); err != nil {
				return nil, err
			}
			defer seen.Close()
			if own, err = b.Mem.Map("nodes in a split", 8*words+8); err != nil {
				return nil, err
			}
			defer own.Close()
		} else {
			b.Note("splits were not compared for overlaps: the memory budget has no room for it")
		}
	}
	for _, name := range names {
		var mark [][]uint64
		if name == TrainSplit && train != nil {
			mark = append(mark, ledger.View[uint64](train.Bytes))
		}
		if own != nil {
			clear(own.Bytes)
			mark = append(mark, ledger.View[uint64](own.Bytes))
		}
		if err := b.writeSplit(name, splits[name], mark); err != nil {
			return nil, err
		}
		if own == nil {
			continue
		}
		o, s, both := ledger.View[uint64](own.Bytes), ledger.View[uint64](seen.Bytes), 0
		for i, w := range o {
			both += bits.OnesCount64(w & s[i])
			s[i] |= w
		}
		if both > 0 {
			b.Note(fmt.Sprintf("%d nodes of split %q are in other splits too", both, name))
		}
	}
	return train, nil
}

// checkSplit refuses what cannot be a split of numNodes nodes, -1 where that is not
// known, and tells a mask from ids.
func checkSplit(name string, rows source.Rows, numNodes int64) (mask bool, err error) {
	d := rows.DType()
	mask = d == layout.Bool
	switch {
	case !goodName.MatchString(name):
		return false, fault.Usage("split name %q: a name has up to 64 letters, digits, '_' and '-', and begins with a letter or digit", name)
	case len(rows.RowShape()) != 0:
		return false, fault.Unsupported("%s: a split with rows of shape %v; give one mask or one list of ids", rows.Name(), rows.RowShape())
	case mask && numNodes >= 0 && rows.Len() != numNodes:
		return false, source.Errorf(rows.Name(), "a mask of %d values for %d nodes", rows.Len(), numNodes)
	case !mask && d != layout.Int32 && d != layout.Int64 && d != layout.Uint32 && d != layout.Uint64:
		return false, source.Errorf(rows.Name(), "split %q of type %s; give a bool mask, or ids as int32, int64, uint32 or uint64", name, d)
	}
	return mask, nil
}

// writeSplit writes one split and sets the bits of its nodes.
func (b *Writer) writeSplit(name string, rows source.Rows, mark [][]uint64) error {
	d := rows.DType()
	mask, err := checkSplit(name, rows, b.numNodes)
	if err != nil {
		return err
	}
	count := rows.Len()
	if mask {
		count = 0
		err := rows.Scan(b.Ctx, func(_ int64, in []byte) error {
			for _, v := range in {
				if v != 0 {
					count++
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
		b.BytesRead += rows.Len()
	}
	w, err := b.Create(layout.Section{Name: layout.SplitPrefix + name, Kind: layout.KindArray, DType: layout.Int64.String(), Rows: count})
	if err != nil {
		return err
	}
	defer w.Abort()
	out := make([]byte, 0, 1<<16)
	written := int64(0)
	put := func(v int64) error {
		for _, m := range mark {
			m[v>>6] |= 1 << (uint(v) & 63)
		}
		out = binary.LittleEndian.AppendUint64(out, uint64(v))
		written++
		if len(out) < cap(out) {
			return nil
		}
		err := w.Write(out)
		out = out[:0]
		return err
	}
	err = rows.Scan(b.Ctx, func(first int64, in []byte) error {
		for i := range int64(len(in)) / int64(d.Size()) {
			v := first + i
			if mask {
				if in[i] == 0 {
					continue
				}
			} else if v, _ = element.Integer(in, int(i), d); v < 0 || v >= b.numNodes {
				return source.ErrorAt(rows.Name(), first+i, "node %d of split %q; the graph's nodes are 0 to %d", v, name, b.numNodes-1)
			}
			if err := put(v); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	b.BytesRead += rows.Len() * int64(d.Size())
	if written != count {
		return source.ErrorAt(rows.Name(), -1, "the input changed while it was read")
	}
	if err := w.Write(out); err != nil {
		return err
	}
	return w.Close()
}
