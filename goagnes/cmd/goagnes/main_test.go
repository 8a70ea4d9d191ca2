package main

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/goagnes/goagnes/layout"
	"github.com/goagnes/goagnes/layout/npy"
)

// program is the binary under test, built once.
var program string

func TestMain(m *testing.M) {
	folder, err := os.MkdirTemp("", "goagnes-cmd-")
	if err != nil {
		panic("main: " + err.Error())
	}
	program = filepath.Join(folder, "goagnes")
	if out, err := exec.Command("go", "build", "-ldflags", "-X main.version=1.2.3-test", "-o", program, ".").CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "go build: %v\n%s", err, out)
		os.Exit(1)
	}
	status := m.Run()
	os.RemoveAll(folder)
	os.Exit(status)
}

// outcome is what one run of the program left.
type outcome struct {
	stdout, stderr string
	status         int
}

// invoke runs the program in a folder.
func invoke(t *testing.T, folder string, args ...string) outcome {
	t.Helper()
	cmd := exec.Command(program, args...)
	cmd.Dir = folder
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return outcome{stdout.String(), stderr.String(), cmd.ProcessState.ExitCode()}
}

// succeed runs the program with --json and returns its document.
func succeed(t *testing.T, folder string, args ...string) map[string]any {
	t.Helper()
	got := invoke(t, folder, append(args, "--json")...)
	if got.status != 0 {
		t.Fatalf("goagnes %s: status %d\n%s", strings.Join(args, " "), got.status, got.stderr)
	}
	decoder := json.NewDecoder(strings.NewReader(got.stdout))
	document := map[string]any{}
	if err := decoder.Decode(&document); err != nil {
		t.Fatalf("goagnes %s: standard output is no JSON document: %v\n%s", strings.Join(args, " "), err, got.stdout)
	}
	if decoder.More() {
		t.Fatalf("goagnes %s printed more than one document:\n%s", strings.Join(args, " "), got.stdout)
	}
	return document
}

// writeNpy writes values, of a fixed-size type, as an .npy file.
func writeNpy(t *testing.T, path string, dtype layout.DType, shape []int64, values any) {
	t.Helper()
	var b bytes.Buffer
	if _, err := npy.WriteHeader(&b, dtype, shape); err != nil {
		t.Fatal(err)
	}
	if err := binary.Write(&b, binary.LittleEndian, values); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, b.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
}

// ring is the number of nodes of the graph that inputs writes.
const ring = 60

// writeInputs writes a ring with chords as files: edge_index, x, y, train, val and test.
func writeInputs(t *testing.T, folder string) {
	t.Helper()
	var sources, targets, labels, train, val, test []int64
	var x []float32
	for v := range int64(ring) {
		for _, step := range []int64{1, 3, 7, ring - 1} {
			sources, targets = append(sources, (v+step)%ring), append(targets, v)
		}
		labels = append(labels, v%3)
		x = append(x, float32(v%3), float32(math.Sin(float64(v))), 1, 0)
		switch v % 4 {
		case 0, 1:
			train = append(train, v)
		case 2:
			val = append(val, v)
		case 3:
			test = append(test, v)
		}
	}
	file := func(name string) string { return filepath.Join(folder, name) }
	edges := append(sources, targets...)
	writeNpy(t, file("edge_index.npy"), layout.Int64, []int64{2, int64(len(edges) / 2)}, edges)
	writeNpy(t, file("x.npy"), layout.Float32, []int64{ring, 4}, x)
	writeNpy(t, file("y.npy"), layout.Int64, []int64{ring}, labels)
	for name, ids := range map[string][]int64{"train": train, "val": val, "test": test} {
		writeNpy(t, file(name+".npy"), layout.Int64, []int64{int64(len(ids))}, ids)
	}
}

// ringStore builds the ring as a store named "ring" in a new folder.
func ringStore(t *testing.T) (folder string) {
	t.Helper()
	folder = t.TempDir()
	writeInputs(t, folder)
	succeed(t, folder, "build", "ring", "--edge-index", "edge_index.npy", "--x", "x.npy", "--y", "y.npy",
		"--split", "train=train.npy", "--split", "val=val.npy", "--split", "test=test.npy", "--block-size", "4KiB")
	return folder
}

func TestBuildInfoVerify(t *testing.T) {
	folder := ringStore(t)
	info := succeed(t, folder, "info", "ring")
	for name, want := range map[string]any{
		"num_nodes": 60.0, "num_edges": 240.0, "num_features": 4.0, "num_classes": 3.0, "feature_dtype": "float32", "block_size": 4096.0,
	} {
		if info[name] != want {
			t.Errorf("info: %s = %v, want %v", name, info[name], want)
		}
	}
	if splits := fmt.Sprint(info["splits"]); splits != "map[test:15 train:30 val:15]" {
		t.Errorf("info: splits %s", splits)
	}
	if got := invoke(t, folder, "info", "ring"); !strings.Contains(got.stdout, "nodes") || !strings.Contains(got.stdout, "train 30") {
		t.Errorf("info as text:\n%s", got.stdout)
	}
}

func TestImportText(t *testing.T) {
	folder := t.TempDir()
	if err := os.WriteFile(filepath.Join(folder, "list.txt"), []byte("# two columns\n10\t30\r\n30 10\n\n20\t10"), 0o600); err != nil {
		t.Fatal(err)
	}
	report := succeed(t, folder, "import", "s", "list.txt")
	if report["num_nodes"] != 3.0 || report["num_edges"] != 3.0 {
		t.Errorf("import: %v nodes, %v edges", report["num_nodes"], report["num_edges"])
	}
}

func TestBenchPrepare(t *testing.T) {
	folder := ringStore(t)
	report := succeed(t, folder, "bench", "prepare", "ring", "--num-neighbors", "2,2", "--input-nodes", "train",
		"--batch-size", "8", "--shuffle", "--seed", "7", "--epochs", "2", "--memory", "64MiB", "--hyperbatch-size", "3")
	epochs := report["epochs"].([]any)
	if len(epochs) != 2 {
		t.Fatalf("%d epochs", len(epochs))
	}
	for _, e := range epochs {
		if n := e.(map[string]any)["minibatches"]; n != 4.0 {
			t.Errorf("%v minibatches of 30 seeds by 8", n)
		}
	}
	if stats := report["stats"].(map[string]any); stats["minibatches"] != 8.0 || stats["seed"] != 7.0 {
		t.Errorf("stats: %v minibatches, seed %v", stats["minibatches"], stats["seed"])
	}
	short := succeed(t, folder, "bench", "prepare", "ring", "--num-neighbors", "-1", "--batch-size", "7", "--max-batches", "2", "--mode", "agnes-no")
	if n := short["epochs"].([]any)[0].(map[string]any)["minibatches"]; n != 2.0 {
		t.Errorf("--max-batches 2 prepared %v", n)
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
		"unknown verb":         {"explain ring", exitUsage, []string{`no verb "explain"`, "bench prepare"}},
		"half a verb":          {"bench ring", exitUsage, []string{`no verb "bench"`}},
		"unknown flag":         {"info ring --colour", exitUsage, []string{"-colour", "help info"}},
		"missing store":        {"info", exitUsage, []string{"STORE is missing"}},
		"one too many":         {"info ring more", exitUsage, []string{`"more"`}},
		"bad size":             {"bench prepare ring --memory 3XB", exitUsage, []string{"512MiB"}},
		"missing edges":        {"build new", exitUsage, []string{"--edge-index"}},
		"unsupported mode":     {"bench prepare ring --mode fast", exitUsage, []string{"mode=fast"}},
		"bad fanout":           {"bench prepare ring --num-neighbors -2", exitUsage, []string{"num_neighbors"}},
		"unknown split":        {"bench prepare ring --input-nodes holdout", exitUsage, []string{"holdout", "train"}},
		"no such store":        {"info absent", exitRefused, []string{"absent"}},
		"not a store":          {"info nostore", exitRefused, []string{"MANIFEST"}},
		"bad line":             {"import new bad.txt", exitRefused, []string{"bad.txt", "2"}},
		"row mismatch":         {"build new --edge-index edge_index.npy --x short.npy", exitRefused, []string{"3"}},
		"budget too small":     {"bench prepare ring --memory 100KiB", exitRefused, []string{"memory"}},
		"store already there":  {"build ring --edge-index edge_index.npy", exitUsage, []string{"ring", "overwrite"}},
		"missing input file":   {"build new --edge-index gone.npy", exitRefused, []string{"gone.npy"}},
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

func TestHelp(t *testing.T) {
	folder := t.TempDir()
	all := invoke(t, folder, "help")
	if all.status != 0 {
		t.Fatalf("help: status %d", all.status)
	}
	for _, cmd := range commands {
		if !strings.Contains(all.stdout, cmd.name) || !strings.Contains(all.stdout, cmd.summary) {
			t.Errorf("help does not list %s", cmd.name)
		}
		words := strings.Fields(cmd.name)
		one := invoke(t, folder, append([]string{"help"}, words...)...)
		flag := invoke(t, folder, append(words, "--help")...)
		if one.status != 0 || one.stdout != flag.stdout || !strings.Contains(one.stdout, "--json") {
			t.Errorf("help %s: status %d\n%s\n--help:\n%s", cmd.name, one.status, one.stdout, flag.stdout)
		}
		for _, position := range cmd.positions {
			if !strings.Contains(one.stdout, position) {
				t.Errorf("help %s does not name %s", cmd.name, position)
			}
		}
	}
	if got := invoke(t, folder, "help", "explain"); got.status != exitUsage {
		t.Errorf("help of an unknown verb: status %d", got.status)
	}
	if got := invoke(t, folder, "--version"); got.stdout != "goagnes 1.2.3-test\n" {
		t.Errorf("version: %q", got.stdout)
	}
}
