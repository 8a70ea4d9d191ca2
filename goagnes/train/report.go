package train

// The account of a run.

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"math"
	"time"

	"github.com/goagnes/goagnes/goagnes/nn"
)

// A Report is the account of a run. Accuracies are in 0 to 1, over labelled
// nodes; null where there are none.
type Report struct {
	Model    string   `json:"model"`
	Options  Settings `json:"options"`
	Epochs   []Epoch  `json:"epochs"`
	Features int      `json:"num_features"`
	Classes  int      `json:"num_classes"`
	// BestEpoch is the epoch whose weights are kept and tested: the best one by
	// Options.Monitor; the last one where there are no validation nodes.
	BestEpoch    uint32   `json:"best_epoch"`
	ValAccuracy  *float64 `json:"val_accuracy"`
	TestAccuracy *float64 `json:"test_accuracy"`
	Counts       Counts   `json:"counts"`
	Parameters   int      `json:"parameters"`
	Seconds      Seconds  `json:"seconds"`
	// PeakActivationBytes is the largest arena of a pass; ModelBytes the weights,
	// gradients, moments and kept weights.
	PeakActivationBytes int64  `json:"peak_activation_bytes"`
	ModelBytes          int64  `json:"model_bytes"`
	WeightsSHA256       string `json:"weights_sha256"` // of little-endian float32
}

// Counts are labelled nodes seen in one pass over each split.
type Counts struct {
	Train int `json:"train"`
	Val   int `json:"val"`
	Test  int `json:"test"`
}

// An Epoch is the account of one epoch.
type Epoch struct {
	Epoch         uint32   `json:"epoch"`
	TrainLoss     float64  `json:"train_loss"` // mean over labelled seeds, before each step
	TrainAccuracy float64  `json:"train_accuracy"`
	ValLoss       *float64 `json:"val_loss"`
	ValAccuracy   *float64 `json:"val_accuracy"`
	Seconds       float64  `json:"seconds"` // training and validation
}

// Seconds of a run by stage. Evaluation has its own waiting and computing.
type Seconds struct {
	Wait       float64 `json:"wait_for_data"`
	Forward    float64 `json:"forward"`
	Backward   float64 `json:"backward"`
	Optimizer  float64 `json:"optimizer"`
	Evaluation float64 `json:"evaluation"`
	Total      float64 `json:"total"`
}

// lap adds the time since *at to *seconds and moves *at to now.
func lap(at *time.Time, seconds *float64) {
	now := time.Now()
	*seconds += now.Sub(*at).Seconds()
	*at = now
}

// weightsSHA256 is the hash of the weights as little-endian float32.
func weightsSHA256(m *nn.Model) string {
	h := sha256.New()
	var buf [4096]byte
	for v := m.Values; len(v) > 0; {
		n := min(len(v), len(buf)/4)
		for i, x := range v[:n] {
			binary.LittleEndian.PutUint32(buf[4*i:], math.Float32bits(x))
		}
		h.Write(buf[:4*n])
		v = v[n:]
	}
	return hex.EncodeToString(h.Sum(nil))
}
