package engine

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"
	"unsafe"

	"github.com/goagnes/goagnes/capi/control"
	"github.com/goagnes/goagnes/goagnes"
)

// await runs one task to its end and returns its result.
func await(t *testing.T, kind string, request any) (map[string]any, error) {
	t.Helper()
	text, err := json.Marshal(request)
	if err != nil {
		t.Fatal(err)
	}
	task, err := Plane().Start(kind, string(text))
	if err != nil {
		return nil, err
	}
	for {
		text, err := Plane().Poll(task, 50*time.Millisecond)
		if err != nil {
			t.Fatal(err)
		}
		var s control.Status
		if err := json.Unmarshal([]byte(text), &s); err != nil {
			t.Fatal(err)
		}
		switch s.State {
		case "done":
			result, _ := s.Result.(map[string]any)
			return result, nil
		case "failed":
			return nil, errors.New(s.Error)
		}
	}
}

// describe is what Python sends for a C-ordered array in memory.
func describe[T any](values []T, dtype string, shape ...int64) map[string]any {
	size := int64(unsafe.Sizeof(values[0]))
	strides := make([]int64, len(shape))
	for i := len(shape) - 1; i >= 0; i-- {
		strides[i] = size
		size *= shape[i]
	}
	return map[string]any{"address": uint64(uintptr(unsafe.Pointer(&values[0]))), "dtype": dtype, "shape": shape,
		"strides": strides, "big_endian": false}
}

// A store is built from memory and read back through the plane, as Python does.
func TestBuildAndLoad(t *testing.T) {
	var pins runtime.Pinner
	defer pins.Unpin()
	edges := []int64{0, 1, 2, 3, 0, 1, 2, 3, 0, 2} // 0→1, 1→2, 2→3, 3→0, 0→2
	x := []float32{0, 1, 10, 11, 20, 21, 30, 31}
	train := []int64{3, 1}
	pins.Pin(&edges[0])
	pins.Pin(&x[0])
	pins.Pin(&train[0])
	path := filepath.Join(t.TempDir(), "s")
	_, err := await(t, "build", map[string]any{"path": path, "edge_index": describe(edges, "int64", 2, 5),
		"x": describe(x, "float32", 4, 2), "splits": map[string]any{"train": describe(train, "int64", 2)}, "memory": 64 << 20})
	if err != nil {
		t.Fatal(err)
	}
	if report, err := await(t, "verify", map[string]any{"path": path}); err != nil || report["build_id"] == "" {
		t.Errorf("verify: %v, %v", report, err)
	}
	opened, err := await(t, "open", map[string]any{"path": path, "memory": 64 << 20})
	if err != nil {
		t.Fatal(err)
	}
	store := int64(opened["store"].(float64))
	defer func() {
		if err := Plane().CloseStore(store); err != nil {
			t.Error(err)
		}
		if n := Plane().Open(); n != 0 {
			t.Errorf("%d handles are left", n)
		}
	}()
	mask := []bool{false, true, false, true}
	ids := []int64{1, 3}
	pins.Pin(&mask[0])
	pins.Pin(&ids[0])
	address := func(p unsafe.Pointer, n int) map[string]any {
		return map[string]any{"address": uint64(uintptr(p)), "length": n}
	}
	for _, c := range []struct {
		name  string
		input map[string]any
		want  string // x of the seeds
	}{
		{"split", map[string]any{"split": "train"}, "[30 31 10 11]"},
		{"mask", map[string]any{"mask": address(unsafe.Pointer(&mask[0]), 4)}, "[10 11 30 31]"},
		{"ids", map[string]any{"ids": address(unsafe.Pointer(&ids[0]), 2)}, "[10 11 30 31]"},
		{"none of them", map[string]any{"ids": map[string]any{"length": 0}}, "[]"},
	} {
		made, err := await(t, "loader", map[string]any{"store": store, "num_neighbors": []int{-1}, "input_nodes": c.input,
			"batch_size": 4, "seed": uint64(1<<64 - 1), "edge_ids": true})
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		loader := int64(made["loader"].(float64))
		epoch, err := Plane().Begin(loader)
		if err != nil {
			t.Fatal(err)
		}
		b, err := Plane().Next(loader, epoch, 10*time.Second)
		got := "[]"
		if err == nil {
			for _, a := range b.Arrays {
				if a.Name == "x" {
					got = fmt.Sprint(unsafe.Slice((*float32)(a.Pointer), 2*b.BatchSize))
				}
			}
			b.Release()
		} else if !errors.Is(err, io.EOF) {
			t.Fatalf("%s: %v", c.name, err)
		}
		if got != c.want {
			t.Errorf("%s: features of the seeds %s; want %s", c.name, got, c.want)
		}
		if text, err := Plane().Describe(loader, "settings"); err != nil || !strings.Contains(text, `"seed":18446744073709551615`) {
			t.Errorf("%s: settings %s, %v", c.name, text, err)
		}
		if err := Plane().CloseLoader(loader); err != nil {
			t.Error(err)
		}
	}
}

func TestRequestsAreStrict(t *testing.T) {
	for _, kind := range []string{"build", "import", "generate", "verify", "train", "open"} {
		_, err := await(t, kind, map[string]any{"path": "x", "nonsense": 1})
		if err == nil || !strings.HasPrefix(err.Error(), "usage: ") || !strings.Contains(err.Error(), "nonsense") {
			t.Errorf("%s with an unknown field: %v", kind, err)
		}
	}
	if _, err := await(t, "dance", map[string]any{}); err == nil || !strings.Contains(err.Error(), "dance") {
		t.Errorf("unknown work: %v", err)
	}
	if _, err := await(t, "train", map[string]any{"model": "sage"}); err == nil || !strings.HasPrefix(err.Error(), "usage: store") {
		t.Errorf("training without a store: %v", err)
	}
}

// Descriptions of arrays cover exactly the bytes between the lowest and the
// highest element, and nonsense is refused.
func TestArrayDescriptions(t *testing.T) {
	values := make([]int32, 12)
	base := uint64(uintptr(unsafe.Pointer(&values[0])))
	for _, c := range []struct {
		name   string
		from   array
		bytes  int
		offset int64
	}{
		{"C order", array{Address: base, DType: "int32", Shape: []int64{3, 4}, Strides: []int64{16, 4}}, 48, 0},
		{"reversed", array{Address: base + 44, DType: "int32", Shape: []int64{12}, Strides: []int64{-4}}, 48, 44},
		{"both ways", array{Address: base + 32, DType: "int32", Shape: []int64{3, 2}, Strides: []int64{-16, 8}}, 44, 32},
		{"one element", array{Address: base, DType: "int32", Shape: []int64{1, 1}, Strides: []int64{-99, 1 << 62}}, 4, 0},
		{"scalar", array{Address: base, DType: "int32", Shape: nil, Strides: nil}, 4, 0},
		{"empty", array{Address: 0, DType: "int32", Shape: []int64{0, 5}, Strides: []int64{20, 4}}, 0, 0},
	} {
		in, err := c.from.input(c.name)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if m := in.Memory; len(m.Data) != c.bytes || m.Offset != c.offset {
			t.Errorf("%s: %d bytes, offset %d; want %d and %d", c.name, len(m.Data), m.Offset, c.bytes, c.offset)
		}
	}
	for name, from := range map[string]array{
		"type":             {Address: base, DType: "complex64", Shape: []int64{1}, Strides: []int64{8}},
		"strides":          {Address: base, DType: "int32", Shape: []int64{1, 2}, Strides: []int64{4}},
		"negative":         {Address: base, DType: "int32", Shape: []int64{-1}, Strides: []int64{4}},
		"no address":       {DType: "int32", Shape: []int64{3}, Strides: []int64{4}},
		"below zero":       {Address: 8, DType: "int32", Shape: []int64{4}, Strides: []int64{-4}},
		"overflow":         {Address: base, DType: "int32", Shape: []int64{1 << 62}, Strides: []int64{4}},
		"negative minimum": {Address: base, DType: "int32", Shape: []int64{2}, Strides: []int64{-1 << 63}},
		"sum of strides":   {Address: base, DType: "int32", Shape: []int64{2, 2, 2, 2}, Strides: []int64{1 << 60, 1 << 60, 1 << 60, 1 << 60}},
	} {
		var argument *goagnes.ArgumentError
		if _, err := from.input(name); !errors.As(err, &argument) || argument.Argument != name {
			t.Errorf("%s: %v; want an ArgumentError naming it", name, err)
		}
	}
	if in, err := (array{Path: "x.npy"}).input("x"); err != nil || in.File != "x.npy" {
		t.Errorf("a path: %+v, %v", in, err)
	}
	if in, err := (array{}).input("x"); err != nil || in.File != "" || in.Memory != nil {
		t.Errorf("nothing: %+v, %v", in, err)
	}
}
