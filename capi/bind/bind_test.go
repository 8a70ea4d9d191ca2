package bind

import (
	"strings"
	"testing"

	"github.com/goagnes/goagnes/capi/control"
)

// Every error that leaves names its class, and panics are errors.
func TestErrorsHaveClasses(t *testing.T) {
	text := func(_ any, err error) string {
		if err == nil {
			return "no error"
		}
		return err.Error()
	}
	for _, c := range []struct{ name, got, want string }{
		{"panic", text(call(func(*control.Plane) (int, error) { panic("bind: in a test") })), "internal: panic: bind: in a test"},
		{"index", text(call(func(p *control.Plane) (int, error) { return []int{7}[p.Open()+1], nil })), "internal: panic: runtime error: index out of range"},
		{"Start", text(Start("open", "no JSON")), "usage: the request is not JSON"},
		{"Poll", text(Poll(1<<40, -5)), "usage: there is no task"},
		{"Cancel", text(Cancel(-1)), "usage: there is no task"},
		{"Abandon", text(Abandon(0)), "usage: there is no task"},
		{"StoreInfo", text(StoreInfo(1 << 40)), "usage: there is no store"},
		{"CloseStore", text(CloseStore(1 << 40)), "usage: there is no store"},
		{"BeginEpoch", text(BeginEpoch(1 << 40)), "usage: there is no loader"},
		{"LeaveEpoch", text(LeaveEpoch(1<<40, 1)), "usage: there is no loader"},
		{"SetEpoch", text(SetEpoch(1<<40, 1)), "usage: there is no loader"},
		{"SetEpoch range", text(SetEpoch(1, 1<<32)), "usage: epoch 4294967296"},
		{"DescribeLoader", text(DescribeLoader(1<<40, "stats")), "usage: there is no loader"},
		{"CloseLoader", text(CloseLoader(1 << 40)), "usage: there is no loader"},
	} {
		if !strings.HasPrefix(c.got, c.want) {
			t.Errorf("%s: %q; want %q", c.name, c.got, c.want)
		}
	}
	if version, err := Version(); err != nil || version != "dev" {
		t.Errorf("Version() = %q, %v; want dev where the linker set nothing", version, err)
	}
	if n, err := OpenHandles(); err != nil || n != 0 {
		t.Errorf("OpenHandles() = %d, %v", n, err)
	}
}
