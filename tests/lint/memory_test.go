// docs/memory.md accounts for every holder of memory, and for nothing else.
package lint

import (
	"go/ast"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// reserving are the functions whose first argument names a holder, by folder.
var reserving = map[string][]string{
	"goagnes":      {"Reserve", "ReserveBriefly", "reserve", "claim", "frames", "mapFor", "MapFor"},
	"layout/build": {"Map", "Charge", "tables"},
}

// holders returns the names under which the code takes memory, with one place each.
// A name put together of a constant part and a variable one ends in "…".
func holders(t *testing.T) map[string]string {
	set, list := sources(t)
	constants := map[string]string{} // by name
	for _, f := range list {
		ast.Inspect(f.file, func(n ast.Node) bool {
			if spec, ok := n.(*ast.ValueSpec); ok && len(spec.Names) == 1 && len(spec.Values) == 1 {
				if text, ok := literal(spec.Values[0], nil); ok {
					constants[spec.Names[0].Name] = text
				}
			}
			return true
		})
	}
	found := map[string]string{}
	for _, f := range list {
		if f.test() {
			continue
		}
		var names []string
		for folder, list := range reserving {
			if strings.HasPrefix(f.name, folder+"/") {
				names = list
			}
		}
		ast.Inspect(f.file, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok || len(call.Args) < 2 {
				return true
			}
			called, ok := call.Fun.(*ast.SelectorExpr)
			if !ok || !slices.Contains(names, called.Sel.Name) {
				return true
			}
			name := call.Args[0]
			if called.Sel.Name == "tables" { // of an order: their length, their name, where to
				name = call.Args[1]
			} else if len(call.Args) != 2 {
				return true
			}
			if text, ok := literal(name, constants); ok {
				found[text] = set.Position(call.Pos()).String()
			}
			return true
		})
	}
	return found
}

// literal returns the text of a string that is written out, or is a constant, or
// begins with one.
func literal(e ast.Expr, constants map[string]string) (string, bool) {
	switch e := e.(type) {
	case *ast.BasicLit:
		if e.Kind == token.STRING {
			text, err := strconv.Unquote(e.Value)
			return text, err == nil
		}
	case *ast.Ident:
		text, ok := constants[e.Name]
		return text, ok
	case *ast.BinaryExpr:
		if text, ok := literal(e.X, constants); ok {
			return text + "…", true
		}
	}
	return "", false
}

func TestMemoryHolders(t *testing.T) {
	found := holders(t)
	if len(found) < 40 {
		t.Fatalf("%d holders of memory are found in the code", len(found))
	}
	text, err := os.ReadFile(filepath.Join(root(t), "docs", "memory.md"))
	if err != nil {
		t.Fatal(err)
	}
	described := map[string]bool{}
	quoted := regexp.MustCompile("`([^`]+)`")
	for line := range strings.Lines(string(text)) {
		cells := strings.Split(line, "|")
		if len(cells) != 5 {
			continue
		}
		for _, name := range quoted.FindAllStringSubmatch(cells[1], -1) {
			described[name[1]] = true
		}
	}
	normal := func(name string) string { return strings.ReplaceAll(name, " …", "…") }
	known := map[string]bool{}
	for name := range described {
		known[normal(name)] = true
	}
	for _, name := range slices.Sorted(maps.Keys(found)) {
		if !known[normal(name)] {
			t.Errorf("%s: docs/memory.md does not list the holder %q", found[name], name)
		}
	}
	taken := map[string]bool{}
	for name := range found {
		taken[normal(name)] = true
	}
	for _, name := range slices.Sorted(maps.Keys(described)) {
		if !taken[normal(name)] {
			t.Errorf("docs/memory.md lists the holder %q, under which nothing is taken", name)
		}
	}
}
