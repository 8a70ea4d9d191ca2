package engine

// Synthetic graphs.

import (
	"context"
	"encoding/json"

	"github.com/goagnes/goagnes/capi/control"
	"github.com/goagnes/goagnes/goagnes"
)

// generateRequest are the arguments of generate.
type generateRequest struct {
	resources
	Kind         string  `json:"kind"`
	NumNodes     int64   `json:"num_nodes"`
	AvgDegree    float64 `json:"avg_degree"`
	NumFeatures  int64   `json:"num_features"`
	NumClasses   int64   `json:"num_classes"`
	FeatureDType string  `json:"feature_dtype"`
	Seed         uint64  `json:"seed"`
	Raw          string  `json:"raw"`
	Order        string  `json:"order"`
	BlockSize    int64   `json:"block_size"`
	Compression  string  `json:"compression"`
	Overwrite    bool    `json:"overwrite"`
}

func runGenerate(ctx context.Context, request json.RawMessage, report control.Progress) (any, error) {
	var r generateRequest
	if err := decode(request, &r); err != nil {
		return nil, err
	}
	return goagnes.Generate(ctx, r.Path, goagnes.GenerateOptions{
		Kind: r.Kind, NumNodes: r.NumNodes, AvgDegree: r.AvgDegree, NumFeatures: r.NumFeatures, NumClasses: r.NumClasses,
		FeatureDType: r.FeatureDType, Seed: r.Seed, Raw: r.Raw, Order: r.Order, BlockSize: r.BlockSize, Compression: r.Compression, Memory: r.Memory,
		Scratch: r.Scratch, ScratchLimit: r.ScratchLimit, NumThreads: r.NumThreads, Stripes: r.Stripes, IO: r.IO, Overwrite: r.Overwrite,
		Progress: goagnes.Progress(report),
	})
}
