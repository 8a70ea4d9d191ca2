package control_test

import (
	"testing"
	"time"

	"github.com/goagnes/goagnes/capi/control"
	"github.com/goagnes/goagnes/capi/control/controltest"
)

// TestDrain cancels what runs, abandoned tasks too, and says what does not end.
func TestDrain(t *testing.T) {
	p := control.New(controltest.Engine{})
	if n := p.Drain(0); n != 0 {
		t.Errorf("%d tasks run before the first", n)
	}
	start := func(kind, request string) int64 {
		task, err := p.Start(kind, request)
		if err != nil {
			t.Fatal(err)
		}
		return task
	}
	start("sleep", `{}`)
	if err := p.Abandon(start("sleep", `{}`)); err != nil {
		t.Fatal(err)
	}
	if n := p.Drain(time.Minute); n != 0 {
		t.Errorf("%d tasks that can be cancelled still run", n)
	}
	start("ignore", `{"millis": 300}`)
	if n := p.Drain(time.Millisecond); n != 1 {
		t.Errorf("%d tasks run, want the one that nothing ends", n)
	}
	if n := p.Drain(time.Minute); n != 0 {
		t.Errorf("%d tasks run after their time", n)
	}
}
