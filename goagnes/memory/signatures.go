// Package memory holds the budget and everything that holds memory.
package memory

import (
	"context"
	"unsafe"

	"github.com/goagnes/goagnes/layout"
)

// Signatures; bodies follow file by file.

type Budget struct{}
type Lease struct{}
type BudgetError struct {
	Consumer          string
	Need, Free, Total int64
}

func (e *BudgetError) Error() string { panic("memory: unfinished") }
func (e *BudgetError) Class() string { return "budget" }

func NewBudget(total int64) *Budget                                { panic("memory: unfinished") }
func (b *Budget) Reserve(consumer string, n int64) (*Lease, error) { panic("memory: unfinished") }
func (b *Budget) Free() int64                                      { panic("memory: unfinished") }
func (b *Budget) Total() int64                                     { panic("memory: unfinished") }
func (b *Budget) Used() int64                                      { panic("memory: unfinished") }
func (b *Budget) Peak() int64                                      { panic("memory: unfinished") }
func (b *Budget) Consumers() map[string]int64                      { panic("memory: unfinished") }
func (b *Budget) Sub(n int64) (*Budget, error)                     { panic("memory: unfinished") }
func (b *Budget) Close()                                           { panic("memory: unfinished") } // of a Sub: returns the share
func (l *Lease) Release()                                          { panic("memory: unfinished") }
func (l *Lease) Resize(n int64) error                              { panic("memory: unfinished") }
func (l *Lease) Bytes() int64                                      { panic("memory: unfinished") }

func Map(n int64) ([]byte, error)                    { panic("memory: unfinished") }
func MapFor(purpose string, n int64) ([]byte, error) { panic("memory: unfinished") }
func Unmap(b []byte) error                           { panic("memory: unfinished") }
func Live() map[string]int64                         { panic("memory: unfinished") } // bytes mapped, by purpose

// Arena: one goroutine at a time. Nothing it hands out is zeroed.
type Arena struct{}
type Mark int64

func NewArena(b *Budget, consumer string, size int64) (*Arena, error) { panic("memory: unfinished") } // reserves and maps; b may be nil
func ArenaOver(mem []byte) *Arena                                     { panic("memory: unfinished") } // over the caller's memory
func (a *Arena) Bytes(n int64) []byte                                 { panic("memory: unfinished") } // 64-byte aligned; nil when it does not fit
func (a *Arena) Pages(n int64) []byte                                 { panic("memory: unfinished") } // page-aligned; nil when it does not fit
func (a *Arena) Mark() Mark                                           { panic("memory: unfinished") }
func (a *Arena) Reset(m Mark)                                         { panic("memory: unfinished") }
func (a *Arena) Remaining() int64                                     { panic("memory: unfinished") }
func (a *Arena) Size() int64                                          { panic("memory: unfinished") }
func (a *Arena) Close() error                                         { panic("memory: unfinished") }

type Plain interface {
	~int8 | ~int16 | ~int32 | ~int64 | ~int | ~uint8 | ~uint16 | ~uint32 | ~uint64 | ~uint | ~uintptr | ~float32 | ~float64
}

func Slice[T Plain](a *Arena, n int) []T { panic("memory: unfinished") } // nil when it does not fit

// SlabHeader bytes at the start of a slab's mapping are its header.
const SlabHeader = 64

type Slab struct{}

func (s *Slab) Base() unsafe.Pointer { panic("memory: unfinished") } // the mapping, i.e. the header
func (s *Slab) Bytes() []byte        { panic("memory: unfinished") } // what follows the header
func (s *Slab) Retain()              { panic("memory: unfinished") }
func (s *Slab) Release()             { panic("memory: unfinished") }

type SlabPool struct{}
type PoolError struct {
	Held, HeldBytes, Need, Limit int64
	Waited                       float64
}

func (e *PoolError) Error() string { panic("memory: unfinished") }
func (e *PoolError) Class() string { return "budget" }

type SlabCounters struct{ Gets, Reused, Mapped, Unmapped, Orphaned, MappedBytes, PeakBytes, InUse int64 }

func NewSlabPool(b *Budget, limit int64) *SlabPool                  { panic("memory: unfinished") }
func (p *SlabPool) Get(ctx context.Context, n int64) (*Slab, error) { panic("memory: unfinished") } // one reference is the caller's
func (p *SlabPool) Counters() SlabCounters                          { panic("memory: unfinished") }
func (p *SlabPool) Close() error                                    { panic("memory: unfinished") }

type Buffer struct{}
type Frame struct{}

func NewBuffer(mem []byte, frameBytes int64) *Buffer                { panic("memory: unfinished") }
func (b *Buffer) Acquire(block int64) (f *Frame, hit bool, ok bool) { panic("memory: unfinished") }
func (b *Buffer) WaitUnpinned(ctx context.Context) error            { panic("memory: unfinished") }
func (b *Buffer) Hits() int64                                       { panic("memory: unfinished") }
func (b *Buffer) Misses() int64                                     { panic("memory: unfinished") }
func (b *Buffer) Evictions() int64                                  { panic("memory: unfinished") }
func (b *Buffer) Frames() int                                       { panic("memory: unfinished") }
func (f *Frame) Ready(err error)                                    { panic("memory: unfinished") }
func (f *Frame) Wait(ctx context.Context) error                     { panic("memory: unfinished") }
func (f *Frame) Unpin()                                             { panic("memory: unfinished") }
func (f *Frame) Bytes() []byte                                      { panic("memory: unfinished") }
func (f *Frame) Block() int64                                       { panic("memory: unfinished") }

type ObjectIndex struct{}

// ObjectIndexBytes returns the bytes of an index's lookup directory.
func ObjectIndexBytes(blocks int64) int64 { panic("memory: unfinished") }

// NewObjectIndex: entries = layout.IndexEntry x (blocks+1); directory = ObjectIndexBytes of memory, nil = Go heap.
func NewObjectIndex(entries, directory []byte, numNodes, numEdges int64) (*ObjectIndex, error) {
	panic("memory: unfinished")
}
func (x *ObjectIndex) Blocks() int                              { panic("memory: unfinished") }
func (x *ObjectIndex) Entry(b int) layout.IndexEntry            { panic("memory: unfinished") }
func (x *ObjectIndex) Find(node uint64) (block int, pieces int) { panic("memory: unfinished") }
func (x *ObjectIndex) Bytes() int64                             { panic("memory: unfinished") }
func (x *ObjectIndex) CheckHubs(capacity int64) error           { panic("memory: unfinished") } // every piece but a hub's last is full

type AccessCounter struct{}

func NewAccessCounter(mem []byte) *AccessCounter                     { panic("memory: unfinished") } // one byte a node, cleared
func (c *AccessCounter) Add(node uint64)                             { panic("memory: unfinished") } // one goroutine
func (c *AccessCounter) AddShared(node uint64)                       { panic("memory: unfinished") } // any goroutine
func (c *AccessCounter) Count(node uint64) uint8                     { panic("memory: unfinished") }
func (c *AccessCounter) Reset()                                      { panic("memory: unfinished") }
func (c *AccessCounter) Threshold(slots int64) (t uint8, rows int64) { panic("memory: unfinished") }

type FeatureCache struct{}

// FeatureCacheBytes returns the bytes of a cache's index and of its rows.
func FeatureCacheBytes(numNodes, rows, stride int64) (index, data int64) { panic("memory: unfinished") }

// NewFeatureCache: the rows nodes of lowest id among those counted t or more; index and data as FeatureCacheBytes says.
func NewFeatureCache(c *AccessCounter, t uint8, rows int64, index, data []byte, stride int64) *FeatureCache {
	panic("memory: unfinished")
}
func (c *FeatureCache) Slot(node uint64) (int, bool) { panic("memory: unfinished") }
func (c *FeatureCache) Row(slot int) []byte          { panic("memory: unfinished") }
func (c *FeatureCache) Rows() int                    { panic("memory: unfinished") }
func (c *FeatureCache) Note(hits, misses int64)      { panic("memory: unfinished") }
func (c *FeatureCache) Hits() int64                  { panic("memory: unfinished") }
func (c *FeatureCache) Misses() int64                { panic("memory: unfinished") }
