package goagnes

// What a process and an open store took: memory against the budget, bytes by time.

import (
	"github.com/goagnes/goagnes/goagnes/memory"
	"github.com/goagnes/goagnes/goagnes/storage"
)

// Usage is what a process and an open store took so far: memory against the
// budget, and bytes by time.
type Usage struct {
	Memory      int64            `json:"memory"`       // budget of the store, bytes
	PeakMemory  int64            `json:"peak_memory"`  // bytes of the budget in use at most, by store, loaders and trainer together
	MemoryPeaks map[string]int64 `json:"memory_peaks"` // most bytes of each consumer; they reach them at different times
	PeakRSS     int64            `json:"peak_rss"`     // most bytes that the process had resident, 0 where the system does not tell
	Timeline    storage.Timeline `json:"timeline"`     // bytes read and written since the store was opened
}

// Usage returns what was taken so far.
func (s *Store) Usage() Usage {
	return Usage{s.budget.Total(), s.budget.Peak(), s.budget.Peaks(), memory.PeakResident(), s.pool.Timeline()}
}
