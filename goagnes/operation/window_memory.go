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
	peak      int64
}

func newTwoEnded(mem []byte) *twoEnded { return &twoEnded{mem: mem, high: int64(len(mem))} }

func (t *twoEnded) room() int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.high - t.low
}

func (t *twoEnded) note() { t.peak = max(t.peak, t.low+int64(len(t.mem))-t.high) }

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

func (t *twoEnded) resetHigh() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.high = int64(len(t.mem))
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
