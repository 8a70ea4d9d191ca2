package verify

// Verification of contents: what sections say about each other.

import (
	"encoding/binary"
	"strings"

	"github.com/goagnes/goagnes/layout"
	"github.com/goagnes/goagnes/layout/build/element"
	"github.com/goagnes/goagnes/layout/build/ledger"
)

// cursor reads a section from front to back.
type cursor struct {
	v    *verifier
	s    *layout.Section
	d    layout.DType
	size int // of an element
	buf  []byte
	have []byte // read and not yet taken
	at   int64  // file offset after have
}

// cursorBytes is the buffer of a cursor.
const cursorBytes = 64 * layout.PageSize

// graphCursors is how many sections are compared with the graph blocks.
const graphCursors = 5

// take returns the next n bytes, n at most cursorBytes/2.
func (c *cursor) take(n int) ([]byte, error) {
	if len(c.have) < n {
		// Move the rest to where the next pages follow it, so that these are aligned.
		k := (len(c.have) + layout.PageSize - 1) / layout.PageSize * layout.PageSize
		copy(c.buf[k-len(c.have):], c.have)
		m := min(int64(len(c.buf)-k), c.s.FileBytes()-c.at)
		if err := c.v.readAt(c.v.files[c.s.Name], c.s.File, c.at, c.buf[k:k+int(m)]); err != nil {
			return nil, err
		}
		c.at += m
		c.have = c.buf[k-len(c.have) : k+int(m)]
	}
	b := c.have[:n]
	c.have = c.have[n:]
	return b, nil
}

// next returns the next integer.
func (c *cursor) next() (int64, error) {
	b, err := c.take(c.size)
	switch {
	case err != nil:
		return 0, err
	case c.d == layout.Uint32:
		return int64(binary.LittleEndian.Uint32(b)), nil
	}
	v, _ := element.Integer(b, 0, c.d)
	return v, nil
}

// offset is the byte at which the element that was taken last begins.
func (c *cursor) offset(size int64) int64 { return c.at - int64(len(c.have)) - size }

// cursors opens a cursor for each section that exists and is not damaged; the
// others are nil. The caller closes the region.
func (v *verifier) cursors(names ...string) ([]*cursor, *ledger.Region, error) {
	mem, err := v.mem.Map("sections being compared", int64(len(names))*cursorBytes)
	if err != nil {
		return nil, nil, err
	}
	cs := make([]*cursor, len(names))
	for i, name := range names {
		if v.intact(name) {
			s := v.m.Section(name)
			cs[i] = &cursor{v: v, s: s, d: s.Type(), size: s.Type().Size(), buf: mem.Bytes[i*cursorBytes : (i+1)*cursorBytes]}
		}
	}
	return cs, mem, nil
}

// intact reports whether a section exists and all its pages are good.
func (v *verifier) intact(name string) bool {
	return v.m.Section(name) != nil && v.files[name] != nil && !v.damaged[name] && v.sums != nil
}

// structure compares the sections' contents.
func (v *verifier) structure() error {
	v.expected()
	if err := v.graph(); err != nil {
		return err
	}
	if err := v.edgeIDs(); err != nil {
		return err
	}
	if err := v.inverse(); err != nil {
		return err
	}
	for i := range v.m.Sections {
		s := &v.m.Sections[i]
		var err error
		switch {
		case s.Name == layout.SectionY:
			err = v.labels(s)
		case s.Name == layout.SectionIDs:
			err = v.ids(s)
		case strings.HasPrefix(s.Name, layout.SplitPrefix):
			err = v.split(s)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// expected checks which sections there are; their form was checked with the
// manifest.
func (v *verifier) expected() {
	m := v.m
	need := []string{layout.SectionEdgeID, layout.SectionDegree}
	tables := []string{layout.SectionInternal, layout.SectionOriginal}
	if m.Settings.Order == layout.OrderOriginal {
		for _, name := range tables {
			if m.Section(name) != nil {
				v.found(layout.ManifestFile, -1, -1, "section %q in a store of original order", name)
			}
		}
	} else {
		need = append(need, tables...)
	}
	if m.Settings.IDs == layout.IDsRank {
		need = append(need, layout.SectionIDs)
	}
	for _, name := range need {
		if m.Section(name) == nil {
			v.found(layout.ManifestFile, -1, -1, "section %q is missing", name)
		}
	}
	if m.Section(layout.SectionY) == nil && m.NumClasses != 0 {
		v.found(layout.ManifestFile, -1, -1, "%d classes without labels", m.NumClasses)
	}
}

// inverse checks that node.internal and node.original undo each other: for every v,
// original[internal[v]] = v, which makes both permutations.
func (v *verifier) inverse() error {
	if !v.intact(layout.SectionInternal) || !v.intact(layout.SectionOriginal) {
		return nil
	}
	n := v.m.NumNodes
	window := max(min(n, (v.mem.Free()-4*cursorBytes)/16), 1024)
	mem, err := v.mem.Map("original ids", 8*window)
	if err != nil {
		return err
	}
	defer mem.Close()
	original := ledger.View[int64](mem.Bytes)
	cs, buf, err := v.cursors(layout.SectionOriginal)
	if err != nil {
		return err
	}
	defer buf.Close()
	for low := int64(0); low < n; low += window {
		k := min(window, n-low)
		for i := range k {
			if original[i], err = cs[0].next(); err != nil {
				return err
			}
		}
		ds, buf, err := v.cursors(layout.SectionInternal)
		if err != nil {
			return err
		}
		c := ds[0]
		size := int64(c.s.Type().Size())
		for node := range n {
			i, err := c.next()
			if err != nil {
				buf.Close()
				return err
			}
			switch at := i - low; {
			case i < 0 || i >= n:
				if low == 0 {
					v.found(c.s.File, -1, c.offset(size), "internal id %d of node %d, there are %d nodes", uint64(i), node, n)
				}
			case at >= 0 && at < k && original[at] != node:
				v.found(c.s.File, -1, c.offset(size), "node %d has the internal id %d, whose original id is %d", node, i, original[at])
			}
		}
		buf.Close()
	}
	return nil
}

// labels checks that the largest label makes the number of classes.
func (v *verifier) labels(s *layout.Section) error {
	classes := int64(0)
	err := v.each(s, func(i, label, at int64) {
		if label >= v.m.NumClasses || label < 0 && s.Type() == layout.Uint64 {
			v.found(s.File, -1, at, "label %d of internal node %d, there are %d classes", label, i, v.m.NumClasses)
			return
		}
		classes = max(classes, label+1)
	})
	if err == nil && v.intact(s.Name) && classes < v.m.NumClasses {
		v.found(s.File, -1, -1, "labels end at %d, the manifest says that there are %d classes", classes-1, v.m.NumClasses)
	}
	return err
}

// ids checks that source ids ascend.
func (v *verifier) ids(s *layout.Section) error {
	if s.Rows > v.m.NumNodes {
		v.found(s.File, -1, -1, "%d source ids for %d nodes", s.Rows, v.m.NumNodes)
	}
	last := int64(-1)
	return v.each(s, func(i, id, at int64) {
		if id <= last {
			v.found(s.File, -1, at, "source id %d of node %d is not above the one before, %d", id, i, last)
		}
		last = id
	})
}

// split checks that a split holds nodes.
func (v *verifier) split(s *layout.Section) error {
	return v.each(s, func(i, node, at int64) {
		if node < 0 || node >= v.m.NumNodes {
			v.found(s.File, -1, at, "entry %d is node %d, there are %d nodes", i, node, v.m.NumNodes)
		}
	})
}

// each passes the numbers of an intact section to f: index, value, byte offset.
func (v *verifier) each(s *layout.Section, f func(i, value, at int64)) error {
	if !v.intact(s.Name) {
		return nil
	}
	cs, mem, err := v.cursors(s.Name)
	if err != nil {
		return err
	}
	defer mem.Close()
	size := int64(s.Type().Size())
	for i := range s.Rows {
		x, err := cs[0].next()
		if err != nil {
			return err
		}
		f(i, x, i*size)
	}
	return nil
}

// graph walks over all graph blocks along with the tables that tell the same.
func (v *verifier) graph() error {
	m := v.m
	if !v.intact(layout.SectionGraph) || !v.intact(layout.SectionIndex) {
		return nil
	}
	blockSize := m.Settings.BlockSize
	graph, index := m.Section(layout.SectionGraph), m.Section(layout.SectionIndex)
	blocks := graph.Bytes / blockSize
	compressed := m.Settings.Compression != ""
	if compressed {
		places := m.Section(layout.SectionPlaces)
		if !v.intact(places.Name) {
			return nil // no block can be found
		}
		blocks = index.Bytes/layout.IndexEntryBytes - 1
		if places.Rows != blocks+1 {
			v.found(places.File, -1, -1, "%d places for %d graph blocks", places.Rows, blocks)
			return nil
		}
	}
	if index.Bytes != (blocks+1)*layout.IndexEntryBytes {
		v.found(index.File, -1, -1, "%d bytes for %d graph blocks", index.Bytes, blocks)
		return nil
	}
	block, err := v.mem.Map("a graph block", blockSize)
	if err != nil {
		return err
	}
	defer block.Close()
	cs, mem, err := v.cursors(layout.SectionIndex, layout.SectionEdgeID, layout.SectionDegree, layout.SectionOriginal, layout.SectionPlaces)
	if err != nil {
		return err
	}
	defer mem.Close()
	stored, err := v.storedBlocks(cs[4])
	if err != nil {
		return err
	}
	defer stored.close()
	w := &graphWalk{v: v, index: cs[0], edgeID: cs[1], degree: cs[2], original: cs[3], bits: layout.NodeBits(m.NumNodes)}
	at, err := w.entry()
	if err != nil {
		return err
	}
	if at != (layout.IndexEntry{}) {
		v.found(index.File, -1, 0, "the first entry is node %d, CSC position %d, expected 0 and 0", at.FirstNode, at.FirstEdge)
		return nil
	}
	for k := range blocks {
		next, err := w.entry()
		if err != nil {
			return err
		}
		if next.FirstNode < at.FirstNode || next.FirstEdge < at.FirstEdge || next.FirstNode > uint64(m.NumNodes) || next.FirstEdge > uint64(m.NumEdges) {
			v.found(index.File, -1, (k+1)*layout.IndexEntryBytes, "node %d, CSC position %d after node %d, position %d, of %d nodes and %d edges",
				next.FirstNode, next.FirstEdge, at.FirstNode, at.FirstEdge, m.NumNodes, m.NumEdges)
			return nil // nothing after it can be placed
		}
		offset, ok, err := stored.read(k, block.Bytes, at, next)
		if err != nil || !ok {
			return err
		}
		if err := w.block(k, offset, block.Bytes, at, next); err != nil {
			return err
		}
		at = next
	}
	stored.end()
	if at.FirstNode != uint64(m.NumNodes) || at.FirstEdge != uint64(m.NumEdges) || w.hub {
		v.found(index.File, -1, blocks*layout.IndexEntryBytes, "the graph ends at node %d, CSC position %d, of %d nodes and %d edges", at.FirstNode, at.FirstEdge, m.NumNodes, m.NumEdges)
	}
	return nil
}

// graphWalk compares blocks with tables. A cursor is nil where its table is missing
// or damaged.
type graphWalk struct {
	v                               *verifier
	index, edgeID, degree, original *cursor
	bits                            int

	node     uint64 // next node
	hub      bool   // its object is open: pieces are missing
	head     layout.HubHead
	seen     uint64 // edges of the open hub so far
	others   uint64 // in-edges of the node at hand so far, but loops
	lastEdge int64  // edge id before, in the same object
}

func (w *graphWalk) entry() (layout.IndexEntry, error) {
	b, err := w.index.take(layout.IndexEntryBytes)
	if err != nil {
		return layout.IndexEntry{}, err
	}
	return layout.GetIndexEntry(b), nil
}

// block checks block number k, stored at that offset, which lies between two entries
// of the index. After a
// block that is not readable the tables are left out: where they go on is not known.
func (w *graphWalk) block(k, offset int64, b []byte, at, next layout.IndexEntry) error {
	bad := func(format string, a ...any) {
		w.v.found(w.v.m.Section(layout.SectionGraph).File, k, offset, format, a...)
	}
	g, err := layout.ParseGraphBlock(b, w.bits, at, next)
	if err != nil {
		bad("%v", err)
	} else if g.FirstNode != w.node {
		bad("begins with node %d, expected %d", g.FirstNode, w.node)
	}
	if err != nil || g.FirstNode != w.node {
		w.hub, w.node = false, next.FirstNode
		w.edgeID, w.degree, w.original = nil, nil, nil
		return nil
	}
	if g.Hub {
		head, err := layout.ParseHubHead(b[:layout.PageSize], int64(len(b)), w.bits, at, next)
		if err != nil {
			bad("%v", err)
			w.hub, w.node = false, next.FirstNode
			w.edgeID, w.degree, w.original = nil, nil, nil
			return nil
		}
		return w.piece(&g, head, int64(len(b)), next, bad)
	}
	if w.hub {
		bad("pieces of node %d are missing: %d of %d edges", w.node, w.seen, w.head.Degree)
		w.hub = false
	}
	for i := range g.Count {
		start, end := g.Object(i)
		if err := w.object(g.Original(i), bad); err != nil {
			return err
		}
		if err := w.edges(&g, start, end, bad); err != nil {
			return err
		}
		if err := w.endObject(bad); err != nil {
			return err
		}
		w.node++
	}
	return nil
}

// piece checks a piece of a hub.
func (w *graphWalk) piece(g *layout.GraphBlock, head layout.HubHead, blockSize int64, next layout.IndexEntry, bad func(string, ...any)) error {
	if !w.hub {
		w.hub, w.seen, w.head = true, 0, head
		if err := w.object(head.Original, bad); err != nil {
			return err
		}
	} else if head != w.head {
		bad("a piece of a node of %d edges and original id %d, the piece before says %d and %d", head.Degree, head.Original, w.head.Degree, w.head.Original)
	}
	if err := w.edges(g, 0, g.Edges, bad); err != nil {
		return err
	}
	w.seen += uint64(g.Edges)
	left := w.seen < w.head.Degree
	switch {
	case w.seen > w.head.Degree:
		bad("the pieces of node %d hold %d edges, its degree is %d", w.node, w.seen, w.head.Degree)
	case left && int64(g.Edges) != layout.HubCapacity(blockSize, w.bits):
		bad("a piece of %d edges that is not the last, expected %d", g.Edges, layout.HubCapacity(blockSize, w.bits))
	}
	if !left {
		if err := w.endObject(bad); err != nil {
			return err
		}
	}
	want := w.node + 1
	if left {
		want = w.node
	}
	if next.FirstNode != want {
		bad("a piece after which the object index table says node %d, expected %d", next.FirstNode, want)
	}
	w.hub = left
	w.node = next.FirstNode
	return nil
}

// object compares a node's original id with the table.
func (w *graphWalk) object(original uint64, bad func(string, ...any)) error {
	w.lastEdge, w.others = -1, 0
	want := int64(w.node)
	if w.original != nil {
		var err error
		if want, err = w.original.next(); err != nil {
			return err
		}
	}
	if known := w.original != nil || w.v.m.Settings.Order == layout.OrderOriginal; known && uint64(want) != original {
		bad("node %d has the original id %d, expected %d", w.node, original, want)
	}
	if original >= uint64(w.v.m.NumNodes) {
		bad("node %d has the original id %d, there are %d nodes", w.node, original, w.v.m.NumNodes)
	}
	return nil
}

// endObject compares the in-degree of a node, loops left out, with the table.
func (w *graphWalk) endObject(bad func(string, ...any)) error {
	if w.degree == nil {
		return nil
	}
	d, err := w.degree.next()
	if err == nil && uint64(d) != w.others {
		bad("node %d has %d in-edges from other nodes, %s says %d", w.node, w.others, w.degree.s.File, d)
	}
	return err
}

// edges checks the ids [start, end) of a block, in-edges of the node at hand.
func (w *graphWalk) edges(g *layout.GraphBlock, start, end int, bad func(string, ...any)) error {
	nodes := uint64(w.v.m.NumNodes)
	for i := start; i < end; i++ {
		u := g.Neighbor(i)
		if u != w.node {
			w.others++
		}
		if u >= nodes {
			bad("node %d has the neighbour %d, there are %d nodes", w.node, u, nodes)
		}
		if w.edgeID == nil {
			continue
		}
		e, err := w.edgeID.next()
		if err != nil {
			return err
		}
		if e <= w.lastEdge {
			w.v.found(w.edgeID.s.File, -1, w.edgeID.offset(int64(w.edgeID.s.Type().Size())), "edge id %d of node %d is not above the one before, %d", e, w.node, w.lastEdge)
		}
		w.lastEdge = e
	}
	return nil
}
