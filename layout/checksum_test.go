package layout

import (
	"hash/crc32"
	"math/rand/v2"
	"testing"
)

// Both ways to a checksum give the CRC32C of the bytes, of every length.
func TestCRC(t *testing.T) {
	b := make([]byte, 3*PageSize+1000)
	rng := rand.New(rand.NewPCG(4, 4))
	for i := range b {
		b[i] = byte(rng.Uint32())
	}
	castagnoli := crc32.MakeTable(crc32.Castagnoli)
	for _, n := range []int{0, 1, 63, 64, 255, 256, 257, PageSize - 4, PageSize, PageSize + 1, 2 * PageSize, 3*PageSize - 4, len(b)} {
		want := crc32.Checksum(b[:n], castagnoli)
		if CRC(b[:n]) != want || ReadCRC(b[:n]) != want || AppendCRC(CRC(b[:n/3]), b[n/3:n]) != want {
			t.Errorf("%d bytes: %x, %x, want %x", n, CRC(b[:n]), ReadCRC(b[:n]), want)
		}
	}
	if CRC([]byte("123456789")) != 0xe3069283 { // RFC 3720's check value
		t.Error("not CRC32C")
	}
}

// BenchmarkReadCRC sums 64 MiB, more than caches hold, by page and by larger units.
func BenchmarkReadCRC(b *testing.B) {
	mem := make([]byte, 64<<20)
	for i := range mem {
		mem[i] = byte(i * 7)
	}
	for name, f := range map[string]func([]byte) uint32{"CRC": CRC, "ReadCRC": ReadCRC} {
		for _, unit := range []int{PageSize, 128 << 10} {
			b.Run(name+map[bool]string{true: "/page", false: "/128KiB"}[unit == PageSize], func(b *testing.B) {
				b.SetBytes(int64(len(mem)))
				for b.Loop() {
					for at := 0; at < len(mem); at += unit {
						f(mem[at : at+unit])
					}
				}
			})
		}
	}
}
