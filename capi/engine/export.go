package engine

// Exporting minibatches, and what Python needs to read an export.

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/goagnes/goagnes/capi/control"
	"github.com/goagnes/goagnes/goagnes"
)

// exportRequest are the arguments of export.
type exportRequest struct {
	loaderRequest
	Seed       *uint64 `json:"seed"` // null: the unfinished export's, or drawn
	OutDir     string  `json:"out_dir"`
	FirstEpoch uint32  `json:"first_epoch"`
	Epochs     int     `json:"epochs"`
	MaxBatches int     `json:"max_batches"`
	Overwrite  bool    `json:"overwrite"`
}

func runExport(ctx context.Context, s control.Store, request json.RawMessage, report control.Progress) (any, error) {
	var r exportRequest
	if err := decode(request, &r); err != nil {
		return nil, err
	}
	opened, ok := s.(*store)
	if !ok {
		return nil, &goagnes.ArgumentError{Argument: "store", Msg: "is missing"}
	}
	o := goagnes.ExportOptions{LoaderOptions: r.options(), FirstEpoch: r.FirstEpoch, Epochs: r.Epochs, MaxBatches: r.MaxBatches,
		Overwrite: r.Overwrite, Progress: goagnes.Progress(report)}
	o.Seed = r.Seed
	return goagnes.Export(ctx, opened.Store, r.OutDir, o)
}

// openExport checks an export, and all its minibatches with verify, and returns
// its index.
func openExport(ctx context.Context, request json.RawMessage, report control.Progress) (any, error) {
	var r struct {
		Path   string `json:"path"`
		Verify bool   `json:"verify"`
	}
	if err := decode(request, &r); err != nil {
		return nil, err
	}
	opened, err := goagnes.OpenExport(r.Path)
	if err != nil {
		return nil, err
	}
	if r.Verify {
		err = opened.Verify(ctx, func(epoch uint32, done int64) {
			report(fmt.Sprintf("checking epoch %d", epoch), done, int64(opened.Len()))
		})
	}
	return opened.Index(), errors.Join(err, opened.Close())
}

func checkExport(request json.RawMessage) error {
	var r struct {
		Pieces []goagnes.ExportedPiece `json:"pieces"`
	}
	if err := decode(request, &r); err != nil {
		return err
	}
	return goagnes.CheckExported(r.Pieces)
}
