package pickle

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"strings"
	"testing"

	"github.com/goagnes/goagnes/layout"
	"github.com/goagnes/goagnes/tests/bounds"
)

// plain turns values into text, to a fixed depth.
func plain(v any, depth int) string {
	if depth == 0 {
		return "…"
	}
	join := func(items []any) string {
		var s []string
		for _, x := range items {
			s = append(s, plain(x, depth-1))
		}
		return strings.Join(s, " ")
	}
	switch x := v.(type) {
	case *List:
		return "[" + join(x.Items) + "]"
	case *Tuple:
		return "(" + join(x.Items) + ")"
	case *Dict:
		var s []string
		for i := range x.Keys {
			s = append(s, plain(x.Keys[i], depth-1)+":"+plain(x.Values[i], depth-1))
		}
		return "{" + strings.Join(s, " ") + "}"
	case *Array:
		return fmt.Sprintf("array(%s %v fortran=%v %q)", x.DType.Type, x.Shape, x.Fortran, x.Data)
	}
	return fmt.Sprintf("%T %v", v, v)
}

const (
	reconstruct = "cnumpy.core.multiarray\n_reconstruct\n"
	ndarray     = "cnumpy\nndarray\n"
	int4        = "cnumpy\ndtype\nU\x02i4K\x00K\x01\x87R(K\x03U\x01<NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb"
	newArray    = reconstruct + ndarray + "K\x00\x85U\x01b\x87R"
)

// The inputs are what CPython's pickle writes, by protocol 0, 1 and 2.
func TestLoad(t *testing.T) {
	for _, c := range []struct{ name, in, want string }{
		{"none", "N.", "<nil> <nil>"},
		{"bools", "\x80\x02\x88\x89\x86.", "(bool true bool false)"},
		{"old bools", "(I01\nI00\nt.", "(bool true bool false)"},
		{"integers", "\x80\x02(K\xffM\xff\xffJ\xfe\xff\xff\xff\x8a\x05\x00\x00\x00\x00\x01\x8a\x01\xfft.",
			"(int64 255 int64 65535 int64 -2 int64 4294967296 int64 -1)"},
		{"text integers", "(I12\nL-34L\nt.", "(int64 12 int64 -34)"},
		{"float", "G?\xf8\x00\x00\x00\x00\x00\x00.", "float64 1.5"},
		{"text float", "F-2.5\n.", "float64 -2.5"},
		{"strings", "(S'ab'\nU\x02cdT\x01\x00\x00\x00eX\x01\x00\x00\x00ft.", "(string ab string cd string e string f)"},
		{"list", "\x80\x02]q\x00(K\x01K\x02e.", "[int64 1 int64 2]"},
		{"list of protocol 0", "(lp0\nI1\naI2\na.", "[int64 1 int64 2]"},
		{"dict", "\x80\x02}q\x00(K\x01K\x02K\x03]u.", "{int64 1:int64 2 int64 3:[]}"},
		{"a key set twice", "\x80\x02}(K\x01K\x02K\x01K\x03u.", "{int64 1:int64 3}"},
		{"dict of protocol 0", "(dp0\nI1\nI2\ns.", "{int64 1:int64 2}"},
		{"defaultdict", "\x80\x02ccollections\ndefaultdict\nc__builtin__\nlist\n\x85RK\x00]K\x05as.", "{int64 0:[int64 5]}"},
		{"memo", "\x80\x02]q\x07h\x07\x86.", "([] [])"},
		{"a list within itself", "\x80\x02]q\x00h\x00a.", "[[[[…]]]]"},
		{"array", "\x80\x02" + newArray + "(K\x01K\x02K\x01\x86" + int4 + "\x89U\x08\x01\x00\x00\x00\x02\x00\x00\x00tb.",
			"array(int32 [2 1] fortran=false \"\\x01\\x00\\x00\\x00\\x02\\x00\\x00\\x00\")"},
	} {
		t.Run(c.name, func(t *testing.T) {
			v, err := Load(c.in)
			if err != nil {
				t.Fatal(err)
			}
			if got := plain(v, 4); got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
		})
	}
}

func TestLoadRefuses(t *testing.T) {
	for _, c := range []struct{ name, in, want string }{
		{"empty", "", "ends early"},
		{"no stop", "N", "ends early"},
		{"empty stack", ".", "stack is empty"},
		{"os.system", "cos\nsystem\n(S'true'\ntR.", `"os.system", which is not allowed`},
		{"eval", "c__builtin__\neval\n(S'1'\ntR.", `"__builtin__.eval"`},
		{"a list called", "c__builtin__\nlist\n(tR.", "not expected"},
		{"a string called", "S'x'\n(tR.", "a call of string"},
		{"persistent id", "P1\n.", `opcode 'P'`},
		{"instance", "(i__main__\nA\n.", `opcode 'i'`},
		{"extension", "\x82\x01.", "is not read"},
		{"protocol 4", "\x80\x04N.", "protocol 4"},
		{"string past the end", "T\xff\xff\xff\x7fabc.", "ends early"},
		{"long of 200 bytes", "\x8a\xc8" + strings.Repeat("\x01", 200) + ".", "200 bytes"},
		{"no such memo", "h\x05.", "memo 5"},
		{"popped marker", "(0.", "stack is empty"},
		{"no marker", "t.", "no marker"},
		{"tuple over a marker", "K\x01(\x85.", "stack is empty"},
		{"odd items", "}(K\x01u.", "without a value"},
		{"key that is a list", "}(]K\x01u.", "a dictionary key"},
		{"append to a number", "K\x01K\x02a.", "no list"},
		{"item in a list", "]K\x01K\x02s.", "no dictionary"},
		{"state of a list", "]}b.", "a state of type"},
		{"line without an end", "I" + strings.Repeat("1", 2000) + "\n.", "1024"},
		{"short array", newArray + "(K\x01K\x03\x85" + int4 + "\x89U\x08\x01\x00\x00\x00\x02\x00\x00\x00tb.", "12 are due"},
		{"negative extent", newArray + "(K\x01J\xff\xff\xff\xff\x85" + int4 + "\x89U\x00tb.", "extent -1"},
		{"extents overflow", newArray + "(K\x01(\x8a\x08" + strings.Repeat("\xff", 7) + "\x3f\x8a\x08" + strings.Repeat("\xff", 7) + "\x3ft" +
			int4 + "\x89U\x00tb.", "extent"},
		{"array of objects", newArray + "(K\x01K\x01\x85cnumpy\ndtype\nU\x02O8K\x00K\x01\x87R(K\x03U\x01|NNNtb\x89]tb.", "elements of type"},
		{"array of an unfinished type", newArray + "(K\x01K\x01\x85cnumpy\ndtype\nU\x02i4K\x00K\x01\x87R\x89U\x04aaaatb.", "unfinished"},
		{"array built twice", newArray + "(K\x01K\x01\x85" + int4 + "q\x00\x89U\x04aaaatb(K\x01K\x01\x85h\x00\x89U\x04aaaatb.", "not expected"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := Load(c.in)
			var e *Error
			if !errors.As(err, &e) || e.Class() != "input" || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}

func TestLoadIsBounded(t *testing.T) {
	if _, err := Load(strings.Repeat("N", MaxValues+1)); err == nil || !strings.Contains(err.Error(), "values") {
		t.Errorf("%d values: %v", MaxValues+1, err)
	}
	// Many arrays over one string must not copy it.
	big := strings.Repeat("a", 4<<20)
	in := "T\x00\x00\x40\x00" + big + "q\x00" + int4 + "q\x01" +
		strings.Repeat(newArray+"(K\x01J\x00\x00\x10\x00\x85h\x01\x89h\x00tb", 500) + "."
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	v, err := Load(in)
	if err != nil {
		t.Fatal(err)
	}
	runtime.ReadMemStats(&after)
	if a, ok := v.(*Array); !ok || a.DType.Type != layout.Int32 || len(a.Data) != len(big) {
		t.Errorf("got %T", v)
	}
	if used := after.TotalAlloc - before.TotalAlloc; used > 16<<20 {
		t.Errorf("%d bytes were allocated", used)
	}
}

// corpus finds a directory of public graphs beside the repository.
func corpus(t testing.TB, name string) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for {
		if path := filepath.Join(dir, "..", "shared", "data", name); exists(path) && exists(filepath.Join(dir, "go.mod")) {
			return path
		}
		if dir == filepath.Dir(dir) {
			t.Skipf("no ../shared/data/%s beside the repository: the public graph is not here", name)
		}
		dir = filepath.Dir(dir)
	}
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

func TestPlanetoidFiles(t *testing.T) {
	dir := corpus(t, "planetoid/cora")
	load := func(ending string) any {
		b, err := os.ReadFile(filepath.Join(dir, "ind.cora."+ending))
		if err != nil {
			t.Fatal(err)
		}
		v, err := Load(string(b))
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	x, ok := load("x").(*Object)
	if !ok || !x.IsCSR() {
		t.Fatalf("x is %T", load("x"))
	}
	shape, ok := x.State.Get("_shape")
	if !ok || plain(shape, 2) != "(int64 140 int64 1433)" {
		t.Errorf("x has shape %s", plain(shape, 2))
	}
	indptr, _ := x.State.Get("indptr")
	if a, ok := indptr.(*Array); !ok || !reflect.DeepEqual(a.Shape, []int64{141}) || a.DType.Type != layout.Int32 {
		t.Errorf("indptr is %T", indptr)
	}
	graph, ok := load("graph").(*Dict)
	if !ok || len(graph.Keys) != 2708 {
		t.Errorf("graph is %T", load("graph"))
	}
}

func FuzzLoad(f *testing.F) {
	f.Add("\x80\x02" + newArray + "(K\x01K\x02\x85" + int4 + "\x89U\x08\x01\x00\x00\x00\x02\x00\x00\x00tb.")
	f.Add("\x80\x02ccollections\ndefaultdict\nc__builtin__\nlist\n\x85R(K\x00]K\x05aK\x01](K\x01M\x01\x02eu.")
	f.Add("(dp0\nI1\n(lp1\nI2\nas.")
	f.Add("\x80\x02cscipy.sparse.csr\ncsr_matrix\n)\x81}(U\x06_shapeK\x01K\x02\x86ub.")
	f.Fuzz(func(t *testing.T, in string) {
		// A value takes up to 100 bytes of memory for one of the input, in lists that grow.
		bounds.Hold(t, len(in), bounds.Limit{Fixed: 1 << 20, Factor: 512}, func() {
			v, err := Load(in)
			if err != nil {
				var e *Error
				if !errors.As(err, &e) {
					t.Fatalf("untyped error %v", err)
				}
				return
			}
			plain(v, 3)
		})
	})
}
