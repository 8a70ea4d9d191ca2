// Package bounds holds readers of untrusted input to what they may take: memory
// in proportion to the input, and an answer. Fuzz targets run what they test
// through [Hold].
//
// Allocation is what the Go heap handed out in all, freed or not, which is more
// than what was held at any time. It is counted for the whole process: nothing
// else may run meanwhile, as is so in fuzz targets, which testing runs after all
// tests. It is known to within [Grain]: an exact count would stop the world twice
// an input, which costs more than most inputs do.
package bounds

import (
	"fmt"
	"runtime/metrics"
	"testing"
	"time"
)

// Deadline ends a reader that gives no answer. It is far above what any takes on
// a busy machine: it is there to tell a hang.
const Deadline = 2 * time.Minute

// Grain is how far the count of a process may be off: spans of every size that its
// processors have in hand.
const Grain = 2 << 20

// allocated is the metric of bytes allocated since the process began.
const allocated = "/gc/heap/allocs:bytes"

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
	count := []metrics.Sample{{Name: allocated}}
	metrics.Read(count)
	before := count[0].Value.Uint64()
	f()
	metrics.Read(count)
	if used, most := int64(count[0].Value.Uint64()-before), limit.Fixed+limit.Factor*int64(bytes)+Grain; used > most {
		t.Fatalf("%d bytes were allocated for an input of %d; the limit is %d + %d a byte", used, bytes, limit.Fixed, limit.Factor)
	}
}
