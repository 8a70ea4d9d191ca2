package control

// Handles: integers that stand for open stores, loaders and tasks.

import (
	"maps"
	"slices"
	"sync"
)

// table maps handles to objects. The zero value is ready.
type table struct {
	mu      sync.Mutex
	last    int64
	objects map[int64]any
}

// add returns a new handle for object.
func (t *table) add(object any) (int64, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.objects) >= MaxHandles {
		return 0, errorf("usage", "%d stores and loaders are open; close some first", len(t.objects))
	}
	if t.objects == nil {
		t.objects = make(map[int64]any)
	}
	t.last++
	t.objects[t.last] = object
	return t.last, nil
}

// remove forgets a handle and reports whether it was there.
func (t *table) remove(handle int64) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	_, ok := t.objects[handle]
	delete(t.objects, handle)
	return ok
}

// all returns the handles in use, the newest first.
func (t *table) all() []int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	handles := slices.Collect(maps.Keys(t.objects))
	slices.Sort(handles)
	slices.Reverse(handles)
	return handles
}

// count returns how many handles are in use.
func (t *table) count() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.objects)
}

// lookup returns the object of a handle, which must be a T; what names T.
func lookup[T any](t *table, handle int64, what string) (T, error) {
	t.mu.Lock()
	object, ok := t.objects[handle]
	last := t.last
	t.mu.Unlock()
	typed, right := object.(T)
	switch {
	case right:
		return typed, nil
	case ok:
		return typed, errorf("usage", "handle %d is not a %s", handle, what)
	case handle >= 1 && handle <= last:
		return typed, errorf("closed", "the %s is closed", what)
	}
	return typed, errorf("usage", "there is no %s with handle %d", what, handle)
}
