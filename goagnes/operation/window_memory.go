package operation

import (
	"errors"
	"sync"
	"unsafe"
)

// errSplit says that a window's minibatches do not fit its memory together;
// the window is then sampled again as two halves.
var errSplit = errors.New("operation: the window's memory is used up")

// twoEnded is memory handed out from both ends: what lasts as long as the
// window from the low end, by any worker; what lasts for one hop from the high
// end.
type twoEnded struct {
	mem       []byte
	mu        sync.Mutex
	low, high int64
	fixed     int64 // of what lies at the high end: does not grow with the minibatches
	peak      int64
	peakFixed int64 // fixed at the peak
}

func newTwoEnded(mem []byte) *twoEnded { return &twoEnded{mem: mem, high: int64(len(mem))} }

func (t *twoEnded) room() int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.high - t.low
}

func (t *twoEnded) note() {
	if used := t.low + int64(len(t.mem)) - t.high; used > t.peak {
		t.peak, t.peakFixed = used, t.fixed
	}
}

// takeLow returns n lasting bytes, 8-byte aligned, or errSplit.
func (t *twoEnded) takeLow(n int64) ([]byte, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.high-t.low < roundUp(n, 8) {
		return nil, errSplit
	}
	b := t.mem[t.low : t.low+n : t.low+n]
	t.low += roundUp(n, 8)
	t.note()
	return b, nil
}

// takeHigh returns n bytes for this hop, page-aligned, or errSplit.
func (t *twoEnded) takeHigh(n int64) ([]byte, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	at := (t.high - n) &^ 4095
	if n > t.high || at < t.low {
		return nil, errSplit
	}
	b := t.mem[at : at+n : at+n]
	t.high = at
	t.note()
	return b, nil
}

// takeFixed is takeHigh for what does not grow with the window's minibatches.
func (t *twoEnded) takeFixed(n int64) ([]byte, error) {
	before := t.high
	b, err := t.takeHigh(n)
	t.fixed += before - t.high
	return b, err
}

func (t *twoEnded) resetHigh() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.high, t.fixed = int64(len(t.mem)), 0
}

// draws is memory for what a hop draws, of which nobody knows how much it will be:
// all that is left is lent, and what was not used given back.
type draws struct {
	t       *twoEnded
	wide    int64 // bytes of an edge id
	entries int64
	upto    int64 // end of what is lent
}

// lend hands out room for at most so many entries of 4 bytes each and of wide bytes
// each, errSplit where there is none for one.
func (t *twoEnded) lend(most, wide int64) (d *draws, out []uint32, ids []byte, err error) {
	d = &draws{t: t, wide: wide, upto: t.high, entries: min(most, (t.room()-2*4096)/(4+wide))}
	if d.entries <= 0 {
		return nil, nil, nil, errSplit
	}
	peak, fixed := t.peak, t.peakFixed
	if ids, err = t.takeHigh(d.entries * wide); err == nil {
		out, err = t.highWords(int(d.entries))
	}
	t.peak, t.peakFixed = peak, fixed // what is lent is not used yet
	return d, out, ids, err
}

// giveBack moves the first n entries to the end of what was lent, and returns them.
func (d *draws) giveBack(n int64, out []uint32, ids []byte) ([]uint32, []byte) {
	at := (d.upto - n*d.wide) &^ 63
	ids = d.t.mem[at : at+int64(copy(d.t.mem[at:], ids[:n*d.wide]))]
	at = (at - 4*n) &^ 63
	moved := words(d.t.mem[at : at+4*n])
	copy(moved, out[:n])
	d.t.high = at
	d.t.note()
	return moved, ids
}

func (t *twoEnded) reset() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.low, t.high = 0, int64(len(t.mem))
}

// words views b, whose length is a multiple of 4, as uint32s.
func words(b []byte) []uint32 {
	if len(b) == 0 {
		return nil
	}
	return unsafe.Slice((*uint32)(unsafe.Pointer(unsafe.SliceData(b))), len(b)/4)
}

// lowWords is takeLow for n uint32s.
func (t *twoEnded) lowWords(n int) ([]uint32, error) {
	b, err := t.takeLow(int64(n) * 4)
	if err != nil {
		return nil, err
	}
	return words(b)[:n], nil
}

// highWords is takeHigh for n uint32s.
func (t *twoEnded) highWords(n int) ([]uint32, error) {
	b, err := t.takeHigh(int64(n) * 4)
	if err != nil {
		return nil, err
	}
	return words(b)[:n], nil
}
