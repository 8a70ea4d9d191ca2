// Rules about files as text: markers, machine paths, length, names.
package lint

import (
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// maxLines is the most lines a source file may have: beyond it, a file has
// more than one purpose.
const maxLines = 900

// The patterns are put together from pieces so that this file passes them.
var (
	markers  = regexp.MustCompile(`\b(TO` + `DO|FIX` + `ME|XX` + `X|HA` + `CK)\b|Not` + `ImplementedError|panic\("(not implemented|unimplemented|to` + `do)`)
	machine  = regexp.MustCompile(`/(wo` + `rk|tmp/bash_` + `jobs|fa` + `rm)/|/ro` + `ot/|/ho` + `me/[a-z]`)
	registry = regexp.MustCompile(`(?i)proxy\.gol` + `ang\.org|pypi\.o` + `rg|files\.python` + `hosted|registry\.npm` + `js|deb\.deb` + `ian\.org`)
	vague    = regexp.MustCompile(`^(util|utils|common|helpers?|misc|shared)(_test)?$`)
	built    = regexp.MustCompile(`(__pycache__|\.pyc$|\.so$|\.whl$|\.egg-info|coverage\.out$|\.prof$|\.test$)`)
)

// isSource tells whether a file holds code.
func isSource(name string) bool {
	switch path.Ext(name) {
	case ".go", ".py", ".c", ".h", ".cu", ".s":
		return true
	}
	return path.Base(name) == "Makefile" || name == ".ci/run"
}

// isText tells whether a file is written by hand.
func isText(name string) bool {
	switch path.Ext(name) {
	case ".md", ".toml", ".in", ".txt", ".yaml", ".yml", ".cfg", ".pyi":
		return true
	}
	return isSource(name)
}

func TestText(t *testing.T) {
	rules := []struct {
		name    string
		applies func(string) bool
		pattern *regexp.Regexp
		instead string
	}{
		{"markers", isSource, markers, "finish it now, or describe the limit in the package comment"},
		{"machine paths", isText, machine, "use a path relative to the repository, a temporary folder, or an argument"},
		{"registries", isText, registry, "name the package; its registry is the machine's setting"},
	}
	list := files(t)
	for _, rule := range rules {
		t.Run(strings.ReplaceAll(rule.name, " ", "-"), func(t *testing.T) {
			for _, name := range list {
				if !rule.applies(name) {
					continue
				}
				for i, line := range strings.Split(text(t, name), "\n") {
					if found := rule.pattern.FindString(line); found != "" {
						t.Errorf("%s:%d: %q: %s", name, i+1, found, rule.instead)
					}
				}
			}
		})
	}
}

func TestFileLength(t *testing.T) {
	for _, name := range files(t) {
		if !isSource(name) {
			continue
		}
		if lines := strings.Count(text(t, name), "\n"); lines > maxLines {
			t.Errorf("%s has %d lines, more than %d: split it by purpose", name, lines, maxLines)
		}
	}
}

func TestNames(t *testing.T) {
	for _, name := range files(t) {
		if built.MatchString(name) {
			t.Errorf("%s is a built thing: ignore it in .gitignore", name)
		}
		if !isSource(name) {
			continue
		}
		parts := strings.Split(strings.TrimSuffix(name, path.Ext(name)), "/")
		for _, part := range parts {
			if vague.MatchString(part) {
				t.Errorf("%s: %q says nothing: name the package or file after what it holds", name, part)
			}
		}
	}
}

// TestLinks wants every relative link of a page to lead somewhere.
func TestLinks(t *testing.T) {
	link := regexp.MustCompile(`\]\(([^)#:\s]+)(#[^)]*)?\)`)
	for _, name := range files(t) {
		if path.Ext(name) != ".md" {
			continue
		}
		for i, line := range strings.Split(text(t, name), "\n") {
			for _, found := range link.FindAllStringSubmatch(line, -1) {
				target := filepath.Join(root(t), path.Dir(name), found[1])
				if _, err := os.Stat(target); err != nil {
					t.Errorf("%s:%d: the link to %s leads nowhere", name, i+1, found[1])
				}
			}
		}
	}
}
