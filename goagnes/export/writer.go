package export

// Writing a folder: taking it, and finishing it.

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"reflect"
	"sort"
	"strconv"
	"strings"
	"time"

	"github.com/goagnes/goagnes/goagnes/storage"
	"golang.org/x/sys/unix"
)

// Writer writes one export. It is used by one goroutine.
type Writer struct {
	dir   string
	fsys  storage.FS
	lock  io.Closer
	index Index
	done  bool
	open  *epochWriter
}

// Peek returns the index of what lies in a folder, finished or not; nil where
// there is nothing of an export.
func Peek(fsys storage.FS, dir string) (x *Index, finished bool, err error) {
	if fsys == nil {
		fsys = storage.OS
	}
	for _, name := range []string{IndexFile, PartialFile} {
		path := filepath.Join(dir, name)
		b, err := readWhole(fsys, path, MaxIndex)
		if errors.Is(err, unix.ENOTDIR) {
			return nil, false, &MismatchError{dir, "is no folder; give a new or empty folder"}
		}
		if err != nil {
			return nil, false, err
		}
		if b != nil {
			x, err := decodeIndex(path, b)
			return x, name == IndexFile, err
		}
	}
	return nil, false, nil
}

// patience is how long Create waits for a folder that another Writer holds: one that
// was interrupted a moment ago may not have let go of it yet.
const patience = 2 * time.Second

// Create takes a folder, which is made where it is missing, for the export that
// x describes by its store, settings and arrays. What an earlier Writer of the
// same export left there is gone on with; an export of something else is refused
// by a *MismatchError that names the difference, or given up with overwrite. A
// folder with other files is refused.
func Create(fsys storage.FS, dir string, x Index, overwrite bool) (w *Writer, err error) {
	if fsys == nil {
		fsys = storage.OS
	}
	x.Format, x.Version, x.Epochs, x.Totals = Format, Version, nil, nil
	x.setID()
	made := fsys.Mkdir(dir, 0o755)
	switch {
	case errors.Is(made, fs.ErrNotExist), errors.Is(made, unix.ENOTDIR):
		return nil, &MismatchError{dir, "the folder that is to hold it does not exist; make it, or give another"}
	case made != nil && !errors.Is(made, fs.ErrExist):
		return nil, made
	}
	if st, err := fsys.Stat(dir); err == nil && !st.IsDir() {
		return nil, &MismatchError{dir, "is no folder; give a new or empty folder"}
	}
	// Also where it was there: by a run that was killed before it came this far.
	// What others have made, in a directory that may not be read, is theirs.
	if err := fsys.SyncDir(filepath.Dir(filepath.Clean(dir))); err != nil && (made == nil || !errors.Is(err, fs.ErrPermission)) {
		return nil, err
	}
	lock, err := fsys.LockDir(dir)
	for end := time.Now().Add(patience); err == nil && lock == nil && time.Now().Before(end); {
		time.Sleep(patience / 100)
		lock, err = fsys.LockDir(dir)
	}
	if err != nil {
		return nil, err
	}
	if lock == nil {
		return nil, &MismatchError{dir, "another export is being written to this folder"}
	}
	w = &Writer{dir: dir, fsys: fsys, lock: lock, index: x}
	if err := w.take(overwrite); err != nil {
		return nil, errors.Join(err, w.Close())
	}
	return w, nil
}

// take decides by what lies in the folder.
func (w *Writer) take(overwrite bool) error {
	old, finished, err := Peek(w.fsys, w.dir)
	var fault *Error
	if errors.As(err, &fault) && overwrite {
		old, err = &Index{}, nil // an export that cannot be read, to be replaced
	}
	if err != nil {
		return err
	}
	if old == nil {
		return w.claim()
	}
	same := old.ID == w.index.ID
	switch {
	case overwrite:
		// From here on the folder is the new export's; the old one no longer opens
		// before the first of its files is gone.
		if err := w.begin(); err != nil {
			return err
		}
		if err := w.remove(IndexFile); err != nil {
			return err
		}
		return w.clear(func(string) bool { return false })
	case !same:
		state := "an unfinished export"
		if finished {
			state = "a finished export"
		}
		return &MismatchError{w.dir, fmt.Sprintf("holds %s of other settings: %s; give these settings, another folder, or overwrite", state, difference(old, &w.index))}
	case finished:
		w.index, w.done = *old, true
		return w.remove(PartialFile)
	}
	return nil
}

// claim takes a folder that should be empty.
func (w *Writer) claim() error {
	entries, err := w.fsys.ReadDir(w.dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if e.Name() != PartialFile+".new" {
			return &MismatchError{w.dir, fmt.Sprintf("holds %s and no export; give a new or empty folder", e.Name())}
		}
	}
	return w.begin()
}

func (w *Writer) begin() error {
	return publish(w.fsys, filepath.Join(w.dir, PartialFile), w.index.encode())
}

// remove removes a file of the folder, if it is there, durably.
func (w *Writer) remove(name string) error {
	err := w.fsys.Remove(filepath.Join(w.dir, name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return w.fsys.SyncDir(w.dir)
}

// clear removes the epochs' folders that are not to be kept, and unfinished
// documents. Nothing else of a folder is touched.
func (w *Writer) clear(keep func(name string) bool) error {
	entries, err := w.fsys.ReadDir(w.dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		n, isEpoch := strings.CutPrefix(e.Name(), folderPrefix)
		if _, err := strconv.ParseUint(n, 10, 32); isEpoch && err == nil && e.IsDir() && !keep(e.Name()) ||
			e.Name() == IndexFile+".new" || e.Name() == PartialFile+".new" {
			if err := w.fsys.RemoveAll(filepath.Join(w.dir, e.Name())); err != nil {
				return err
			}
		}
	}
	return nil
}

const folderPrefix = "epoch-"

func folder(epoch uint32) string { return folderPrefix + strconv.FormatUint(uint64(epoch), 10) }

// difference names the first settings in which two exports differ.
func difference(old, now *Index) string {
	flat := func(x *Index) map[string]any {
		b, err := json.Marshal(x.Settings)
		if err != nil {
			panic("export: settings cannot be marshalled: " + err.Error())
		}
		m := map[string]any{}
		d := json.NewDecoder(strings.NewReader(string(b)))
		d.UseNumber()
		if err := d.Decode(&m); err != nil {
			panic("export: settings cannot be read: " + err.Error())
		}
		names := []string{}
		for _, a := range x.Arrays {
			names = append(names, a.Name+" "+a.DType+" "+fmt.Sprint(a.Row))
		}
		m["arrays"] = names
		m["store build id"] = x.Store.BuildID
		return m
	}
	a, b := flat(old), flat(now)
	keys := []string{}
	for k := range b {
		keys = append(keys, k)
	}
	sort.Strings(keys)
	parts := []string{}
	for _, k := range keys {
		if !reflect.DeepEqual(a[k], b[k]) {
			parts = append(parts, fmt.Sprintf("%s was %v, is %v", k, a[k], b[k]))
		}
	}
	return strings.Join(parts, "; ")
}

// Finished tells that the folder held the whole export already.
func (w *Writer) Finished() bool { return w.done }

// Index returns the index as far as it goes.
func (w *Writer) Index() *Index { return &w.index }

// Finish puts the index in its place. All epochs must have been written.
func (w *Writer) Finish() error {
	if w.done {
		return nil
	}
	x := &w.index
	if len(x.Epochs) != x.Settings.Epochs {
		panic("export: Finish before all epochs are written")
	}
	x.Totals = &Totals{}
	keep := map[string]bool{}
	for i := range x.Epochs {
		x.Totals.add(x.Epochs[i].Totals)
		keep[x.Epochs[i].Folder] = true
	}
	if err := w.clear(func(name string) bool { return keep[name] }); err != nil {
		return err
	}
	if err := publish(w.fsys, filepath.Join(w.dir, IndexFile), x.encode()); err != nil {
		return err
	}
	w.done = true
	return w.remove(PartialFile)
}

// Close lets go of the folder. What is not finished can be gone on with.
func (w *Writer) Close() error {
	var err error
	if w.open != nil {
		err = w.open.close()
		w.open = nil
	}
	if w.lock != nil {
		err = errors.Join(err, w.lock.Close())
		w.lock = nil
	}
	return err
}
