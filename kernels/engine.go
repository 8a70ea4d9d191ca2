package kernels

// The engine: choice of backend, threads, interruption. The operations are its
// methods in the other files.

import (
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
)

// Options chooses how an Engine computes. The zero value is the default.
type Options struct {
	// Backend is "portable", "avx2" or "" for the fastest this processor runs.
	Backend string
	// Threads is the largest number of threads used at once; 0 means GOMAXPROCS.
	Threads int
}

// maxThreads bounds Options.Threads.
const maxThreads = 256

// An OptionError tells which option New refuses and why.
type OptionError struct {
	Option string // name of the field
	Value  string
	Reason string
}

func (e *OptionError) Error() string {
	return fmt.Sprintf("kernels: %s %q: %s", e.Option, e.Value, e.Reason)
}

// Class returns "usage".
func (e *OptionError) Class() string { return "usage" }

// tiles are the inner loops that a backend supplies. Each works on the rows it
// is given, on the calling thread; arguments have been checked.
type tiles interface {
	name() string
	pack(panels, b []float32, ldb int, transposed bool, k, n int)
	gemm(m, n, k int, a []float32, lda int, transposed bool, panels, c []float32, ldc int, alpha, beta float32)
	load(dst []float32, stride int, in *Input, row, rows, col, cols int)
	rowSums(dst []float32, in *Input, row, rows int, squares bool)
	aggregate(out Matrix, first, last int, g *Aggregation)
	epilogue(z Matrix, row, rows int, bias []float32, f Activation, d Dropout)
	reluGrad(g, h Matrix, row, rows int, scale float32)
	eluGrad(g, h Matrix, row, rows int, d Dropout)
	columnSums(dst []float32, a Matrix, col, cols int)
	adam(p, g, m, v []float32, s adamStep)
	attentionTiles
}

// backends lists what this build and processor can run, fastest first.
func backends() []tiles {
	if t := avx2(); t != nil {
		return []tiles{t, portable{}}
	}
	return []tiles{portable{}}
}

// Backends returns the names of the backends this build and processor can run,
// fastest first.
func Backends() []string {
	var names []string
	for _, t := range backends() {
		names = append(names, t.name())
	}
	return names
}

// An Engine runs operations on one backend with a bounded number of threads.
type Engine struct {
	tiles   tiles
	threads int
	stopped atomic.Bool
	scratch [][]float32 // per worker: packed B, then a tile of A
}

// New returns an engine, or an *OptionError.
func New(o Options) (*Engine, error) {
	e := &Engine{threads: o.Threads}
	switch {
	case o.Threads < 0 || o.Threads > maxThreads:
		return nil, &OptionError{"Threads", fmt.Sprint(o.Threads), fmt.Sprintf("must be 0 (all) to %d", maxThreads)}
	case o.Threads == 0:
		e.threads = min(runtime.GOMAXPROCS(0), maxThreads)
	}
	for _, t := range backends() {
		if o.Backend == "" || o.Backend == t.name() {
			e.tiles = t
			break
		}
	}
	if e.tiles == nil {
		return nil, &OptionError{"Backend", o.Backend, fmt.Sprintf("not available in this build on this processor, which runs %v", Backends())}
	}
	e.scratch = make([][]float32, e.threads)
	for i := range e.scratch {
		e.scratch[i] = make([]float32, packedFloats+tileFloats)
	}
	return e, nil
}

// Backend returns the name of the backend in use.
func (e *Engine) Backend() string { return e.tiles.name() }

// Threads returns the largest number of threads used at once.
func (e *Engine) Threads() int { return e.threads }

// ScratchBytes returns the bytes the engine holds for its own use.
func (e *Engine) ScratchBytes() int64 {
	return int64(e.threads) * (packedFloats + tileFloats) * 4
}

// Stop makes the running operation and all later ones return early, their
// output unspecified, until Resume. Any goroutine may call it.
func (e *Engine) Stop() { e.stopped.Store(true) }

// Resume undoes Stop.
func (e *Engine) Resume() { e.stopped.Store(false) }

// each calls f for consecutive ranges of [0,n), of grain elements (the last may
// be shorter), on up to e.threads goroutines. Which worker gets which range is
// not fixed; f must not let it show in its output.
func (e *Engine) each(n, grain int, f func(worker, lo, hi int)) {
	ranges := (n + grain - 1) / grain
	workers := min(e.threads, ranges)
	if workers <= 1 {
		for lo := 0; lo < n && !e.stopped.Load(); lo += grain {
			f(0, lo, min(lo+grain, n))
		}
		return
	}
	var next atomic.Int64
	work := func(worker int) {
		for !e.stopped.Load() {
			i := int(next.Add(1)) - 1
			if i >= ranges {
				return
			}
			f(worker, i*grain, min((i+1)*grain, n))
		}
	}
	var (
		wg     sync.WaitGroup
		failed atomic.Pointer[any]
	)
	wg.Add(workers - 1)
	for w := 1; w < workers; w++ {
		go func() {
			defer wg.Done()
			defer func() {
				if p := recover(); p != nil {
					failed.Store(&p)
				}
			}()
			work(w)
		}()
	}
	defer func() { // also where work(0) panics: arguments are the caller's again
		wg.Wait()
		if f := failed.Load(); f != nil {
			p := *f
			panic(p)
		}
	}()
	work(0)
}
