package storage

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/goagnes/goagnes/tests/fixture/child"
)

func TestScratch(t *testing.T) {
	parent := t.TempDir()
	s, err := OpenScratch(nil, []string{parent}, 10*page)
	if err != nil {
		t.Fatal(err)
	}
	f, err := s.Create("a", 3*page+1)
	if err != nil {
		t.Fatal(err)
	}
	if n, err := f.Size(); n != 4*page || err != nil || s.Used() != 4*page {
		t.Fatalf("%d bytes, %d used, %v", n, s.Used(), err)
	}
	if _, err := f.WriteAt(AlignedBytes(4*page), 0); err != nil {
		t.Fatal(err)
	}
	var over *ScratchError
	if _, err := s.Create("b", 7*page); !errors.As(err, &over) || over.Need != 7*page || over.Used != 4*page || over.Limit != 10*page ||
		over.Class() != "budget" || !strings.Contains(err.Error(), "scratch_limit") {
		t.Fatalf("%v", err)
	}
	if err := s.Extend(f, 11*page); !errors.As(err, &over) || s.Used() != 4*page {
		t.Fatalf("%v, %d used", err, s.Used())
	}
	if err := errors.Join(s.Extend(f, 6*page), s.Extend(f, page)); err != nil || s.Used() != 6*page {
		t.Fatalf("%v, %d used", err, s.Used())
	}
	if _, err := s.Create("a", 0); !errors.Is(err, os.ErrExist) || s.Used() != 6*page {
		t.Fatalf("%v, %d used", err, s.Used())
	}
	mustPanic(t, func() { s.Create("../a", 0) })
	g, err := s.Create("b", 4*page)
	if err != nil || s.Peak() != 10*page {
		t.Fatal(err)
	}
	if err := errors.Join(s.Remove(f), s.Remove(f)); err != nil || s.Used() != 4*page {
		t.Fatalf("%v, %d used", err, s.Used())
	}
	if _, err := os.Stat(f.Name()); !errors.Is(err, os.ErrNotExist) {
		t.Fatal("a removed file is there")
	}
	p := NewPool(PoolOptions{})
	for _, write := range []bool{true, false} {
		if err := p.Do(&Request{File: g, Buf: AlignedBytes(2 * page), Write: write}); err != nil {
			t.Fatal(err)
		}
	}
	p.Close()
	if c := p.Counters(); c.ScratchRead != 2*page || c.ScratchWritten != 2*page {
		t.Fatalf("%+v", c)
	}
	if err := errors.Join(s.Close(), s.Close()); err != nil {
		t.Fatal(err)
	}
	if left, _ := os.ReadDir(parent); len(left) != 0 {
		t.Fatalf("left behind: %v", left)
	}
	if _, err := s.Create("c", 0); !errors.Is(err, ErrClosed) {
		t.Fatalf("%v", err)
	}
}

func TestScratchDefaultLimit(t *testing.T) {
	s, err := OpenScratch(nil, []string{t.TempDir()}, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if s.Limit() < 1<<20 {
		t.Skipf("the disk has only %d bytes free", 2*s.Limit())
	}
	if _, err := s.Create("too large", 3*s.Limit()); !errors.As(err, new(*ScratchError)) {
		t.Fatal(err)
	}
}

// A limit that is shared counts the files of all.
func TestScratchLimitShared(t *testing.T) {
	limit := NewScratchLimit(10 * page)
	var all [3]*Scratch
	for i := range all {
		var err error
		if all[i], err = OpenScratchWithin(nil, []string{t.TempDir()}, limit); err != nil {
			t.Fatal(err)
		}
		defer all[i].Close()
	}
	f, err := all[0].Create("a", 6*page)
	if err != nil {
		t.Fatal(err)
	}
	var over *ScratchError
	if _, err := all[1].Create("a", 5*page); !errors.As(err, &over) || over.Used != 6*page || over.Limit != 10*page || over.Need != 5*page {
		t.Fatalf("%v", err)
	}
	g, err := all[1].Create("a", 4*page)
	if err != nil || all[1].Used() != 4*page || all[0].Used() != 6*page {
		t.Fatal(err)
	}
	if err := all[2].Extend(g, page); !errors.Is(err, ErrClosed) {
		t.Fatalf("a file of another scratch folder: %v", err)
	}
	if err := all[1].Extend(g, 5*page); !errors.As(err, &over) || over.Used != 10*page {
		t.Fatalf("%v", err)
	}
	if err := all[0].Remove(f); err != nil {
		t.Fatal(err)
	}
	if err := all[1].Extend(g, 9*page); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(all[1].Close(), all[1].Close()); err != nil {
		t.Fatal(err)
	}
	all[2].CountMemory(func(used int64) error {
		if used > 7*page {
			return errors.New("too much")
		}
		return nil
	})
	if _, err := all[2].Create("b", 8*page); err == nil || !strings.Contains(err.Error(), "too much") {
		t.Fatal(err)
	}
	if _, err := all[0].Create("b", 10*page); err != nil {
		t.Fatalf("what was closed, or refused by memory, is still counted: %v", err)
	}
}

// TestScratchChild is no test of its own: it is the process that
// TestScratchOfKilledProcess kills.
func TestScratchChild(t *testing.T) {
	var parent string
	child.Only(t, &parent)
	s, err := OpenScratch(nil, []string{parent}, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Create("file", page); err != nil {
		t.Fatal(err)
	}
	fmt.Printf("at %s\n", s.Dir())
	time.Sleep(time.Minute)
}

func TestScratchOfKilledProcess(t *testing.T) {
	parent := t.TempDir()
	other := filepath.Join(parent, scratchPrefix+"notes") // not a scratch folder
	if err := os.Mkdir(other, 0o755); err != nil {
		t.Fatal(err)
	}
	c := child.Command(t, "TestScratchChild", parent)
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	defer c.Process.Kill()
	dir := ""
	for lines := bufio.NewScanner(out); lines.Scan(); {
		if d, ok := strings.CutPrefix(lines.Text(), "at "); ok {
			dir = d
			break
		}
	}
	open := func() {
		t.Helper()
		s, err := OpenScratch(nil, []string{parent}, page)
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	open()
	if _, err := os.Stat(filepath.Join(dir, "file")); err != nil {
		t.Fatalf("the folder of a living process is gone: %v", err)
	}
	c.Process.Kill()
	c.Wait()
	open()
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Fatalf("the folder of a killed process is left: %v", err)
	}
	if _, err := os.Stat(other); err != nil {
		t.Fatal("a folder that is no scratch folder was removed")
	}
}
