package control

// Plane: the open stores and loaders of one process.

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"sync"
	"time"
)

// Plane holds the handles of one engine. Its methods may be called from any
// thread.
type Plane struct {
	engine  Engine
	handles table
	tasks   table
	running counter
	cancels sync.Map // tasks that run, by *task
}

// New returns a plane over engine.
func New(engine Engine) *Plane { return &Plane{engine: engine} }

// store is an open store with the loaders made from it.
type store struct {
	Store
	use sync.RWMutex // held for reading by tasks that use the store

	mu      sync.Mutex
	closed  bool
	cancels map[*context.CancelFunc]bool
	loaders []int64
}

// enter lets a task use the store until leave; closing the store cancels it.
func (s *store) enter(cancel *context.CancelFunc) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return errorf("closed", "the store is closed")
	}
	s.use.RLock()
	s.cancels[cancel] = true
	return nil
}

func (s *store) leave(cancel *context.CancelFunc) {
	s.mu.Lock()
	delete(s.cancels, cancel)
	s.mu.Unlock()
	s.use.RUnlock()
}

// Start begins the work named kind and returns a task handle. "open" needs
// {"path": …} and results in {"store": handle, "info": …}; "loader" needs
// {"store": handle} and results in {"loader": handle, "settings": …}; every other
// kind is the engine's own, given the store whose handle "store" names, if any.
func (p *Plane) Start(kind, request string) (handle int64, err error) {
	defer Guard(&err)
	raw, err := decode(request)
	if err != nil {
		return 0, err
	}
	var common struct {
		Path  string `json:"path"`
		Store int64  `json:"store"`
	}
	if err := json.Unmarshal(raw, &common); err != nil {
		return 0, errorf("usage", "the request of %q: %v", kind, err)
	}
	if kind == "open" {
		return p.start(func(context.Context, Progress) (any, func(), error) { return p.open(common.Path, raw) })
	}
	if common.Store == 0 {
		return p.start(func(ctx context.Context, report Progress) (any, func(), error) {
			result, err := p.engine.Run(ctx, kind, nil, raw, report)
			return result, nil, err
		})
	}
	s, err := lookup[*store](&p.handles, common.Store, "store")
	if err != nil {
		return 0, err
	}
	return p.start(func(ctx context.Context, report Progress) (any, func(), error) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		if err := s.enter(&cancel); err != nil {
			return nil, nil, err
		}
		defer s.leave(&cancel)
		if kind == "loader" {
			return p.newLoader(s, raw)
		}
		result, err := p.engine.Run(ctx, kind, s.Store, raw, report)
		return result, nil, err
	})
}

func (p *Plane) open(path string, request json.RawMessage) (any, func(), error) {
	opened, err := p.engine.Open(path, request)
	if err != nil {
		return nil, nil, err
	}
	handle, err := p.handles.add(&store{Store: opened, cancels: make(map[*context.CancelFunc]bool)})
	if err != nil {
		return nil, nil, errors.Join(err, opened.Close())
	}
	return map[string]any{"store": handle, "info": opened.Info()}, func() { _ = p.CloseStore(handle) }, nil
}

func (p *Plane) newLoader(s *store, request json.RawMessage) (any, func(), error) {
	made, err := s.NewLoader(request)
	if err != nil {
		return nil, nil, err
	}
	settings, err := made.Describe("settings")
	if err != nil {
		return nil, nil, errors.Join(err, made.Close())
	}
	handle, err := p.handles.add(newStream(made))
	if err != nil {
		return nil, nil, errors.Join(err, made.Close())
	}
	s.mu.Lock()
	s.loaders = append(s.loaders, handle)
	s.mu.Unlock()
	return map[string]any{"loader": handle, "settings": settings}, func() { _ = p.CloseLoader(handle) }, nil
}

// StoreInfo returns what the store says about itself, as JSON.
func (p *Plane) StoreInfo(handle int64) (text string, err error) {
	defer Guard(&err)
	s, err := lookup[*store](&p.handles, handle, "store")
	if err != nil {
		return "", err
	}
	return marshal(s.Info())
}

// CloseStore closes a store after its loaders, and cancels the tasks that use
// it. Closing twice is no error.
func (p *Plane) CloseStore(handle int64) (err error) {
	defer Guard(&err)
	s, err := lookup[*store](&p.handles, handle, "store")
	if err != nil {
		return ignoreClosed(err)
	}
	if !p.handles.remove(handle) {
		return nil
	}
	s.mu.Lock()
	s.closed = true
	for cancel := range s.cancels {
		(*cancel)()
	}
	s.mu.Unlock()
	s.use.Lock() // the tasks have left, so s.loaders is final
	defer s.use.Unlock()
	var failed []error
	for _, loader := range slices.Backward(s.loaders) {
		failed = append(failed, p.CloseLoader(loader))
	}
	return errors.Join(append(failed, s.Close())...)
}

// Begin starts the next epoch of a loader and returns the number that Next and
// Leave want; the epoch before is left.
func (p *Plane) Begin(loader int64) (epoch int64, err error) {
	defer Guard(&err)
	s, err := lookup[*stream](&p.handles, loader, "loader")
	if err != nil {
		return 0, err
	}
	return s.begin()
}

// Next returns the next minibatch of an epoch, io.EOF at its end, or ErrTimeout.
func (p *Plane) Next(loader, epoch int64, timeout time.Duration) (batch *Batch, err error) {
	defer Guard(&err)
	s, err := lookup[*stream](&p.handles, loader, "loader")
	if err != nil {
		return nil, err
	}
	return s.next(epoch, timeout)
}

// Leave ends an epoch that nobody reads any more. One that is over already, or a
// closed loader, is no error.
func (p *Plane) Leave(loader, epoch int64) (err error) {
	defer Guard(&err)
	s, err := lookup[*stream](&p.handles, loader, "loader")
	if err != nil {
		return ignoreClosed(err)
	}
	s.leave(epoch)
	return nil
}

// SetEpoch makes the next epoch the one numbered epoch.
func (p *Plane) SetEpoch(loader, epoch int64) (err error) {
	defer Guard(&err)
	if epoch < 0 || epoch > 1<<32-1 {
		return errorf("usage", "epoch %d; it must be 0 to 4294967295", epoch)
	}
	s, err := lookup[*stream](&p.handles, loader, "loader")
	if err != nil {
		return err
	}
	s.loader.SetEpoch(uint32(epoch))
	return nil
}

// Describe returns a loader's "settings", "stats" or "explain" as JSON.
func (p *Plane) Describe(loader int64, kind string) (text string, err error) {
	defer Guard(&err)
	s, err := lookup[*stream](&p.handles, loader, "loader")
	if err != nil {
		return "", err
	}
	value, err := s.loader.Describe(kind)
	if err != nil {
		return "", err
	}
	return marshal(value)
}

// CloseLoader closes a loader. Closing twice is no error.
func (p *Plane) CloseLoader(handle int64) (err error) {
	defer Guard(&err)
	s, err := lookup[*stream](&p.handles, handle, "loader")
	if err != nil {
		return ignoreClosed(err)
	}
	if !p.handles.remove(handle) {
		return nil
	}
	return s.close()
}

// CloseAll closes every store and loader, for the end of the process.
func (p *Plane) CloseAll() (err error) {
	defer Guard(&err)
	var failed []error
	for _, handle := range p.handles.all() {
		switch object, _ := lookup[any](&p.handles, handle, "store or loader"); object.(type) {
		case *store:
			failed = append(failed, p.CloseStore(handle))
		case *stream:
			failed = append(failed, p.CloseLoader(handle))
		}
	}
	return errors.Join(failed...)
}

// Open returns how many stores, loaders and tasks have a handle.
func (p *Plane) Open() int { return p.handles.count() + p.tasks.count() }

func marshal(value any) (string, error) {
	text, err := json.Marshal(value)
	return clean(string(text)), err
}

func ignoreClosed(err error) error {
	if Class(err) == "closed" {
		return nil
	}
	return err
}
