package array

// Arrays that lie in memory: edges and rows over bytes of any supported integer
// or element type, with any strides.

import (
	"context"
	"math"

	"github.com/goagnes/goagnes/layout"
	"github.com/goagnes/goagnes/layout/build/element"
	"github.com/goagnes/goagnes/layout/build/source"
)

// Array describes a strided array in memory, as numpy does. The bytes must stay
// unchanged while the array is read.
type Array struct {
	// Name is used in messages, such as "edge_index".
	Name string
	// Data holds all elements.
	Data []byte
	// DType is the element type.
	DType layout.DType
	// BigEndian says that elements are stored most significant byte first.
	BigEndian bool
	// Shape is the extent of each axis.
	Shape []int64
	// Strides are the bytes from one element to the next along each axis, and may
	// be negative; nil means C order without gaps.
	Strides []int64
	// Offset is the byte position in Data of the element with all indices 0; it
	// is not 0 where strides are negative.
	Offset int64
}

// check fills in strides and proves that every element lies inside Data.
func (a *Array) check() error {
	if !a.DType.Valid() {
		return source.Errorf(a.Name, "undefined element type %d", uint8(a.DType))
	}
	if len(a.Shape) > 32 {
		return source.Errorf(a.Name, "%d axes; at most 32 are read", len(a.Shape))
	}
	size := int64(a.DType.Size())
	total := size
	for _, n := range a.Shape {
		if n < 0 {
			return source.Errorf(a.Name, "shape %v has a negative extent", a.Shape)
		}
		if n > 0 && total > math.MaxInt64/n {
			return source.Errorf(a.Name, "shape %v is too large", a.Shape)
		}
		total *= max(n, 1)
	}
	if a.Strides == nil {
		a.Strides = make([]int64, len(a.Shape))
		step := size
		for i := len(a.Shape) - 1; i >= 0; i-- {
			a.Strides[i] = step
			step *= max(a.Shape[i], 1)
		}
	}
	if len(a.Strides) != len(a.Shape) {
		return source.Errorf(a.Name, "%d strides for %d axes", len(a.Strides), len(a.Shape))
	}
	low, high := a.Offset, a.Offset
	for i, n := range a.Shape {
		if n == 0 {
			return nil // no element at all
		}
		s := a.Strides[i]
		if s == math.MinInt64 || (n > 1 && abs(s) > math.MaxInt64/4/(n-1)) {
			return source.Errorf(a.Name, "stride %d of axis %d is too large", s, i)
		}
		reach := s * (n - 1)
		if reach < 0 {
			low += reach
		} else {
			high += reach
		}
		if low < -math.MaxInt64/2 || high > math.MaxInt64/2 {
			return source.Errorf(a.Name, "strides %v are too large", a.Strides)
		}
	}
	if low < 0 || high+size > int64(len(a.Data)) {
		return source.Errorf(a.Name, "shape %v with strides %v from byte %d needs bytes %d to %d, and there are %d",
			a.Shape, a.Strides, a.Offset, low, high+size, len(a.Data))
	}
	return nil
}

func abs(x int64) int64 {
	if x < 0 {
		return -x
	}
	return x
}

// vector is one checked axis of an Array.
type vector struct {
	name   string
	data   []byte
	dtype  layout.DType
	big    bool
	length int64
	stride int64
	offset int64
}

type memoryEdges struct {
	name     string
	src, dst vector
}

// EdgesFromMemory returns the edges of an edge index in memory: integers of any
// type (int32, uint32, int64 and uint64 are fast) of shape (2, E), sources in row 0 and targets in row 1, or
// (E, 2), one edge a row. A (2, 2) array is read as (2, E).
func EdgesFromMemory(edgeIndex Array) (source.Edges, error) {
	if err := edgeIndex.check(); err != nil {
		return nil, err
	}
	if err := source.CheckIDType(edgeIndex.Name, edgeIndex.DType); err != nil {
		return nil, err
	}
	rows, err := edgeIndexLayout(edgeIndex.Name, edgeIndex.Shape)
	if err != nil {
		return nil, err
	}
	pair, along := 0, 1
	if !rows {
		pair, along = 1, 0
	}
	src := vector{name: edgeIndex.Name, data: edgeIndex.Data, dtype: edgeIndex.DType, big: edgeIndex.BigEndian,
		length: edgeIndex.Shape[along], stride: edgeIndex.Strides[along], offset: edgeIndex.Offset}
	dst := src
	dst.offset += edgeIndex.Strides[pair]
	return &memoryEdges{name: edgeIndex.Name, src: src, dst: dst}, nil
}

// EdgesFromPairs returns the edges src[i] → dst[i] of two 1-D arrays of equal
// length; their types may differ.
func EdgesFromPairs(src, dst Array) (source.Edges, error) {
	var v [2]vector
	for i, a := range []*Array{&src, &dst} {
		if err := a.check(); err != nil {
			return nil, err
		}
		if err := source.CheckIDType(a.Name, a.DType); err != nil {
			return nil, err
		}
		if len(a.Shape) != 1 {
			return nil, source.Errorf(a.Name, "shape %v; a list of ids has one axis", a.Shape)
		}
		v[i] = vector{name: a.Name, data: a.Data, dtype: a.DType, big: a.BigEndian,
			length: a.Shape[0], stride: a.Strides[0], offset: a.Offset}
	}
	if v[0].length != v[1].length {
		return nil, source.Errorf(dst.Name, "%d targets for %d sources (%s)", v[1].length, v[0].length, src.Name)
	}
	return &memoryEdges{name: src.Name, src: v[0], dst: v[1]}, nil
}

func (m *memoryEdges) Name() string         { return m.name }
func (m *memoryEdges) Count() (int64, bool) { return m.src.length, true }

func (m *memoryEdges) Scan(ctx context.Context, f func(src, dst []int64) error) error {
	size := min(m.src.length, source.ChunkEdges)
	src, dst := make([]int64, size), make([]int64, size)
	for first := int64(0); first < m.src.length; first += source.ChunkEdges {
		if err := ctx.Err(); err != nil {
			return err
		}
		n := min(m.src.length-first, source.ChunkEdges)
		if err := m.src.ids(src[:n], first); err != nil {
			return err
		}
		if err := m.dst.ids(dst[:n], first); err != nil {
			return err
		}
		if err := f(src[:n], dst[:n]); err != nil {
			return err
		}
	}
	return nil
}

// ids decodes the elements from first on.
func (v *vector) ids(out []int64, first int64) error {
	at := v.offset + first*v.stride
	bad := element.IDs(out, v.data, at, v.stride, v.dtype, v.big)
	if bad >= 0 {
		return source.BadID(v.name, first+int64(bad), out[bad], v.dtype)
	}
	return nil
}

type memoryRows struct {
	a        Array
	rowShape []int64
	rowElems int64
	rowBytes int64
	packed   bool // rows need no gathering
}

// RowsFromMemory returns the rows of an array in memory, axis 0 the rows.
func RowsFromMemory(a Array) (source.Rows, error) {
	if err := a.check(); err != nil {
		return nil, err
	}
	if len(a.Shape) == 0 {
		return nil, source.Errorf(a.Name, "a single value, where an array with one row a node is due")
	}
	m := &memoryRows{a: a, rowShape: a.Shape[1:], rowElems: 1}
	step := int64(a.DType.Size())
	m.packed = !a.BigEndian || step == 1
	for i := len(a.Shape) - 1; i >= 0; i-- {
		if a.Shape[i] > 1 && a.Strides[i] != step {
			m.packed = false
		}
		step *= a.Shape[i]
		if i > 0 {
			m.rowElems *= a.Shape[i]
		}
	}
	m.rowBytes = m.rowElems * int64(a.DType.Size())
	if m.rowBytes > source.MaxRowBytes {
		return nil, source.Errorf(a.Name, "rows of %d bytes; at most %d are read", m.rowBytes, source.MaxRowBytes)
	}
	return m, nil
}

func (m *memoryRows) Len() int64          { return m.a.Shape[0] }
func (m *memoryRows) RowShape() []int64   { return m.rowShape }
func (m *memoryRows) DType() layout.DType { return m.a.DType }
func (m *memoryRows) Name() string        { return m.a.Name }

func (m *memoryRows) Scan(ctx context.Context, f func(first int64, rows []byte) error) error {
	if m.rowBytes == 0 {
		return ctx.Err()
	}
	per := source.RowsPerChunk(m.rowBytes)
	var buf []byte
	if !m.packed {
		buf = make([]byte, min(per, m.Len())*m.rowBytes)
	}
	for first := int64(0); first < m.Len(); first += per {
		if err := ctx.Err(); err != nil {
			return err
		}
		n := min(per, m.Len()-first)
		at := m.a.Offset + first*m.a.Strides[0]
		if m.packed {
			if err := f(first, m.a.Data[at:at+n*m.rowBytes]); err != nil {
				return err
			}
			continue
		}
		out := buf[:n*m.rowBytes]
		m.gather(out, at, n)
		if m.a.BigEndian {
			element.SwapBytes(out, m.a.DType.Size())
		}
		if err := f(first, out); err != nil {
			return err
		}
	}
	return nil
}

// gather copies n strided rows, the first at byte at, to out in C order.
func (m *memoryRows) gather(out []byte, at, n int64) {
	size := int64(m.a.DType.Size())
	index := make([]int64, len(m.rowShape))
	strides := m.a.Strides[1:]
	inner := len(m.rowShape) - 1
	for r := range n {
		row := at + r*m.a.Strides[0]
		if inner < 0 {
			copy(out[:size], m.a.Data[row:row+size])
			out = out[size:]
			continue
		}
		for i := range index {
			index[i] = 0
		}
		for {
			p := row
			for i := range inner {
				p += index[i] * strides[i]
			}
			if strides[inner] == size {
				run := m.rowShape[inner] * size
				copy(out[:run], m.a.Data[p:p+run])
				out = out[run:]
			} else {
				for range m.rowShape[inner] {
					copy(out[:size], m.a.Data[p:p+size])
					out = out[size:]
					p += strides[inner]
				}
			}
			axis := inner - 1
			for axis >= 0 {
				index[axis]++
				if index[axis] < m.rowShape[axis] {
					break
				}
				index[axis] = 0
				axis--
			}
			if axis < 0 {
				break
			}
		}
	}
}

// edgeIndexLayout tells (2, E) from (E, 2).
func edgeIndexLayout(name string, shape []int64) (rows bool, err error) {
	if len(shape) == 2 && shape[0] == 2 {
		return true, nil
	}
	if len(shape) == 2 && shape[1] == 2 {
		return false, nil
	}
	return false, source.Errorf(name, "shape %s; an edge index has shape (2, E) or (E, 2)", source.ShapeString(shape))
}
