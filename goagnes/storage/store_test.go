package storage

// Tests of stores written through layout's encoder: contents, damage of every
// kind, and what OpenStore refuses.

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"

	"github.com/goagnes/goagnes/layout"
)

const testBlockSize = 16 << 10

// writeStore writes a store of random contents that seed determines and
// returns the padded contents of its files by section name.
func writeStore(t testing.TB, dir string, seed uint64, nodes int64, dim int64) map[string][]byte {
	t.Helper()
	random := rand.New(rand.NewPCG(seed, 1))
	var graph, index []byte
	edges := int64(0)
	e := layout.NewGraphEncoder(nodes, testBlockSize, func(b []byte, entry layout.IndexEntry) error {
		graph = append(graph, b...)
		index = binary.LittleEndian.AppendUint64(index, entry.FirstNode)
		index = binary.LittleEndian.AppendUint64(index, entry.FirstEdge)
		return nil
	})
	for v := range nodes {
		degree := random.IntN(40)
		if v%500 == 7 { // a hub of several blocks
			degree = testBlockSize + random.IntN(testBlockSize)
		}
		ids := make([]uint64, degree)
		for i := range ids {
			ids[i] = uint64(random.Int64N(nodes))
		}
		if err := e.Object(uint64(v), uint64(degree)); err != nil {
			t.Fatal(err)
		}
		if err := e.Neighbors(ids); err != nil {
			t.Fatal(err)
		}
		edges += int64(degree)
	}
	last, err := e.Close()
	if err != nil {
		t.Fatal(err)
	}
	index = binary.LittleEndian.AppendUint64(index, last.FirstNode)
	index = binary.LittleEndian.AppendUint64(index, last.FirstEdge)
	x := make([]byte, nodes*dim*4)
	for i := range x {
		x[i] = byte(random.Uint32())
	}
	m := &layout.Manifest{NumNodes: nodes, NumEdges: edges, Settings: layout.Settings{Order: "original", BlockSize: testBlockSize, IDs: "dense"},
		Sections: []layout.Section{
			{Name: layout.SectionGraph, Kind: layout.KindGraph, Required: true, File: "graph", Bytes: int64(len(graph))},
			{Name: layout.SectionIndex, Kind: layout.KindIndex, Required: true, File: "graph.index", Bytes: int64(len(index))},
			{Name: layout.SectionX, Kind: layout.KindArray, File: "node.x", Bytes: int64(len(x)), DType: "float32", Rows: nodes, RowShape: []int64{dim}},
			{Name: layout.SplitPrefix + "none", Kind: layout.KindArray, File: "split.none", DType: "int64"},
		}}
	files := map[string][]byte{layout.SectionGraph: graph, layout.SectionIndex: index, layout.SectionX: x, layout.SplitPrefix + "none": nil}
	writeFiles(t, dir, m, files)
	return files
}

// writeFiles pads the files, sums them and writes the store.
func writeFiles(t testing.TB, dir string, m *layout.Manifest, files map[string][]byte) {
	t.Helper()
	for i := range m.Sections {
		s := &m.Sections[i]
		files[s.Name] = append(files[s.Name], make([]byte, s.FileBytes()-s.Bytes)...)
		if i > 0 {
			p := &m.Sections[i-1]
			_, _, root, rootBytes := p.Checksums()
			s.ChecksumOffset = root + rootBytes
		}
	}
	err := m.ComputeID(func(i int, write func([]byte)) error {
		for b := files[m.Sections[i].Name]; len(b) > 0; b = b[layout.PageSize:] {
			write(binary.LittleEndian.AppendUint32(nil, layout.CRC(b[:layout.PageSize])))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	var sums []byte
	for i := range m.Sections {
		s := &m.Sections[i]
		_, tableBytes, _, rootBytes := s.Checksums()
		table, root := make([]byte, tableBytes), make([]byte, rootBytes)
		layout.SumPages(layout.NewSalt(m.ID, s.Name, false), files[s.Name], 0, table)
		layout.SumPages(layout.NewSalt(m.ID, s.Name, true), table, 0, root)
		s.RootCRC = layout.CRC(root)
		sums = append(append(sums, table...), root...)
	}
	manifest, err := m.Encode()
	if err != nil {
		t.Fatal(err)
	}
	put := func(name string, b []byte) {
		if err := os.WriteFile(filepath.Join(dir, name), b, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for i := range m.Sections {
		put(m.Sections[i].File, files[m.Sections[i].Name])
	}
	put(layout.ChecksumFile, sums)
	put(layout.ManifestFile, manifest)
}

func openStore(t testing.TB, dir string) *Store {
	t.Helper()
	s, err := OpenStore(dir, StoreOptions{})
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

func TestStoreReads(t *testing.T) {
	dir := t.TempDir()
	files := writeStore(t, dir, 1, 1200, 100)
	s := openStore(t, dir)
	if s.Section("absent") != nil || s.Manifest().NumNodes != 1200 || s.Dir() != dir {
		t.Fatal("wrong manifest")
	}
	if roots := s.MemoryBytes() - DefaultChecksumCache; roots <= 0 || roots > 16*layout.PageSize || s.TableBytes() != 3*tableChunk {
		t.Fatalf("%d bytes of root tables, %d of tables", roots, s.TableBytes())
	}
	random := rand.New(rand.NewPCG(2, 2))
	for name, want := range files {
		c := s.Section(name)
		for range 50 {
			if len(want) == 0 {
				continue
			}
			at := random.IntN(len(want))
			got := make([]byte, random.IntN(len(want)-at+1))
			if err := c.Read(int64(at), got); err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(got, want[at:at+len(got)]) {
				t.Fatalf("section %q: bytes %d+%d differ", name, at, len(got))
			}
		}
		// All pages at once, asynchronously, in pieces of several sizes.
		got := AlignedBytes(len(want))
		var wg sync.WaitGroup
		for at := 0; at < len(want); {
			n := min((1+random.IntN(9))*layout.PageSize, len(want)-at)
			wg.Add(1)
			tag := int64(at)
			c.Submit(int64(at), got[at:at+n], tag, func(r *Request) {
				if r.Err != nil || r.Tag != tag {
					t.Errorf("section %q at %d: %v, tag %d", name, tag, r.Err, r.Tag)
				}
				wg.Done()
			})
			at += n
		}
		wg.Wait()
		if !bytes.Equal(got, want) {
			t.Fatalf("section %q differs", name)
		}
	}
	k := s.Pool().Counters()
	if k.PagesVerified == 0 || k.ChecksumRead == 0 || k.BytesRead < k.PagesVerified*layout.PageSize {
		t.Fatalf("counters %+v", k)
	}
}

func TestGraphBlocksParse(t *testing.T) {
	dir := t.TempDir()
	writeStore(t, dir, 3, 1200, 4)
	s := openStore(t, dir)
	index := make([]byte, s.Section(layout.SectionIndex).Bytes)
	if err := s.Section(layout.SectionIndex).Read(0, index); err != nil {
		t.Fatal(err)
	}
	hubs := 0
	block := AlignedBytes(testBlockSize)
	for b := int64(0); b < s.Section(layout.SectionGraph).Blocks(testBlockSize); b++ {
		if err := s.Section(layout.SectionGraph).Read(b*testBlockSize, block); err != nil {
			t.Fatal(err)
		}
		g, err := layout.ParseGraphBlock(block, layout.NodeBits(1200), layout.GetIndexEntry(index[16*b:]), layout.GetIndexEntry(index[16*b+16:]))
		if err != nil {
			t.Fatal(err)
		}
		if g.Hub {
			hubs++
		}
	}
	if hubs < 4 {
		t.Fatalf("%d pieces of hubs", hubs)
	}
}

// readAll reads every page of every section and returns the errors.
func readAll(t *testing.T, dir string) []*layout.Error {
	t.Helper()
	s, err := OpenStore(dir, StoreOptions{})
	if err != nil {
		return []*layout.Error{asLayout(t, err)}
	}
	defer s.Close()
	var found []*layout.Error
	page := AlignedBytes(layout.PageSize)
	for i := range s.Manifest().Sections {
		c := s.Section(s.Manifest().Sections[i].Name)
		for at := int64(0); at < c.FileBytes(); at += layout.PageSize {
			if err := c.Read(at, page); err != nil {
				found = append(found, asLayout(t, err))
			}
		}
	}
	return found
}

func asLayout(t *testing.T, err error) *layout.Error {
	t.Helper()
	var e *layout.Error
	if !errors.As(err, &e) {
		t.Fatalf("%T: %v, a *layout.Error is due", err, err)
	}
	return e
}

func TestDamage(t *testing.T) {
	dir := t.TempDir()
	files := writeStore(t, dir, 1, 1200, 100)
	other := t.TempDir()
	writeStore(t, other, 2, 1200, 100)
	if found := readAll(t, dir); len(found) != 0 {
		t.Fatalf("an intact store: %v", found)
	}
	random := rand.New(rand.NewPCG(4, 4))
	load := func(dir, name string) []byte {
		b, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	// with changes a file, checks, and puts it back.
	with := func(what, name string, change func(b []byte), check func([]*layout.Error) error) {
		t.Helper()
		path := filepath.Join(dir, name)
		whole := load(dir, name)
		b := bytes.Clone(whole)
		change(b)
		if bytes.Equal(b, whole) {
			t.Fatalf("%s: nothing changed", what)
		}
		if err := os.WriteFile(path, b, 0o644); err != nil {
			t.Fatal(err)
		}
		if err := check(readAll(t, dir)); err != nil {
			t.Errorf("%s of %s: %v", what, name, err)
		}
		if err := os.WriteFile(path, whole, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	pageOf := func(name string, pages ...int64) func([]*layout.Error) error {
		return func(found []*layout.Error) error {
			if len(found) != len(pages) {
				return fmt.Errorf("%d findings: %v", len(found), found)
			}
			for i, e := range found {
				at := pages[i] * layout.PageSize
				if e.Kind != layout.Checksum || e.File != name || e.Offset != at || e.Block != at/testBlockSize || e.Class() != "store" {
					return fmt.Errorf("%+v, page %d is damaged", e, pages[i])
				}
			}
			return nil
		}
	}
	for _, name := range []string{"graph", "graph.index", "node.x"} {
		n := len(files[name])
		for range 20 {
			bit := random.IntN(n * 8)
			with("bit flip", name, func(b []byte) { b[bit/8] ^= 1 << (bit % 8) }, pageOf(name, int64(bit/8/layout.PageSize)))
		}
		if n >= 3*layout.PageSize {
			with("swap of pages", name, func(b []byte) {
				p := bytes.Clone(b[:layout.PageSize])
				copy(b, b[2*layout.PageSize:3*layout.PageSize])
				copy(b[2*layout.PageSize:], p)
			}, pageOf(name, 0, 2))
		}
		with("page of another build", name, func(b []byte) { copy(b[:layout.PageSize], load(other, name)) }, pageOf(name, 0))
	}
	with("page of another section", "node.x", func(b []byte) { copy(b, files["graph"][:layout.PageSize]) }, pageOf("node.x", 0))
	with("zeroed page", "graph", func(b []byte) { clear(b[5*layout.PageSize : 6*layout.PageSize]) }, pageOf("graph", 5))
	// Any flip in the checksum file is found, in the tables or in the roots.
	n := len(load(dir, layout.ChecksumFile))
	for range 40 {
		bit := random.IntN(n * 8)
		with("bit flip", layout.ChecksumFile, func(b []byte) { b[bit/8] ^= 1 << (bit % 8) }, func(found []*layout.Error) error {
			for _, e := range found {
				if e.Kind != layout.Checksum || e.File != layout.ChecksumFile || e.Offset > int64(bit/8) || e.Offset < int64(bit/8)-layout.PageSize {
					return fmt.Errorf("%v, bit %d is damaged", e, bit)
				}
			}
			if len(found) == 0 {
				return errors.New("not found")
			}
			return nil
		})
	}
	with("bit flip", layout.ManifestFile, func(b []byte) { b[5000] ^= 4 }, func(found []*layout.Error) error {
		if len(found) != 1 || found[0].File != layout.ManifestFile {
			return fmt.Errorf("%v", found)
		}
		return nil
	})
}

func TestOpenRefuses(t *testing.T) {
	cases := []struct {
		name string
		do   func(dir string) error
		kind layout.Kind
		file string
	}{
		{"no manifest", func(d string) error { return os.Remove(filepath.Join(d, layout.ManifestFile)) }, layout.NotAStore, ""},
		{"foreign manifest", func(d string) error {
			return os.WriteFile(filepath.Join(d, layout.ManifestFile), []byte("hello"), 0o644)
		}, layout.NotAStore, layout.ManifestFile},
		{"huge manifest", func(d string) error { return os.Truncate(filepath.Join(d, layout.ManifestFile), 1<<40) }, layout.Limits, layout.ManifestFile},
		{"missing file", func(d string) error { return os.Remove(filepath.Join(d, "node.x")) }, layout.Corrupt, "node.x"},
		{"missing checksums", func(d string) error { return os.Remove(filepath.Join(d, layout.ChecksumFile)) }, layout.Corrupt, layout.ChecksumFile},
		{"short file", func(d string) error { return os.Truncate(filepath.Join(d, "graph"), 4096) }, layout.Checksum, "graph"},
		{"long file", func(d string) error { return os.Truncate(filepath.Join(d, "split.none"), 1) }, layout.Checksum, "split.none"},
		{"short checksums", func(d string) error { return os.Truncate(filepath.Join(d, layout.ChecksumFile), 4096) }, layout.Checksum, layout.ChecksumFile},
		{"directory", func(d string) error {
			return errors.Join(os.Remove(filepath.Join(d, "node.x")), os.Mkdir(filepath.Join(d, "node.x"), 0o755))
		}, layout.Corrupt, "node.x"},
		{"named pipe", func(d string) error {
			return errors.Join(os.Remove(filepath.Join(d, "node.x")), syscall.Mkfifo(filepath.Join(d, "node.x"), 0o644))
		}, layout.Corrupt, "node.x"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			writeStore(t, dir, 1, 300, 8)
			if err := c.do(dir); err != nil {
				t.Fatal(err)
			}
			s, err := OpenStore(dir, StoreOptions{})
			if err == nil {
				s.Close()
				t.Fatal("opened")
			}
			if e := asLayout(t, err); e.Kind != c.kind || e.File != c.file {
				t.Fatalf("%v of %q; %v of %q is due", e.Kind, e.File, c.kind, c.file)
			}
		})
	}
	_, err := OpenStore(filepath.Join(t.TempDir(), "nowhere"), StoreOptions{})
	if asLayout(t, err).Kind != layout.NotAStore {
		t.Fatal(err)
	}
}

// A file that shrinks while the store is open gives an error of the store.
func TestTruncatedWhileOpen(t *testing.T) {
	dir := t.TempDir()
	writeStore(t, dir, 1, 300, 64)
	s := openStore(t, dir)
	if err := os.Truncate(filepath.Join(dir, "node.x"), 8192); err != nil {
		t.Fatal(err)
	}
	e := asLayout(t, s.Section(layout.SectionX).Read(0, AlignedBytes(5*layout.PageSize)))
	if e.Kind != layout.Checksum || e.File != "node.x" || e.Offset != 8192 {
		t.Fatal(e)
	}
}

// Reads that race with Close end with the data or with ErrClosed.
func TestCloseDuringReads(t *testing.T) {
	dir := t.TempDir()
	writeStore(t, dir, 1, 600, 64)
	for range 20 {
		s, err := OpenStore(dir, StoreOptions{})
		if err != nil {
			t.Fatal(err)
		}
		var wg sync.WaitGroup
		for range 4 {
			wg.Add(1)
			go func() {
				defer wg.Done()
				b := AlignedBytes(testBlockSize)
				for {
					if err := s.Section(layout.SectionX).Read(0, b); err != nil {
						var e *Error
						if !errors.As(err, &e) || e.Class() != "closed" {
							t.Error(err)
						}
						return
					}
				}
			}()
		}
		if err := errors.Join(s.Close(), s.Close()); err != nil {
			t.Fatal(err)
		}
		wg.Wait()
	}
}

func TestReadOutsideSectionPanics(t *testing.T) {
	dir := t.TempDir()
	writeStore(t, dir, 1, 300, 8)
	c := openStore(t, dir).Section(layout.SectionX)
	for _, f := range []func(){
		func() { c.Read(c.FileBytes(), make([]byte, 1)) },
		func() { c.Read(-1, make([]byte, 1)) },
		func() { c.Submit(c.FileBytes(), AlignedBytes(4096), 0, func(*Request) {}) },
		func() { c.Submit(1, AlignedBytes(4096), 0, func(*Request) {}) },
	} {
		mustPanic(t, f)
	}
}

func mustPanic(t *testing.T, f func()) {
	t.Helper()
	defer func() {
		if recover() == nil {
			t.Error("no panic")
		}
	}()
	f()
}
