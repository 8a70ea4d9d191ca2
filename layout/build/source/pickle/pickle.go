// Package pickle reads the pickles of the Planetoid graphs: numpy arrays, scipy
// matrices in compressed sparse row form, and dictionaries of lists.
//
// It runs the pickle machine over a fixed list of classes and functions and
// builds plain values only. Nothing is imported, called or executed; a pickle
// that names anything else is refused by that name.
//
// # Values
//
//	None                       nil
//	bool, int, float           bool, int64, float64
//	str, unicode, bytes        string (the bytes as they are)
//	list, tuple                *List, *Tuple
//	dict, defaultdict(list)    *Dict, in insertion order
//	numpy.ndarray              *Array
//	numpy.dtype                *DType
//	scipy.sparse csr_matrix    *Object, its state a *Dict
//
// # Limits
//
// Opcodes of protocols 0 to 3 are read, integers of 64 bits, dictionary keys that
// are numbers, strings or None. The machine does not recurse, and what it allocates
// is bounded by the length of the input and by [MaxValues]: lengths inside the
// input are checked against what is there before anything is made. Values may be
// shared, and a malicious pickle may make a list contain itself: walk values only
// as deep as the form that is expected.
package pickle

import (
	"encoding/binary"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/goagnes/goagnes/layout"
)

// MaxValues bounds the values one pickle may make.
const MaxValues = 4 << 20

// List is a Python list.
type List struct{ Items []any }

// Tuple is a Python tuple.
type Tuple struct{ Items []any }

// Dict is a Python dict in insertion order.
type Dict struct {
	Keys, Values []any
	index        map[any]int
}

// Get returns the value of a key.
func (d *Dict) Get(key any) (v any, ok bool) {
	i, ok := d.index[key]
	if !ok {
		return nil, false
	}
	return d.Values[i], true
}

func (d *Dict) set(key, value any) error {
	switch key.(type) {
	case nil, bool, int64, float64, string:
	default:
		return fmt.Errorf("a dictionary key of type %T", key)
	}
	if i, ok := d.index[key]; ok {
		d.Values[i] = value
		return nil
	}
	if d.index == nil {
		d.index = map[any]int{}
	}
	d.index[key] = len(d.Keys)
	d.Keys = append(d.Keys, key)
	d.Values = append(d.Values, value)
	return nil
}

// DType is a numpy.dtype.
type DType struct {
	Type      layout.DType
	BigEndian bool
	descr     string
}

// Array is a numpy.ndarray.
type Array struct {
	DType   DType
	Shape   []int64
	Fortran bool
	Data    string // the elements; a part of the input
	built   bool
}

// Object is an instance of an allowed class.
type Object struct {
	Class string // such as "scipy.sparse.csr.csr_matrix"
	State *Dict
}

// IsCSR reports whether the object is a compressed sparse row matrix.
func (o *Object) IsCSR() bool { return strings.HasSuffix(o.Class, ".csr_matrix") }

// Error is a fault of a pickle.
type Error struct {
	// Offset is the position of the opcode at fault.
	Offset int64
	// Msg says what is wrong.
	Msg string
}

// Error gives the position and the fault.
func (e *Error) Error() string { return fmt.Sprintf("pickle, byte %d: %s", e.Offset, e.Msg) }

// Class returns "input".
func (e *Error) Class() string { return "input" }

// global is a name the pickle refers to.
type global string

// mark is the stack's marker.
type mark struct{}

type machine struct {
	in     string
	at     int // next byte
	op     int // position of the opcode in hand
	stack  []any
	marks  []int // positions of markers in the stack
	memo   map[int64]any
	values int
}

// Load reads one pickle; what follows it is ignored, as Python does. Errors are
// of type *Error. The result keeps in alive: strings and arrays are parts of it,
// so that a pickle that refers to one string many times costs nothing.
func Load(in string) (any, error) {
	m := &machine{in: in, memo: map[int64]any{}}
	for {
		m.op = m.at
		c, err := m.take(1)
		if err != nil {
			return nil, err
		}
		if c[0] == '.' {
			return m.pop()
		}
		if err := m.step(c[0]); err != nil {
			return nil, err
		}
	}
}

func (m *machine) fail(format string, args ...any) error {
	return &Error{int64(m.op), fmt.Sprintf(format, args...)}
}

// take returns the next n bytes.
func (m *machine) take(n int64) (string, error) {
	if n < 0 || n > int64(len(m.in)-m.at) {
		return "", m.fail("the pickle ends early")
	}
	b := m.in[m.at : m.at+int(n)]
	m.at += int(n)
	return b, nil
}

// line returns the bytes before the next newline.
func (m *machine) line() (string, error) {
	end := strings.IndexByte(m.in[m.at:min(len(m.in), m.at+1024)], '\n')
	if end < 0 {
		return "", m.fail("a line without an end, or of more than 1024 bytes")
	}
	s := m.in[m.at : m.at+end]
	m.at += end + 1
	return s, nil
}

func (m *machine) number(width int64) (int64, error) {
	b, err := m.take(width)
	v := int64(0)
	for i := range len(b) {
		v |= int64(b[i]) << (8 * i)
	}
	return v, err
}

func (m *machine) push(v any) error {
	if m.values++; m.values > MaxValues {
		return m.fail("more than %d values", MaxValues)
	}
	m.stack = append(m.stack, v)
	return nil
}

// floor is the stack position below which pops may not reach.
func (m *machine) floor() int {
	if n := len(m.marks); n > 0 {
		return m.marks[n-1] + 1
	}
	return 0
}

func (m *machine) pop() (any, error) {
	n := len(m.stack)
	if n <= m.floor() {
		return nil, m.fail("the stack is empty")
	}
	v := m.stack[n-1]
	m.stack = m.stack[:n-1]
	return v, nil
}

// popMark returns the values above the last marker, valid until the next push.
func (m *machine) popMark() ([]any, error) {
	n := len(m.marks)
	if n == 0 {
		return nil, m.fail("no marker on the stack")
	}
	at := m.marks[n-1]
	m.marks = m.marks[:n-1]
	v := m.stack[at+1:]
	m.stack = m.stack[:at]
	return v, nil
}

func (m *machine) tuple(n int) error {
	if len(m.stack)-n < m.floor() {
		return m.fail("the stack is empty")
	}
	items := make([]any, n)
	copy(items, m.stack[len(m.stack)-n:])
	m.stack = m.stack[:len(m.stack)-n]
	return m.push(&Tuple{items})
}

func (m *machine) step(op byte) error {
	switch op {
	case 0x80: // PROTO
		v, err := m.number(1)
		if err == nil && v > 3 {
			return m.fail("protocol %d; protocols 0 to 3 are read", v)
		}
		return err
	case '(':
		m.marks = append(m.marks, len(m.stack))
		return m.push(mark{})
	case '0': // POP
		_, err := m.pop()
		return err
	case '1': // POP_MARK
		_, err := m.popMark()
		return err
	case 'N':
		return m.push(nil)
	case 0x88:
		return m.push(true)
	case 0x89:
		return m.push(false)
	case 'I', 'L', 'F', 'J', 'K', 'M', 0x8a, 'G':
		return m.scalar(op)
	case 'S', 'T', 'U', 'V', 'X', 'B', 'C':
		return m.text(op)
	case ')':
		return m.push(&Tuple{})
	case 0x85, 0x86, 0x87:
		return m.tuple(int(op) - 0x84)
	case 't':
		v, err := m.popMark()
		if err != nil {
			return err
		}
		return m.push(&Tuple{append([]any(nil), v...)})
	case ']':
		return m.push(&List{})
	case 'l':
		v, err := m.popMark()
		if err != nil {
			return err
		}
		return m.push(&List{append([]any(nil), v...)})
	case 'a':
		v, err := m.pop()
		if err != nil {
			return err
		}
		return m.extend(v)
	case 'e':
		v, err := m.popMark()
		if err != nil {
			return err
		}
		return m.extend(v...)
	case '}':
		return m.push(&Dict{})
	case 'd':
		v, err := m.popMark()
		if err != nil {
			return err
		}
		d := &Dict{}
		if err := m.fill(d, v); err != nil {
			return err
		}
		return m.push(d)
	case 's':
		v, err := m.pop()
		if err != nil {
			return err
		}
		k, err := m.pop()
		if err != nil {
			return err
		}
		return m.setItems(k, v)
	case 'u':
		v, err := m.popMark()
		if err != nil {
			return err
		}
		return m.setItems(v...)
	case 'p', 'q', 'r', 'g', 'h', 'j':
		return m.memory(op)
	case 'c':
		module, err := m.line()
		if err != nil {
			return err
		}
		name, err := m.line()
		if err != nil {
			return err
		}
		g := global(module + "." + name)
		if !allowed[g] {
			return m.fail("it names %q, which is not allowed; only numpy arrays, csr_matrix and plain containers are read", string(g))
		}
		return m.push(g)
	case 'R', 0x81: // REDUCE, NEWOBJ
		args, err := m.pop()
		if err != nil {
			return err
		}
		callee, err := m.pop()
		if err != nil {
			return err
		}
		t, ok := args.(*Tuple)
		g, isGlobal := callee.(global)
		if !ok || !isGlobal {
			return m.fail("a call of %T with %T", callee, args)
		}
		v, err := m.make(g, t.Items)
		if err != nil {
			return err
		}
		return m.push(v)
	case 'b':
		state, err := m.pop()
		if err != nil {
			return err
		}
		if len(m.stack) <= m.floor() {
			return m.fail("the stack is empty")
		}
		return m.build(m.stack[len(m.stack)-1], state)
	}
	return m.fail("opcode %q is not read", op)
}

func (m *machine) scalar(op byte) error {
	switch op {
	case 'J':
		v, err := m.number(4)
		if err != nil {
			return err
		}
		return m.push(int64(int32(v)))
	case 'K':
		v, err := m.number(1)
		if err != nil {
			return err
		}
		return m.push(v)
	case 'M':
		v, err := m.number(2)
		if err != nil {
			return err
		}
		return m.push(v)
	case 0x8a: // LONG1
		n, err := m.number(1)
		if err != nil {
			return err
		}
		b, err := m.take(n)
		if err != nil {
			return err
		}
		if n > 8 {
			return m.fail("an integer of %d bytes; at most 8 are read", n)
		}
		var w [8]byte
		copy(w[:], b)
		if n > 0 && b[n-1]&0x80 != 0 {
			for i := n; i < 8; i++ {
				w[i] = 0xff
			}
		}
		return m.push(int64(binary.LittleEndian.Uint64(w[:])))
	case 'G':
		b, err := m.take(8)
		if err != nil {
			return err
		}
		return m.push(math.Float64frombits(binary.BigEndian.Uint64([]byte(b))))
	}
	s, err := m.line()
	if err != nil {
		return err
	}
	switch {
	case op == 'F':
		v, err := strconv.ParseFloat(s, 64)
		if err != nil {
			return m.fail("%q is no number", s)
		}
		return m.push(v)
	case op == 'I' && s == "00":
		return m.push(false)
	case op == 'I' && s == "01":
		return m.push(true)
	}
	v, err := strconv.ParseInt(strings.TrimSuffix(s, "L"), 10, 64)
	if err != nil {
		return m.fail("%q is no integer of 64 bits", s)
	}
	return m.push(v)
}

// text reads a string. The quoted form of protocol 0 is read without escapes
// only; nothing of Planetoid uses it.
func (m *machine) text(op byte) error {
	switch op {
	case 'S', 'V':
		s, err := m.line()
		if err != nil {
			return err
		}
		if op == 'S' {
			if len(s) < 2 || s[0] != s[len(s)-1] || (s[0] != '\'' && s[0] != '"') {
				return m.fail("a string without quotes")
			}
			s = s[1 : len(s)-1]
		}
		if strings.IndexByte(s, '\\') >= 0 {
			return m.fail("a string with escapes; save the pickle with protocol 2")
		}
		return m.push(s)
	}
	width := int64(4)
	if op == 'U' || op == 'C' {
		width = 1
	}
	n, err := m.number(width)
	if err != nil {
		return err
	}
	b, err := m.take(n)
	if err != nil {
		return err
	}
	return m.push(b)
}

func (m *machine) memory(op byte) error {
	var k int64
	var err error
	switch op {
	case 'p', 'g':
		var s string
		if s, err = m.line(); err == nil {
			if k, err = strconv.ParseInt(s, 10, 64); err != nil {
				err = m.fail("%q is no memo number", s)
			}
		}
	case 'q', 'h':
		k, err = m.number(1)
	case 'r', 'j':
		k, err = m.number(4)
	}
	if err != nil {
		return err
	}
	if op == 'g' || op == 'h' || op == 'j' {
		v, ok := m.memo[k]
		if !ok {
			return m.fail("memo %d is empty", k)
		}
		return m.push(v)
	}
	if len(m.stack) <= m.floor() {
		return m.fail("the stack is empty")
	}
	if m.values++; m.values > MaxValues {
		return m.fail("more than %d values", MaxValues)
	}
	m.memo[k] = m.stack[len(m.stack)-1]
	return nil
}

// extend appends to the list on top of the stack.
func (m *machine) extend(v ...any) error {
	if len(m.stack) > m.floor() {
		if l, ok := m.stack[len(m.stack)-1].(*List); ok {
			l.Items = append(l.Items, v...)
			return nil
		}
	}
	return m.fail("an append to something that is no list")
}

// setItems adds keys and values to the dictionary on top of the stack.
func (m *machine) setItems(v ...any) error {
	if len(m.stack) > m.floor() {
		if d, ok := m.stack[len(m.stack)-1].(*Dict); ok {
			return m.fill(d, v)
		}
	}
	return m.fail("an item set in something that is no dictionary")
}

func (m *machine) fill(d *Dict, v []any) error {
	if len(v)%2 != 0 {
		return m.fail("a key without a value")
	}
	for i := 0; i < len(v); i += 2 {
		if err := d.set(v[i], v[i+1]); err != nil {
			return m.fail("%v", err)
		}
	}
	return nil
}
