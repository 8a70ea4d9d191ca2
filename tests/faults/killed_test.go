package faults

// Processes that are killed while they make a store or an export, and disks that
// fill up under them.

import (
	"bufio"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/goagnes/goagnes/goagnes"
	"github.com/goagnes/goagnes/goagnes/storage"
	"github.com/goagnes/goagnes/goagnes/storage/inject"
	"github.com/goagnes/goagnes/tests/fixture/child"
)

// victimTask is what a process that is killed does: which deed, where, and at which
// of its operations it is killed, -1 for none.
type victimTask struct {
	Deed, Root string
	At         int64
}

// TestVictim is the process that TestKilled kills.
func TestVictim(t *testing.T) {
	var task victimTask
	child.Only(t, &task)
	list := deeds(t, false)
	d := list[slices.IndexFunc(list, func(d *deed) bool { return d.name == task.Deed })]
	var n atomic.Int64
	fsys := inject.New(storage.OS, inject.Options{Fail: func(inject.Op) error {
		if n.Add(1) == task.At+1 {
			if err := syscall.Kill(os.Getpid(), syscall.SIGKILL); err != nil {
				panic(err)
			}
			select {}
		}
		return nil
	}})
	fmt.Println("begun")
	if err := d.run(task.Root, fsys); err != nil {
		t.Fatal(err)
	}
	fmt.Println("operations", n.Load())
}

// victim starts a process that does the deed and returns what it prints once it
// has begun.
func victim(t *testing.T, d *deed, root string, at int64) (*exec.Cmd, *bufio.Scanner) {
	t.Helper()
	c := child.Command(t, "TestVictim", victimTask{d.name, root, at})
	c.Env = append(c.Env, "TMPDIR="+t.TempDir())
	out, err := c.StdoutPipe()
	if err == nil {
		c.Stderr = os.Stderr
		err = c.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	for lines.Scan() && lines.Text() != "begun" {
	}
	return c, lines
}

// TestKilled kills a process at random moments of each deed: half of them
// between two of its operations, half by the clock: half as often as -moments says,
// 40 times with -moments 0.
func TestKilled(t *testing.T) {
	kills := max(*moments/2, 2)
	if *moments <= 0 {
		kills = 40
	}
	r := rand.New(rand.NewPCG(9, 9))
	for _, d := range deeds(t, true) {
		t.Run(strings.ReplaceAll(d.name, " ", "-"), func(t *testing.T) {
			root := t.TempDir()
			begin := func() {
				clearDir(t, root)
				if d.before != nil {
					d.before(t, root)
				}
			}
			begin()
			c, out := victim(t, d, root, -1)
			start, operations := time.Now(), int64(0)
			for out.Scan() {
				if n, ok := strings.CutPrefix(out.Text(), "operations "); ok {
					operations, _ = strconv.ParseInt(n, 10, 64)
				}
			}
			took := time.Since(start)
			if err := c.Wait(); err != nil || operations == 0 {
				t.Fatalf("%d operations, %v", operations, err)
			}
			if err := d.check(root, true); err != nil {
				t.Errorf("not killed: %v", err)
			}
			killed := 0
			for i := range kills {
				begin()
				at, after := int64(-1), time.Duration(0)
				if i%2 == 0 {
					at = r.Int64N(operations)
				} else {
					after = time.Duration(r.Int64N(int64(took)))
				}
				c, out := victim(t, d, root, at)
				if at < 0 {
					time.Sleep(after)
					c.Process.Kill()
				}
				for out.Scan() {
				}
				if err := c.Wait(); err != nil {
					killed++
				}
				if err := d.check(root, false); err != nil {
					t.Errorf("killed at operation %d of %d, after %v: %v", at, operations, after, err)
				}
			}
			t.Logf("%d of %d processes were killed", killed, kills)
		})
	}
}

// TestFullDisk does each deed on a small file system of its own with less and
// less space: root and loop devices are needed.
func TestFullDisk(t *testing.T) {
	mnt := smallDisk(t)
	for _, d := range deeds(t, true) {
		t.Run(strings.ReplaceAll(d.name, " ", "-"), func(t *testing.T) {
			root := filepath.Join(mnt, "root")
			begin := func() {
				if err := errors.Join(os.RemoveAll(root), os.RemoveAll(filepath.Join(mnt, "filler")), os.Mkdir(root, 0o777)); err != nil {
					t.Fatal(err)
				}
				if d.before != nil {
					d.before(t, root)
				}
			}
			refused, done := 0, 0
			free := []int64{0, 4, 16, 48, 96, 200, 1000, 4000}
			if *moments <= 0 {
				for kib := int64(4); kib < 600; kib += 12 {
					free = append(free, kib)
				}
			}
			for _, kib := range free {
				begin()
				fill(t, filepath.Join(mnt, "filler"), kib<<10)
				err := d.run(root, storage.OS)
				switch {
				case err == nil:
					done++
				default:
					refused++
					if class := goagnes.Class(err); !errors.Is(err, unix.ENOSPC) && class != goagnes.ClassBudget {
						t.Errorf("%d KiB free: %v", kib, err)
					}
					d.named(t, fmt.Sprintf("%d KiB free", kib), root, err)
				}
				if rerr := os.Remove(filepath.Join(mnt, "filler")); rerr != nil {
					t.Fatal(rerr)
				}
				if err := d.check(root, err == nil); err != nil {
					t.Errorf("%d KiB free: %v", kib, err)
				}
			}
			t.Logf("%d runs ended for want of space, %d had enough", refused, done)
			if refused == 0 || done == 0 {
				t.Errorf("%d runs ended for want of space and %d had enough: both must occur", refused, done)
			}
		})
	}
}

// fill leaves so many bytes free on a file's disk.
func fill(t *testing.T, path string, free int64) {
	t.Helper()
	st, err := storage.OS.Statfs(filepath.Dir(path))
	if err != nil {
		t.Fatal(err)
	}
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	// The file system takes a few blocks for itself.
	for n := int64(st.Bavail)*int64(st.Bsize) - free; n > 0; n -= int64(st.Bsize) {
		err := unix.Fallocate(int(f.Fd()), 0, 0, n)
		if err == nil {
			break
		}
		if !errors.Is(err, unix.ENOSPC) {
			t.Fatal(err)
		}
	}
}
