package longrun

// Long runs: training for many epochs, in a process of its own, holds its memory,
// open files, threads and goroutines.

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"testing"

	"github.com/goagnes/goagnes/goagnes"
	"github.com/goagnes/goagnes/goagnes/train"
	"github.com/goagnes/goagnes/tests/fixture/child"
	"github.com/goagnes/goagnes/tests/fixture/life"
	"github.com/goagnes/goagnes/tests/fixture/place"
)

// A store that is there already, instead of a small R-MAT: several GiB and some
// minutes an epoch are not for every run.
var (
	longStore  = flag.String("longrun.store", "", "store of TestLongRMAT, default a small R-MAT")
	longMemory = flag.Int64("longrun.memory", 304_000_000, "budget for that store, in bytes")
	longEpochs = flag.Int("longrun.epochs", 3, "epochs on that store")
)

// longRun is what the process is to do.
type longRun struct {
	Store  string
	Memory int64
	Leak   bool // some of everything, every epoch

	Model, Preset                     string
	Layers, Hidden, BatchSize, Epochs int
	Fanouts                           []int
}

// vitals are a process's counts after a minibatch of training.
type vitals struct{ Epoch, RSS, Reserved, Heap, Files, Threads, Goroutines int64 }

func takeVitals(s *goagnes.Store, epoch int64) vitals {
	v := vitals{Epoch: epoch, Goroutines: int64(runtime.NumGoroutine())}
	var heap runtime.MemStats
	runtime.ReadMemStats(&heap)
	v.Heap = int64(heap.Sys - heap.HeapReleased)
	for _, n := range s.Info().MemoryByUse {
		v.Reserved += n
	}
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		panic(err)
	}
	for line := range bytes.Lines(status) {
		if n, _ := fmt.Sscanf(string(line), "VmRSS: %d kB", &v.RSS); n == 1 {
			v.RSS <<= 10
		}
		fmt.Sscanf(string(line), "Threads: %d", &v.Threads)
	}
	files, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		panic(err)
	}
	v.Files = int64(len(files))
	return v
}

// TestLongRunChild is the process: it does what it is told and prints
// its vitals.
func TestLongRunChild(t *testing.T) {
	var run longRun
	child.Only(t, &run)
	s := life.Open(t, run.Store, goagnes.OpenOptions{Memory: run.Memory, NumThreads: 2})
	var all []vitals
	var kept [][]byte
	var files []*os.File
	forever := make(chan struct{})
	progress := func(_ string, done, total int64) {
		epoch := (done - 1) * int64(run.Epochs) / total
		if run.Leak && (len(all) == 0 || all[len(all)-1].Epoch < epoch) {
			kept = append(kept, bytes.Repeat([]byte{1}, 256<<10))
			f, err := os.Open(os.DevNull)
			if err != nil {
				panic(err)
			}
			files = append(files, f)
			go func() { <-forever }()
			go func() { runtime.LockOSThread(); <-forever }()
		}
		all = append(all, takeVitals(s, epoch))
	}
	o := train.Options{Model: run.Model, Preset: run.Preset, Layers: run.Layers, Hidden: run.Hidden, BatchSize: run.BatchSize, Epochs: run.Epochs,
		NumNeighbors: run.Fanouts, EvalNeighbors: run.Fanouts, Progress: progress}
	if _, err := goagnes.Train(context.Background(), s, goagnes.TrainOptions{Options: o}); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	runtime.KeepAlive(kept)
	runtime.KeepAlive(files)
	b, err := json.Marshal(all)
	if err != nil {
		t.Fatal(err)
	}
	fmt.Printf("\nvitals %s\n", b)
}

// live runs the process and returns its vitals.
func live(t *testing.T, run longRun) []vitals {
	t.Helper()
	out, err := child.Command(t, "TestLongRunChild", run).CombinedOutput()
	_, after, found := bytes.Cut(out, []byte("\nvitals "))
	if err != nil || !found {
		t.Fatalf("%v\n%s", err, out)
	}
	var all []vitals
	if err := json.NewDecoder(bytes.NewReader(after)).Decode(&all); err != nil {
		t.Fatal(err)
	}
	return all
}

// growth judges vitals: the slope by least squares of each epoch's peaks, the first
// quarter of the epochs (at least one) being left out as warm-up, times the epochs
// that are left, must not be above what is allowed. What an epoch leaks adds up; a
// single higher peak does not. It returns the signs that have grown, and what was
// seen in words.
func growth(all []vitals, allowed vitals) (grown []string, told string) {
	epochs := int(all[len(all)-1].Epoch) + 1
	warm := max(epochs/4, 1)
	for _, sign := range []struct {
		name    string
		of      func(v vitals) int64
		allowed int64
	}{
		{"RSS beyond the budget's use", func(v vitals) int64 { return v.RSS - v.Reserved }, allowed.RSS},
		{"the budget's use", func(v vitals) int64 { return v.Reserved }, allowed.Reserved},
		{"Go's memory", func(v vitals) int64 { return v.Heap }, allowed.Heap},
		{"open files", func(v vitals) int64 { return v.Files }, allowed.Files},
		{"threads", func(v vitals) int64 { return v.Threads }, allowed.Threads},
		{"goroutines", func(v vitals) int64 { return v.Goroutines }, allowed.Goroutines},
	} {
		peaks := make([]float64, epochs)
		for _, v := range all {
			peaks[v.Epoch] = max(peaks[v.Epoch], float64(sign.of(v)))
		}
		y := peaks[warm:]
		n := float64(len(y))
		var sx, sy, sxx, sxy float64
		for i, v := range y {
			x := float64(i)
			sx, sy, sxx, sxy = sx+x, sy+v, sxx+x*x, sxy+x*v
		}
		slope := (n*sxy - sx*sy) / max(n*sxx-sx*sx, 1)
		told += fmt.Sprintf("%s: first peak %.0f, after warm-up %.0f, last %.0f; slope %.3f an epoch\n", sign.name, peaks[0], y[0], y[len(y)-1], slope)
		if slope*n > float64(sign.allowed) {
			grown = append(grown, sign.name)
		}
	}
	return grown, told
}

// allowances of a run: of RSS beyond the budget's use 4 MiB, for the heap between two
// collections; of that use an eighth of the budget, because it goes up and down with
// the minibatches that happen to be ready; a file, and the goroutines of reads that
// happen to be under way; and threads, of which Go makes one where all others wait
// in the system, and keeps it.
func allowances(budget int64) vitals {
	return vitals{RSS: 4 << 20, Reserved: budget / 8, Heap: 4 << 20, Files: 1, Threads: 3, Goroutines: 3}
}

// TestLongCora trains a GCN on Cora for 200 epochs, and finds what is leaked on
// purpose.
func TestLongCora(t *testing.T) {
	if testing.Short() {
		t.Skip("a long run")
	}
	raw := place.Corpus(t, "planetoid/cora")
	path := filepath.Join(t.TempDir(), "cora")
	if _, err := goagnes.Import(context.Background(), path, raw, goagnes.BuildOptions{}); err != nil {
		t.Fatal(err)
	}
	run := longRun{Store: path, Memory: 64 << 20, Model: "gcn", Preset: train.PresetCitation, Epochs: 200, Fanouts: []int{10, 10}}
	all := live(t, run)
	grown, told := growth(all, allowances(run.Memory))
	t.Logf("%d epochs\n%s", run.Epochs, told)
	if len(grown) > 0 {
		t.Errorf("grown over %d epochs: %v\n%s", run.Epochs, grown, told)
	}
	run.Leak, run.Epochs = true, 40
	if grown, told := growth(live(t, run), allowances(run.Memory)); !slices.Equal(grown, []string{"RSS beyond the budget's use", "Go's memory", "open files", "threads", "goroutines"}) {
		t.Errorf("of what an epoch leaks is found: %v\n%s", grown, told)
	}
}

// TestLongRMAT trains on an R-MAT whose minibatches spill.
func TestLongRMAT(t *testing.T) {
	if testing.Short() {
		t.Skip("a long run")
	}
	run := longRun{Store: *longStore, Memory: *longMemory, Model: "sage", Layers: 2, Hidden: 64, Epochs: *longEpochs, Fanouts: []int{10, 10}}
	if run.Store == "" {
		run.Store = filepath.Join(t.TempDir(), "rmat")
		if _, err := goagnes.Generate(context.Background(), run.Store, goagnes.GenerateOptions{Kind: "rmat", NumNodes: 1 << 14, NumFeatures: 128, BlockSize: 64 << 10}); err != nil {
			t.Fatal(err)
		}
		run.Memory, run.Epochs, run.BatchSize, run.Hidden = 10<<20, 12, 100, 16
	}
	all := live(t, run)
	grown, told := growth(all, allowances(run.Memory))
	t.Logf("%d epochs, %d minibatches\n%s", run.Epochs, len(all), told)
	if len(grown) > 0 {
		t.Errorf("grown over %d epochs: %v\n%s", run.Epochs, grown, told)
	}
}
