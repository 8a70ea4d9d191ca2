package sourcetest

// How a scan stops.

import (
	"context"
	"errors"
	"testing"
)

// CheckStops holds a scan of two chunks and more to the rules of streams: an error of
// the caller ends it and comes back as it is, and so does a cancelled context.
func CheckStops(t testing.TB, scan func(ctx context.Context, f func() error) error) {
	t.Helper()
	own := errors.New("enough")
	for _, limit := range []int{1, 2} {
		calls := 0
		err := scan(context.Background(), func() error {
			if calls++; calls == limit {
				return own
			}
			return nil
		})
		if err != own || calls != limit {
			t.Errorf("after %d calls: %v, want the error of call %d", calls, err, limit)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	calls := 0
	err := scan(ctx, func() error {
		calls++
		cancel()
		return nil
	})
	if err != context.Canceled || calls != 1 {
		t.Errorf("cancelled: after %d calls %v", calls, err)
	}
	if err := scan(ctx, func() error { return own }); err != context.Canceled {
		t.Errorf("cancelled before: %v", err)
	}
	calls = 0
	if err := scan(context.Background(), func() error { calls++; return nil }); err != nil || calls < 2 {
		t.Errorf("%d calls, %v", calls, err)
	}
}
