package train_test

// Anything at all as a model's file: a typed error or a model, within memory in
// proportion to the file.

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/goagnes/goagnes/goagnes/nn"
	"github.com/goagnes/goagnes/goagnes/train"
	"github.com/goagnes/goagnes/layout"
	"github.com/goagnes/goagnes/layout/npy"
	"github.com/goagnes/goagnes/tests/bounds"
)

// maxFuzzFloats bounds the weights that are written for a configuration.
const maxFuzzFloats = 1 << 14

// archiveOf returns a model's file with that text as its configuration, and the
// parameters that it asks for where they are few.
func archiveOf(t testing.TB, config []byte) []byte {
	var b bytes.Buffer
	w := npy.NewArchiveWriter(&b)
	add := func(name string, d layout.DType, shape []int64, data []byte) {
		if err := w.Add(name, d, shape, bytes.NewReader(data)); err != nil {
			t.Fatal(err)
		}
	}
	add("config", layout.Uint8, []int64{int64(len(config))}, config)
	var c struct {
		Network nn.Config `json:"network"`
	}
	if json.Unmarshal(config, &c) == nil && c.Network.Validate() == nil && c.Network.NumParameters() <= maxFuzzFloats {
		m, err := nn.NewModel(c.Network, make([]float32, c.Network.NumParameters()))
		if err != nil {
			t.Fatalf("a configuration that is valid: %v", err)
		}
		for _, p := range m.Parameters {
			shape := []int64{int64(p.Rows), int64(p.Cols)}
			if p.IsBias() {
				shape = shape[1:]
			}
			add(p.Name, layout.Float32, shape, make([]byte, 4*p.Rows*p.Cols))
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// FuzzLoadModel reads anything as a model's file; where config is set, as the
// configuration of one that holds what it asks for.
func FuzzLoadModel(f *testing.F) {
	for _, config := range []string{
		`{"format":1,"network":{"kind":"sage","inputs":3,"hidden":4,"classes":2,"layers":2,"dropout":0.5},"normalize_features":true}`,
		`{"format":1,"network":{"kind":"gat","inputs":3,"hidden":4,"classes":2,"layers":2,"heads":2,"output_heads":1,"residual":true}}`,
		`{"format":1,"network":{"kind":"mlp","inputs":1048576,"hidden":1048576,"classes":1048576,"layers":5}}`,
		`{"format":2}`,
	} {
		f.Add([]byte(config), true)
		f.Add(archiveOf(f, []byte(config)), false)
	}
	path := filepath.Join(f.TempDir(), "model.npz")
	f.Fuzz(func(t *testing.T, in []byte, config bool) {
		if len(in) > 1<<16 {
			return
		}
		if config {
			in = archiveOf(t, in)
		}
		if err := os.WriteFile(path, in, 0o644); err != nil {
			t.Fatal(err)
		}
		bounds.Hold(t, len(in), bounds.Limit{Fixed: 1 << 20, Factor: 64}, func() {
			m, err := train.Load(path)
			switch {
			case err != nil && !errors.As(err, new(*train.ModelError)) && !errors.As(err, new(*npy.Error)):
				t.Fatalf("untyped error %v (%T)", err, err)
			case err == nil && m.Network.Config.Validate() != nil:
				t.Fatalf("%+v was read", m.Network.Config)
			}
		})
	})
}
