package export

// Documents and lines that carry their own checksum.

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"strconv"

	"github.com/goagnes/goagnes/layout"
)

const sealKey = `"crc32c":`

// seal puts the checksum of a JSON object, salted, at its end: {…} becomes
// {…,"crc32c":n}, where n covers the salt and all bytes before the comma.
func seal(object []byte, salt string) []byte {
	body := bytes.TrimRight(object[:len(object)-1], "\n ")
	out := append(bytes.Clone(body), ',')
	out = append(out, sealKey...)
	out = strconv.AppendUint(out, uint64(layout.AppendCRC(layout.CRC([]byte(salt)), body)), 10)
	return append(out, "}\n"...)
}

// unseal checks the checksum and returns the object without it.
func unseal(b []byte, salt string) ([]byte, bool) {
	rest, ok := bytes.CutSuffix(b, []byte("}\n"))
	at := bytes.LastIndex(rest, []byte(","+sealKey))
	if !ok || at < 0 {
		return nil, false
	}
	n, err := strconv.ParseUint(string(rest[at+1+len(sealKey):]), 10, 32)
	if err != nil || uint32(n) != layout.AppendCRC(layout.CRC([]byte(salt)), rest[:at]) {
		return nil, false
	}
	return append(bytes.Clone(rest[:at]), '}'), true
}

// strict decodes JSON without unknown fields.
func strict(b []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	return d.Decode(into)
}

// encode returns the bytes of an index file.
func (x *Index) encode() []byte {
	b, err := json.MarshalIndent(x, "", " ")
	if err != nil {
		panic("export: an index cannot be marshalled: " + err.Error())
	}
	return seal(b, "")
}

// setID computes the digest of what the export's bytes depend on.
func (x *Index) setID() {
	b, err := json.Marshal(&Index{Format: x.Format, Version: x.Version, Store: x.Store, Settings: x.Settings, Arrays: x.Arrays})
	if err != nil {
		panic("export: settings cannot be marshalled: " + err.Error())
	}
	h := sha256.Sum256(b)
	x.ID = hex.EncodeToString(h[:16])
}

// decodeIndex reads an index file's bytes and checks what can be without files.
func decodeIndex(path string, b []byte) (*Index, error) {
	var head struct {
		Format  string `json:"format"`
		Version int    `json:"version"`
	}
	if json.Unmarshal(b, &head) == nil && head.Format == Format && head.Version > Version {
		return nil, faultf(path, "format version %d, this program reads up to %d: use a newer goagnes", head.Version, Version)
	}
	body, ok := unseal(b, "")
	if !ok {
		return nil, faultf(path, "the checksum does not match: the file was changed or cut short; export again with overwrite")
	}
	x := &Index{}
	if err := strict(body, x); err != nil {
		return nil, faultf(path, "the index is not readable: %v", err)
	}
	if x.Format != Format || x.Version != Version {
		return nil, faultf(path, "no index of an export: format %q, version %d", x.Format, x.Version)
	}
	id := x.ID
	if x.setID(); x.ID != id {
		return nil, faultf(path, "the id does not belong to the settings")
	}
	s := &x.Settings
	if s.Epochs < 1 || s.Epochs > 1<<20 || s.Minibatches < 0 || s.Minibatches > 1<<40 || s.BatchSize < 1 || len(s.NumNeighbors) > 1<<10 || len(x.Arrays) == 0 || len(x.Arrays) > 64 {
		return nil, faultf(path, "settings outside the format's limits")
	}
	for i := range x.Arrays {
		a := &x.Arrays[i]
		if _, _, err := a.types(); err != nil || !plainName(a.Name) || a.rowBytes() <= 0 {
			return nil, faultf(path, "array %q of type %s, rows %v, is outside the format's limits", a.Name, a.DType, a.Row)
		}
	}
	return x, nil
}

// plainName tells whether a name is that of an array and no path.
func plainName(s string) bool {
	for _, c := range s {
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '_' {
			return false
		}
	}
	return s != "" && len(s) < 64
}

// rowBytes returns the bytes of a row of the array's file; 0 where they are
// outside the format's limits.
func (a *Array) rowBytes() int64 {
	_, stored, err := a.types()
	if err != nil || len(a.Row) > 30 {
		return 0
	}
	n := int64(stored.Size())
	for _, d := range a.Row {
		if d <= 0 || d > (1<<40)/n {
			return 0
		}
		n *= d
	}
	return n
}
