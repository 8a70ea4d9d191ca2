// Package engine drives package goagnes for the control plane of the Python
// binding: it turns JSON requests into options, and results into JSON.
//
// It provides the one Plane of the process. Requests are decoded strictly: an
// unknown field is an error. Names of fields are those of the Python arguments.
// Arrays in a request are addresses of memory that Python keeps alive and
// unchanged until the task has ended, or, for input nodes, the loader is closed.
package engine

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"unsafe"

	"github.com/goagnes/goagnes/capi/control"
	"github.com/goagnes/goagnes/goagnes"
)

var plane = control.New(engine{})

// Plane returns the control plane of this process.
func Plane() *control.Plane { return plane }

// engine is package goagnes as control.Engine.
type engine struct{}

// decode reads a request strictly.
func decode(request json.RawMessage, into any) error {
	d := json.NewDecoder(bytes.NewReader(request))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		return &goagnes.ArgumentError{Argument: "request", Msg: err.Error()}
	}
	return nil
}

// resources are the fields that opening and building share.
type resources struct {
	Path         string   `json:"path"`
	Memory       int64    `json:"memory"`
	NumThreads   int      `json:"num_threads"`
	Scratch      string   `json:"scratch"`
	ScratchLimit int64    `json:"scratch_limit"`
	Stripes      []string `json:"stripes"`
	IO           string   `json:"io"`
}

// Open implements control.Engine.
func (engine) Open(path string, request json.RawMessage) (control.Store, error) {
	var r resources
	if err := decode(request, &r); err != nil {
		return nil, err
	}
	s, err := goagnes.Open(path, goagnes.OpenOptions{
		Memory: r.Memory, NumThreads: r.NumThreads, Scratch: r.Scratch, ScratchLimit: r.ScratchLimit, Stripes: r.Stripes, IO: r.IO,
	})
	if err != nil {
		return nil, err
	}
	return &store{s}, nil
}

// Run implements control.Engine.
func (engine) Run(ctx context.Context, kind string, s control.Store, request json.RawMessage, report control.Progress) (any, error) {
	switch kind {
	case "build", "import":
		return runBuild(ctx, kind, request, report)
	case "generate":
		return runGenerate(ctx, request, report)
	case "verify":
		return runVerify(ctx, request, report)
	case "train":
		return runTrain(ctx, s, request, report)
	case "export":
		return runExport(ctx, s, request, report)
	case "open_export":
		return openExport(ctx, request, report)
	case "check_export":
		return nil, checkExport(request)
	case "rows", "split", "neighbors", "edges", "original_ids", "dense_ids", "set_split":
		opened, ok := s.(*store)
		if !ok {
			return nil, &goagnes.ArgumentError{Argument: "store", Msg: fmt.Sprintf("%q needs an open store", kind)}
		}
		return runNodes(ctx, kind, opened.Store, request, report)
	}
	return nil, &goagnes.ArgumentError{Argument: "kind", Msg: fmt.Sprintf("no work is named %q", kind)}
}

type store struct{ *goagnes.Store }

// Info implements control.Store.
func (s *store) Info() any { return s.Store.Info() }

// nodes is an array of ids or a mask that Python holds.
type nodes struct {
	Address uint64 `json:"address"`
	Length  int    `json:"length"`
}

func slice[T any](n nodes) []T {
	if n.Length == 0 {
		return []T{}
	}
	return unsafe.Slice((*T)(pointer(n.Address)), n.Length)
}

// pointer makes a pointer of an address outside Go's heap.
func pointer(address uint64) unsafe.Pointer {
	return *(*unsafe.Pointer)(unsafe.Pointer(&address))
}

// loaderRequest are the arguments of NeighborLoader.
type loaderRequest struct {
	Store        int64 `json:"store"`
	NumNeighbors []int `json:"num_neighbors"`
	InputNodes   struct {
		Split string `json:"split"`
		IDs   *nodes `json:"ids"`
		Mask  *nodes `json:"mask"`
	} `json:"input_nodes"`
	BatchSize      int    `json:"batch_size"`
	Shuffle        bool   `json:"shuffle"`
	DropLast       bool   `json:"drop_last"`
	Seed           uint64 `json:"seed"`
	HyperbatchSize int    `json:"hyperbatch_size"`
	Memory         int64  `json:"memory"`
	IO             string `json:"io"`
	Mode           string `json:"mode"`
	GraphBuffer    int64  `json:"graph_buffer"`
	FeatureBuffer  int64  `json:"feature_buffer"`
	EdgeIDs        bool   `json:"edge_ids"`
}

// options returns what the arguments mean.
func (r *loaderRequest) options() goagnes.LoaderOptions {
	o := goagnes.LoaderOptions{
		NumNeighbors: r.NumNeighbors, BatchSize: r.BatchSize, Shuffle: r.Shuffle, DropLast: r.DropLast, Seed: &r.Seed,
		HyperbatchSize: r.HyperbatchSize, Memory: r.Memory, IO: r.IO, Mode: r.Mode, NoEdgeIDs: !r.EdgeIDs,
		GraphBuffer: r.GraphBuffer, FeatureBuffer: r.FeatureBuffer,
		InputNodes: goagnes.InputNodes{Split: r.InputNodes.Split},
	}
	if n := r.InputNodes.IDs; n != nil {
		o.InputNodes.IDs = slice[int64](*n)
	}
	if n := r.InputNodes.Mask; n != nil {
		o.InputNodes.Mask = slice[bool](*n)
	}
	return o
}

// NewLoader implements control.Store.
func (s *store) NewLoader(request json.RawMessage) (control.Loader, error) {
	var r loaderRequest
	if err := decode(request, &r); err != nil {
		return nil, err
	}
	l, err := goagnes.NewLoader(s.Store, r.options())
	if err != nil {
		return nil, err
	}
	return &loader{l, r}, nil
}

type loader struct {
	*goagnes.Loader
	request loaderRequest
}

// settings are what a loader resolved.
type settings struct {
	Length         int    `json:"length"`
	Seed           uint64 `json:"seed"`
	BatchSize      int    `json:"batch_size"`
	NumNeighbors   []int  `json:"num_neighbors"`
	HyperbatchSize int    `json:"hyperbatch_size"`
}

// Describe implements control.Admin.
func (l *loader) Describe(kind string) (any, error) {
	switch kind {
	case "settings":
		return settings{l.Len(), l.Seed(), l.request.BatchSize, l.request.NumNeighbors, l.Stats().HyperbatchSize}, nil
	case "stats":
		return l.Stats(), nil
	case "explain":
		x := l.Explain()
		return struct {
			goagnes.Explanation
			Text string `json:"text"`
		}{x, x.String()}, nil
	}
	return nil, &goagnes.UnsupportedError{Argument: "describe", Value: kind, Msg: `"settings", "stats" and "explain" are`}
}

// Next implements control.Loader.
func (l *loader) Next(ctx context.Context) (*control.Batch, error) {
	b, err := l.Loader.Next(ctx)
	if err != nil {
		return nil, err
	}
	return &control.Batch{
		Index: b.Index, BatchSize: int64(b.BatchSize), NumNodes: int64(b.NumNodes), NumEdges: int64(b.NumEdges),
		SampledNodes: b.NumSampledNodes, SampledEdges: b.NumSampledEdges, Arrays: b.Arrays(),
		Slab: b.Slab().Base(), Release: b.Release,
	}, nil
}
