package memory

import (
	"math/rand/v2"
	"sync"
	"testing"
)

func TestAccessCounter(t *testing.T) {
	for i, n := range []int{0, 1, 3, 4, 97, 97, 1000, 1003} {
		c := NewAccessCounter(make([]byte, n+i%4)[i%4:]) // aligned and not
		want := make([]int, n)
		random := rand.New(rand.NewPCG(9, uint64(n)))
		for range min(n, 1) * 20_000 {
			v := random.IntN(1 + random.IntN(n)) // low ids more often
			if v < 3 && random.IntN(50) > 0 {
				continue
			}
			want[v]++
			if random.IntN(2) == 0 {
				c.Add(uint64(v))
			} else {
				c.AddShared(uint64(v))
			}
		}
		var histogram [256]int64
		for v, w := range want {
			if int(c.Count(uint64(v))) != min(w, 255) {
				t.Fatalf("node %d counted %d of %d times", v, c.Count(uint64(v)), w)
			}
			histogram[min(w, 255)]++
		}
		if c.Histogram() != histogram {
			t.Fatal("histograms differ")
		}
		// Brute force over every t.
		for slots := int64(-1); slots <= int64(n)+1; slots += 1 + int64(n)/300 {
			wantT, wantRows := 256, int64(0)
			for t := 255; t >= 1; t-- {
				rows := int64(0)
				for _, w := range want {
					if min(w, 255) >= t {
						rows++
					}
				}
				if rows > slots {
					break
				}
				wantT, wantRows = t, rows
			}
			if slots < 0 {
				if _, rows := c.Threshold(slots); rows != 0 {
					t.Fatalf("%d rows without slots", rows)
				}
				continue
			}
			if wantT == 256 { // too many at 255
				wantT, wantRows = 255, slots
			}
			if gotT, rows := c.Threshold(slots); int(gotT) != wantT || rows != wantRows {
				t.Fatalf("%d nodes, %d slots: threshold %d, %d rows; %d, %d are due", n, slots, gotT, rows, wantT, wantRows)
			}
		}
		c.Reset()
		if n > 0 && c.Histogram()[0] != int64(n) {
			t.Fatal("not reset")
		}
		mustPanic(t, func() { c.AddShared(uint64(n)) })
		mustPanic(t, func() { c.Add(uint64(n)) })
	}
}

func TestAccessCounterShared(t *testing.T) {
	const n, goroutines, each = 39, 4, 60
	c := NewAccessCounter(make([]byte, n))
	var wg sync.WaitGroup
	for range goroutines {
		wg.Add(1)
		go func() {
			defer wg.Done()
			for range each {
				for v := range uint64(n) {
					if v%3 != 0 {
						c.AddShared(v)
					}
					c.AddShared(n - 1 - v)
				}
			}
		}()
	}
	wg.Wait()
	for v := range uint64(n) {
		due := goroutines * each
		if v%3 != 0 {
			due *= 2
		}
		if int(c.Count(v)) != min(due, 255) {
			t.Fatalf("node %d: %d, %d are due", v, c.Count(v), due)
		}
	}
}

func TestFeatureCache(t *testing.T) {
	random := rand.New(rand.NewPCG(10, 10))
	for _, n := range []int{0, 1, 63, 64, 65, 95, 96, 97, 191, 192, 193, 5000} {
		for range 10 {
			counts := make([]byte, n)
			c := NewAccessCounter(counts)
			dense := random.IntN(3)
			for v := range counts {
				if dense == 2 || random.IntN(1+9*(1-dense)) == 0 {
					counts[v] = byte(random.IntN(256))
				}
			}
			th, rows := c.Threshold(random.Int64N(int64(n) + 2))
			if random.IntN(3) == 0 { // fewer rows than pass the threshold
				rows -= random.Int64N(rows + 1)
			}
			const stride = 24
			indexBytes, dataBytes := FeatureCacheBytes(int64(n), rows, stride)
			index := make([]byte, indexBytes)
			for i := range index {
				index[i] = 0xFF
			}
			f := NewFeatureCache(c, th, rows, index, make([]byte, dataBytes), stride)
			var nodes []uint64
			for v, k := range counts {
				due := k >= th && int64(len(nodes)) < rows
				slot, ok := f.Slot(uint64(v))
				if ok != due || (ok && slot != len(nodes)) {
					t.Fatalf("%d nodes: node %d counted %d at %d in slot %d, %v; %d, %v are due", n, v, k, th, slot, ok, len(nodes), due)
				}
				if ok {
					row := f.Row(slot)
					if len(row) != stride {
						t.Fatalf("a row of %d bytes", len(row))
					}
					for i := range row {
						if row[i] != 0 {
							t.Fatal("rows overlap")
						}
						row[i] = 1
					}
					nodes = append(nodes, uint64(v))
				}
			}
			if f.Rows() != len(nodes) || int64(f.Rows()) != rows {
				t.Fatalf("%d rows, %d are due", f.Rows(), rows)
			}
			i := 0
			f.Nodes(func(slot int, node uint64) bool {
				if slot != i || node != nodes[i] {
					t.Fatalf("slot %d of node %d; slot %d of node %d is due", slot, node, i, nodes[i])
				}
				i++
				return true
			})
			if i != len(nodes) {
				t.Fatalf("%d nodes listed of %d", i, len(nodes))
			}
			f.Note(3, 2)
			f.Note(1, 0)
			if f.Hits() != 4 || f.Misses() != 2 {
				t.Fatal("notes")
			}
			mustPanic(t, func() { f.Slot(uint64(n)) })
			mustPanic(t, func() { NewFeatureCache(c, 0, 0, index, nil, stride) })
			mustPanic(t, func() { NewFeatureCache(c, 1, 1, index, nil, stride) })
		}
	}
}

func BenchmarkFeatureCacheSlot(b *testing.B) {
	for _, n := range []uint64{1 << 16, 1 << 24} {
		b.Run(map[uint64]string{1 << 16: "64k", 1 << 24: "16M"}[n], func(b *testing.B) {
			c := NewAccessCounter(make([]byte, n))
			for v := uint64(0); v < n; v += 5 {
				c.Add(v)
			}
			indexBytes, _ := FeatureCacheBytes(int64(n), int64(n), 0)
			f := NewFeatureCache(c, 1, int64(n), make([]byte, indexBytes), nil, 0)
			hits, state := 0, uint64(1)
			for b.Loop() {
				state = state*6364136223846793005 + 1442695040888963407
				if _, ok := f.Slot(state >> 32 & (n - 1)); ok {
					hits++
				}
			}
			if hits == 0 {
				b.Fatal("no hit")
			}
		})
	}
}

func BenchmarkThreshold(b *testing.B) {
	mem := make([]byte, 16<<20)
	random := rand.New(rand.NewPCG(11, 11))
	c := NewAccessCounter(mem)
	for range 4 << 20 {
		c.Add(random.Uint64N(uint64(1 + random.IntN(len(mem)))))
	}
	b.SetBytes(int64(len(mem)))
	for b.Loop() {
		if t, _ := c.Threshold(1 << 20); t == 0 {
			b.Fatal("no threshold")
		}
	}
}
