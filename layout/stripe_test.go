package layout

import (
	"errors"
	"strings"
	"testing"
)

// TestStripeAt lays a section out unit by unit and compares.
func TestStripeAt(t *testing.T) {
	for _, k := range []int{1, 2, 3, 7} {
		for _, unit := range []int64{4, 16} {
			first := StripeFirst("node.x", k)
			next := make([]int64, k)
			for offset := int64(0); offset < 200; offset++ {
				i := (int(offset/unit) + first) % k
				if stripe, at := StripeAt(offset, unit, k, first); stripe != i || at != next[i] {
					t.Fatalf("%d directories, unit %d: byte %d at %d of %d, want %d of %d", k, unit, offset, at, stripe, next[i], i)
				}
				next[i]++
				for j := range k {
					if n := StripeBytes(offset+1, unit, k, first, j); n != next[j] {
						t.Fatalf("%d directories, unit %d: %d bytes of %d in directory %d, want %d", k, unit, n, offset+1, j, next[j])
					}
				}
			}
		}
	}
}

func TestCheckStripe(t *testing.T) {
	own := Stripe{ID: BuildID{1, 2, 3}, Index: 1, Count: 3}
	if err := CheckStripe(own.Encode(), own); err != nil {
		t.Fatal(err)
	}
	for what, c := range map[string]struct {
		change func(b []byte) []byte
		want   Stripe
		says   string
	}{
		"another build":     {nil, Stripe{BuildID{9}, 1, 3}, "build 0102"},
		"another place":     {nil, Stripe{own.ID, 2, 3}, "1 of 3"},
		"another number":    {nil, Stripe{own.ID, 1, 4}, "of 4"},
		"no stripe file":    {func(b []byte) []byte { return make([]byte, PageSize) }, own, "magic"},
		"an empty file":     {func(b []byte) []byte { return nil }, own, "magic"},
		"a cut file":        {func(b []byte) []byte { return b[:100] }, own, "100 bytes"},
		"a flip":            {func(b []byte) []byte { b[20] ^= 1; return b }, own, "checksum"},
		"a flip in padding": {func(b []byte) []byte { b[3000] ^= 1; return b }, own, "checksum"},
	} {
		b := own.Encode()
		if c.change != nil {
			b = c.change(b)
		}
		if err := CheckStripe(b, c.want); !errors.As(err, new(*Error)) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, want %q", what, err, c.says)
		}
	}
}

// TestManifestStripes: a striped store is of version 2 and knows its
// directories, which do not enter the build id.
func TestManifestStripes(t *testing.T) {
	plain := whole()
	b, err := plain.Encode()
	if err != nil || b[8] != 1 {
		t.Fatalf("version %d, %v", b[8], err)
	}
	m := whole()
	m.Settings.Stripes, m.Settings.StripeUnit, m.Stripes = 2, 1<<20, []string{"/a", "/b"}
	m.Source = []byte(`{"source":"x"}`)
	if b, err = m.Encode(); err != nil || b[8] != 2 {
		t.Fatalf("version %d, %v", b[8], err)
	}
	got, err := DecodeManifest(b)
	if err != nil {
		t.Fatal(err)
	}
	if len(got.Stripes) != 2 || got.Stripes[1] != "/b" || string(got.Source) != string(m.Source) || got.Settings != m.Settings {
		t.Errorf("%v, %s, %+v", got.Stripes, got.Source, got.Settings)
	}
	id := func(m *Manifest) BuildID {
		if err := m.ComputeID(func(int, func([]byte)) error { return nil }); err != nil {
			t.Fatal(err)
		}
		return m.ID
	}
	other := whole()
	other.Settings.Stripes, other.Settings.StripeUnit, other.Stripes = 2, 1<<20, []string{"/c", "/d"}
	if id(m) != id(other) || id(m) == id(plain) {
		t.Error("the build id depends on count and unit of stripes, and not on their names")
	}
	for what, change := range map[string]func(m *Manifest){
		"no directories":      func(m *Manifest) { m.Stripes = nil },
		"one directory":       func(m *Manifest) { m.Stripes = m.Stripes[:1] },
		"an empty name":       func(m *Manifest) { m.Stripes[0] = "" },
		"too many":            func(m *Manifest) { m.Settings.Stripes = MaxStripes + 1 },
		"no unit":             func(m *Manifest) { m.Settings.StripeUnit = 0 },
		"an odd unit":         func(m *Manifest) { m.Settings.StripeUnit = 3 << 12 },
		"a unit below blocks": func(m *Manifest) { m.Settings.BlockSize = 2 << 20 },
		"directories alone":   func(m *Manifest) { m.Settings.Stripes, m.Settings.StripeUnit = 0, 0 },
	} {
		m := whole()
		m.Settings.Stripes, m.Settings.StripeUnit, m.Stripes = 2, 1<<20, []string{"/a", "/b"}
		change(m)
		if _, err := m.Encode(); !errors.As(err, new(*Error)) {
			t.Errorf("%s: %v", what, err)
		}
	}
}
