package report

// Any document at all: an *Error and nothing written, or a page.

import (
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/goagnes/goagnes/goagnes"
	"github.com/goagnes/goagnes/tests/bounds"
)

// fill gives every field of a document a value, and its lists and maps two.
func fill(v reflect.Value, depth int) {
	if v.Type() == reflect.TypeFor[json.RawMessage]() {
		v.SetBytes([]byte(`{"a <b>": [1]}`))
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		if depth < 12 {
			v.Set(reflect.New(v.Type().Elem()))
			fill(v.Elem(), depth+1)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				fill(v.Field(i), depth+1)
			}
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		fallthrough
	case reflect.Array:
		for i := range v.Len() {
			fill(v.Index(i), depth+1)
		}
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		for range 2 {
			key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
			fill(key, depth+1)
			fill(value, depth+1)
			v.SetMapIndex(key, value)
		}
	case reflect.String:
		v.SetString("a <b>")
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Float32, reflect.Float64:
		v.SetFloat(1.5)
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		v.SetInt(3)
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		v.SetUint(3)
	}
}

func FuzzWrite(f *testing.F) {
	for kind, d := range map[string]any{goagnes.KindTrain: &goagnes.TrainReport{}, goagnes.KindBuild: &goagnes.BuildReport{}, KindPrepare: &Prepare{}} {
		fill(reflect.ValueOf(d).Elem(), 0)
		reflect.ValueOf(d).Elem().FieldByName("Kind").SetString(kind)
		b, err := json.Marshal(d)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
		f.Add([]byte(`{"kind":"` + kind + `"}`))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		bounds.Hold(t, len(in), bounds.Limit{Fixed: 4 << 20, Factor: 256}, func() {
			var page strings.Builder
			err := Write(&page, "run.json", strings.NewReader(string(in)))
			switch {
			case err != nil && (!errors.As(err, new(*Error)) || page.Len() > 0):
				t.Fatalf("%v (%T) and %d bytes of a page", err, err, page.Len())
			case err == nil && !strings.HasSuffix(strings.TrimSpace(page.String()), "</html>"):
				t.Fatalf("a page that ends in %q", page.String()[max(0, page.Len()-20):])
			}
		})
	})
}
