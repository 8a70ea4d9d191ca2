package control

// Tasks: work that takes time, started, polled and cancelled by handle, so that
// whoever waits can look for signals and show progress in between.

import (
	"context"
	"encoding/json"
	"sync"
	"sync/atomic"
	"time"
)

// Status is what a poll returns.
type Status struct {
	State  string `json:"state"` // "running", "done" or "failed"
	Stage  string `json:"stage,omitempty"`
	Done   int64  `json:"done"`
	Total  int64  `json:"total"` // 0: unknown
	Result any    `json:"result,omitempty"`
	Error  string `json:"error,omitempty"` // "CLASS: message"
}

type task struct {
	plane  *Plane
	cancel context.CancelFunc
	ended  chan struct{}

	mu        sync.Mutex
	status    Status
	abandoned bool
	undo      func() // gives back what a result holds if nobody takes it
}

func (t *task) report(stage string, done, total int64) {
	t.mu.Lock()
	t.status.Stage, t.status.Done, t.status.Total = stage, done, total
	t.mu.Unlock()
}

// finish records the outcome; an abandoned task's result is undone.
func (t *task) finish(result any, undo func(), err error) {
	t.mu.Lock()
	if err == nil {
		_, err = json.Marshal(result)
	}
	if err != nil {
		t.status.State, t.status.Error = "failed", Text(err)
	} else {
		t.status.State, t.status.Result = "done", result
	}
	drop := t.abandoned || err != nil
	if !drop {
		t.undo = undo
	}
	t.mu.Unlock()
	if drop && undo != nil {
		undo()
	}
	close(t.ended)
}

// work is the body of a task: its result, and how to give the result back.
type work func(ctx context.Context, report Progress) (result any, undo func(), err error)

// start runs body as a task and returns its handle.
func (p *Plane) start(body work) (int64, error) {
	if p.running.Add(1) > MaxTasks {
		p.running.Add(-1)
		return 0, errorf("usage", "%d tasks are running; wait for some to end", MaxTasks)
	}
	ctx, cancel := context.WithCancel(context.Background())
	t := &task{plane: p, cancel: cancel, ended: make(chan struct{}), status: Status{State: "running"}}
	handle, err := p.tasks.add(t)
	if err != nil {
		p.running.Add(-1)
		cancel()
		return 0, err
	}
	p.cancels.Store(t, nil)
	go func() {
		defer p.running.Add(-1)
		defer p.cancels.Delete(t)
		defer cancel()
		var result any
		var undo func()
		err := func() (err error) {
			defer Guard(&err)
			result, undo, err = body(ctx, t.report)
			return err
		}()
		t.finish(result, undo, err)
	}()
	return handle, nil
}

// Poll waits until a task ends, at most timeout, and returns its status as JSON.
// The poll that returns "done" or "failed" is the last: the handle is then gone.
func (p *Plane) Poll(handle int64, timeout time.Duration) (string, error) {
	t, err := lookup[*task](&p.tasks, handle, "task")
	if err != nil {
		return "", err
	}
	timer := time.NewTimer(timeout)
	defer timer.Stop()
	ended := false
	select {
	case <-t.ended:
		ended = true
	case <-timer.C:
	}
	t.mu.Lock()
	status := t.status
	t.mu.Unlock()
	if !ended {
		// A task that ends just now is reported by the next poll.
		status.State, status.Result, status.Error = "running", nil, ""
	} else if !p.tasks.remove(handle) {
		return "", errorf("closed", "the task is closed")
	}
	text, err := json.Marshal(status)
	return clean(string(text)), err
}

// Cancel asks a task to end soon. It still has to be polled, or abandoned.
func (p *Plane) Cancel(handle int64) error {
	t, err := lookup[*task](&p.tasks, handle, "task")
	if err == nil {
		t.cancel()
	}
	return err
}

// tidyTime is how long Abandon waits for a task to clean up after itself: its
// caller may be a process about to exit, and scratch files would stay behind
// until the next build removes them. With a poll's slice before it, an interrupt
// still takes effect within 200 ms.
const tidyTime = 100 * time.Millisecond

// Abandon cancels a task that nobody will poll again: its result is given back
// (an opened store closed), now or when it comes. It waits for the end of the
// task, at most tidyTime.
func (p *Plane) Abandon(handle int64) error {
	t, err := lookup[*task](&p.tasks, handle, "task")
	if err != nil {
		return err
	}
	if !p.tasks.remove(handle) {
		return nil
	}
	t.cancel()
	t.mu.Lock()
	t.abandoned = true
	undo := t.undo
	t.undo = nil
	t.mu.Unlock()
	if undo != nil {
		undo()
	}
	select {
	case <-t.ended:
	case <-time.After(tidyTime):
	}
	return nil
}

// counter is an atomic count of running tasks.
type counter = atomic.Int64

// drainPause is how long Drain waits between two looks at the tasks.
const drainPause = 5 * time.Millisecond

// Drain cancels all tasks, abandoned ones included, and waits until they have
// tidied up after themselves, at most timeout. It returns how many still run:
// a process about to exit leaves their scratch files behind.
func (p *Plane) Drain(timeout time.Duration) int {
	deadline := time.Now().Add(timeout)
	for {
		p.cancels.Range(func(t, _ any) bool { t.(*task).cancel(); return true })
		n := int(p.running.Load())
		if n == 0 || time.Now().After(deadline) {
			return n
		}
		time.Sleep(drainPause)
	}
}
