package export

// A device that is full at every possible moment of an export.

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/sbinet/npyio"
	"golang.org/x/sys/unix"

	"github.com/goagnes/goagnes/goagnes/operation"
	"github.com/goagnes/goagnes/layout"
)

// full is a file system that has room for so many writes, and writes half of the
// next one.
type full struct {
	osFiles
	left *int
}

func (f full) OpenFile(path string, flags int, perm fs.FileMode) (handle, error) {
	h, err := f.osFiles.OpenFile(path, flags, perm)
	return fullHandle{h, f.left}, err
}

type fullHandle struct {
	handle
	left *int
}

func (h fullHandle) WriteAt(b []byte, at int64) (int, error) {
	if *h.left--; *h.left < 0 {
		n, _ := h.handle.WriteAt(b[:len(b)/2], at)
		return n, unix.ENOSPC
	}
	return h.handle.WriteAt(b, at)
}

const fullBatches = 3

func fullIndex() Index {
	return Index{
		Store:    Store{BuildID: "00", NumNodes: 9, NumEdges: 9},
		Settings: Settings{NumNeighbors: []int{1}, InputNodes: InputNodes{Kind: "all", Count: 9}, BatchSize: 3, Epochs: 2, Minibatches: fullBatches},
		Arrays:   []Array{NewArray("x", layout.Float32, []int64{0, 5}), NewArray("edge_index", layout.Int64, []int64{2, 0})},
	}
}

// writeAll writes what is missing of the export.
func writeAll(fsys files, dir string) (err error) {
	w, err := create(fsys, dir, fullIndex(), false)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.Close()) }()
	for epoch := 0; epoch < 2 && !w.Finished(); epoch++ {
		done, err := w.Begin(context.Background(), nil)
		if err != nil {
			return err
		}
		for m := done; m < fullBatches; m++ {
			x, e := make([]byte, 20*(4+m)), make([]byte, 16*m)
			for i := range x {
				x[i] = byte(i) + byte(m) + byte(epoch)
			}
			if err := w.Add(Minibatch{[]int64{3, 1 + m}, []int64{m}, []operation.Array{
				operation.NewArray("x", layout.Float32, []int64{4 + m, 5}, x), operation.NewArray("edge_index", layout.Int64, []int64{2, m}, e),
			}}); err != nil {
				return err
			}
		}
		if err := w.End(); err != nil {
			return err
		}
	}
	return w.Finish()
}

func TestFullDevice(t *testing.T) {
	whole := filepath.Join(t.TempDir(), "whole")
	if err := writeAll(osFiles{}, whole); err != nil {
		t.Fatal(err)
	}
	// The small arrays by another reader than ours.
	f, err := os.Open(filepath.Join(whole, "epoch-1", "node_offsets.npy"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var offsets []int64
	if err := npyio.Read(f, &offsets); err != nil || !equal(offsets, []int64{0, 4, 9, 15}) {
		t.Errorf("node_offsets.npy is %v, %v", offsets, err)
	}
	for room := 0; ; room++ {
		dir := filepath.Join(t.TempDir(), "out")
		left := room
		err := writeAll(full{left: &left}, dir)
		if err == nil {
			if room < 20 {
				t.Errorf("a device with room for %d writes was never full", room)
			}
			return
		}
		if !errors.Is(err, unix.ENOSPC) {
			t.Fatalf("room for %d writes: %v", room, err)
		}
		if r, err := Open(dir); err == nil {
			t.Errorf("room for %d writes: an export opens", room)
			r.Close()
		}
		if err := writeAll(osFiles{}, dir); err != nil {
			t.Fatalf("room for %d writes, then enough: %v", room, err)
		}
		for _, name := range []string{IndexFile, "epoch-0/x.npy", "epoch-0/edge_index.npy", "epoch-0/minibatches.jsonl", "epoch-1/x.npy", "epoch-1/edge_index.npy", "epoch-1/minibatches.jsonl", "epoch-1/edge_offsets.npy"} {
			got, err := os.ReadFile(filepath.Join(dir, name))
			want, _ := os.ReadFile(filepath.Join(whole, name))
			if err != nil || string(got) != string(want) {
				t.Errorf("room for %d writes, then enough: %s differs (%v)", room, name, err)
			}
		}
	}
}
