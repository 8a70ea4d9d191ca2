package main

// The memory of whole runs, as the system counts it. tests/scale/memory.sh does the
// same at full size within memory cgroups; this takes no right to make one.

import (
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// Every verb stays within its budget and 64 MiB for the program, on data larger than
// both together.
func TestResidentMemory(t *testing.T) {
	if testing.Short() {
		t.Skip("takes data of 136 MiB")
	}
	const (
		nodes, degree, features = 1 << 17, 16, 256
		budget                  = 48 << 20
		limit                   = budget + 64<<20
		data                    = nodes*features*4 + nodes*degree*4
	)
	if data <= limit {
		t.Fatalf("%d bytes of data fit %d", data, limit)
	}
	folder := t.TempDir()
	raw := func(name string) string { return filepath.Join(folder, "raw", name) }
	loader := []string{"--memory", "48MiB", "--batch-size", "200", "--num-neighbors", "10,10,10", "--seed", "0", "--num-threads", "2"}
	with := func(args ...string) []string { return append(args, loader...) }
	for _, args := range [][]string{
		{"generate", "--raw", "raw", "--kind", "rmat", "--num-nodes", "131072", "--avg-degree", "16", "--num-features", "256"},
		{"generate", "made", "--kind", "rmat", "--num-nodes", "131072", "--avg-degree", "16", "--num-features", "256", "--memory", "48MiB"},
		{"build", "s", "--edge-index", raw("edge_index.npy"), "--x", raw("x.npy"), "--y", raw("y.npy"), "--split", "train=" + raw("split_train.npy"), "--memory", "48MiB"},
		{"verify", "s", "--memory", "48MiB"},
		with("bench", "prepare", "s", "--input-nodes", "train", "--shuffle"),
		with("train", "s", "--hidden", "32", "--epochs", "1", "--save", "model.npz"),
		with("export", "s", "out", "--input-nodes", "train", "--max-batches", "8"),
		{"predict", "s", "--model", "model.npz", "--split", "train", "--out", "predictions.npy", "--num-neighbors", "10,10,10", "--batch-size", "200", "--memory", "48MiB"},
	} {
		cmd := exec.Command(program, args...)
		cmd.Dir = folder
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("goagnes %s: %v\n%s", strings.Join(args, " "), err, out)
			continue
		}
		// The most that the process, or this one when it started it, had resident.
		peak := cmd.ProcessState.SysUsage().(*syscall.Rusage).Maxrss << 10
		t.Logf("%-8s %.1f MiB", args[0], float64(peak)/(1<<20))
		if peak > limit {
			t.Errorf("goagnes %s: %d bytes resident, %d are for the budget and the program", strings.Join(args, " "), peak, limit)
		}
	}
}
