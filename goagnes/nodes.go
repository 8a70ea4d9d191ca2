package goagnes

// Reading what belongs to single nodes: rows, in-edges, ids, splits.

import (
	"context"
	"slices"
	"strings"

	"github.com/goagnes/goagnes/goagnes/memory"
	"github.com/goagnes/goagnes/goagnes/operation"
	"github.com/goagnes/goagnes/layout"
)

// Nodes names nodes by original id, in any order and repeatedly: IDs, or, where
// they are nil, Count nodes from First on, Step apart.
type Nodes = operation.Nodes

// ArrayInfo describes an array of nodes.
type ArrayInfo struct {
	DType    string  `json:"dtype"`
	RowShape []int64 `json:"row_shape"`
}

// NodeArrays returns the arrays of nodes by name: x, y and what else the store
// has. Ids and degrees, which every store keeps for itself, are not among them.
func (s *Store) NodeArrays() map[string]ArrayInfo {
	arrays := map[string]ArrayInfo{}
	for _, c := range s.files.Manifest().Sections {
		switch name, ok := strings.CutPrefix(c.Name, layout.NodePrefix); {
		case !ok, c.Name == layout.SectionOriginal, c.Name == layout.SectionInternal, c.Name == layout.SectionDegree:
		default:
			arrays[name] = ArrayInfo{c.DType, slices.Clone(c.RowShape)}
		}
	}
	return arrays
}

// readers is how many reads of single nodes run at a time; others wait. Each
// takes its least memory beside the budget where the budget is all in use, by a
// loader within an epoch for instance: they bound what that comes to.
const readers = 4

// reading waits for its turn and keeps the store open until done is called. The
// context it returns ends when the store is closed.
func (s *Store) reading(ctx context.Context) (_ context.Context, done func(), err error) {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return nil, nil, errStoreClosed
	}
	s.reads.Add(1)
	s.mu.Unlock()
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(s.life, func() { cancel(errStoreClosed) })
	select {
	case s.turns <- struct{}{}:
		return ctx, func() {
			<-s.turns
			stop()
			cancel(nil)
			s.reads.Done()
		}, nil
	case <-ctx.Done():
		stop()
		s.reads.Done()
		return nil, nil, context.Cause(ctx)
	}
}

// read runs f with memory for reading: between least and most bytes from the
// budget, or else least beside it. A loader that is about to take what is free waits
// until the read has ended.
func (s *Store) read(ctx context.Context, least, most int64, f func(ctx context.Context, r *operation.Reader, mem []byte) error) error {
	ctx, done, err := s.reading(ctx)
	if err != nil {
		return err
	}
	defer done()
	n := max(least, min(most, s.budget.Free()/4))
	lease, err := s.budget.ReserveBriefly("reading nodes", n)
	if err != nil && n > least {
		n = least
		lease, err = s.budget.ReserveBriefly("reading nodes", n)
	}
	if err == nil {
		defer lease.Release()
	}
	return s.lend(ctx, n, f)
}

// lend runs f with n bytes of memory.
func (s *Store) lend(ctx context.Context, n int64, f func(ctx context.Context, r *operation.Reader, mem []byte) error) error {
	r, err := operation.NewReader(s.files, s.index)
	if err != nil {
		return err
	}
	mem, err := memory.MapFor("reading nodes", n)
	if err != nil {
		return err
	}
	err = f(ctx, r, mem)
	if uerr := memory.Unmap(mem); err == nil {
		err = uerr
	}
	if err != nil && ctx.Err() != nil {
		return context.Cause(ctx) // "the store is closed" rather than "cancelled"
	}
	return err
}

// fits refuses a result larger than the whole budget. Results are the caller's
// memory and not counted in the budget.
func (s *Store) fits(what string, bytes int64) error {
	if bytes > s.budget.Total() {
		return &memory.BudgetError{Consumer: what, Need: bytes, Free: s.budget.Total(), Total: s.budget.Total()}
	}
	return nil
}

// checkNodes refuses ids that are none, by value and position.
func (s *Store) checkNodes(argument string, nodes Nodes) error {
	n := s.files.Manifest().NumNodes
	if nodes.IDs == nil {
		last := nodes.First + (nodes.Count-1)*nodes.Step
		if nodes.Count > 0 && (nodes.Step == 0 || min(nodes.First, last) < 0 || max(nodes.First, last) >= n) || nodes.Count < 0 {
			return argumentf(argument, "nodes %d to %d: ids are from 0 to %d", nodes.First, last, n-1)
		}
	}
	for i, v := range nodes.IDs {
		if v < 0 || v >= n {
			return argumentf(argument, "%d at position %d: ids are from 0 to %d", v, i, n-1)
		}
	}
	return nil
}

// ReadNodes copies the rows of an array of nodes, such as "x", to out, which
// must have their size: nodes.Len() times the bytes of a row. What is read is
// merged by pages, whatever the order of the ids. A result larger than the
// memory budget is refused; one as large is not counted in it, it is the caller's.
func (s *Store) ReadNodes(ctx context.Context, name string, nodes Nodes, out []byte) error {
	if _, ok := s.NodeArrays()[name]; !ok {
		return argumentf("name", "%q: the store has no such array of nodes", name)
	}
	if err := s.checkNodes("ids", nodes); err != nil {
		return err
	}
	section := s.files.Section(layout.NodePrefix + name)
	bytes := nodes.Len() * section.Stride()
	if err := s.fits("a result", bytes); err != nil {
		return err
	}
	if int64(len(out)) != bytes {
		return argumentf("out", "%d bytes for %d rows of %d", len(out), nodes.Len(), section.Stride())
	}
	least, most := operation.RowBytes(nodes.Len(), section.Stride())
	return s.read(ctx, least, most, func(ctx context.Context, r *operation.Reader, mem []byte) error {
		return r.Rows(ctx, section, nodes, out, mem)
	})
}

// Neighbors writes the sources of a node's in-edges, as original ids, and their
// edge ids, in import order, and returns how many there are. Where these are
// more than sources or edges hold, nothing is written.
func (s *Store) Neighbors(ctx context.Context, node int64, sources, edges []int64) (degree int64, err error) {
	if err := s.checkNodes("v", Nodes{IDs: []int64{node}}); err != nil {
		return 0, err
	}
	room := min(len(sources), len(edges))
	// The frame is a block and the edge ids of a block.
	need := int64(0)
	err = s.withReader(func(r *operation.Reader) { need = r.NeighborBytes() })
	if err != nil {
		return 0, err
	}
	err = s.read(ctx, need, need, func(ctx context.Context, r *operation.Reader, mem []byte) error {
		degree, err = r.Neighbors(ctx, node, sources[:room], edges[:room], mem)
		return err
	})
	if err == nil {
		err = s.fits("the in-edges of a node", 16*degree)
	}
	return degree, err
}

// withReader runs f with a reader of the open store, to ask what it needs.
func (s *Store) withReader(f func(*operation.Reader)) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return errStoreClosed
	}
	r, err := operation.NewReader(s.files, s.index)
	if err == nil {
		f(r)
	}
	return err
}

// ReadEdges writes the source and the target of every edge, as original ids, at
// the place of its edge id: the imported list, of Info.EdgeIDRange places, with -1
// where an edge was dropped. It is refused where the result
// and what reading it takes are more than what is free of the memory budget. A loader
// that lacks that memory waits until the read has ended: progress must not wait for it.
func (s *Store) ReadEdges(ctx context.Context, sources, targets []int64, progress Progress) error {
	m := s.files.Manifest()
	n := m.EdgeIDRange()
	if int64(len(sources)) != n || int64(len(targets)) != n {
		return argumentf("out", "%d sources and %d targets for edge ids below %d", len(sources), len(targets), n)
	}
	if n > m.NumEdges {
		for i := range sources {
			sources[i], targets[i] = -1, -1
		}
	}
	need := int64(0)
	if err := s.withReader(func(r *operation.Reader) { need = r.EdgeBytes() }); err != nil {
		return err
	}
	ctx, done, err := s.reading(ctx)
	if err != nil {
		return err
	}
	defer done()
	lease, err := s.budget.ReserveBriefly("reading all edges", need)
	if err != nil {
		return err
	}
	defer lease.Release()
	return s.lend(ctx, need, func(ctx context.Context, r *operation.Reader, mem []byte) error {
		return r.Edges(ctx, sources, targets, mem, func(done, total int64) {
			if progress != nil {
				progress("reading edges", done, total)
			}
		})
	})
}

// OriginalIDs writes the ids that the source gave to nodes. They are the nodes'
// own where ids were dense.
func (s *Store) OriginalIDs(ctx context.Context, nodes Nodes, out []int64) error {
	if err := s.checkNodes("ids", nodes); err != nil {
		return err
	}
	if int64(len(out)) != nodes.Len() {
		return argumentf("out", "room for %d ids of %d", len(out), nodes.Len())
	}
	if err := s.fits("a result", 8*nodes.Len()); err != nil {
		return err
	}
	least, most := operation.RowBytes(nodes.Len(), 8)
	return s.read(ctx, least, most, func(ctx context.Context, r *operation.Reader, mem []byte) error {
		return r.SourceIDs(ctx, nodes, out, mem)
	})
}

// DenseIDs writes the ids of the nodes that the source named by ids; the inverse
// of OriginalIDs. An id that the source did not have is refused.
func (s *Store) DenseIDs(ctx context.Context, ids, out []int64) error {
	if len(out) != len(ids) {
		return argumentf("out", "room for %d ids of %d", len(out), len(ids))
	}
	need := operation.DenseBytes(int64(len(ids)))
	return s.read(ctx, need, need, func(ctx context.Context, r *operation.Reader, mem []byte) error {
		missing, err := r.DenseIDs(ctx, ids, out, mem)
		if err == nil && missing >= 0 {
			err = argumentf("ids", "%d at position %d: the source has no node of that id", ids[missing], missing)
		}
		return err
	})
}
