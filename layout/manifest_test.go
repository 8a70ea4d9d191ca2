package layout

import (
	"errors"
	"strings"
	"testing"
)

// whole returns a manifest with a section of every known name.
func whole() *Manifest {
	array := func(name string, d DType, rows int64, shape ...int64) Section {
		s := Section{Name: name, Kind: KindArray, File: name, DType: d.String(), Rows: rows, RowShape: shape}
		s.Bytes = rows * s.Stride()
		return s
	}
	return &Manifest{NumNodes: 3, NumEdges: 5, Settings: Settings{Order: "degree", BlockSize: MinBlockSize, IDs: "rank"}, Sections: []Section{
		{Name: SectionGraph, Kind: KindGraph, File: "graph", Bytes: MinBlockSize, Required: true},
		{Name: SectionIndex, Kind: KindIndex, File: "index", Bytes: 2 * IndexEntryBytes, Required: true},
		array(SectionEdgeID, Uint32, 5), array(SectionDegree, Uint32, 3), array(SectionOriginal, Uint32, 3), array(SectionInternal, Uint32, 3),
		array(SectionX, Float16, 3, 7), array(SectionY, Int8, 3), array(SectionIDs, Int64, 3), array(SplitPrefix+"train", Int64, 2),
		array(NodePrefix+"time", Float64, 3, 2, 2),
	}}
}

// TestManifestForms changes one thing of a section and expects a manifest that
// says so to be refused: readers rely on kind, element type and row of the
// sections they know.
func TestManifestForms(t *testing.T) {
	m := whole()
	b, err := m.Encode()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := DecodeManifest(b); err != nil {
		t.Fatal(err)
	}
	of := func(d DType, shape ...int64) func(*Section) {
		return func(s *Section) {
			s.DType, s.RowShape = d.String(), shape
			s.Bytes = s.Rows * s.Stride()
		}
	}
	for _, c := range []struct {
		section string
		what    string
		change  func(*Section)
	}{
		{SectionGraph, "an array", func(s *Section) { s.Kind, s.DType, s.Rows = KindArray, "uint8", s.Bytes }},
		{SectionGraph, "an index", func(s *Section) { s.Kind = KindIndex }},
		{SectionIndex, "an array", func(s *Section) { s.Kind, s.DType, s.Rows = KindArray, "uint8", s.Bytes }},
		{SectionX, "an index", func(s *Section) { s.Kind, s.Bytes = KindIndex, IndexEntryBytes }},
		{SectionX, "of an unknown kind", func(s *Section) { s.Kind = "other" }},
		{SectionEdgeID, "of one byte", of(Uint8)},
		{SectionEdgeID, "of float32", of(Float32)},
		{SectionEdgeID, "in pairs", of(Uint32, 2)},
		{SectionDegree, "of int64", of(Int64)},
		{SectionOriginal, "of uint64", of(Uint64)},
		{SectionInternal, "of one byte", of(Uint8)},
		{SectionY, "of float64", of(Float64)},
		{SectionY, "in pairs", of(Int8, 2)},
		{SectionIDs, "of uint8", of(Uint8)},
		{SplitPrefix + "train", "of int32", of(Int32)},
		{SplitPrefix + "train", "empty rows", of(Int64, 0)},
		{SectionOriginal, "missing", func(s *Section) { s.Name = NodePrefix + "other" }},
		{NodePrefix + "time", "past 2^60 bytes", func(s *Section) { s.RowShape, s.Rows, s.Bytes, s.Name = []int64{1 << 21}, MaxEdges, 0, "other" }},
	} {
		m := whole()
		s := m.Section(c.section)
		c.change(s)
		if _, err := m.Encode(); err == nil || !errors.As(err, new(*Error)) || !strings.Contains(err.Error(), ManifestFile) {
			t.Errorf("%s %s: %v", c.section, c.what, err)
		}
	}
	m = whole()
	of(Uint64)(m.Section(SectionEdgeID)) // wider than need be
	if _, err := m.Encode(); err != nil {
		t.Error(err)
	}
}

// TestFormatVersion writes the lowest version that holds a store, and refuses a
// range of edge ids that is none.
func TestFormatVersion(t *testing.T) {
	for ids, version := range map[int64]int{0: 1, 6: 2, MaxEdges: 2, 5: 0, -1: 0, MaxEdges + 1: 0} {
		m := whole()
		m.EdgeIDs = ids
		if ids > 1<<32 {
			s := m.Section(SectionEdgeID)
			s.DType = Uint64.String()
			s.Bytes = s.Rows * s.Stride()
		}
		b, err := m.Encode()
		if version == 0 {
			if err == nil {
				t.Errorf("edge ids below %d for %d edges were accepted", ids, m.NumEdges)
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		got, err := DecodeManifest(b)
		if err != nil || int(b[8]) != version || got.EdgeIDs != ids {
			t.Errorf("edge ids below %d: version %d, expected %d; err = %v", ids, b[8], version, err)
		}
	}
}
