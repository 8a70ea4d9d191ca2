package staging

// A store under construction as a whole: begun, measured, committed or discarded.

import (
	"encoding/binary"
	"errors"
	"io"
	"path/filepath"
	"slices"

	"github.com/goagnes/goagnes/goagnes/storage"
	"github.com/goagnes/goagnes/layout"
	"github.com/goagnes/goagnes/layout/build/fault"
	"github.com/goagnes/goagnes/layout/build/workspace"
)

// Store is a store under construction.
type Store struct {
	*workspace.Space
	stage    *staging
	stripes  *stripeStage
	unit     int64             // bytes that lie together in a stripe directory
	Buffer   int               // bytes a section's writer collects before it writes; it has two
	sections []layout.Section  // that are finished
	sums     map[string]digest // of their plain page checksums, by name
}

// Open begins a store at path, its sections striped over directories made in
// those of stripes, if there are any, in units of unit bytes or more. buffer is
// the size of a section's write buffers. The space's pool and scratch are not used yet.
func Open(w *workspace.Space, path string, overwrite bool, stripes []string, unit int64, buffer int) (*Store, error) {
	b := &Store{Space: w, unit: max(unit, stripeUnit), Buffer: buffer, sums: map[string]digest{}}
	var err error
	if b.stage, err = stage(w.FS, path, overwrite, w.Note); err != nil {
		return nil, err
	}
	if b.stripes, err = stageStripes(w.FS, stripes, b.stage.final, w.Note); err != nil {
		return nil, errors.Join(err, b.stage.discard())
	}
	return b, nil
}

// ScratchDirs are the directories beside a store at path, striped over directories
// made in those of stripes, if there are any: where scratch belongs unless another
// place is named.
func ScratchDirs(path string, stripes []string) []string {
	if len(stripes) == 0 {
		stripes = []string{filepath.Dir(filepath.Clean(path))}
	}
	dirs := slices.Clone(stripes)
	for i := range dirs {
		if abs, err := filepath.Abs(dirs[i]); err == nil {
			dirs[i] = abs
		}
	}
	return dirs
}

// Size adds up the files of the store.
func (b *Store) Size() (int64, error) {
	size := int64(0)
	for _, dir := range append([]string{b.stage.dir}, b.stripes.dirs...) {
		n, err := directoryBytes(b.FS, dir)
		if err != nil {
			return 0, err
		}
		size += n
	}
	return size, nil
}

// Commit puts the sealed store in its place.
func (b *Store) Commit(overwrite bool) error {
	err := b.stage.commit(overwrite, b.Note)
	if b.stage.done { // the store is in place, and names them
		b.stripes.commit()
	}
	return err
}

// Discard removes what was not committed. Where stripe directories cannot be
// removed, the directory that names them is left to the next build, which can.
func (b *Store) Discard() error {
	if err := b.stripes.discard(); err != nil {
		return errors.Join(err, b.stage.leave())
	}
	return b.stage.discard()
}

// WriteArea writes a finished area, looking for cancellation on the way.
func (b *Store) WriteArea(w *Section, area []byte) error {
	for len(area) > 0 {
		if err := b.Ctx.Err(); err != nil {
			return err
		}
		n := min(len(area), 8<<20)
		if err := w.Write(area[:n]); err != nil {
			return err
		}
		area = area[n:]
	}
	return nil
}

// readBack is the size of a read of ReadBack in bytes.
const readBack = 4 << 20

// ReadBack reads a finished section's file into buf, whole pages, and compares it with
// the checksums of what was written.
func (b *Store) ReadBack(name string, buf []byte) error {
	i := slices.IndexFunc(b.sections, func(s layout.Section) bool { return s.Name == name })
	f, err := storage.OpenSection(b.FS, b.stage.dir, b.stripes.dirs, b.unit, &b.sections[i], storage.Flags{})
	if err != nil {
		return err
	}
	defer f.Close()
	sums, err := b.openSums(name)
	if err != nil {
		return err
	}
	defer sums.Close()
	entries := make([]byte, readBack/layout.PageSize*layout.TableEntry)
	for at := 0; at < len(buf); at += readBack {
		r := storage.Request{File: f, Offset: int64(at), Buf: buf[at:min(at+readBack, len(buf))]}
		if err := b.Pool.Do(&r); err != nil {
			return err
		}
		n := len(r.Buf) / layout.PageSize
		if _, err := io.ReadFull(sums, entries[:n*layout.TableEntry]); err != nil {
			return err
		}
		for i := range n {
			if layout.CRC(r.Buf[i*layout.PageSize:(i+1)*layout.PageSize]) != binary.LittleEndian.Uint32(entries[i*layout.TableEntry:]) {
				return &storage.Error{Path: f.Name(), Offset: r.Offset + int64(i)*layout.PageSize, Block: -1, Op: "verify", Err: &storage.DamageError{Bytes: layout.PageSize}}
			}
		}
	}
	return nil
}

// directoryBytes adds up the files of a directory.
func directoryBytes(fsys storage.FS, dir string) (int64, error) {
	entries, err := fsys.ReadDir(dir)
	if err != nil {
		return 0, fault.IO(err, "listing the finished store")
	}
	n := int64(0)
	for _, e := range entries {
		fi, err := e.Info()
		if err != nil {
			return 0, fault.IO(err, "looking at the finished store")
		}
		n += fi.Size()
	}
	return n, nil
}
