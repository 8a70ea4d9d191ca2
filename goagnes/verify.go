package goagnes

import (
	"context"

	"github.com/goagnes/goagnes/goagnes/storage"
	"github.com/goagnes/goagnes/layout/build/verify"
)

// VerifyOptions configure [Verify].
type VerifyOptions struct {
	Memory   int64    // bytes, default 2 GiB
	Stripes  []string // the store's stripe directories (NAME.stripe-…) where they lie now, in their order, default where they were made
	IO       string   // the way to the device, as OpenOptions.IO
	Progress Progress
	FS       storage.FS // on which the store lies, default the operating system's; for tests and measurement
}

// VerifyReport lists what verification found.
type VerifyReport = verify.Report

// Verify reads every byte of the store at path and reports all that is wrong
// with it; an error means that it could not be read at all.
func Verify(ctx context.Context, path string, o VerifyOptions) (*VerifyReport, error) {
	if err := checkIO(o.IO); err != nil {
		return nil, err
	}
	return verify.Store(ctx, path, verify.Options{IO: o.IO, Memory: o.Memory, Stripes: o.Stripes, Progress: o.Progress, FS: o.FS})
}
