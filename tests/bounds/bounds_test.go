package bounds

import "testing"

// caught is a test that notes that it was failed.
type caught struct {
	testing.TB
	failed bool
}

func (c *caught) Fatalf(string, ...any) { c.failed = true }

var sink []byte

func TestHold(t *testing.T) {
	for _, c := range []struct {
		input, takes int
		fails        bool
	}{{0, 1 << 20, false}, {0, 16 << 20, true}, {1 << 20, 16 << 20, false}, {1 << 20, 64 << 20, true}} {
		k := &caught{TB: t}
		Hold(k, c.input, Limit{Fixed: 4 << 20, Factor: 32}, func() { sink = make([]byte, c.takes) })
		if k.failed != c.fails {
			t.Errorf("%d bytes for an input of %d: failed is %t", c.takes, c.input, k.failed)
		}
	}
}
