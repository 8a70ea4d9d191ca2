// Package bind is the surface that gopy binds: functions of integers, strings
// and JSON, each one line over package control.
//
// Every function returns (value, error), because the binding loses the memory of
// a lone error, and every error reads "CLASS: message"; python/goagnes/_errors.py
// makes exceptions of them. No panic leaves a function. Nothing else may be
// exported here: gopy would bind it.
package bind

import (
	"errors"
	"math"
	"time"

	_ "github.com/go-python/gopy/gopyh" // part of every binding; kept for vendoring

	"github.com/goagnes/goagnes/capi/control"
	"github.com/goagnes/goagnes/capi/engine"
)

// call runs f without letting a panic or an error without a class through.
func call[T any](f func(*control.Plane) (T, error)) (value T, err error) {
	defer func() {
		if err != nil {
			err = errors.New(control.Text(err))
		}
	}()
	defer control.Guard(&err)
	return f(engine.Plane())
}

// do is call for functions that only fail or not.
func do(f func(*control.Plane) error) (int64, error) {
	return call(func(p *control.Plane) (int64, error) { return 0, f(p) })
}

// Version returns the version of the library.
func Version() (string, error) {
	return call(func(*control.Plane) (string, error) { return control.Version, nil })
}

// Start begins the work named kind, described by a JSON request, and returns a task.
func Start(kind string, request string) (int64, error) {
	return call(func(p *control.Plane) (int64, error) { return p.Start(kind, request) })
}

// Poll waits at most timeoutMillis for a task and returns its status as JSON.
// The poll that reports "done" or "failed" ends the task.
func Poll(task int64, timeoutMillis int64) (string, error) {
	return call(func(p *control.Plane) (string, error) {
		wait := min(max(timeoutMillis, 0), math.MaxInt32)
		return p.Poll(task, time.Duration(wait)*time.Millisecond)
	})
}

// Cancel asks a task to end soon.
func Cancel(task int64) (int64, error) {
	return do(func(p *control.Plane) error { return p.Cancel(task) })
}

// Abandon cancels a task whose result nobody will take.
func Abandon(task int64) (int64, error) {
	return do(func(p *control.Plane) error { return p.Abandon(task) })
}

// Drain cancels all tasks and waits at most timeoutMillis until they have tidied
// up. It returns how many still run.
func Drain(timeoutMillis int64) (int64, error) {
	return call(func(p *control.Plane) (int64, error) {
		wait := min(max(timeoutMillis, 0), math.MaxInt32)
		return int64(p.Drain(time.Duration(wait) * time.Millisecond)), nil
	})
}

// StoreInfo returns what a store says about itself, as JSON.
func StoreInfo(store int64) (string, error) {
	return call(func(p *control.Plane) (string, error) { return p.StoreInfo(store) })
}

// CloseStore closes a store and its loaders.
func CloseStore(store int64) (int64, error) {
	return do(func(p *control.Plane) error { return p.CloseStore(store) })
}

// CloseAll closes every store and loader, for the end of the process.
func CloseAll() (int64, error) {
	return do(func(p *control.Plane) error { return p.CloseAll() })
}

// BeginEpoch starts the next epoch of a loader and returns its number, which the
// data plane's next and LeaveEpoch want.
func BeginEpoch(loader int64) (int64, error) {
	return call(func(p *control.Plane) (int64, error) { return p.Begin(loader) })
}

// LeaveEpoch ends an epoch that nobody reads any more.
func LeaveEpoch(loader int64, epoch int64) (int64, error) {
	return do(func(p *control.Plane) error { return p.Leave(loader, epoch) })
}

// SetEpoch makes the next epoch of a loader the one numbered epoch.
func SetEpoch(loader int64, epoch int64) (int64, error) {
	return do(func(p *control.Plane) error { return p.SetEpoch(loader, epoch) })
}

// DescribeLoader returns a loader's "settings", "stats" or "explain" as JSON.
func DescribeLoader(loader int64, kind string) (string, error) {
	return call(func(p *control.Plane) (string, error) { return p.Describe(loader, kind) })
}

// CloseLoader closes a loader.
func CloseLoader(loader int64) (int64, error) {
	return do(func(p *control.Plane) error { return p.CloseLoader(loader) })
}

// OpenHandles returns how many stores, loaders and tasks are open.
func OpenHandles() (int64, error) {
	return call(func(p *control.Plane) (int64, error) { return int64(p.Open()), nil })
}
