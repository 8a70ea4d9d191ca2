package main

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
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
	if findings := succeed(t, folder, "verify", "ring")["findings"]; fmt.Sprint(findings) != "[]" {
		t.Errorf("verify of a sound store: findings %v", findings)
	}
	if got := invoke(t, folder, "verify", "ring"); got.status != 0 || !strings.Contains(got.stdout, "no damage") {
		t.Errorf("verify as text: status %d\n%s", got.status, got.stdout)
	}
}

func TestVerifyFindsDamage(t *testing.T) {
	folder := ringStore(t)
	path := filepath.Join(folder, "ring", storeFile(t, filepath.Join(folder, "ring"), "node.x"))
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	data[100] ^= 4
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	got := invoke(t, folder, "verify", "ring", "--json")
	if got.status != exitRefused {
		t.Errorf("verify of a damaged store: status %d, want %d", got.status, exitRefused)
	}
	var report struct {
		Findings []struct {
			File string `json:"file"`
		} `json:"findings"`
	}
	if err := json.Unmarshal([]byte(got.stdout), &report); err != nil || len(report.Findings) == 0 {
		t.Fatalf("verify printed no findings: %v\n%s", err, got.stdout)
	}
	if report.Findings[0].File != filepath.Base(path) {
		t.Errorf("verify names %q, the flipped bit is in %q", report.Findings[0].File, filepath.Base(path))
	}
}

// storeFile returns the name of the file that holds a section.
func storeFile(t *testing.T, store, section string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(store, layout.ManifestFile))
	if err != nil {
		t.Fatal(err)
	}
	manifest, err := layout.DecodeManifest(data)
	if err != nil {
		t.Fatal(err)
	}
	return manifest.Section(section).File
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

func TestImportEdited(t *testing.T) {
	folder := t.TempDir()
	if err := os.WriteFile(filepath.Join(folder, "list.txt"), []byte("0 1\n1 0\n1 1\n0 2\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	report := succeed(t, folder, "import", "s", "list.txt", "--undirected", "--self-loops", "drop", "--duplicates", "drop")
	for name, want := range map[string]float64{"num_edges": 4, "edges_listed": 4, "reverses_added": 3, "self_loops_dropped": 1, "duplicates_dropped": 2} {
		if report[name] != want {
			t.Errorf("%s is %v, expected %v", name, report[name], want)
		}
	}
	if whole := succeed(t, folder, "verify", "s"); whole["findings"] == nil || len(whole["findings"].([]any)) > 0 {
		t.Errorf("verify: %v", whole["findings"])
	}
}

// TestGenerate makes the same graph as a store and as files, and builds the files.
func TestGenerate(t *testing.T) {
	folder := t.TempDir()
	graph := []string{"--kind", "community", "--num-nodes", "3000", "--avg-degree", "6", "--num-features", "8", "--num-classes", "4", "--seed", "5"}
	direct := succeed(t, folder, append([]string{"generate", "direct"}, graph...)...)
	succeed(t, folder, append([]string{"generate", "--raw", "raw"}, graph...)...)
	built := succeed(t, folder, "build", "built", "--edge-index", "raw/edge_index.npy", "--x", "raw/x.npy", "--y", "raw/y.npy",
		"--split", "train=raw/split_train.npy", "--split", "val=raw/split_val.npy", "--split", "test=raw/split_test.npy")
	if direct["build_id"] != built["build_id"] || direct["num_nodes"] != 3000.0 {
		t.Errorf("generated as a store: %v nodes, build %v; by files: build %v", direct["num_nodes"], direct["build_id"], built["build_id"])
	}
}

// TestGenerateCompressed: a generated store takes the compression of a built one.
func TestGenerateCompressed(t *testing.T) {
	folder := t.TempDir()
	graph := []string{"--num-nodes", "3000", "--avg-degree", "20", "--num-features", "2", "--num-classes", "4", "--block-size", "64KiB"}
	plain := succeed(t, folder, append([]string{"generate", "plain"}, graph...)...)
	small := succeed(t, folder, append([]string{"generate", "small", "--compression", "zstd:9"}, graph...)...)
	graphBytes := func(store string) float64 {
		return succeed(t, folder, "info", store)["sections"].(map[string]any)["graph"].(float64)
	}
	if text := invoke(t, folder, "info", "small").stdout; !strings.Contains(text, "compression   zstd:9\n") || !strings.Contains(text, "source        generate  community\n") {
		t.Errorf("info: %s", text)
	}
	if a, b := graphBytes("plain"), graphBytes("small"); b >= a || small["num_edges"] != plain["num_edges"] {
		t.Errorf("%v bytes for %v edges; without compression %v for %v", b, small["num_edges"], a, plain["num_edges"])
	}
}

func TestExplain(t *testing.T) {
	folder := ringStore(t)
	flags := []string{"explain", "ring", "--num-neighbors", "2,2", "--input-nodes", "train", "--batch-size", "8", "--seed", "7", "--memory", "64MiB", "--mode", "agnes-paper", "--graph-buffer", "8MiB"}
	plan := succeed(t, folder, flags...)
	if plan["mode"] != "agnes-paper" || plan["minibatches"] != 4.0 || plan["prepared"] != 0.0 {
		t.Errorf("%v", plan)
	}
	plan = succeed(t, folder, append(flags, "--max-batches", "3")...)
	if plan["prepared"].(float64) < 3 {
		t.Errorf("after three minibatches: %v", plan)
	}
	if text := invoke(t, folder, flags...); text.status != 0 || !strings.Contains(text.stdout, "graph buffer") {
		t.Errorf("as text: %v", text)
	}
	if small := invoke(t, folder, "explain", "ring", "--feature-buffer", "1KiB"); small.status != exitRefused || !strings.Contains(small.stderr, "feature_buffer of 1024 bytes: one frame takes") {
		t.Errorf("a buffer below one frame: %v", small)
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
	short := succeed(t, folder, "bench", "prepare", "ring", "--num-neighbors", "-1", "--batch-size", "7", "--max-batches", "2", "--mode", "agnes-no", "--calibrate")
	if n := short["epochs"].([]any)[0].(map[string]any)["minibatches"]; n != 2.0 {
		t.Errorf("--max-batches 2 prepared %v", n)
	}
	if device, ok := short["device"].(map[string]any); !ok || device["bytes_per_second"].(float64) <= 0 || report["device"] != nil {
		t.Errorf("--calibrate measured %v, and %v where it was not asked for", short["device"], report["device"])
	}
}

func TestIO(t *testing.T) {
	folder := ringStore(t)
	flags := []string{"bench", "prepare", "ring", "--num-neighbors", "2,2", "--input-nodes", "train", "--batch-size", "8", "--epochs", "2", "--io", "pread", "--json"}
	const said = "goagnes: warning: the file system of"
	plain, refused := invoke(t, folder, flags...), invoke(t, folder, append(flags, "--inject-refuse-direct")...)
	if plain.status != exitDone || strings.Contains(plain.stderr, said) {
		t.Errorf("direct: %v", plain)
	}
	if refused.status != exitDone || strings.Count(refused.stderr, said) != 1 || !strings.Contains(refused.stderr, "refuses direct I/O") {
		t.Errorf("refused: %v", refused)
	}
	for answer, direct := range map[string]bool{plain.stdout: true, refused.stdout: false} {
		var document struct {
			Stats struct {
				IO struct {
					Engine        string
					Direct        bool
					FallbackBytes int64 `json:"fallback_bytes"`
				}
			}
		}
		if err := json.Unmarshal([]byte(answer), &document); err != nil {
			t.Fatal(err)
		}
		if got := document.Stats.IO; got.Engine != "pread" || got.Direct != direct || (got.FallbackBytes == 0) != direct {
			t.Errorf("direct %v: stats say %+v", direct, got)
		}
	}
	for _, verb := range []string{"info ring", "verify ring", "explain ring", "train ring", "predict ring --model none", "export ring out", "bench prepare ring",
		"generate made --num-nodes 100", "build made --edge-index none.npy"} {
		got := invoke(t, folder, append(strings.Fields(verb), "--io", "mmap")...)
		if got.status != exitUsage || !strings.Contains(got.stderr, "io=mmap") {
			t.Errorf("%s --io mmap: %v", verb, got)
		}
	}
}

func TestTrainPredict(t *testing.T) {
	folder := ringStore(t)
	train := func(args ...string) map[string]any {
		return succeed(t, folder, append([]string{"train", "ring", "--layers", "2", "--hidden", "8", "--epochs", "30", "--batch-size", "10",
			"--num-neighbors", "3,3", "--lr", "0.05", "--dropout", "0", "--memory", "64MiB", "--seed", "3"}, args...)...)
	}
	report := train("--save", "model.npz")
	if n := len(report["epochs"].([]any)); n != 30 {
		t.Errorf("%d epochs", n)
	}
	accuracy := report["test_accuracy"].(float64)
	if accuracy < 0.9 { // a node's class is in its features
		t.Errorf("test accuracy %v", accuracy)
	}
	if again := train("--num-threads", "1", "--hyperbatch-size", "1"); again["weights_sha256"] != report["weights_sha256"] {
		t.Error("the same seed gave other weights under other settings of the engine")
	}
	got := succeed(t, folder, "predict", "ring", "--model", "model.npz", "--out", "predictions.npy")
	if got["nodes"] != 15.0 || got["accuracy"] != accuracy {
		t.Errorf("predict: %v nodes, accuracy %v; train said %v", got["nodes"], got["accuracy"], accuracy)
	}
	data, err := os.ReadFile(filepath.Join(folder, "predictions.npy"))
	if err != nil {
		t.Fatal(err)
	}
	header, err := npy.ReadHeader(bytes.NewReader(data))
	if err != nil || fmt.Sprint(header.Shape) != "[15 2]" || header.DType != layout.Int64 {
		t.Fatalf("predictions: %+v, %v", header, err)
	}
	rows := make([]int64, 30)
	if err := binary.Read(bytes.NewReader(data[header.DataOffset:]), binary.LittleEndian, rows); err != nil {
		t.Fatal(err)
	}
	right := 0
	for i := 0; i < len(rows); i += 2 {
		if rows[i]%4 != 3 {
			t.Errorf("row %d is of node %d, which is not in the split test", i/2, rows[i])
		}
		if rows[i+1] == rows[i]%3 {
			right++
		}
	}
	if float64(right)/15 != accuracy {
		t.Errorf("%d of 15 predictions are right, the accuracy reported is %v", right, accuracy)
	}
}

// Stores whose labels are missing or all negative: nothing to learn from them, but a
// model can be applied to them.
func TestUnlabelled(t *testing.T) {
	folder := ringStore(t)
	succeed(t, folder, "train", "ring", "--layers", "1", "--epochs", "1", "--num-neighbors", "3", "--save", "model.npz")
	negative := make([]int64, ring)
	for i := range negative {
		negative[i] = -1
	}
	writeNpy(t, filepath.Join(folder, "negative.npy"), layout.Int64, []int64{ring}, negative)
	for name, labels := range map[string][]string{"none": nil, "negative": {"--y", "negative.npy"}} {
		succeed(t, folder, append([]string{"build", name, "--edge-index", "edge_index.npy", "--x", "x.npy",
			"--split", "train=train.npy", "--split", "test=test.npy"}, labels...)...)
		got := succeed(t, folder, "predict", name, "--model", "model.npz", "--out", name+".npy")
		if got["nodes"] != 15.0 || got["labelled"] != 0.0 || got["accuracy"] != nil {
			t.Errorf("%s: %v", name, got)
		}
		if got := invoke(t, folder, "train", name); got.status != exitUsage || !strings.Contains(got.stderr, "label") {
			t.Errorf("%s: status %d, %s", name, got.status, got.stderr)
		}
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
	if got := invoke(t, folder, "help", "foretell"); got.status != exitUsage {
		t.Errorf("help of an unknown verb: status %d", got.status)
	}
	if got := invoke(t, folder, "--version"); got.stdout != "goagnes 1.2.3-test\n" {
		t.Errorf("version: %q", got.stdout)
	}
}

func TestReport(t *testing.T) {
	folder := t.TempDir()
	ok := func(args ...string) outcome {
		t.Helper()
		o := invoke(t, folder, args...)
		if o.status != exitDone {
			t.Fatalf("%v: status %d, %s", args, o.status, o.stderr)
		}
		return o
	}
	run := ok("generate", "s", "--kind", "community", "--num-nodes", "500", "--num-features", "4", "--json").stdout
	if err := os.WriteFile(filepath.Join(folder, "run.json"), []byte(run), 0o644); err != nil {
		t.Fatal(err)
	}
	ok("report", "run.json", "--out", "run.html")
	page, err := os.ReadFile(filepath.Join(folder, "run.html"))
	if err != nil || !bytes.Contains(page, []byte("Building a store")) || !bytes.HasSuffix(page, []byte("</html>\n")) {
		t.Fatalf("the page: %v, %.200s", err, page)
	}
	if err := os.WriteFile(filepath.Join(folder, "bad.json"), []byte(`{"kind": 7}`), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args   []string
		status int
		says   string
	}{
		{[]string{"report", "run.json"}, exitUsage, "--out"},
		{[]string{"report", "bad.json", "--out", "run.html"}, exitRefused, "bad.json"},
		{[]string{"report", "none.json", "--out", "run.html"}, exitRefused, "none.json"},
		{[]string{"report", "s", "--out", "run.html"}, exitRefused, "folder"},
		{[]string{"explain", "s", "--batch-size", "0"}, exitUsage, "batch-size"},
		{[]string{"train", "s", "--heads", "-2"}, exitUsage, "heads"},
		{[]string{"explain", "s", "--graph-buffer", "1TiB"}, exitRefused, "graph_buffer"},
		{[]string{"report", "run.json", "--out", "none/run.html"}, exitFailed, "none/run.html: cannot be written: no such"},
		{[]string{"report", "run.json", "--out", "s"}, exitFailed, "s: cannot be written: "},
	} {
		o := invoke(t, folder, c.args...)
		if o.status != c.status || !strings.Contains(o.stderr, c.says) || strings.Count(o.stderr, "\n") != 1 {
			t.Errorf("%v: status %d, %q; want %d and %q", c.args, o.status, o.stderr, c.status, c.says)
		}
	}
	after, err := os.ReadFile(filepath.Join(folder, "run.html"))
	if err != nil || !bytes.Equal(page, after) {
		t.Error("a refused report changed the page that was there")
	}
	left, err := filepath.Glob(filepath.Join(folder, ".report-*"))
	if err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}
