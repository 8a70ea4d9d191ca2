package memory

// The process's own peak of memory, as the system counts it.

import (
	"os"
	"strconv"
	"strings"
)

// PeakResident returns the most memory that the process had resident, in
// bytes, as the system counts it (VmHWM); 0 where it does not tell.
func PeakResident() int64 {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(status)) {
		if kib, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			n, _ := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(kib), " kB"), 10, 64)
			return n << 10
		}
	}
	return 0
}
