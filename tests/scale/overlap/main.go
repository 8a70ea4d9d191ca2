// Command overlap measures how far the device and the processors work at the same
// time while an epoch is prepared on a slow device:
//
//	together   the epoch, with latency added to every read
//	I/O alone  the reads and writes of that epoch, recorded as they went to the
//	           device, again through a pool of the same depth, as fast as it takes
//	           them: nobody waits for their contents, and memory does not bound them
//	CPU alone  the epoch from the page cache, without latency
//
// and prints together / max(I/O alone, CPU alone). I/O alone has the whole depth in
// flight however little memory the epoch had; "in flight" tells what the depth
// takes, so that it can be compared with the budget.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/goagnes/goagnes/goagnes"
	"github.com/goagnes/goagnes/goagnes/storage"
	"github.com/goagnes/goagnes/goagnes/storage/inject"
	"github.com/goagnes/goagnes/layout"
)

// transfer is a recorded read or write.
type transfer struct {
	path   string
	write  bool
	offset int64
	bytes  int
}

// recorder notes every transfer of the files opened through it, while on.
type recorder struct {
	storage.FS
	on        atomic.Bool
	mu        sync.Mutex
	transfers []transfer
	line      timeline
}

func (r *recorder) OpenFile(path string, flags int, perm fs.FileMode) (storage.Handle, error) {
	h, err := r.FS.OpenFile(path, flags, perm)
	if err != nil {
		return nil, err
	}
	return &recorded{h, r, path}, nil
}

type recorded struct {
	storage.Handle
	recorder *recorder
	path     string
}

func (h *recorded) Begin(t storage.Transfer) (time.Time, error) {
	if r := h.recorder; r.on.Load() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.transfers = append(r.transfers, transfer{h.path, t.Write, t.Offset, len(t.Buf)})
		r.line.begin(t.Write)
	}
	return time.Time{}, nil
}

func (h *recorded) End(t storage.Transfer, n int, err error) (int, error) {
	if r := h.recorder; r.on.Load() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.line.end(t.Write)
	}
	return n, err
}

func main() {
	latency := flag.Duration("latency", 20*time.Millisecond, "time added to every read")
	memory := flag.Int64("memory", 24<<20, "budget in bytes")
	batch := flag.Int("batch-size", 500, "seeds of a minibatch")
	line := flag.Duration("timeline", 0, "print what the device and the processors did in each interval of that length")
	split := flag.String("input-nodes", "train", "split whose nodes are the seeds")
	flag.Parse()
	if flag.NArg() != 1 {
		fmt.Fprintln(os.Stderr, "usage: overlap [flags] STORE")
		os.Exit(2)
	}
	seed := uint64(1)
	options := goagnes.LoaderOptions{NumNeighbors: []int{10, 10, 10}, InputNodes: goagnes.InputNodes{Split: *split},
		BatchSize: *batch, Shuffle: true, Seed: &seed, ReleasesFirst: true}
	if err := measure(flag.Arg(0), *latency, *memory, options, *line); err != nil {
		fmt.Fprintln(os.Stderr, "overlap:", err)
		os.Exit(1)
	}
}

func measure(store string, latency time.Duration, memory int64, options goagnes.LoaderOptions, interval time.Duration) error {
	record := &recorder{FS: storage.OS}
	record.watch(interval)
	slow := inject.Options{ReadLatency: latency}
	open := goagnes.OpenOptions{Memory: memory, FS: inject.New(record, slow)}
	together, first, stats, err := epoch(store, open, options, record)
	if err != nil {
		return err
	}
	depth := storage.DefaultDepth
	if stats.IO.Engine == storage.IOUring {
		depth = storage.DefaultRingDepth
	}
	alone, inFlight, err := replay(record.transfers, filepath.Dir(store), storage.PoolOptions{Depth: depth, IO: stats.IO.Engine, FS: inject.New(nil, slow)})
	if err != nil {
		return err
	}
	var cpu time.Duration
	for range 2 { // the first fills the page cache
		if cpu, _, _, err = epoch(store, goagnes.OpenOptions{Memory: memory, IO: storage.IOBuffered}, options, nil); err != nil {
			return err
		}
	}
	record.line.print()
	reads := 0
	for _, t := range record.transfers {
		if !t.write {
			reads++
		}
	}
	fmt.Printf("reads      %d of %v more each, by %s, depth %d: at least %.2f s\n", reads, latency, stats.IO.Engine, depth, float64(reads)/float64(depth)*latency.Seconds())
	fmt.Printf("I/O alone  %.2f s, at most %.1f MiB in flight; the epoch has %.1f MiB in all\n", alone.Seconds(), float64(inFlight)/(1<<20), float64(memory)/(1<<20))
	fmt.Printf("CPU alone  %.2f s\n", cpu.Seconds())
	fmt.Printf("together   %.2f s, the first minibatch after %.2f s (sample %.2f, gather %.2f, deliver %.2f)\n", together.Seconds(), first.Seconds(),
		stats.Seconds["sample"], stats.Seconds["gather"], stats.Seconds["deliver"])
	fmt.Printf("ratio      %.2f\n", together.Seconds()/max(alone, cpu).Seconds())
	return nil
}

// epoch prepares an epoch and drops its minibatches.
func epoch(path string, open goagnes.OpenOptions, options goagnes.LoaderOptions, record *recorder) (took, first time.Duration, stats goagnes.Stats, err error) {
	ctx := context.Background()
	store, err := goagnes.Open(path, open)
	if err != nil {
		return took, first, stats, err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	loader, err := goagnes.NewLoader(store, options)
	if err != nil {
		return took, first, stats, err
	}
	defer func() { err = errors.Join(err, loader.Close()) }()
	if record != nil {
		record.on.Store(true)
		defer record.on.Store(false)
	}
	start := time.Now()
	if err := loader.Start(ctx); err != nil {
		return took, first, stats, err
	}
	for {
		batch, err := loader.Next(ctx)
		if err == io.EOF {
			return time.Since(start), first, loader.Stats(), nil
		}
		if err != nil {
			return took, first, stats, err
		}
		if first == 0 {
			first = time.Since(start)
		}
		batch.Release()
	}
}

// replay moves the recorded bytes again, in the order in which they went to the
// device. Scratch, which is gone, is stood in for by files in dir.
func replay(transfers []transfer, dir string, o storage.PoolOptions) (took time.Duration, inFlight int64, err error) {
	scratch, err := os.MkdirTemp(dir, "overlap-")
	if err != nil {
		return 0, 0, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(scratch)) }()
	ends, largest := map[string]int64{}, 0
	for _, t := range transfers {
		ends[t.path] = max(ends[t.path], t.offset+int64(t.bytes))
		largest = max(largest, t.bytes)
	}
	pool := storage.NewPool(o)
	defer pool.Close()
	files := map[string]*storage.File{}
	defer func() {
		for _, f := range files {
			err = errors.Join(err, f.Close())
		}
	}()
	for path, end := range ends {
		flags := storage.Flags{}
		at := path
		if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
			at, flags.Write = filepath.Join(scratch, fmt.Sprint(len(files))), true
			if err := os.WriteFile(at, nil, 0o600); err != nil {
				return 0, 0, err
			}
			if err := os.Truncate(at, (end+layout.PageSize-1)/layout.PageSize*layout.PageSize); err != nil {
				return 0, 0, err
			}
		}
		f, err := storage.OpenFile(o.FS, at, flags)
		if err != nil {
			return 0, 0, err
		}
		files[path] = f
	}
	free := make(chan []byte, o.Depth)
	for range o.Depth {
		free <- storage.AlignedBytes((largest + layout.PageSize - 1) / layout.PageSize * layout.PageSize)
	}
	var now, most atomic.Int64
	var failed atomic.Pointer[error]
	start := time.Now()
	for _, t := range transfers {
		if t.offset%layout.PageSize != 0 || t.bytes%layout.PageSize != 0 {
			continue // the rest of a transfer that the system cut short
		}
		buf := <-free
		n := now.Add(int64(t.bytes))
		most.Store(max(most.Load(), n)) // this goroutine alone stores
		pool.Submit(&storage.Request{File: files[t.path], Offset: t.offset, Buf: buf[:t.bytes], Write: t.write, Done: func(r *storage.Request) {
			if r.Err != nil {
				failed.CompareAndSwap(nil, &r.Err)
			}
			now.Add(-int64(t.bytes))
			free <- buf
		}})
	}
	for range o.Depth {
		<-free
	}
	took = time.Since(start)
	if p := failed.Load(); p != nil {
		err = *p
	}
	return took, most.Load(), err
}
