// The pinned tools find nothing. Go's come from go.mod; Python's are pinned in
// tests/requirements.txt and looked for in .venv (make sets it up) and PATH.
package lint

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// clean fails the test with what the command printed, if it failed or printed.
func clean(t *testing.T, instead string, name string, args ...string) {
	t.Helper()
	cmd := exec.Command(name, args...)
	cmd.Dir = root(t)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("%s %s: %v; %s\n%s", filepath.Base(name), strings.Join(args, " "), err, instead, out)
	}
}

func TestGofmt(t *testing.T) {
	var names []string
	for _, name := range files(t) {
		if strings.HasSuffix(name, ".go") {
			names = append(names, name)
		}
	}
	if out := output(t, "gofmt", append([]string{"-l"}, names...)...); out != "" {
		t.Errorf("run gofmt -w on:\n%s", out)
	}
}

func TestVet(t *testing.T) {
	clean(t, "mend what go vet found", "go", "vet", "./...")
}

func TestStaticcheck(t *testing.T) {
	if testing.Short() {
		t.Skip("staticcheck takes most of a minute on a cold cache: not in -short")
	}
	clean(t, "mend what staticcheck found", "go", "tool", "staticcheck", "./...")
}

// pythonTool finds a pinned Python tool.
func pythonTool(t *testing.T, name string) string {
	t.Helper()
	if path := filepath.Join(root(t), ".venv", "bin", name); exec.Command(path, "--version").Run() == nil {
		return path
	}
	path, err := exec.LookPath(name)
	if err != nil {
		t.Skipf("%s is neither in .venv nor in PATH: `make venv` installs the pinned one", name)
	}
	return path
}

func TestRuff(t *testing.T) {
	ruff := pythonTool(t, "ruff")
	clean(t, "mend what ruff found (most of it: ruff check --fix)", ruff, "check", ".")
	clean(t, "run ruff format", ruff, "format", "--check", ".")
}

func TestPythonTypes(t *testing.T) {
	clean(t, "mend the types", pythonTool(t, "mypy"), "--config-file", "pyproject.toml", "python/goagnes")
}
