package storage

import (
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
)

// Against a loader that writes a chunk's key into it, over more chunks than
// frames, with failures and from several goroutines: what is returned is
// always the chunk asked for.
func TestTableCache(t *testing.T) {
	for _, frames := range []int{1, 3, 8} {
		c := newTableCache(make([]byte, frames*tableChunk))
		failure := errors.New("failure")
		var loads, fails atomic.Int64
		var wg sync.WaitGroup
		for g := range 6 {
			wg.Add(1)
			go func() {
				defer wg.Done()
				random := rand.New(rand.NewPCG(uint64(g), uint64(frames)))
				for range 3000 {
					key := tableKey{random.IntN(2), random.Int64N(7)}
					want := uint64(key.section)<<32 | uint64(key.chunk)
					fail := random.IntN(10) == 0
					f, err := c.get(key, func(mem []byte) error {
						loads.Add(1)
						binary.LittleEndian.PutUint64(mem, want)
						binary.LittleEndian.PutUint64(mem[tableChunk-8:], want)
						if fail {
							fails.Add(1)
							return failure
						}
						return nil
					})
					if err != nil {
						if err != failure {
							t.Error(err)
						}
						continue
					}
					if binary.LittleEndian.Uint64(f.memory) != want || binary.LittleEndian.Uint64(f.memory[tableChunk-8:]) != want {
						t.Errorf("chunk %v holds another", key)
					}
					c.put(f)
				}
			}()
		}
		wg.Wait()
		if loads.Load() == 0 || fails.Load() == 0 {
			t.Fatal("nothing was loaded, or nothing failed")
		}
		ring := 0
		for f := c.mu.lru.next; f != &c.mu.lru; f = f.next {
			ring++
			if f.pins != 0 {
				t.Errorf("a frame is left with %d pins", f.pins)
			}
			if f.labelled && c.mu.index[f.key] != f {
				t.Error("a label is not in the index")
			}
		}
		if ring > frames || len(c.mu.index) > ring {
			t.Errorf("%d frames of %d, %d in the index", ring, frames, len(c.mu.index))
		}
	}
}

// Sequential use of no more chunks than frames loads each once; one more
// evicts the one used longest ago.
func TestTableCacheOrder(t *testing.T) {
	c := newTableCache(make([]byte, 3*tableChunk))
	var loaded []int64
	use := func(chunk int64) {
		f, err := c.get(tableKey{0, chunk}, func([]byte) error { loaded = append(loaded, chunk); return nil })
		if err != nil {
			t.Fatal(err)
		}
		c.put(f)
	}
	for _, k := range []int64{0, 1, 2, 0, 1, 3, 0, 2} { // 3 evicts 2, 2 evicts 1
		use(k)
	}
	use(1)
	want := []int64{0, 1, 2, 3, 2, 1}
	if len(loaded) != len(want) {
		t.Fatalf("loaded %v, %v are due", loaded, want)
	}
	for i := range want {
		if loaded[i] != want[i] {
			t.Fatalf("loaded %v, %v are due", loaded, want)
		}
	}
}
