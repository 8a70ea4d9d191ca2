package storage

import (
	"context"
	cryptorand "crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/goagnes/goagnes/layout"
)

// CalibrateOptions configure Calibrate; the zero value is the default.
type CalibrateOptions struct {
	FS      FS      // nil = OS
	IO      string  // the way to the device, as PoolOptions.IO
	Path    string  // file to read; "" = a temporary one made in dir
	Bytes   int64   // size of the temporary file, 0 = 128 MiB
	Depth   int     // requests in flight, 0 = as PoolOptions.Depth; of large reads, no more than 64 MiB or 16
	Seconds float64 // time spent on each size, 0 = 0.08
	Sizes   []int64 // bytes of a read, multiples of layout.PageSize; nil = 4 KiB to 4 MiB
}

// Calibration is the model of a device's reads at a queue depth: with Depth
// requests in flight, one read of s bytes takes SecondsPerRead +
// s / BytesPerSecond of the device's time.
type Calibration struct {
	SecondsPerRead float64            `json:"seconds_per_read"`
	BytesPerSecond float64            `json:"bytes_per_second"`
	Engine         string             `json:"engine"` // the way to the device: Pool.Engine
	Depth          int                `json:"depth"`
	Direct         bool               `json:"direct"` // false: measured through the page cache
	Points         []CalibrationPoint `json:"points"`
}

// CalibrationPoint is what was measured for one size of read.
type CalibrationPoint struct {
	Size           int64   `json:"size"` // bytes of a read
	Reads          int64   `json:"reads"`
	Seconds        float64 `json:"seconds"`
	BytesPerSecond float64 `json:"bytes_per_second"`
}

// Cost returns the device time in seconds of one read of that many bytes among
// others.
func (c Calibration) Cost(bytes int64) float64 {
	return c.SecondsPerRead + float64(bytes)/c.BytesPerSecond
}

// GapBytes returns the largest gap between two needed ranges that is cheaper
// to read than to skip.
func (c Calibration) GapBytes() int64 { return int64(c.SecondsPerRead * c.BytesPerSecond) }

var defaultSizes = []int64{4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20, 4 << 20}

// Calibrate measures the device that holds dir, or that holds o.Path, by
// direct reads of several sizes at random places, and fits Calibration to them
// by least squares of the relative error. The temporary file is written in
// full, so that its reads reach the device, and is removed. With the defaults
// it takes about a second.
func Calibrate(ctx context.Context, dir string, o CalibrateOptions) (Calibration, error) {
	if o.Bytes <= 0 {
		o.Bytes = 128 << 20
	}
	if o.Seconds <= 0 {
		o.Seconds = 0.08
	}
	if o.Sizes == nil {
		o.Sizes = defaultSizes
	}
	for _, s := range o.Sizes {
		if s <= 0 || s%layout.PageSize != 0 {
			panic(fmt.Sprintf("storage: a calibration size of %d bytes", s))
		}
	}
	pool := NewPool(PoolOptions{FS: o.FS, IO: o.IO, Depth: o.Depth})
	defer pool.Close()
	fsys := pool.FS()
	path := o.Path
	if path == "" {
		var random [8]byte
		cryptorand.Read(random[:]) // never fails
		path = filepath.Join(dir, "goagnes-calibrate-"+hex.EncodeToString(random[:]))
		defer fsys.Remove(path)
		if err := fillFile(ctx, fsys, path, roundUpPage(o.Bytes)); err != nil {
			return Calibration{}, err
		}
	}
	f, err := OpenFile(fsys, path, Flags{Buffered: pool.buffered()})
	if err != nil {
		return Calibration{}, err
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil {
		return Calibration{}, err
	}
	c := Calibration{Engine: pool.Engine(), Depth: pool.Depth()}
	for _, s := range o.Sizes {
		if s > size {
			continue
		}
		p, err := measure(ctx, pool, f, s, size, o.Seconds)
		if err != nil {
			return Calibration{}, err
		}
		c.Points = append(c.Points, p)
	}
	if len(c.Points) == 0 {
		return Calibration{}, f.fail("calibrate", -1, errors.New("the file is smaller than the smallest read"))
	}
	c.Direct = f.Direct()
	c.fit()
	return c, nil
}

// fillFile writes n bytes that do not compress.
func fillFile(ctx context.Context, fsys FS, path string, n int64) error {
	f, err := OpenFile(fsys, path, Flags{Create: true})
	if err != nil {
		return err
	}
	defer f.Close()
	// Another run must not find the same blocks in a deduplicating device.
	random := rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64()))
	b := AlignedBytes(1 << 20)
	for i := 0; i < len(b); i += 8 {
		for j, v := 0, random.Uint64(); j < 8; j++ {
			b[i+j] = byte(v >> (8 * j))
		}
	}
	for at := int64(0); at < n; at += int64(len(b)) {
		if err := ctx.Err(); err != nil {
			return err
		}
		for page := 0; page < len(b); page += layout.PageSize {
			b[page] ^= byte(random.Uint32())
			b[page+1] ^= byte(at >> 20)
		}
		if _, err := f.WriteAt(b[:min(int64(len(b)), n-at)], at); err != nil {
			return err
		}
	}
	return f.Sync()
}

// Of large reads, no more are in flight than these bytes hold, but so many are.
const (
	calibrateBytes = 64 << 20
	calibrateDepth = 16
)

// measure keeps reads of size bytes in flight for that many seconds, at least
// two rounds of them.
func measure(ctx context.Context, pool *Pool, f *File, size, fileSize int64, seconds float64) (CalibrationPoint, error) {
	depth := min(int64(pool.Depth()), max(calibrateDepth, calibrateBytes/size))
	mem, err := unix.Mmap(-1, 0, int(size*depth), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		return CalibrationPoint{}, f.fail("map memory to calibrate", -1, err)
	}
	defer unix.Munmap(mem)
	for i := 0; i < len(mem); i += layout.PageSize { // page faults are not the device's
		mem[i] = 1
	}
	var (
		places = (fileSize-size)/layout.PageSize + 1
		random = rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64()))
		done   = make(chan *Request, depth)
		reads  = make([]Request, depth)
		start  = time.Now()
		end    = start.Add(time.Duration(seconds * float64(time.Second)))
		n      = int64(0)
	)
	submit := func(r *Request) {
		r.Offset = random.Int64N(places) * layout.PageSize
		pool.Submit(r)
	}
	for i := range reads {
		reads[i] = Request{File: f, Buf: mem[int64(i)*size : int64(i+1)*size], Done: func(r *Request) { done <- r }}
		submit(&reads[i])
	}
	for inFlight := depth; inFlight > 0; {
		r := <-done
		if err == nil {
			err = errors.Join(r.Err, ctx.Err())
		}
		n++
		if err == nil && (n <= depth || time.Now().Before(end)) {
			submit(r)
		} else {
			inFlight--
		}
	}
	if err != nil {
		return CalibrationPoint{}, err
	}
	s := time.Since(start).Seconds()
	return CalibrationPoint{Size: size, Reads: n, Seconds: s, BytesPerSecond: float64(n*size) / s}, nil
}

// fit finds a and b of the least sum of ((a + b·size - t)/t)², t being the
// measured time of a read, with neither below 0.
func (c *Calibration) fit() {
	var s11, s12, s22, r1, r2 float64
	best := 0.0
	for _, p := range c.Points {
		t := p.Seconds / float64(p.Reads)
		u, v := 1/t, float64(p.Size)/t
		s11, s12, s22, r1, r2 = s11+u*u, s12+u*v, s22+v*v, r1+u, r2+v
		best = max(best, p.BytesPerSecond)
	}
	det := s11*s22 - s12*s12
	a, b := (r1*s22-r2*s12)/det, (s11*r2-s12*r1)/det
	switch {
	case len(c.Points) == 1 || !(det > 1e-12*s11*s22):
		a, b = 0, 1/best
	case a < 0:
		a, b = 0, r2/s22
	case b <= 0: // the device's time does not grow with the size
		b = 1 / best
		a = max(0, (r1-b*s12)/s11)
	}
	c.SecondsPerRead, c.BytesPerSecond = a, 1/b
}
