package goagnes_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"path/filepath"

	"github.com/goagnes/goagnes/goagnes"
	"github.com/goagnes/goagnes/goagnes/train"
	"github.com/goagnes/goagnes/layout"
)

// generated makes a small store with planted communities for the examples.
func generated() (path string, done func()) {
	dir, err := os.MkdirTemp("", "goagnes-example")
	if err != nil {
		log.Fatal(err)
	}
	path = filepath.Join(dir, "store")
	if _, err := goagnes.Generate(context.Background(), path, goagnes.GenerateOptions{
		NumNodes: 2000, AvgDegree: 10, NumFeatures: 16, NumClasses: 4,
	}); err != nil {
		log.Fatal(err)
	}
	return path, func() { os.RemoveAll(dir) }
}

// Minibatches of one epoch, under a memory budget.
func ExampleNewLoader() {
	path, done := generated()
	defer done()
	store, err := goagnes.Open(path, goagnes.OpenOptions{Memory: 64 << 20})
	if err != nil {
		log.Fatal(err)
	}
	defer store.Close()
	seed := uint64(0)
	loader, err := goagnes.NewLoader(store, goagnes.LoaderOptions{
		NumNeighbors: []int{5, 5},
		InputNodes:   goagnes.InputNodes{Split: "train"},
		BatchSize:    100,
		Shuffle:      true,
		Seed:         &seed,
	})
	if err != nil {
		log.Fatal(err)
	}
	defer loader.Close()

	ctx := context.Background()
	if err := loader.Start(ctx); err != nil {
		log.Fatal(err)
	}
	for {
		batch, err := loader.Next(ctx)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			log.Fatal(err)
		}
		x, _ := batch.Array("x")
		fmt.Println(batch.Index, batch.BatchSize, "seeds,", x.DType, int64(batch.NumNodes) == x.Shape[0], x.Shape[1])
		batch.Release()
	}
	// Output:
	// 0 100 seeds, float32 true 16
	// 1 100 seeds, float32 true 16
}

// A store from arrays in memory; files work alike.
func ExampleBuild() {
	dir, err := os.MkdirTemp("", "goagnes-example")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	edges := []int64{0, 1, 2, 1 /* sources */, 1, 2, 0, 0 /* targets */}
	data := make([]byte, 0, 8*len(edges))
	for _, v := range edges {
		data = append(data, byte(v), 0, 0, 0, 0, 0, 0, 0) // little-endian int64
	}
	report, err := goagnes.Build(context.Background(), filepath.Join(dir, "triangle"), goagnes.BuildOptions{
		EdgeIndex: goagnes.Input{Memory: &goagnes.Memory{Name: "edge_index", Data: data, DType: layout.Int64, Shape: []int64{2, 4}}},
		Order:     "original",
	})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(report.NumNodes, "nodes,", report.NumEdges, "edges")
	// Output: 3 nodes, 4 edges
}

// Training without Python. Equal options give equal weights.
func ExampleTrain() {
	path, done := generated()
	defer done()
	store, err := goagnes.Open(path, goagnes.OpenOptions{Memory: 128 << 20})
	if err != nil {
		log.Fatal(err)
	}
	defer store.Close()
	report, err := goagnes.Train(context.Background(), store, goagnes.TrainOptions{Options: train.Options{
		Model: "sage", Layers: 2, Hidden: 32, NumNeighbors: []int{10, 10}, BatchSize: 50, Epochs: 10, LearningRate: 0.01,
	}})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(report.Model, len(report.Epochs), "epochs, more than 70 % right:", *report.TestAccuracy > 0.7)
	// Output: sage 10 epochs, more than 70 % right: true
}

// Every byte of a store is checked.
func ExampleVerify() {
	path, done := generated()
	defer done()
	report, err := goagnes.Verify(context.Background(), path, goagnes.VerifyOptions{})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(len(report.Findings), "findings")
	// Output: 0 findings
}
