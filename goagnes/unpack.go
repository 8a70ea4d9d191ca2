package goagnes

// Inputs that have to be inflated before they can be read: they lie in a scratch folder
// for the time of a build.

import (
	"context"
	"errors"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/goagnes/goagnes/goagnes/storage"
	"github.com/goagnes/goagnes/layout/build"
	"github.com/goagnes/goagnes/layout/build/source"
	"github.com/goagnes/goagnes/layout/build/source/formats"
)

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
	at := build.Options{Scratch: o.Scratch, Stripes: o.Stripes}
	return &unpacked{fs: o.FS, dirs: at.ScratchDirs(path)[:1], limit: o.ScratchLimit}
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

// file returns the path where the input at path can be read: path itself unless it is
// an archive or a Parquet file within gzip or zstd.
func (u *unpacked) file(ctx context.Context, path string) (string, error) {
	if !formats.Packed(path) {
		return path, nil
	}
	if u.scratch == nil {
		var err error
		if u.scratch, err = storage.OpenScratch(u.fs, u.dirs, u.limit); err != nil {
			return "", err
		}
	}
	base := filepath.Base(path)
	for _, ending := range []string{".gz", ".zst"} {
		base = strings.TrimSuffix(base, ending)
	}
	to := filepath.Join(u.scratch.Dir(), strconv.Itoa(len(u.names)/2)+"-"+base)
	u.names = append(u.names, to, path)
	most := u.scratch.Limit()
	size, err := formats.Unpack(ctx, path, to, most-u.used)
	u.used += size
	if errors.Is(err, formats.ErrNoRoom) {
		return "", &storage.ScratchError{Dir: u.scratch.Dir(), Need: most - u.used + 1, Used: u.used, Limit: most}
	}
	return to, err
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
