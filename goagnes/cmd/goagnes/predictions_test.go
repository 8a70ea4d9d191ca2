// Files of predictions: whole or not there, and nothing of killed runs stays.
package main

import (
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"golang.org/x/sys/unix"
)

func names(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, e := range entries {
		all = append(all, e.Name())
	}
	return all
}

// What a killed run leaves is a file whose lock is free; the next run removes it, and
// nothing else: neither what a living run writes nor what only looks alike.
func TestPredictionsOfKilledRuns(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "p.npy")
	keep := []string{".p.npy-1x.part", ".p.npy-.part", ".q.npy-12.part", "p.npy-12.part"}
	for _, name := range append(keep, ".p.npy-12.part", ".p.npy-345.part") {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("rows"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	first, err := createPredictions(path, 1)
	if err != nil {
		t.Fatal(err)
	}
	second, err := createPredictions(path, 1) // another run to the same name, while the first lives
	if err != nil {
		t.Fatal(err)
	}
	want := append(slices.Clone(keep), filepath.Base(first.temp.Name()), filepath.Base(second.temp.Name()))
	slices.Sort(want)
	if got := names(t, dir); !slices.Equal(got, want) {
		t.Errorf("beside two living runs lie %q, want %q", got, want)
	}
	for _, f := range []*predictionFile{first, second} {
		if err := f.add([]int64{3}, []int64{1}); err != nil {
			t.Fatal(err)
		}
		if err := f.publish(); err != nil {
			t.Fatal(err)
		}
	}
	want = append(slices.Clone(keep), "p.npy")
	slices.Sort(want)
	if got := names(t, dir); !slices.Equal(got, want) {
		t.Errorf("after both lie %q, want %q", got, want)
	}
}

// Many runs at once to one name: each sweeps while others create, and each writes a
// whole file.
func TestPredictionsAtOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "p.npy")
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			for range 50 {
				f, err := createPredictions(path, 1)
				if err != nil {
					t.Error(err)
					return
				}
				var st unix.Stat_t
				if err := unix.Fstat(int(f.temp.Fd()), &st); err != nil || st.Nlink != 1 {
					t.Errorf("a file that is being written has %d names: %v", st.Nlink, err)
				}
				if err := f.add([]int64{1}, []int64{2}); err != nil {
					t.Error(err)
				}
				if err := f.publish(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	group.Wait()
	if got := names(t, filepath.Dir(path)); !slices.Equal(got, []string{"p.npy"}) {
		t.Errorf("%q lie there, want p.npy", got)
	}
}
