package export

// A device that is full at every possible moment of an export.

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/sbinet/npyio"
	"golang.org/x/sys/unix"

	"github.com/goagnes/goagnes/goagnes/operation"
	"github.com/goagnes/goagnes/goagnes/storage"
	"github.com/goagnes/goagnes/goagnes/storage/inject"
	"github.com/goagnes/goagnes/layout"
)

// full returns a file system that has room for so many operations that may need
// some; of a write that has none, half reaches the file.
func full(room int) storage.FS {
	left := atomic.Int64{}
	left.Store(int64(room))
	return inject.New(nil, inject.Options{Fail: func(op inject.Op) error {
		switch op.Name {
		case "mkdir", "write", "sync", "truncate", "rename":
		default:
			return nil
		}
		if left.Add(-1) >= 0 {
			return nil
		}
		if op.Name == "write" {
			f, err := os.OpenFile(op.Path, os.O_WRONLY, 0)
			if err != nil {
				return err
			}
			defer f.Close()
			if _, err := f.WriteAt(bytes.Repeat([]byte{0x5a}, op.Bytes/2), op.Offset); err != nil {
				return err
			}
		}
		return unix.ENOSPC
	}})
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
func writeAll(fsys storage.FS, dir string) (err error) {
	w, err := Create(fsys, dir, fullIndex(), false)
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
	if err := writeAll(nil, whole); err != nil {
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
		err := writeAll(full(room), dir)
		if err == nil {
			if room < 40 {
				t.Errorf("a device with room for %d operations was never full", room)
			}
			return
		}
		if !errors.Is(err, unix.ENOSPC) {
			t.Fatalf("room for %d operations: %v", room, err)
		}
		if r, err := Open(dir); err == nil {
			t.Errorf("room for %d operations: an export opens", room)
			r.Close()
		}
		if err := writeAll(nil, dir); err != nil {
			t.Fatalf("room for %d operations, then enough: %v", room, err)
		}
		for _, name := range []string{IndexFile, "epoch-0/x.npy", "epoch-0/edge_index.npy", "epoch-0/minibatches.jsonl", "epoch-1/x.npy", "epoch-1/edge_index.npy", "epoch-1/minibatches.jsonl", "epoch-1/edge_offsets.npy"} {
			got, err := os.ReadFile(filepath.Join(dir, name))
			want, _ := os.ReadFile(filepath.Join(whole, name))
			if err != nil || string(got) != string(want) {
				t.Errorf("room for %d operations, then enough: %s differs (%v)", room, name, err)
			}
		}
	}
}
