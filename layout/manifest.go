package layout

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math/bits"
	"slices"
	"strings"
)

// Limits of the format.
const (
	Version          = 2       // this program reads up to version 2; see Manifest.FormatVersion
	PageSize         = 4096    // unit of checksums and of direct I/O
	MinBlockSize     = 4 << 10 // bytes; a block is the unit of I/O
	MaxBlockSize     = 64 << 20
	DefaultBlockSize = 1 << 20
	MaxNodes         = 1 << 40 // nodes of a store
	MaxEdges         = 1 << 40
	MaxSections      = 1 << 12
	MaxRowBytes      = 16 << 20 // bytes of one row of an array
	maxBody          = 16 << 20 // bytes of the manifest's JSON body
)

// Names of the files that every store has.
const (
	ManifestFile = "MANIFEST"
	ChecksumFile = "CHECKSUMS"
)

const magic = "goagnes\n"

// Names of the sections that this version writes. Named arrays of nodes are
// "node." + name, of edges "edge." + name, node sets "split." + name.
const (
	SectionGraph    = "graph"          // graph blocks
	SectionIndex    = "graph.index"    // object index table: one entry a block and one at the end
	SectionPlaces   = "graph.place"    // page at which each stored graph block begins, and one at the end; where blocks are compressed
	SectionEdgeID   = "edge.id"        // edge id by CSC position
	SectionOriginal = "node.original"  // internal id -> original id; absent where order is "original"
	SectionInternal = "node.internal"  // original id -> internal id; absent where order is "original"
	SectionDegree   = "node.in_degree" // in-edges from other nodes by internal id
	SectionX        = "node.x"         // features by internal id
	SectionY        = "node.y"         // labels by internal id
	SectionIDs      = "ids"            // ascending source ids by original id, where ids were ranked
	SplitPrefix     = "split."         // original ids of a split, in the given order
	NodePrefix      = "node."
	EdgePrefix      = "edge."
)

// SectionKind says how a section's bytes are to be read.
type SectionKind string

// The kinds of section.
const (
	KindGraph SectionKind = "graph" // graph blocks of BlockSize bytes
	KindIndex SectionKind = "index" // IndexEntry array
	KindArray SectionKind = "array" // rows at a fixed stride
)

// Section is one named part of a store, a file of its own.
type Section struct {
	Name     string      `json:"name"`
	Kind     SectionKind `json:"kind"`
	Required bool        `json:"required"` // a reader that does not know the name must refuse the store
	File     string      `json:"file"`
	Bytes    int64       `json:"bytes"` // meaningful bytes; the file is padded with zeros to a whole page

	// Of arrays only.
	DType    string  `json:"dtype,omitempty"`
	Rows     int64   `json:"rows,omitempty"`
	RowShape []int64 `json:"row_shape,omitempty"` // shape of one row, empty for a scalar

	ChecksumOffset int64  `json:"checksum_offset"` // byte offset of its tables in the checksum file, a multiple of PageSize
	RootCRC        uint32 `json:"root_crc"`        // CRC32C of its root table
}

// FileBytes returns the size of the section's file.
func (s *Section) FileBytes() int64 { return roundUp(s.Bytes, PageSize) }

// Type returns the element type of an array section.
func (s *Section) Type() DType { d, _ := ParseDType(s.DType); return d }

// RowElements returns the number of elements in a row: the product of RowShape.
func (s *Section) RowElements() int64 {
	n := int64(1)
	for _, d := range s.RowShape {
		n *= d
	}
	return n
}

// Stride returns the bytes from one row to the next.
func (s *Section) Stride() int64 { return s.RowElements() * int64(s.Type().Size()) }

// Values of Settings that say what sections there are.
const (
	OrderOriginal = "original" // nodes keep their order: no tables of ids
	IDsDense      = "dense"    // node ids are those of the input
	IDsRank       = "rank"     // section "ids" holds the input's ids, of which node ids are the ranks
)

// Settings are the choices that shape a store's bytes and enter its build id.
type Settings struct {
	Order     string `json:"order"`      // node order used: "original", "degree", "bfs", "visit"
	BlockSize int64  `json:"block_size"` // bytes
	IDs       string `json:"ids"`        // "dense", or "rank" where sparse source ids were ranked

	Compression string `json:"compression,omitempty"` // of graph blocks, from version 2 on: "zstd:LEVEL"; "" = none

	// Where sections lie in several directories, from version 2 on.
	Stripes    int   `json:"stripes,omitempty"`     // directories, 0 = the store's own alone
	StripeUnit int64 `json:"stripe_unit,omitempty"` // bytes that lie together
}

// Manifest describes a store: counts, settings and sections.
type Manifest struct {
	NumNodes   int64     `json:"num_nodes"`
	NumEdges   int64     `json:"num_edges"`
	EdgeIDs    int64     `json:"edge_ids,omitempty"` // edge ids are below it and may have gaps; 0 = they are 0 to num_edges-1
	NumClasses int64     `json:"num_classes"`        // largest label + 1, 0 without labels
	Settings   Settings  `json:"settings"`
	Sections   []Section `json:"sections"`

	ID     BuildID         `json:"-"` // in the header
	Source json.RawMessage `json:"-"` // what was read to build the store, for people; not part of the build id

	// Stripes are the directories over which sections are spread, as many as
	// Settings.Stripes; not part of the build id.
	Stripes []string `json:"-"`
}

// tailRecord is the record at the manifest's end from version 2 on; in version 1
// it is the source record alone.
type tailRecord struct {
	Source  json.RawMessage `json:"source"`
	Stripes []string        `json:"stripes,omitempty"`
}

// Section returns the section of that name, nil when there is none.
func (m *Manifest) Section(name string) *Section {
	for i := range m.Sections {
		if m.Sections[i].Name == name {
			return &m.Sections[i]
		}
	}
	return nil
}

// FormatVersion returns the format version of the manifest's file, the lowest that
// can hold the store: 2 where edge ids have gaps, sections are striped or graph blocks
// are compressed, else 1.
func (m *Manifest) FormatVersion() int {
	if m.EdgeIDs != 0 || m.Settings.Stripes != 0 || m.Settings.Compression != "" {
		return 2
	}
	return 1
}

// EdgeIDRange returns the number above all edge ids: num_edges where they have no
// gaps.
func (m *Manifest) EdgeIDRange() int64 { return max(m.EdgeIDs, m.NumEdges) }

// NodeBits returns the bits of one neighbour id in a graph block: enough for
// num_nodes-1, at least 8.
func NodeBits(numNodes int64) int {
	return max(8, bits.Len64(uint64(max(numNodes-1, 0))))
}

// IDType returns the element type of arrays that hold ids below n: uint32
// while they fit, else uint64.
func IDType(n int64) DType {
	if n <= 1<<32 {
		return Uint32
	}
	return Uint64
}

// ComputeID sets m.ID from the settings, the sections and their plain page
// checksums: plain(i) must write the unsalted CRC32C of every page of section
// i, in order, as little-endian words.
func (m *Manifest) ComputeID(plain func(section int, write func([]byte)) error) error {
	h := sha256.New()
	head := *m
	head.Sections = make([]Section, len(m.Sections))
	for i, s := range m.Sections {
		s.RootCRC = 0 // depends on the id itself
		head.Sections[i] = s
	}
	b, err := json.Marshal(&head)
	if err != nil {
		panic("layout: a manifest cannot be marshalled: " + err.Error())
	}
	h.Write(b)
	for i := range m.Sections {
		if err := plain(i, func(b []byte) { h.Write(b) }); err != nil {
			return err
		}
	}
	copy(m.ID[:], h.Sum(nil))
	return nil
}

// Encode returns the bytes of the manifest file.
func (m *Manifest) Encode() ([]byte, error) {
	if err := m.validate(); err != nil {
		return nil, err
	}
	body, err := json.MarshalIndent(m, "", " ")
	if err != nil {
		panic("layout: a manifest cannot be marshalled: " + err.Error())
	}
	source := m.Source
	if len(source) == 0 {
		source = json.RawMessage("{}")
	}
	if m.FormatVersion() > 1 {
		if source, err = json.Marshal(tailRecord{source, m.Stripes}); err != nil {
			return nil, fmt.Errorf("layout: the source record is no JSON: %w", err)
		}
	}
	padded := roundUp(int64(len(body)), PageSize)
	tail := roundUp(8+int64(len(source)), PageSize)
	b := make([]byte, PageSize+padded+tail)
	copy(b[PageSize:], body)
	t := b[PageSize+padded:]
	binary.LittleEndian.PutUint32(t[4:], uint32(len(source)))
	copy(t[8:], source)
	binary.LittleEndian.PutUint32(t, CRC(t[4:]))
	h := b[:PageSize]
	copy(h, magic)
	binary.LittleEndian.PutUint32(h[8:], uint32(m.FormatVersion()))
	binary.LittleEndian.PutUint32(h[12:], PageSize)
	binary.LittleEndian.PutUint64(h[16:], uint64(len(body)))
	copy(h[24:40], m.ID[:])
	binary.LittleEndian.PutUint32(h[40:], CRC(b[PageSize:PageSize+padded]))
	binary.LittleEndian.PutUint32(h[44:], CRC(t)^recordMask(m.ID))
	binary.LittleEndian.PutUint32(h[PageSize-4:], CRC(h[:PageSize-4]))
	return b, nil
}

// recordMask ties the source record to its build, as the salts of sections do with
// pages. Stores that were written before it have 0 in its place.
func recordMask(id BuildID) uint32 { return NewSalt(id, ManifestFile, false).Mask(0) }

// MaxManifest is the largest manifest file that DecodeManifest accepts, in bytes.
const MaxManifest = PageSize + maxBody + maxBody

// DecodeManifest reads the manifest file's bytes b, checking magic, version,
// checksums, limits and known sections in that order.
func DecodeManifest(b []byte) (*Manifest, error) {
	if len(b) < len(magic) || string(b[:len(magic)]) != magic {
		return nil, Errorf(NotAStore, ManifestFile, "the file does not begin with goagnes' magic: not a store, or overwritten")
	}
	if len(b) < PageSize {
		return nil, Errorf(Checksum, ManifestFile, "truncated to %d bytes: rebuild the store", len(b))
	}
	version := int64(binary.LittleEndian.Uint32(b[8:]))
	if v := version; v == 0 || v > Version {
		return nil, Errorf(Newer, ManifestFile, "format version %d, this program reads up to %d: use a newer goagnes", v, Version)
	}
	h := b[:PageSize]
	if binary.LittleEndian.Uint32(h[PageSize-4:]) != CRC(h[:PageSize-4]) {
		return nil, &Error{Kind: Checksum, File: ManifestFile, Offset: 0, Block: -1, Msg: "the header's checksum does not match: rebuild the store"}
	}
	if p := binary.LittleEndian.Uint32(h[12:]); p != PageSize {
		return nil, Errorf(Limits, ManifestFile, "page size %d, only %d is defined", p, PageSize)
	}
	n := binary.LittleEndian.Uint64(h[16:])
	if n > maxBody {
		return nil, Errorf(Limits, ManifestFile, "a body of %d bytes, at most %d are allowed", n, maxBody)
	}
	padded := roundUp(int64(n), PageSize)
	if int64(len(b)) < PageSize+padded+PageSize {
		return nil, Errorf(Checksum, ManifestFile, "truncated to %d bytes: rebuild the store", len(b))
	}
	body := b[PageSize : PageSize+padded]
	if CRC(body) != binary.LittleEndian.Uint32(h[40:]) {
		return nil, &Error{Kind: Checksum, File: ManifestFile, Offset: PageSize, Block: -1, Msg: "the body's checksum does not match: rebuild the store"}
	}
	tail := b[PageSize+padded:]
	ln := binary.LittleEndian.Uint32(tail[4:])
	if int64(ln) > int64(len(tail))-8 || binary.LittleEndian.Uint32(tail) != CRC(tail[4:]) || roundUp(int64(ln)+8, PageSize) != int64(len(tail)) {
		return nil, &Error{Kind: Checksum, File: ManifestFile, Offset: PageSize + padded, Block: -1, Msg: "the source record's checksum does not match: rebuild the store"}
	}
	if sum := binary.LittleEndian.Uint32(h[44:]); sum != 0 && sum != CRC(tail)^recordMask(BuildID(h[24:40])) {
		return nil, &Error{Kind: Checksum, File: ManifestFile, Offset: PageSize + padded, Block: -1, Msg: "the source record is not this build's: rebuild the store"}
	}
	m := &Manifest{}
	d := json.NewDecoder(bytes.NewReader(body[:n]))
	d.DisallowUnknownFields()
	if err := d.Decode(m); err != nil {
		return nil, Errorf(Corrupt, ManifestFile, "the body is not readable: %v", err)
	}
	copy(m.ID[:], h[24:40])
	m.Source = append(json.RawMessage(nil), tail[8:8+ln]...)
	if int64(m.FormatVersion()) != version {
		return nil, Errorf(Corrupt, ManifestFile, "format version %d, what it holds is of version %d: rebuild the store", version, m.FormatVersion())
	}
	if version > 1 {
		var record tailRecord
		if err := json.Unmarshal(m.Source, &record); err != nil {
			return nil, Errorf(Corrupt, ManifestFile, "the record of source and stripes is not readable: %v", err)
		}
		m.Source, m.Stripes = record.Source, record.Stripes
	}
	if err := m.validate(); err != nil {
		return nil, err
	}
	return m, nil
}

// knownSection reports whether this version reads a section of that name.
func knownSection(name string) bool {
	return name == SectionGraph || name == SectionIndex || name == SectionPlaces || name == SectionIDs ||
		strings.HasPrefix(name, NodePrefix) || strings.HasPrefix(name, EdgePrefix) || strings.HasPrefix(name, SplitPrefix)
}

func (m *Manifest) validate() error {
	bad := func(format string, a ...any) error { return Errorf(Limits, ManifestFile, format, a...) }
	if m.NumNodes < 0 || m.NumNodes > MaxNodes || m.NumEdges < 0 || m.NumEdges > MaxEdges {
		return bad("%d nodes and %d edges, at most %d and %d are allowed", m.NumNodes, m.NumEdges, int64(MaxNodes), int64(MaxEdges))
	}
	if m.EdgeIDs != 0 && (m.EdgeIDs <= m.NumEdges || m.EdgeIDs > MaxEdges) {
		return bad("edge ids below %d for %d edges, at most %d are allowed", m.EdgeIDs, m.NumEdges, int64(MaxEdges))
	}
	if m.NumClasses < 0 || m.NumClasses > MaxNodes {
		return bad("%d classes", m.NumClasses)
	}
	if bs := m.Settings.BlockSize; bs < MinBlockSize || bs > MaxBlockSize || bs&(bs-1) != 0 {
		return bad("block size %d, it must be a power of two from %d to %d", bs, MinBlockSize, MaxBlockSize)
	}
	if err := m.validateStripes(); err != nil {
		return err
	}
	if len(m.Sections) > MaxSections {
		return bad("%d sections, at most %d are allowed", len(m.Sections), MaxSections)
	}
	seen, files := map[string]bool{}, map[string]bool{ManifestFile: true, ChecksumFile: true, StripeFile: true}
	for i := range m.Sections {
		s := &m.Sections[i]
		if seen[s.Name] {
			return bad("section %q twice", s.Name)
		}
		seen[s.Name] = true
		if s.Required && !knownSection(s.Name) {
			return Errorf(Unsupported, ManifestFile, "required section %q is not known to this program: use a newer goagnes", s.Name)
		}
		if s.File == "" || strings.ContainsAny(s.File, "/\\\x00") || s.File[0] == '.' || len(s.File) > 200 || files[s.File] {
			return bad("section %q has the file name %q", s.Name, s.File)
		}
		files[s.File] = true
		if s.Bytes < 0 || s.Bytes > 1<<60 || s.ChecksumOffset < 0 || s.ChecksumOffset > 1<<60 || s.ChecksumOffset%PageSize != 0 {
			return bad("section %q has %d bytes, checksums at %d", s.Name, s.Bytes, s.ChecksumOffset)
		}
		if err := m.validateKind(s); err != nil {
			return err
		}
		if err := m.validateForm(s); err != nil {
			return err
		}
	}
	for _, need := range []string{SectionGraph, SectionIndex} {
		if !seen[need] {
			return Errorf(Corrupt, ManifestFile, "section %q is missing", need)
		}
	}
	if compressed := m.Settings.Compression != ""; seen[SectionPlaces] != compressed {
		return Errorf(Corrupt, ManifestFile, "compression %q, and a section %q that is %t", m.Settings.Compression, SectionPlaces, seen[SectionPlaces])
	}
	if _, canonical, err := ParseCompression(m.Settings.Compression); err != nil || canonical != m.Settings.Compression {
		return Errorf(Unsupported, ManifestFile, "compression %q is not known to this program: use a newer goagnes", m.Settings.Compression)
	}
	if seen[SectionOriginal] != seen[SectionInternal] {
		return Errorf(Corrupt, ManifestFile, "section %q or %q is missing, beside the other", SectionOriginal, SectionInternal)
	}
	return nil
}

// validateForm checks that a section of a known name has the kind, the element
// type and the row that readers of it rely on.
func (m *Manifest) validateForm(s *Section) error {
	kind := KindArray
	var types []DType // of single numbers; nil: any rows
	switch {
	case s.Name == SectionGraph:
		kind = KindGraph
	case s.Name == SectionIndex:
		kind = KindIndex
	case s.Name == SectionPlaces:
		types = []DType{Uint64}
	case s.Name == SectionEdgeID:
		types = []DType{IDType(m.EdgeIDRange()), Uint64}
	case s.Name == SectionOriginal, s.Name == SectionInternal:
		types = []DType{IDType(m.NumNodes)}
	case s.Name == SectionDegree:
		types = []DType{Uint32}
	case s.Name == SectionY:
		types = []DType{Int8, Int16, Int32, Int64, Uint8, Uint16, Uint32, Uint64}
	case s.Name == SectionIDs, strings.HasPrefix(s.Name, SplitPrefix):
		types = []DType{Int64}
	case strings.HasPrefix(s.Name, NodePrefix), strings.HasPrefix(s.Name, EdgePrefix):
	default:
		return nil
	}
	if s.Kind != kind || types != nil && (len(s.RowShape) != 0 || !slices.Contains(types, s.Type())) {
		return Errorf(Corrupt, ManifestFile, "section %q is %s of %s with rows of shape %v: rebuild the store", s.Name, s.Kind, s.DType, s.RowShape)
	}
	return nil
}

func (m *Manifest) validateKind(s *Section) error {
	bad := func(format string, a ...any) error {
		return Errorf(Limits, ManifestFile, "section %q: %s", s.Name, fmt.Sprintf(format, a...))
	}
	switch s.Kind {
	case KindGraph:
		if s.Bytes%PageSize != 0 || m.Settings.Compression == "" && s.Bytes%m.Settings.BlockSize != 0 {
			return bad("%d bytes are no whole number of blocks", s.Bytes)
		}
	case KindIndex:
		if s.Bytes%IndexEntryBytes != 0 || s.Bytes == 0 {
			return bad("%d bytes are no whole number of entries", s.Bytes)
		}
	case KindArray:
		if _, err := ParseDType(s.DType); err != nil {
			return Errorf(Unsupported, ManifestFile, "section %q has the dtype %q, unknown to this program", s.Name, s.DType)
		}
		if len(s.RowShape) > 32 {
			return bad("%d dimensions", len(s.RowShape))
		}
		n := int64(s.Type().Size())
		for _, d := range s.RowShape {
			if d < 0 || d > MaxRowBytes || n*d > MaxRowBytes {
				return bad("row shape %v, a row has at most %d bytes", s.RowShape, MaxRowBytes)
			}
			n *= d
		}
		if s.Rows < 0 || s.Rows > MaxEdges || n > 0 && s.Rows > 1<<60/n || s.Bytes != s.Rows*n {
			return bad("%d rows of %d bytes do not make %d bytes", s.Rows, n, s.Bytes)
		}
		switch {
		case strings.HasPrefix(s.Name, NodePrefix) && s.Rows != m.NumNodes:
			return bad("%d rows for %d nodes", s.Rows, m.NumNodes)
		case strings.HasPrefix(s.Name, EdgePrefix) && s.Rows != m.NumEdges:
			return bad("%d rows for %d edges", s.Rows, m.NumEdges)
		}
	default:
		if s.Required {
			return Errorf(Unsupported, ManifestFile, "section %q has the kind %q, unknown to this program", s.Name, s.Kind)
		}
	}
	return nil
}
