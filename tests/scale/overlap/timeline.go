package main

// What the device and the processors did by time: the integral of the reads in
// flight, and the processor time of the process.

import (
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

// timeline is written under recorder.mu.
type timeline struct {
	interval         time.Duration // 0: not wanted
	start, last      time.Time
	reading, writing int
	rows             []interval
	cpu              time.Duration // of the process, at the last row's begin
}

type interval struct {
	reads, writes  int           // begun
	inFlight, idle time.Duration // of reads; without any
	cpu            time.Duration
}

// watch samples the processor time once an interval for as long as the program runs.
func (r *recorder) watch(every time.Duration) {
	r.line.interval = every
	if every == 0 {
		return
	}
	go func() {
		for range time.Tick(every) {
			if r.on.Load() {
				r.mu.Lock()
				r.line.advance()
				r.mu.Unlock()
			}
		}
	}()
}

func processorTime() time.Duration {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// advance accounts for the time since the last event.
func (t *timeline) advance() {
	if t.interval == 0 {
		return
	}
	now := time.Now()
	if t.start.IsZero() {
		t.start, t.last, t.cpu, t.rows = now, now, processorTime(), []interval{{}}
	}
	for {
		row := &t.rows[len(t.rows)-1]
		until := t.start.Add(time.Duration(len(t.rows)) * t.interval)
		upto := now
		if until.Before(now) {
			upto = until
		}
		span := upto.Sub(t.last)
		row.inFlight += span * time.Duration(t.reading)
		if t.reading == 0 {
			row.idle += span
		}
		t.last = upto
		if !until.Before(now) {
			return
		}
		cpu := processorTime()
		row.cpu, t.cpu = cpu-t.cpu, cpu
		t.rows = append(t.rows, interval{})
	}
}

func (t *timeline) begin(write bool) {
	t.advance()
	if t.interval == 0 {
		return
	}
	row := &t.rows[len(t.rows)-1]
	if write {
		row.writes++
		t.writing++
	} else {
		row.reads++
		t.reading++
	}
}

func (t *timeline) end(write bool) {
	t.advance()
	if write {
		t.writing--
	} else {
		t.reading--
	}
}

func (t *timeline) print() {
	if t.interval == 0 {
		return
	}
	fmt.Println("  seconds   reads  writes  reads in flight  without any  processors busy")
	for i, r := range t.rows {
		n := t.interval.Seconds()
		fmt.Printf("%9.2f %7d %7d %16.1f %11.0f%% %16.2f\n", float64(i)*n, r.reads, r.writes, r.inFlight.Seconds()/n, 100*r.idle.Seconds()/n, r.cpu.Seconds()/n)
	}
}
