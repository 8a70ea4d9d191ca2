package storage

import (
	"math/bits"
	"slices"
	"sync"
	"time"
)

// Histogram counts values in buckets of powers of two: bucket 0 holds the
// value 0, bucket i the values [2^(i-1), 2^i), the last bucket everything
// above.
type Histogram [32]int64

func (h *Histogram) add(v int64) { h[min(bits.Len64(uint64(v)), len(h)-1)]++ }

// Sub returns what was counted since earlier.
func (h Histogram) Sub(earlier Histogram) Histogram {
	for i := range h {
		h[i] -= earlier[i]
	}
	return h
}

// Total returns the number of values.
func (h Histogram) Total() int64 {
	n := int64(0)
	for _, c := range h {
		n += c
	}
	return n
}

// Quantile returns an upper bound, within a factor of two, of the smallest
// value that the fraction q of all values does not exceed; 0 where nothing was
// counted.
func (h Histogram) Quantile(q float64) int64 {
	need := int64(q*float64(h.Total()) + 0.5)
	seen := int64(0)
	for i, c := range h {
		if seen += c; seen >= max(need, 1) {
			return int64(1)<<i - 1
		}
	}
	return 0
}

// Counters tells what a pool has moved since it was made. All numbers are
// sums but MaxInFlight and RegisteredBytes.
type Counters struct {
	Engine string `json:"engine"`           // the way to the device: Pool.Engine
	Direct bool   `json:"direct"`           // false: some of it, or all on purpose, went through the page cache
	Reason string `json:"reason,omitempty"` // why the engine is not io_uring where that was wanted

	Reads        int64 `json:"reads"`
	Writes       int64 `json:"writes"`
	BytesRead    int64 `json:"bytes_read"`
	BytesWritten int64 `json:"bytes_written"`

	// Subsets of the above.
	ScratchRead    int64 `json:"scratch_bytes_read"`
	ScratchWritten int64 `json:"scratch_bytes_written"`
	ChecksumRead   int64 `json:"checksum_bytes_read"` // of checksum tables
	FallbackBytes  int64 `json:"fallback_bytes"`      // moved through the page cache because direct I/O was refused

	// FallbackFile is the first file that FallbackBytes counts a transfer of.
	FallbackFile string `json:"fallback_file,omitempty"`

	PagesVerified int64   `json:"pages_verified"`
	VerifySeconds float64 `json:"verify_seconds"` // thread time spent on checksums
	Failures      int64   `json:"failures"`       // requests that ended in an error

	MaxInFlight int64 `json:"max_in_flight"` // most requests at the device at one time, ever
	// RegisteredBytes is the most memory that was registered with the ring at one
	// time, ever: see Pool.Register.
	RegisteredBytes int64 `json:"registered_bytes"`

	BusySeconds  float64   `json:"busy_seconds"` // wall time with at least one request at the device
	ReadLatency  Histogram `json:"read_latency_us"`
	WriteLatency Histogram `json:"write_latency_us"`
	ReadSize     Histogram `json:"read_size_bytes"`
	WriteSize    Histogram `json:"write_size_bytes"`

	// StripeBytes are the bytes read and written in each stripe directory, nil
	// where nothing is striped.
	StripeBytes []int64 `json:"stripe_bytes,omitempty"`
}

// Sub returns what was counted since earlier; MaxInFlight and RegisteredBytes are kept as
// they are.
func (c Counters) Sub(earlier Counters) Counters {
	c.Reads -= earlier.Reads
	c.Writes -= earlier.Writes
	c.BytesRead -= earlier.BytesRead
	c.BytesWritten -= earlier.BytesWritten
	c.ScratchRead -= earlier.ScratchRead
	c.ScratchWritten -= earlier.ScratchWritten
	c.ChecksumRead -= earlier.ChecksumRead
	c.FallbackBytes -= earlier.FallbackBytes
	c.PagesVerified -= earlier.PagesVerified
	c.VerifySeconds -= earlier.VerifySeconds
	c.Failures -= earlier.Failures
	c.BusySeconds -= earlier.BusySeconds
	c.ReadLatency = c.ReadLatency.Sub(earlier.ReadLatency)
	c.WriteLatency = c.WriteLatency.Sub(earlier.WriteLatency)
	c.ReadSize = c.ReadSize.Sub(earlier.ReadSize)
	c.WriteSize = c.WriteSize.Sub(earlier.WriteSize)
	c.StripeBytes = slices.Clone(c.StripeBytes)
	for i, n := range earlier.StripeBytes {
		c.StripeBytes[i] -= n
	}
	return c
}

// recorder keeps a pool's counters. One short lock per begin and end of a
// request is far below the cost of the system call between them.
type recorder struct {
	mu struct {
		sync.Mutex
		Counters
		inFlight  int64
		busySince time.Time
		timeline  timeline
	}
}

func (r *recorder) begin() time.Time {
	now := time.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.mu.inFlight == 0 {
		r.mu.busySince = now
	}
	r.mu.inFlight++
	r.mu.MaxInFlight = max(r.mu.MaxInFlight, r.mu.inFlight)
	return now
}

// end counts one transfer of n bytes that began at start.
func (r *recorder) end(start time.Time, f *File, write bool, n int64, err error) {
	now := time.Now()
	us := now.Sub(start).Microseconds()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.mu.inFlight--
	if r.mu.inFlight == 0 {
		r.mu.BusySeconds += now.Sub(r.mu.busySince).Seconds()
	}
	if err != nil {
		r.mu.Failures++
	}
	r.mu.timeline.add(now, write, n)
	if write {
		r.mu.Writes++
		r.mu.BytesWritten += n
		r.mu.WriteLatency.add(us)
		r.mu.WriteSize.add(n)
	} else {
		r.mu.Reads++
		r.mu.BytesRead += n
		r.mu.ReadLatency.add(us)
		r.mu.ReadSize.add(n)
	}
	switch f.role {
	case roleScratch:
		if write {
			r.mu.ScratchWritten += n
		} else {
			r.mu.ScratchRead += n
		}
	case roleChecksum:
		r.mu.ChecksumRead += n
	}
	if f.fellBack() {
		r.mu.FallbackBytes += n
		if r.mu.FallbackFile == "" {
			r.mu.FallbackFile = f.path
		}
	}
	if f.stripe > 0 {
		for len(r.mu.StripeBytes) < f.stripe {
			r.mu.StripeBytes = append(r.mu.StripeBytes, 0)
		}
		r.mu.StripeBytes[f.stripe-1] += n
	}
}

func (r *recorder) verified(pages int64, since time.Time, err error) {
	s := time.Since(since).Seconds()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.mu.PagesVerified += pages
	r.mu.VerifySeconds += s
	if err != nil {
		r.mu.Failures++
	}
}

func (r *recorder) registered(bytes int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.mu.RegisteredBytes = max(r.mu.RegisteredBytes, bytes)
}

func (r *recorder) counters() Counters {
	r.mu.Lock()
	defer r.mu.Unlock()
	c := r.mu.Counters
	c.StripeBytes = slices.Clone(c.StripeBytes)
	if r.mu.inFlight > 0 {
		c.BusySeconds += time.Since(r.mu.busySince).Seconds()
	}
	return c
}
