package faults

// Every file of a store, of scratch and of an export is opened through the
// storage.FS that was given: the kernel's own account of what is opened and made
// in a folder is held against what passed the FS. What bypassed it would escape
// every fault that is injected.

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/goagnes/goagnes/goagnes"
	"github.com/goagnes/goagnes/goagnes/storage"
	"github.com/goagnes/goagnes/tests/fixture/graph"
	"github.com/goagnes/goagnes/tests/fixture/life"
)

// watchedFS counts by name what is opened and made through it, and has the kernel
// count what is opened and made at all in the directories that it has made.
type watchedFS struct {
	storage.FS
	inotify int

	mu     sync.Mutex
	opened map[string]int // files by base name
	made   map[string]int
}

func watchFolder(t *testing.T, root string) *watchedFS {
	t.Helper()
	fd, err := unix.InotifyInit1(unix.IN_NONBLOCK | unix.IN_CLOEXEC)
	if err != nil {
		t.Skipf("the system has no inotify: %v", err)
	}
	t.Cleanup(func() { unix.Close(fd) })
	w := &watchedFS{FS: unsynced{storage.OS}, inotify: fd, opened: map[string]int{}, made: map[string]int{}}
	if err := w.watch(root); err != nil {
		t.Fatal(err)
	}
	return w
}

func (w *watchedFS) watch(dir string) error {
	_, err := unix.InotifyAddWatch(w.inotify, dir, unix.IN_OPEN|unix.IN_CREATE)
	return err
}

func (w *watchedFS) note(path string, made bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.opened[filepath.Base(path)]++
	if made {
		w.made[filepath.Base(path)]++
	}
}

func (w *watchedFS) OpenFile(path string, flags int, perm fs.FileMode) (storage.Handle, error) {
	w.note(path, flags&os.O_CREATE != 0)
	return w.FS.OpenFile(path, flags, perm)
}

func (w *watchedFS) Mkdir(path string, perm fs.FileMode) error {
	err := w.FS.Mkdir(path, perm)
	if err == nil {
		w.note(path, true)
		err = w.watch(path)
	}
	return err
}

// outside tells what the kernel saw and the FS did not, and how many openings of
// files it saw.
func (w *watchedFS) outside(t *testing.T) (past []string, all int) {
	t.Helper()
	opened, made := map[string]int{}, map[string]int{}
	buf := make([]byte, 1<<16)
	for {
		n, err := unix.Read(w.inotify, buf)
		if err == unix.EAGAIN {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		for b := buf[:n]; len(b) > 0; {
			mask, length := binary.NativeEndian.Uint32(b[4:]), binary.NativeEndian.Uint32(b[12:])
			name, _, _ := bytes.Cut(b[unix.SizeofInotifyEvent:unix.SizeofInotifyEvent+length], []byte{0})
			b = b[unix.SizeofInotifyEvent+length:]
			switch {
			case mask&unix.IN_Q_OVERFLOW != 0:
				t.Fatal("the kernel's account has gaps: use a smaller graph")
			case mask&unix.IN_CREATE != 0:
				made[string(name)]++
			case mask&unix.IN_OPEN != 0 && mask&unix.IN_ISDIR == 0:
				opened[string(name)]++
				all++
			}
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for name, n := range opened {
		if n > w.opened[name] {
			past = append(past, fmt.Sprintf("%s was opened %d times, %d of them through the FS", name, n, w.opened[name]))
		}
	}
	for name, n := range made {
		if n > w.made[name] {
			past = append(past, fmt.Sprintf("%s was made %d times, %d of them through the FS", name, n, w.made[name]))
		}
	}
	return past, all
}

func TestNothingOutside(t *testing.T) {
	root := t.TempDir()
	stripes := []string{filepath.Join(root, "ssd0"), filepath.Join(root, "ssd1")}
	w := watchFolder(t, root)
	for _, dir := range stripes {
		if err := w.Mkdir(dir, 0o777); err != nil {
			t.Fatal(err)
		}
	}
	g, ctx := graph.Ring(1200), context.Background()
	step := func(name string, do func() error) {
		t.Helper()
		if err := do(); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		past, n := w.outside(t)
		for _, what := range past {
			t.Errorf("%s: %s", name, what)
		}
		t.Logf("%s: %d files opened", name, n)
		if n == 0 {
			t.Errorf("%s: the kernel saw no file being opened", name)
		}
	}
	store := filepath.Join(root, "store")
	for _, o := range []goagnes.BuildOptions{
		{BlockSize: 4096, Order: "bfs", Compression: "zstd", Memory: 24 << 20},
		{BlockSize: 4096, Order: "degree", Overwrite: true},
		{BlockSize: 4096, Order: "degree", Stripes: stripes, Overwrite: true, IO: "buffered"},
	} {
		o.FS = w
		step("build", func() error { _, err := g.Write(store, o); return err })
	}
	step("generate", func() error {
		_, err := goagnes.Generate(ctx, filepath.Join(root, "generated"), goagnes.GenerateOptions{NumNodes: 300, FS: w})
		return err
	})
	step("verify", func() error { _, err := goagnes.Verify(ctx, store, goagnes.VerifyOptions{FS: w}); return err })
	for _, engine := range engines() {
		var s *goagnes.Store
		step("open", func() (err error) {
			s, err = goagnes.Open(store, goagnes.OpenOptions{Memory: 5 << 19, NumThreads: 2, IO: engine, FS: w})
			return err
		})
		seed := uint64(8)
		o := goagnes.LoaderOptions{NumNeighbors: []int{5, 4}, InputNodes: goagnes.InputNodes{Split: "train"}, BatchSize: 24, Shuffle: true, HyperbatchSize: 10, Seed: &seed}
		for _, mode := range []string{"agnes", "agnes-paper"} {
			o.Mode = mode
			step(mode, func() error { // what is opened is scratch
				l := life.Load(t, s, o)
				return errors.Join(life.Epoch(t, l), l.Close())
			})
		}
		step("export", func() error {
			o := graph.ExportOptions(1)
			o.FS, o.Overwrite = w, true
			_, err := goagnes.Export(ctx, s, filepath.Join(root, "out"), o)
			return err
		})
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		o.Mode, o.IO = "agnes-no", map[string]string{"pread": "buffered"}[engine]
		if o.IO == "" {
			o.IO = "pread"
		}
		step("the files once more", func() error {
			s := life.Open(t, store, goagnes.OpenOptions{Memory: 8 << 20, NumThreads: 2, IO: engine, FS: w})
			return errors.Join(life.Epoch(t, life.Load(t, s, o)), s.Close())
		})
	}
	// The account is no empty one.
	f, err := os.Create(filepath.Join(store, "outside"))
	if err != nil {
		t.Fatal(err)
	}
	f.Close()
	if past, _ := w.outside(t); len(past) != 2 {
		t.Errorf("a file that was made and opened past the FS: %q", past)
	}
}
