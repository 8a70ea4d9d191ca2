// Package bounds holds readers of untrusted input to what they may take: memory
// in proportion to the input, and an answer. Fuzz targets run what they test
// through [Hold].
//
// Allocation is what the Go heap handed out in all, freed or not, which is more
// than what was held at any time. It is counted for the whole process: nothing
// else may run meanwhile, as is so in fuzz targets, which testing runs after all
// tests.
package bounds

import (
	"fmt"
	"runtime"
	"testing"
	"time"
)

// Deadline ends a reader that gives no answer. It is far above what any takes on
// a busy machine: it is there to tell a hang.
const Deadline = 2 * time.Minute

// Limit is how much a reader may allocate: Fixed bytes, and Factor for each byte
// of its input.
type Limit struct {
	Fixed  int64
	Factor int64
}

// Hold runs f on an input of so many bytes and fails where f allocates more than
// the limit. It ends the process, with all stacks, where f is not back by the
// Deadline.
func Hold(t testing.TB, bytes int, limit Limit, f func()) {
	t.Helper()
	hang := time.AfterFunc(Deadline, func() { panic(fmt.Sprintf("bounds: %s: no answer within %v", t.Name(), Deadline)) })
	defer hang.Stop()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	if used, most := int64(after.TotalAlloc-before.TotalAlloc), limit.Fixed+limit.Factor*int64(bytes); used > most {
		t.Fatalf("%d bytes were allocated for an input of %d; the limit is %d + %d a byte", used, bytes, limit.Fixed, limit.Factor)
	}
}
