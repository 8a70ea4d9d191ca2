package pickle

// The classes and functions a pickle may name, and what stands for calling them.

import (
	"math"
	"strings"

	"github.com/goagnes/goagnes/layout/npy"
)

// allowed lists the names that may occur, and no other: the old and new homes of
// the same few classes.
var allowed = map[global]bool{
	"numpy.ndarray":                       true,
	"numpy.dtype":                         true,
	"numpy.core.multiarray._reconstruct":  true,
	"numpy._core.multiarray._reconstruct": true,
	"scipy.sparse.csr.csr_matrix":         true,
	"scipy.sparse._csr.csr_matrix":        true,
	"collections.defaultdict":             true,
	"__builtin__.list":                    true,
	"builtins.list":                       true,
	"__builtin__.object":                  true,
	"builtins.object":                     true,
	"copy_reg._reconstructor":             true,
	"copyreg._reconstructor":              true,
}

// make stands for the call of an allowed name.
func (m *machine) make(g global, args []any) (any, error) {
	switch g {
	case "numpy.core.multiarray._reconstruct", "numpy._core.multiarray._reconstruct":
		if len(args) == 3 && args[0] == any(global("numpy.ndarray")) {
			return &Array{}, nil
		}
	case "numpy.dtype":
		if len(args) >= 1 {
			if s, ok := args[0].(string); ok {
				return &DType{descr: s}, nil
			}
		}
	case "collections.defaultdict":
		if len(args) == 1 && (args[0] == any(global("__builtin__.list")) || args[0] == any(global("builtins.list"))) {
			return &Dict{}, nil
		}
	case "scipy.sparse.csr.csr_matrix", "scipy.sparse._csr.csr_matrix":
		if len(args) == 0 {
			return &Object{Class: string(g)}, nil
		}
	case "copy_reg._reconstructor", "copyreg._reconstructor":
		if len(args) == 3 && args[2] == nil {
			if c, ok := args[0].(global); ok && strings.HasSuffix(string(c), ".csr_matrix") {
				return &Object{Class: string(c)}, nil
			}
		}
	}
	return nil, m.fail("a call of %s with arguments that are not expected", string(g))
}

// build sets the state of an object.
func (m *machine) build(object, state any) error {
	switch o := object.(type) {
	case *DType:
		t, ok := state.(*Tuple)
		if !ok || len(t.Items) < 2 {
			break
		}
		order, ok := t.Items[1].(string)
		if !ok || (order != "<" && order != ">" && order != "|") {
			return m.fail("an element type of byte order %v", t.Items[1])
		}
		d, big, err := npy.ParseDescr(order + o.descr)
		if err != nil {
			return m.fail("%v", err)
		}
		o.Type, o.BigEndian = d, big
		return nil
	case *Array:
		t, ok := state.(*Tuple)
		if !ok || len(t.Items) != 5 {
			break
		}
		return m.buildArray(o, t.Items[1:])
	case *Object:
		d, ok := state.(*Dict)
		if !ok || o.State != nil {
			break
		}
		o.State = d
		return nil
	}
	return m.fail("a state of type %T for a value of type %T", state, object)
}

// buildArray takes (shape, dtype, is Fortran order, bytes).
func (m *machine) buildArray(a *Array, state []any) error {
	shape, ok0 := state[0].(*Tuple)
	dtype, ok1 := state[1].(*DType)
	fortran, ok2 := state[2].(bool)
	data, ok3 := state[3].(string)
	if !ok0 || !ok1 || !ok2 || !ok3 || a.built || len(shape.Items) > npy.MaxDims {
		return m.fail("an array's state is not expected")
	}
	if !dtype.Type.Valid() {
		return m.fail("an array of elements of an unfinished type")
	}
	total := int64(dtype.Type.Size())
	for _, v := range shape.Items {
		n, ok := v.(int64)
		if !ok || n < 0 || (n > 0 && total > math.MaxInt64/n) {
			return m.fail("an array with extent %v", v)
		}
		a.Shape = append(a.Shape, n)
		total *= n
	}
	if total != int64(len(data)) {
		return m.fail("an array of shape %v with %d bytes, where %d are due", a.Shape, len(data), total)
	}
	a.DType, a.Fortran, a.Data, a.built = *dtype, fortran, data, true
	return nil
}
