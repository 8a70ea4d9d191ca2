package faults

// Stores read in processes of their own: two at a time, and one that the system
// forbids io_uring.

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/goagnes/goagnes/goagnes"
	"github.com/goagnes/goagnes/tests/fixture/child"
	"github.com/goagnes/goagnes/tests/fixture/graph"
	"github.com/goagnes/goagnes/tests/fixture/life"
	"github.com/goagnes/goagnes/tests/fixture/tree"
)

// readerTask is what a process that reads a store beside others is given.
type readerTask struct {
	Store, Scratch string
	NoRing         bool // the system forbids io_uring
}

// TestReader is a process that TestProcesses and TestRingForbidden start.
func TestReader(t *testing.T) {
	var task readerTask
	child.Only(t, &task)
	path, forbidden := task.Store, task.NoRing
	if forbidden {
		forbidRing(t)
	}
	before := life.TakeCensus(t)
	g, seed := graph.Ring(3000), uint64(8)
	p := graph.Plan{Fanouts: []int{5, 4}, Input: goagnes.InputNodes{Split: "train"}, Batch: 24, Shuffle: true}
	s := life.Open(t, path, goagnes.OpenOptions{Memory: 7 << 19, NumThreads: 2, Scratch: task.Scratch})
	l := life.Load(t, s, p.Options(seed))
	g.HoldEqual(t, l, p.Options(seed), g.Plain(p, seed).Epoch(0))
	st := l.Stats()
	if st.SpilledRowBytes == 0 {
		t.Error("nothing was spilled")
	}
	if forbidden {
		if st.IO.Engine != "pread" || !strings.Contains(st.IO.Reason, "forbids io_uring") {
			t.Errorf("engine %q, reason %q", st.IO.Engine, st.IO.Reason)
		}
		if _, err := goagnes.Open(path, goagnes.OpenOptions{IO: "uring"}); goagnes.Class(err) != goagnes.ClassUnsupported || !strings.Contains(err.Error(), "io_uring_disabled") {
			t.Errorf("io=uring: %v", err)
		}
		o := p.Options(seed)
		o.IO = "uring"
		if _, err := goagnes.NewLoader(s, o); goagnes.Class(err) != goagnes.ClassUnsupported {
			t.Errorf("a loader with io=uring: %v", err)
		}
	}
	if !forbidden { // both spill at one time
		if err := os.WriteFile(fmt.Sprintf("%s.spilled-%d", path, os.Getpid()), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		for deadline := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
			if all, _ := filepath.Glob(path + ".spilled-*"); len(all) == 2 {
				break
			}
			if time.Now().After(deadline) {
				t.Fatal("the other process does not come")
			}
		}
		if err := life.Epoch(t, l); err != nil {
			t.Error(err)
		}
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	before.Hold(t)
	fmt.Println("read")
}

// TestProcesses reads one store in two processes, each with scratch of its own in
// one folder.
func TestProcesses(t *testing.T) {
	path, scratch := filepath.Join(t.TempDir(), "store"), t.TempDir()
	graph.Ring(3000).Build(t, path, goagnes.BuildOptions{BlockSize: 4096, Order: "degree"})
	ended := make(chan error, 2)
	for range 2 {
		c := child.Command(t, "TestReader", readerTask{Store: path, Scratch: scratch})
		go func() {
			out, err := c.CombinedOutput()
			if err != nil || !strings.Contains(string(out), "read\n") {
				err = fmt.Errorf("%w: %s", err, out)
			}
			ended <- err
		}()
	}
	for range 2 {
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
	tree.Empty(t, scratch)
}

// TestRingForbidden reads a store where the system forbids io_uring, as
// containers do: system calls take its place, and why is told.
func TestRingForbidden(t *testing.T) {
	path, scratch := filepath.Join(t.TempDir(), "store"), t.TempDir()
	graph.Ring(3000).Build(t, path, goagnes.BuildOptions{BlockSize: 4096, Order: "degree"})
	out, err := child.Command(t, "TestReader", readerTask{Store: path, Scratch: scratch, NoRing: true}).CombinedOutput()
	switch {
	case strings.Contains(string(out), "no filter:"):
		t.Skipf("the system takes no filter of system calls: %s", out)
	case err != nil || !strings.Contains(string(out), "read\n"):
		t.Errorf("%v: %s", err, out)
	}
	tree.Empty(t, scratch)
}

// forbidRing makes io_uring_setup fail in this process, as a container's filter
// does.
func forbidRing(t *testing.T) {
	const (
		loadNumber = unix.BPF_LD | unix.BPF_W | unix.BPF_ABS
		jumpEqual  = unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K
		answer     = unix.BPF_RET | unix.BPF_K
	)
	filter := []unix.SockFilter{
		{Code: loadNumber},
		{Code: jumpEqual, K: unix.SYS_IO_URING_SETUP, Jf: 1},
		{Code: answer, K: unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM)},
		{Code: answer, K: unix.SECCOMP_RET_ALLOW},
	}
	program := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		t.Fatalf("no filter: %v", err)
	}
	if _, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_TSYNC, uintptr(unsafe.Pointer(&program))); errno != 0 {
		t.Fatalf("no filter: %v", errno)
	}
}
