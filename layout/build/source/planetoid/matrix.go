package planetoid

// The sparse matrices of raw Planetoid files, and rows gathered from them.

import (
	"context"
	"encoding/binary"
	"math"

	"github.com/goagnes/goagnes/layout"
	"github.com/goagnes/goagnes/layout/build/element"
	"github.com/goagnes/goagnes/layout/build/source"
	"github.com/goagnes/goagnes/layout/build/source/array"
	"github.com/goagnes/goagnes/layout/build/source/pickle"
)

// pickleArray gives an unpickled array the form of an array in memory.
func pickleArray(name string, a *pickle.Array) array.Array {
	out := array.Array{Name: name, Data: []byte(a.Data), DType: a.DType.Type, BigEndian: a.DType.BigEndian, Shape: a.Shape}
	if a.Fortran {
		step := int64(a.DType.Type.Size())
		for _, n := range a.Shape {
			out.Strides = append(out.Strides, step)
			step *= max(n, 1)
		}
	}
	return out
}

// csrMatrix is a sparse matrix in memory.
type csrMatrix struct {
	rows, columns int64
	indptr        []int64
	indices       []int64
	data          []float32
}

// sparseRow is one row of a csrMatrix.
type sparseRow struct {
	indices []int64
	data    []float32
}

func (c *csrMatrix) row(i int64) sparseRow {
	return sparseRow{c.indices[c.indptr[i]:c.indptr[i+1]], c.data[c.indptr[i]:c.indptr[i+1]]}
}

// matrix reads a csr_matrix of float32 or float64 (narrowed, as PyG does).
func (p *planetoid) matrix(ending string) (*csrMatrix, error) {
	path := p.file(ending)
	v, err := p.load(ending)
	if err != nil {
		return nil, err
	}
	o, ok := v.(*pickle.Object)
	if !ok || !o.IsCSR() || o.State == nil {
		return nil, source.Errorf(path, "no csr_matrix")
	}
	var shape *pickle.Tuple
	for _, key := range []string{"_shape", "shape"} {
		if v, ok := o.State.Get(key); ok {
			shape, _ = v.(*pickle.Tuple)
		}
	}
	if shape == nil || len(shape.Items) != 2 {
		return nil, source.Errorf(path, "a csr_matrix without a shape of two numbers")
	}
	c := &csrMatrix{}
	var ok0, ok1 bool
	c.rows, ok0 = shape.Items[0].(int64)
	c.columns, ok1 = shape.Items[1].(int64)
	if !ok0 || !ok1 || c.rows < 0 || c.rows > maxPlanetoidNodes || c.columns < 0 || c.columns > source.MaxRowBytes/4 {
		return nil, source.Errorf(path, "a csr_matrix of shape (%v, %v)", shape.Items[0], shape.Items[1])
	}
	part := func(key string) (array.Array, error) {
		v, _ := o.State.Get(key)
		a, ok := v.(*pickle.Array)
		if !ok || len(a.Shape) != 1 || !a.DType.Type.Valid() {
			return array.Array{}, source.Errorf(path, "a csr_matrix whose %s is no array of one axis", key)
		}
		return pickleArray(path+": "+key, a), nil
	}
	for key, out := range map[string]*[]int64{"indptr": &c.indptr, "indices": &c.indices} {
		a, err := part(key)
		if err != nil {
			return nil, err
		}
		if err := source.CheckIDType(a.Name, a.DType); err != nil {
			return nil, err
		}
		*out = make([]int64, a.Shape[0])
		if bad := element.IDs(*out, a.Data, 0, int64(a.DType.Size()), a.DType, a.BigEndian); bad >= 0 {
			return nil, source.BadID(a.Name, int64(bad), (*out)[bad], a.DType)
		}
	}
	a, err := part("data")
	if err != nil {
		return nil, err
	}
	if a.BigEndian {
		element.SwapBytes(a.Data, a.DType.Size())
	}
	c.data = make([]float32, a.Shape[0])
	for i := range c.data {
		switch a.DType {
		case layout.Float32:
			c.data[i] = math.Float32frombits(binary.LittleEndian.Uint32(a.Data[4*i:]))
		case layout.Float64:
			c.data[i] = float32(math.Float64frombits(binary.LittleEndian.Uint64(a.Data[8*i:])))
		default:
			return nil, source.Errorf(a.Name, "values of type %s; float32 or float64 are read", a.DType)
		}
	}
	return c, c.check(path)
}

func (c *csrMatrix) check(path string) error {
	if int64(len(c.indptr)) != c.rows+1 || c.indptr[0] != 0 || len(c.indices) != len(c.data) ||
		c.indptr[c.rows] != int64(len(c.data)) {
		return source.Errorf(path, "a csr_matrix of %d rows with %d offsets, %d columns and %d values",
			c.rows, len(c.indptr), len(c.indices), len(c.data))
	}
	for i := range c.rows {
		if c.indptr[i] > c.indptr[i+1] {
			return source.ErrorAt(path, i, "a row of the csr_matrix that ends before it starts")
		}
	}
	for i, v := range c.indices {
		if v >= c.columns {
			return source.ErrorAt(path, int64(i), "column %d of a csr_matrix of %d columns", v, c.columns)
		}
	}
	return nil
}

// sparseRows delivers sparse float32 rows densely. Values of one place are summed,
// as todense does.
type sparseRows struct {
	name    string
	columns int64
	rows    []sparseRow
}

func (s *sparseRows) Len() int64          { return int64(len(s.rows)) }
func (s *sparseRows) RowShape() []int64   { return []int64{s.columns} }
func (s *sparseRows) DType() layout.DType { return layout.Float32 }
func (s *sparseRows) Name() string        { return s.name }

func (s *sparseRows) Scan(ctx context.Context, f func(first int64, rows []byte) error) error {
	if s.columns == 0 {
		return ctx.Err()
	}
	rowBytes := 4 * s.columns
	per := source.RowsPerChunk(rowBytes)
	buf := make([]byte, min(per, s.Len())*rowBytes)
	for first := int64(0); first < s.Len(); first += per {
		if err := ctx.Err(); err != nil {
			return err
		}
		b := buf[:min(per, s.Len()-first)*rowBytes]
		clear(b)
		for r := range int64(len(b)) / rowBytes {
			out := b[r*rowBytes:]
			row := s.rows[first+r]
			for i, col := range row.indices {
				v := row.data[i] + math.Float32frombits(binary.LittleEndian.Uint32(out[4*col:]))
				binary.LittleEndian.PutUint32(out[4*col:], math.Float32bits(v))
			}
		}
		if err := f(first, b); err != nil {
			return err
		}
	}
	return nil
}
