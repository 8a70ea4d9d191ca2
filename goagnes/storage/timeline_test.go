package storage

import (
	"encoding/json"
	"math/rand/v2"
	"testing"
	"time"
)

// TestTimeline compares a timeline with sums over the events themselves.
func TestTimeline(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	start := time.Unix(1000, 0)
	for _, span := range []time.Duration{0, 40 * time.Millisecond, 20 * time.Second, 26 * time.Second, 700 * time.Second, 40 * time.Hour} {
		var line timeline
		type event struct {
			at    time.Duration
			write bool
			n     int64
		}
		events := []event{{0, false, 7}}
		for range 3000 {
			events = append(events, event{time.Duration(r.Int64N(int64(span) + 1)), r.IntN(2) == 0, r.Int64N(1 << 20)})
		}
		events = append(events, event{span, true, 5})
		for _, e := range events {
			line.add(start.Add(e.at), e.write, e.n)
		}
		if len(line.read) > timelineLength || len(line.read) != len(line.written) {
			t.Fatalf("span %v: %d and %d intervals, at most %d may be", span, len(line.read), len(line.written), timelineLength)
		}
		if span > firstInterval*timelineLength && len(line.read) < timelineLength/2 {
			t.Errorf("span %v: only %d intervals", span, len(line.read))
		}
		read, written := make([]int64, len(line.read)), make([]int64, len(line.read))
		for _, e := range events {
			if i := int(e.at / line.interval); e.write {
				written[i] += e.n
			} else {
				read[i] += e.n
			}
		}
		for i := range read {
			if read[i] != line.read[i] || written[i] != line.written[i] {
				t.Fatalf("span %v, interval %d of %v: read %d, written %d; %d and %d are right", span, i, line.interval, line.read[i], line.written[i], read[i], written[i])
			}
		}
	}
}

func TestTimelineJSON(t *testing.T) {
	var line timeline
	b, err := json.Marshal(line.snapshot())
	if want := `{"interval_seconds":0,"bytes_read":[],"bytes_written":[]}`; err != nil || string(b) != want {
		t.Errorf("an empty timeline: %s, %v; want %s", b, err, want)
	}
	line.add(time.Unix(5, 0), false, 4096)
	line.add(time.Unix(5, 120e6), true, 512)
	b, err = json.Marshal(line.snapshot())
	if want := `{"interval_seconds":0.05,"bytes_read":[4096,0,0],"bytes_written":[0,0,512]}`; err != nil || string(b) != want {
		t.Errorf("%s, %v; want %s", b, err, want)
	}
}
