package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"
)

func TestParseSize(t *testing.T) {
	for text, want := range map[string]int64{
		"1": 1, "4096": 4096, "1KiB": 1024, "288MiB": 288 << 20, "288 MiB": 288 << 20, " 2GiB ": 2 << 30,
		"1.5GiB": 3 << 29, "2GB": 2e9, "64k": 64 << 10, "1TiB": 1 << 40, "10B": 10, "1mib": 1 << 20,
	} {
		if got, err := parseSize(text); err != nil || got != want {
			t.Errorf("parseSize(%q) = %d, %v; want %d", text, got, err, want)
		}
	}
	for _, text := range []string{"0", "0.5", "", "MiB", "-1", "1XB", "1..5GiB", "NaN", "Inf", "1e300TiB", "12 34"} {
		if got, err := parseSize(text); err == nil {
			t.Errorf("parseSize(%q) = %d, want an error", text, got)
		}
	}
}

// TestSharedSizes holds parseSize to the table that Python's parser is held to.
func TestSharedSizes(t *testing.T) {
	raw, err := os.ReadFile(filepath.Join("..", "..", "..", "tests", "sizes.json"))
	if err != nil {
		t.Fatal(err)
	}
	var table struct {
		Sizes   map[string]int64
		Refused []string
	}
	if err := json.Unmarshal(raw, &table); err != nil || len(table.Sizes) == 0 || len(table.Refused) == 0 {
		t.Fatalf("tests/sizes.json: %v, %+v", err, table)
	}
	for text, want := range table.Sizes {
		if got, err := parseSize(text); err != nil || got != want {
			t.Errorf("parseSize(%q) = %d, %v; want %d", text, got, err, want)
		}
	}
	for _, text := range table.Refused {
		if got, err := parseSize(text); err == nil {
			t.Errorf("parseSize(%q) = %d, want an error", text, got)
		}
	}
}

func TestFormatSize(t *testing.T) {
	for n, want := range map[int64]string{0: "0 B", 999: "999 B", 1 << 20: "1 MiB", 3 << 29: "1.5 GiB", 1000: "0.977 KiB"} {
		if got := formatSize(n); got != want {
			t.Errorf("formatSize(%d) = %q, want %q", n, got, want)
		}
	}
}

func TestParse(t *testing.T) {
	type flags struct {
		memory  int64
		fanouts []int
		shuffle bool
		splits  map[string]string
		seed    *uint64
	}
	newSet := func(f *flags) *flag.FlagSet {
		f.splits = map[string]string{}
		set := flagSet("verb")
		set.Var(sizeValue{&f.memory}, "memory", "")
		set.Var(intsValue{&f.fanouts}, "num-neighbors", "")
		set.BoolVar(&f.shuffle, "shuffle", false, "")
		set.Var(namesValue{f.splits}, "split", "")
		set.Var(seedValue{&f.seed}, "seed", "")
		return set
	}
	t.Run("anywhere", func(t *testing.T) {
		var f flags
		args := strings.Fields("--memory 1MiB STORE --num-neighbors=10,-1,0 --shuffle SOURCE --split train=a.npy --split val=b=c.npy --seed 18446744073709551615")
		got, err := parse(newSet(&f), args, []string{"STORE", "SOURCE"})
		if err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(got, []string{"STORE", "SOURCE"}) {
			t.Errorf("positions %q", got)
		}
		if f.memory != 1<<20 || !reflect.DeepEqual(f.fanouts, []int{10, -1, 0}) || !f.shuffle || *f.seed != 1<<64-1 {
			t.Errorf("flags %+v", f)
		}
		if f.splits["train"] != "a.npy" || f.splits["val"] != "b=c.npy" {
			t.Errorf("splits %v", f.splits)
		}
	})
	t.Run("after two dashes", func(t *testing.T) {
		got, err := parse(newSet(&flags{}), []string{"--shuffle", "--", "--odd", "-name"}, []string{"STORE", "SOURCE"})
		if err != nil || !reflect.DeepEqual(got, []string{"--odd", "-name"}) {
			t.Errorf("positions %q, %v", got, err)
		}
	})
	for name, test := range map[string]struct{ args, want string }{
		"missing position": {"", "STORE is missing"},
		"extra position":   {"a b", `"b" is one argument too many`},
		"unknown flag":     {"a --fanout 3", "-fanout"},
		"bad size":         {"a --memory 3XB", "is not a size"},
		"bad list":         {"a --num-neighbors 1,x", "is not an integer"},
		"bad name":         {"a --split train", "is not NAME=FILE"},
		"name twice":       {"a --split t=x --split t=y", "given twice"},
		"bad seed":         {"a --seed -1", "is not a seed"},
		"missing value":    {"a --memory", "needs an argument"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := parse(newSet(&flags{}), strings.Fields(test.args), []string{"STORE"})
			var usage *usageError
			if !errors.As(err, &usage) || !strings.Contains(err.Error(), test.want) || !strings.HasPrefix(err.Error(), "verb: ") {
				t.Errorf("%q: error %v, want a usage error with %q", test.args, err, test.want)
			}
		})
	}
}

func TestProgress(t *testing.T) {
	now := time.Unix(0, 0)
	for _, terminal := range []bool{false, true} {
		var out bytes.Buffer
		p := &progress{w: &out, terminal: terminal, now: func() time.Time { return now }}
		for i := range 1000 {
			p.report("sort", int64(i), 1000)
			now = now.Add(20 * time.Millisecond) // 20 s in all
		}
		p.report("write", 0, 0)
		now = now.Add(10 * time.Second)
		p.report("write", 12, 0)
		p.clear()
		text := out.String()
		if terminal {
			if n := strings.Count(text, "\r"); n < 150 || n > 300 || !strings.Contains(text, "###") || strings.Contains(text, "\n") {
				t.Errorf("on a terminal: %d updates of one line expected, got %q…", 200, text[:min(len(text), 200)])
			}
			if !strings.Contains(text, strings.Repeat(".", barWidth)+" 12") {
				t.Error("a count without a total is not shown")
			}
			if !strings.HasSuffix(text, "\r\x1b[K") {
				t.Error("the bar is not taken away at the end")
			}
		} else if text != "sort   0 %\nsort  25 %\nsort  50 %\nsort  75 %\nwrite\nwrite 12\n" {
			t.Errorf("lines %q", text)
		}
	}
}
