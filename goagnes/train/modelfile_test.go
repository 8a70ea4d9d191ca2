package train_test

// Model files: round trip, equal bytes, and refusal of everything else.

import (
	"bytes"
	"context"
	"errors"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/goagnes/goagnes/goagnes/train"
	"github.com/goagnes/goagnes/layout"
	"github.com/goagnes/goagnes/layout/npy"
)

func TestSaveLoadPredict(t *testing.T) {
	g := community(400, 3, 8, 0.8)
	for _, model := range []string{"gcn", "sage", "gat", "mlp"} {
		o := small()
		o.Model, o.NormalizeFeatures = model, train.NormalizeL2
		if model == "mlp" {
			o.NumNeighbors = nil
		}
		o.Residual = model == "gat"
		r, m := must(t, &memorySource{graph: g}, o)
		dir := t.TempDir()
		path := filepath.Join(dir, "model.npz")
		if err := m.Save(path); err != nil {
			t.Fatal(err)
		}
		loaded, err := train.Load(path)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(loaded.Network.Values, m.Network.Values) || loaded.Network.Config != m.Network.Config || loaded.NormalizeFeatures != train.NormalizeL2 {
			t.Errorf("%s: another model came back", model)
		}
		if err := loaded.Save(path); err != nil {
			t.Fatal(err)
		}
		if entries, _ := os.ReadDir(dir); len(entries) != 1 {
			t.Errorf("files left behind: %v", entries)
		}
		src := &memorySource{graph: g}
		var nodes []int64
		right := 0
		err = train.Predict(context.Background(), src, loaded, train.PredictOptions{BatchSize: 64, Threads: 2}, func(p train.Prediction) error {
			nodes = append(nodes, p.NID...)
			for i, c := range p.Classes {
				if c == p.Labels[i] {
					right++
				}
				row := p.Logits.Data[i*3 : i*3+3]
				if slices.Max(row) != row[c] {
					t.Errorf("class %d of logits %v", c, row)
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(nodes, g.splits["test"]) || src.given != src.released {
			t.Errorf("%s: predicted other nodes, or kept %d minibatches", model, src.given-src.released)
		}
		if got := float64(right) / float64(len(nodes)); got != *r.TestAccuracy {
			t.Errorf("%s: accuracy of predictions %v, reported %v", model, got, *r.TestAccuracy)
		}
		stop := errors.New("enough")
		if err := train.Predict(context.Background(), src, loaded, train.PredictOptions{}, func(train.Prediction) error { return stop }); !errors.Is(err, stop) {
			t.Errorf("%v, want the caller's error", err)
		}
		narrow := *g
		narrow.dim, narrow.x = 4, g.x[:400*4]
		var option *train.OptionError
		err = train.Predict(context.Background(), &memorySource{graph: &narrow}, loaded, train.PredictOptions{}, func(train.Prediction) error { return nil })
		if !errors.As(err, &option) || option.Option != "model" {
			t.Errorf("features of another width: %v", err)
		}
	}
}

// members are those of a good model, to be changed.
func members(t *testing.T) (names []string, data map[string][]byte, shapes map[string][]int64) {
	t.Helper()
	_, m := must(t, &memorySource{graph: community(200, 3, 8, 0.8)}, small())
	path := filepath.Join(t.TempDir(), "model.npz")
	if err := m.Save(path); err != nil {
		t.Fatal(err)
	}
	a, err := npy.OpenArchive(path)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	data, shapes = map[string][]byte{}, map[string][]int64{}
	for _, name := range a.Names() {
		h, r, err := a.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		var b bytes.Buffer
		if _, err := b.ReadFrom(r); err != nil {
			t.Fatal(err)
		}
		r.Close()
		names, data[name], shapes[name] = append(names, name), b.Bytes(), h.Shape
	}
	return names, data, shapes
}

func TestLoadRefuses(t *testing.T) {
	const weight = "layers.0.self.weight"
	for _, c := range []struct {
		name   string
		change func(data map[string][]byte, shapes map[string][]int64)
		says   string
	}{
		{"no config", func(d map[string][]byte, s map[string][]int64) { delete(d, "config") }, "config: is missing"},
		{"no weight", func(d map[string][]byte, s map[string][]int64) { delete(d, weight) }, weight + ": is missing"},
		{"shape", func(d map[string][]byte, s map[string][]int64) { s[weight] = []int64{16, 8} }, "want little-endian float32 [8 16]"},
		{"NaN", func(d map[string][]byte, s map[string][]int64) {
			copy(d[weight], []byte{0, 0, 0xc0, 0x7f})
		}, "not finite"},
		{"json", func(d map[string][]byte, s map[string][]int64) { d["config"][0] = '[' }, "JSON"},
		{"format", func(d map[string][]byte, s map[string][]int64) { replace(d, s, `"format":1`, `"format":2`) }, "format 2"},
		{"kind", func(d map[string][]byte, s map[string][]int64) { replace(d, s, `"sage"`, `"gats"`) }, "gats"},
		{"huge", func(d map[string][]byte, s map[string][]int64) { replace(d, s, `"hidden":16`, `"hidden":65536`) }, "more than the file holds"},
		{"layers", func(d map[string][]byte, s map[string][]int64) { replace(d, s, `"layers":2`, `"layers":99`) }, "layers"},
	} {
		names, data, shapes := members(t)
		c.change(data, shapes)
		path := filepath.Join(t.TempDir(), "model.npz")
		f, err := os.Create(path)
		if err != nil {
			t.Fatal(err)
		}
		w := npy.NewArchiveWriter(f)
		for _, name := range names {
			if data[name] == nil {
				continue
			}
			dtype := layout.Float32
			if name == "config" {
				dtype = layout.Uint8
			}
			if err := w.Add(name, dtype, shapes[name], bytes.NewReader(data[name])); err != nil {
				t.Fatal(err)
			}
		}
		if err := errors.Join(w.Close(), f.Close()); err != nil {
			t.Fatal(err)
		}
		_, err = train.Load(path)
		var e *train.ModelError
		if !errors.As(err, &e) || !strings.Contains(err.Error(), c.says) || !strings.Contains(err.Error(), path) || e.Class() != "input" {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

func replace(data map[string][]byte, shapes map[string][]int64, from, to string) {
	data["config"] = bytes.Replace(data["config"], []byte(from), []byte(to), 1)
	shapes["config"] = []int64{int64(len(data["config"]))}
}

// Any single damaged byte of a model file is found, or harmless; a cut file is
// refused; nothing panics.
func TestDamagedModel(t *testing.T) {
	_, m := must(t, &memorySource{graph: community(200, 3, 8, 0.8)}, small())
	path := filepath.Join(t.TempDir(), "model.npz")
	if err := m.Save(path); err != nil {
		t.Fatal(err)
	}
	good, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	try := func(b []byte) (*train.Model, error) {
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
		return train.Load(path)
	}
	for i := 0; i < len(good); i += 3 {
		b := slices.Clone(good)
		b[i] ^= 0x41
		got, err := try(b)
		if err != nil {
			continue
		}
		for k, v := range got.Network.Values {
			if math.Float32bits(v) != math.Float32bits(m.Network.Values[k]) {
				t.Fatalf("byte %d changed, parameter %d came back as %v unnoticed", i, k, v)
			}
		}
	}
	for _, n := range []int{0, 1, 100, len(good) / 2, len(good) - 1} {
		if _, err := try(good[:n]); err == nil {
			t.Errorf("a file cut to %d bytes was read", n)
		}
	}
	if _, err := train.Load(filepath.Join(t.TempDir(), "absent.npz")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("absent file: %v", err)
	}
}

func TestSaveFails(t *testing.T) {
	_, m := must(t, &memorySource{graph: community(200, 3, 8, 0.8)}, small())
	var e *train.ModelError
	folder := t.TempDir()
	for _, path := range []string{filepath.Join(folder, "absent", "model.npz"), folder} {
		if err := m.Save(path); !errors.As(err, &e) {
			t.Errorf("%v, want a *ModelError", err)
		}
		if err := train.CheckSave(path); !errors.As(err, &e) {
			t.Errorf("checking beforehand: %v, want a *ModelError", err)
		}
	}
	if err := train.CheckSave(filepath.Join(folder, "model.npz")); err != nil {
		t.Error(err)
	}
	if left, err := os.ReadDir(folder); err != nil || len(left) != 0 {
		t.Errorf("checking left %v, %v", left, err)
	}
}
