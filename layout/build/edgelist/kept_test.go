package edgelist

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/goagnes/goagnes/goagnes/storage"
	"github.com/goagnes/goagnes/layout/build/source"
	"github.com/goagnes/goagnes/tests/fixture/space"
)

// Edges that are kept in memory or in scratch come back the same without the source
// being read again; where there is no room, it is.
func TestKept(t *testing.T) {
	large := drawEdges(2*source.ChunkEdges+100, 1<<32-3, source.ChunkEdges)
	wide := drawEdges(5000, 30, 100)
	wide.dst[4000] = 1 << 32
	for name, c := range map[string]struct {
		edges *edgeList
		bytes int64
		kept  bool
	}{
		"no edges":        {drawEdges(0, 1, 1), 80, true},
		"room to spare":   {drawEdges(1000, 50, 30), 1 << 20, true},
		"just enough":     {drawEdges(1000, 50, 30), 8000, true},
		"part of a page":  {drawEdges(1000, 50, 30), 8100, true},
		"an edge too few": {drawEdges(1000, 50, 30), 7999, false},
		"several chunks":  {large, 1 << 22, true},
		"wide ids":        {wide, 1 << 22, false},
	} {
		w := space.New(t, 1<<23)
		k, err := KeepEdges(w, c.edges, c.bytes)
		if err != nil {
			t.Fatal(err)
		}
		c.edges.scans = 0
		for range 3 {
			src, dst := collect(t, k.Scan)
			if !slices.Equal(src, c.edges.src) || !slices.Equal(dst, c.edges.dst) {
				t.Errorf("%s: other edges", name)
			}
		}
		if want := map[bool]int{true: 1, false: 3}[c.kept]; k.Whole != c.kept || c.edges.scans != want {
			t.Errorf("%s: whole is %v, read %d times, want %d", name, k.Whole, c.edges.scans, want)
		}
		if most := int64(len(c.edges.src)) * 8; k.Bytes() > (most+4095)/4096*4096 {
			t.Errorf("%s: %d bytes are in use for %d edges", name, k.Bytes(), len(c.edges.src))
		}
		k.Drop()
	}
}

func TestSpilled(t *testing.T) {
	for name, c := range map[string]struct {
		edges *edgeList
		limit int64 // of scratch; 0: none
		kept  bool
	}{
		"no edges":          {drawEdges(0, 1, 1), 0, true},
		"one edge":          {drawEdges(1, 5, 1), 0, true},
		"one transfer":      {drawEdges(source.ChunkEdges, 1<<32-3, 100), 0, true},
		"one edge more":     {drawEdges(source.ChunkEdges+1, 9, source.ChunkEdges), 0, true},
		"many transfers":    {drawEdges(5*source.ChunkEdges-3, 1<<32-3, source.ChunkEdges), 0, true},
		"too little of it":  {drawEdges(2*source.ChunkEdges, 1000, source.ChunkEdges), 1 << 20, false},
		"just enough of it": {drawEdges(2*source.ChunkEdges, 1000, source.ChunkEdges), 3 << 19, true},
	} {
		w := space.New(t, 1<<23)
		if c.limit > 0 {
			scratch, err := storage.OpenScratch(nil, []string{t.TempDir()}, c.limit)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { scratch.Close() })
			w.Scratch = scratch
		}
		s, err := SpillOnce(w, c.edges)
		if err != nil {
			t.Fatal(err)
		}
		c.edges.scans = 0
		for range 3 {
			src, dst := collect(t, s.Scan)
			if !slices.Equal(src, c.edges.src) || !slices.Equal(dst, c.edges.dst) {
				t.Errorf("%s: other edges", name)
			}
		}
		if want := map[bool]int{true: 1, false: 3}[c.kept]; c.edges.scans != want {
			t.Errorf("%s: read %d times, want %d", name, c.edges.scans, want)
		}
		enough := errors.New("enough")
		if err := s.Scan(context.Background(), func(src, dst []int64) error { return enough }); len(c.edges.src) > 0 && !errors.Is(err, enough) {
			t.Errorf("%s: %v", name, err)
		}
		s.Drop()
		if s.Buffers() != 0 || w.Scratch.Used() != 0 {
			t.Errorf("%s: %d bytes of memory, %d of scratch are left", name, s.Buffers(), w.Scratch.Used())
		}
		if src, _ := collect(t, s.Scan); !slices.Equal(src, c.edges.src) {
			t.Errorf("%s: other edges once scratch is gone", name)
		}
	}
}
