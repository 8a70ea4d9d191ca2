package goagnes

// Splits drawn by class, against a ranking of every class by the numbers of the
// stream.

import (
	"context"
	"encoding/binary"
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/goagnes/goagnes/kernels"
	"github.com/goagnes/goagnes/layout"
	"github.com/goagnes/goagnes/layout/build/source"
	"github.com/goagnes/goagnes/layout/build/source/array"
)

func labelMemory(labels []int64) *Memory {
	b := make([]byte, 0, 8*len(labels))
	for _, v := range labels {
		b = binary.LittleEndian.AppendUint64(b, uint64(v))
	}
	return &Memory{Name: "y", Data: b, DType: layout.Int64, Shape: []int64{int64(len(labels))}}
}

// members lists a split's nodes.
func members(t *testing.T, r source.Rows) (ids []int64) {
	t.Helper()
	err := r.Scan(context.Background(), func(first int64, rows []byte) error {
		if r.DType() == layout.Bool {
			for i, v := range rows {
				if v != 0 {
					ids = append(ids, first+int64(i))
				}
			}
			return nil
		}
		for ; len(rows) > 0; rows = rows[8:] {
			ids = append(ids, int64(binary.LittleEndian.Uint64(rows)))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return ids
}

func TestClassSplits(t *testing.T) {
	labels := make([]int64, 300)
	for v := range labels {
		labels[v] = int64(v*v%7) - 1 // -1 for every seventh node, then classes 0, 1 and 3
	}
	labels[17], labels[90] = 9, 9 // a class smaller than what is asked of it
	y, err := array.RowsFromMemory(*labelMemory(labels))
	if err != nil {
		t.Fatal(err)
	}
	const seed, training, validation = 1<<40 | 3, 4, 6
	splits, note, err := classSplits(context.Background(), y, training, validation, seed)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string][]int64{}
	for class := range int64(10) {
		var nodes []int64
		number := func(v int64) uint64 {
			w := kernels.Philox([2]uint32{3, 1 << 8}, [4]uint32{uint32(v), 0, 0, 5})
			return uint64(w[0]) | uint64(w[1])<<32
		}
		for v, label := range labels {
			if label == class {
				nodes = append(nodes, int64(v))
			}
		}
		slices.SortFunc(nodes, func(a, b int64) int {
			if number(a) < number(b) {
				return -1
			}
			return 1
		})
		for i, v := range nodes {
			name := "test"
			if i < training {
				name = "train"
			} else if i < training+validation {
				name = "val"
			}
			want[name] = append(want[name], v)
		}
	}
	for name, nodes := range want {
		slices.Sort(nodes)
		if got := members(t, splits[name]); !slices.Equal(got, nodes) {
			t.Errorf("%s: %v, want %v", name, got, nodes)
		}
	}
	if !strings.Contains(note, "1 of 4 classes have fewer than 10 nodes") {
		t.Error(note)
	}
	other, _, err := classSplits(context.Background(), y, training, validation, seed+1)
	if err != nil || slices.Equal(members(t, other["train"]), want["train"]) {
		t.Errorf("another seed gives the same split (%v)", err)
	}
}

func TestSplitRefused(t *testing.T) {
	edges := &Memory{Name: "edge_index", Data: make([]byte, 32), DType: layout.Int64, Shape: []int64{2, 2}}
	for name, c := range map[string]struct {
		o     BuildOptions
		class string
	}{
		"unknown":       {BuildOptions{Split: "random"}, "unsupported"},
		"one number":    {BuildOptions{Split: "per-class:20"}, "unsupported"},
		"no training":   {BuildOptions{Split: "per-class:0,3"}, "usage"},
		"negative":      {BuildOptions{Split: "per-class:1,-1"}, "usage"},
		"no labels":     {BuildOptions{Split: "per-class:1,1"}, "usage"},
		"unlabelled":    {BuildOptions{Split: "per-class:1,1", Y: Input{Memory: labelMemory([]int64{-1})}}, "usage"},
		"seed alone":    {BuildOptions{SplitSeed: 1}, "usage"},
		"given as well": {BuildOptions{Split: "per-class:1,1", Y: Input{Memory: labelMemory([]int64{0})}, Splits: map[string]Input{"val": {Memory: labelMemory([]int64{0})}}}, "usage"},
	} {
		c.o.EdgeIndex = Input{Memory: edges}
		_, err := Build(context.Background(), filepath.Join(t.TempDir(), "s"), c.o)
		var classed interface{ Class() string }
		if !errors.As(err, &classed) || classed.Class() != c.class || !strings.Contains(err.Error(), "split") {
			t.Errorf("%s: %v, want class %s", name, err, c.class)
		}
	}
}
