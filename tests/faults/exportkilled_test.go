package faults

// Exports that are killed: what is left never opens, and is gone on with.

import (
	"context"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/goagnes/goagnes/goagnes"
	"github.com/goagnes/goagnes/goagnes/export"
	"github.com/goagnes/goagnes/tests/fixture/child"
	"github.com/goagnes/goagnes/tests/fixture/graph"
	"github.com/goagnes/goagnes/tests/fixture/life"
	"github.com/goagnes/goagnes/tests/fixture/tree"
)

// exportTask is what the process that is killed exports, and to where.
type exportTask struct{ Store, Out string }

// TestExportChild is the process that TestExportKilled kills.
func TestExportChild(t *testing.T) {
	var task exportTask
	child.Only(t, &task)
	s := life.Open(t, task.Store, goagnes.OpenOptions{Memory: 16 << 20, NumThreads: 1})
	if _, err := goagnes.Export(context.Background(), s, task.Out, graph.ExportOptions(3)); err != nil {
		t.Fatal(err)
	}
}

// TestExportKilled kills a child at random moments, a dozen times or as often as
// GOAGNES_EXPORT_KILLS says: what it leaves never opens, and is gone on with to
// the bytes of an export that nothing cut off.
func TestExportKilled(t *testing.T) {
	kills := 12
	if n, err := strconv.Atoi(os.Getenv("GOAGNES_EXPORT_KILLS")); err == nil {
		kills = n
	}
	if testing.Short() {
		kills = 3
	}
	dir := t.TempDir()
	path := filepath.Join(dir, "store")
	graph.Ring(3000).Build(t, path, goagnes.BuildOptions{BlockSize: 4096})
	start := func(out string) *exec.Cmd {
		return child.Command(t, "TestExportChild", exportTask{path, out})
	}
	whole := filepath.Join(dir, "whole")
	begun := time.Now()
	if b, err := start(whole).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, b)
	}
	took := time.Since(begun)
	want := tree.Read(t, whole)
	out := filepath.Join(dir, "killed")
	r := rand.New(rand.NewPCG(1, 2))
	killed, resumed := 0, int64(0)
	for i := 0; killed < kills && i < 20*kills; i++ {
		c := start(out)
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Duration(r.Float64() * 1.1 * float64(took)))
		c.Process.Kill()
		if c.Wait() != nil {
			killed++
		}
		if r, err := goagnes.OpenExport(out); err == nil {
			tree.Same(t, "an export that opens", without(tree.Read(t, out), export.PartialFile), want)
			if err := r.Close(); err != nil {
				t.Fatal(err)
			}
		} else if goagnes.Class(err) != goagnes.ClassStore {
			t.Fatalf("a killed export: %v", err)
		}
		if i%3 < 2 { // killed again and again before it may end
			continue
		}
		s := life.Open(t, path, goagnes.OpenOptions{Memory: 32 << 20})
		report, err := goagnes.Export(context.Background(), s, out, graph.ExportOptions(3))
		if err != nil {
			t.Fatal(err)
		}
		resumed += report.Resumed
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		tree.Same(t, "a resumed export", tree.Read(t, out), want)
		if err := os.RemoveAll(out); err != nil {
			t.Fatal(err)
		}
	}
	if killed < kills || resumed == 0 && !testing.Short() {
		t.Errorf("%d children were killed, %d minibatches gone on from: the moments miss what they are for", killed, resumed)
	}
}

func without(m map[string]string, name string) map[string]string { delete(m, name); return m }
