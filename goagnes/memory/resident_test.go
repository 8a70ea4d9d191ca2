package memory

import "testing"

func TestPeakResident(t *testing.T) {
	before := PeakResident()
	if before == 0 {
		t.Skip("this system does not tell what a process has resident")
	}
	const n = 64 << 20
	b, err := MapFor("test", n)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < n; i += 4096 {
		b[i] = 1
	}
	if err := Unmap(b); err != nil {
		t.Fatal(err)
	}
	if after := PeakResident(); after < n || after < before {
		t.Errorf("%d bytes at most, after %d were touched", after, n)
	}
}
