package storage

import (
	"context"
	"errors"
	"math"
	"os"
	"testing"
)

func TestFit(t *testing.T) {
	for _, want := range []Calibration{{SecondsPerRead: 20e-6, BytesPerSecond: 1e9}, {SecondsPerRead: 0, BytesPerSecond: 5e8}, {SecondsPerRead: 1e-3, BytesPerSecond: 1e10}} {
		c := Calibration{}
		for _, s := range defaultSizes {
			c.Points = append(c.Points, CalibrationPoint{Size: s, Reads: 10, Seconds: 10 * want.Cost(s), BytesPerSecond: float64(s) / want.Cost(s)})
		}
		c.fit()
		if math.Abs(c.SecondsPerRead-want.SecondsPerRead) > 1e-9 || math.Abs(c.BytesPerSecond/want.BytesPerSecond-1) > 1e-6 {
			t.Errorf("%v and %v, %v and %v are due", c.SecondsPerRead, c.BytesPerSecond, want.SecondsPerRead, want.BytesPerSecond)
		}
		if gap := float64(c.GapBytes()); math.Abs(gap-want.SecondsPerRead*want.BytesPerSecond) > 2 {
			t.Errorf("a gap of %v bytes", gap)
		}
	}
	// Measurements that fit no model still give one that can be used.
	for _, points := range [][]CalibrationPoint{
		{{4096, 100, 1, 409600}},
		{{4096, 100, 1, 409600}, {1 << 20, 100, 1, 100 << 20}},
		{{4096, 100, 1, 409600}, {1 << 20, 200, 1, 200 << 20}},
		{{4096, 100, 1, 409600}, {8192, 10, 1, 81920}},
	} {
		c := Calibration{Points: points}
		c.fit()
		if !(c.SecondsPerRead >= 0) || !(c.BytesPerSecond > 0) || math.IsInf(c.BytesPerSecond, 0) || math.IsInf(c.SecondsPerRead, 0) {
			t.Errorf("%v: %v and %v", points, c.SecondsPerRead, c.BytesPerSecond)
		}
	}
}

func TestCalibrate(t *testing.T) {
	dir := t.TempDir()
	o := CalibrateOptions{Bytes: 8 << 20, Seconds: 0.01, Depth: 4, Sizes: []int64{4 << 10, 1 << 20, 64 << 20}}
	c, err := Calibrate(context.Background(), dir, o)
	if err != nil {
		t.Fatal(err)
	}
	if len(c.Points) != 2 || c.Points[0].Reads < 8 || c.Depth != 4 || !(c.BytesPerSecond > 0) || c.SecondsPerRead < 0 {
		t.Fatalf("%+v", c)
	}
	ways := map[string]int{IOPread: DefaultDepth, IOBuffered: DefaultDepth}
	if RingRefusal() == nil {
		ways[IOUring] = DefaultRingDepth
	}
	for way, depth := range ways {
		c, err := Calibrate(context.Background(), dir, CalibrateOptions{IO: way, Bytes: 1 << 20, Seconds: 0.001, Sizes: []int64{page}})
		if err != nil || c.Engine != way || c.Depth != depth || c.Points[0].Reads < int64(2*depth) || c.Direct && way == IOBuffered {
			t.Errorf("by %s: %v, %+v", way, err, c)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := Calibrate(ctx, dir, o); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	if left, _ := os.ReadDir(dir); len(left) != 0 {
		t.Fatalf("left behind: %v", left)
	}
	path, _ := randomFile(t, page)
	if _, err := Calibrate(context.Background(), "", CalibrateOptions{Path: path, Sizes: []int64{2 * page}}); err == nil {
		t.Fatal("a file of one page read two pages at a time")
	}
}
