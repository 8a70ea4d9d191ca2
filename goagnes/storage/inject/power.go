package inject

// Loss of power: a file system that remembers in which order its files and names
// were changed and made durable, so that what a disk may hold when the power
// goes can be told for every moment of a run.

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/goagnes/goagnes/goagnes/storage"
)

// Recorder is a file system that passes everything on to another and records
// every change below one directory, its root: what is there when the recording
// begins counts as durable. One recorded run then gives what survives a loss of
// power at each of its moments; see [Recorder.Survivor].
//
// The rules are the weakest that POSIX and Linux file systems keep. The bytes
// and the size of a file are durable from the end of a Sync of it on, as far as
// their writes had ended when it began; until then any of its pages may have
// reached the disk or not. A name is durable from the end of a SyncDir of the
// directory that holds it: syncing a file does not make its name durable. A
// rename within a directory happens whole or not at all.
//
// Every written byte is kept in memory: recordings are for small runs.
type Recorder struct {
	storage.FS
	root string

	mu struct {
		sync.Mutex
		nodes []node // files and directories; 0 is the root
		log   []event
	}
}

// node is a file or directory as it was when the recording began, and its names
// now.
type node struct {
	dir   bool
	bytes []byte         // of a file, at first
	first map[string]int // entries of a directory, at first
	names map[string]int // entries now
}

type eventKind uint8

const (
	eventLink     eventKind = iota // a name of a new file or directory
	eventUnlink                    // a name goes
	eventRename                    // a name becomes another, which goes or is exchanged
	eventWrite                     // a write begins
	eventWritten                   // and has ended
	eventSize                      // a file is cut or grows
	eventSync                      // a Sync or SyncDir begins
	eventSynced                    // and has ended
	eventSyncFail                  // or failed
)

// event is one step of the recorded run.
type event struct {
	kind     eventKind
	node     int    // the file, or the directory whose entry is changed
	name     string // entry
	child    int    // what the entry names
	to       string // of a rename
	over     int    // what to named, -1 for nothing
	exchange bool
	at       int64  // offset of a write, size of a change of size
	data     []byte // written
	grow     bool   // a change of size that never cuts
	begun    int    // of an end: the event that began it
	n        int    // bytes that a write has moved
}

// Record returns a recorder over base, nil for the operating system's file
// system, of all that happens below root, an existing directory.
func Record(base storage.FS, root string) (*Recorder, error) {
	if base == nil {
		base = storage.OS
	}
	root, err := filepath.Abs(root)
	if err != nil {
		return nil, err
	}
	r := &Recorder{FS: base, root: root}
	_, err = r.read(root)
	return r, err
}

// read takes a directory or file into the recording as it is.
func (r *Recorder) read(path string) (int, error) {
	fi, err := r.FS.Lstat(path)
	if err != nil {
		return 0, err
	}
	id := len(r.mu.nodes)
	r.mu.nodes = append(r.mu.nodes, node{dir: fi.IsDir()})
	if !fi.IsDir() {
		h, err := r.FS.OpenFile(path, os.O_RDONLY, 0)
		if err != nil {
			return 0, err
		}
		b := make([]byte, fi.Size())
		n, err := h.ReadAt(b, 0)
		if err = errors.Join(err, h.Close()); n < len(b) {
			return 0, err
		}
		r.mu.nodes[id].bytes = b
		return id, nil
	}
	first, names := map[string]int{}, map[string]int{}
	entries, err := r.FS.ReadDir(path)
	if err != nil {
		return 0, err
	}
	for _, e := range entries {
		child, err := r.read(filepath.Join(path, e.Name()))
		if err != nil {
			return 0, err
		}
		first[e.Name()], names[e.Name()] = child, child
	}
	r.mu.nodes[id].first, r.mu.nodes[id].names = first, names
	return id, nil
}

// placeLocked returns the directory below the root that holds a path's name, and
// the name; false for a path elsewhere or the root itself.
func (r *Recorder) placeLocked(path string) (dir int, name string, ok bool) {
	path, err := filepath.Abs(path)
	if err != nil {
		return 0, "", false
	}
	rel, err := filepath.Rel(r.root, path)
	if err != nil || rel == "." || !filepath.IsLocal(rel) {
		return 0, "", false
	}
	parts := strings.Split(rel, string(filepath.Separator))
	for _, part := range parts[:len(parts)-1] {
		child, there := r.mu.nodes[dir].names[part]
		if !there || !r.mu.nodes[child].dir {
			return 0, "", false
		}
		dir = child
	}
	return dir, parts[len(parts)-1], true
}

// nodeLocked returns what a path below the root names.
func (r *Recorder) nodeLocked(path string) (int, bool) {
	if abs, err := filepath.Abs(path); err == nil && abs == r.root {
		return 0, true
	}
	dir, name, ok := r.placeLocked(path)
	if !ok {
		return 0, false
	}
	child, ok := r.mu.nodes[dir].names[name]
	return child, ok
}

func (r *Recorder) logLocked(e event) int {
	r.mu.log = append(r.mu.log, e)
	return len(r.mu.log) - 1
}

// makeLocked records a new name.
func (r *Recorder) makeLocked(dir int, name string, n node) int {
	id := len(r.mu.nodes)
	r.mu.nodes = append(r.mu.nodes, n)
	r.mu.nodes[dir].names[name] = id
	r.logLocked(event{kind: eventLink, node: dir, name: name, child: id})
	return id
}

// OpenFile implements storage.FS.
func (r *Recorder) OpenFile(path string, flags int, perm fs.FileMode) (storage.Handle, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	dir, name, ok := r.placeLocked(path)
	h, err := r.FS.OpenFile(path, flags, perm)
	if !ok {
		return h, err
	}
	id, known := r.mu.nodes[dir].names[name]
	if err != nil {
		// O_DIRECT may be refused after the file has been made.
		if _, serr := r.FS.Lstat(path); serr == nil && !known && flags&os.O_CREATE != 0 {
			r.makeLocked(dir, name, node{})
		}
		return nil, err
	}
	switch {
	case !known && flags&os.O_CREATE == 0:
		h.Close()
		panic("inject: " + path + " was made past the recorder")
	case !known:
		id = r.makeLocked(dir, name, node{})
	case flags&os.O_TRUNC != 0:
		r.logLocked(event{kind: eventSize, node: id})
	}
	w, _ := h.(storage.Watcher)
	return &recorded{Handle: h, below: w, r: r, id: id, begun: map[*byte]int{}}, nil
}

// Mkdir implements storage.FS.
func (r *Recorder) Mkdir(path string, perm fs.FileMode) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.FS.Mkdir(path, perm); err != nil {
		return err
	}
	if dir, name, ok := r.placeLocked(path); ok {
		r.makeLocked(dir, name, node{dir: true, names: map[string]int{}})
	}
	return nil
}

// Rename implements storage.FS; between two directories it is not recorded and
// panics.
func (r *Recorder) Rename(from, to string, flags uint) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.FS.Rename(from, to, flags); err != nil {
		return err
	}
	dir, name, ok := r.placeLocked(from)
	dir2, name2, ok2 := r.placeLocked(to)
	if ok != ok2 || dir != dir2 {
		panic("inject: a rename from one directory to another is not recorded")
	}
	if !ok {
		return nil
	}
	names := r.mu.nodes[dir].names
	e := event{kind: eventRename, node: dir, name: name, child: names[name], to: name2, over: -1, exchange: flags&unix.RENAME_EXCHANGE != 0}
	if over, there := names[name2]; there {
		e.over = over
	}
	delete(names, name)
	names[name2] = e.child
	if e.exchange {
		names[name] = e.over
	}
	r.logLocked(e)
	return nil
}

// Remove implements storage.FS.
func (r *Recorder) Remove(path string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.removeLocked(path)
}

func (r *Recorder) removeLocked(path string) error {
	if err := r.FS.Remove(path); err != nil {
		return err
	}
	if dir, name, ok := r.placeLocked(path); ok {
		r.logLocked(event{kind: eventUnlink, node: dir, name: name, child: r.mu.nodes[dir].names[name]})
		delete(r.mu.nodes[dir].names, name)
	}
	return nil
}

// RemoveAll implements storage.FS, one name after another, as any file system
// has to.
func (r *Recorder) RemoveAll(path string) error {
	entries, err := r.FS.ReadDir(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, unix.ENOTDIR) {
		return err
	}
	for _, e := range entries {
		if err := r.RemoveAll(filepath.Join(path, e.Name())); err != nil {
			return err
		}
	}
	if err := r.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// SyncDir implements storage.FS.
func (r *Recorder) SyncDir(path string) error {
	r.mu.Lock()
	id, ok := r.nodeLocked(path)
	r.mu.Unlock()
	if !ok {
		return r.FS.SyncDir(path)
	}
	return r.sync(id, func() error { return r.FS.SyncDir(path) })
}

func (r *Recorder) sync(id int, do func() error) error {
	r.mu.Lock()
	begun := r.logLocked(event{kind: eventSync, node: id})
	r.mu.Unlock()
	err := do()
	r.mu.Lock()
	defer r.mu.Unlock()
	kind := eventSynced
	if err != nil {
		kind = eventSyncFail
	}
	r.logLocked(event{kind: kind, node: id, begun: begun})
	return err
}

// Moments returns the number of moments of the run so far at which the power may
// go: before each recorded step, and after the last.
func (r *Recorder) Moments() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.mu.log) + 1
}

// Moment describes the step before which moment i lies.
func (r *Recorder) Moment(i int) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if i == len(r.mu.log) {
		return "the end"
	}
	e := &r.mu.log[i]
	path := r.pathLocked(e.node)
	switch e.kind {
	case eventLink:
		return "make " + filepath.Join(path, e.name)
	case eventUnlink:
		return "remove " + filepath.Join(path, e.name)
	case eventRename:
		return fmt.Sprintf("rename %s to %s", filepath.Join(path, e.name), e.to)
	case eventWrite:
		return fmt.Sprintf("write %s, bytes %d+%d", path, e.at, len(e.data))
	case eventWritten:
		return "end of a write to " + path
	case eventSize:
		return fmt.Sprintf("set the size of %s to %d", path, e.at)
	case eventSync:
		return "sync " + path
	}
	return "end of a sync of " + path
}

// pathLocked finds a name that a node has or had, for messages.
func (r *Recorder) pathLocked(id int) string {
	if id == 0 {
		return "."
	}
	for i := len(r.mu.log) - 1; i >= 0; i-- {
		if e := &r.mu.log[i]; e.kind == eventLink && e.child == id {
			return filepath.Join(r.pathLocked(e.node), e.name)
		}
	}
	for parent := range r.mu.nodes {
		for name, child := range r.mu.nodes[parent].first {
			if child == id {
				return filepath.Join(r.pathLocked(parent), name)
			}
		}
	}
	return fmt.Sprintf("file %d", id)
}

// recorded is an open file of a recorder.
type recorded struct {
	storage.Handle
	below storage.Watcher // the handle's own, nil where it has none
	r     *Recorder
	id    int
	begun map[*byte]int // writes under way, by the memory they come from; under r.mu
}

// Begin implements storage.Watcher.
func (h *recorded) Begin(t storage.Transfer) (until time.Time, err error) {
	if h.below != nil {
		if until, err = h.below.Begin(t); err != nil {
			return until, err
		}
	}
	if t.Write && len(t.Buf) > 0 {
		data := append([]byte{}, t.Buf...)
		h.r.mu.Lock()
		defer h.r.mu.Unlock()
		h.begun[&t.Buf[0]] = h.r.logLocked(event{kind: eventWrite, node: h.id, at: t.Offset, data: data})
	}
	return until, nil
}

// End implements storage.Watcher.
func (h *recorded) End(t storage.Transfer, n int, err error) (int, error) {
	if h.below != nil {
		n, err = h.below.End(t, n, err)
	}
	if t.Write && len(t.Buf) > 0 {
		h.r.mu.Lock()
		defer h.r.mu.Unlock()
		begun := h.begun[&t.Buf[0]]
		delete(h.begun, &t.Buf[0])
		h.r.logLocked(event{kind: eventWritten, node: h.id, begun: begun, n: n})
	}
	return n, err
}

// Sync implements storage.Handle.
func (h *recorded) Sync() error { return h.r.sync(h.id, h.Handle.Sync) }

// Truncate implements storage.Handle.
func (h *recorded) Truncate(size int64) error {
	h.r.mu.Lock()
	defer h.r.mu.Unlock()
	err := h.Handle.Truncate(size)
	if err == nil {
		h.r.logLocked(event{kind: eventSize, node: h.id, at: size})
	}
	return err
}

// Allocate implements storage.Handle.
func (h *recorded) Allocate(size int64) error {
	h.r.mu.Lock()
	defer h.r.mu.Unlock()
	err := h.Handle.Allocate(size)
	if err == nil {
		h.r.logLocked(event{kind: eventSize, node: h.id, at: size, grow: true})
	}
	return err
}
