package spill

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/goagnes/goagnes/layout"
	"github.com/goagnes/goagnes/layout/build/source"
	"github.com/goagnes/goagnes/layout/build/workspace"
	"github.com/goagnes/goagnes/tests/fixture/space"
)

// partitions makes partitions in memory or in scratch, with the least buffers.
func partitions(t *testing.T, w *workspace.Space, sizes []int64, scratch bool) *Partitions {
	t.Helper()
	if !scratch {
		r, err := w.Mem.Map("partitions", Bytes(sizes))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(r.Close)
		return InMemory("edges.csv", sizes, r)
	}
	s, err := InScratch("edges.csv", sizes, w.Pool, w.Scratch, "parts", space.Map(t, w, int64(Buffers(len(sizes)))*Unit))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// What is appended side by side comes back partition by partition, read whole or in
// pieces.
func TestPartitions(t *testing.T) {
	for _, scratch := range []bool{false, true} {
		for name, sizes := range map[string][]int64{
			"one":         {100_000},
			"empty ones":  {0, 5, 0, 4096, 0},
			"edges":       {Payload - 1, Payload, Payload + 1, 3 * Payload, 1, layout.PageSize, Unit, Payload - Payload%layout.PageSize - 4, 2*layout.PageSize - 8, 2*layout.PageSize - 7},
			"large":       {3*ReadBytes + 17, 10, 2 * ReadBytes, ReadBytes / Unit * Payload},
			"many":        make([]int64, 200),
			"none at all": {},
		} {
			t.Run(fmt.Sprintf("%s/scratch=%v", name, scratch), func(t *testing.T) {
				r := rand.New(rand.NewPCG(3, uint64(len(name))))
				if name == "many" {
					for i := range sizes {
						sizes[i] = r.Int64N(9000)
					}
				}
				w := space.New(t, 1<<26)
				s := partitions(t, w, sizes, scratch)
				if s.InMemory() == scratch {
					t.Fatalf("in memory: %v", s.InMemory())
				}
				want, open := make([][]byte, len(sizes)), []int{}
				for i, n := range sizes {
					want[i] = make([]byte, n)
					for k := range want[i] {
						want[i][k] = byte(r.Uint32())
					}
					if n > 0 {
						open = append(open, i)
					}
				}
				at := make([]int64, len(sizes))
				for len(open) > 0 {
					k := r.IntN(len(open))
					p := open[k]
					n := min(1+r.Int64N(5000), sizes[p]-at[p])
					if err := s.Append(p, want[p][at[p]:at[p]+n]); err != nil {
						t.Fatal(err)
					}
					if at[p] += n; at[p] == sizes[p] {
						open[k] = open[len(open)-1]
						open = open[:len(open)-1]
					}
				}
				if err := s.Finish(); err != nil {
					t.Fatal(err)
				}
				total, stored := int64(0), int64(0)
				for _, n := range sizes {
					total, stored = total+n, stored+Stored(n)
				}
				if most := MostStored(total, int64(len(sizes))); stored > most || stored < total {
					t.Errorf("%d bytes take %d of scratch, at most %d", total, stored, most)
				}
				for p := range sizes {
					records, err := s.Load(p, space.Map(t, w, Stored(sizes[p])))
					for range 2 { // as often as they are asked
						var got []byte
						for b := range records {
							if len(got)%Payload != 0 {
								t.Errorf("partition %d: loaded records after %d bytes", p, len(got))
							}
							got = append(got, b...)
						}
						if err != nil || !bytes.Equal(got, want[p]) {
							t.Errorf("partition %d: other bytes are loaded, %v", p, err)
						}
					}
					var pieces []byte
					if err := s.Stream(p, space.Map(t, w, 2*Unit), func(b []byte) error {
						if len(pieces)%Payload != 0 {
							t.Errorf("partition %d: a piece after %d bytes", p, len(pieces))
						}
						pieces = append(pieces, b...)
						return nil
					}); err != nil || !bytes.Equal(pieces, want[p]) {
						t.Errorf("partition %d: other bytes are streamed, %v", p, err)
					}
				}
			})
		}
	}
}

// An input that brings more or less than was counted has changed.
func TestChangedInput(t *testing.T) {
	for _, scratch := range []bool{false, true} {
		for _, bytes := range []int64{0, 99_999, 100_001, 150_000} {
			w := space.New(t, 1<<22)
			s := partitions(t, w, []int64{100_000, 8}, scratch)
			err := s.Append(1, make([]byte, 8))
			if err == nil {
				err = s.Append(0, make([]byte, bytes))
			}
			if ferr := s.Finish(); err == nil {
				err = ferr
			}
			var input *source.Error
			if !errors.As(err, &input) || input.File != "edges.csv" {
				t.Errorf("scratch %v, %d bytes of 100000: %v", scratch, bytes, err)
			}
		}
	}
}

// An error of who reads a partition ends it, with a read under way.
func TestStreamEnds(t *testing.T) {
	w := space.New(t, 1<<22)
	s := partitions(t, w, []int64{5 * Unit}, true)
	if err := errors.Join(s.Append(0, make([]byte, 5*Unit)), s.Finish()); err != nil {
		t.Fatal(err)
	}
	enough, n := errors.New("enough"), 0
	if err := s.Stream(0, space.Map(t, w, 2*Unit), func([]byte) error {
		if n++; n == 2 {
			return enough
		}
		return nil
	}); !errors.Is(err, enough) || n != 2 {
		t.Errorf("%v after %d pieces", err, n)
	}
}
