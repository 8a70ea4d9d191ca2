// Package fuzz tries the C data plane under the sanitizers: testdata/driver.c, which uses it
// at random, built and run with several seeds.
package fuzz

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// asks are what the build needs to know of the interpreter.
const asks = `import sysconfig as s; print(s.get_paths()["include"], s.get_config_var("LIBDIR"), s.get_config_var("LDVERSION"), s.get_config_var("Py_ENABLE_SHARED") or 0, sep="\n")`

// build compiles the driver, and skips where there is no interpreter to embed.
func build(t *testing.T) string {
	t.Helper()
	out, err := exec.Command("python3", "-c", asks).Output()
	if err != nil {
		t.Skipf("no python3: %v", err)
	}
	said := strings.Split(strings.TrimSpace(string(out)), "\n")
	include, lib, version, shared := said[0], said[1], said[2], said[3]
	if _, err := os.Stat(filepath.Join(include, "Python.h")); err != nil {
		t.Skipf("no headers of Python: %v", err)
	}
	if shared != "1" {
		t.Skip("Python has no shared library to embed")
	}
	driver := filepath.Join(t.TempDir(), "driver")
	args := []string{"-std=gnu17", "-g", "-O1", "-Wall", "-Wextra", "-Werror", "-Wno-cast-function-type", "-fno-strict-aliasing",
		"-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-I" + include,
		"testdata/driver.c", "../module.c", "../tensor.c", "../owner.c", "../slab.c", "-L" + lib, "-Wl,-rpath," + lib, "-lpython" + version, "-lpthread", "-o", driver}
	if out, err := exec.Command("gcc", args...).CombinedOutput(); err != nil {
		if strings.Contains(string(out), "cannot find -lasan") || strings.Contains(string(out), "libasan") {
			t.Skipf("no sanitizers: %s", out)
		}
		t.Fatalf("%v\n%s", err, out)
	}
	return driver
}

// TestDataPlane runs the driver. GOAGNES_FUZZ_SEEDS of a longer run is the number
// of seeds; each is 20,000 rounds.
func TestDataPlane(t *testing.T) {
	seeds := 2
	if testing.Short() {
		seeds = 1
	}
	if s := os.Getenv("GOAGNES_FUZZ_SEEDS"); s != "" {
		if _, err := fmt.Sscan(s, &seeds); err != nil {
			t.Fatalf("GOAGNES_FUZZ_SEEDS=%s: %v", s, err)
		}
	}
	driver := build(t)
	for seed := range seeds {
		cmd := exec.Command(driver, fmt.Sprint(seed+1), "20000")
		// Python itself leaves memory at its end; its own allocator would hide errors.
		cmd.Env = append(os.Environ(), "ASAN_OPTIONS=detect_leaks=0:abort_on_error=0", "UBSAN_OPTIONS=print_stacktrace=1", "PYTHONMALLOC=malloc")
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Errorf("driver %d 20000: %v\n%s", seed+1, err, out)
			continue
		}
		t.Logf("seed %d: %s", seed+1, out)
	}
}
