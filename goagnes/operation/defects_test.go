package operation

// Defects planted where the engine makes keys, draws and orders, for the tests of
// its statistics: each is a mistake that a sampler could have, and leaves single
// minibatches looking right.

import (
	"math/bits"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/goagnes/goagnes/goagnes/memory"
)

// defect changes stream; nil leaves it as it is.
type defect func(index *memory.ObjectIndex)

// plant makes engines draw with a defect until the function it returns is called.
func plant(d defect, index *memory.ObjectIndex) (remove func()) {
	kept := stream
	if d != nil {
		d(index)
	}
	return func() { stream = kept }
}

// drawing is what the draws of a node depend on.
type drawing struct {
	key      Key
	node     uint64
	position uint32
	hop      int
	degree   uint64
}

// words returns the stream of a drawing, as docs/sampling.md has it.
func (q drawing) words(block uint32) (w [4]uint32) {
	w[0], w[1], w[2], w[3] = philox(q.key, uint32(q.node), q.position, uint32(q.hop)|uint32(q.node>>32)<<24, block)
	return w
}

// floyd fills in out with positions of 0..degree-1 by the words of a stream, t
// being drawn from [0, j+1-short).
func floyd(out []uint32, degree, short uint64, words func(block uint32) [4]uint32) {
	var w [4]uint32
	next := 0
	word := func() uint64 {
		if next%4 == 0 {
			w = words(uint32(next / 4))
		}
		next++
		return uint64(w[(next-1)%4])
	}
	for i := range out {
		j := degree - uint64(len(out)) + uint64(i)
		t := word()
		if degree <= narrowDegree {
			t = t * (j + 1 - short) >> 32
		} else {
			t |= word() << 32
			t, _ = bits.Mul64(t, j+1-short)
		}
		if slices.Contains(out[:i], uint32(t)) {
			t = j
		}
		out[i] = uint32(t)
	}
	slices.Sort(out)
}

// changed is the defect of draws that are made by one, and not as they are due.
func changed(one func(out []uint32, q drawing)) defect {
	return func(*memory.ObjectIndex) {
		stream.draw = func(out []uint32, key Key, original uint64, position uint32, hop int, degree uint64, _ *positionSet) {
			one(out, drawing{key, original, position, hop, degree})
		}
	}
}

// blind is the defect of requests that lose what f changes.
func blind(f func(q *drawing)) defect {
	return changed(func(out []uint32, q drawing) {
		f(&q)
		floyd(out, q.degree, 0, q.words)
	})
}

// keyed is the defect of minibatches whose keys are made from other numbers.
func keyed(f func(seed uint64, epoch uint32, minibatch uint64) Key) defect {
	return func(*memory.ObjectIndex) { stream.key = f }
}

// ordered is the defect of a seed order that f changes.
func ordered(f func(seed uint64, epoch uint32, p permutation) permutation) defect {
	return func(*memory.ObjectIndex) {
		stream.order = func(seed uint64, epoch uint32, n uint64) permutation {
			return f(seed, epoch, newPermutation(seed, epoch, n))
		}
	}
}

// hubEnds returns the end of each block of the node's hub, in its positions.
func hubEnds(index *memory.ObjectIndex, node uint64) (ends []int) {
	block, pieces := index.Find(node)
	for b := block + 1; b <= block+pieces; b++ {
		ends = append(ends, int(index.Entry(b).FirstEdge-index.Entry(block).FirstEdge))
	}
	return ends
}

// hubs is the defect of draws of hubs alone.
func hubs(one func(out []uint32, q drawing, ends []int)) defect {
	return func(index *memory.ObjectIndex) {
		stream.draw = func(out []uint32, key Key, original uint64, position uint32, hop int, degree uint64, seen *positionSet) {
			if ends := hubEnds(index, original); len(ends) > 1 {
				one(out, drawing{key, original, position, hop, degree}, ends)
				return
			}
			draw(out, key, original, position, hop, degree, seen)
		}
	}
}

var (
	floydOffByOne = changed(func(out []uint32, q drawing) { floyd(out, q.degree, 1, q.words) })

	// The stream's later blocks of four words repeat the first.
	wordsRepeat = changed(func(out []uint32, q drawing) {
		floyd(out, q.degree, 0, func(uint32) [4]uint32 { return q.words(0) })
	})

	// Whoever samples a graph block begins the minibatch's stream anew: the node's
	// place in its block stands for the node.
	blockReseed defect = func(index *memory.ObjectIndex) {
		blind(func(q *drawing) {
			block, _ := index.Find(q.node)
			q.node -= index.Entry(block).FirstNode
		})(index)
	}

	nodeLeftOut     = blind(func(q *drawing) { q.node = 0 })
	positionLeftOut = blind(func(q *drawing) { q.position = 0 })
	hopLeftOut      = blind(func(q *drawing) { q.hop = 0 })

	minibatchLeftOut = keyed(func(seed uint64, epoch uint32, _ uint64) Key { return batchKey(seed, epoch, 0) })
	epochLeftOut     = keyed(func(seed uint64, _ uint32, m uint64) Key { return batchKey(seed, 0, m) })
	seedCut          = keyed(func(seed uint64, epoch uint32, m uint64) Key { return batchKey(seed&0xffff, epoch, m) })
	keyCut           = keyed(func(seed uint64, epoch uint32, m uint64) Key {
		return Key{k0: batchKey(seed, epoch, m).k0 & 0xffff}
	})

	hubFirstBlock = hubs(func(out []uint32, q drawing, ends []int) { floyd(out, uint64(ends[0]), 0, q.words) })

	// Each block of a hub gives the share of the draws that it has of the edges.
	hubByBlock = hubs(func(out []uint32, q drawing, ends []int) {
		from, done := 0, 0
		for b, end := range ends {
			upto := len(out) * end / ends[len(ends)-1]
			part := out[done:upto]
			floyd(part, uint64(end-from), 0, func(block uint32) [4]uint32 { return q.words(block + uint32(b)<<16) })
			for i := range part {
				part[i] += uint32(from)
			}
			from, done = end, upto
		}
	})

	orderOneRound     = ordered(func(_ uint64, _ uint32, p permutation) permutation { p.rounds = 1; return p })
	orderTwoRounds    = ordered(func(_ uint64, _ uint32, p permutation) permutation { p.rounds = 2; return p })
	orderEpochLeftOut = ordered(func(seed uint64, _ uint32, p permutation) permutation { return newPermutation(seed, 0, p.n) })
	orderKeyCut       = ordered(func(_ uint64, _ uint32, p permutation) permutation {
		p.key = Key{k0: p.key.k0 & 0xffff}
		return p
	})
)

// runningGenerator draws from one stream, in whatever order requests come: as
// uniform and independent as can be, and another sample with every change of what
// must not matter.
func runningGenerator(*memory.ObjectIndex) {
	var taken atomic.Uint32
	changed(func(out []uint32, q drawing) {
		n := taken.Add(1)
		floyd(out, q.degree, 0, func(block uint32) (w [4]uint32) {
			w[0], w[1], w[2], w[3] = philox(Key{1, 2}, n, block, 0, 0)
			return w
		})
	})(nil)
}

// TestDefectsAlone: floyd and drawing without a defect are draw, bit for bit, so
// that a planted defect is all that a control has wrong.
func TestDefectsAlone(t *testing.T) {
	var seen positionSet
	for i := range uint64(2000) {
		degree := []uint64{2, 20, 64, narrowDegree, narrowDegree + 1, 12000, 1<<32 - 1}[i%7]
		k := min(degree-1, []uint64{1, 3, 10, 48, 49, 100}[i%6])
		q := drawing{batchKey(i, uint32(i>>3), i*i), i * i << (i % 24), uint32(i % 3), int(i % 5), degree}
		got, want := make([]uint32, k), make([]uint32, k)
		floyd(got, degree, 0, q.words)
		draw(want, q.key, q.node, q.position, q.hop, degree, &seen)
		if !slices.Equal(got, want) {
			t.Fatalf("%d of %d: %v, draw gives %v", k, degree, got, want)
		}
	}
}
