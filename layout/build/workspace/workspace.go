package workspace

import (
	"context"
	"os"
	"sync"
	"time"

	"github.com/goagnes/goagnes/goagnes/storage"
	"github.com/goagnes/goagnes/layout/build/ledger"
	"github.com/goagnes/goagnes/layout/build/source"
)

// Tuning makes small inputs take the ways of large ones, for tests.
type Tuning struct {
	OnScratch   bool  // keep no partition in memory
	Wide        bool  // edge ids of 8 bytes
	SortBytes   int64 // memory for sorting edges
	Parts       int64 // most partitions of one distribution
	AreaBytes   int64 // memory for reordering rows
	BitmapBytes int64 // memory for the bitmap of ids
	RunBytes    int64 // memory for sorting ids
}

// SortLimit bounds n bytes for sorting edges.
func (t Tuning) SortLimit(n int64) int64 {
	if t.SortBytes > 0 {
		return min(n, t.SortBytes)
	}
	return n
}

// PartsLimit bounds n partitions, of which there are 4 or more.
func (t Tuning) PartsLimit(n int64) int64 {
	if t.Parts > 0 {
		n = min(n, t.Parts)
	}
	return max(n, 4)
}

// Space is what every stage of a build works with. Its fields do not change while one
// runs; counters and notes are for one goroutine.
type Space struct {
	Ctx     context.Context
	Mem     *ledger.Ledger
	Pool    *storage.Pool
	Scratch *storage.Scratch
	FS      storage.FS
	Threads int // of a pass over the edges
	Tune    Tuning

	BytesRead    int64 // of inputs, as often as they were read
	BytesWritten int64 // past the pool
	Notes        []string

	// Tell is told of progress; nil for nobody.
	Tell func(stage string, done, total int64)
	told struct {
		sync.Mutex
		stage string
		at    time.Time
	}
}

// Note adds a sentence to the report.
func (w *Space) Note(s string) { w.Notes = append(w.Notes, s) }

// Progress passes on a stage's progress, now and then. It may be called on any
// goroutine.
func (w *Space) Progress(stage string, done, total int64) {
	if w.Tell == nil {
		return
	}
	w.told.Lock()
	defer w.told.Unlock()
	if now := time.Now(); stage != w.told.stage || done == total || now.Sub(w.told.at) >= 50*time.Millisecond {
		w.told.stage, w.told.at = stage, now
		w.Tell(stage, done, total)
	}
}

// EdgeProgress tells the progress of a pass over edges.
func (w *Space) EdgeProgress(stage string, e source.Edges) func(done int64) {
	total, _ := e.Count()
	return func(done int64) { w.Progress(stage, done, total) }
}

// FileBytes is the size of the file of that name, or else what a source's values
// take in memory.
func FileBytes(name string, values int64) int64 {
	if fi, err := os.Stat(name); err == nil && fi.Mode().IsRegular() {
		return fi.Size()
	}
	return values
}
