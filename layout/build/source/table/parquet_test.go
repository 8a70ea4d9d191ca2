package table_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/goagnes/goagnes/layout/build/source"
	"github.com/goagnes/goagnes/layout/build/source/formats"
	"github.com/goagnes/goagnes/layout/build/source/sourcetest"
	"github.com/goagnes/goagnes/layout/build/source/table"
	"github.com/parquet-go/parquet-go"
)

type wideRow struct {
	W   float64 `parquet:"w"`
	Dst int32   `parquet:"dst"`
	Src int64   `parquet:"src,dict"`
}

type optionalRow struct {
	Source *int64 `parquet:"source,optional,snappy"`
	Target uint32 `parquet:"target"`
}

func parquetBytes[T any](t *testing.T, rows []T, perGroup int64) []byte {
	t.Helper()
	var b bytes.Buffer
	w := parquet.NewGenericWriter[T](&b, parquet.MaxRowsPerRowGroup(perGroup), parquet.PageBufferSize(4096))
	if _, err := w.Write(rows); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func scanFile(path string) (*source.Dataset, []sourcetest.Pair, error) {
	d, err := formats.Open(context.Background(), path, "auto", source.Options{})
	if err != nil {
		return nil, nil, err
	}
	got, err := sourcetest.ScanEdges(d.Edges)
	return d, got, err
}

func TestParquet(t *testing.T) {
	var wide []wideRow
	var optional []optionalRow
	var want []sourcetest.Pair
	for i := range int64(20000) {
		s, d := i*7919%1000, i*31%(1<<31-1)
		wide = append(wide, wideRow{0.5, int32(d), s})
		optional = append(optional, optionalRow{&s, uint32(d)})
		want = append(want, sourcetest.Pair{s, d})
	}
	optional[3].Target, wide[3].Dst = 1<<32-1, 0
	a, b := parquetBytes(t, wide, 7000), parquetBytes(t, optional, 1<<20)
	wantOptional := slices.Clone(want)
	wantOptional[3][1], want[3][1] = 1<<32-1, 0
	d, got, err := scanFile(sourcetest.Write(t, "e.bin", a))
	if n, ok := d.Edges.Count(); err != nil || d.Format != "parquet" || d.RankIDs || !slices.Equal(got, want) || n != 20000 || !ok || len(d.Notes) != 1 {
		t.Errorf("%d edges, %v", len(got), err)
	}
	if d, got, err := scanFile(sourcetest.Write(t, "e.parquet", b)); err != nil || !slices.Equal(got, wantOptional) || len(d.Notes) != 0 {
		t.Errorf("%d edges, %v", len(got), err)
	}
	dir := t.TempDir()
	sourcetest.Put(t, dir, map[string]string{"part-2": string(a), "part-1": string(b), "_SUCCESS": "", ".crc": "x"})
	if d, got, err := scanFile(dir); err != nil || d.Format != "parquet" || !slices.Equal(got, slices.Concat(wantOptional, want)) {
		t.Errorf("%d edges, %v", len(got), err)
	}
	sourcetest.Put(t, dir, map[string]string{"readme.txt": "x"})
	if _, err := formats.Open(context.Background(), dir, "parquet", source.Options{}); sourcetest.Class(err) != "input" || !strings.Contains(err.Error(), "readme.txt") {
		t.Errorf("got %v", err)
	}
}

func TestParquetRefuses(t *testing.T) {
	one, minus := int64(1), int64(-1)
	for name, c := range map[string]struct {
		in   []byte
		want string
	}{
		"null":        {parquetBytes(t, []optionalRow{{&one, 2}, {nil, 3}}, 10), "[1]: null in column source"},
		"negative":    {parquetBytes(t, []optionalRow{{&one, 2}, {&minus, 3}}, 1), "[1]: negative id -1 in column source"},
		"other names": {parquetBytes(t, []struct{ A, B int64 }{{1, 2}}, 10), "rename them"},
		"strings": {parquetBytes(t, []struct {
			Src string `parquet:"src"`
			Dst int64  `parquet:"dst"`
		}{{"a", 2}}, 10), "ids are integers"},
		"floats": {parquetBytes(t, []struct {
			Src float64 `parquet:"src"`
			Dst int64   `parquet:"dst"`
		}{{1, 2}}, 10), "ids are integers"},
		"lists": {parquetBytes(t, []struct {
			Src []int64 `parquet:"src"`
			Dst int64   `parquet:"dst"`
		}{{[]int64{1}, 2}}, 10), "lists or records"},
		"magic alone":    {[]byte("PAR1PAR1"), "no Parquet file"},
		"a large footer": {[]byte("PAR1abcd\xff\xff\xff\x7fPAR1"), "a footer of 2147483647 bytes"},
		"a long list":    {slices.Concat([]byte("PAR1\x19\xfc\xff\xff\xff\xff\x07\x00"), []byte{8, 0, 0, 0}, []byte("PAR1")), "broken Parquet footer"},
	} {
		path := sourcetest.Write(t, "e.parquet", c.in)
		if _, _, err := scanFile(path); sourcetest.Class(err) != "input" || !strings.HasPrefix(err.Error(), path) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %q", name, err, c.want)
		}
	}
	deep := bytes.Repeat([]byte{0x1c}, 1<<20)
	in := slices.Concat([]byte(table.ParquetMagic), deep, binary.LittleEndian.AppendUint32(nil, 1<<20), []byte(table.ParquetMagic))
	if _, _, err := scanFile(sourcetest.Write(t, "e.parquet", in)); sourcetest.Class(err) != "input" || !strings.Contains(err.Error(), "broken Parquet footer") {
		t.Errorf("deep: got %v", err)
	}
}

// TestParquetSpoiled flips bytes all over a file: no panic, no large allocation.
func TestParquetSpoiled(t *testing.T) {
	var rows []optionalRow
	for i := range int64(300) {
		rows = append(rows, optionalRow{&i, uint32(i)})
	}
	whole := parquetBytes(t, rows, 100)
	path := filepath.Join(t.TempDir(), "e.parquet")
	for at := 4; at < len(whole); at += 5 {
		for _, x := range []byte{[]byte{0x01, 0x80, 0xff}[at%3]} {
			b := slices.Clone(whole)
			b[at] ^= x
			if err := os.WriteFile(path, b, 0o644); err != nil {
				t.Fatal(err)
			}
			if _, _, err := scanFile(path); err != nil && sourcetest.Class(err) == "" {
				t.Fatalf("byte %d ^ %#x: %T %v", at, x, err, err)
			}
		}
	}
	for n := 4; n < len(whole); n += 97 {
		if _, _, err := scanFile(sourcetest.Write(t, "e.parquet", whole[:n])); sourcetest.Class(err) != "input" {
			t.Fatalf("cut to %d: %v", n, err)
		}
	}
}
