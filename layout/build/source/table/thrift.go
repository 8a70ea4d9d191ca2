package table

// A walk over the Thrift compact protocol, as Parquet uses it for its metadata. The
// library's decoder allocates what a list claims to hold and recurses as deep as
// structs nest; the walk bounds both before the decoder sees the bytes.

import "encoding/binary"

const (
	// thriftDepth bounds nesting; Parquet's own is below 10.
	thriftDepth = 16
	// thriftElements bounds the elements of all lists together.
	thriftElements = 1 << 18
)

// thriftWalk walks one struct at the start of b.
type thriftWalk struct {
	b        []byte
	at       int
	elements int
	bad      bool
	// visit gets the integers, and the bools as 0 and 1, of the outer struct (parent 0) and of the structs in
	// it (parent is their number).
	visit func(parent, id int, v int64)
}

// walk reports whether the struct is sound; at is its length then.
func (w *thriftWalk) walk() bool {
	w.structure(1, 0)
	return !w.bad
}

func (w *thriftWalk) take(n uint64) {
	if n > uint64(len(w.b)-w.at) {
		w.bad = true
		return
	}
	w.at += int(n)
}

func (w *thriftWalk) byte() byte {
	if w.at >= len(w.b) {
		w.bad = true
		return 0
	}
	w.at++
	return w.b[w.at-1]
}

func (w *thriftWalk) varint() uint64 {
	v, n := binary.Uvarint(w.b[w.at:])
	if n <= 0 {
		w.bad = true
		return 0
	}
	w.at += n
	return v
}

func zigzag(v uint64) int64 { return int64(v>>1) ^ -int64(v&1) }

func (w *thriftWalk) structure(depth, parent int) {
	if depth > thriftDepth {
		w.bad = true
	}
	for id := 0; !w.bad; {
		h := w.byte()
		if h == 0 {
			return
		}
		if d := int(h >> 4); d > 0 {
			id += d
		} else {
			id = int(int16(zigzag(w.varint())))
		}
		switch t := h & 15; {
		case t > 2:
			w.value(t, depth, parent, id)
		case t == 0:
			w.bad = true
		case w.visit != nil && depth <= 2: // a bool is in the type
			w.visit(parent, id, int64(2-t))
		}
	}
}

func (w *thriftWalk) value(t byte, depth, parent, id int) {
	switch t {
	case 1, 2, 3:
		w.take(1)
	case 4, 5, 6:
		if v := zigzag(w.varint()); w.visit != nil && depth <= 2 {
			w.visit(parent, id, v)
		}
	case 7:
		w.take(8)
	case 8:
		w.take(w.varint())
	case 9, 10:
		h := w.byte()
		n := uint64(h >> 4)
		if n == 15 {
			n = w.varint()
		}
		w.list(n, depth, h&15)
	case 11:
		if n := w.varint(); n > 0 {
			h := w.byte()
			w.list(n, depth, h>>4, h&15)
		}
	case 12:
		w.structure(depth+1, id)
	default:
		w.bad = true
	}
}

// list walks n elements, each of the given types in turn.
func (w *thriftWalk) list(n uint64, depth int, types ...byte) {
	if n > uint64(thriftElements-w.elements) || n > uint64(len(w.b)-w.at) {
		w.bad = true
		return
	}
	w.elements += int(n)
	for range n {
		for _, t := range types {
			if w.bad {
				return
			}
			w.value(t, depth+2, 0, 0)
		}
	}
}
