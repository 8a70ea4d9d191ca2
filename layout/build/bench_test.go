package build

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/goagnes/goagnes/layout"
	"github.com/goagnes/goagnes/layout/build/order"
	"github.com/goagnes/goagnes/layout/build/source"
	"github.com/goagnes/goagnes/layout/build/source/formats"
	"github.com/goagnes/goagnes/layout/build/synthetic"
	"github.com/goagnes/goagnes/layout/build/verify"
	"github.com/goagnes/goagnes/layout/build/workspace"
)

// BenchmarkBuild builds a store from raw numpy files of an R-MAT graph with 16
// in-edges a node and 64 float32 features, and reports MB/s of input and the ratio of
// all bytes moved to the input. The number of nodes is 2^BUILD_BENCH_SCALE, 2^17 by
// default, in BUILD_BENCH_MEMORY MiB.
func BenchmarkBuild(b *testing.B) {
	number := func(name string, otherwise int64) int64 {
		if s := os.Getenv(name); s != "" {
			n, err := strconv.ParseInt(s, 10, 64)
			if err != nil {
				b.Fatal(err)
			}
			return n
		}
		return otherwise
	}
	scale := number("BUILD_BENCH_SCALE", 17)
	ctx := context.Background()
	dir := b.TempDir()
	raw := filepath.Join(dir, "raw")
	d, err := synthetic.New(synthetic.Options{Kind: "rmat", NumNodes: 1 << scale, AvgDegree: 16, NumFeatures: 64, NumClasses: 16})
	if err != nil {
		b.Fatal(err)
	}
	if err := synthetic.WriteRaw(ctx, d, raw); err != nil {
		b.Fatal(err)
	}
	for _, order := range []string{order.Degree, layout.OrderOriginal} {
		for _, memory := range []int64{2048, number("BUILD_BENCH_MEMORY", 48)} {
			b.Run(order+"/"+strconv.FormatInt(memory, 10)+"MiB", func(b *testing.B) {
				for b.Loop() {
					d, err := formats.Open(ctx, raw, "npy", source.Options{})
					if err != nil {
						b.Fatal(err)
					}
					r, err := Build(ctx, filepath.Join(dir, "store"), Options{Edges: d.Edges, Arrays: d.Arrays, Splits: d.Splits,
						NumNodes: d.NumNodes, Order: order, Memory: memory << 20, Overwrite: true})
					if err != nil {
						b.Fatal(err)
					}
					b.SetBytes(r.InputBytes)
					b.ReportMetric(float64(r.BytesRead+r.BytesWritten)/float64(r.InputBytes), "moved/input")
					b.ReportMetric(float64(r.PeakMemoryPlanned>>20), "MiB-planned")
					for stage, s := range r.StageSeconds {
						b.Logf("%s: %.2f s", stage, s)
					}
				}
			})
		}
	}
}

// BenchmarkVerify verifies a store of 2^17 nodes, 2^21 edges and 64 float32 features.
func BenchmarkVerify(b *testing.B) {
	d, err := synthetic.New(synthetic.Options{Kind: synthetic.RMAT, NumNodes: 1 << 17, AvgDegree: 16, NumFeatures: 64})
	if err != nil {
		b.Fatal(err)
	}
	path, r := buildIn(b, Options{Edges: d.Edges, Arrays: d.Arrays, Splits: d.Splits, NumNodes: d.NumNodes}, workspace.Tuning{})
	b.SetBytes(r.StoreBytes)
	for b.Loop() {
		v, err := verify.Store(context.Background(), path, verify.Options{})
		if err != nil || !v.OK() {
			b.Fatal(v, err)
		}
	}
}
