package storage

// Bytes moved by time.

import "time"

// Timeline tells how many bytes a pool moved in each interval from its first
// request on, by the time at which requests ended. The two lists are of equal
// length, at most 512; the interval doubles as time goes by.
type Timeline struct {
	IntervalSeconds float64 `json:"interval_seconds"`
	BytesRead       []int64 `json:"bytes_read"`
	BytesWritten    []int64 `json:"bytes_written"`
}

const (
	timelineLength = 512
	// firstInterval is the length of intervals before any doubling.
	firstInterval = 50 * time.Millisecond
)

// timeline is a Timeline that grows. The zero value is an empty one.
type timeline struct {
	start    time.Time
	interval time.Duration
	read     []int64
	written  []int64
}

// add counts n bytes at the given time, which must not lie before the start.
func (t *timeline) add(now time.Time, write bool, n int64) {
	if t.start.IsZero() {
		t.start, t.interval = now, firstInterval
	}
	for now.Sub(t.start) >= t.interval*timelineLength {
		t.halve()
	}
	i := max(int(now.Sub(t.start)/t.interval), 0)
	for len(t.read) <= i {
		t.read, t.written = append(t.read, 0), append(t.written, 0)
	}
	if write {
		t.written[i] += n
	} else {
		t.read[i] += n
	}
}

// halve adds up pairs of intervals.
func (t *timeline) halve() {
	t.interval *= 2
	for _, s := range []*[]int64{&t.read, &t.written} {
		for i, n := range *s {
			if i%2 == 0 {
				(*s)[i/2] = n
			} else {
				(*s)[i/2] += n
			}
		}
		*s = (*s)[:(len(*s)+1)/2]
	}
}

func (t *timeline) snapshot() Timeline {
	return Timeline{t.interval.Seconds(), append([]int64{}, t.read...), append([]int64{}, t.written...)}
}

// Timeline returns what the pool has moved so far, by time.
func (p *Pool) Timeline() Timeline {
	p.stats.mu.Lock()
	defer p.stats.mu.Unlock()
	return p.stats.mu.timeline.snapshot()
}
