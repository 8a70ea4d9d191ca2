// Calls that are banned, each with where it is allowed and what to use instead.
package lint

import (
	"go/ast"
	"go/token"
	"strconv"
	"strings"
	"testing"
)

// ban forbids some functions of one imported package.
type ban struct {
	importPath string
	names      []string // nil = every name of the package
	allowed    []string // folders, and files, where it may be used
	tests      bool     // whether tests are bound by it too
	instead    string
}

// fileSystem is the one file through which the store's own packages reach files.
const fileSystem = "goagnes/storage/fs.go"

var bans = []ban{
	{"os", []string{"Open", "OpenFile", "Create", "ReadFile", "WriteFile"},
		[]string{fileSystem, "goagnes/memory", "layout/build/source", "layout/build/synthetic", "layout/npy", "goagnes/train", "goagnes/nn", "goagnes/cmd", "tests"}, false,
		"files of a store, of scratch and of an export are opened by storage.OpenFile (direct, checksummed, counted) through the storage.FS given; raw inputs by layout/build/source"},
	{"os", []string{"Mkdir", "MkdirAll", "MkdirTemp", "CreateTemp", "Rename", "Remove", "RemoveAll", "ReadDir", "Lstat", "Truncate", "Chtimes", "Link", "Symlink", "Root", "OpenRoot", "OpenInRoot", "DirFS", "NewFile"},
		[]string{fileSystem, "layout/build/source", "layout/build/synthetic", "layout/npy", "goagnes/train", "goagnes/nn", "goagnes/cmd", "capi", "tests"}, false,
		"the storage.FS given: what bypasses it escapes injected faults"},
	{"archive/zip", []string{"OpenReader"}, []string{"layout/build/source", "layout/npy"}, false, "zip.NewReader over a file of the storage.FS given"},
	{"path/filepath", []string{"Walk", "WalkDir", "Glob"}, []string{"layout/build/source", "tests"}, false, "the storage.FS given: what bypasses it escapes injected faults"},
	{"io/ioutil", nil, nil, true, "package io and os"},
	{"math/rand", nil, nil, true, "draws are a pure function of the seed: the Philox stream (docs/sampling.md); tests use math/rand/v2 with a fixed seed"},
	{"math/rand/v2", nil, []string{"tests"}, false, "draws are a pure function of the seed: the Philox stream (docs/sampling.md)"},
	{"fmt", []string{"Print", "Printf", "Println"}, []string{"goagnes/cmd", "tests"}, false,
		"a library prints nothing: return the value, or report through the Progress option"},
	{"log", nil, nil, false, "a library logs nothing: return the error, or report through the Progress option"},
	{"log/slog", nil, nil, true, "a library logs nothing: return the error, or report through the Progress option"},
	{"os/signal", nil, []string{"goagnes/cmd"}, false, "signals belong to the program: take a context.Context"},
	{"os", []string{"Exit"}, []string{"goagnes/cmd", "capi/version", "tests/scale/overlap"}, false, "return an error; only the program exits"},
	{"os", []string{"Getenv", "LookupEnv", "Setenv"}, []string{"goagnes/cmd", "tests"}, false,
		"settings are arguments (Python's os.environ is not seen by Go)"},
	{"runtime", []string{"GC"}, []string{"tests"}, false, "memory is released explicitly: Release, Close"},
	{"runtime/debug", []string{"SetGCPercent", "SetMemoryLimit", "FreeOSMemory"}, []string{"goagnes/cmd"}, false,
		"the collector is the host program's: keep big memory off-heap (goagnes/memory)"},
	{"syscall", []string{"Mmap", "Munmap", "Open", "Pread", "Pwrite"}, nil, false,
		"golang.org/x/sys/unix, in goagnes/storage (files) or goagnes/memory (mappings)"},
	{"golang.org/x/sys/unix", []string{"Mmap", "MmapPtr", "Munmap", "MunmapPtr"},
		[]string{"goagnes/memory", "goagnes/storage", "layout/build", "capi/control/controltest"}, false,
		"memory.Map and memory.Unmap, which are counted"},
	{"golang.org/x/sys/unix", []string{"Open", "Openat", "Openat2", "Creat", "Pread", "Pwrite", "Preadv", "Pwritev", "Fsync", "Fdatasync", "Fallocate", "Ftruncate",
		"Mkdir", "Mkdirat", "Rename", "Renameat", "Renameat2", "Unlink", "Unlinkat", "Rmdir", "Stat", "Lstat", "Statfs", "Access", "Faccessat"}, []string{fileSystem}, false,
		"storage.FS, storage.OpenFile and storage.Pool, which are counted and under every test double"},
	{"golang.org/x/sys/unix", []string{"Flock"}, []string{fileSystem, "goagnes/cmd", "layout/build/synthetic"}, false, "LockDir of the storage.FS given"},
	{"github.com/ncw/directio", []string{"OpenFile"}, nil, false, "storage.OpenFile, which goes through the storage.FS given"},
	{"encoding/gob", nil, nil, true, "JSON with a stated schema, or the layout package: opening a file must execute nothing"},
	{"plugin", nil, nil, true, "nothing is loaded at run time"},
}

func TestBannedCalls(t *testing.T) {
	set, list := sources(t)
	for _, s := range list {
		imports := s.imports()
		ast.Inspect(s.file, func(node ast.Node) bool {
			selector, ok := node.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			base, ok := selector.X.(*ast.Ident)
			if !ok || base.Obj != nil { // a local variable of that name
				return true
			}
			for _, b := range bans {
				if imports[base.Name] != b.importPath || (b.names != nil && !contains(b.names, selector.Sel.Name)) {
					continue
				}
				if s.test() && !b.tests || under(s.name, b.allowed...) {
					continue
				}
				t.Errorf("%s: %s.%s is banned here; instead: %s", place(t, set, selector.Pos()), base.Name, selector.Sel.Name, b.instead)
			}
			return true
		})
	}
}

// TestPanicsNamePackage keeps the two failure classes apart: a panic is a bug
// of ours, and its text says whose.
func TestPanicsNamePackage(t *testing.T) {
	set, list := sources(t)
	for _, s := range list {
		if s.test() || under(s.dir, "tests") {
			continue
		}
		ast.Inspect(s.file, func(node ast.Node) bool {
			call, ok := node.(*ast.CallExpr)
			if !ok || len(call.Args) != 1 {
				return true
			}
			if name, ok := call.Fun.(*ast.Ident); !ok || name.Name != "panic" {
				return true
			}
			if value, ok := call.Args[0].(*ast.Ident); ok && value.Name == "p" {
				return true // a recovered panic, passed on to the goroutine that waits
			}
			want := s.file.Name.Name + ": "
			if s.file.Name.Name == "main" {
				want = "goagnes: "
			}
			if literal, ok := firstLiteral(call.Args[0]); !ok || !strings.HasPrefix(literal, want) {
				t.Errorf("%s: a panic is our own bug and its text begins with %q; a bad file or argument is a typed error instead",
					place(t, set, call.Pos()), want)
			}
			return true
		})
	}
}

// firstLiteral returns the leftmost string literal of an expression.
func firstLiteral(expr ast.Expr) (string, bool) {
	switch e := expr.(type) {
	case *ast.BasicLit:
		if e.Kind == token.STRING {
			value, err := strconv.Unquote(e.Value)
			return value, err == nil
		}
	case *ast.BinaryExpr:
		return firstLiteral(e.X)
	case *ast.ParenExpr:
		return firstLiteral(e.X)
	case *ast.CallExpr:
		if len(e.Args) > 0 {
			return firstLiteral(e.Args[0])
		}
	}
	return "", false
}

// TestCompilerFlags refuses flags that change the arithmetic of the whole
// process or tie the binary to one machine.
func TestCompilerFlags(t *testing.T) {
	_, list := sources(t)
	for _, s := range list {
		for _, group := range s.file.Comments {
			for _, line := range strings.Split(group.Text(), "\n") {
				if !strings.HasPrefix(strings.TrimSpace(line), "#cgo") {
					continue
				}
				for flag, why := range map[string]string{
					"-ffast-math":                 "flushes subnormals for the whole process",
					"-Ofast":                      "implies -ffast-math",
					"-funsafe-math-optimizations": "reorders sums: results must be equal for every thread count",
					"-march=native":               "the binary must run on other machines: choose at run time by CPU detection",
				} {
					if strings.Contains(line, flag) {
						t.Errorf("%s: %s: %s", s.name, flag, why)
					}
				}
			}
		}
	}
}

// TestPackageComments wants every package to say what it provides.
func TestPackageComments(t *testing.T) {
	_, list := sources(t)
	documented, first := map[string]bool{}, map[string]string{}
	for _, s := range list {
		if s.test() {
			continue
		}
		if first[s.dir] == "" {
			first[s.dir] = s.name
		}
		if s.file.Doc != nil && len(strings.Fields(s.file.Doc.Text())) >= 8 {
			documented[s.dir] = true
		}
	}
	for dir, name := range first {
		if !documented[dir] {
			t.Errorf("%s: package in %s has no package comment: say what it provides, its invariants and its limits", name, dir)
		}
	}
}
