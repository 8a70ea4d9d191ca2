package engine

// Training on an open store.

import (
	"context"
	"encoding/json"

	"github.com/goagnes/goagnes/capi/control"
	"github.com/goagnes/goagnes/goagnes"
	"github.com/goagnes/goagnes/goagnes/train"
)

// trainRequest are the arguments of train; what is left out is the trainer's
// default.
type trainRequest struct {
	Store             int64    `json:"store"`
	Model             string   `json:"model"`
	Preset            string   `json:"preset"`
	Save              string   `json:"save"`
	Layers            int      `json:"layers"`
	Hidden            int      `json:"hidden"`
	Heads             int      `json:"heads"`
	OutputHeads       int      `json:"output_heads"`
	AttentionDropout  *float64 `json:"attention_dropout"`
	Residual          bool     `json:"residual"`
	Dropout           *float64 `json:"dropout"`
	LearningRate      float64  `json:"lr"`
	WeightDecay       *float64 `json:"weight_decay"`
	Epochs            int      `json:"epochs"`
	Patience          int      `json:"patience"`
	BatchSize         int      `json:"batch_size"`
	NumNeighbors      []int    `json:"num_neighbors"`
	EvalNeighbors     []int    `json:"eval_neighbors"`
	EvalBatchSize     int      `json:"eval_batch_size"`
	Monitor           string   `json:"monitor"`
	NormalizeFeatures string   `json:"normalize_features"`
	Seed              uint64   `json:"seed"`
	NumThreads        int      `json:"num_threads"`
	HyperbatchSize    int      `json:"hyperbatch_size"`
	Mode              string   `json:"mode"`
	Calibrate         bool     `json:"calibrate"`
}

func runTrain(ctx context.Context, s control.Store, request json.RawMessage, report control.Progress) (any, error) {
	var r trainRequest
	if err := decode(request, &r); err != nil {
		return nil, err
	}
	opened, ok := s.(*store)
	if !ok {
		return nil, &goagnes.ArgumentError{Argument: "store", Msg: "is missing"}
	}
	return goagnes.Train(ctx, opened.Store, goagnes.TrainOptions{
		Options: train.Options{
			Model: r.Model, Preset: r.Preset, Layers: r.Layers, Hidden: r.Hidden, Dropout: r.Dropout,
			Heads: r.Heads, OutputHeads: r.OutputHeads, AttentionDropout: r.AttentionDropout, Residual: r.Residual,
			LearningRate: r.LearningRate, WeightDecay: r.WeightDecay, Epochs: r.Epochs, Patience: r.Patience,
			BatchSize: r.BatchSize, NumNeighbors: r.NumNeighbors, EvalNeighbors: r.EvalNeighbors,
			EvalBatchSize: r.EvalBatchSize, Seed: r.Seed, Monitor: r.Monitor, NormalizeFeatures: r.NormalizeFeatures,
			Threads: r.NumThreads, Progress: report,
		},
		Save: r.Save, HyperbatchSize: r.HyperbatchSize, Mode: r.Mode, Calibrate: r.Calibrate,
	})
}
