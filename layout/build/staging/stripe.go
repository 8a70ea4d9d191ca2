package staging

// Stripe directories: the sections of a store may be spread over several
// directories, each on an SSD of its own. A stripe directory has its final,
// unique name from the beginning and no STRIPE file until it is whole; the store
// that names it comes into being with the one rename of the staging directory.

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"

	"github.com/goagnes/goagnes/goagnes/storage"
	"github.com/goagnes/goagnes/layout"
	"github.com/goagnes/goagnes/layout/build/fault"
)

// stripeUnit is the least unit of striping, in bytes: large enough that a unit is
// read at the device's bandwidth.
const stripeUnit = 256 << 10

// stripeStage are the stripe directories of a store under construction.
type stripeStage struct {
	fsys    storage.FS
	parents []string // as given
	dirs    []string
	locks   []io.Closer
	done    bool
}

// stripeName matches the stripe directories of a store of that name: number,
// process, number of the build.
func stripeName(final string) *regexp.Regexp {
	return regexp.MustCompile(`^` + regexp.QuoteMeta(filepath.Base(final)) + `\.stripe-[0-9]+-[0-9]+-[0-9]+$`)
}

// stageStripes makes a stripe directory for the store in each of the parents,
// which must exist. Directories of builds that were killed are removed; finished ones that the store at final does not
// name are left and told by note.
func stageStripes(fsys storage.FS, parents []string, final string, note func(string)) (_ *stripeStage, err error) {
	s := &stripeStage{fsys: fsys}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.discard())
		}
	}()
	if len(parents) > layout.MaxStripes {
		return s, fault.Usage("%d stripe directories, at most %d are allowed", len(parents), layout.MaxStripes)
	}
	named := namedStripes(fsys, final)
	for i, given := range parents {
		parent, err := filepath.Abs(given)
		if err != nil {
			return s, fault.IO(err, "finding %s", given)
		}
		if fi, err := fsys.Stat(parent); errors.Is(err, fs.ErrNotExist) || err == nil && !fi.IsDir() {
			return s, fault.Usage("stripe directory %s is missing or no directory: make it, on the SSD that it is to use", given)
		} else if err != nil {
			return s, fault.IO(err, "looking at %s", given)
		}
		if within(parent, final) {
			return s, fault.Usage("stripe directory %s lies in the store %s, which is replaced as a whole: name a directory beside it", given, final)
		}
		s.parents = append(s.parents, parent)
		if err := removeStripeLeftovers(fsys, parent, final, named, note); err != nil {
			return s, err
		}
		dir := ""
		for n := 0; ; n++ { // a directory of a store that was moved may have the name
			dir = filepath.Join(parent, fmt.Sprintf("%s.stripe-%d-%d-%d", filepath.Base(final), i, os.Getpid(), n))
			if err := fsys.Mkdir(dir, 0o777); err == nil {
				break
			} else if !errors.Is(err, fs.ErrExist) {
				return s, fault.IO(err, "making a stripe directory")
			}
		}
		s.dirs = append(s.dirs, dir)
		lock, err := fsys.LockDir(dir)
		if err != nil {
			return s, fault.IO(err, "locking a stripe directory")
		}
		if lock == nil {
			return s, fault.Usage("%s: another build took it for a leftover: try again", dir)
		}
		s.locks = append(s.locks, lock)
	}
	return s, nil
}

// removeStripeLeftovers removes the stripe directories in parent that builds of
// the store at final left unfinished and whose lock is free.
func removeStripeLeftovers(fsys storage.FS, parent, final string, named map[string]bool, note func(string)) error {
	entries, err := fsys.ReadDir(parent)
	if err != nil {
		return fault.IO(err, "listing %s", parent)
	}
	name := stripeName(final)
	for _, e := range entries {
		dir := filepath.Join(parent, e.Name())
		if !e.IsDir() || !name.MatchString(e.Name()) || named[dir] {
			continue
		}
		lock, err := fsys.LockDir(dir)
		if err != nil || lock == nil {
			continue
		}
		if _, serr := fsys.Lstat(filepath.Join(dir, layout.StripeFile)); serr == nil {
			note(fmt.Sprintf("%s is a finished stripe directory that %s does not name: remove it, unless its store was moved", dir, final))
		} else {
			err = fsys.RemoveAll(dir)
		}
		lock.Close()
		if err != nil {
			return fault.IO(err, "removing what a killed build left behind")
		}
	}
	return nil
}

// finish marks the directories as whole and makes their entries durable.
func (s *stripeStage) finish(id layout.BuildID) error {
	for i, dir := range s.dirs {
		identity := layout.Stripe{ID: id, Index: i, Count: len(s.dirs)}
		// Renamed when its bytes are safe: a directory that holds the file is whole,
		// whatever a loss of power has left of it.
		file := filepath.Join(dir, layout.StripeFile)
		if err := writeSynced(s.fsys, file+".new", identity.Encode()); err != nil {
			return err
		}
		if err := s.fsys.Rename(file+".new", file, 0); err != nil {
			return fault.IO(err, "finishing a stripe directory")
		}
		if err := s.fsys.SyncDir(dir); err != nil {
			return fault.IO(err, "syncing a stripe directory")
		}
		if err := s.fsys.SyncDir(s.parents[i]); err != nil {
			return fault.IO(err, "syncing %s", s.parents[i])
		}
	}
	return nil
}

// commit gives the directories to the store that names them.
func (s *stripeStage) commit() {
	s.done = true
	s.unlock()
}

// discard removes the directories unless they were committed.
func (s *stripeStage) discard() error {
	if s.done {
		return nil
	}
	s.done = true
	var errs []error
	for i, dir := range s.dirs {
		err := s.fsys.RemoveAll(dir)
		if err == nil {
			err = s.fsys.SyncDir(s.parents[i]) // before that which names it goes
		}
		if err != nil {
			errs = append(errs, fault.IO(err, "removing the unfinished stripe directory %s", dir))
		}
	}
	s.unlock()
	return errors.Join(errs...)
}

func (s *stripeStage) unlock() {
	for _, lock := range s.locks {
		lock.Close()
	}
	s.locks = nil
}

// within reports whether the directory is outer or lies in it.
func within(dir, outer string) bool {
	if d, err := filepath.EvalSymlinks(dir); err == nil {
		dir = d
	}
	if o, err := filepath.EvalSymlinks(outer); err == nil {
		outer = o
	}
	rel, err := filepath.Rel(outer, dir)
	return err == nil && filepath.IsLocal(rel)
}

// namedStripes are the stripe directories of the store at a path, if there is one.
func namedStripes(fsys storage.FS, path string) map[string]bool {
	named := map[string]bool{}
	if m, err := storage.ReadManifest(fsys, path); err == nil {
		for _, dir := range m.Stripes {
			named[dir] = true
		}
	}
	return named
}

// removeWithStripes removes the directory of a store that was replaced or not
// finished, after the stripe directories that it names and keep does not. One that
// is not its own is left, and told by note. After an
// error the next build finds by the directory what is left.
func removeWithStripes(fsys storage.FS, dir string, keep map[string]bool, note func(string)) error {
	m, err := storage.ReadManifest(fsys, dir)
	var bad *layout.Error
	if errors.As(err, &bad) {
		m, err = &layout.Manifest{}, nil // no store, or not to be told which directories are its own
	}
	if err != nil {
		return err
	}
	for i, stripe := range m.Stripes {
		if keep[stripe] {
			continue
		}
		if _, err := fsys.Lstat(stripe); errors.Is(err, fs.ErrNotExist) {
			continue
		}
		err := storage.CheckStripe(fsys, m, i, stripe)
		if errors.As(err, &bad) {
			note(fmt.Sprintf("%s, of a store that was replaced or not finished, is left as it is: %v", stripe, err))
			continue
		}
		if err == nil {
			err = fsys.RemoveAll(stripe)
		}
		if err == nil { // before that which names it: nothing would find it otherwise
			err = fsys.SyncDir(filepath.Dir(stripe))
		}
		if err != nil {
			return err
		}
	}
	return fsys.RemoveAll(dir)
}
