package inject

// What is left of a recorded run when the power goes.

import (
	"os"
	"path/filepath"
	"slices"

	"github.com/goagnes/goagnes/goagnes/storage"
)

// Loss says what becomes of changes that were not durable yet.
type Loss uint8

const (
	// LoseNothing keeps every change: what a killed process leaves, with the
	// system alive.
	LoseNothing Loss = iota
	// LoseAll keeps only what was made durable.
	LoseAll
	// LoseSome keeps any of the changes of names, and any pages of what was
	// written, some of them torn between sectors; a file that grew may hold
	// zeros or rubbish where its bytes were lost.
	LoseSome
	// LoseLatest is LoseSome for contents, while each directory keeps its first
	// changes and loses those after, as a journal does.
	LoseLatest
)

// Sizes in bytes of what a disk writes at once, and of what a file system does.
const (
	diskSector = 512
	diskPage   = 4096
)

// Survivor writes what is left below the root when the power goes at a moment,
// from 0 to Moments-1, to dir, an empty directory. Which of the changes that
// LoseSome and LoseLatest leave open have happened is drawn from the seed.
func (r *Recorder) Survivor(moment int, loss Loss, seed uint64, dir string) error {
	r.mu.Lock()
	s := &survivor{loss: loss, draws: seed*0x9e3779b97f4a7c15 + uint64(moment)}
	s.replay(r.mu.nodes, r.mu.log[:moment])
	r.mu.Unlock()
	return s.write(0, dir)
}

// survivor is the state of a disk.
type survivor struct {
	loss  Loss
	draws uint64
	nodes []diskNode
}

// diskNode is a file or directory: what is durable of it, and the changes since.
type diskNode struct {
	dir     bool
	bytes   []byte
	entries map[string]int
	open    []diskChange
}

// diskChange is a change that is not durable; of a write, ended is the index of
// the event that ended it, -1 where it has not.
type diskChange struct {
	*event
	index, ended int
}

// replay takes the events up to the moment.
func (s *survivor) replay(nodes []node, log []event) {
	s.nodes = make([]diskNode, len(nodes))
	for i := range nodes {
		n := &s.nodes[i]
		n.dir, n.bytes, n.entries = nodes[i].dir, slices.Clone(nodes[i].bytes), map[string]int{}
		for name, child := range nodes[i].first {
			n.entries[name] = child
		}
	}
	for i := range log {
		e := &log[i]
		n := &s.nodes[e.node]
		switch e.kind {
		case eventLink, eventUnlink, eventRename, eventSize:
			n.open = append(n.open, diskChange{e, i, i})
		case eventWrite:
			n.open = append(n.open, diskChange{e, i, -1})
		case eventWritten:
			for j := range n.open {
				if c := &n.open[j]; c.index == e.begun {
					moved := *c.event
					moved.data = moved.data[:e.n]
					c.event, c.ended = &moved, i
				}
			}
		case eventSynced:
			var rest []diskChange
			for _, c := range n.open {
				if c.ended >= 0 && c.ended < e.begun {
					n.apply(s, c.event, func(int64) bool { return true })
				} else {
					rest = append(rest, c)
				}
			}
			n.open = rest
		}
	}
	for i := range s.nodes {
		s.settle(&s.nodes[i])
	}
}

// settle decides about the changes of a node that are not durable.
func (s *survivor) settle(n *diskNode) {
	if s.loss == LoseAll {
		return
	}
	keep := func() bool { return s.loss == LoseNothing || s.draw(2) == 0 }
	if n.dir {
		first := len(n.open)
		if s.loss == LoseLatest {
			first = s.draw(len(n.open) + 1)
		}
		for i, c := range n.open {
			if i < first && (s.loss != LoseSome || keep()) {
				n.apply(s, c.event, nil)
			}
		}
		return
	}
	end := int64(len(n.bytes))
	for _, c := range n.open {
		switch {
		case c.kind == eventSize && !keep():
		case c.kind == eventWrite && s.loss != LoseNothing:
			kept, torn := keep(), false
			n.apply(s, c.event, func(at int64) bool {
				if at%diskPage == 0 {
					kept, torn = keep(), s.draw(8) == 0
				}
				if torn {
					kept = keep()
				}
				return kept
			})
		default:
			n.apply(s, c.event, func(int64) bool { return true })
		}
		if c.kind == eventWrite {
			end = max(end, c.at+int64(len(c.data)))
		}
	}
	// The size may be on the disk before the bytes, and the bytes be anybody's.
	if was := len(n.bytes); s.loss != LoseNothing && end > int64(was) && keep() {
		n.bytes = append(n.bytes, make([]byte, end-int64(was))...)
		if keep() {
			for i := was; i < len(n.bytes); i++ {
				n.bytes[i] = byte(s.draw(256))
			}
		}
	}
}

// apply makes a change as far as it is possible without those before it that
// were lost; of a write, the sectors that keep tells by their place in the file.
func (n *diskNode) apply(s *survivor, e *event, keep func(at int64) bool) {
	switch e.kind {
	case eventLink:
		n.entries[e.name] = e.child
	case eventUnlink:
		if n.entries[e.name] == e.child {
			delete(n.entries, e.name)
		}
	case eventRename:
		there, ok := n.entries[e.name]
		over, replaced := n.entries[e.to]
		switch {
		case !ok || there != e.child:
		case e.exchange:
			if replaced {
				n.entries[e.name], n.entries[e.to] = over, there
			}
		case replaced && over != e.over && s.nodes[over].dir:
			// What made way for it has not: the rename cannot have happened.
		default:
			n.entries[e.to] = there
			delete(n.entries, e.name)
		}
	case eventSize:
		if size := e.at; size < int64(len(n.bytes)) && !e.grow {
			n.bytes = n.bytes[:size:size]
		} else if size > int64(len(n.bytes)) {
			n.bytes = append(n.bytes, make([]byte, size-int64(len(n.bytes)))...)
		}
	case eventWrite:
		for at, end := e.at, e.at+int64(len(e.data)); at < end; {
			next := min(end, (at/diskSector+1)*diskSector)
			if keep(at) {
				if next > int64(len(n.bytes)) {
					n.bytes = append(n.bytes, make([]byte, next-int64(len(n.bytes)))...)
				}
				copy(n.bytes[at:next], e.data[at-e.at:next-e.at])
			}
			at = next
		}
	}
}

// draw returns a number below n (splitmix64).
func (s *survivor) draw(n int) int {
	s.draws += 0x9e3779b97f4a7c15
	z := s.draws
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return int((z ^ z>>31) >> 1 % uint64(n))
}

// write makes a directory's contents.
func (s *survivor) write(id int, path string) error {
	for name, child := range s.nodes[id].entries {
		at, n := filepath.Join(path, name), &s.nodes[child]
		if n.dir {
			if err := storage.OS.Mkdir(at, 0o777); err != nil {
				return err
			}
			if err := s.write(child, at); err != nil {
				return err
			}
			continue
		}
		f, err := storage.OS.OpenFile(at, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o666)
		if err != nil {
			return err
		}
		if len(n.bytes) > 0 {
			_, err = f.WriteAt(n.bytes, 0)
		}
		if cerr := f.Close(); err == nil {
			err = cerr
		}
		if err != nil {
			return err
		}
	}
	return nil
}
