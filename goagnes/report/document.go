package report

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/goagnes/goagnes/goagnes"
)

// Prepare is the document of `goagnes bench prepare`.
type Prepare struct {
	Kind        string  `json:"kind"`         // KindPrepare
	Store       string  `json:"store"`        // path
	OpenSeconds float64 `json:"open_seconds"` // opening the store
	DeviceRead  int64   `json:"device_read"`  // bytes that the system says the process read from devices while it prepared, -1 where it does not
	DeviceWrite int64   `json:"device_write"` // likewise, written
	Epochs      []Epoch `json:"epochs"`
	goagnes.Usage
	// Where it was measured: the device's own reads, and what the epochs moved a second as a share of their bandwidth.
	Device         *goagnes.Calibration `json:"device,omitempty"`
	BandwidthRatio float64              `json:"bw_ratio,omitempty"`
	Stats          goagnes.Stats        `json:"stats"`
}

// Epoch is one epoch that was prepared.
type Epoch struct {
	Epoch        int     `json:"epoch"`
	Minibatches  int64   `json:"minibatches"`
	Nodes        int64   `json:"nodes"`
	Edges        int64   `json:"edges"`
	Seconds      float64 `json:"seconds"`
	FirstSeconds float64 `json:"first_seconds"` // until the first minibatch
}

// KindPrepare is the kind of a Prepare.
const KindPrepare = "bench prepare"

// decode reads a document into the type of its kind and makes its page.
func decode(b []byte) (*page, error) {
	var head struct {
		Kind string `json:"kind"`
	}
	if err := json.Unmarshal(b, &head); err != nil {
		var at *json.SyntaxError
		if errors.As(err, &at) {
			return nil, fmt.Errorf("no JSON document (byte %d: %w): give what a verb prints with --json", at.Offset, err)
		}
		return nil, errors.New("not the document of a run: give what a verb prints with --json")
	}
	switch head.Kind {
	case goagnes.KindTrain:
		return pageOf(b, trainPage)
	case goagnes.KindBuild:
		return pageOf(b, buildPage)
	case KindPrepare:
		return pageOf(b, preparePage)
	case "":
		return nil, fmt.Errorf(`no "kind" in it: not the document of a run; give what train, build, import, generate or bench prepare print with --json`)
	}
	return nil, fmt.Errorf("of kind %q: %s, %s and %s are drawn", head.Kind, goagnes.KindTrain, goagnes.KindBuild, KindPrepare)
}

func pageOf[T any](b []byte, f func(*T) *page) (*page, error) {
	d := new(T)
	if err := json.Unmarshal(b, d); err != nil {
		return nil, fmt.Errorf("not of the form that this program writes: %w", err)
	}
	return f(d), nil
}
