package memory

import (
	"context"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// lruModel is the least recently used policy with pins, written to be read.
type lruModel struct {
	order  []int64 // unpinned blocks, the least recently used first
	pinned map[int64]int
	frames int
}

func (m *lruModel) acquire(block int64) (hit, ok bool, evicted int64) {
	evicted = -1
	if n := m.pinned[block]; n > 0 {
		m.pinned[block]++
		return true, true, evicted
	}
	if i := slices.Index(m.order, block); i >= 0 {
		m.order = slices.Delete(m.order, i, i+1)
		m.pinned[block] = 1
		return true, true, evicted
	}
	if len(m.pinned) == m.frames {
		return false, false, evicted
	}
	if len(m.pinned)+len(m.order) == m.frames {
		evicted = m.order[0]
		m.order = m.order[1:]
	}
	m.pinned[block] = 1
	return false, true, evicted
}

func (m *lruModel) unpin(block int64, failed bool) {
	if m.pinned[block]--; m.pinned[block] == 0 {
		delete(m.pinned, block)
		if !failed {
			m.order = append(m.order, block)
		}
	}
}

func TestBufferAgainstModel(t *testing.T) {
	for _, frames := range []int{1, 2, 5, 16} {
		const frameBytes = 64
		b := NewBuffer(make([]byte, frames*frameBytes+10), frameBytes)
		if b.Frames() != frames {
			t.Fatalf("%d frames", b.Frames())
		}
		m := &lruModel{pinned: map[int64]int{}, frames: frames}
		random := rand.New(rand.NewPCG(5, uint64(frames)))
		failure := errors.New("failure")
		type held struct {
			f     *Frame
			block int64
		}
		var pins []held
		var hits, misses, evictions int64
		for range 20_000 {
			if len(pins) > 0 && random.IntN(2) == 0 {
				i := random.IntN(len(pins))
				h := pins[i]
				pins = slices.Delete(pins, i, i+1)
				if h.f.Block() != h.block || binary.LittleEndian.Uint64(h.f.Bytes()) != uint64(h.block) {
					t.Fatalf("the frame of block %d holds block %d", h.block, h.f.Block())
				}
				h.f.Unpin()
				m.unpin(h.block, false)
				continue
			}
			block := random.Int64N(int64(3*frames) + 2)
			f, hit, ok := b.Acquire(block)
			wantHit, wantOK, evicted := m.acquire(block)
			if hit != wantHit || ok != wantOK {
				t.Fatalf("block %d: hit %v, ok %v; %v, %v are due", block, hit, ok, wantHit, wantOK)
			}
			if !ok {
				continue
			}
			if evicted >= 0 {
				evictions++
				if b.Contains(evicted) {
					t.Fatalf("block %d is still there", evicted)
				}
			}
			if hit {
				hits++
				if err := f.Wait(context.Background()); err != nil {
					t.Fatal(err)
				}
			} else {
				misses++
				if random.IntN(8) == 0 {
					f.Ready(failure)
					if err := f.Wait(context.Background()); err != failure || b.Contains(block) || f.Block() != -1 {
						t.Fatalf("a failed load: %v", err)
					}
					f.Unpin()
					m.unpin(block, true)
					continue
				}
				binary.LittleEndian.PutUint64(f.Bytes(), uint64(block))
				f.Ready(nil)
			}
			pins = append(pins, held{f, block})
		}
		if b.Hits() != hits || b.Misses() != misses || b.Evictions() != evictions || b.Pinned() != len(m.pinned) {
			t.Fatalf("%d hits, %d misses, %d evictions; %d, %d, %d are due", b.Hits(), b.Misses(), b.Evictions(), hits, misses, evictions)
		}
		if b.Clear() != (len(pins) == 0) {
			t.Fatal("Clear with pins")
		}
		for _, h := range pins {
			h.f.Unpin()
		}
		if !b.Clear() || b.Contains(0) || b.mu.index.used != 0 {
			t.Fatal("blocks are left after Clear")
		}
	}
}

// Readers and loaders at once: what a pinned frame holds is its block, each
// miss is loaded once, all failures reach their waiters, no frame is lost.
func TestBufferConcurrent(t *testing.T) {
	const frameBytes, frames = 512, 6
	b := NewBuffer(make([]byte, frames*frameBytes), frameBytes)
	failure := errors.New("failure")
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	var wg sync.WaitGroup
	var acquired, failed atomic.Int64
	for g := range 8 {
		wg.Add(1)
		go func() {
			defer wg.Done()
			random := rand.New(rand.NewPCG(6, uint64(g)))
			for range 4000 {
				block := random.Int64N(20)
				f, hit, ok := b.Acquire(block)
				for !ok {
					if err := b.WaitUnpinned(ctx); err != nil {
						t.Error(err)
						return
					}
					f, hit, ok = b.Acquire(block)
				}
				acquired.Add(1)
				if !hit {
					if random.IntN(20) == 0 {
						f.Ready(failure)
					} else {
						for i := 0; i < frameBytes; i += 8 {
							binary.LittleEndian.PutUint64(f.Bytes()[i:], uint64(block))
						}
						f.Ready(nil)
					}
				}
				if err := f.Wait(ctx); err != nil {
					if err != failure {
						t.Error(err)
					}
					failed.Add(1)
				} else {
					for i := 0; i < frameBytes; i += 8 {
						if got := binary.LittleEndian.Uint64(f.Bytes()[i:]); got != uint64(block) {
							t.Errorf("block %d holds %d", block, got)
							break
						}
					}
				}
				f.Unpin()
			}
		}()
	}
	wg.Wait()
	if b.Pinned() != 0 || b.Hits()+b.Misses() != acquired.Load() || failed.Load() == 0 {
		t.Fatalf("%d pinned, %d hits, %d misses of %d", b.Pinned(), b.Hits(), b.Misses(), acquired.Load())
	}
}

func TestBufferWaits(t *testing.T) {
	b := NewBuffer(make([]byte, 64), 64)
	f, _, _ := b.Acquire(3)
	short, cancel := context.WithTimeout(context.Background(), 10*time.Millisecond)
	defer cancel()
	if err := b.WaitUnpinned(short); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatal(err)
	}
	g, hit, ok := b.Acquire(3)
	if !hit || !ok || g != f {
		t.Fatal("a block that is being loaded is not found")
	}
	if err := g.Wait(short); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatal(err)
	}
	go func() {
		f.Ready(nil)
		f.Unpin()
		g.Unpin()
	}()
	if err := g.Wait(context.Background()); err != nil {
		t.Fatal(err)
	}
	if err := b.WaitUnpinned(context.Background()); err != nil {
		t.Fatal(err)
	}
}

func TestBufferMisuse(t *testing.T) {
	b := NewBuffer(make([]byte, 128), 64)
	f, _, _ := b.Acquire(1)
	mustPanic(t, func() { f.buffer.Acquire(-1) })
	f.Ready(nil)
	mustPanic(t, func() { f.Ready(nil) })
	f.Unpin()
	mustPanic(t, f.Unpin)
	g, _, _ := b.Acquire(2)
	mustPanic(t, g.Unpin)
	mustPanic(t, func() { NewBuffer(nil, 0) })
	none := NewBuffer(nil, 64)
	if _, _, ok := none.Acquire(0); ok {
		t.Fatal("a buffer without frames")
	}
}

// The index against a map, with many collisions.
func TestBlockIndex(t *testing.T) {
	const n = 64
	frames := make([]Frame, n)
	x := newBlockIndex(n)
	model := map[int64]int32{}
	random := rand.New(rand.NewPCG(7, 7))
	for range 50_000 {
		i := int32(random.IntN(n))
		if block, taken := frames[i].block, model[frames[i].block] == i+1; taken {
			x.remove(frames, block)
			delete(model, block)
			frames[i].block = -1
		} else if block := random.Int64N(300) * 987654321; model[block] == 0 {
			frames[i].block = block
			x.insert(frames, i)
			model[block] = i + 1
		}
		q := random.Int64N(300) * 987654321
		if got := x.find(frames, q); got != model[q]-1 {
			t.Fatalf("block %d in frame %d, %d is due", q, got, model[q]-1)
		}
		if x.used != len(model) {
			t.Fatalf("%d blocks, %d are due", x.used, len(model))
		}
	}
}

func BenchmarkBufferHit(b *testing.B) {
	buf := NewBuffer(make([]byte, 1024*64), 64)
	for i := range int64(1024) {
		f, _, _ := buf.Acquire(i)
		f.Ready(nil)
		f.Unpin()
	}
	i := int64(0)
	for b.Loop() {
		f, _, _ := buf.Acquire(i * 7 & 1023)
		f.Unpin()
		i++
	}
}
