package nodes

// Features that are no numbers: they are kept, and told, since what is trained on them
// becomes NaN as a whole.

import (
	"encoding/binary"
	"fmt"

	"github.com/goagnes/goagnes/layout"
)

// oddFeatures counts elements that are NaN or infinite.
type oddFeatures struct {
	nan, infinite int64
	first         int64 // row of the first; its value says nothing without one
}

// count looks at rows of stride bytes of float32 or float16, the first of them row number
// first. It begins anew with row 0: an array may be read in several passes.
func (o *oddFeatures) count(first int64, rows []byte, stride int64, d layout.DType) {
	if first == 0 {
		*o = oddFeatures{}
	}
	found := func(at int, fraction bool) {
		if o.nan+o.infinite == 0 {
			o.first = first + int64(at)/stride
		}
		if fraction {
			o.nan++
		} else {
			o.infinite++
		}
	}
	if d == layout.Float16 {
		for i := 0; i+2 <= len(rows); i += 2 {
			if w := binary.LittleEndian.Uint16(rows[i:]); w&0x7c00 == 0x7c00 {
				found(i, w&0x3ff != 0)
			}
		}
		return
	}
	for i := 0; i+4 <= len(rows); i += 4 {
		if w := binary.LittleEndian.Uint32(rows[i:]); w&0x7f800000 == 0x7f800000 {
			found(i, w&0x7fffff != 0)
		}
	}
}

// note words what was found; "" for nothing.
func (o *oddFeatures) note() string {
	if o.nan+o.infinite == 0 {
		return ""
	}
	return fmt.Sprintf("x holds %d values that are NaN and %d that are infinite, the first in row %d: they are kept, and what is trained on them becomes NaN", o.nan, o.infinite, o.first)
}
