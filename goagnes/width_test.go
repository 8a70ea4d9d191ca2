package goagnes_test

import (
	"context"
	"io"
	"path/filepath"
	"slices"
	"testing"

	"github.com/goagnes/goagnes/goagnes"
	"github.com/goagnes/goagnes/layout"
)

// TestFeaturesOfNoWidth hands out features of shape (nodes, 0) beside labels: an
// array that has rows and no bytes.
func TestFeaturesOfNoWidth(t *testing.T) {
	ctx := context.Background()
	path := filepath.Join(t.TempDir(), "store")
	array := func(d layout.DType, data []byte, shape ...int64) goagnes.Input {
		return goagnes.Input{Memory: &goagnes.Memory{Name: "array", DType: d, Shape: shape, Data: data}}
	}
	_, err := goagnes.Build(ctx, path, goagnes.BuildOptions{
		EdgeIndex: array(layout.Uint8, []byte{0, 1, 2, 1, 2, 0}, 2, 3),
		X:         array(layout.Float32, nil, 3, 0),
		Y:         array(layout.Int8, []byte{7, 8, 9}, 3),
	})
	if err != nil {
		t.Fatal(err)
	}
	s, err := goagnes.Open(path, goagnes.OpenOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	l, err := goagnes.NewLoader(s, goagnes.LoaderOptions{NumNeighbors: []int{-1}, BatchSize: 3})
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Start(ctx); err != nil {
		t.Fatal(err)
	}
	b, err := l.Next(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Release()
	x, ok := b.Array("x")
	if !ok || !slices.Equal(x.Shape, []int64{3, 0}) || len(x.Bytes()) != 0 {
		t.Errorf("x: %v %v", ok, x)
	}
	if y, ok := b.Array("y"); !ok || !slices.Equal(y.Bytes(), []byte{7, 8, 9}) {
		t.Errorf("y: %v %v", ok, y)
	}
	if _, err := l.Next(ctx); err != io.EOF {
		t.Errorf("after the last minibatch: %v", err)
	}
}
