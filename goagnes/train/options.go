package train

// Options, their defaults, presets and limits.

import (
	"fmt"
	"slices"

	"github.com/goagnes/goagnes/goagnes/nn"
	"github.com/goagnes/goagnes/layout"
)

// Names of presets; see [Options.Preset].
const (
	PresetCitation = "citation" // small graphs with few labels and many features
	PresetShchur   = "shchur"   // co-purchase and co-authorship graphs, some labels a class
)

// What chooses the epoch that is kept; see [Options.Monitor].
const (
	MonitorAccuracy = "val_accuracy"
	MonitorLoss     = "val_loss"
)

// What rows of features are divided by; see [Options.NormalizeFeatures].
const (
	NormalizeNone = "none"
	NormalizeRow  = "row"
	NormalizeL2   = "l2"
)

func validNormalize(s string) bool {
	return s == NormalizeNone || s == NormalizeRow || s == NormalizeL2
}

// Options of a training run. The zero value is the default; a preset changes
// defaults, never what is set. Every number has an upper limit, given by the
// *OptionError that refuses it.
type Options struct {
	// Model is "sage", "gcn", "gat" or "mlp". Default sage.
	Model string
	// Preset is "" or "citation": two layers, Adam with rate 0.01, dropout 0.5 on
	// the input of each layer, 200 epochs, rows of features divided by their sum,
	// all neighbours in training. GCN: 16 units, decay 5e-4, as Kipf and Welling
	// (2017) and PyG's example. SAGE: 64 units, decay 5e-3. MLP: 64 units, decay
	// 5e-3. Decay applies to the first layer only, as in both sources. GAT: 8 heads of
	// 8 units and one output head, rate 0.005, dropout 0.6 of inputs and of attention,
	// decay 5e-4 of all weights, as Veličković et al. (2018) and PyG's example.
	//
	// "shchur": for Amazon's and Coauthor graphs, with splits drawn as Shchur et al.
	// (2018) draw them, and their 64 units and patience of 50: rows of features divided by
	// their Euclidean norm, 400 epochs at most. The rest as in the citation preset.
	Preset string
	// Layers is the number of layers, 1 to 5. Default 3.
	Layers int
	// Hidden is the number of units of every layer but the last, all heads together.
	// Default 256.
	Hidden int
	// Heads is the number of heads of GAT's layers but the last, side by side; it
	// divides Hidden. Default 8.
	Heads int
	// OutputHeads is the number of heads of GAT's last layer, averaged. Default 1.
	OutputHeads int
	// AttentionDropout is the rate of GAT's attention coefficients, in [0, 1).
	// Default 0.
	AttentionDropout *float64
	// Residual adds a linear skip to each of GAT's layers.
	Residual bool
	// Dropout is the rate before every layer but the first, in [0, 1). Default 0.
	Dropout *float64
	// LearningRate is Adam's. Default 0.003.
	LearningRate float64
	// WeightDecay is the L2 penalty added to gradients, as in torch.optim.Adam.
	// Default 0.
	WeightDecay *float64
	// Epochs is the number of epochs. Default 10.
	Epochs int
	// Patience ends a run after this many epochs that were not better by Monitor.
	// Default 0: never, but where a preset has one.
	Patience int
	// Monitor is what the split val is watched by, for Patience and for the epoch
	// whose weights are kept: "val_accuracy", the highest, among equals that of the
	// lowest loss; or "val_loss", the lowest. Default "val_accuracy".
	Monitor string
	// BatchSize is the number of seeds of a training minibatch. Default 1000.
	BatchSize int
	// NumNeighbors is the number of neighbours taken of a node, by hop, in
	// training; -1: all. One entry a layer. Default 10 each.
	NumNeighbors []int
	// EvalNeighbors is the same for validation and test. Default all.
	EvalNeighbors []int
	// EvalBatchSize is the number of seeds of an evaluation minibatch. Default
	// BatchSize.
	EvalBatchSize int
	// Seed of initial weights and dropout. Default 0.
	Seed uint64
	// NormalizeFeatures is "none"; "row", which divides each row of features by its
	// sum, or by 1 where that is larger (PyG's NormalizeFeatures for features that are
	// not negative); or "l2", which divides it by its Euclidean norm. Default "none".
	NormalizeFeatures string
	// Threads used at once. Default GOMAXPROCS.
	Threads int
	// Backend of package kernels. Default the fastest.
	Backend string
	// Allocator of everything that grows with model or minibatch. Default the Go
	// heap.
	Allocator Allocator
	// Progress, unless nil, is called with stage "train" after each minibatch that
	// is trained on: how many so far, and how many there will be if no patience
	// runs out, 0 where the Source does not tell before the end of the first epoch.
	Progress func(stage string, done, total int64)
}

// Settings are Options with every default filled in, as a report states them.
type Settings struct {
	Model             string  `json:"model"`
	Preset            string  `json:"preset"`
	Layers            int     `json:"layers"`
	Hidden            int     `json:"hidden"`
	Heads             int     `json:"heads,omitempty"` // of gat
	OutputHeads       int     `json:"output_heads,omitempty"`
	AttentionDropout  float64 `json:"attention_dropout,omitempty"`
	Residual          bool    `json:"residual,omitempty"`
	Dropout           float64 `json:"dropout"`
	InputDropout      bool    `json:"input_dropout"`
	LearningRate      float64 `json:"lr"`
	WeightDecay       float64 `json:"weight_decay"`
	DecayFirstLayer   bool    `json:"weight_decay_first_layer_only"`
	Epochs            int     `json:"epochs"`
	Patience          int     `json:"patience"`
	Monitor           string  `json:"monitor"`
	BatchSize         int     `json:"batch_size"`
	NumNeighbors      []int   `json:"num_neighbors"`
	EvalNeighbors     []int   `json:"eval_neighbors"`
	EvalBatchSize     int     `json:"eval_batch_size"`
	Seed              uint64  `json:"seed"`
	NormalizeFeatures string  `json:"normalize_features"`
	Threads           int     `json:"threads"`
	Backend           string  `json:"backend"`
}

// An OptionError names the option that is refused, and why.
type OptionError struct {
	Option string
	Reason string
}

func (e *OptionError) Error() string { return fmt.Sprintf("train: %s: %s", e.Option, e.Reason) }

// Class returns "usage".
func (e *OptionError) Class() string { return "usage" }

// Limits of options.
const (
	maxEpochs    = 100_000
	maxBatchSize = 1 << 20
	maxFanout    = 1 << 20
)

// recipe is what a preset sets by model.
type recipe struct {
	hidden  int
	rate    float64
	dropout float64 // of inputs, and of gat's attention
	decay   float64
	first   bool // decay of the first layer alone
}

// citation is the preset of that name.
var citation = map[string]recipe{
	nn.GCN:  {16, 0.01, 0.5, 5e-4, true},
	nn.SAGE: {64, 0.01, 0.5, 5e-3, true},
	nn.GAT:  {64, 0.005, 0.6, 5e-4, false},
	nn.MLP:  {64, 0.01, 0.5, 5e-3, true},
}

const (
	presetEpochs   = 200
	shchurUnits    = 64
	shchurEpochs   = 400
	shchurPatience = 50
)

// Resolve fills in defaults and returns an *OptionError for the first option
// that is out of bounds. Threads and Backend are filled in by Train.
func (o Options) Resolve() (Settings, error) {
	s := Settings{
		Model: o.Model, Preset: o.Preset, Layers: 3, Hidden: 256, LearningRate: 0.003, Epochs: 10,
		BatchSize: 1000, EvalBatchSize: o.EvalBatchSize, Seed: o.Seed, Monitor: MonitorAccuracy, NormalizeFeatures: NormalizeNone,
		Threads: o.Threads, Backend: o.Backend,
	}
	if s.Model == "" {
		s.Model = nn.SAGE
	}
	fanout := 10
	switch o.Preset {
	case "":
	case PresetCitation, PresetShchur:
		p, ok := citation[s.Model]
		if !ok {
			return s, &OptionError{"model", fmt.Sprintf("%q is not a model; choose gcn, sage, gat or mlp", s.Model)}
		}
		s.Layers, s.Hidden, s.LearningRate, s.Epochs = 2, p.hidden, p.rate, presetEpochs
		s.Dropout, s.InputDropout, s.WeightDecay, s.DecayFirstLayer = p.dropout, true, p.decay, p.first
		if s.Model == nn.GAT {
			s.AttentionDropout = p.dropout
		}
		if o.Preset == PresetCitation {
			s.NormalizeFeatures = NormalizeRow
		} else {
			s.Hidden, s.NormalizeFeatures = shchurUnits, NormalizeL2
			s.Epochs, s.Patience = shchurEpochs, shchurPatience
		}
		fanout = -1
	default:
		return s, &OptionError{"preset", fmt.Sprintf("%q is not a preset; choose citation or shchur, or none", o.Preset)}
	}
	if s.Model == nn.GAT {
		s.Heads, s.OutputHeads = 8, 1
	}
	for _, f := range []struct {
		name  string
		given int
		to    *int
		limit int
	}{
		{"layers", o.Layers, &s.Layers, nn.MaxLayers},
		{"hidden", o.Hidden, &s.Hidden, nn.MaxUnits},
		{"heads", o.Heads, &s.Heads, nn.MaxHeads},
		{"output_heads", o.OutputHeads, &s.OutputHeads, nn.MaxHeads},
		{"epochs", o.Epochs, &s.Epochs, maxEpochs},
		{"patience", o.Patience, &s.Patience, maxEpochs},
		{"batch_size", o.BatchSize, &s.BatchSize, maxBatchSize},
		{"eval_batch_size", o.EvalBatchSize, &s.EvalBatchSize, maxBatchSize},
	} {
		if f.given < 0 || f.given > f.limit {
			return s, &OptionError{f.name, fmt.Sprintf("%d is outside 1 to %d (0: the default)", f.given, f.limit)}
		}
		if f.given > 0 {
			*f.to = f.given
		}
	}
	if s.EvalBatchSize == 0 {
		s.EvalBatchSize = s.BatchSize
	}
	if o.LearningRate != 0 {
		s.LearningRate = o.LearningRate
	}
	if o.Dropout != nil {
		s.Dropout = *o.Dropout
	}
	if o.AttentionDropout != nil {
		s.AttentionDropout = *o.AttentionDropout
	}
	s.Residual = o.Residual
	if o.NormalizeFeatures != "" {
		s.NormalizeFeatures = o.NormalizeFeatures
	}
	if o.Monitor != "" {
		s.Monitor = o.Monitor
	}
	if o.WeightDecay != nil {
		s.WeightDecay = *o.WeightDecay
	}
	switch {
	case s.Monitor != MonitorAccuracy && s.Monitor != MonitorLoss:
		return s, &OptionError{"monitor", fmt.Sprintf("%q is not watched; choose val_accuracy or val_loss", s.Monitor)}
	case !validNormalize(s.NormalizeFeatures):
		return s, &OptionError{"normalize_features", fmt.Sprintf("%q is not known; choose none, row or l2", s.NormalizeFeatures)}
	case !(s.LearningRate > 0 && s.LearningRate <= 100):
		return s, &OptionError{"lr", fmt.Sprintf("%v is outside (0, 100]", s.LearningRate)}
	case !(s.WeightDecay >= 0 && s.WeightDecay <= 100):
		return s, &OptionError{"weight_decay", fmt.Sprintf("%v is outside [0, 100]", s.WeightDecay)}
	case !(s.Dropout >= 0 && s.Dropout < 1):
		return s, &OptionError{"dropout", fmt.Sprintf("%v is outside [0, 1)", s.Dropout)}
	}
	config := s.config(Shape{Features: 1, Classes: 1})
	if err := config.Validate(); err != nil {
		return s, err
	}
	var err error
	if s.NumNeighbors, err = fanouts("num_neighbors", o.NumNeighbors, config.Hops(), fanout); err != nil {
		return s, err
	}
	s.EvalNeighbors, err = fanouts("eval_neighbors", o.EvalNeighbors, config.Hops(), -1)
	return s, err
}

// fanouts checks a list of neighbours by hop, or makes one.
func fanouts(name string, given []int, hops, standard int) ([]int, error) {
	if hops == 0 {
		return []int{}, nil // an MLP reads no neighbours
	}
	if given == nil {
		return slices.Repeat([]int{standard}, hops), nil
	}
	if len(given) != hops {
		return nil, &OptionError{name, fmt.Sprintf("%d hops given for a model of %d layers; give one entry a layer", len(given), hops)}
	}
	for i, k := range given {
		if k < -1 || k > maxFanout {
			return nil, &OptionError{name, fmt.Sprintf("entry %d is %d, outside -1 (all) to %d", i, k, maxFanout)}
		}
	}
	return slices.Clone(given), nil
}

// A Shape is what the options don't say: the widths of the data.
type Shape struct {
	Features int          // columns of x
	DType    layout.DType // type of x; 0 stands for float32
	Classes  int          // labels are 0 to Classes-1
}

func (s Settings) config(shape Shape) nn.Config {
	return nn.Config{Kind: s.Model, Inputs: shape.Features, Hidden: s.Hidden, Classes: shape.Classes, Layers: s.Layers,
		Dropout: s.Dropout, InputDropout: s.InputDropout,
		Heads: s.Heads, OutputHeads: s.OutputHeads, AttentionDropout: s.AttentionDropout, Residual: s.Residual}
}
