package build

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/goagnes/goagnes/goagnes/storage"
	"github.com/goagnes/goagnes/layout"
	"github.com/goagnes/goagnes/layout/build/fault"
	"github.com/goagnes/goagnes/layout/build/order"
	"github.com/goagnes/goagnes/layout/build/source"
	"github.com/goagnes/goagnes/layout/build/synthetic"
	"github.com/goagnes/goagnes/layout/build/workspace"
	"github.com/goagnes/goagnes/tests/fixture/child"
)

// Two builds of one input are equal byte by byte, whatever the memory, the threads and
// the place; a different input or setting has another id.
func TestByteEqualRebuild(t *testing.T) {
	t.Parallel()
	g := randomGraph(11, 3000, 50_000, 20)
	files := func(o Options, tune workspace.Tuning) (map[string]string, string) {
		path, r := buildIn(t, o, tune)
		all := map[string]string{}
		for _, e := range must(os.ReadDir(path)) {
			all[e.Name()] = string(must(os.ReadFile(filepath.Join(path, e.Name()))))
		}
		return all, r.BuildID
	}
	o := g.options()
	o.BlockSize = 4 << 10
	want, id := files(o, workspace.Tuning{})
	tight := o
	tight.Memory, tight.Threads = 24<<20, 1
	for name, again := range map[string]struct {
		o Options
		t workspace.Tuning
	}{"again": {o, workspace.Tuning{}}, "one thread, little memory": {tight, workspace.Tuning{}}, "partitions": {o, workspace.Tuning{OnScratch: true, SortBytes: 9000, AreaBytes: 170_000}}} {
		got, _ := files(again.o, again.t)
		if len(got) != len(want) {
			t.Errorf("%s: %d files, expected %d", name, len(got), len(want))
		}
		for file := range want {
			if got[file] != want[file] {
				t.Errorf("%s: %s differs", name, file)
			}
		}
	}
	other := g.options()
	other.BlockSize = 8 << 10
	if _, got := files(other, workspace.Tuning{}); got == id {
		t.Error("another block size has the same build id")
	}
	g.x[17]++
	other = g.options()
	other.BlockSize = 4 << 10
	if _, got := files(other, workspace.Tuning{}); got == id {
		t.Error("another feature has the same build id")
	}
}

func TestExistingPath(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	small, large := randomGraph(1, 10, 20, 1), randomGraph(2, 40, 80, 2)
	dir := t.TempDir()
	path := filepath.Join(dir, "store")
	if _, err := Build(ctx, path, small.options()); err != nil {
		t.Fatal(err)
	}
	refused := func(o Options, want string) {
		t.Helper()
		var e *fault.Error
		if _, err := Build(ctx, path, o); !errors.As(err, &e) || e.Class() != "usage" || !strings.Contains(err.Error(), want) {
			t.Errorf("err = %v, expected %q", err, want)
		}
	}
	refused(large.options(), "set overwrite")
	if err := readStore(t, path).compare(small, order.Visit); err != nil {
		t.Error(err)
	}
	o := large.options()
	o.Overwrite = true
	if _, err := Build(ctx, path, o); err != nil {
		t.Fatal(err)
	}
	if err := readStore(t, path).compare(large, order.Visit); err != nil {
		t.Error(err)
	}
	onlyStore(t, path, "store")

	// A failed build leaves the store that it was to replace.
	bad := large.options()
	bad.Overwrite, bad.NumNodes = true, 3
	bad.Arrays = nil
	if _, err := Build(ctx, path, bad); err == nil {
		t.Error("ids past the end were taken")
	}
	whole(t, path)
	onlyStore(t, path, "store")

	// Only stores are replaced.
	if err := os.Remove(filepath.Join(path, layout.ManifestFile)); err != nil {
		t.Fatal(err)
	}
	refused(o, "is no store")
	if err := os.RemoveAll(path); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, nil, 0o666); err != nil {
		t.Fatal(err)
	}
	refused(o, "is no directory")
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(path, 0o777); err != nil {
		t.Fatal(err)
	}
	if _, err := Build(ctx, path, o); err != nil {
		t.Errorf("an empty directory: %v", err)
	}
	path = filepath.Join(dir, "missing", "store")
	refused(o, "does not exist")
}

// A scratch limit that is too small ends a build like a full disk would.
func TestScratchLimit(t *testing.T) {
	t.Parallel()
	g := randomGraph(3, 3000, 100_000, 30)
	for _, limit := range []int64{1, 1 << 20} { // fails with the edges, with the features
		o := g.options()
		o.ScratchLimit = limit
		path := filepath.Join(t.TempDir(), "store")
		_, err := build(context.Background(), path, o, workspace.Tuning{OnScratch: true, SortBytes: 100_000, AreaBytes: 200_000})
		var e *storage.ScratchError
		if !errors.As(err, &e) {
			t.Errorf("limit %d: err = %v", limit, err)
		}
		onlyStore(t, path)
	}
}

func TestScratchElsewhere(t *testing.T) {
	scratch := t.TempDir()
	o := randomGraph(3, 3000, 10_000, 30).options()
	o.Scratch = scratch
	path, r := buildIn(t, o, workspace.Tuning{OnScratch: true})
	if r.ScratchBytes == 0 {
		t.Error("no scratch was used")
	}
	whole(t, path)
	onlyStore(t, filepath.Join(scratch, "x"))
}

// cancelAfter cancels its context in the midst of a stage.
func TestCancelMidway(t *testing.T) {
	t.Parallel()
	g := randomGraph(4, 20_000, 600_000, 40)
	for _, stage := range []string{"count edges", "distribute edges", "write graph", "write node.x", "write node.y"} {
		for _, tune := range []workspace.Tuning{{}, {OnScratch: true, SortBytes: 1 << 20, AreaBytes: 1 << 20}} {
			ctx, cancel := context.WithCancel(context.Background())
			o := g.options()
			o.Progress = func(s string, _, _ int64) {
				if s == stage {
					cancel()
				}
			}
			path := filepath.Join(t.TempDir(), "store")
			if _, err := build(ctx, path, o, tune); !errors.Is(err, context.Canceled) {
				t.Errorf("%s: err = %v", stage, err)
			}
			onlyStore(t, path)
			cancel()
		}
	}
}

func TestCancelIsQuick(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	started := make(chan struct{})
	o := randomGraph(4, 1000, 10, 1).options()
	o.Edges = endless{o.Edges}
	o.Progress = func(string, int64, int64) {
		select {
		case <-started:
		default:
			close(started)
		}
	}
	ended := make(chan error, 1)
	path := filepath.Join(t.TempDir(), "store")
	go func() {
		_, err := Build(ctx, path, o)
		ended <- err
	}()
	<-started
	at := time.Now()
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("err = %v", err)
	}
	if d := time.Since(at); d > 2*time.Second {
		t.Errorf("the build went on for %v", d)
	}
	onlyStore(t, path)
}

// endless edges never stop by themselves.
type endless struct{ source.Edges }

func (endless) Count() (int64, bool) { return 0, false }

func (endless) Scan(ctx context.Context, f func(src, dst []int64) error) error {
	chunk := make([]int64, source.ChunkEdges)
	for {
		if err := f(chunk, chunk); err != nil {
			return err
		}
	}
}

// buildTask is a build in a process of its own.
type buildTask struct {
	Store    string
	Memory   int64  // MiB, of a graph that exceeds it; 0: a small graph, as follows
	FileSize uint64 // bytes, the most that the system lets a file have; 0: any
	Hang     bool   // in the midst of it
}

// TestBuildProcess is the process: it prints the memory that it took at most, or the
// build's error.
func TestBuildProcess(t *testing.T) {
	var task buildTask
	child.Only(t, &task)
	if task.Memory == 0 {
		buildForTest(t, task)
		return
	}
	if err := buildWithin(task.Store, task.Memory); err != nil {
		t.Fatal(err)
	}
	// Not getrusage: it counts the test process that this one was forked from.
	_, status, _ := strings.Cut(string(must(os.ReadFile("/proc/self/status"))), "VmHWM:")
	status, _, _ = strings.Cut(status, "kB")
	fmt.Println("peak", strings.TrimSpace(status), "kB")
}

// buildWithin builds an R-MAT graph whose edges and features exceed the memory.
func buildWithin(path string, memory int64) error {
	d, err := synthetic.New(synthetic.Options{Kind: synthetic.RMAT, NumNodes: 1 << 18, AvgDegree: 16, NumFeatures: 96})
	if err != nil {
		return err
	}
	_, err = Build(context.Background(), path, Options{Edges: d.Edges, Arrays: d.Arrays, Splits: d.Splits, NumNodes: d.NumNodes,
		Memory: memory << 20})
	return err
}

// raceDetector tells whether the test binary was built with -race.
func raceDetector() bool {
	info, ok := debug.ReadBuildInfo()
	return ok && slices.Contains(info.Settings, debug.BuildSetting{Key: "-race", Value: "true"})
}

// The largest resident set of a build stays within its budget and 64 MiB.
func TestPeakMemory(t *testing.T) {
	if testing.Short() {
		t.Skip("builds a store of 180 MB")
	}
	if raceDetector() {
		t.Skip("the race detector takes memory of its own for every byte that is used")
	}
	path := filepath.Join(t.TempDir(), "store")
	out, err := child.Command(t, "TestBuildProcess", buildTask{Store: path, Memory: 40}).CombinedOutput()
	var peak int64
	if _, scan := fmt.Sscanf(string(out), "peak %d kB", &peak); err != nil || scan != nil {
		t.Fatalf("%v, %v, %q", err, scan, out)
	}
	peak >>= 10
	t.Logf("%d MiB resident at most, budget 40 MiB", peak)
	if peak > 40+64 {
		t.Errorf("%d MiB resident at most", peak)
	}
	whole(t, path)
}

// buildForTest builds a store, says when it has begun, and prints its error.
func buildForTest(t *testing.T, task buildTask) {
	o := randomGraph(5, 20_000, 300_000, 100).options()
	if task.FileSize > 0 {
		signal.Ignore(syscall.SIGXFSZ)
		if err := unix.Setrlimit(unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: task.FileSize, Max: task.FileSize}); err != nil {
			t.Fatal(err)
		}
	}
	if task.Hang {
		o.Progress = func(stage string, _, _ int64) {
			if stage == "write node.x" {
				os.Stdout.WriteString("begun\n")
				select {}
			}
		}
	}
	if _, err := build(context.Background(), task.Store, o, workspace.Tuning{OnScratch: true, AreaBytes: 1 << 20}); err != nil {
		t.Fatal(err)
	}
}

// A write that the system refuses, as on a full disk, ends the build and leaves nothing.
func TestRefusedWrite(t *testing.T) {
	t.Parallel()
	for _, limit := range []uint64{4096, 200_000, 1_500_000, 4_000_000} {
		path := filepath.Join(t.TempDir(), "store")
		out, err := child.Command(t, "TestBuildProcess", buildTask{Store: path, FileSize: limit}).Output()
		var exit *exec.ExitError
		if !errors.As(err, &exit) || exit.ExitCode() != 1 || !bytes.Contains(out, []byte("file too large")) {
			t.Errorf("limit %d: %v, %q", limit, err, out)
		}
		onlyStore(t, path)
	}
}

// What a killed build leaves is no store, and the next build removes it; a build that
// runs is left alone.
func TestKilledBuild(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store")
	c := child.Command(t, "TestBuildProcess", buildTask{Store: path, Hang: true})
	out := must(c.StdoutPipe())
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "begun\n" {
		t.Fatalf("%q, %v", line, err)
	}
	entries := func() (n int) { return len(must(os.ReadDir(filepath.Dir(path)))) }
	if n := entries(); n != 2 { // the store in the making, and scratch
		t.Errorf("%d entries beside a running build", n)
	}
	g := randomGraph(6, 30, 60, 1)
	o := g.options()
	if _, err := Build(context.Background(), path, o); err != nil {
		t.Fatal(err)
	}
	if n := entries(); n != 3 {
		t.Errorf("%d entries after a build beside a running one", n)
	}
	if err := c.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	c.Wait()
	o.Overwrite = true
	if _, err := Build(context.Background(), path, o); err != nil {
		t.Fatal(err)
	}
	onlyStore(t, path, "store")
	whole(t, path)
}
