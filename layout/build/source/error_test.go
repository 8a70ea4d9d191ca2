package source_test

import (
	"errors"
	"io"
	"os"
	"testing"

	"github.com/goagnes/goagnes/layout/build/source"
)

func TestErrorText(t *testing.T) {
	for want, e := range map[string]*source.Error{
		"f: m":            source.Errorf("f", "m"),
		"f:7: m":          source.ErrorAtLine("f", 7, "m"),
		"f[0]: m":         source.ErrorAt("f", 0, "m"),
		"f: m: EOF":       {File: "f", Index: -1, Msg: "m", Err: io.EOF},
		"f: EOF":          {File: "f", Index: -1, Err: io.EOF},
		"f: m: no access": {File: "f", Index: -1, Msg: "m", Err: &os.PathError{Op: "open", Path: "f", Err: errors.New("no access")}},
	} {
		if e.Error() != want || e.Class() != "input" || !errors.Is(e, e.Err) && e.Err != nil {
			t.Errorf("got %q, want %q", e.Error(), want)
		}
	}
}
