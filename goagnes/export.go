package goagnes

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"math"

	"github.com/goagnes/goagnes/goagnes/export"
	"github.com/goagnes/goagnes/goagnes/storage"
)

// ExportOptions configure [Export]. The zero value of each field is its
// default. Without a seed an unfinished export's own is taken, else one is drawn.
type ExportOptions struct {
	LoaderOptions
	FirstEpoch uint32 // number of the first epoch
	Epochs     int    // default 1
	MaxBatches int    // end each epoch after so many minibatches, default none
	Overwrite  bool   // replace an export, finished or not
	Progress   Progress
	FS         storage.FS // of the folder, default the operating system's; for tests and measurement
}

// ExportReport says what an export holds and what it took.
type ExportReport struct {
	Path    string         `json:"path"`
	Index   *export.Index  `json:"index"`
	Resumed int64          `json:"resumed"` // minibatches that were on disk already
	Loader  Stats          `json:"loader"`
	Totals  *export.Totals `json:"totals"`
}

// Export writes the minibatches that a loader of these options would give to a
// folder of .npy files, within the store's budget: see docs/export.md. An export
// that was cut off is gone on with by the same call, and is then byte for byte
// the one that it would have been; until it is finished [OpenExport] refuses it.
// A folder that holds anything else is refused with a [*export.MismatchError].
func Export(ctx context.Context, s *Store, dir string, o ExportOptions) (report *ExportReport, err error) {
	switch {
	case dir == "":
		return nil, argumentf("out_dir", "no folder is named")
	case o.Epochs < 0 || o.Epochs > 1<<20:
		return nil, argumentf("epochs", "%d: it must be from 1 to %d", o.Epochs, 1<<20)
	case o.MaxBatches < 0:
		return nil, argumentf("max_batches", "%d", o.MaxBatches)
	}
	o.Epochs = max(o.Epochs, 1)
	if uint64(o.FirstEpoch)+uint64(o.Epochs)-1 > math.MaxUint32 {
		return nil, argumentf("first_epoch", "%d: the last epoch must be below 2^32", o.FirstEpoch)
	}
	if o.Seed == nil && !o.Overwrite {
		old, _, err := export.Peek(o.FS, dir)
		if err != nil {
			return nil, err
		}
		if old != nil {
			o.Seed = &old.Settings.Seed
		}
	}
	o.ReleasesFirst = true
	l, err := NewLoader(s, o.LoaderOptions)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, l.Close()) }()
	w, err := export.Create(o.FS, dir, l.exportIndex(o), o.Overwrite)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, w.Close()) }()
	report = &ExportReport{Path: dir}
	if w.Finished() {
		report.Resumed = w.Index().Totals.Minibatches
	} else if err := l.exportEpochs(ctx, w, o, report); err != nil {
		return nil, err
	}
	report.Index, report.Totals, report.Loader = w.Index(), w.Index().Totals, l.Stats()
	return report, nil
}

func (l *Loader) exportEpochs(ctx context.Context, w *export.Writer, o ExportOptions, report *ExportReport) error {
	total := w.Index().Settings.Minibatches
	tell := func(stage string, done int64) {
		if o.Progress != nil {
			o.Progress(stage, done, total)
		}
	}
	for i := range o.Epochs {
		epoch := o.FirstEpoch + uint32(i)
		done, err := w.Begin(ctx, func(done int64) { tell(fmt.Sprintf("checking epoch %d", epoch), done) })
		if err != nil {
			return err
		}
		report.Resumed += done
		l.SetEpoch(epoch)
		if done < total {
			if err := l.StartRange(ctx, done, total); err != nil {
				return err
			}
		}
		for ; done < total; done++ {
			b, err := l.Next(ctx)
			if err != nil {
				return err
			}
			if b.Index != done {
				panic("goagnes: a minibatch out of turn")
			}
			err = w.Add(export.Minibatch{NumSampledNodes: b.NumSampledNodes, NumSampledEdges: b.NumSampledEdges, Arrays: b.Arrays()})
			b.Release()
			if err != nil {
				return err
			}
			tell(fmt.Sprintf("epoch %d", epoch), done+1)
		}
		if err := w.End(); err != nil {
			return err
		}
	}
	return w.Finish()
}

// exportIndex describes the export of a loader's minibatches: all that its bytes
// depend on, and nothing else.
func (l *Loader) exportIndex(o ExportOptions) export.Index {
	m := l.store.files.Manifest()
	total := l.engine.Minibatches()
	if o.MaxBatches > 0 {
		total = min(total, int64(o.MaxBatches))
	}
	in := export.InputNodes{Kind: "all", Count: l.engine.Seeds.Len()}
	switch given := o.InputNodes; {
	case given.Split != "":
		in.Kind, in.Split = "split", given.Split
	case given.IDs != nil:
		h := sha256.New()
		var word [8]byte
		for _, v := range given.IDs {
			binary.LittleEndian.PutUint64(word[:], uint64(v))
			h.Write(word[:])
		}
		in.Kind, in.SHA256 = "ids", hex.EncodeToString(h.Sum(nil))
	case given.Mask != nil:
		h := sha256.New()
		for _, set := range given.Mask {
			bit := [1]byte{}
			if set {
				bit[0] = 1
			}
			h.Write(bit[:])
		}
		in.Kind, in.SHA256 = "mask", hex.EncodeToString(h.Sum(nil))
	}
	x := export.Index{
		Store: export.Store{BuildID: fmt.Sprintf("%x", m.ID), NumNodes: m.NumNodes, NumEdges: m.NumEdges},
		Settings: export.Settings{
			NumNeighbors: append([]int{}, o.NumNeighbors...), InputNodes: in, BatchSize: max(o.BatchSize, 1), Shuffle: o.Shuffle,
			DropLast: o.DropLast, Seed: l.seed, FirstEpoch: o.FirstEpoch, Epochs: o.Epochs, Minibatches: total,
		},
	}
	for _, a := range l.engine.Arrays() {
		x.Arrays = append(x.Arrays, export.NewArray(a.Name, a.DType, a.Shape))
	}
	return x
}

// ExportReader is an open export; see [OpenExport].
type ExportReader = export.Reader

// ExportedBatch is a minibatch of an export, with the arrays of a [Batch].
type ExportedBatch = export.ReadBatch

// OpenExport opens a finished export. Its minibatches are those of the loader
// that it was made with, bit for bit, in mapped files. Index, headers and sizes
// are checked here, a minibatch's checksums when it is first asked for;
// [ExportReader.Verify] checks them all. Faults are of type [*export.Error] and
// name file and minibatch.
func OpenExport(dir string) (*ExportReader, error) { return export.Open(dir) }

// ExportedPiece is a minibatch's part of one file of an export.
type ExportedPiece = export.FilePiece

// CheckExported verifies the checksums of pieces, for readers that map the files
// themselves.
func CheckExported(pieces []ExportedPiece) error { return export.Check(pieces) }
