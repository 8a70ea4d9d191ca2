package goagnes_test

// The ways to the device: the same minibatches by each, refusals, what stats
// tell, and reads in flight.

import (
	"errors"
	"io"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/goagnes/goagnes/goagnes"
	"github.com/goagnes/goagnes/goagnes/storage"
	"github.com/goagnes/goagnes/goagnes/storage/inject"
	"github.com/goagnes/goagnes/tests/fixture/graph"
	"github.com/goagnes/goagnes/tests/fixture/life"
)

func TestIO(t *testing.T) {
	g := graph.Ring(2000)
	path := filepath.Join(t.TempDir(), "store")
	g.Build(t, path, goagnes.BuildOptions{BlockSize: 4096})
	seed := uint64(5)
	p := graph.Plan{Fanouts: []int{4, 2}, Input: goagnes.InputNodes{Split: "train"}, Batch: 25, Shuffle: true}
	want := g.Plain(p, seed).Epoch(0)
	ring := storage.RingRefusal() == nil
	auto := map[bool]string{true: "uring", false: "pread"}[ring]
	for _, c := range []struct {
		store, loader string
		fs            storage.FS
		engine        string
		direct        bool
	}{
		{"", "", nil, auto, true},
		{"auto", "auto", nil, auto, true},
		{"uring", "", nil, "uring", true},
		{"pread", "uring", nil, "uring", true},
		{"uring", "pread", nil, "pread", true},
		{"auto", "buffered", nil, "buffered", false},
		{"buffered", "auto", nil, "buffered", false},
		{"auto", "", inject.New(nil, inject.Options{RefuseDirect: true}), auto, false},
		{"pread", "", inject.New(nil, inject.Options{RefuseDirect: true}), "pread", false},
	} {
		name := c.store + "/" + c.loader
		if !ring && (c.store == "uring" || c.loader == "uring") {
			_, err := goagnes.Open(path, goagnes.OpenOptions{IO: "uring"})
			if goagnes.Class(err) != goagnes.ClassUnsupported {
				t.Errorf("uring where it cannot be used: %v", err)
			}
			continue
		}
		s := life.Open(t, path, goagnes.OpenOptions{Memory: 4 << 20, Scratch: t.TempDir(), NumThreads: 2, IO: c.store, FS: c.fs})
		o := goagnes.LoaderOptions{NumNeighbors: p.Fanouts, InputNodes: p.Input, BatchSize: p.Batch, Shuffle: true, Seed: &seed, IO: c.loader}
		l := life.Load(t, s, o)
		g.HoldEqual(t, l, o, want)
		st := l.Stats()
		if st.IO.Engine != c.engine || st.IO.Direct != c.direct || st.BytesRead == 0 {
			t.Errorf("%s: engine %q, direct %v, %d bytes; want %q, %v", name, st.IO.Engine, st.IO.Direct, st.BytesRead, c.engine, c.direct)
		}
		info := s.Info()
		if wantOwn := map[string]string{"": auto, "auto": auto}[c.store]; info.Engine != c.store && info.Engine != wantOwn || info.Direct != (c.fs == nil && c.store != "buffered") ||
			(info.DirectRefused != "") != (c.fs != nil) {
			t.Errorf("%s: the store says engine %q, direct %v, refused of %q", name, info.Engine, info.Direct, info.DirectRefused)
		}
		if c.fs != nil && st.IO.FallbackBytes != st.BytesRead+st.BytesWritten {
			t.Errorf("%s: %d of %d bytes are counted as fallen back", name, st.IO.FallbackBytes, st.BytesRead+st.BytesWritten)
		}
		if err := l.Close(); err != nil {
			t.Error(err)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
	if _, err := goagnes.Open(path, goagnes.OpenOptions{IO: "mmap"}); goagnes.Class(err) != goagnes.ClassUnsupported {
		t.Errorf("an unknown way: %v", err)
	}
}

// A store does not depend on the way in which it was built, nor its verification.
func TestBuildIO(t *testing.T) {
	g := graph.Ring(500)
	id := ""
	for _, c := range []struct {
		io string
		fs storage.FS
	}{{"", nil}, {"pread", nil}, {"buffered", nil}, {"uring", nil}, {"auto", inject.New(nil, inject.Options{RefuseDirect: true})}} {
		if c.io == "uring" && storage.RingRefusal() != nil {
			continue
		}
		path := filepath.Join(t.TempDir(), "store")
		report := g.Build(t, path, goagnes.BuildOptions{BlockSize: 4096, IO: c.io, FS: c.fs})
		if id == "" {
			id = report.BuildID
		}
		said := strings.Contains(strings.Join(report.Notes, "\n"), "refuses direct I/O")
		if report.BuildID != id || said != (c.fs != nil) {
			t.Errorf("io=%q: build id %s, want %s; notes %q", c.io, report.BuildID, id, report.Notes)
		}
		v, err := goagnes.Verify(t.Context(), path, goagnes.VerifyOptions{IO: c.io, FS: c.fs})
		if err != nil || !v.OK() {
			t.Errorf("io=%q: %v, %v", c.io, err, v)
		}
	}
	path := filepath.Join(t.TempDir(), "store")
	if _, err := goagnes.Generate(t.Context(), path, goagnes.GenerateOptions{NumNodes: 10, IO: "mmap"}); goagnes.Class(err) != goagnes.ClassUnsupported {
		t.Errorf("an unknown way to build: %v", err)
	}
	if _, err := goagnes.Verify(t.Context(), path, goagnes.VerifyOptions{IO: "mmap"}); goagnes.Class(err) != goagnes.ClassUnsupported {
		t.Errorf("an unknown way to verify: %v", err)
	}
}

// With latency the engine of an epoch keeps many reads in flight.
func TestReadsInFlight(t *testing.T) {
	g := graph.Ring(20000)
	path := filepath.Join(t.TempDir(), "store")
	g.Build(t, path, goagnes.BuildOptions{BlockSize: 4096})
	seed := uint64(5)
	for _, way := range []string{"auto", "pread"} {
		s := life.Open(t, path, goagnes.OpenOptions{Memory: 64 << 20, NumThreads: 2, IO: way, FS: inject.New(nil, inject.Options{ReadLatency: 5 * time.Millisecond})})
		l := life.Load(t, s, goagnes.LoaderOptions{NumNeighbors: []int{4, 2}, InputNodes: goagnes.InputNodes{Split: "train"}, BatchSize: 1000, Seed: &seed})
		if err := l.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		for b, err := l.Next(t.Context()); !errors.Is(err, io.EOF); b, err = l.Next(t.Context()) {
			if err != nil {
				t.Fatal(err)
			}
			b.Release()
		}
		if c := l.Stats().IO; c.MaxInFlight < storage.DefaultDepth {
			t.Errorf("%s: %d reads are in flight at most, a depth of %d would be filled", way, c.MaxInFlight, storage.DefaultDepth)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
}
