package train

// Memory of a run: a model's arrays and the arena of its passes.

// An Allocator gives out and takes back float32 arrays aligned to 64 bytes, so
// that a budget can count them. Their contents are unspecified.
type Allocator interface {
	Allocate(floats int) ([]float32, error)
	Free(floats []float32)
}

// heap is the default Allocator. The collector takes arrays back.
type heap struct{}

func (heap) Allocate(n int) ([]float32, error) { return make([]float32, n), nil }
func (heap) Free([]float32)                    {}

// memory is an Allocator with what is out, so that all of it goes back.
type memory struct {
	Allocator
	held [][]float32
}

func newMemory(a Allocator) *memory {
	if a == nil {
		a = heap{}
	}
	return &memory{Allocator: a}
}

// take returns n zeros.
func (m *memory) take(n int) ([]float32, error) {
	f, err := m.Allocate(n)
	if err != nil {
		return nil, err
	}
	m.held = append(m.held, f)
	clear(f)
	return f, nil
}

func (m *memory) release() {
	for _, f := range m.held {
		m.Free(f)
	}
	m.held = nil
}
