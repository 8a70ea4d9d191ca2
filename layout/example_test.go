package layout

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

// TestWorkedExample encodes the graph of the package comment and compares the
// bytes with those printed there.
func TestWorkedExample(t *testing.T) {
	blocks, index := encode(t, 3, 4096, []object{{2, []uint64{1, 2}}, {0, nil}, {1, []uint64{0, 0, 1}}})
	if len(blocks) != 1 || index[1] != (IndexEntry{3, 5}) {
		t.Fatalf("%d blocks, index %v", len(blocks), index)
	}
	var want strings.Builder
	for i := 0; i < 64; i += 16 {
		fmt.Fprintf(&want, "//\t%02x  % x\n", i, blocks[0][i:i+16])
	}
	doc, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(doc), want.String()) {
		t.Errorf("doc.go does not show these bytes:\n%s", want.String())
	}
	for i, b := range blocks[0][64:] {
		if b != 0 {
			t.Fatalf("byte %d is %d", 64+i, b)
		}
	}
}
