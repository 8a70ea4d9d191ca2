package nn_test

// A training step on a minibatch of the size that fanout 10,10,10 gives on a
// power-law graph of 4 M nodes: 1000 seeds, about 104,000 nodes, 189,000 edges.

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/goagnes/goagnes/goagnes/nn"
	"github.com/goagnes/goagnes/kernels"
)

func BenchmarkStep(b *testing.B) {
	rng := rand.New(rand.NewPCG(1, 9))
	hops, edges := []int{1000, 4500, 15000, 83500}, []int{9000, 42000, 138000}
	batch := nn.Batch{NodesPerHop: hops, Ptr: []uint32{0}}
	targets, reachable := 0, hops[0]
	for h, n := range edges {
		first := reachable
		reachable += hops[h+1]
		for i := range hops[h] {
			for range n*(i+1)/hops[h] - n*i/hops[h] {
				if rng.IntN(3) > 0 {
					batch.Src = append(batch.Src, uint32(first+rng.IntN(hops[h+1])))
				} else {
					batch.Src = append(batch.Src, uint32(rng.IntN(first)))
				}
			}
			batch.Ptr = append(batch.Ptr, uint32(len(batch.Src)))
			targets++
		}
	}
	x := make([]float32, reachable*128)
	for i := range x {
		x[i] = rng.Float32()
	}
	batch.X = kernels.NewMatrix(x, reachable, 128).Input()
	labels := make([]int64, hops[0])
	for _, kind := range []string{nn.SAGE, nn.GCN} {
		for _, threads := range []int{1, 2} {
			b.Run(fmt.Sprintf("%s/threads=%d", kind, threads), func(b *testing.B) {
				c := nn.Config{Kind: kind, Inputs: 128, Hidden: 256, Classes: 32, Layers: 3}
				m, err := nn.NewModel(c, make([]float32, c.NumParameters()))
				if err != nil {
					b.Fatal(err)
				}
				m.Initialize(1)
				e, err := kernels.New(kernels.Options{Threads: threads})
				if err != nil {
					b.Fatal(err)
				}
				n := nn.NewNetwork(m, e)
				need, err := n.ArenaBytes(batch, true)
				if err != nil {
					b.Fatal(err)
				}
				n.SetArena(make([]float32, need/4))
				gradient := make([]float32, len(m.Values))
				b.ReportAllocs()
				b.ReportMetric(float64(need)/1e6, "arena-MB")
				for b.Loop() {
					z, err := n.Forward(batch, nn.Mode{Train: true})
					if err != nil {
						b.Fatal(err)
					}
					e.CrossEntropy(z, labels, z, 1.0/1000)
					n.Backward(z, gradient)
				}
			})
		}
	}
}
