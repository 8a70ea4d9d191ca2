package goagnes

// Inputs that are read by seeking, .npz archives and Parquet files, and that came
// compressed as a whole: they are inflated into a scratch folder for the time of a
// build. What streams is inflated by its reader instead, at every scan.

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/goagnes/goagnes/goagnes/storage"
	"github.com/goagnes/goagnes/layout/build/source"
	"github.com/goagnes/goagnes/layout/build/source/inflate"
	"github.com/goagnes/goagnes/layout/build/source/table"
	"github.com/goagnes/goagnes/layout/build/staging"
)

// archiveMagic begins an .npz archive, as any zip file.
const archiveMagic = "PK"

// unpacked are the inflated inputs of one build. They count against its scratch
// limit, and against its memory where scratch is in memory. Its zero value with dirs
// set has none.
type unpacked struct {
	fs      storage.FS
	dirs    []string
	limit   int64
	scratch *storage.Scratch
	used    int64
	names   []string // path of the inflated file, name of the input, in turns
}

func newUnpacked(path string, o BuildOptions) *unpacked {
	dirs := []string{o.Scratch}
	if o.Scratch == "" {
		dirs = staging.ScratchDirs(path, o.Stripes)
	}
	return &unpacked{fs: o.FS, dirs: dirs[:1], limit: o.ScratchLimit}
}

// withUnpacked does a build at path whose inputs may have to be inflated first. What
// it says calls inputs by their own names.
func withUnpacked(path string, o BuildOptions, do func(u *unpacked) (*BuildReport, error)) (report *BuildReport, err error) {
	u := newUnpacked(path, o)
	defer func() {
		if left := u.close(); left != nil && err == nil {
			report.Notes = append(report.Notes, "scratch is left over, the next build removes it: "+left.Error())
		}
	}()
	report, err = do(u)
	if err != nil {
		return nil, u.told(err)
	}
	for i, note := range report.Notes {
		report.Notes[i] = u.called(note)
	}
	return report, nil
}

// file returns the path where the input at path can be read by seeking: path itself
// unless it is an archive or a Parquet file within gzip or zstd.
func (u *unpacked) file(ctx context.Context, path string) (string, error) {
	if st, err := os.Stat(path); err != nil || !st.Mode().IsRegular() {
		return path, nil // its reader says what is wrong
	}
	r, err := inflate.Open(path)
	if err != nil {
		return "", err
	}
	defer r.Close()
	if _, compressed := r.(*inflate.Reader); !compressed {
		return path, nil
	}
	var head [len(table.ParquetMagic)]byte
	n, err := io.ReadFull(r, head[:])
	if err != nil || string(head[:]) != table.ParquetMagic && !strings.HasPrefix(string(head[:]), archiveMagic) {
		return path, nil // it streams, or its reader says what is wrong
	}
	if u.scratch == nil {
		if u.scratch, err = storage.OpenScratch(u.fs, u.dirs, u.limit); err != nil {
			return "", err
		}
	}
	base := filepath.Base(path)
	for _, ending := range []string{".gz", ".zst"} {
		base = strings.TrimSuffix(base, ending)
	}
	to := filepath.Join(u.scratch.Dir(), strconv.Itoa(len(u.names))+"-"+base)
	u.names = append(u.names, to, path)
	f, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return "", err
	}
	err = u.inflate(ctx, f, path, io.MultiReader(strings.NewReader(string(head[:n])), r))
	return to, errors.Join(err, f.Close())
}

// inflate writes what r gives to f, within the limit of scratch.
func (u *unpacked) inflate(ctx context.Context, f *os.File, path string, r io.Reader) error {
	buf := make([]byte, 1<<20)
	for ctx.Err() == nil {
		n, err := r.Read(buf)
		if most := u.scratch.Limit(); int64(n) > most-u.used {
			return &storage.ScratchError{Dir: u.scratch.Dir(), Need: int64(n), Used: u.used, Limit: most}
		}
		if _, failed := f.Write(buf[:n]); failed != nil {
			return failed
		}
		u.used += int64(n)
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return source.ErrorFrom(path, "cannot be read", err)
		}
	}
	return context.Cause(ctx)
}

// rest leaves to the build what the inflated files leave of its scratch and memory; u
// may be nil.
func (u *unpacked) rest(o *BuildOptions) {
	if u == nil || u.scratch == nil {
		return
	}
	o.ScratchLimit = max(u.scratch.Limit()-u.used, 1)
	if u.scratch.InMemory() {
		if o.Memory == 0 {
			o.Memory = DefaultMemory
		}
		o.Memory = max(o.Memory-u.used, 1)
	}
}

// called puts the names of inputs in the place of those of inflated files.
func (u *unpacked) called(text string) string { return strings.NewReplacer(u.names...).Replace(text) }

// told is err in the names of inputs.
func (u *unpacked) told(err error) error {
	var fault *source.Error
	if errors.As(err, &fault) {
		fault.File, fault.Msg = u.called(fault.File), u.called(fault.Msg)
	}
	var unsupported *source.UnsupportedError
	if errors.As(err, &unsupported) {
		unsupported.File, unsupported.Msg = u.called(unsupported.File), u.called(unsupported.Msg)
	}
	return err
}

// close removes the inflated files.
func (u *unpacked) close() error {
	if u.scratch == nil {
		return nil
	}
	return u.scratch.Close()
}
