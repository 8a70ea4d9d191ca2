package text_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/goagnes/goagnes/layout/build/source"
	"github.com/goagnes/goagnes/layout/build/source/formats"
	"github.com/goagnes/goagnes/layout/build/source/sourcetest"
	"github.com/goagnes/goagnes/layout/build/source/text"
)

func TestTextEdges(t *testing.T) {
	want := []sourcetest.Pair{{1, 2}, {3, 40}, {5, 6}}
	for name, in := range map[string]string{
		"tabs":                      "1\t2\n3\t40\n5\t6\n",
		"spaces":                    "1 2\n3 40\n5 6\n",
		"commas":                    "1,2\n3,40\n5,6\n",
		"commas and spaces":         "1, 2\n3 , 40\n5\t,\t6\n",
		"runs of blanks":            "  1   2\n\t3\t\t40\n5 \t 6  \n",
		"CRLF":                      "1\t2\r\n3\t40\r\n5\t6\r\n",
		"no last newline":           "1 2\n3 40\n5 6",
		"CRLF without the last LF":  "1 2\r\n3 40\r\n5 6\r",
		"comments":                  "# a graph\n% of three\n1 2\n#\n  # indented\n3 40\n5 6\n# end",
		"blank lines":               "\n\r\n1 2\n\n   \n3 40\n5 6\n\n\n",
		"third column":              "1 2 0.5\n3 40 -1\n5 6 nan extra\n",
		"third column after commas": "1,2,0.5\r\n3,40,x\r\n5,6,\r\n",
		"byte order mark":           "\xef\xbb\xbf1 2\n3 40\n5 6\n",
		"leading zeros":             "0001 02\n3 00000000000000000000000000000040\n5 6\n",
	} {
		t.Run(name, func(t *testing.T) {
			for _, content := range [][]byte{[]byte(in), sourcetest.Compress(t, in), sourcetest.Compress(t, in[:7], in[7:]), sourcetest.ZstdBytes(t, in), sourcetest.ZstdBytes(t, in[:7], in[7:])} {
				d, err := formats.Open(context.Background(), sourcetest.Write(t, "g.txt", content), "auto", source.Options{})
				if err != nil {
					t.Fatal(err)
				}
				if got := sourcetest.AllEdges(t, d.Edges); !slices.Equal(got, want) {
					t.Errorf("got %v", got)
				}
				if noted := len(d.Notes) == 1; noted != strings.Contains(name, "third") {
					t.Errorf("notes %q", d.Notes)
				}
			}
		})
	}
}

func TestTextWithoutEdges(t *testing.T) {
	for _, in := range []string{"", "\n", "# nothing\n", "# nothing"} {
		d, err := formats.Open(context.Background(), sourcetest.Write(t, "g.txt", []byte(in)), "auto", source.Options{})
		if err != nil {
			t.Fatalf("%q: %v", in, err)
		}
		if e := sourcetest.AllEdges(t, d.Edges); len(e) != 0 {
			t.Errorf("%q holds %v", in, e)
		}
	}
}

func TestTextLargestIDs(t *testing.T) {
	d, err := formats.Open(context.Background(), sourcetest.Write(t, "g.txt", []byte("9223372036854775807 999999999999999999\n")), "snap", source.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if e := sourcetest.AllEdges(t, d.Edges); !slices.Equal(e, []sourcetest.Pair{{9223372036854775807, 999999999999999999}}) {
		t.Errorf("got %v", e)
	}
}

func TestTextRefuses(t *testing.T) {
	const good = "# head\n0 1\r\n"
	for _, c := range []struct{ line, want string }{
		{"-1 2", "negative source id -1"},
		{"1 -2", "negative target id -2"},
		{"1.0 2", "source id 1.0 is no integer"},
		{"1 2.5 7", "target id 2.5 is no integer"},
		{"1e3 2", "source id 1e3 is no integer"},
		{"nan 2", "source id nan is no integer"},
		{"1", "one id (1)"},
		{"1 ", "one id (1)"},
		{"1,", "one id (1)"},
		{"1,,2", "target id is missing"},
		{",1,2", "source id is missing"},
		{"source,target", `"source" is no source id`},
		{"alice bob", `"alice" is no source id; ids are integers: number the nodes first`},
		{"1 bob", `"bob" is no target id; ids are integers: number the nodes first`},
		{"1 b", `"b" is no target id`},
		{"0x10 2", `"0x10" is no source id`},
		{"1;2", `"1;2" is no source id`},
		{"1\x002", "is no source id"},
		{"+1 2", `"+1" is no source id`},
		{"9223372036854775808 1", "too large"},
		{"1 99999999999999999999999999", "too large"},
		{"1 2\r3 4", "carriage return"},
		{"1 2 w\rx", "carriage return"},
		{"1\r2", "carriage return"},
		{"1 2" + strings.Repeat(" ", 2*source.MaxLineBytes), "more than 1048576 bytes"},
	} {
		for _, rest := range []string{"", "\n", "\r\n", "\n5 6\n"} {
			path := sourcetest.Write(t, "g.txt", []byte(good+c.line+rest))
			err := text.NewEdges(path).Scan(context.Background(), func(_, _ []int64) error { return nil })
			if rest == "" && len(c.line) > source.MaxLineBytes {
				continue // the file ends before the line is known to be long
			}
			var e *source.Error
			if !errors.As(err, &e) || e.Class() != "input" || e.Line != 3 || e.File != path || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%.40q: got %v, want line 3 and %q", c.line+rest, err, c.want)
			}
			if err != nil && !strings.HasPrefix(err.Error(), path+":3: ") {
				t.Errorf("%.40q: the message starts wrongly: %v", c.line, err)
			}
		}
	}
}

func TestTextFirstFaultAtOpen(t *testing.T) {
	_, err := formats.Open(context.Background(), sourcetest.Write(t, "g.txt", []byte("from to\n0 1\n")), "auto", source.Options{})
	var e *source.Error
	if !errors.As(err, &e) || e.Line != 1 {
		t.Errorf("got %v", err)
	}
}

func TestTextBrokenGzip(t *testing.T) {
	var list strings.Builder
	for i := range 200000 {
		fmt.Fprintf(&list, "%d %d\n", i, i*7919%200000)
	}
	whole := sourcetest.Compress(t, list.String())
	flipped := slices.Clone(whole)
	flipped[len(flipped)-5] ^= 1 // in the checksum
	for name, b := range map[string][]byte{"cut": whole[:len(whole)/2], "flipped": flipped, "header only": whole[:12]} {
		path := sourcetest.Write(t, "g.gz", b)
		err := text.NewEdges(path).Scan(context.Background(), func(_, _ []int64) error { return nil })
		var e *source.Error
		if !errors.As(err, &e) || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

func TestTextMissing(t *testing.T) {
	path := filepath.Join(t.TempDir(), "none.txt")
	for _, format := range []string{"auto", "snap", "npy", "npz", "planetoid"} {
		_, err := formats.Open(context.Background(), path, format, source.Options{})
		if !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: got %v", format, err)
		}
	}
}

// TestTextAcrossBuffers scans a file of many buffers, its lines of every length.
func TestTextAcrossBuffers(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	var b bytes.Buffer
	var want []sourcetest.Pair
	for b.Len() < 5*source.MaxLineBytes {
		e := sourcetest.Pair{r.Int64() >> r.IntN(63), r.Int64() >> r.IntN(63)}
		want = append(want, e)
		fmt.Fprintf(&b, "%d%s%d%s\n", e[0], []string{" ", "\t", ",", "  "}[r.IntN(4)], e[1], []string{"", "\r", " 1.5", "\tx\r"}[r.IntN(4)])
		if r.IntN(100) == 0 {
			fmt.Fprintf(&b, "# %s\n", strings.Repeat("c", r.IntN(1000)))
		}
	}
	if got := sourcetest.AllEdges(t, text.NewEdges(sourcetest.Write(t, "g.txt", b.Bytes()))); !slices.Equal(got, want) {
		t.Errorf("%d edges, want %d", len(got), len(want))
	}
}

func TestScanStops(t *testing.T) {
	path := sourcetest.Write(t, "g.txt", []byte(strings.Repeat("1 2\n", 3*source.ChunkEdges)))
	e := text.NewEdges(path)
	own := errors.New("enough")
	calls := 0
	err := e.Scan(context.Background(), func(_, _ []int64) error {
		calls++
		return own
	})
	if err != own || calls != 1 {
		t.Errorf("after %d calls: %v", calls, err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := e.Scan(ctx, func(_, _ []int64) error { return nil }); err != context.Canceled {
		t.Errorf("a cancelled scan gives %v", err)
	}
}

func BenchmarkText(b *testing.B) {
	r := rand.New(rand.NewPCG(1, 2))
	var list bytes.Buffer
	for list.Len() < 32<<20 {
		fmt.Fprintf(&list, "%d\t%d\n", r.IntN(4<<20), r.IntN(4<<20))
	}
	for name, content := range map[string][]byte{"plain": list.Bytes(), "gzip": sourcetest.Compress(b, list.String()), "zstd": sourcetest.ZstdBytes(b, list.String())} {
		b.Run(name, func(b *testing.B) {
			e := text.NewEdges(sourcetest.Write(b, "g.txt", content))
			b.SetBytes(int64(list.Len()))
			for b.Loop() {
				if err := e.Scan(context.Background(), func(_, _ []int64) error { return nil }); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
