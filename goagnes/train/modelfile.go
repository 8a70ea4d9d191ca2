package train

// Models on disk: model.npz.

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"syscall"

	"github.com/goagnes/goagnes/goagnes/nn"
	"github.com/goagnes/goagnes/layout"
	"github.com/goagnes/goagnes/layout/npy"
)

// A Model is what Train gives and Predict takes: a network, and what is done to
// its input first.
type Model struct {
	Network           *nn.Model
	NormalizeFeatures string // as in Options; "" is none
}

// A model file is an npz archive of stored members: "config", uint8, the JSON
// document below, and one float32 array for each parameter: weights (inputs,
// outputs), biases (outputs,), under the names of nn.Model.Parameters, in their
// order. No time or path is in it: equal models are equal files.
type modelConfig struct {
	Format            int       `json:"format"`
	Network           nn.Config `json:"network"`
	NormalizeFeatures string    `json:"normalize_features"`
}

const (
	modelFormat    = 1 // newest format written and read
	configMember   = "config"
	maxConfigBytes = 64 << 10
	// maxModelFloats bounds what a file may make us allocate: 16 GiB.
	maxModelFloats = 1 << 32
)

// A ModelError tells what is wrong with a model file.
type ModelError struct {
	File   string
	Member string // of the archive; may be empty
	Reason string
	Err    error
}

func (e *ModelError) Error() string {
	s := "train: " + e.File
	if e.Member != "" {
		s += ": " + e.Member
	}
	if e.Err != nil {
		return fmt.Sprintf("%s: %s: %v", s, e.Reason, e.Err)
	}
	return s + ": " + e.Reason
}

// Unwrap returns the cause.
func (e *ModelError) Unwrap() error { return e.Err }

// Class returns "input".
func (e *ModelError) Class() string { return "input" }

// Save writes the model to path: beside it first, synced, then renamed, so that
// path is either what it was or whole.
func (m *Model) Save(path string) (err error) {
	fail := func(err error) error { return &ModelError{path, "", "cannot be written", err} }
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		return fail(err)
	}
	defer func() {
		if err != nil {
			f.Close()
			os.Remove(f.Name())
			err = fail(err)
		}
	}()
	if err = m.write(f); err != nil {
		return err
	}
	if err = f.Chmod(0o644); err != nil {
		return err
	}
	if err = f.Sync(); err != nil {
		return err
	}
	if err = f.Close(); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}

// CheckSave finds out whether Save can write to path, so that a training does
// not end with weights that have no place to go.
func CheckSave(path string) error {
	if st, err := os.Stat(path); err == nil && st.IsDir() {
		return &ModelError{path, "", "cannot be written", syscall.EISDIR}
	}
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		return &ModelError{path, "", "cannot be written", err}
	}
	f.Close()
	os.Remove(f.Name())
	return nil
}

func (m *Model) write(w io.Writer) error {
	a := npy.NewArchiveWriter(w)
	config, err := json.Marshal(modelConfig{modelFormat, m.Network.Config, m.NormalizeFeatures})
	if err != nil {
		return err
	}
	if err := a.Add(configMember, layout.Uint8, []int64{int64(len(config))}, bytes.NewReader(config)); err != nil {
		return err
	}
	for _, p := range m.Network.Parameters {
		if err := a.Add(p.Name, layout.Float32, shapeOf(p), &floatReader{values: p.Values}); err != nil {
			return err
		}
	}
	return a.Close()
}

func shapeOf(p nn.Parameter) []int64 {
	if p.IsBias() {
		return []int64{int64(p.Cols)}
	}
	return []int64{int64(p.Rows), int64(p.Cols)}
}

// floatReader reads float32 values as little-endian bytes.
type floatReader struct {
	values []float32
	buf    [4096]byte
	rest   []byte
}

func (r *floatReader) Read(p []byte) (int, error) {
	if len(r.rest) == 0 {
		n := min(len(r.values), len(r.buf)/4)
		if n == 0 {
			return 0, io.EOF
		}
		for i, v := range r.values[:n] {
			binary.LittleEndian.PutUint32(r.buf[4*i:], math.Float32bits(v))
		}
		r.values, r.rest = r.values[n:], r.buf[:4*n]
	}
	n := copy(p, r.rest)
	r.rest = r.rest[n:]
	return n, nil
}

// Load reads a model. Whatever the file holds, the answer is a model or an error
// (*ModelError, or *npy.Error for a broken archive), and memory is taken only as
// far as the file holds data for it.
func Load(path string) (_ *Model, err error) {
	a, err := npy.OpenArchive(path)
	if err != nil {
		return nil, err
	}
	defer a.Close()
	config, err := readConfig(a, path)
	if err != nil {
		return nil, err
	}
	info, err := os.Stat(path)
	if err != nil {
		return nil, &ModelError{path, "", "cannot be read", err}
	}
	n := config.Network.NumParameters()
	if n > maxModelFloats || int64(n)*4 > info.Size() {
		return nil, &ModelError{path, configMember, fmt.Sprintf("describes %d parameters, more than the file holds", n), nil}
	}
	network, err := nn.NewModel(config.Network, make([]float32, n))
	if err != nil {
		return nil, &ModelError{path, configMember, "is refused", err}
	}
	for _, p := range network.Parameters {
		if err := readParameter(a, path, p); err != nil {
			return nil, err
		}
	}
	return &Model{Network: network, NormalizeFeatures: config.NormalizeFeatures}, nil
}

func readConfig(a *npy.Archive, path string) (c modelConfig, err error) {
	h, r, err := open(a, path, configMember)
	if err != nil {
		return c, err
	}
	defer r.Close()
	if h.DType != layout.Uint8 || len(h.Shape) != 1 || h.Shape[0] > maxConfigBytes {
		return c, &ModelError{path, configMember, fmt.Sprintf("is %v %v, want uint8 of at most %d", h.DType, h.Shape, maxConfigBytes), nil}
	}
	text, err := io.ReadAll(io.LimitReader(r, maxConfigBytes+1))
	if err != nil {
		return c, err
	}
	if err := json.Unmarshal(text, &c); err != nil {
		return c, &ModelError{path, configMember, "is not the JSON it should be", err}
	}
	if c.Format != modelFormat {
		return c, &ModelError{path, configMember, fmt.Sprintf("is format %d; this version reads format %d", c.Format, modelFormat), nil}
	}
	if c.NormalizeFeatures != "" && !validNormalize(c.NormalizeFeatures) {
		return c, &ModelError{path, configMember, fmt.Sprintf("normalises features by %q, which this version does not know", c.NormalizeFeatures), nil}
	}
	if err := c.Network.Validate(); err != nil {
		return c, &ModelError{path, configMember, "is refused", err}
	}
	return c, nil
}

func open(a *npy.Archive, path, member string) (npy.Header, io.ReadCloser, error) {
	if !a.Has(member) {
		return npy.Header{}, nil, &ModelError{path, member, "is missing; this is not a model that goagnes saved", nil}
	}
	return a.Open(member)
}

func readParameter(a *npy.Archive, path string, p nn.Parameter) error {
	h, r, err := open(a, path, p.Name)
	if err != nil {
		return err
	}
	defer r.Close()
	want := shapeOf(p)
	same := len(want) == len(h.Shape)
	for i := range want {
		same = same && want[i] == h.Shape[i]
	}
	if h.DType != layout.Float32 || h.BigEndian || h.Fortran && len(want) > 1 || !same {
		return &ModelError{path, p.Name, fmt.Sprintf("is %v %v, want little-endian float32 %v in C order", h.DType, h.Shape, want), nil}
	}
	var buf [4096]byte
	for v := p.Values; len(v) > 0; {
		n := min(len(v), len(buf)/4)
		if _, err := io.ReadFull(r, buf[:4*n]); err != nil {
			return &ModelError{path, p.Name, "ends early", err}
		}
		for i := range n {
			x := math.Float32frombits(binary.LittleEndian.Uint32(buf[4*i:]))
			if math.IsNaN(float64(x)) || math.IsInf(float64(x), 0) {
				return &ModelError{path, p.Name, "holds a value that is not finite", nil}
			}
			v[i] = x
		}
		v = v[n:]
	}
	_, err = io.Copy(io.Discard, r) // to the end, where the checksum is verified
	return err
}
