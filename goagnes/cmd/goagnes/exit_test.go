// What the program says and returns where it cannot do what was asked.

package main

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/goagnes/goagnes/layout"
	"github.com/goagnes/goagnes/layout/build/source/sourcetest"
)

// A result that cannot be written is a failure, as text and as JSON.
func TestFullDevice(t *testing.T) {
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Skip(err)
	}
	defer full.Close()
	folder := ringStore(t)
	for _, args := range [][]string{{"info", "ring"}, {"info", "ring", "--json"}} {
		cmd := exec.Command(program, args...)
		cmd.Dir, cmd.Stdout = folder, full
		if err := cmd.Run(); cmd.ProcessState.ExitCode() != exitFailed {
			t.Errorf("%v: %v", args, err)
		}
	}
}

func TestStatusAndErrorLine(t *testing.T) {
	folder := ringStore(t)
	writeNpy(t, filepath.Join(folder, "short.npy"), layout.Float32, []int64{3, 2}, make([]float32, 6))
	if err := os.WriteFile(filepath.Join(folder, "bad.txt"), []byte("1 2\n3 x\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(folder, "nostore"), 0o700); err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		args   string
		status int
		says   []string
	}{
		"no verb":              {"", exitUsage, []string{"no verb", "build"}},
		"unknown verb":         {"foretell ring", exitUsage, []string{`no verb "foretell"`, "bench prepare"}},
		"half a verb":          {"bench ring", exitUsage, []string{`no verb "bench"`}},
		"unknown flag":         {"info ring --colour", exitUsage, []string{"-colour", "help info"}},
		"missing store":        {"info", exitUsage, []string{"STORE is missing"}},
		"one too many":         {"info ring more", exitUsage, []string{`"more"`}},
		"bad size":             {"verify ring --memory 3XB", exitUsage, []string{"512MiB"}},
		"missing edges":        {"build new", exitUsage, []string{"--edge-index"}},
		"unsupported mode":     {"bench prepare ring --mode fast", exitUsage, []string{"mode=fast"}},
		"bad fanout":           {"bench prepare ring --num-neighbors -2", exitUsage, []string{"num_neighbors"}},
		"unknown split":        {"bench prepare ring --input-nodes holdout", exitUsage, []string{"holdout", "train"}},
		"no such store":        {"info absent", exitRefused, []string{"absent"}},
		"not a store":          {"info nostore", exitRefused, []string{"MANIFEST"}},
		"bad line":             {"import new bad.txt", exitRefused, []string{"bad.txt", "2"}},
		"row mismatch":         {"build new --edge-index edge_index.npy --x short.npy", exitRefused, []string{"3"}},
		"budget too small":     {"bench prepare ring --memory 100KiB", exitRefused, []string{"memory"}},
		"unknown edit":         {"build new --edge-index edge_index.npy --self-loops remove", exitUsage, []string{"self_loops", "add"}},
		"store already there":  {"build ring --edge-index edge_index.npy", exitUsage, []string{"ring", "overwrite"}},
		"missing input file":   {"build new --edge-index gone.npy", exitRefused, []string{"gone.npy"}},
		"no bytes":             {"verify ring --memory 0", exitUsage, []string{"less than a byte"}},
		"no nodes":             {"generate new --num-nodes 0", exitUsage, []string{"at least 1 node"}},
		"no number of nodes":   {"generate new", exitUsage, []string{"--num-nodes is missing"}},
		"scratch is nowhere":   {"build new --edge-index edge_index.npy --scratch gone", exitFailed, []string{"scratch folder in gone"}},
		"negative threads":     {"build new --edge-index edge_index.npy --num-threads -1", exitUsage, []string{"--num-threads", `"-1"`}},
		"stripes of a plain":   {"verify ring --stripes .", exitUsage, []string{"not striped", "leave stripes out"}},
		"export to a file":     {"export ring edge_index.npy --num-neighbors 2 --input-nodes train", exitUsage, []string{"edge_index.npy: is no folder"}},
		"export to nowhere":    {"export ring gone/out --num-neighbors 2 --input-nodes train", exitUsage, []string{"gone/out", "does not exist"}},
		"no such compression":  {"generate new --num-nodes 10 --num-classes 2 --compression lz4", exitUsage, []string{"compression", "lz4", "zstd:9"}},
		"nothing to generate":  {"generate --num-nodes 10", exitUsage, []string{"STORE", "--raw"}},
		"too much to generate": {"generate new --raw raw --num-nodes 10", exitUsage, []string{"not both"}},
		"arrays in an order":   {"generate --raw raw --num-nodes 10 --order degree", exitUsage, []string{"order=degree", "raw writes arrays"}},
		"arrays compressed":    {"generate --raw raw --num-nodes 10 --compression zstd", exitUsage, []string{"compression=zstd", "raw writes arrays"}},
		"arrays in blocks":     {"generate --raw raw --num-nodes 10 --block-size 64KiB", exitUsage, []string{"block_size=65536"}},
		"arrays in stripes":    {"generate --raw raw --num-nodes 10 --stripes a,b", exitUsage, []string{"stripes=a,b"}},
		"arrays over others":   {"generate --raw raw --num-nodes 10 --overwrite", exitUsage, []string{"overwrite=true"}},
		"unknown kind":         {"generate new --num-nodes 10 --kind grid", exitUsage, []string{"rmat"}},
		"no model file":        {"predict ring", exitUsage, []string{"--model"}},
		"bad model file":       {"predict ring --model bad.txt", exitRefused, []string{"bad.txt"}},
		"unknown model":        {"train ring --model gin", exitUsage, []string{"gin", "sage"}},
		"hops and layers":      {"train ring --num-neighbors 3,3", exitUsage, []string{"num_neighbors"}},
		"unsupported compress": {"build new --edge-index edge_index.npy --compression lz4", exitUsage, []string{"compression=lz4"}},
	} {
		t.Run(name, func(t *testing.T) {
			got := invoke(t, folder, strings.Fields(test.args)...)
			if got.status != test.status {
				t.Errorf("status %d, want %d: %s", got.status, test.status, got.stderr)
			}
			lines := strings.Split(strings.TrimSuffix(got.stderr, "\n"), "\n")
			last := lines[len(lines)-1]
			if !strings.HasPrefix(last, "goagnes: ") {
				t.Errorf("the last line of standard error does not begin with \"goagnes: \": %q", got.stderr)
			}
			for _, word := range test.says {
				if !strings.Contains(last, word) {
					t.Errorf("the error line does not say %q: %q", word, last)
				}
			}
			if got.stdout != "" {
				t.Errorf("a failed run printed on standard output: %q", got.stdout)
			}
			if _, err := os.Stat(filepath.Join(folder, "new")); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("a refused build left something: %v", err)
			}
		})
	}
}

// TestMangledMatrices: each of the public files that a reader must refuse is refused
// with status 3, in one line that names the file and its line, and makes no store.
func TestMangledMatrices(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(sourcetest.Corpus(t, "mtx"), "mangled*.mtx"))
	if err != nil || len(files) != 25 {
		t.Fatalf("%d files: %v", len(files), err)
	}
	folder := t.TempDir()
	for _, file := range files {
		got := invoke(t, folder, "import", "s", file)
		if place := "goagnes: " + file + ":"; got.status != exitRefused || got.stdout != "" || strings.Count(got.stderr, "\n") != 1 ||
			!strings.HasPrefix(got.stderr, place) || !strings.ContainsAny(strings.TrimPrefix(got.stderr, place)[:1], "123456789") {
			t.Errorf("%s: status %d, %q", filepath.Base(file), got.status, got.stderr)
		}
	}
	if left, err := os.ReadDir(folder); err != nil || len(left) > 0 {
		t.Errorf("%v is left, %v", left, err)
	}
}

// TestInterrupt sends the signal of Ctrl-C to a long run.
func TestInterrupt(t *testing.T) {
	folder := t.TempDir()
	cmd := exec.Command(program, "generate", "big", "--kind", "rmat", "--num-nodes", "1048576", "--avg-degree", "64", "--num-features", "256")
	cmd.Dir = folder
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	time.Sleep(500 * time.Millisecond)
	sent := time.Now()
	if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	err := cmd.Wait()
	took := time.Since(sent)
	if cmd.ProcessState.ExitCode() != exitInterrupted {
		t.Fatalf("status %d (%v), want %d\n%s", cmd.ProcessState.ExitCode(), err, exitInterrupted, stderr.String())
	}
	if !strings.HasSuffix(stderr.String(), "goagnes: interrupted\n") {
		t.Errorf("standard error: %q", stderr.String())
	}
	if took > 2*time.Second {
		t.Errorf("it took %v to end", took)
	}
	left, err := os.ReadDir(folder)
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range left {
		t.Errorf("the interrupted run left %s", entry.Name())
	}
}
