package staging

// The staging directory: a store grows beside its final name under a lock and is
// renamed into place when it is whole.

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/goagnes/goagnes/goagnes/storage"
	"github.com/goagnes/goagnes/layout"
	"github.com/goagnes/goagnes/layout/build/fault"
)

// staging is the locked directory in which a store is written.
type staging struct {
	fsys   storage.FS
	final  string // the store's path
	parent string
	dir    string // ".NAME.building-PID-N" in parent
	lock   io.Closer
	done   bool
}

func stagingPrefix(final string) string { return "." + filepath.Base(final) + ".building-" }

func replacedPrefix(final string) string { return "." + filepath.Base(final) + ".replaced-" }

// stagingSuffix is what follows the prefix: process and number.
var stagingSuffix = regexp.MustCompile(`^[0-9]+-[0-9]+$`)

// stage checks that path can take a store and makes its staging directory. What
// builds that were killed have left is put in order first, also where the path is
// refused.
func stage(fsys storage.FS, path string, overwrite bool, note func(string)) (*staging, error) {
	final, err := filepath.Abs(path)
	if err != nil {
		return nil, fault.IO(err, "finding %s", path)
	}
	s := &staging{fsys: fsys, final: final, parent: filepath.Dir(final)}
	if fi, err := fsys.Stat(s.parent); err != nil {
		return nil, fault.Usage("%s: the directory that is to hold the store does not exist", s.parent)
	} else if !fi.IsDir() {
		return nil, fault.Usage("%s is no directory", s.parent)
	}
	if err := s.recover(note); err != nil {
		return nil, err
	}
	if err := checkTarget(fsys, final, overwrite); err != nil {
		return nil, err
	}
	for n := 0; n < 100; n++ {
		s.dir = filepath.Join(s.parent, fmt.Sprintf("%s%d-%d", stagingPrefix(final), os.Getpid(), n))
		if err := fsys.Mkdir(s.dir, 0o777); errors.Is(err, fs.ErrExist) {
			continue
		} else if err != nil {
			return nil, fault.IO(err, "making the directory in which the store is written")
		}
		if s.lock, err = fsys.LockDir(s.dir); err != nil {
			return nil, errors.Join(fault.IO(err, "locking the directory in which the store is written"), fsys.Remove(s.dir))
		}
		if s.lock != nil {
			return s, nil
		}
		// Another build took the fresh directory for a leftover: try again.
	}
	return nil, fault.Usage("%s: a hundred builds of %s are under way", s.parent, filepath.Base(final))
}

// checkTarget refuses a path that holds something else than a store that may be
// replaced.
func checkTarget(fsys storage.FS, final string, overwrite bool) error {
	fi, err := fsys.Lstat(final)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fault.IO(err, "looking at %s", final)
	}
	if !overwrite {
		return fault.Usage("%s exists already: choose another path or set overwrite", final)
	}
	if !fi.IsDir() {
		return fault.Usage("%s is no directory: overwrite replaces a store only", final)
	}
	if _, err := fsys.Lstat(filepath.Join(final, layout.ManifestFile)); err == nil {
		return nil
	}
	if names, err := fsys.ReadDir(final); err == nil && len(names) == 0 {
		return nil
	}
	return fault.Usage("%s is no store (it has no %s): overwrite replaces a store only", final, layout.ManifestFile)
}

// recover puts in order what builds that were killed have left beside the store.
// Staging directories whose lock is free are removed, and with them the stripe
// directories that they name. A store that was moved away to be replaced goes back
// where nothing has taken its place, and is removed otherwise.
func (s *staging) recover(note func(string)) error {
	entries, err := s.fsys.ReadDir(s.parent)
	if err != nil {
		return fault.IO(err, "listing %s", s.parent)
	}
	for _, e := range entries {
		prefix := stagingPrefix(s.final)
		if !strings.HasPrefix(e.Name(), prefix) {
			prefix = replacedPrefix(s.final)
		}
		if suffix, ok := strings.CutPrefix(e.Name(), prefix); !ok || !e.IsDir() || !stagingSuffix.MatchString(suffix) {
			continue
		}
		dir := filepath.Join(s.parent, e.Name())
		lock, err := s.fsys.LockDir(dir)
		if err != nil || lock == nil {
			continue
		}
		err = s.recoverOne(dir, prefix, note)
		lock.Close()
		if err != nil {
			return err
		}
	}
	return nil
}

// recoverOne does so for one directory, which is locked.
func (s *staging) recoverOne(dir, prefix string, note func(string)) error {
	if _, err := s.fsys.Lstat(s.final); prefix == replacedPrefix(s.final) && errors.Is(err, fs.ErrNotExist) {
		if err := s.fsys.Rename(dir, s.final, 0); err != nil {
			return fault.IO(err, "putting back the store that a killed build had moved away")
		}
		return nil
	}
	if err := removeWithStripes(s.fsys, dir, namedStripes(s.fsys, s.final), note); err != nil {
		return fault.IO(err, "removing %s, which a killed build left behind", dir)
	}
	return nil
}

// commit makes the finished directory the store: it is synced, renamed into
// place, and the parent is synced. A store that was there is replaced in one
// step where the file system can exchange names, and removed then; note is told
// what of it had to be left.
func (s *staging) commit(overwrite bool, note func(string)) error {
	if err := s.fsys.SyncDir(s.dir); err != nil {
		return fault.IO(err, "syncing %s", s.dir)
	}
	// Read before, so that an error can say what of the old store there may still be.
	stripes := slices.Sorted(maps.Keys(namedStripes(s.fsys, s.final)))
	old, err := s.rename(overwrite)
	if err != nil {
		return err
	}
	kept := strings.Join(append([]string{old}, stripes...), ", ")
	s.done = true
	s.lock.Close()
	if err := s.fsys.SyncDir(s.parent); err != nil {
		if old == "" {
			return fault.IO(err, "the store is in place, but a loss of power may undo that: syncing %s", s.parent)
		}
		// The old store must not go before it is certain that the new one stays.
		return fault.IO(err, "the store is in place, but a loss of power may undo that: the one it replaces is kept (%s) until the next build of this name; syncing %s",
			kept, s.parent)
	}
	if old == "" {
		return nil
	}
	// Under a lock of its own: it may lie where a next build would stage, which would
	// take it for a leftover and grow under the same name while it is removed here.
	lock, err := s.fsys.LockDir(old)
	if err == nil && lock == nil {
		return nil // another build removes it
	}
	if err == nil {
		err = removeWithStripes(s.fsys, old, namedStripes(s.fsys, s.final), note)
		lock.Close()
	}
	if err != nil {
		return fault.IO(err, "the store is in place, but the one it replaces could not be removed whole; the next build of this name removes it (%s)", kept)
	}
	return nil
}

// rename moves the directory to its final name and returns where the store that
// it replaces lies now, if there was one.
func (s *staging) rename(overwrite bool) (old string, err error) {
	err = s.fsys.Rename(s.dir, s.final, unix.RENAME_NOREPLACE)
	if err == nil {
		return "", nil
	}
	if errors.Is(err, unix.EINVAL) {
		// The file system knows no flags. rename(2) replaces empty directories only.
		if _, serr := s.fsys.Lstat(s.final); errors.Is(serr, fs.ErrNotExist) {
			err = s.fsys.Rename(s.dir, s.final, 0)
		} else {
			err = unix.EEXIST
		}
		if err == nil {
			return "", nil
		}
	}
	if !errors.Is(err, unix.EEXIST) {
		return "", fault.IO(err, "renaming the finished store to %s", s.final)
	}
	if err := checkTarget(s.fsys, s.final, overwrite); err != nil {
		return "", err // it appeared while the build ran
	}
	err = s.fsys.Rename(s.dir, s.final, unix.RENAME_EXCHANGE)
	if err == nil {
		return s.dir, nil
	}
	if !errors.Is(err, unix.EINVAL) {
		return "", fault.IO(err, "exchanging the finished store with %s", s.final)
	}
	// The file system cannot exchange names. Not the staging prefix: the next build
	// puts the store back if this one is killed between the two renames; while it
	// lives, the lock keeps others from doing so.
	lock, err := s.fsys.LockDir(s.final)
	if err != nil {
		return "", fault.IO(err, "locking the store that is replaced")
	}
	if lock != nil {
		defer lock.Close()
	}
	for n := 0; ; n++ {
		old = filepath.Join(s.parent, fmt.Sprintf("%s%d-%d", replacedPrefix(s.final), os.Getpid(), n))
		if _, err := s.fsys.Lstat(old); errors.Is(err, fs.ErrNotExist) {
			break
		} else if err != nil {
			return "", fault.IO(err, "looking at %s", old)
		}
	}
	if err := s.fsys.Rename(s.final, old, 0); err != nil {
		return "", fault.IO(err, "moving away the store that is replaced")
	}
	if err := s.fsys.Rename(s.dir, s.final, 0); err != nil {
		if back := s.fsys.Rename(old, s.final, 0); back != nil {
			return "", fault.IO(err, "renaming the finished store; the old one is now %s", old)
		}
		return "", fault.IO(err, "renaming the finished store to %s", s.final)
	}
	return old, nil
}

// discard removes the directory unless it was committed.
func (s *staging) discard() error {
	if s.done {
		return nil
	}
	s.done = true
	err := s.fsys.RemoveAll(s.dir)
	s.lock.Close()
	if err != nil {
		return fault.IO(err, "removing the unfinished store %s", s.dir)
	}
	return nil
}

// leave leaves the directory to the next build, which finds by it what else is
// left.
func (s *staging) leave() error {
	if s.done {
		return nil
	}
	s.done = true
	s.lock.Close()
	return fmt.Errorf("%s is left, by which the next build finds and removes them", s.dir)
}
