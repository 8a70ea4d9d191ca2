package engine

// Building, importing and verifying stores.

import (
	"context"
	"encoding/json"
	"math"
	"unsafe"

	"github.com/goagnes/goagnes/capi/control"
	"github.com/goagnes/goagnes/goagnes"
	"github.com/goagnes/goagnes/layout"
)

// array is a file, or memory that Python holds: numpy's description of it.
type array struct {
	Path      string  `json:"path"`
	Address   uint64  `json:"address"` // of the element with all indices 0
	DType     string  `json:"dtype"`
	Shape     []int64 `json:"shape"`
	Strides   []int64 `json:"strides"` // in bytes, may be negative
	BigEndian bool    `json:"big_endian"`
}

// buildRequest are the arguments of build and import_dataset.
type buildRequest struct {
	resources
	Source       string           `json:"source"`
	Format       string           `json:"format"`
	EdgeIndex    array            `json:"edge_index"`
	X            array            `json:"x"`
	Y            array            `json:"y"`
	Splits       map[string]array `json:"splits"`
	Split        string           `json:"split"`
	SplitSeed    uint64           `json:"split_seed"`
	NumNodes     int64            `json:"num_nodes"`
	IDs          string           `json:"ids"`
	Undirected   bool             `json:"undirected"`
	SelfLoops    string           `json:"self_loops"`
	Duplicates   string           `json:"duplicates"`
	Order        string           `json:"order"`
	BlockSize    int64            `json:"block_size"`
	FeatureDType string           `json:"feature_dtype"`
	Compression  string           `json:"compression"`
	Overwrite    bool             `json:"overwrite"`
	SplitIndex   int              `json:"split_index"`
}

func runBuild(ctx context.Context, kind string, request json.RawMessage, report control.Progress) (any, error) {
	var r buildRequest
	if err := decode(request, &r); err != nil {
		return nil, err
	}
	o := goagnes.BuildOptions{
		Split: r.Split, SplitSeed: r.SplitSeed, NumNodes: r.NumNodes, IDs: r.IDs, Undirected: r.Undirected, SelfLoops: r.SelfLoops, Duplicates: r.Duplicates,
		Order: r.Order, BlockSize: r.BlockSize, FeatureDType: r.FeatureDType,
		Compression: r.Compression, Memory: r.Memory, Scratch: r.Scratch, ScratchLimit: r.ScratchLimit,
		NumThreads: r.NumThreads, Stripes: r.Stripes, IO: r.IO, Overwrite: r.Overwrite, Format: r.Format, SplitIndex: r.SplitIndex, Progress: goagnes.Progress(report),
		Splits: make(map[string]goagnes.Input, len(r.Splits)),
	}
	var err error
	for _, a := range []struct {
		name string
		from array
		to   *goagnes.Input
	}{{"edge_index", r.EdgeIndex, &o.EdgeIndex}, {"x", r.X, &o.X}, {"y", r.Y, &o.Y}} {
		if *a.to, err = a.from.input(a.name); err != nil {
			return nil, err
		}
	}
	for name, from := range r.Splits {
		if o.Splits[name], err = from.input("splits[" + name + "]"); err != nil {
			return nil, err
		}
	}
	if kind == "import" {
		return goagnes.Import(ctx, r.Path, r.Source, o)
	}
	return goagnes.Build(ctx, r.Path, o)
}

// input returns the array as goagnes reads it; the zero array gives no input.
func (a array) input(name string) (goagnes.Input, error) {
	if a.Path != "" || a.DType == "" {
		return goagnes.Input{File: a.Path}, nil
	}
	refuse := func(message string) (goagnes.Input, error) {
		return goagnes.Input{}, &goagnes.ArgumentError{Argument: name, Msg: message}
	}
	dtype, err := layout.ParseDType(a.DType)
	if err != nil {
		return refuse("unknown element type " + a.DType)
	}
	if len(a.Strides) != len(a.Shape) {
		return refuse("a stride is needed for each dimension")
	}
	// The bytes from the lowest element to the end of the highest, and where the
	// first lies among them: strides may be negative.
	before, after, empty := int64(0), int64(0), false
	for i, n := range a.Shape {
		stride := a.Strides[i]
		switch {
		case n < 0:
			return refuse("a dimension is negative")
		case n == 0:
			empty = true
		case n > 1 && (stride == math.MinInt64 || max(stride, -stride) > math.MaxInt64/8/(n-1)):
			return refuse("the array is larger than memory can be")
		case stride < 0:
			before -= stride * (n - 1)
		default:
			after += stride * (n - 1)
		}
		if before > math.MaxInt64/4 || after > math.MaxInt64/4 {
			return refuse("the array is larger than memory can be")
		}
	}
	m := &goagnes.Memory{Name: name, DType: dtype, BigEndian: a.BigEndian, Shape: a.Shape, Strides: a.Strides}
	if !empty {
		if a.Address == 0 || uint64(before) >= a.Address {
			return refuse("the array has no address")
		}
		m.Data = unsafe.Slice((*byte)(pointer(a.Address-uint64(before))), before+after+int64(dtype.Size()))
		m.Offset = before
	}
	return goagnes.Input{Memory: m}, nil
}

func runVerify(ctx context.Context, request json.RawMessage, report control.Progress) (any, error) {
	var r resources
	if err := decode(request, &r); err != nil {
		return nil, err
	}
	return goagnes.Verify(ctx, r.Path, goagnes.VerifyOptions{Stripes: r.Stripes, IO: r.IO, Progress: goagnes.Progress(report)})
}
