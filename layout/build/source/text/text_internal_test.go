package text

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/goagnes/goagnes/layout/build/source"
	"github.com/goagnes/goagnes/layout/build/source/sourcetest"
)

// FuzzText holds the fast parser to the careful one.
func FuzzText(f *testing.F) {
	f.Add([]byte("# c\n1 2\n3\t4\r\n5,6,7\n\n"))
	f.Add([]byte("1 2\r3\n"))
	f.Add([]byte("999999999999999999 9223372036854775807 x\n"))
	f.Add([]byte("1  2\n,\n-1 2"))
	f.Fuzz(func(t *testing.T, in []byte) {
		if len(in) > 1<<16 {
			return
		}
		var want []sourcetest.Pair
		fault := ""
		lines := bytes.Split(in, []byte("\n"))
		for i, l := range lines {
			p := ParseLine(l)
			if p.Fault != "" {
				fault = fmt.Sprintf(":%d: %s", i+1, p.Fault)
				break
			}
			if p.edge {
				want = append(want, sourcetest.Pair{p.src, p.dst})
			}
		}
		var got []sourcetest.Pair
		s := textScan{file: "f", parse: ParseLine, EdgeChunks: source.NewEdgeChunksOf(context.Background(), 3, func(src, dst []int64) error {
			for i := range src {
				got = append(got, sourcetest.Pair{src[i], dst[i]})
			}
			return nil
		})}
		b := append(slices.Clone(in), '\n')
		err := s.lines(b)
		if e := s.Flush(); e != nil {
			t.Fatal(e)
		}
		if (err != nil) != (fault != "") || (err != nil && err.Error() != "f"+fault) {
			t.Fatalf("%q: got %v, want %q", in, err, fault)
		}
		if err == nil && !slices.Equal(got, want) {
			t.Fatalf("%q: got %v, want %v", in, got, want)
		}
	})
}
