// The layering: arrows point down only.
//
//	python/goagnes → capi → goagnes → goagnes/train, goagnes/nn, goagnes/operation
//	                                → goagnes/memory → goagnes/storage → layout
//	                goagnes → layout/build → goagnes/storage, layout
//	                          goagnes/train, goagnes/nn, goagnes/operation → kernels
package lint

import (
	"strings"
	"testing"
)

// layers names, for each folder, the folders whose packages it may import.
// A folder covers what lies inside it unless a longer entry does; a package
// may always import its own folder's entry. Tests may import anything.
var layers = map[string][]string{
	"layout":                 {},
	"layout/npy":             {"layout"},
	"layout/build/element":   {"layout"},
	"layout/build/synthetic": {"layout", "layout/npy", "layout/build/source"},

	"layout/build": {"layout", "layout/build/source", "layout/build/fault", "layout/build/ledger", "layout/build/workspace", "layout/build/edgelist", "layout/build/staging",
		"layout/build/rank", "layout/build/order", "layout/build/adjacency", "layout/build/nodes", "goagnes/storage"},
	"layout/build/fault":     {},
	"layout/build/ledger":    {"layout/build/fault"},
	"layout/build/workspace": {"goagnes/storage", "layout/build/source", "layout/build/ledger"},
	"layout/build/spill":     {"layout", "goagnes/storage", "layout/build/source", "layout/build/ledger", "layout/build/workspace"},
	"layout/build/edgelist":  {"layout", "goagnes/storage", "layout/build/source", "layout/build/fault", "layout/build/ledger", "layout/build/workspace"},
	"layout/build/staging":   {"layout", "goagnes/storage", "layout/build/fault", "layout/build/ledger", "layout/build/workspace"},
	"layout/build/rank":      {"layout", "layout/build/source", "layout/build/ledger", "layout/build/spill", "layout/build/edgelist", "layout/build/staging"},
	"layout/build/order":     {"layout", "layout/build/source", "layout/build/ledger", "layout/build/workspace", "layout/build/spill", "layout/build/edgelist"},
	"layout/build/adjacency": {"layout", "layout/build/source", "layout/build/fault", "layout/build/ledger", "layout/build/spill", "layout/build/edgelist", "layout/build/order", "layout/build/staging"},
	"layout/build/nodes":     {"layout", "layout/build/source", "layout/build/element", "layout/build/fault", "layout/build/ledger", "layout/build/workspace", "layout/build/spill", "layout/build/staging"},
	"layout/build/verify":    {"layout", "goagnes/storage", "layout/build/element", "layout/build/fault", "layout/build/ledger"},

	"layout/build/source":            {"layout", "layout/build/element"},
	"layout/build/source/pickle":     {"layout", "layout/npy"},
	"layout/build/source/inflate":    {"layout/build/source"},
	"layout/build/source/array":      {"layout", "layout/npy", "layout/build/element", "layout/build/source", "layout/build/source/inflate"},
	"layout/build/source/text":       {"layout/build/source", "layout/build/source/inflate"},
	"layout/build/source/table":      {"layout", "layout/build/source", "layout/build/source/inflate", "layout/build/source/text"},
	"layout/build/source/archive":    {"layout/npy", "layout/build/source", "layout/build/source/array"},
	"layout/build/source/planetoid":  {"layout", "layout/build/element", "layout/build/source", "layout/build/source/pickle", "layout/build/source/array"},
	"layout/build/source/folder":     {"layout", "layout/npy", "layout/build/source", "layout/build/source/array", "layout/build/source/text", "layout/build/source/table", "layout/build/source/archive"},
	"layout/build/source/formats":    {"layout/npy", "layout/build/source", "layout/build/source/inflate", "layout/build/source/array", "layout/build/source/text", "layout/build/source/table", "layout/build/source/archive", "layout/build/source/planetoid", "layout/build/source/folder"},
	"layout/build/source/sourcetest": {"layout", "layout/build/source", "layout/build/source/array"},

	"kernels":                {},
	"goagnes/storage":        {"layout"},
	"goagnes/storage/inject": {"layout", "goagnes/storage"},
	"goagnes/memory":         {"layout", "goagnes/storage"},
	"goagnes/operation":      {"layout", "goagnes/storage", "goagnes/memory", "kernels"},
	"goagnes/export":         {"layout", "layout/npy", "goagnes/storage", "goagnes/memory", "goagnes/operation"},
	"goagnes/nn":             {"layout", "layout/npy", "kernels"},
	"goagnes/train":          {"layout", "layout/npy", "kernels", "goagnes/nn"},
	"goagnes": {"layout", "layout/npy", "layout/build", "layout/build/edgelist", "layout/build/nodes", "layout/build/verify", "layout/build/source", "layout/build/source/array", "layout/build/source/formats", "layout/build/synthetic", "kernels",
		"goagnes/storage", "goagnes/memory", "goagnes/operation", "goagnes/nn", "goagnes/train", "goagnes/export"},
	"capi":           {"layout", "goagnes/memory", "goagnes/train", "goagnes"},
	"goagnes/report": {"goagnes/storage", "goagnes"},
	"goagnes/cmd":    {"layout", "layout/npy", "goagnes/report", "goagnes", "goagnes/storage/inject"},
	"tests":          {},

	// Fixtures of the suites in tests and of tests beside the code. The plain sampler
	// shares nothing with the engine that it is held against.
	"tests/fixture/sampler": {},
	"tests/fixture/place":   {},
	"tests/fixture/child":   {},
	"tests/fixture/space":   {"goagnes/storage", "layout/build/ledger", "layout/build/workspace"},
	"tests/fixture/refusal": {"goagnes/memory"},
	"tests/fixture/life":    {"goagnes/memory", "goagnes"},
	"tests/fixture/graph":   {"layout", "goagnes/train", "goagnes", "tests/fixture/sampler"},
	"tests/fixture/tree":    {"tests/fixture/graph"},
	"tests/fixture/image":   {"layout", "goagnes/storage", "goagnes", "tests/fixture/graph"},
	"tests/fixture/golden":  {"layout", "goagnes", "tests/fixture/graph", "tests/fixture/image", "tests/fixture/place"},

	"tests/scale/overlap": {"layout", "goagnes/storage", "goagnes/storage/inject", "goagnes"},
}

// layerOf returns the longest entry of the table that covers a folder.
func layerOf(dir string) (string, bool) {
	for d := dir; d != "." && d != ""; {
		if _, ok := layers[d]; ok {
			return d, true
		}
		cut := strings.LastIndexByte(d, '/')
		if cut < 0 {
			break
		}
		d = d[:cut]
	}
	return "", false
}

func TestLayering(t *testing.T) {
	set, list := sources(t)
	for _, s := range list {
		if s.test() || strings.HasPrefix(s.dir, "_") {
			continue
		}
		from, ok := layerOf(s.dir)
		if !ok {
			t.Errorf("%s: folder %s has no layer: add it to the table in tests/lint/layering_test.go, with the folders it may import", s.name, s.dir)
			continue
		}
		for _, spec := range s.file.Imports {
			importPath := strings.Trim(spec.Path.Value, `"`)
			dir, ours := strings.CutPrefix(importPath, modulePath+"/")
			if !ours {
				continue
			}
			to, ok := layerOf(dir)
			if !ok {
				t.Errorf("%s imports %s, which has no layer: add it to the table", place(t, set, spec.Pos()), dir)
				continue
			}
			if to != from && !contains(layers[from], to) {
				t.Errorf("%s: %s may not import %s: arrows point down only; have the lower package declare a small interface that the upper one implements, or move the code",
					place(t, set, spec.Pos()), s.dir, dir)
			}
		}
	}
}

// TestLayersPointDown checks the table itself: no cycle, no unknown name.
func TestLayersPointDown(t *testing.T) {
	const visiting, done = 1, 2
	state := map[string]int{}
	var visit func(name string, trail []string)
	visit = func(name string, trail []string) {
		switch {
		case state[name] == visiting:
			t.Fatalf("layers form a cycle: %s", strings.Join(append(trail, name), " → "))
		case state[name] == done:
			return
		}
		targets, ok := layers[name]
		if !ok {
			t.Fatalf("layer %q is allowed but not in the table (%s)", name, strings.Join(trail, " → "))
		}
		state[name] = visiting
		for _, target := range targets {
			visit(target, append(trail, name))
		}
		state[name] = done
	}
	for name := range layers {
		visit(name, nil)
	}
}

// TestCgoFolders keeps C where it pays: the kernels and the Python boundary.
func TestCgoFolders(t *testing.T) {
	set, list := sources(t)
	for _, s := range list {
		for _, spec := range s.file.Imports {
			if spec.Path.Value == `"C"` && !under(s.dir, "kernels", "capi") {
				t.Errorf("%s: cgo belongs in kernels (computation) and capi (the Python boundary) only", place(t, set, spec.Pos()))
			}
		}
	}
}

func contains(list []string, name string) bool {
	for _, entry := range list {
		if entry == name {
			return true
		}
	}
	return false
}
