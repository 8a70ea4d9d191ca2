// The tree the rules look at: repository root, files, parsed Go sources.
package lint

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// modulePath is the module every rule speaks about.
const modulePath = "github.com/goagnes/goagnes"

// root returns the repository's root directory.
func root(t *testing.T) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for ; dir != filepath.Dir(dir); dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir
		}
	}
	t.Fatal("no go.mod above the test's directory")
	return ""
}

// output runs a command in the root and returns what it printed.
func output(t *testing.T, name string, args ...string) string {
	t.Helper()
	cmd := exec.Command(name, args...)
	cmd.Dir = root(t)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, stderr.String())
	}
	return string(out)
}

// files lists what git tracks or would track, by slash-separated path from
// the root, without files deleted from the work tree.
func files(t *testing.T) []string {
	t.Helper()
	listing := output(t, "git", "ls-files", "-co", "--exclude-standard", "-z")
	var list []string
	for _, name := range strings.Split(listing, "\x00") {
		if name == "" {
			continue
		}
		if info, err := os.Stat(filepath.Join(root(t), name)); err == nil && info.Mode().IsRegular() {
			list = append(list, name)
		}
	}
	if len(list) == 0 {
		t.Fatal("git lists no file: is this a git checkout?")
	}
	return list
}

// text reads one file of the tree.
func text(t *testing.T, name string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(root(t), name))
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// source is one parsed Go file.
type source struct {
	name string // path from the root
	dir  string // folder from the root: the package's place in the layering
	file *ast.File
}

// test tells whether the file is compiled for tests only.
func (s source) test() bool { return strings.HasSuffix(s.name, "_test.go") }

// imports maps the local name of each import to its path.
func (s source) imports() map[string]string {
	names := map[string]string{}
	for _, spec := range s.file.Imports {
		importPath := strings.Trim(spec.Path.Value, `"`)
		name := path.Base(importPath)
		if spec.Name != nil {
			name = spec.Name.Name
		}
		names[name] = importPath
	}
	return names
}

var parsed struct {
	sync.Once
	set  *token.FileSet
	list []source
}

// sources parses every Go file of the tree, once for all rules.
func sources(t *testing.T) (*token.FileSet, []source) {
	t.Helper()
	parsed.Do(func() {
		parsed.set = token.NewFileSet()
		for _, name := range files(t) {
			if path.Ext(name) != ".go" {
				continue
			}
			file, err := parser.ParseFile(parsed.set, filepath.Join(root(t), name), nil, parser.ParseComments)
			if err != nil {
				t.Errorf("%v", err)
				continue
			}
			parsed.list = append(parsed.list, source{name: name, dir: path.Dir(name), file: file})
		}
	})
	return parsed.set, parsed.list
}

// place formats a position relative to the root, as file:line.
func place(t *testing.T, set *token.FileSet, pos token.Pos) string {
	position := set.Position(pos)
	name, err := filepath.Rel(root(t), position.Filename)
	if err != nil {
		name = position.Filename
	}
	position.Filename, position.Column = filepath.ToSlash(name), 0
	return position.String()
}

// under tells whether folder dir is one of the given folders or inside one.
func under(dir string, folders ...string) bool {
	for _, folder := range folders {
		if dir == folder || strings.HasPrefix(dir, folder+"/") {
			return true
		}
	}
	return false
}
