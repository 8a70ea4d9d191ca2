package goagnes

import (
	"context"
	"strconv"
	"strings"

	"github.com/goagnes/goagnes/goagnes/storage"
	"github.com/goagnes/goagnes/layout"
	"github.com/goagnes/goagnes/layout/build/synthetic"
)

// GenerateOptions configure [Generate]. The zero value of each field is its
// default.
type GenerateOptions struct {
	Kind         string  // "rmat" (power law) or "community" (labels that neighbours reveal), default community
	NumNodes     int64   // needed
	AvgDegree    float64 // edges a node, default 16
	NumFeatures  int64   // default 64
	NumClasses   int64   // default 16
	FeatureDType string  // "float32" or "float16", default float32
	Seed         uint64
	Raw          string // directory for edge_index.npy, x.npy, y.npy and split_*.npy instead of a store, for Build

	Order        string // of the store; this and all below as in BuildOptions
	BlockSize    int64
	Compression  string
	Memory       int64
	Scratch      string
	ScratchLimit int64
	NumThreads   int
	IO           string
	Stripes      []string
	Overwrite    bool
	Progress     Progress
	FS           storage.FS
}

// Generate makes a graph and writes it as a store at path, with the splits
// train (10 %), val (5 %) and test (10 %); or, where o.Raw names a directory,
// as .npy files there, without a store: then the report is nil. The graph is a
// pure function of the options down to Seed; see package
// [github.com/goagnes/goagnes/layout/build/synthetic]. Options that shape a store,
// Order to Compression, Stripes and Overwrite, are refused beside Raw.
func Generate(ctx context.Context, path string, o GenerateOptions) (*BuildReport, error) {
	if o.Raw != "" {
		if err := o.refuseWithRaw(); err != nil {
			return nil, err
		}
	}
	so := synthetic.Options{Kind: o.Kind, NumNodes: o.NumNodes, AvgDegree: o.AvgDegree, NumFeatures: o.NumFeatures, NumClasses: o.NumClasses, Seed: o.Seed}
	if so.Kind == "" {
		so.Kind = synthetic.Community
	}
	if o.FeatureDType != "" {
		d, err := layout.ParseDType(o.FeatureDType)
		if err != nil || d != layout.Float32 && d != layout.Float16 {
			return nil, &UnsupportedError{"feature_dtype", o.FeatureDType, `"float32" and "float16" are`}
		}
		so.FeatureDType = d
	}
	d, err := synthetic.New(so)
	if err != nil {
		return nil, err
	}
	if o.Raw != "" {
		return nil, synthetic.WriteRaw(ctx, d, o.Raw)
	}
	return buildStore(ctx, path, "generate", d, BuildOptions{
		Order: o.Order, BlockSize: o.BlockSize, Compression: o.Compression, Memory: o.Memory, Scratch: o.Scratch, ScratchLimit: o.ScratchLimit,
		NumThreads: o.NumThreads, IO: o.IO, Stripes: o.Stripes, Overwrite: o.Overwrite, Progress: o.Progress, FS: o.FS,
	}, nil)
}

// refuseWithRaw refuses what shapes a store where none is made.
func (o *GenerateOptions) refuseWithRaw() error {
	order := o.Order
	if order == "auto" {
		order = ""
	}
	size := ""
	if o.BlockSize != 0 && o.BlockSize != layout.DefaultBlockSize {
		size = strconv.FormatInt(o.BlockSize, 10)
	}
	compression := o.Compression
	if compression == "none" {
		compression = ""
	}
	overwrite := ""
	if o.Overwrite {
		overwrite = "true"
	}
	for _, option := range []struct{ name, value string }{
		{"order", order}, {"block_size", size}, {"compression", compression}, {"stripes", strings.Join(o.Stripes, ",")}, {"overwrite", overwrite},
	} {
		if option.value != "" {
			return &UnsupportedError{option.name, option.value, "raw writes arrays, and no store; give it to build"}
		}
	}
	return nil
}
