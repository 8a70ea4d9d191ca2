package npy

// The parser of header text: the one Python literal numpy writes there, nothing
// more. It accepts what numpy accepts: any order of the three keys, any spacing,
// either quote, a trailing comma, and Python 2's "3L" in shapes.

import (
	"strconv"
	"strings"
)

type parser struct {
	s string
	i int
}

func parse(s string) (Header, error) {
	p := &parser{s: s}
	var h Header
	var seen struct{ descr, order, shape bool }
	if !p.take('{') {
		return h, p.fail("'{'")
	}
	for !p.take('}') {
		key, err := p.str()
		if err != nil {
			return h, err
		}
		if !p.take(':') {
			return h, p.fail("':'")
		}
		switch key {
		case "descr":
			if seen.descr {
				return h, failed("key 'descr' twice in the header")
			}
			seen.descr = true
			if p.space(); p.i < len(p.s) && p.s[p.i] == '[' {
				return h, unsupported("a structured array; save each field as an array of its own")
			}
			text, err := p.str()
			if err != nil {
				return h, err
			}
			if h.DType, h.BigEndian, err = ParseDescr(text); err != nil {
				return h, err
			}
		case "fortran_order":
			if seen.order {
				return h, failed("key 'fortran_order' twice in the header")
			}
			seen.order = true
			switch word := p.word(); word {
			case "True":
				h.Fortran = true
			case "False":
			default:
				return h, p.fail("True or False")
			}
		case "shape":
			if seen.shape {
				return h, failed("key 'shape' twice in the header")
			}
			seen.shape = true
			if h.Shape, err = p.shape(); err != nil {
				return h, err
			}
		default:
			return h, failed("unknown key %q in the header", key)
		}
		if !p.take(',') {
			if !p.take('}') {
				return h, p.fail("',' or '}'")
			}
			break
		}
	}
	if p.space(); p.i != len(p.s) {
		return h, p.fail("the end of the header")
	}
	if !seen.descr || !seen.order || !seen.shape {
		return h, failed("the header lacks 'descr', 'fortran_order' or 'shape'")
	}
	total := int64(h.DType.Size())
	for _, n := range h.Shape {
		// Extents of empty arrays are bounded too: callers multiply them.
		if n > 0 && total > maxBytes/n {
			return h, failed("shape %v is too large", h.Shape)
		}
		total *= max(n, 1)
	}
	return h, nil
}

func (p *parser) fail(due string) error {
	rest := p.s[p.i:]
	if len(rest) > 20 {
		rest = rest[:20]
	}
	return failed("broken header: %s is due at byte %d, before %q", due, p.i, rest)
}

func (p *parser) space() {
	for p.i < len(p.s) && strings.IndexByte(" \t\r\n", p.s[p.i]) >= 0 {
		p.i++
	}
}

func (p *parser) take(c byte) bool {
	p.space()
	if p.i < len(p.s) && p.s[p.i] == c {
		p.i++
		return true
	}
	return false
}

// str reads a string literal; none that numpy writes holds an escape.
func (p *parser) str() (string, error) {
	p.space()
	if p.i >= len(p.s) || (p.s[p.i] != '\'' && p.s[p.i] != '"') {
		return "", p.fail("a string")
	}
	quote := p.s[p.i]
	end := strings.IndexByte(p.s[p.i+1:], quote)
	if end < 0 {
		return "", p.fail("the end of a string")
	}
	v := p.s[p.i+1 : p.i+1+end]
	if strings.IndexByte(v, '\\') >= 0 {
		return "", p.fail("a string without escapes")
	}
	p.i += end + 2
	return v, nil
}

func (p *parser) word() string {
	p.space()
	start := p.i
	for p.i < len(p.s) && (p.s[p.i] >= 'a' && p.s[p.i] <= 'z' || p.s[p.i] >= 'A' && p.s[p.i] <= 'Z') {
		p.i++
	}
	return p.s[start:p.i]
}

func (p *parser) shape() ([]int64, error) {
	if !p.take('(') {
		return nil, p.fail("'('")
	}
	shape := []int64{}
	for !p.take(')') {
		if len(shape) == MaxDims {
			return nil, failed("more than %d axes", MaxDims)
		}
		p.space()
		start := p.i
		for p.i < len(p.s) && p.s[p.i] >= '0' && p.s[p.i] <= '9' {
			p.i++
		}
		n, err := strconv.ParseInt(p.s[start:p.i], 10, 64)
		if err != nil {
			p.i = start
			return nil, p.fail("an extent from 0 to 2^63-1")
		}
		if p.i < len(p.s) && p.s[p.i] == 'L' {
			p.i++
		}
		shape = append(shape, n)
		if !p.take(',') {
			if len(shape) == 1 {
				// (3) is an integer in Python, not a tuple.
				return nil, p.fail("',' (a tuple)")
			}
			if !p.take(')') {
				return nil, p.fail("',' or ')'")
			}
			break
		}
	}
	return shape, nil
}
