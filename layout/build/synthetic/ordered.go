package synthetic

// Chunks made on several threads and delivered in order.

import (
	"context"
	"sync"
)

// ordered makes chunks 0 to n-1 on up to threads goroutines, each into one of a
// few buffers, and hands them to emit in order on the calling goroutine. It
// returns the first error of emit, or ctx.Err().
//
// Chunk k is made by worker k mod threads in buffer k mod buffers, and buffers is
// a multiple of threads: each worker owns its buffers, fills one only after emit
// has returned from it, and waits for nobody else, so there is no deadlock.
func ordered[B any](ctx context.Context, n int64, threads int, newBuffer func() B, fill func(chunk int64, b B), emit func(chunk int64, b B) error) error {
	if n == 0 {
		return ctx.Err()
	}
	threads = int(max(1, min(int64(threads), n)))
	if threads == 1 {
		b := newBuffer()
		for k := range n {
			if err := ctx.Err(); err != nil {
				return err
			}
			fill(k, b)
			if err := emit(k, b); err != nil {
				return err
			}
		}
		return nil
	}
	type slot struct {
		buffer      B
		free, ready chan struct{}
	}
	slots := make([]slot, 2*threads)
	for i := range slots {
		slots[i] = slot{newBuffer(), make(chan struct{}, 1), make(chan struct{}, 1)}
		slots[i].free <- struct{}{}
	}
	stop := make(chan struct{})
	var workers sync.WaitGroup
	defer workers.Wait()
	defer close(stop)
	for w := range threads {
		workers.Go(func() {
			for k := int64(w); k < n; k += int64(threads) {
				s := &slots[k%int64(len(slots))]
				select {
				case <-s.free:
				case <-stop:
					return
				}
				fill(k, s.buffer)
				s.ready <- struct{}{}
			}
		})
	}
	for k := range n {
		s := &slots[k%int64(len(slots))]
		select {
		case <-s.ready:
		case <-ctx.Done():
			return ctx.Err()
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := emit(k, s.buffer); err != nil {
			return err
		}
		s.free <- struct{}{}
	}
	return nil
}
